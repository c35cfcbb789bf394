"""An edition of an experiment: the experiment with its settings, and what a store holds of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iclab.config import InputError
from iclab.lab import MeasurementCell, Store
from iclab.lab.needs import check_count
from iclab.probes import CONFIDENCE, Row, at_confidence
from iclab.study.claims import Claim
from iclab.study.experiment import Condition, Experiment
from iclab.study.outcome import Outcome
from iclab.study.recipes import check_recipes
from iclab.study.settings import Settings

MANY_SEEDS, SOME_SEEDS = 4096, 64


@dataclass(frozen=True)
class Edition:
    """An experiment with its settings. The conditions are built once, on first use."""

    experiment: Experiment[Any]
    settings: Settings

    @cached_property
    def conditions(self) -> list[Condition]:
        """Every measurement of the experiment."""
        if self.settings.seeds > MANY_SEEDS:  # before they are listed: there may be too many
            few = Edition(self.experiment, self.settings.replace(seeds=SOME_SEEDS))
            check_count(len(few.conditions) * self.settings.seeds / SOME_SEEDS, self.settings.seeds)
        with self.experiment.guarded("conditions"):
            found = self.experiment.conditions(self.settings)
        listed = isinstance(found, (list, tuple)) and found and all(isinstance(one, Condition) for one in found)
        if self.experiment.own and not listed:
            raise InputError(f"{self.experiment.id}: its conditions must be a list of one Condition or more")
        check_recipes(self.settings, (condition.cell.training.training for condition in found))
        return found

    @property
    def claims(self) -> list[Claim]:
        """The claims of the experiment. Those of a user's own must not be taken for others on the scoreboard."""
        with self.experiment.guarded("claims"):
            found = self.experiment.claims(self.settings)
        if self.experiment.own:
            seen: set[str] = set()
            for claim in found:
                if not claim.id.startswith(f"{self.experiment.id}.") or claim.id in seen:
                    raise InputError(f"claim = {claim.id!r}: must be {self.experiment.id}.NAME, each name once")
                seen.add(claim.id)
        return found

    def check(self) -> None:
        """Refuse what cannot be run or judged, before anything is written."""
        _ = self.cells, self.claims

    @cached_property
    def cells(self) -> list[MeasurementCell]:
        """The cells of the conditions, each once."""
        return list({condition.cell.hash: condition.cell for condition in self.conditions}.values())

    @property
    def command(self) -> str:
        """The command that runs it."""
        where = ["--experiments", self.experiment.folder] if self.experiment.folder else []
        return shlex.join(["iclab", "run", self.experiment.address, *self.settings.arguments(), *where])

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
            if row["seed"] < (condition.below or self.settings.seeds)
        ]

    def outcome(self, store: Store, *, confidence: float = CONFIDENCE, asked: Edition | None = None) -> Outcome:
        """Collect the rows and judge the claims.

        Args:
            store: where the rows are.
            confidence: that of the intervals which decide.
            asked: the edition that was asked for, if this one has its seeds added until claims are decided.
        """
        complete = self.complete(store)  # before the rows are read: another process may be adding some
        rows = self.rows(store)
        if not rows:
            raise InputError(
                f"store = {store.path}: has no results of {self.experiment.id} with these settings; "
                f"run `{self.command}` first"
            )
        with at_confidence(confidence), self.experiment.guarded("verdicts"):
            claims = [claim.verdict(rows) for claim in self.claims]
        return Outcome(self, rows, claims, complete, asked)


def _hashes(edition: Edition) -> list[str]:
    return [cell.hash for cell in edition.cells]


def fullest(
    editions: Iterable[Edition], store: Store, hashes: Callable[[Edition], list[str]] = _hashes
) -> Outcome | None:
    """Return the outcome of the first complete edition, else of the one that judges most claims, else None.

    Args:
        editions: what to choose from.
        store: where the rows are.
        hashes: returns the names of an edition's cells; an edition without any in the store need not be built.
    """
    begun = []
    for edition in editions:
        found = [store.has_measurement(hash_) for hash_ in hashes(edition)]
        if found and all(found):
            return edition.outcome(store)
        begun += [edition] if any(found) else []
    return max((edition.outcome(store) for edition in begun), key=lambda o: (o.judged, len(o.rows)), default=None)


def best(experiment: Experiment[Any], store: Store, hashes: Callable[[Edition], list[str]] = _hashes) -> Outcome | None:
    """Return the outcome of the full edition if complete, else of the quick one if complete, else of the fuller one."""
    return fullest((usual(experiment), usual(experiment, quick=True)), store, hashes)


_USUAL: dict[tuple[Experiment[Any], type[Settings], bool], Edition] = {}


def usual(experiment: Experiment[Any], *, quick: bool = False) -> Edition:
    """Return the full or the quick edition with default settings, built once per process."""
    key = (experiment, experiment.settings, quick)
    if key not in _USUAL:
        settings = experiment.settings()
        _USUAL[key] = Edition(experiment, settings.quick() if quick else settings)
    return _USUAL[key]
