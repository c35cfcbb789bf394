"""Claims and verdicts: a claim of a paper, made precise, is judged on stored rows and nothing else.

*holds* and *fails* mean that the whole interval lies on that side of the margin, *undecided* that it straddles it,
*not run* that rows are missing. A diverged seed forbids *holds*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from iclab.probes import Interval, Row, over_seeds

Verdict = Literal["holds", "fails", "undecided", "not run"]


@dataclass(frozen=True)
class Judgement:
    """A verdict with the number it rests on."""

    verdict: Verdict
    measured: float | None = None
    """The number that decides: the worst one, where a claim is about several."""
    interval: Interval | None = None
    where: str = ""
    """At which condition, and anything a reader should know."""
    points: tuple[Point, ...] = ()
    """All that was judged."""
    margins: tuple[float, ...] = ()
    """What it was held against."""


Judge = Callable[[list[Row]], Judgement]


@dataclass(frozen=True)
class Claim:
    """What a paper says, the predicate iclab reads into it, and how to judge that from rows."""

    id: str
    paper: str
    """The paper's words, or its number."""
    predicate: str
    """What exactly is tested."""
    judge: Judge
    models: tuple[str, ...] = ()
    """The models it speaks of, where its experiment has others too."""
    ours: bool = False
    """Whether it is iclab's question, not the paper's claim."""
    counts: bool = False
    """Whether its number is how many of something there are."""

    @property
    def statement(self) -> str:
        """The claim, marked as iclab's own if it is not the paper's."""
        return f"(iclab's) {self.paper}" if self.ours else self.paper

    def verdict(self, rows: list[Row]) -> dict[str, Any]:
        """Judge, as one record."""
        found = self.judge(rows)
        return {
            "id": self.id,
            "verdict": found.verdict,
            "measured": _finite(found.measured),
            "low": _finite(found.interval.low) if found.interval else None,
            "high": _finite(found.interval.high) if found.interval else None,
            "where": found.where,
            "paper": self.statement,
            "predicate": self.predicate,
            "models": list(self.models),
            "ours": self.ours,
            "counts": self.counts,
            "points": [p.record() for p in found.points],
            "margins": list(found.margins),
        }


def number(value: float) -> str:
    """A number to four decimals, or fewer digits where it is large."""
    text = f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def in_figures(record: dict[str, Any]) -> tuple[str, str]:
    """What a claim rests on and its interval, as people read them."""
    value, low, high = (record[name] for name in ("measured", "low", "high"))
    if value is None:
        return "", ""
    tell = "{:.0f}".format if record["counts"] else number
    if low is None or high is None:
        return tell(value), "no interval"
    return tell(value), "" if record["counts"] and low == high else f"[{tell(low)}, {tell(high)}]"


def _finite(value: float | None) -> float | None:
    """Leave an unbounded end (one seed has no spread) out of the record, and what is no number."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Point:
    """One measured condition."""

    value: float | None
    interval: Interval
    where: str
    diverged: int = 0
    """How many seeds are not in it."""
    fate: str = "diverged"
    """What became of them."""

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        low, high = self.interval.low, self.interval.high
        return {"value": _finite(self.value), "low": _finite(low), "high": _finite(high), "where": self.where}


def every_below(points: Sequence[Point], margin: float) -> Judgement:
    """Judge that every point lies below the margin; the one with the highest upper end decides."""
    return _every(points, lambda p: p.interval.high < margin, lambda p: p.interval.low > margin, highest=True)


def every_above(points: Sequence[Point], margin: float) -> Judgement:
    """Judge that every point lies above the margin; the one with the lowest lower end decides."""
    return _every(points, lambda p: p.interval.low > margin, lambda p: p.interval.high < margin, highest=False)


def every_within(points: Sequence[Point], low: float, high: float) -> Judgement:
    """Judge that every point lies between two margins; the one that comes nearest to either decides."""
    above, below = every_above(points, low), every_below(points, high)
    order: list[Verdict] = ["fails", "not run", "undecided", "holds"]
    return min(above, below, key=lambda judgement: (order.index(judgement.verdict), _room(judgement, low, high)))


def _room(judgement: Judgement, low: float, high: float) -> float:
    if judgement.interval is None:
        return 0.0
    return min(judgement.interval.low - low, high - judgement.interval.high)


BySeed = dict[int, float | None]
"""One number a seed, None where it diverged; a seed that was not measured is left out."""


def judged(points: Callable[[list[Row]], list[Point] | None], rule: Callable[..., Judgement], *margins: float) -> Judge:
    """Judge points made of rows by one of the rules above; *not run* where there are none to be made."""

    def judge(rows: list[Row]) -> Judgement:
        found = points(rows)
        if found is None:
            return Judgement("not run")
        return replace(rule(found, *margins), points=tuple(found), margins=margins)

    return judge


def mean_point(
    seeds: int,
    values: Callable[[list[Row]], BySeed],
    where: str = "",
    fate: str = "diverged",
    most: float = math.inf,
) -> Callable[[list[Row]], list[Point] | None]:
    """Make one point of one number a seed: its mean over seeds.

    ``fate`` says why a seed may have none, ``most`` what it cannot exceed.
    """

    def points(rows: list[Row]) -> list[Point] | None:
        found = values(rows)
        if len(found) < seeds:
            return None
        good = [value for value in found.values() if value is not None]
        mean = sum(good) / len(good) if good else None
        interval = over_seeds(good)
        return [Point(mean, replace(interval, high=min(interval.high, most)), where, len(found) - len(good), fate)]

    return points


def together(*sources: Callable[[list[Row]], list[Point] | None]) -> Callable[[list[Row]], list[Point] | None]:
    """Judge the points of several sources as one claim; None if any of them has none."""

    def points(rows: list[Row]) -> list[Point] | None:
        found = [source(rows) for source in sources]
        return None if any(p is None for p in found) else [point for p in found for point in p or []]

    return points


def _every(
    points: Sequence[Point], good: Callable[[Point], bool], bad: Callable[[Point], bool], highest: bool
) -> Judgement:
    measured = [p for p in points if p.value is not None]
    if not points:
        return Judgement("not run")
    diverged = max(p.diverged for p in points)  # the points share their seeds
    note = f"{diverged} {points[0].fate}" if diverged else ""
    if not measured:
        return Judgement("undecided", where=f"every seed {points[0].fate}")
    worst = max(measured, key=lambda p: p.interval.high if highest else -p.interval.low)
    if failing := [p for p in measured if bad(p)]:
        worst = max(failing, key=lambda p: p.interval.low if highest else -p.interval.high)
        verdict: Verdict = "fails"
    elif all(map(good, measured)) and len(measured) == len(points) and not diverged:
        verdict = "holds"
    else:
        verdict = "undecided"
    return Judgement(verdict, worst.value, worst.interval, "; ".join(filter(None, (worst.where, note))))
