"""An edition of an experiment: the experiment with its settings, and what a store holds of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iclab.config import InputError
from iclab.lab import MeasurementCell, Store
from iclab.probes import Row
from iclab.study.experiment import Condition, Experiment
from iclab.study.outcome import Outcome
from iclab.study.settings import Settings


@dataclass(frozen=True)
class Edition:
    """An experiment with its settings. The conditions are built once, on first use."""

    experiment: Experiment[Any]
    settings: Settings

    @cached_property
    def conditions(self) -> list[Condition]:
        """Every measurement of the experiment."""
        return self.experiment.conditions(self.settings)

    @cached_property
    def cells(self) -> list[MeasurementCell]:
        """The cells of the conditions, each once."""
        return list({condition.cell.hash: condition.cell for condition in self.conditions}.values())

    def complete(self, store: Store) -> bool:
        """Return whether the store has every cell."""
        return bool(self.cells) and all(map(store.has, self.cells))

    def rows(self, store: Store) -> list[Row]:
        """Return the rows of every finished cell, with the condition's columns in front."""
        return [
            {**condition.columns, **row}
            for condition in self.conditions
            if store.has(condition.cell)
            for row in store.load_rows(condition.cell)
            if row["seed"] < self.settings.seeds
        ]

    def outcome(self, store: Store) -> Outcome:
        """Collect the rows and judge the claims."""
        complete = self.complete(store)  # before the rows are read: another process may be adding some
        rows = self.rows(store)
        if not rows:
            raise InputError(
                f"store = {store.path}: has no results of {self.experiment.id} with these settings; "
                f"run `iclab run {self.experiment.id}` first"
            )
        claims = [claim.verdict(rows) for claim in self.experiment.claims(self.settings)]
        return Outcome(self, rows, claims, complete)


def fullest(editions: Iterable[Edition], store: Store) -> Outcome | None:
    """Return the outcome of the first complete edition, else of the one that judges most claims, else None."""
    listed = list(editions)
    for edition in listed:
        if edition.complete(store):
            return edition.outcome(store)
    begun = [edition.outcome(store) for edition in listed if any(map(store.has, edition.cells))]
    return max(begun, key=lambda outcome: (outcome.judged, len(outcome.rows)), default=None)


def best(experiment: Experiment[Any], store: Store) -> Outcome | None:
    """Return the outcome of the full edition if complete, else of the quick one if complete, else of the fuller one."""
    full = experiment.settings()
    return fullest((Edition(experiment, full), Edition(experiment, full.quick())), store)
