"""Numbers of three-layer models that several pages print."""

from __future__ import annotations

from quotes.sources import Number, claim, rows

PLACES = ("FQ", "R", "CQ")
MAMBA, LINEAR, SOFTMAX, VOTE = "deep-mamba", "deep-linear", "deep-softmax", "vote"


def accuracy(
    model: str, place: str, column: str = "as chosen", stage: str = "trained", table: str = "M-tab1"
) -> Number:
    """The share of right answers in % of a model in one of the paper's tables, by place of the outliers."""
    stage = "vote" if model == VOTE else stage
    return rows(table, column=column, model=model, stage=stage, placement=place).accuracy


def accuracies(model: str, column: str = "as chosen", stage: str = "trained", table: str = "M-tab1") -> list[Number]:
    """The same at FQ, R and CQ."""
    return [accuracy(model, place, column, stage, table) for place in PLACES]


def hybrid(layers: str, column: str, place: str) -> Number:
    """The share of right answers in % of layers in an order, in M-hybrid."""
    return rows("M-hybrid", model=layers, column=column, placement=place).accuracy


GATES = [
    claim("M-fig4.outlier-small.layer1"),
    claim("M-fig6.outlier-small.layer2"),
    claim("M-fig6.outlier-small.layer3"),
]
"""Gate of an outlier over that of a clean example in three layers."""
ONE_LAYER, ONE_LAYER_NORM = claim("M-fig4.outlier-small.one-layer"), claim("M-fig4.outlier-small.one-layer.norm")
