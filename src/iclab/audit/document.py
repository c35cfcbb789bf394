"""All claims of a store as one document: verdicts, numbers, how each was derived, settings and hashes.

The derivation of a number is found by judging rows whose numbers remember where they come from (`Writer`). It is
checked before it is written: the judge and the derivation must also agree on other rows, whose numbers are all a little
different. If they do not, something was lost on the way, and numbers are written down instead.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from iclab._version import __version__
from iclab.audit import program
from iclab.audit.expressions import Writer, keys_of, traceable
from iclab.lab import MeasurementCell, Store
from iclab.probes import Row, at_confidence, current_confidence
from iclab.probes.tracing import Count, Number, tracing
from iclab.study.claims import Claim, Judge, Judgement, Point
from iclab.study.outcome import Outcome

SCHEMA = {"name": "iclab-claims", "version": 1}
ENDS = ("value", "low", "high")
NUDGE = 1e-4
"""How much numbers are changed, at most, to check a derivation."""

Document = dict[str, Any]


def document_of(outcomes: Iterable[Outcome], store: Store) -> Document:
    """Return the document of some outcomes."""
    experiments = [_experiment(outcome, store) for outcome in outcomes]
    labels = [claim["label"] for experiment in experiments for claim in experiment["claims"]]
    return {
        "schema": SCHEMA,
        "iclab": __version__,
        "labels": program.LABELS,
        "counts": {label: labels.count(label) for label in sorted(set(program.LABELS.values()))},
        "experiments": experiments,
    }


def _experiment(outcome: Outcome, store: Store) -> Document:
    """Write one experiment: its conditions, and its claims with their derivations."""
    edition, rows = outcome.edition, outcome.rows
    conditions = [condition for condition in edition.conditions if store.has(condition.cell)]
    keys = keys_of(rows, (name for condition in conditions for name in condition.columns))
    claims = _Claims(rows, keys)
    written = [claims.write(*pair) for pair in zip(edition.claims, outcome.claims, strict=True)]
    cells = {condition.cell.hash: condition.cell for condition in conditions}
    return {
        "id": outcome.experiment.id,
        "title": outcome.experiment.title,
        "edition": outcome.settings.edition_name,
        "complete": outcome.complete,
        "command": edition.command,
        "settings": outcome.settings.model_dump(mode="json"),
        "keys": keys,
        "conditions": [
            {"columns": dict(c.columns), "cell": c.cell.hash, "seeds_below": c.below or outcome.settings.seeds}
            for c in conditions
        ],
        "cells": {hash_: _cell(cell, store) for hash_, cell in sorted(cells.items())},
        "selections": claims.writer.selections,
        "series": claims.writer.series,
        "claims": written,
    }


def _cell(cell: MeasurementCell, store: Store) -> Document:
    about = store.about(cell)
    return {
        "sha256": about["sha256"]["rows.parquet"],
        "training": cell.training.hash,
        "finished": about["finished"],
        "made_by": about["made by"],
        "versions": about["versions"],
    }


class _Claims:
    """Writes the claims of one experiment."""

    def __init__(self, rows: list[Row], keys: list[str]) -> None:
        self.writer = Writer(rows, keys)
        self._rows, self._traceable, self._nudged = rows, traceable(rows, keys), _nudged(rows, keys)
        known = {"keys": keys, "series": self.writer.series, "selections": self.writer.selections}
        self._raw = program.Rows(known, self._nudged)

    def write(self, claim: Claim, record: Document) -> Document:
        """Write one claim, whose verdict is known."""
        with at_confidence(record["confidence"]):
            return {
                "label": program.LABELS[record["verdict"]],
                **{name: value for name, value in record.items() if name not in ("points", "margins")},
                "size": self._part(claim.judge),
                "direction": self._part(claim.direction.judge) if claim.direction else None,
            }

    def _part(self, judge: Judge) -> Document:
        """Write the points of a size or a direction, and how each is derived."""
        found, other = judge(self._rows), judge(self._nudged)
        with tracing():
            traced = judge(self._traceable)
        first, *also = (
            self._points(*three)
            for three in zip((found, *found.also), (other, *other.also), (traced, *traced.also), strict=True)
        )
        return {**first, "also": also, "withheld": found.withheld}

    def _points(self, found: Judgement, other: Judgement, traced: Judgement) -> Document:
        points = []
        for number, point in enumerate(found.points):
            how = self._how(traced.points[number])
            if not self._agrees(how, other.points[number]):
                how = self._how(traced.points[number], recorded=True)
            points.append({**point.record(), "lost": point.diverged, "how": how})
        return {"rule": found.rule or None, "margins": [float(margin) for margin in found.margins], "points": points}

    def _how(self, point: Point, recorded: bool = False) -> Document:
        """Write how value and interval of a point are derived; None where that is not known."""
        ends = zip(ENDS, (point.value, point.interval.low, point.interval.high), strict=True)
        return {
            end: self.writer.expression(value, recorded) if isinstance(value, (Number, Count)) else None
            for end, value in ends
        }

    def _agrees(self, how: Document, point: Point) -> bool:
        """Return whether a derivation gives what the judge finds in the nudged rows."""
        evaluation = program.Evaluation(self._raw, current_confidence())
        ends = zip(ENDS, (point.value, point.interval.low, point.interval.high), strict=True)
        return all(how[end] is None or program.same(evaluation.value(how[end]), value) for end, value in ends)


def _nudged(rows: list[Row], keys: list[str]) -> list[Row]:
    """Return rows whose measured numbers all differ a little from the stored ones."""
    chance = random.Random(0)
    named = {*keys, "seed"}

    def nudge(value: Any) -> Any:
        return value * (1 - chance.uniform(0, NUDGE)) if isinstance(value, float) else value

    return [{name: value if name in named else nudge(value) for name, value in row.items()} for row in rows]
