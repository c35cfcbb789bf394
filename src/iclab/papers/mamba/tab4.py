"""M-tab4: three layers of softmax attention against the fraction of outliers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import matplotlib as mpl
from matplotlib.figure import Figure
from pydantic import Field

from iclab.papers.mamba.placements import (
    UNPRINTED,
    Column,
    Numbers,
    PlacementTable,
    ahead,
    at_least,
    legend,
    mark_print,
    marks,
    near_print,
)
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper
from iclab.probes import Row
from iclab.study import style
from iclab.study.claims import Claim
from iclab.study.rows import listed, proportion
from iclab.study.settings import Different, Disclosed

NEAR = 0.02
"""How near to a printed number counts as the same: seeds differ by about as much."""
DROP = 0.1
"""The paper: "the sharp drop in test accuracy when α > 1/2". Read as: more than this, from α ≤ 1/2 to the largest α."""

# The paper's numbers by α. Its headings stand one column too far right. CQ at 0.8 repeats 0.4's 99.60: left out.
SOFTMAX: dict[float, Numbers] = {
    0.4: (99.60, 99.63, 99.60),
    0.5: (99.40, 99.26, 99.38),
    0.6: (99.14, 99.02, 99.12),
    0.7: (98.40, 98.04, 98.24),
    0.8: (94.80, 95.58, None),
}


class FractionSettings(DeepMambaPaper):
    """M-tab4 and M-tab5."""

    dimension: Annotated[int, Disclosed("d, M B.1")] = 72
    outlier_fractions: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Disclosed("α, M Tables 4 and 5, whose headings are shifted by one column", grid=True),
    ] = (0.4, 0.5, 0.6, 0.7, 0.8)

    def quick(self) -> Self:
        """Return the quick edition: at the dimension of M-tab1, whose models it then shares."""
        return super().quick().replace(dimension=min(self.dimension, 30))


def name_of(fraction: float) -> str:
    """Name a column."""
    return f"α = {fraction:g}"


def by_column(model: str, printed: Mapping[float, Numbers]) -> dict[tuple[str, str], Numbers]:
    """Sort the paper's numbers by column and model."""
    return {(name_of(fraction), model): numbers for fraction, numbers in printed.items()}


class FractionTable(PlacementTable[FractionSettings]):
    """One model against α."""

    model: ClassVar[str]
    printed: ClassVar[Mapping[float, Numbers]]
    settings = FractionSettings

    def columns(self, settings: FractionSettings) -> list[Column]:
        """Return a column for each α."""
        return [Column(name_of(f), settings.replace(outlier_fraction=f)) for f in settings.outlier_fractions]

    def models(self, settings: FractionSettings) -> tuple[str, ...]:
        """One model alone."""
        return (self.model,)

    def cell(self, fraction: float, placement: str, stage: str = "trained") -> dict[str, Any]:
        """Pick out one cell."""
        model = "vote" if stage == "vote" else self.model
        return {"column": name_of(fraction), "model": model, "stage": stage, "placement": placement}

    def printed_cells(self, settings: FractionSettings, stage: str = "trained") -> list[tuple[dict[str, Any], float]]:
        """Pair every cell with what the paper prints for it; what it misprints is left out."""
        return [
            (self.cell(fraction, place, stage), number / 100)
            for fraction in settings.outlier_fractions
            for place, number in zip(PLACEMENTS.values(), self.printed.get(fraction, ()), strict=False)
            if number is not None
        ]

    def ends(self, settings: FractionSettings) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pair the largest α up to 1/2 with the largest beyond, at each placement; nothing if either is missing."""
        low = max((f for f in settings.outlier_fractions if f <= 0.5), default=None)
        high = max((f for f in settings.outlier_fractions if f > 0.5), default=None)
        if low is None or high is None:
            return []
        return [(self.cell(low, place), self.cell(high, place)) for place in PLACEMENTS.values()]

    def draw(self, rows: list[Row], settings: FractionSettings) -> Figure:
        """Draw accuracy against α, a panel a placement."""
        with mpl.rc_context(style.RC):
            return _draw(self, rows, settings)


class SoftmaxFractions(FractionTable):
    """Softmax attention."""

    id = "M-tab4"
    title = "Accuracy of three layers of softmax attention against the fraction of outliers"
    paper = (
        "Softmax attention avoids the sharp drop in accuracy of linear attention when α > 1/2: at R 99.63, 99.26, "
        "99.02, 98.04, 95.58 % for α = 0.4 … 0.8."
    )
    reading = (
        "A panel a placement; marks as in M-tab1. The paper's headings stand one column too far right, so that its "
        "first numbers have none and 0.8 is missing; they are read from 0.4 on. Its CQ at 0.8 repeats the 99.60 of 0.4 "
        "and is left out; its CQ at 0.5 is 99.38 here and 99.28 in M-tab3."
    )
    model = "deep-softmax"
    printed = SOFTMAX
    numbers = by_column(model, SOFTMAX)

    def claims(self, settings: FractionSettings) -> list[Claim]:
        """No sharp drop; and the numbers."""
        upto = [f for f in settings.outlier_fractions if f <= 0.7]
        return [
            Claim(
                "M-tab4.no-sharp-drop",
                "softmax attention avoids the sharp drop when α > 1/2",
                f"accuracy at the largest α less than {DROP} below that at α ≤ 1/2, on paired seeds",
                ahead(settings.seeds, -DROP, [(high, low) for low, high in self.ends(settings)]),
            ),
            Claim(
                "M-tab4.high",
                "98.04 % and more up to α = 0.7",
                f"accuracy > 0.97 at α = {listed(upto)}",
                at_least(settings.seeds, 0.97, [self.cell(f, p) for f in upto for p in PLACEMENTS.values()]),
            ),
            Claim(
                "M-tab4.numbers",
                "all numbers of Table 4 but CQ at 0.8",
                f"within {NEAR} of each of the paper's numbers",
                near_print(settings.seeds, NEAR, self.printed_cells(settings)),
            ),
        ]


def _draw(table: FractionTable, rows: list[Row], settings: FractionSettings) -> Figure:
    figure = Figure(figsize=(9.7, 3.9), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    fractions = [f for f in settings.outlier_fractions if any(row["column"] == name_of(f) for row in rows)]
    for number, (panel, place) in enumerate(zip(axes, PLACEMENTS.values(), strict=True)):
        style.grid(panel)
        here = [row for row in rows if row["placement"] == place]
        votes, means, xs = [], [], []
        for fraction in fractions:
            cell = [row for row in here if row["column"] == name_of(fraction)]
            marks(panel, cell, table.model, fraction, style.colour(table.model, []))
            vote, mean = proportion(cell, stage="vote"), proportion(cell, stage="trained")
            if vote is not None and vote.mean is not None and mean is not None and mean.mean is not None:
                xs.append(fraction)
                votes.append(100 - 100 * vote.mean)
                means.append(100 - 100 * mean.mean)
            mark_print(panel, fraction, table.printed.get(fraction, UNPRINTED)[number])
        panel.plot(xs, votes, **style.DASHED)
        panel.plot(xs, means, color=style.colour(table.model, []), linewidth=1.2)
        panel.set_title(place, fontweight="bold")
        panel.set_xlabel("fraction of outliers α")
        panel.set_xticks(fractions)
    axes[0].set_ylabel("accuracy, %")
    legend(figure, [table.model], rows, any(fraction in table.printed for fraction in fractions))
    style.title(figure, table.id, table.title, rows, settings)
    return figure
