"""Where a number in the text comes from: a few queries over an experiment's outcome, and arithmetic between them.

- `rows("M-fig2", model="mamba", outlier_fraction=0.6)` is the mean of the column ``error`` over seeds; `.of("gate")`
  takes another column; `.highest("seed")` and `.lowest("layer")` are its extreme values along a column instead.
- `claim("M-fig2.gap.flip")` is the number that decides a claim; `.low` and `.high` are the ends of its interval, and
  `.at("α = 0.6")` is another of its points.
- `table("M-kernel", "R²", {"M1": 6, "tasks": "ring:1"})` is the first number in a cell of the experiment's table.
- `found("M-deep-gates", function)` calls a function of the outcome, for what the others cannot say.

Numbers can be added, multiplied, and so on: ``100 * (1 - error)``. A number in the text may also be a bound:
`below(x)` says that x is at most what is printed, `above(x)` that it is at least that.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from iclab.probes import Row
    from iclab.study.outcome import Outcome

DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
Values = Mapping[str, Mapping[str, float]]
"""The value of every query, by experiment and query."""


class Number:
    """A number that can be computed from the values of queries."""

    bound: Literal["", "below", "above"] = ""
    """Whether the text prints the number, or a bound of it."""

    def queries(self) -> list[Query]:
        """Return the queries that must be answered first."""
        raise NotImplementedError

    def value(self, values: Values) -> float:
        """Compute the number; a KeyError if an answer is missing."""
        raise NotImplementedError

    def __add__(self, other: Number | float) -> Number:
        return Computed(operator.add, (self, other))

    def __radd__(self, other: float) -> Number:
        return Computed(operator.add, (other, self))

    def __sub__(self, other: Number | float) -> Number:
        return Computed(operator.sub, (self, other))

    def __rsub__(self, other: float) -> Number:
        return Computed(operator.sub, (other, self))

    def __mul__(self, other: Number | float) -> Number:
        return Computed(operator.mul, (self, other))

    def __rmul__(self, other: float) -> Number:
        return Computed(operator.mul, (other, self))

    def __truediv__(self, other: Number | float) -> Number:
        return Computed(operator.truediv, (self, other))

    def __rtruediv__(self, other: float) -> Number:
        return Computed(operator.truediv, (other, self))

    def __abs__(self) -> Number:
        return Computed(abs, (self,))


@dataclass(frozen=True)
class Computed(Number):
    """A function of numbers."""

    function: Callable[..., float]
    parts: tuple[Number | float, ...]
    bound: Literal["", "below", "above"] = ""

    def queries(self) -> list[Query]:
        """Return the queries of all parts."""
        return [query for part in self.parts if isinstance(part, Number) for query in part.queries()]

    def value(self, values: Values) -> float:
        """Compute the parts, then their function."""
        return self.function(*(part.value(values) if isinstance(part, Number) else part for part in self.parts))


def below(*numbers: Number) -> Number:
    """The text prints an upper bound of all these numbers."""
    return Computed(max, (*numbers, *numbers), "below")


def above(*numbers: Number) -> Number:
    """The text prints a lower bound of all these numbers."""
    return Computed(min, (*numbers, *numbers), "above")


def most(*numbers: Number) -> Number:
    """Return the largest of some numbers."""
    return Computed(max, numbers)


def least(*numbers: Number) -> Number:
    """Return the smallest of some numbers."""
    return Computed(min, numbers)


def exactly(value: float) -> Number:
    """A number that needs no experiment, such as 0.8**20."""
    return Computed(float, (value,))


@dataclass(frozen=True)
class Query(Number):
    """A question that the outcome of one experiment answers."""

    experiment: str

    def queries(self) -> list[Query]:
        """Return itself."""
        return [self]

    def value(self, values: Values) -> float:
        """Look the answer up."""
        return values[self.experiment][self.text]

    @property
    def text(self) -> str:
        """The question, as it stands in numbers.json."""
        raise NotImplementedError

    def answer(self, outcome: Outcome) -> float | None:
        """Answer the question; None if every seed diverged."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rows(Query):
    """The mean of a column over the seeds of one condition, or its extreme over conditions or seeds."""

    where: tuple[tuple[str, Any], ...] = ()
    column: str = "error"
    extreme: Literal["", "highest", "lowest"] = ""
    along: tuple[str, ...] = ()
    rank: int = 1

    def __call__(self, /, **where: Any) -> Rows:
        """Select fewer rows."""
        return replace(self, where=tuple(sorted({**dict(self.where), **where}.items())))

    def of(self, column: str) -> Rows:
        """Take another column."""
        return replace(self, column=column)

    def highest(self, *along: str, rank: int = 1) -> Rows:
        """Take the highest mean along some columns, or the second; along "seed", the highest of single seeds."""
        return replace(self, extreme="highest", along=along, rank=rank)

    def lowest(self, *along: str, rank: int = 1) -> Rows:
        """Take the lowest mean along some columns, or the second; along "seed", the lowest of single seeds."""
        return replace(self, extreme="lowest", along=along, rank=rank)

    @property
    def accuracy(self) -> Number:
        """The share of right answers in %."""
        return 100 * (1 - self)

    @property
    def text(self) -> str:
        """The column, and what the rows have in common."""
        said = " ".join(f"{name}={_told(value)}" for name, value in self.where)
        how = f", {self.extreme} {self.rank} along {' '.join(self.along)}" if self.extreme else ""
        return f"{self.column}: {said or 'all rows'}{how}"

    def answer(self, outcome: Outcome) -> float | None:
        """Average over seeds."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in outcome.rows:
            if all(_same(row.get(name), value) for name, value in self.where):
                groups.setdefault(tuple(row.get(name) for name in self.along), []).append(row)
        if not groups:
            raise LookupError(f"{self.experiment}: no row has {self.text}")
        means = [mean for group in groups.values() if (mean := self._mean(group)) is not None]
        ordered = sorted(means, reverse=self.extreme == "highest")
        return ordered[self.rank - 1] if ordered else None

    def _mean(self, group: list[Row]) -> float | None:
        if len({row["seed"] for row in group}) < len(group):
            differ = [name for name in group[0] if len({repr(row.get(name)) for row in group}) > 1]
            raise LookupError(f"{self.experiment}: {self.text} is more than one condition; they differ in {differ}")
        good = [row[self.column] for row in group if row[self.column] is not None]
        return sum(good) / len(good) if good else None


def _told(value: Any) -> str:
    if isinstance(value, tuple):
        return "|".join(map(_told, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return any(_same(found, one) for one in wanted)
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return abs(found - wanted) < 1e-9 + 1e-3 * abs(wanted)
    return bool(found == wanted)


def rows(experiment: str, /, **where: Any) -> Rows:
    """Select rows of an experiment; the number is the mean of their column ``error``."""
    return Rows(experiment)(**where)


@dataclass(frozen=True)
class ClaimNumber(Query):
    """The number that decides a claim, an end of its interval, or another of its points."""

    name: str = ""
    part: Literal["measured", "low", "high"] = "measured"
    point: str | None = None
    extreme: Literal["", "highest", "lowest", "mean"] = ""
    but: str = ""

    @property
    def low(self) -> ClaimNumber:
        """The lower end of the interval."""
        return replace(self, part="low")

    @property
    def high(self) -> ClaimNumber:
        """The upper end of the interval."""
        return replace(self, part="high")

    @property
    def interval(self) -> tuple[ClaimNumber, ClaimNumber, ClaimNumber]:
        """The number and both ends."""
        return self, self.low, self.high

    def at(self, point: str) -> ClaimNumber:
        """Take the point with this text in its condition instead."""
        return replace(self, point=point)

    def highest(self, among: str = "", but: str = "") -> ClaimNumber:
        """Take the highest of the points with a text in their conditions, and without another."""
        return replace(self, point=among, extreme="highest", but=but)

    def lowest(self, among: str = "", but: str = "") -> ClaimNumber:
        """Take the lowest of the points with a text in their conditions, and without another."""
        return replace(self, point=among, extreme="lowest", but=but)

    def mean(self, among: str = "") -> ClaimNumber:
        """Take the mean of the points with a text in their conditions."""
        return replace(self, point=among, extreme="mean")

    @property
    def text(self) -> str:
        """The claim, and which of its numbers."""
        at = f" at {self.point}" if self.point else ""
        how = f", {self.extreme}" + (f" but {self.but}" if self.but else "") if self.extreme else ""
        return f"claim {self.name}{at}{how}" + (f", {self.part}" if self.part != "measured" else "")

    def answer(self, outcome: Outcome) -> float | None:
        """Look at the claim's record."""
        records = [record for record in outcome.claims if record["id"] == f"{self.experiment}.{self.name}"]
        if not records:
            raise LookupError(f"{self.experiment}: has no claim {self.name}")
        if self.point is None:
            return records[0][self.part]
        listed = [point for point in records[0]["points"] if not self.but or self.but not in point["where"]]
        points = [point for point in listed if point["where"] == self.point]
        points = points or [point for point in listed if self.point in point["where"]]
        if len(points) != 1 and not (self.extreme and points):
            raise LookupError(f"{self.experiment}: {len(points)} points of claim {self.name} have {self.point!r}")
        key = "value" if self.part == "measured" else self.part
        numbers = [point[key] for point in points if point[key] is not None]
        if self.extreme == "mean":
            return sum(numbers) / len(numbers) if numbers else None
        return (min if self.extreme == "lowest" else max)(numbers, default=None)


