"""What the tables of deep models share: accuracy with outliers farthest from the query (FQ), anywhere (R), closest.

A table has columns, which are settings, and in each the same models, trained and tested alike. Beside them stand the
paper's numbers and two yardsticks: the untrained model, and a plain vote of examples that share the query's pattern.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from iclab.lab import MeasurementCell, TrainingCell
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper
from iclab.probes import Interval, Row
from iclab.study.charts import FAINT, PRINTED, Axis, Figure, Panel, Series, name_of, reference, series_of
from iclab.study.claims import Judge, Point, every_above, every_within, judged
from iclab.study.experiment import Condition, Experiment
from iclab.study.rows import errors, paired_points, proportion

D = TypeVar("D", bound=DeepMambaPaper)

Numbers = tuple[float | None, float | None, float | None]
"""Accuracy in %, at FQ, R and CQ, as the paper prints it."""
UNPRINTED: Numbers = (None, None, None)
Where = Mapping[str, Any]
"""Values of row columns that pick out one cell of a table."""


@dataclass(frozen=True)
class Column:
    """One way to train and test every model of a table."""

    name: str
    settings: DeepMambaPaper
    yardsticks: bool = True
    """Whether the untrained models and the vote are measured here too."""
    models: tuple[str, ...] | None = None
    """Which models it is about; by default all of the table."""


class PlacementTable(Experiment[D]):
    """A table of accuracies by placement."""

    caption = "accuracy in %, mean and 95 % interval; 'as trained' is on prompts like the last of the training"
    numbers: ClassVar[Mapping[tuple[str, str], Numbers]] = {}
    """The paper's numbers by column and model."""

    @abstractmethod
    def columns(self, settings: D) -> list[Column]:
        """Return the table's columns."""

    @abstractmethod
    def models(self, settings: D) -> tuple[str, ...]:
        """Return the models of each column."""

    def conditions(self, settings: D) -> list[Condition]:
        """Every column's models at every placement, with the yardsticks and the accuracy on training prompts."""
        found = []
        for column in self.columns(settings):
            chosen = column.settings
            covered = [m for m in self.models(settings) if column.models is None or m in column.models]
            for number, model in enumerate(covered):
                training = chosen.training(model)
                last = training.prompts_at(training.recipe.steps)
                for cell in TrainingCell.groups(training, chosen.seeds):
                    wanted: list[tuple[str, str, str, int | None]]
                    wanted = [("trained", place, "error", None) for place in PLACEMENTS]
                    if column.yardsticks:
                        wanted += [("untrained", place, "error", 0) for place in PLACEMENTS]
                    if column.yardsticks and number == 0:  # the vote asks no model
                        wanted += [("vote", place, "vote", 0) for place in PLACEMENTS]
                    wanted += [("trained", "as trained", "error", None)]
                    for stage, place, probe, at in wanted:
                        prompts = last if place == "as trained" else chosen.placed(place)
                        columns = {
                            "column": column.name,
                            "model": "vote" if stage == "vote" else training.model.label,
                            "stage": stage,
                            "placement": PLACEMENTS.get(place, place),
                        }
                        measurement = MeasurementCell(
                            training=cell, probe=probe, prompts=prompts, count=chosen.test_prompts, at=at
                        )
                        found.append(Condition(columns, measurement))
        return found

    def table(self, rows: list[Row], settings: D) -> list[dict[str, Any]]:
        """A line a model of each column, in percent, with the paper's numbers and the yardsticks below."""
        lines = []
        for column in self.columns(settings):
            here = [row for row in rows if row["column"] == column.name]
            for model in dict.fromkeys(row["model"] for row in here):
                for stage in dict.fromkeys(row["stage"] for row in here if row["model"] == model):
                    cells = {
                        place: _text(here, model=model, stage=stage, placement=place)
                        for place in (*PLACEMENTS.values(), "as trained")
                    }
                    lines.append({"setting": column.name, "model": _name(model, stage), **cells})
                    printed = self.numbers.get((column.name, model))
                    if printed and stage == "trained":
                        theirs = {
                            place: "–" if value is None else f"{value:.2f}"
                            for place, value in zip(PLACEMENTS.values(), printed, strict=True)
                        }
                        lines.append({"setting": column.name, "model": "  the paper", **theirs, "as trained": ""})
        return lines

    def chart(self, rows: list[Row], settings: D) -> Figure:
        """One panel per column: each model's accuracy at the three placements."""
        names = [c.name for c in self.columns(settings) if any(row["column"] == c.name for row in rows)]
        models = [m for m in dict.fromkeys(row["model"] for row in rows) if m != "vote"]
        lowest = min((100 - 100 * row["error"] for row in rows if row["error"] is not None), default=0.0)
        scale = Axis("accuracy, %", domain=(max(0.0, lowest - 3), 103))
        panels = [self._panel(rows, models, name, scale) for name in names]
        return Figure(panels, columns=min(len(panels), 3), width=270 if len(panels) > 1 else 420)

    def _panel(self, rows: list[Row], models: list[str], column: str, scale: Axis) -> Panel:
        places = tuple(PLACEMENTS.values())
        panel = Panel(column, x=Axis(domain=(-0.5, 2.5), ticks=dict(enumerate(places))), y=scale)
        width = 0.7 / max(len(models), 1)
        for x, place in enumerate(places):
            here = [row for row in rows if row["column"] == column and row["placement"] == place]
            vote = proportion(here, stage="vote")
            if vote is not None and vote.mean is not None:
                panel.step(VOTE, x - 0.42, x + 0.42, 100 - 100 * vote.mean)
            for i, model in enumerate(models):
                at = x + (i - (len(models) - 1) / 2) * width
                draw_cell(panel, here, model, models, at)
                draw_printed(panel, at, self.numbers.get((column, model), UNPRINTED)[x])
        return panel


