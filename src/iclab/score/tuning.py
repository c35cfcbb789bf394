"""The tuning rule: one budget for all models.

For each part of the suite, every step size of the grid is tried with each of the two optimisers, SGD and Adam. A
candidate is trained for as many steps as the judged seeds, from the validation seeds alone, and measured on prompts of
the kind it was trained on. The lowest mean over validation seeds wins: the error, and if errors are equal the hinge
loss (for real labels, the squared error). A candidate of which a seed diverges is out. If all diverge, the first is
kept. Nothing else is tuned, for no model: no options, no schedule, no initialisation.

The candidates of all parts are computed in one run, so that all cores have work to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from iclab.config import InputError
from iclab.engines import Recipe, Training, check, trains_apart
from iclab.lab import MeasurementCell, Store, TrainingCell
from iclab.models import Model
from iclab.score.card import Candidate, Tuned
from iclab.score.suite import Part, Suite

Cells = list[MeasurementCell]
Compute = Callable[[Mapping[str, Cells], str], dict[str, str]]
"""Computes what is missing of the cells of some parts, under a title; returns why it failed, by part."""
FOR_LEVELS = {"mamba": Model(name="mamba-levels", options={"sees": "token"})}
"""Built-in models that have a form of their own for prompts of several levels."""


@dataclass(frozen=True)
class Winner:
    """How a part is to be trained, and how that was found; or why it cannot be."""

    part: Part
    training: Training | None = None
    tuned: Tuned | None = None
    obstacle: str = ""


def tune(model: Model, suite: Suite, store: Store, compute: Compute) -> list[Winner]:
    """Try the grid of every part on the validation seeds."""
    trainings: dict[str, list[Training]] = {}
    cells: dict[str, list[Cells]] = {}
    obstacles: dict[str, str] = {}
    for part in suite.parts:
        try:
            listed = [training_of(model, suite, part, *point) for point in _points(suite)]
            check(listed[0], [part.prompts])
        except InputError as error:
            obstacles[part.name] = str(error)
            continue
        asked: dict[str, Any] = {"probe": part.probe, "prompts": part.prompts, "count": suite.test_prompts}
        trainings[part.name] = listed
        cells[part.name] = [_validation(training, suite, **asked) for training in listed]
    obstacles |= compute({name: list(chain(*listed)) for name, listed in cells.items()}, "tuning")
    found = []
    for part in suite.parts:
        if part.name in obstacles:
            found.append(Winner(part, obstacle=obstacles[part.name]))
            continue
        ranks = [_rank(listed, part, suite, store) for listed in cells[part.name]]
        alive = [i for i, rank in enumerate(ranks) if rank is not None]
        best = min(alive, key=lambda i: ranks[i] or ()) if alive else 0
        found.append(Winner(part, trainings[part.name][best], _record(part, suite, ranks, best)))
    return found


def _points(suite: Suite) -> list[tuple[str, float]]:
    return [(optimizer, size) for optimizer, sizes in suite.step_sizes.items() for size in sizes]


def _record(part: Part, suite: Suite, ranks: list[tuple[float, ...] | None], best: int) -> Tuned:
    """Return what the card says about the choice."""
    points = _points(suite)
    return Tuned(
        part=part.name,
        optimizer=points[best][0],
        step_size=points[best][1],
        candidates=tuple(
            Candidate(optimizer=name, step_size=size, value=rank[0] if rank else None)
            for (name, size), rank in zip(points, ranks, strict=True)
        ),
        prompts=len(points) * len(suite.validation_seeds) * suite.steps * suite.batch_size,
    )


def training_of(model: Model, suite: Suite, part: Part, optimizer: str, step_size: float) -> Training:
    """Return the training of a part with a point of the grid."""
    recipe = Recipe(
        steps=suite.steps,
        batch_size=suite.batch_size,
        optimizer=optimizer,
        step_size=step_size,
        loss=part.loss,
        snapshots=suite.snapshots if any(trial.unit == "steps" for trial in part.trials) else (),
    )
    if part.prompts.levels > 1 and not model.is_users:
        model = FOR_LEVELS.get(model.label, model)
    return Training(model=model, prompts=part.prompts, recipe=recipe)


def cells_of(training: Training, seeds: Iterable[int], store: Store, **measurement: Any) -> Cells:
    """Return the measurements of some seeds: a cell per seed where seeds train apart, so that all cores have work."""
    wanted = list(seeds)
    groups = [(seed,) for seed in wanted] if trains_apart(training) else [tuple(wanted)]
    trainings = [cell for group in groups for cell in TrainingCell.covering(training, group, store.has)]
    unique = {cell.hash: cell for cell in trainings}.values()
    return [MeasurementCell(training=cell, **measurement) for cell in unique]


def _validation(training: Training, suite: Suite, **measurement: Any) -> Cells:
    """Return the measurements of the validation seeds alone, and not of the whole group that judged seeds train in."""
    size = training.model.architecture.group_size
    cells = [TrainingCell(training=training, group=seed // size, only=(seed,)) for seed in suite.validation_seeds]
    return [MeasurementCell(training=cell, **measurement) for cell in cells]


def _rank(cells: Cells, part: Part, suite: Suite, store: Store) -> tuple[float, ...] | None:
    """Return the mean error and hinge loss of a candidate, or its squared error; None if a seed diverged."""
    rows = [row for cell in cells for row in store.load_rows(cell) if row["seed"] in suite.validation_seeds]
    columns = ("squares",) if part.probe == "squares" else ("error", "hinge")
    if any(row[column] is None for row in rows for column in columns):
        return None
    return tuple(sum(row[column] for row in rows) / len(rows) for column in columns)
