"""The measurements: each part is tuned and trained, and every trial becomes a row of the card.

What a model cannot do is a row that says why: a part it cannot be trained on, a length that it does not take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from iclab.config import InputError
from iclab.engines import Training, check
from iclab.lab import Store
from iclab.models import Model
from iclab.probes import Proportion, Row
from iclab.probes.statistics import over_seeds
from iclab.score.card import Measure, Tuned
from iclab.score.suite import LEARNT, Suite, Trial
from iclab.score.tuning import Cells, Compute, Winner, cells_of, tune


def measure(
    model: Model, suite: Suite, store: Store, compute: Compute
) -> tuple[tuple[Tuned, ...], tuple[Measure, ...]]:
    """Tune, train and measure every part of the suite; an obstacle becomes the note of the rows it concerns."""
    plans = [_Plan(winner, model, suite, store) for winner in tune(model, suite, store, compute)]
    failed = compute({plan.part.name: plan.cells for plan in plans}, "measuring")
    tuned = tuple(plan.winner.tuned for plan in plans if plan.winner.tuned is not None)
    return tuned, tuple(row for plan in plans for row in plan.rows(failed.get(plan.part.name, "")))


class _Plan:
    """The measurements of one part."""

    def __init__(self, winner: Winner, model: Model, suite: Suite, store: Store) -> None:
        self.winner, self.part, self._suite, self._store = winner, winner.part, suite, store
        self._asked: dict[str, Cells] = {}
        self._votes: dict[str, Cells] = {}
        self._obstacles: dict[str, str] = {}
        self._remark = ""
        if winner.training is None:
            return
        if winner.training.model != model:
            self._remark = f"measured as {winner.training.model.label}"
        for trial in self.part.trials:
            try:
                check(winner.training, [trial.prompts])
                self._asked[trial.key] = self._of(winner.training, trial)
                if trial.unit == "error" and trial.probe == "error" and trial.prompts.levels == 1:
                    self._votes[trial.key] = self._of(winner.training, trial.replace(probe="vote"))
            except InputError as error:
                known = trial.probe == "worst"  # what stops this one is no news about a model
                self._obstacles[trial.key] = "only known for models of one layer" if known else str(error)

    def _of(self, training: Training, trial: Trial) -> Cells:
        count = max(1, round(trial.share * self._suite.test_prompts))
        at: Any = "every" if trial.unit == "steps" else None
        asked: dict[str, Any] = {"probe": trial.probe, "prompts": trial.prompts, "count": count, "at": at}
        return cells_of(training, self._suite.seeds, self._store, **asked)

    @property
    def cells(self) -> Cells:
        """Everything to compute."""
        return [cell for cells in (*self._asked.values(), *self._votes.values()) for cell in cells]

    def rows(self, failure: str) -> Iterator[Measure]:
        """Return the rows of the card, after everything was computed or has failed."""
        for trial in self.part.trials:
            obstacle = self.winner.obstacle or self._obstacles.get(trial.key) or failure
            if obstacle:
                yield Measure(key=trial.key, section=trial.section, words=trial.words, unit=trial.unit, note=obstacle)
                continue
            rows = _rows(self._asked[trial.key], self._suite, self._store)
            votes = _rows(self._votes.get(trial.key, []), self._suite, self._store)
            row = _measure(trial, rows, votes, self._suite)
            yield row.replace(note=row.note or self._remark)


def _rows(cells: Cells, suite: Suite, store: Store) -> list[Row]:
    rows = [row for cell in cells for row in store.load_rows(cell) if row["seed"] in suite.seeds]
    return sorted(rows, key=lambda row: row["seed"])


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
    baseline = {"vote": sum(beside) / len(beside)} if beside else {}
    return Measure(**about, per_seed=tuple(values), **numbers, **baseline)


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