def _name(model: str, stage: str) -> str:
    if stage == "vote":
        return "plain vote"
    return name_of(model) if stage == "trained" else "  untrained"


def _text(rows: list[Row], **where: Any) -> str:
    p = proportion(rows, **where)
    if p is None:
        return ""
    lost = f", {p.diverged} diverged" if p.diverged else ""
    if p.mean is None:
        return f"none{lost}"
    return f"{100 - 100 * p.mean:.2f} [{100 - 100 * p.interval.high:.1f}, {100 - 100 * p.interval.low:.1f}]{lost}"


# Judging.


def told(where: Where) -> str:
    """Name a cell of the table for people."""
    model = where.get("model", "")
    name = "plain vote" if model == "vote" else name_of(model)
    return ", ".join(part for part in (where.get("column", ""), name, where.get("placement", "")) if part)


def _accuracies(rows: list[Row], seeds: int, cells: Sequence[Where]) -> list[Point] | None:
    points = []
    for where in cells:
        p = proportion(rows, **where)
        if p is None or len(p.per_seed) < seeds:
            return None
        interval = Interval(1 - p.interval.high, 1 - p.interval.low)
        points.append(Point(None if p.mean is None else 1 - p.mean, interval, told(where), p.diverged))
    return points


def _differences(rows: list[Row], seeds: int, pairs: Sequence[tuple[Where, Where]]) -> list[Point] | None:
    """Accuracy of the first cell minus that of the second, on paired seeds."""
    named = [(f"{told(a)} − {told(b)}", errors(rows, **b), errors(rows, **a)) for a, b in pairs]
    return paired_points(named, seeds)


def at_least(seeds: int, margin: float, cells: Sequence[Where]) -> Judge:
    """Judge that accuracy lies above a margin in every cell."""
    return judged(partial(_accuracies, seeds=seeds, cells=cells), every_above, margin)


def between(seeds: int, low: float, high: float, cells: Sequence[Where]) -> Judge:
    """Judge that accuracy lies between two margins in every cell."""
    return judged(partial(_accuracies, seeds=seeds, cells=cells), every_within, low, high)


def ahead(seeds: int, margin: float, pairs: Sequence[tuple[Where, Where]]) -> Judge:
    """Judge that in every pair the first cell is more accurate than the second by more than a margin."""
    return judged(partial(_differences, seeds=seeds, pairs=pairs), every_above, margin)


def alike(seeds: int, margin: float, pairs: Sequence[tuple[Where, Where]]) -> Judge:
    """Judge that in every pair accuracies differ by less than a margin."""
    return judged(partial(_differences, seeds=seeds, pairs=pairs), every_within, -margin, margin)


def near_print(seeds: int, margin: float, printed: Sequence[tuple[Where, float]]) -> Judge:
    """Judge that every cell lies within a margin of the number the paper prints for it."""

    def off(rows: list[Row]) -> list[Point] | None:
        points = _accuracies(rows, seeds, [where for where, _ in printed])
        return points and [
            Point(
                None if p.value is None else p.value - number,
                Interval(p.interval.low - number, p.interval.high - number),
                f"{p.where}, ours − the paper's",
                p.diverged,
            )
            for p, (_, number) in zip(points, printed, strict=True)
        ]

    return judged(off, every_within, -margin, margin)


def flat(seeds: int, margin: float, where: Where) -> Judge:
    """Judge that no two placements differ by a margin or more."""
    places = [{**where, "placement": place} for place in PLACEMENTS.values()]
    return alike(seeds, margin, [(places[0], places[1]), (places[0], places[2]), (places[1], places[2])])


# Drawing.


def draw_printed(panel: Panel, x: float, value: float | None) -> None:
    """Mark a number that the paper prints, if there is one."""
    if value is not None:
        panel.points(PRINTED, [x], [value])


def draw_cell(panel: Panel, rows: list[Row], model: str, models: Sequence[str], x: float) -> None:
    """Draw one cell of a table: a faint dot per seed, the mean with its interval, the untrained model as a cross."""
    series = series_of(model, models, line=False, size=40.0)
    seeds = [100 - 100 * e for e in errors(rows, model=model, stage="trained").values() if e is not None]
    panel.points(series, [x] * len(seeds), seeds, faint=True)
    p = proportion(rows, model=model, stage="trained")
    if p is not None and p.mean is not None:
        panel.interval(series, x, 100 - 100 * p.mean, 100 - 100 * p.interval.high, 100 - 100 * p.interval.low)
    if p is not None and p.diverged:
        bottom = panel.y.domain[0] if panel.y.domain else 0.0
        panel.note(f"{p.diverged}/{len(p.per_seed)} diverged", x, bottom, align="center", colour=series.colour)
    start = proportion(rows, model=model, stage="untrained")
    if start is not None and start.mean is not None:
        panel.points(UNTRAINED, [x], [100 - 100 * start.mean])


UNTRAINED = Series("untrained", FAINT, mark="cross", line=False, size=36.0)
VOTE = reference("plain vote")
