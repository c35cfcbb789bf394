"""Tables of deep models: accuracy with outliers farthest from the query (FQ), anywhere (R), closest (CQ).

Each column of a table has its own settings and the same models, all trained and tested in the same way. The table also
shows the paper's numbers, the untrained model, and a plain vote of the examples with the query's pattern.
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
from iclab.study.charts import FAINT, INK, PRINTED, Axis, Figure, Panel, Series, name_of, reference, series_of
from iclab.study.claims import Judge, Point, every_above, every_within, judged
from iclab.study.experiment import Condition, Experiment
from iclab.study.rows import errors, paired_points, proportion

D = TypeVar("D", bound=DeepMambaPaper)

Numbers = tuple[float | None, float | None, float | None]
"""The paper's accuracy in % at FQ, R and CQ."""
UNPRINTED: Numbers = (None, None, None)
Where = Mapping[str, Any]
"""Values of row columns that select one cell of a table."""

UNTRAINED = Series("untrained", FAINT, mark="cross", line=False, size=36.0)
EARLIER = Series("an earlier printing", INK, mark="triangle-down", line=False, hollow=True, size=60.0)
VOTE = reference("plain vote")


@dataclass(frozen=True)
class Column:
    """A column of a table: one way to train and test its models."""

    name: str
    settings: DeepMambaPaper
    baselines: bool = True
    """Whether to measure the untrained models and the vote too."""
    models: tuple[str, ...] | None = None
    """The models in this column; by default, all models of the table."""


class PlacementTable(Experiment[D]):
    """A table of accuracies by placement."""

    caption = "accuracy in %, mean and 95 % interval; 'as trained': on prompts from the end of the training"
    numbers: ClassVar[Mapping[tuple[str, str], Numbers]] = {}
    """The paper's numbers by column and model."""
    earlier: ClassVar[Mapping[tuple[str, str], Numbers]] = {}
    """Numbers that were printed before those."""

    @abstractmethod
    def columns(self, settings: D) -> list[Column]:
        """Return the columns of the table."""

    @abstractmethod
    def models(self, settings: D) -> tuple[str, ...]:
        """Return the models of the table."""

    def conditions(self, settings: D) -> list[Condition]:
        """Return every model at every placement, the references, and the accuracy on training prompts."""
        found = []
        for column in self.columns(settings):
            covered = [m for m in self.models(settings) if column.models is None or m in column.models]
            for number, model in enumerate(covered):
                found += _model_conditions(column, model, with_vote=number == 0)  # the vote needs no model
        return found

    def table(self, rows: list[Row], settings: D) -> list[dict[str, Any]]:
        """Return one line per column, model and stage, in percent, with the paper's numbers."""
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
                    for source, numbers in ((PRINTED, self.numbers), (EARLIER, self.earlier)):
                        printed = numbers.get((column.name, model))
                        if printed and stage == "trained":
                            theirs = {
                                place: "–" if value is None else f"{value:.2f}"
                                for place, value in zip(PLACEMENTS.values(), printed, strict=True)
                            }
                            lines.append(
                                {"setting": column.name, "model": f"  {source.name}", **theirs, "as trained": ""}
                            )
        return lines

    def chart(self, rows: list[Row], settings: D) -> Figure:
        """Draw one panel per column: the accuracy of each model at the three placements."""
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
                draw_printed(panel, at, self.earlier.get((column, model), UNPRINTED)[x], EARLIER)
        return panel


def _model_conditions(column: Column, model: str, with_vote: bool) -> list[Condition]:
    """Return all measurements of one model in one column."""
    settings = column.settings
    training = settings.training(model)
    last_prompts = training.prompts_at(training.recipe.steps)
    wanted: list[tuple[str, str, str, int | None]]  # stage, placement, probe, step
    wanted = [("trained", place, "error", None) for place in PLACEMENTS]
    if column.baselines:
        wanted += [("untrained", place, "error", 0) for place in PLACEMENTS]
    if column.baselines and with_vote:
        wanted += [("vote", place, "vote", 0) for place in PLACEMENTS]
    wanted += [("trained", "as trained", "error", None)]
    found = []
    for cell in TrainingCell.groups(training, settings.seeds):
        for stage, place, probe, at in wanted:
            prompts = last_prompts if place == "as trained" else settings.placed(place)
            columns = {
                "column": column.name,
                "model": "vote" if stage == "vote" else training.model.label,
                "stage": stage,
                "placement": PLACEMENTS.get(place, place),
            }
            measurement = MeasurementCell(
                training=cell, probe=probe, prompts=prompts, count=settings.test_prompts, at=at
            )
            found.append(Condition(columns, measurement))
    return found


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


def cell_name(where: Where) -> str:
    """Return the name of a cell, for people."""
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
        points.append(Point(None if p.mean is None else 1 - p.mean, interval, cell_name(where), p.diverged))
    return points


def _differences(rows: list[Row], seeds: int, pairs: Sequence[tuple[Where, Where]]) -> list[Point] | None:
    """Return accuracy of the first cell − accuracy of the second, on paired seeds."""
    named = [(f"{cell_name(a)} − {cell_name(b)}", errors(rows, **b), errors(rows, **a)) for a, b in pairs]
    return paired_points(named, seeds)


def at_least(seeds: int, margin: float, cells: Sequence[Where]) -> Judge:
    """Judge whether accuracy is above a margin in every cell."""
    return judged(partial(_accuracies, seeds=seeds, cells=cells), every_above, margin)


def between(seeds: int, low: float, high: float, cells: Sequence[Where]) -> Judge:
    """Judge whether accuracy is between two margins in every cell."""
    return judged(partial(_accuracies, seeds=seeds, cells=cells), every_within, low, high)


def ahead(seeds: int, margin: float, pairs: Sequence[tuple[Where, Where]]) -> Judge:
    """Judge whether accuracy of first − second cell is above a margin in every pair."""
    return judged(partial(_differences, seeds=seeds, pairs=pairs), every_above, margin)


def alike(seeds: int, margin: float, pairs: Sequence[tuple[Where, Where]]) -> Judge:
    """Judge whether accuracies differ by less than a margin in every pair."""
    return judged(partial(_differences, seeds=seeds, pairs=pairs), every_within, -margin, margin)


def near_print(seeds: int, margin: float, printed: Sequence[tuple[Where, float]]) -> Judge:
    """Judge whether every cell is within a margin of the paper's number."""

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
    """Judge whether any two placements differ by less than a margin."""
    places = [{**where, "placement": place} for place in PLACEMENTS.values()]
    return alike(seeds, margin, [(places[0], places[1]), (places[0], places[2]), (places[1], places[2])])


# Drawing.


def draw_printed(panel: Panel, x: float, value: float | None, series: Series = PRINTED) -> None:
    """Draw the paper's number, if there is one."""
    if value is not None:
        panel.points(series, [x], [value])


def draw_cell(panel: Panel, rows: list[Row], model: str, models: Sequence[str], x: float) -> None:
    """Draw one cell: a faint dot per seed, the mean with its interval, a cross for the untrained model."""
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
