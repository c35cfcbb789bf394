"""Variants: results of experiments under settings of the user's own, as far as a store remembers them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from iclab.config import Code, InputError, explain
from iclab.lab import MeasurementCell, Store
from iclab.report.drawing import Drawing, drawing_of
from iclab.study.edition import Edition, usual
from iclab.study.experiment import Condition, Experiment
from iclab.study.outcome import Outcome
from iclab.study.records import add_folders
from iclab.study.sequences import looked
from iclab.study.settings import Settings, short

Record = dict[str, Any]


@dataclass(frozen=True)
class Changed:
    """A setting that a variant changes."""

    name: str
    here: str
    usually: str


@dataclass(frozen=True)
class Variant:
    """An experiment under settings of the user's own."""

    command: str
    title: str
    outcome: Outcome | None
    problem: str = ""
    """Why there is nothing to show, in one line."""
    changes: tuple[Changed, ...] = ()
    cells: tuple[MeasurementCell, ...] = ()
    """Its cells that the store holds."""
    models: Mapping[str, str] = field(default_factory=dict)
    """The source code of the models it trains, by model id."""
    missing: str = ""
    """Why the store lacks some of its results."""

    @property
    def folder(self) -> str:
        """The folder of its files, which is also its name on the page."""
        return self.outcome.folder if self.outcome else ""

    @property
    def summary(self) -> str:
        """How much was run."""
        if self.outcome is None:
            return "nothing to show"
        seeds = len({row["seed"] for row in self.outcome.rows})
        told = self.outcome.settings.extent(seeds)
        if self.outcome.asked:
            told += ", seeds added until claims are decided, with wider intervals"
        return told if self.outcome.complete else f"unfinished ({self.missing}): {told}"

    @cached_property
    def drawing(self) -> Drawing | None:
        """The figure for the page."""
        return None if self.outcome is None else drawing_of(self.outcome)


def code_of(conditions: Iterable[Condition]) -> dict[str, str]:
    """Return the source code of the models that are trained, by name."""
    models = {condition.cell.training.training.model.label: condition for condition in conditions}
    return {label: c.cell.training.training.model.source for label, c in sorted(models.items())}


def variants_of(experiment: Experiment[Any], records: Iterable[Record], store: Store, shown: Settings) -> list[Variant]:
    """Return the variants of an experiment, newest last, without the edition that the report shows anyway."""
    newest: dict[str, Record] = {}
    for record in records:
        if record["experiment"] == experiment.address:
            key = json.dumps([record["settings"], record["until decided"]], sort_keys=True)
            newest.pop(key, None)
            newest[key] = record
    found = []
    for record in newest.values():
        try:
            settings = experiment.settings.model_validate(record["settings"])
        except ValidationError as error:
            command = f"iclab run {experiment.address}"
            found.append(Variant(command, "", None, f"its settings are no longer known ({explain(error)})"))
            continue
        known = settings.edition_name != "other" or settings == shown
        if record["until decided"] or not known:
            found.append(_variant(experiment, settings, record, store))
    return found


def _variant(experiment: Experiment[Any], settings: Settings, record: Record, store: Store) -> Variant:
    edition, until = Edition(experiment, settings), record["until decided"]
    command = edition.command + (" --until-decided" if until else "")
    changes = _changes(settings)
    named = settings.unusual() or ", ".join(f"{change.name} = {change.here}" for change in changes)
    title = "; ".join(filter(None, (named, "until decided" if until else "")))
    add_folders(record)
    try:
        cells = tuple(filter(store.has, edition.cells))
        outcome = looked(edition, store) if until else edition.outcome(store) if cells else None
        if outcome is None:
            return Variant(command, title, None, f"the store has none of its results; {_lost(record)}")
        if not outcome.complete and (lacking := _lacking(edition, cells)):
            return Variant(command, title, None, f"the store has {lacking}; {_lost(record)}")
        _ = outcome.table  # a table that cannot be made stops nothing else
    except InputError as error:
        return Variant(command, title, None, str(error))
    except ValidationError as error:
        return Variant(command, title, None, explain(error))
    held = tuple(filter(store.has, outcome.edition.cells))
    missing = "" if outcome.complete else _lost(record)
    return Variant(command, title, outcome, "", changes, held, code_of(edition.conditions), missing)


def _changes(settings: Settings) -> tuple[Changed, ...]:
    """Return what differs from the full edition or from the quick one, whichever is nearer."""
    here, full = settings.model_dump(mode="json"), type(settings)()
    ways: list[tuple[Changed, ...]] = []
    for base in (full.model_dump(mode="json"), full.quick().model_dump(mode="json")):
        ways.append(tuple(Changed(n, short(value), short(base[n])) for n, value in here.items() if value != base[n]))
    return min(ways, key=len)


def _lacking(edition: Edition, held: Iterable[MeasurementCell]) -> str:
    """Say what is lacking if all cells that a store holds are those of the usual editions; else return nothing."""
    usually = [condition for quick in (False, True) for condition in usual(edition.experiment, quick=quick).conditions]
    if not {cell.hash for cell in held} <= {condition.cell.hash for condition in usually}:
        return ""
    models = [name for name in code_of(edition.conditions) if name not in code_of(usually)]
    return f"no results of {', '.join(models)}" if models else "no results but those of the usual editions"


def _lost(record: Record) -> str:
    """Say why a store that remembers a request may lack results of it, and what to do."""
    changed = [path for path, source in record["code"].items() if _source(path) != source]
    reason = f"the source of {', '.join(changed)} has changed since; " if changed else ""
    return f"{reason}run it again to have them"


def _source(path: str) -> str:
    try:
        return Code.of(path).source
    except InputError:
        return ""
