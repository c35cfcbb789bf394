"""Negative controls: derivations over rows that were mixed up on purpose. What held must then not hold.

*Labels swapped*: a claim that one condition lies above or below another, with the rows of the two exchanged. It must
not hold any more. *Labels shuffled*: the rows of all conditions of an experiment dealt out anew, many times. A claim
that holds every time does not depend on its conditions. *Seeds swapped*: one side of a comparison with each seed's rows
replaced by the next seed's. The interval of a paired difference must change.

Only claims that hold and were derived from raw rows are controlled.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iclab.audit.program import (
    Evaluation,
    Json,
    Points,
    Rows,
    judge,
    level_of,
    points_again,
    read_rows,
    within_expression,
)

SHUFFLES = 20
"""How often the rows are dealt out anew."""


@dataclass
class Controls:
    """What the controls found: how many claims each was tried on, and which survived it."""

    swapped: int = 0
    survived_swap: list[str] = field(default_factory=list)
    """Claims that still hold with their two conditions exchanged. They cannot fail."""
    shuffled: int = 0
    survived_shuffles: list[str] = field(default_factory=list)
    """Claims that hold however the rows are dealt out: all conditions of the experiment are alike in what they test."""
    paired: int = 0
    unmoved: list[str] = field(default_factory=list)
    """Claims on paired seeds whose intervals stay what they are if the pairs are broken."""


def controls(document: Json, store: Path) -> Controls:
    """Run all controls on an export."""
    found = Controls()
    for experiment in document["experiments"]:
        rows = Rows(experiment, read_rows(experiment, store, []))
        for claim in experiment["claims"]:
            if claim["verdict"] in ("holds", "in direction") and level_of(claim, rows.series) == "rows":
                _swap(claim, rows, found)
                _shuffle(claim, rows, found)
                _unpair(claim, rows, found)
    return found


def _swap(claim: Json, rows: Rows, found: Controls) -> None:
    """Exchange the two conditions of every point, if the claim is about which of them is larger."""
    part = claim["direction"] if claim["verdict"] == "in direction" else claim["size"]
    pairs = [sorted(_selections(point, rows)) for point in part["points"]]
    if part["also"] or any(len(pair) != 2 for pair in pairs) or not all(_tells(part, p, rows) for p in part["points"]):
        return
    found.swapped += 1

    def again(_: Json) -> Points:
        points = []
        for point, (a, b) in zip(part["points"], pairs, strict=True):
            moved = {a: rows.name(b), b: rows.name(a)}
            points += points_again({"points": [point]}, Evaluation(rows, claim["confidence"], moved))
        return points

    if judge({**claim, "size": part, "direction": None}, again)[0] == "holds":
        found.survived_swap.append(claim["id"])


def _tells(part: Json, point: Json, rows: Rows) -> bool:
    """Return whether a point is a difference on one side of 0, or a ratio on one side of 1."""
    sign = {"every_above": 1, "every_below": -1}.get(part["rule"], 0)
    series = within_expression("series", point["how"]["value"])
    level = {"-": 0.0, "/": 1.0}.get(rows.series[series.pop()]["of"][0]) if len(series) == 1 else None
    return bool(sign) and level is not None and sign * (part["margins"][0] - level) >= 0


def _shuffle(claim: Json, rows: Rows, found: Controls) -> None:
    """Deal the rows of alike conditions out anew, until the verdict changes."""
    alike: dict[str, list[str]] = {}
    for name, by_seed in rows.by_name.items():
        alike.setdefault(_shape(by_seed), []).append(name)
    mine = {number for point in _points(claim) for number in _selections(point, rows)}
    if all(len(alike[_shape(rows.by_name[rows.name(number)])]) == 1 for number in mine):
        return
    found.shuffled += 1
    chance = random.Random(claim["id"])
    for _ in range(SHUFFLES):
        dealt = {a: b for names in alike.values() for a, b in zip(names, chance.sample(names, len(names)), strict=True)}
        moved = {number: dealt[rows.name(number)] for number in mine}
        evaluation = Evaluation(rows, claim["confidence"], moved)
        if judge(claim, lambda part, evaluation=evaluation: points_again(part, evaluation))[0] != claim["verdict"]:  # type: ignore[misc]
            return
    found.survived_shuffles.append(claim["id"])


def _unpair(claim: Json, rows: Rows, found: Controls) -> None:
    """Move the seeds of one of two conditions that are compared seed by seed."""
    changed = []
    for number in {n for point in claim["size"]["points"] for n in within_expression("series", point["how"]["value"])}:
        selections = within_expression("row", rows.series[number]["of"])
        end = ["over_seeds.high", ["series", number]]
        usual, turned = (
            Evaluation(rows, claim["confidence"], turned=one) for one in (None, min(selections, default=0))
        )
        if len(selections) == 2 and len(set(usual.by_seed(number).values())) > 1:
            changed.append(usual.value(end) != turned.value(end))
    found.paired += bool(changed)
    if changed and not any(changed):
        found.unmoved.append(claim["id"])


def _points(claim: Json) -> Iterator[Json]:
    for whole in (claim["size"], claim["direction"] or {"points": [], "also": []}):
        for part in (whole, *whole["also"]):
            yield from part["points"]


def _selections(point: Json, rows: Rows) -> set[Any]:
    """Return the selections that a point is made from."""
    hows = list(point["how"].values())
    hows += [rows.series[number]["of"] for how in hows for number in within_expression("series", how)]
    return set().union(*(within_expression("row", how) for how in hows))


def _shape(by_seed: dict[int, Json]) -> str:
    """Return what conditions must share to take each other's place: columns and seeds."""
    return json.dumps([sorted(by_seed), sorted(next(iter(by_seed.values())))])
