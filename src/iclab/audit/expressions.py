"""Traced numbers as plain data: expressions over selections of stored rows.

An expression is a number, None, or a list of an operation and its operands:

    ["row", 3, "error"]         the column of the row in selection 3 that has the seed at hand
    ["row", 3, "error", 7]      the same of seed 7
    ["series", 2]               the numbers of series 2: an expression for each of its seeds
    ["list", a, b, ...]         a list of numbers
    ["recorded", 0.25]          a number that was computed from rows in a way that could not be traced
    ["mean", ["series", 2]]     any other operation: arithmetic, or a function by its name

A selection is a set of columns with their values, which one row per seed has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from iclab.probes import Row
from iclab.probes.tracing import Count, Number, of_row, plain

Expression = Any
MEASURED = ("prompts", "right", "wrong", "ties", "nans", "examples", "diverged")
"""Columns of whole numbers that are measured, and never name a row."""
OVER_SEEDS = ("mean", "total", "over_seeds.low", "over_seeds.high")
"""Operations on numbers of several seeds."""


def keys_of(rows: list[Row], columns: Iterable[str]) -> list[str]:
    """Return the columns that name a row, apart from the seed: those of the conditions, and more where needed."""
    keys = list(dict.fromkeys(columns))
    others = dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, (int, str)))
    left = [name for name in others if name not in (*keys, *MEASURED, "seed")]
    while _repeated(rows, keys) and left:
        keys.append(left.pop(0))
    return keys


def _repeated(rows: list[Row], keys: list[str]) -> bool:
    return len({(row["seed"], *(str(row.get(key)) for key in keys)) for row in rows}) < len(rows)


def traceable(rows: list[Row], keys: list[str]) -> list[Row]:
    """Return rows whose measured numbers remember where they come from."""
    named = {*keys, "seed"}
    return [
        {name: value if name in named else of_row(value, i, name) for name, value in row.items()}
        for i, row in enumerate(rows)
    ]


class Writer:
    """Writes the numbers of one experiment, and collects the selections and series that they share."""

    def __init__(self, rows: list[Row], keys: list[str]) -> None:
        self._rows, self._keys = rows, keys
        self._known: dict[str, int] = {}
        self._series_known: dict[str, int] = {}
        self.selections: list[dict[str, Any]] = []
        self.series: list[dict[str, Any]] = []

    def expression(self, value: Any, recorded: bool = False) -> Expression:
        """Write a number, or a list of numbers; ``recorded`` numbers of seeds are written down as they are."""
        if isinstance(value, list):
            return ["list", *(self.expression(item, recorded) for item in value)]
        if not isinstance(value, (Number, Count)):
            return plain(value)
        operation, *operands = value.how
        if operation == "row":
            return ["recorded", plain(value)] if recorded else self._row(*operands)
        if operation in OVER_SEEDS:
            return [operation, self._over_seeds(operands[0], recorded)]
        terms = _terms(value) if operation == "+" else operands
        return [operation, *(self.expression(term, recorded) for term in terms)]

    def _row(self, row: int, column: str) -> Expression:
        found = {key: self._rows[row][key] for key in self._keys if key in self._rows[row]}
        return ["row", _place_of(found, self._known, self.selections), column, self._rows[row]["seed"]]

    def _over_seeds(self, values: list[Any], recorded: bool) -> Expression:
        """Write a list with one number per seed as a series; any other list as it is."""
        if recorded or not all(isinstance(value, (Number, Count)) for value in values):
            return ["list", *(["recorded", plain(value)] for value in values)]
        written = [self.expression(value) for value in values]
        seeds: list[set[int]] = [set() for _ in written]
        common = [_without_seed(expression, own) for expression, own in zip(written, seeds, strict=True)]
        alike = all(expression == common[0] for expression in common)
        apart = all(len(own) == 1 for own in seeds) and len(set().union(*seeds)) == len(seeds)
        if len(values) < 2 or not alike or not apart:
            return ["list", *written]
        found = {"seeds": [own.pop() for own in seeds], "of": common[0]}
        return ["series", _place_of(found, self._series_known, self.series)]


def _place_of(item: dict[str, Any], known: dict[str, int], items: list[dict[str, Any]]) -> int:
    """Return the place of an item in a list, to which it is added if it is new."""
    place = known.setdefault(json.dumps(item), len(items))
    if place == len(items):
        items.append(item)
    return place


def _terms(value: Any) -> list[Any]:
    """Return the terms of a sum, which may be long."""
    terms: list[Any] = []
    while isinstance(value, (Number, Count)) and value.how[0] == "+":
        value, last = value.how[1:]
        terms.append(last)
    return [value, *reversed(terms)]


def _without_seed(expression: Expression, seeds: set[int]) -> Expression:
    """Return an expression without the seed of its rows, which is added to ``seeds``."""
    if not isinstance(expression, list):
        return expression
    if expression[0] == "row" and len(expression) == 4:
        seeds.add(expression[3])
        return expression[:3]
    return [_without_seed(part, seeds) for part in expression]