def claim(id_: str) -> ClaimNumber:
    """The number that decides a claim. The ids of some experiments have a dot, as T-thm3.3 does, and then a digit."""
    parts = id_.split(".")
    first = 2 if parts[1].isdigit() else 1
    return ClaimNumber(".".join(parts[:first]), ".".join(parts[first:]))


@dataclass(frozen=True)
class TableNumber(Query):
    """The first number in a cell of the experiment's table."""

    column: str = ""
    where: tuple[tuple[str, Any], ...] = ()
    place: int = 1

    def number(self, place: int) -> TableNumber:
        """Take another number of the cell: the second, the third, and so on."""
        return replace(self, place=place)

    @property
    def text(self) -> str:
        """The cell."""
        where = " ".join(f"{name}={value}" for name, value in self.where)
        return f"table {self.column}: {where}" + (f", number {self.place}" if self.place > 1 else "")

    def answer(self, outcome: Outcome) -> float | None:
        """Read the cell."""
        lines = [line for line in outcome.table if all(_same(line[name], value) for name, value in self.where)]
        if len(lines) != 1:
            raise LookupError(f"{self.experiment}: {len(lines)} lines of the table have {dict(self.where)}")
        numbers = re.findall(rf"[-−]?{DIGITS}", str(lines[0][self.column]))
        return parsed(numbers[self.place - 1]) if len(numbers) >= self.place else None


def table(experiment: str, column: str, where: Mapping[str, Any]) -> TableNumber:
    """The first number in the cell of a table: the line with these values, and a column."""
    return TableNumber(experiment, column, tuple(sorted(where.items())))


@dataclass(frozen=True)
class Found(Query):
    """What a function finds in an outcome."""

    function: Callable[[Outcome], float | None] = field(default=lambda outcome: None)

    @property
    def text(self) -> str:
        """The function's name."""
        return self.function.__name__.replace("_", " ")

    def answer(self, outcome: Outcome) -> float | None:
        """Call it."""
        return self.function(outcome)


def found(experiment: str, function: Callable[[Outcome], float | None]) -> Found:
    """The number that a function of the outcome returns."""
    return Found(experiment, function)


def parsed(text: str) -> float:
    """Read a number as a page prints it.

    >>> parsed("−1,024.5")
    -1024.5
    """
    return float(text.replace(",", "").replace("−", "-"))
