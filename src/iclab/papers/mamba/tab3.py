"""M-tab3: three layers of softmax attention, Mamba and linear attention."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from iclab.papers.mamba.placements import ahead, alike, at_least, flat
from iclab.papers.mamba.tab1 import CLEARLY, ColumnName, ModelTable, TableSettings, cell
from iclab.study.claims import Claim, Direction
from iclab.study.settings import Chosen, Different, Disclosed


class SoftmaxTableSettings(TableSettings):
    """Settings of M-tab3."""

    dimension: Annotated[
        int, Disclosed("d, M B.1; the printed Mamba and linear numbers are those of M-tab1, at d = 30")
    ] = 72
    columns: Annotated[
        tuple[ColumnName, ...],
        Field(min_length=1),
        Different,
        Chosen("M-tab1 has the other columns, for the same models at d = 30", grid=True),
    ] = ("as chosen", "labels flipped")

    def quick(self) -> Self:
        """Return the quick edition: the dimension of M-tab1, to share its models."""
        return super().quick().replace(dimension=min(self.dimension, 30))


class WithSoftmax(ModelTable):
    """Three kinds of attention."""

    id = "M-tab3"
    title = "Accuracy of three layers of Mamba, linear and softmax attention"
    paper = (
        "Softmax attention reaches 99.40 (FQ), 99.26 (R) and 99.28 % (CQ): better than linear attention, close to "
        "Mamba, and without its drop at CQ."
    )
    reading = (
        "As in M-tab1, with softmax attention, at d = {dimension}. For Mamba and linear attention, the paper prints "
        "the numbers of M-tab1; iclab trains them again at this d. The paper's CQ number for softmax is 99.28 here and "
        "99.38 in M-tab4."
    )
    settings = SoftmaxTableSettings
    numbers = {
        ("as chosen", "deep-mamba"): (99.73, 99.67, 82.73),
        ("as chosen", "deep-linear"): (93.68, 94.12, 93.96),
        ("as chosen", "deep-softmax"): (99.40, 99.26, 99.28),
    }

    def claims(self, settings: SoftmaxTableSettings) -> list[Claim]:  # type: ignore[override]
        """Return the paper's claims about softmax attention and Mamba."""
        n, mamba, linear, softmax = settings.seeds, "deep-mamba", "deep-linear", "deep-softmax"
        places = ("FQ", "R", "CQ")
        better = [(cell(softmax, place), cell(linear, place)) for place in places]
        drops = [(cell(mamba, place), cell(mamba, "CQ")) for place in ("FQ", "R")]
        return [
            Claim(
                "M-tab3.softmax-high",
                "softmax: 99.40, 99.26, 99.28 %",
                "accuracy > 0.985 at FQ, R and CQ",
                at_least(n, 0.985, [cell(softmax, place) for place in places]),
                models=(softmax,),
            ),
            Claim(
                "M-tab3.softmax-flat",
                "no significant accuracy drop in the CQ setting for softmax attention (this must be so if it sees all "
                "examples at once, because it does not know their order)",
                "placements differ by less than 0.005, on paired seeds",
                flat(n, 0.005, {"column": "as chosen", "model": softmax, "stage": "trained"}),
                models=(softmax,),
            ),
            Claim(
                "M-tab3.softmax-better",
                "softmax attention is better than linear attention",
                f"softmax − linear > {CLEARLY} at FQ, R and CQ, on paired seeds",
                ahead(n, CLEARLY, better),
                models=(softmax, linear),
                direction=Direction("softmax better", ahead(n, 0.0, better)),
            ),
            Claim(
                "M-tab3.softmax-near-mamba",
                "softmax attention is close to Mamba",
                "softmax and Mamba differ by less than 0.01 at FQ and R, on paired seeds",
                alike(n, 0.01, [(cell(softmax, place), cell(mamba, place)) for place in ("FQ", "R")]),
                models=(softmax, mamba),
            ),
            Claim(
                "M-tab3.mamba-cq-drop",
                "Mamba is more vulnerable to outliers near the query",
                "Mamba's accuracy at CQ more than 0.08 below FQ and R, on paired seeds",
                ahead(n, 0.08, drops),
                models=(mamba,),
                direction=Direction("below FQ and R", ahead(n, 0.0, drops)),
            ),
        ]
