"""The measurements: each part is tuned and trained, and every trial becomes a row of the card.

What a model cannot do is a row that says why: a part it cannot be trained on, a length that it does not take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from iclab.config import InputError
from iclab.engines import Training, check
from iclab.lab import MeasurementCell, Store
from iclab.models import Model
from iclab.probes import Proportion, Row
from iclab.probes.statistics import over_seeds
from iclab.score.card import Measure, Tuned
from iclab.score.suite import LEARNT, Part, Suite, Trial
from iclab.score.tuning import Compute, cells_of, training_of, tune

Cells = list[MeasurementCell]


def measure_part(
    model: Model, suite: Suite, part: Part, store: Store, compute: Compute
) -> tuple[Tuned | None, list[Measure]]:
    """Tune, train and measure one part of the suite; an obstacle becomes the note of every row."""
    try:
        check(training_of(model, suite, part, "sgd", 0.1), [part.prompts])
        training, tuned = tune(model, suite, part, store, compute)
    except InputError as error:
        return None, [_absent(trial, str(error)) for trial in part.trials]
    asked: dict[str, Cells] = {}
    votes_of: dict[str, Cells] = {}
    notes: dict[str, str] = {}
    for trial in part.trials:
        try:
            check(training, [trial.prompts])
            asked[trial.key] = list(_cells(training, trial, suite, store))
            if trial.unit == "error" and trial.probe == "error" and trial.prompts.levels == 1:
                votes_of[trial.key] = list(_cells(training, trial.replace(probe="vote"), suite, store))
        except InputError as error:
            notes[trial.key] = str(error)
    try:
        compute((cell for cells in (*asked.values(), *votes_of.values()) for cell in cells), part.name)
    except InputError as error:
        return tuned, [_absent(trial, str(error)) for trial in part.trials]
    found = []
    for trial in part.trials:
        if trial.key in notes:
            found.append(_absent(trial, notes[trial.key]))
            continue
        rows = _rows(asked[trial.key], suite, store)
        votes = _rows(votes_of[trial.key], suite, store) if trial.key in votes_of else []
        found.append(_measure(trial, rows, votes, suite))
    return tuned, found


def _cells(training: Training, trial: Trial, suite: Suite, store: Store) -> Iterator[MeasurementCell]:
    count = max(1, round(trial.share * suite.test_prompts))
    at: Any = "every" if trial.unit == "steps" else None
    yield from cells_of(training, suite.seeds, store, probe=trial.probe, prompts=trial.prompts, count=count, at=at)


def _rows(cells: Cells, suite: Suite, store: Store) -> list[Row]:
    rows = [row for cell in cells for row in store.load_rows(cell) if row["seed"] in suite.seeds]
    return sorted(rows, key=lambda row: row["seed"])


def _absent(trial: Trial, reason: str) -> Measure:
    return Measure(key=trial.key, section=trial.section, words=trial.words, unit=trial.unit, note=reason)


def _measure(trial: Trial, rows: list[Row], votes: list[Row], suite: Suite) -> Measure:
    """Make a row of the card from one number per seed."""
    about = {"key": trial.key, "section": trial.section, "words": trial.words, "unit": trial.unit}
    if trial.unit == "steps":
        return Measure(**about, **_steps(rows, suite))
    column = "squares" if trial.unit == "squares" else "error"
    values = [row[column] for row in rows]
    lost = sum(value is None for value in values)
    good = [value for value in values if value is not None]
    if not good:
        return Measure(**about, per_seed=tuple(values), diverged=lost, note=f"all {lost} seeds diverged")
    if trial.unit == "squares":
        interval = over_seeds(good)
        mean = sum(good) / len(good)
    else:
        proportion = Proportion.of(values, rows[0]["prompts"] or max(row["prompts"] or 0 for row in rows))
        interval, mean = proportion.interval, sum(good) / len(good)
    numbers = {"mean": mean, "low": _finite(interval.low), "high": _finite(interval.high), "diverged": lost}
    beside = [row["error"] for row in votes]
    yardstick = {"vote": sum(beside) / len(beside)} if beside else {}
    return Measure(**about, per_seed=tuple(values), **numbers, **yardstick)


def _steps(rows: list[Row], suite: Suite) -> dict[str, Any]:
    """Return the first kept step of each seed at which it had learnt; None if there is none."""
    values: list[float | None] = []
    for seed in suite.seeds:
        learnt = [r["step"] for r in rows if r["seed"] == seed and r["error"] is not None and r["error"] <= LEARNT]
        values.append(float(min(learnt)) if learnt else None)
    good = [value for value in values if value is not None]
    missing = len(values) - len(good)
    note = f"{missing} of {len(values)} seeds do not get there in {suite.steps} steps" if missing else ""
    if not good:
        return {"per_seed": tuple(values), "note": note}
    interval = over_seeds(good)
    ends = {"low": _finite(max(0.0, interval.low)), "high": _finite(interval.high)}
    return {"per_seed": tuple(values), "mean": sum(good) / len(good), **ends, "note": note}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
