"""Negative controls: derivations over rows that were mixed up on purpose. What held must then not hold.

*Sides exchanged*: a claim that one number lies above or below another, with what is read on the two sides exchanged,
be it the rows of two conditions or two columns of a row. It must not hold any more. *Rows dealt out anew*: the rows of
all conditions of an experiment shuffled, many times. A claim that holds every time says what is true of every
condition, or that something does not grow. Such a claim is tried again with *other numbers* in place of the measured
ones, and must not hold with all of them. *Pairs broken*: one side of a comparison with each seed's rows replaced by the
next seed's. The interval of a paired difference must change, if both sides differ from seed to seed.

Only claims that hold and were derived from raw rows are controlled.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
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
"""How often the rows are dealt out anew, and how often they are multiplied by random factors."""
SPREAD = 3.0
"""The standard deviation of the logarithms of these factors."""
LEVELS = {"-": 0.0, "/": 1.0}
"""What a difference and a ratio of equal sides are."""

Read = tuple[int, str]
"""What an expression reads: a selection of rows, and a column."""
Change = Callable[[Read, float], float]
"""Puts another number in place of one that was read."""


@dataclass
class Controls:
    """What the controls found: how many claims each was tried on, and which survived it."""

    swapped: int = 0
    survived_swap: list[str] = field(default_factory=list)
    """Claims that still hold with their two sides exchanged."""
    shuffled: int = 0
    survived_shuffles: list[str] = field(default_factory=list)
    """Claims that hold however the rows are dealt out: true of every condition, or that something does not grow."""
    cannot_fail: list[str] = field(default_factory=list)
    """Those among them that hold with any other numbers, too."""
    paired: int = 0
    unmoved: list[str] = field(default_factory=list)
    """Claims on paired seeds whose intervals stay what they are if the pairs are broken."""


class Mixed(Evaluation):
    """Computes expressions over rows that are mixed up."""

    def __init__(
        self,
        rows: Rows,
        confidence: float,
        *,
        exchanged: dict[Read, Read] | None = None,
        dealt: dict[int, str] | None = None,
        turned: int | None = None,
        changed: Change = lambda read, value: value,
    ) -> None:
        super().__init__(rows, confidence)
        self._exchanged, self._dealt, self._turned, self._changed = exchanged or {}, dealt or {}, turned, changed

    def read(self, number: int, column: str, seed: int | None) -> Any:
        """Return what stands in the place of a number."""
        value = super().read(*self._exchanged.get((number, column), (number, column)), seed)
        return self._changed((number, column), value) if isinstance(value, float) else value

    def rows_of(self, number: int) -> dict[Any, Json]:
        """Return the rows that a selection was dealt; if it is turned, each seed gets the row of the next one."""
        dealt = self._dealt.get(number)
        rows = self.rows.by_name[dealt] if dealt else super().rows_of(number)
        if number != self._turned:
            return rows
        seeds = sorted(rows)
        return {seed: rows[other] for seed, other in zip(seeds, seeds[1:] + seeds[:1], strict=True)}


def controls(document: Json, store: Path) -> Controls:
    """Run all controls on an export."""
    found = Controls()
    for experiment in document["experiments"]:
        rows = Rows(experiment, read_rows(experiment, store, []))
        for claim in experiment["claims"]:
            if claim["verdict"] in ("holds", "in direction") and level_of(claim, rows.series) == "rows":
                _exchange(claim, rows, found)
                _shuffle(claim, rows, found)
                _unpair(claim, rows, found)
    return found


def _exchange(claim: Json, rows: Rows, found: Controls) -> None:
    """Exchange the two sides of every point, if the claim is about which of them is larger."""
    part = claim["direction"] if claim["verdict"] == "in direction" else claim["size"]
    exchanges = [_sides(part, point, rows) for point in part["points"]]
    if part["also"] or not all(exchanges):
        return
    found.swapped += 1

    def again(_: Json) -> Points:
        mixed = [Mixed(rows, claim["confidence"], exchanged=exchanged) for exchanged in exchanges]
        pairs = zip(part["points"], mixed, strict=True)
        return [new for point, evaluation in pairs for new in points_again({"points": [point]}, evaluation)]

    if judge({**claim, "size": part, "direction": None}, again)[0] == "holds":
        found.survived_swap.append(claim["id"])


def _sides(part: Json, point: Json, rows: Rows) -> dict[Read, Read]:
    """Return what to exchange if a point is a difference on one side of 0 or a ratio on one side of 1; else nothing."""
    sign = {"every_above": 1, "every_below": -1}.get(part["rule"], 0)
    series = within_expression("series", point["how"]["value"])
    operation, *operands = rows.series[series.pop()]["of"] if len(series) == 1 else [""]
    if not sign or operation not in LEVELS or sign * (part["margins"][0] - LEVELS[operation]) < 0:
        return {}
    left, right = (sorted(_reads(operand)) for operand in operands)
    if not left or len(left) != len(right) or set(left) & set(right):
        return {}
    return dict(zip(left + right, right + left, strict=True))


def _shuffle(claim: Json, rows: Rows, found: Controls) -> None:
    """Deal the rows of alike conditions out anew, until the verdict changes."""
    alike: dict[str, list[str]] = {}
    for name, by_seed in rows.by_name.items():
        alike.setdefault(_shape(by_seed), []).append(name)
    reads = set().union(*(_reads_of(point, rows) for point in _points(claim)))
    mine = {number for number, _ in reads}
    if all(len(alike[_shape(rows.by_name[rows.name(number)])]) == 1 for number in mine):
        return
    found.shuffled += 1
    chance = random.Random(claim["id"])
    for _ in range(SHUFFLES):
        dealt = {a: b for names in alike.values() for a, b in zip(names, chance.sample(names, len(names)), strict=True)}
        if not _stands(claim, Mixed(rows, claim["confidence"], dealt={n: dealt[rows.name(n)] for n in mine})):
            return
    found.survived_shuffles.append(claim["id"])
    if all(_stands(claim, Mixed(rows, claim["confidence"], changed=change)) for change in _changes(reads, chance)):
        found.cannot_fail.append(claim["id"])


def _changes(reads: set[Read], chance: random.Random) -> Iterator[Change]:
    """Yield ways to put other numbers in place of measured ones: turned round, or times random factors."""
    yield lambda read, value: 1 - value
    yield lambda read, value: -value
    for _ in range(SHUFFLES):
        factors = {read: math.exp(chance.gauss(0, SPREAD)) for read in sorted(reads)}
        yield lambda read, value, factors=factors: factors[read] * value  # type: ignore[misc]


def _stands(claim: Json, evaluation: Evaluation) -> bool:
    """Return whether a claim has the same verdict with other rows."""
    return judge(claim, lambda part: points_again(part, evaluation))[0] == claim["verdict"]


def _unpair(claim: Json, rows: Rows, found: Controls) -> None:
    """Move the seeds of one of two conditions that are compared seed by seed, if both differ from seed to seed."""
    changed = []
    for number in {n for point in claim["size"]["points"] for n in within_expression("series", point["how"]["value"])}:
        reads = _reads(rows.series[number]["of"])
        selections = {selection for selection, _ in reads}
        usual = Evaluation(rows, claim["confidence"])
        varying = {s for s, column in reads if len({row.get(column) for row in usual.rows_of(s).values()}) > 1}
        if len(selections) == 2 and varying == selections and len(set(usual.by_seed(number).values())) > 1:
            end = ["over_seeds.high", ["series", number]]
            turned = Mixed(rows, claim["confidence"], turned=min(selections))
            changed.append(usual.value(end) != turned.value(end))
    found.paired += bool(changed)
    if changed and not any(changed):
        found.unmoved.append(claim["id"])


def _points(claim: Json) -> Iterator[Json]:
    for whole in (claim["size"], claim["direction"] or {"points": [], "also": []}):
        for part in (whole, *whole["also"]):
            yield from part["points"]


def _reads_of(point: Json, rows: Rows) -> set[Read]:
    """Return all that a point is made from."""
    hows = list(point["how"].values())
    hows += [rows.series[number]["of"] for how in hows for number in within_expression("series", how)]
    return set().union(*map(_reads, hows))


def _reads(expression: Any) -> set[Read]:
    """Return all that an expression reads."""
    if not isinstance(expression, list):
        return set()
    if expression[0] == "row":
        return {(expression[1], expression[2])}
    return set().union(*map(_reads, expression[1:]))


def _shape(by_seed: dict[int, Json]) -> str:
    """Return what conditions must share to take each other's place: columns and seeds."""
    return json.dumps([sorted(by_seed), sorted(next(iter(by_seed.values())))])
