"""S-prop2: what reaches S's neurons comes from labels, and what the neurons outside the large group receive."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import Counts, Values, lasting, watched_training
from iclab.papers.nonlinear.neurons import groups_of
from iclab.papers.selectors.laws import REACH, SelectorTheorems
from iclab.papers.selectors.settings import SelectorPaper
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Point, every_above, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, bound_claim
from iclab.study.rows import listed
from iclab.study.settings import Chosen

CUTS = {"source": "by where it comes from", "place": "by where it stands in the value, as (10) writes it"}
LOOKS = {
    (part, cut): Series(f"{part} part, by {cut}", PALETTE[i], line=False, size=45.0, hollow=cut == "place", mark=mark)
    for i, part in enumerate(("label", "feature"))
    for cut, mark in (("source", "circle"), ("place", "diamond"))
}


class LabelNorm(SelectorPaper):
    """S's prompts with labels of another norm than β."""

    label_norm: Annotated[float, Chosen("‖q‖, which is β in S")] = 3.0
    instead = {}

    def prompts(self, **changes: Any) -> Prompts:
        """Return prompts of S (3) with ‖q‖ of their own."""
        return super().prompts(**{"label_norm": self.label_norm} | changes)


class PartSettings(SelectorTheorems):
    """Settings of S-prop2."""

    label_norms: Annotated[Values, Chosen("‖q‖: that of T's figures and β, which S sets it to", grid=True)] = (1.0, 3.0)
    widths: Annotated[Counts, Chosen("m, so that ξ = 1/√m covers 0.025 to 0.2", grid=True)] = (25, 60, 150, 400, 1600)

    def quick(self) -> Self:
        """Return the quick edition; B stays."""
        return super().quick().replace(batch_size=self.batch_size)

    def with_label(self, norm: float) -> SelectorPaper:
        """Return the settings of a training with ‖q‖ = ``norm``."""
        return lasting(self.as_kind(LabelNorm, label_norm=norm), self.steps, REACH)


class Parts(Experiment[PartSettings]):
    """Label part and feature part, and rows of W_O W_V outside the large group."""

    id = "S-prop2"
    title = "The label part of what reaches a neuron, and the neurons that receive little"
    paper = (
        "Proposition 2: for a constant share of neurons the label part before the ReLU is larger than the feature part "
        "(10); for the others the whole is at most O(ξ)."
    )
    reading = (
        "A: mean label and feature part of what reaches neurons with the sign of the right answer, on training tasks, "
        "by where it comes from and by where it stands, for two norms of q. B: mean length of rows of W_O W_V shorter "
        "than 1, which bounds what those neurons receive, against the initial scale ξ = 1/√m of W_O; dashed, ∝ ξ. "
        "Points are means over seeds with 95 % intervals."
    )
    caption = "mean over seeds"
    theorems = ("S-prop2",)
    settings = PartSettings

    def conditions(self, settings: PartSettings) -> list[Condition]:
        """Return parts for every ‖q‖, and neurons for every m."""
        found = []
        for norm in settings.label_norms:
            training = watched_training(settings.with_label(norm), 1)
            columns = {"part": "parts", "x": norm}
            cell = {"probe": "parts", "prompts": training.prompts, "count": settings.test_prompts}
            found += in_groups(settings, columns, training, **cell)
        for width in settings.widths:
            training = watched_training(settings.at(neurons=width), 1)
            cell = {"probe": "neurons", "prompts": training.prompts, "count": 1}
            found += in_groups(settings, {"part": "neurons", "x": width}, training, **cell)
        return found

    def claims(self, settings: PartSettings) -> list[Claim]:
        """Return (10), read both ways, and the O(ξ)."""
        norms = listed(settings.label_norms)
        return [
            *(
                Claim(
                    f"S-prop2.{cut}",
                    "for a constant share of neurons the label part is larger than the feature part (10)",
                    f"mean label part − mean feature part > 0, {words}, ‖q‖ = {norms}",
                    judged(partial(_ahead, settings=settings, cut=cut), every_above, 0.0),
                )
                for cut, words in CUTS.items()
            ),
            bound_claim(
                "S-prop2.others",
                "what reaches the other neurons is at most O(ξ)",
                _small,
                1.0,
                seeds=settings.seeds,
                above=True,
                where=f"mean length of short rows of W_O W_V against ξ, m = {listed(settings.widths)}",
                fate="diverged or have none",
            ),
        ]

    def table(self, rows: list[Row], settings: PartSettings) -> list[dict[str, Any]]:
        """Return one line per ‖q‖, and one for the exponent in ξ."""
        lines = []
        for norm in settings.label_norms:
            line = {"‖q‖ or ξ": f"‖q‖ = {norm:g}"}
            for (part, cut), series in LOOKS.items():
                value = mean(_part(rows, norm, part, cut))
                line[series.name] = "–" if value is None else f"{value:.3f}".replace("-", "−")
            lines.append(line | {"exponent of short rows in ξ": ""})
        blank = dict.fromkeys((series.name for series in LOOKS.values()), "")
        text = fitted(PowerLaw(_small(rows)))["exponent"]
        return [*lines, {"‖q‖ or ξ": "ξ"} | blank | {"exponent of short rows in ξ": text}]

    def chart(self, rows: list[Row], settings: PartSettings) -> Figure:
        """Draw parts against ‖q‖ and short rows against ξ."""
        first = Panel(
            "A  parts before the ReLU", x=log_axis("‖q‖", settings.label_norms), y=Axis("mean part"), height=210
        )
        for (part, cut), series in LOOKS.items():
            measured(first, series, {norm: _part(rows, norm, part, cut) for norm in settings.label_norms})
        found = _small(rows)
        heights = [v for by_seed in found.values() for v in by_seed.values() if v]
        x, y = log_axis("ξ = 1/√m", found or (0.1, 1.0), decades=True), log_axis("mean length", heights, decades=True)
        second = Panel("B  rows of W_O W_V shorter than 1", x=x, y=y, height=210)
        claimed_line(second, found, 1.0)
        measured(second, Series("short rows", PALETTE[2], line=False, size=45.0), found)
        return Figure([first, second], columns=2, width=330)


def _part(rows: list[Row], norm: float, part: str, cut: str) -> BySeed:
    mine = of(rows, part="parts", x=norm)
    return {row["seed"]: None if row["diverged"] else row[f"{part}_by_{cut}"] for row in mine}


def _ahead(rows: list[Row], settings: PartSettings, cut: str) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for norm in settings.label_norms:
        label, feature = (_part(rows, norm, part, cut) for part in ("label", "feature"))
        found: BySeed = {}
        for seed, value in label.items():
            other = feature.get(seed)
            found[seed] = None if value is None or other is None else value - other
        named[f"‖q‖ = {norm:g}"] = found
    return mean_points(settings.seeds, named)


def _small(rows: list[Row]) -> dict[float, BySeed]:
    """Return each seed's mean length of rows of W_O W_V outside the large group, by ξ; None without any."""
    neurons: dict[float, dict[int, list[Row]]] = {}
    for row in of(rows, part="neurons"):
        mine = neurons.setdefault(row["x"] ** -0.5, {}).setdefault(row["seed"], [])
        mine.extend([] if row["diverged"] else [row])
    answer: dict[float, BySeed] = {}
    for scale, by_seed in sorted(neurons.items()):
        answer[scale] = {}
        for seed, found in by_seed.items():
            small = groups_of(found)[1]
            answer[scale][seed] = sum(n["length"] for n in small) / len(small) if small else None
    return answer
