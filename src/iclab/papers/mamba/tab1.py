"""M-tab1: three layers of Mamba and of linear attention, with outliers far from the query, anywhere, and close."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from iclab.papers.mamba.placements import Column, PlacementTable, ahead, at_least, between, flat
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.study.claims import Claim
from iclab.study.settings import Chosen, Different, Disclosed

ColumnName = Literal[
    "as chosen",
    "labels flipped",
    "κ_a' = 2",
    "seen outliers",
    "U = 1",
    "outlier norm 1",
    "norm exchanged",
    "step size × 5",
]
TESTS_ONLY: tuple[ColumnName, ...] = ("as chosen", "labels flipped", "κ_a' = 2", "seen outliers")
"""Columns that differ in their tests alone, and need no training of their own."""
CLEARLY = 0.02
"""The paper: Mamba is "clearly better" at FQ and R. Read as: by more than two points."""


class TableSettings(DeepMambaPaper):
    """A table of several models, with further columns for what the paper does not say."""

    models: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Disclosed("M Table 1 has the first two; softmax attention is M-tab3's, shown here for its further columns"),
    ] = ("deep-mamba", "deep-linear", "deep-softmax")
    columns: Annotated[
        tuple[ColumnName, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "one change at a time, for every model: flipped test labels; test outliers as strong as in training; "
            "the training outliers themselves; one step round the ring (M1 tasks) in training; outlier patterns a "
            "third as long; a norm for the model that has none, and none for one that has; and for Mamba, whose drop "
            "at CQ depends on it, steps five times as large",
            grid=True,
        ),
    ] = (*TESTS_ONLY, "U = 1", "outlier norm 1", "norm exchanged", "step size × 5")

    def column(self, name: ColumnName) -> Column:
        """Return a column by its name."""
        changes: dict[ColumnName, dict[str, Any]] = {
            "as chosen": {},
            "labels flipped": {"outlier_labels": "flip"},
            "κ_a' = 2": {"test_outlier_scale": 2.0},
            "seen outliers": {"test_outliers": "training"},
            "U = 1": {"train_tasks": "ring:1"},
            "outlier norm 1": {"outlier_norm": 1.0},
            "norm exchanged": {
                "architectures": {
                    model: {**options, "norm": "none" if self.model(model).options.get("norm") == "rms" else "rms"}
                    for model, options in self.architectures.items()
                }
            },
            "step size × 5": {"step_sizes": {model: 5 * size for model, size in self.step_sizes.items()}},
        }
        about = {"norm exchanged": tuple(self.architectures), "step size × 5": ("deep-mamba",)}
        return Column(name, self.replace(**changes[name]), name in ("as chosen", "labels flipped"), about.get(name))

    def quick(self) -> Self:
        """Return the quick edition: the first columns that need no further training."""
        fewer = tuple(name for name in self.columns if name in TESTS_ONLY[:2]) or self.columns
        return super().quick().replace(columns=fewer)


class ModelTable(PlacementTable[TableSettings]):
    """A table of several models, column by column."""

    def columns(self, settings: TableSettings) -> list[Column]:
        """Return the columns asked for."""
        return [settings.column(name) for name in settings.columns]

    def models(self, settings: TableSettings) -> tuple[str, ...]:
        """Return the models asked for."""
        return settings.models


def cell(model: str, placement: str, column: ColumnName = "as chosen", stage: str = "trained") -> dict[str, str]:
    """Pick out one cell."""
    return {"column": column, "model": model, "stage": stage, "placement": placement}


class MambaAndLinear(ModelTable):
    """Mamba against the linear Transformer."""

    id = "M-tab1"
    title = "Accuracy of three layers by the place of the outliers"
    paper = (
        "With half of the examples outliers, Mamba reaches 99.73 (FQ), 99.67 (R) and 82.73 % (CQ), the linear "
        "Transformer 93.68, 94.12 and 93.96 %: Mamba is clearly better at FQ and R, and drops at CQ; the linear one "
        "does not mind where outliers stand."
    )
    reading = (
        "One panel a setting; the first is the paper's as far as it is said. Dots are means over seeds with their "
        "interval, faint dots are seeds, diamonds the paper's numbers, crosses the untrained models, the dashed line "
        "a plain vote of the examples that share the query's pattern."
    )
    settings = TableSettings
    numbers = {
        ("as chosen", "deep-mamba"): (99.73, 99.67, 82.73),
        ("as chosen", "deep-linear"): (93.68, 94.12, 93.96),
    }

    def claims(self, settings: TableSettings) -> list[Claim]:
        """What the paper reads out of the table, and where the linear model stands."""
        n, mamba, linear = settings.seeds, "deep-mamba", "deep-linear"
        claims = [
            Claim(
                "M-tab1.mamba-fq",
                "Mamba, FQ: 99.73 %",
                "accuracy > 0.99 at FQ",
                at_least(n, 0.99, [cell(mamba, "FQ")]),
                models=(mamba,),
            ),
            Claim(
                "M-tab1.mamba-r",
                "Mamba, R: 99.67 %",
                "accuracy > 0.98 at R",
                at_least(n, 0.98, [cell(mamba, "R")]),
                models=(mamba,),
            ),
            Claim(
                "M-tab1.mamba-cq-drop",
                "Mamba drops significantly at CQ: 82.73 %",
                "accuracy at CQ more than 0.08 below FQ and R, on paired seeds",
                ahead(n, 0.08, [(cell(mamba, place), cell(mamba, "CQ")) for place in ("FQ", "R")]),
                models=(mamba,),
            ),
            Claim(
                "M-tab1.mamba-cq-drop.larger-steps",
                "the same after steps five times as large",
                "accuracy at CQ more than 0.08 below FQ and R, on paired seeds",
                ahead(
                    n,
                    0.08,
                    [
                        (cell(mamba, place, "step size × 5"), cell(mamba, "CQ", "step size × 5"))
                        for place in ("FQ", "R")
                    ],
                ),
                models=(mamba,),
                ours=True,
            ),
            Claim(
                "M-tab1.linear-flat",
                "the linear Transformer is much less affected by the place: 93.68, 94.12, 93.96 % (it must be, if it "
                "sees all examples at once: it does not know their order)",
                "placements differ by less than 0.01, on paired seeds",
                flat(n, 0.01, {"column": "as chosen", "model": linear, "stage": "trained"}),
                models=(linear,),
            ),
            Claim(
                "M-tab1.mamba-better",
                "Mamba is clearly better than the linear Transformer at FQ and R",
                f"Mamba − linear > {CLEARLY} at FQ and R, on paired seeds",
                ahead(n, CLEARLY, [(cell(mamba, place), cell(linear, place)) for place in ("FQ", "R")]),
                models=(mamba, linear),
            ),
            Claim(
                "M-tab1.mamba-better.flipped",
                "the more so where labels are flipped",
                "Mamba − linear > 0.1 at FQ and R under flipped labels, on paired seeds",
                ahead(
                    n,
                    0.1,
                    [
                        (cell(mamba, place, "labels flipped"), cell(linear, place, "labels flipped"))
                        for place in ("FQ", "R")
                    ],
                ),
                models=(mamba, linear),
                ours=True,
            ),
            Claim(
                "M-tab1.mamba-better.both-with-norm",
                "the same where the linear model has a norm too",
                f"Mamba − linear with a norm > {CLEARLY} at FQ and R, on paired seeds",
                ahead(
                    n,
                    CLEARLY,
                    [(cell(mamba, place), cell(linear, place, "norm exchanged")) for place in ("FQ", "R")],
                ),
                models=(mamba, linear),
                ours=True,
            ),
            Claim(
                "M-tab1.mamba-better.neither-with-norm",
                "the same where neither has a norm",
                f"Mamba without a norm − linear > {CLEARLY} at FQ and R, on paired seeds",
                ahead(
                    n,
                    CLEARLY,
                    [(cell(mamba, place, "norm exchanged"), cell(linear, place)) for place in ("FQ", "R")],
                ),
                models=(mamba, linear),
                ours=True,
            ),
            Claim(
                "M-tab1.mamba-beats-vote",
                "Mamba does better than a plain vote",
                f"Mamba − vote > {CLEARLY} at FQ and R, on paired seeds",
                ahead(n, CLEARLY, [(cell(mamba, place), cell("vote", place, stage="vote")) for place in ("FQ", "R")]),
                models=(mamba,),
                ours=True,
            ),
        ]
        levels: dict[str, ColumnName] = {"U3": "as chosen", "U1": "U = 1"}
        for name, column in levels.items():
            claims.append(
                Claim(
                    f"M-tab1.linear-level.{name}",
                    "the linear Transformer: 93.68, 94.12, 93.96 %",
                    f"accuracy between 0.93 and 0.955 at FQ, R and CQ, trained on ring:{name[1]}",
                    between(n, 0.93, 0.955, [cell(linear, place, column) for place in ("FQ", "R", "CQ")]),
                    models=(linear,),
                )
            )
        return claims
