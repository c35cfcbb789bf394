"""Claims and verdicts: a precise form of what a paper claims, judged from stored rows alone.

*holds* and *fails* mean that the whole interval lies on one side of the margin, *undecided* that the margin lies
inside the interval, *not run* that rows are missing. A claim with a diverged seed never *holds*. A claim about a size
may name a weaker `Direction`: if the size fails and the direction holds, it holds *in direction* but not in size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from iclab.probes import Interval, Row, current_confidence, over_seeds
from iclab.probes.tracing import least, mean

Verdict = Literal["holds", "in direction", "fails", "undecided", "not run"]
COUNTED: dict[str, str] = {
    "holds": "hold",
    "in direction": "hold in direction but not in size",
    "fails": "fail",
    "undecided": "undecided",
    "not run": "not run",
}
"""How to say how many claims have each verdict."""
DECIDED = ("holds", "in direction", "fails")
WORST_FIRST = ("fails", "not run", "undecided", "holds")

# What would decide an undecided claim.
SEEDS, PROMPTS, NONE_LOST = "more seeds", "more test prompts", "seeds that all have a number"


@dataclass(frozen=True)
class Judgement:
    """A verdict and the number that decides it."""

    verdict: Verdict
    measured: float | None = None
    """The number that decides; if a claim is about several numbers, the worst one."""
    interval: Interval | None = None
    where: str = ""
    """The condition of that number, and remarks."""
    points: tuple[Point, ...] = ()
    """All judged points."""
    margins: tuple[float, ...] = ()
    """The margins that the points are compared with."""
    rule: str = ""
    """How the points are compared with the margins: the name of a rule below."""
    also: tuple[Judgement, ...] = ()
    """Other judgements that must hold too, with margins of their own; this one is the worst."""
    withheld: str = ""
    """Why the claim is undecided, whatever its points say."""
    needs: str = ""
    """What an undecided claim needs: `SEEDS`, `PROMPTS` or `NONE_LOST`; empty if it is something else."""


Judge = Callable[[list[Row]], Judgement]


@dataclass(frozen=True)
class Direction:
    """The claim without its size: a weaker predicate, such as the sign of an exponent or that a gap exists."""

    predicate: str
    judge: Judge


@dataclass(frozen=True)
class Claim:
    """A paper's claim, the predicate iclab tests for it, and the function that judges it from rows."""

    id: str
    paper: str
    """What the paper says, in words or as a number."""
    predicate: str
    """What exactly is tested."""
    judge: Judge
    models: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    """The models in the claim, if its experiment has others too; a function where finding them takes long."""
    ours: bool = False
    """Whether the claim is iclab's own and not the paper's."""
    counts: bool = False
    """Whether its number is a count."""
    direction: Direction | None = None
    """What still holds if only the size of the claim is wrong."""

    @property
    def tested(self) -> str:
        """What exactly is tested, with the weaker predicate if there is one."""
        return f"{self.predicate}; in direction: {self.direction.predicate}" if self.direction else self.predicate

    def judgement(self, rows: list[Row]) -> Judgement:
        """Judge the claim: its size, and if that fails, its direction."""
        found = self.judge(rows)
        if found.verdict == "fails" and self.direction and self.direction.judge(rows).verdict == "holds":
            return replace(found, verdict="in direction")
        return found

    @property
    def statement(self) -> str:
        """The claim, with a mark if it is iclab's own."""
        return f"(iclab's) {self.paper}" if self.ours else self.paper

    def verdict(self, rows: list[Row]) -> dict[str, Any]:
        """Judge the claim and return one record."""
        found = self.judgement(rows)
        return {
            "id": self.id,
            "verdict": found.verdict,
            "measured": _finite(found.measured),
            "low": _finite(found.interval.low) if found.interval else None,
            "high": _finite(found.interval.high) if found.interval else None,
            "where": found.where,
            "paper": self.statement,
            "predicate": self.tested,
            "needs": found.needs if found.verdict == "undecided" else "",
            "confidence": current_confidence(),
            "models": list(self.models() if callable(self.models) else self.models),
            "ours": self.ours,
            "counts": self.counts,
            "points": [p.record() for p in found.points],
            "margins": list(found.margins),
        }


def number(value: float) -> str:
    """Format a number with four decimals, or with four digits if it is large."""
    text = f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def in_figures(record: dict[str, Any]) -> tuple[str, str]:
    """Format the measured number of a claim and its interval."""
    value, low, high = (record[name] for name in ("measured", "low", "high"))
    if value is None:
        return "", ""
    as_text = "{:.0f}".format if record["counts"] else number
    if low is None or high is None:
        return as_text(value), "no interval"
    return as_text(value), "" if record["counts"] and low == high else f"[{as_text(low)}, {as_text(high)}]"


def _finite(value: float | None) -> float | None:
    """Replace infinity (the end of an interval from one seed) and NaN by None."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Point:
    """One measured condition."""

    value: float | None
    interval: Interval
    where: str
    diverged: int = 0
    """The number of seeds without a value."""
    fate: str = "diverged"
    """What happened to those seeds."""
    needs: str = SEEDS
    """What makes the interval shorter."""

    def record(self) -> dict[str, Any]:
        """Return the point as a record."""
        low, high = self.interval.low, self.interval.high
        return {"value": _finite(self.value), "low": _finite(low), "high": _finite(high), "where": self.where}


def every_below(points: Sequence[Point], margin: float) -> Judgement:
    """Judge whether every point lies below the margin. The point with the highest upper end decides."""
    return _every(points, lambda p: p.interval.high < margin, lambda p: p.interval.low > margin, highest=True)


def every_above(points: Sequence[Point], margin: float) -> Judgement:
    """Judge whether every point lies above the margin. The point with the lowest lower end decides."""
    return _every(points, lambda p: p.interval.low > margin, lambda p: p.interval.high < margin, highest=False)


def every_within(points: Sequence[Point], low: float, high: float) -> Judgement:
    """Judge whether every point lies between two margins. The point closest to a margin decides."""
    above, below = every_above(points, low), every_below(points, high)
    return min(above, below, key=lambda judgement: (WORST_FIRST.index(judgement.verdict), _room(judgement, low, high)))


def _room(judgement: Judgement, low: float, high: float) -> float:
    if judgement.interval is None:
        return 0.0
    return min(judgement.interval.low - low, high - judgement.interval.high)


BySeed = dict[int, float | None]
"""One number per seed; None if the seed diverged. Seeds that were not measured are missing."""


def judged(
    points: Callable[[list[Row]], list[Point] | str | None], rule: Callable[..., Judgement], *margins: float
) -> Judge:
    """Judge the points made from rows by one of the rules above.

    *Not run* if ``points`` returns None, or words that say what is missing.
    """

    def judge(rows: list[Row]) -> Judgement:
        found = points(rows)
        if found is None or isinstance(found, str):
            return Judgement("not run", where=found or "")
        return replace(rule(found, *margins), points=tuple(found), margins=margins, rule=rule.__name__)

    return judge


def all_of(*judges: Judge) -> Judge:
    """Judge whether all of several predicates hold; the worst verdict decides."""

    def judge(rows: list[Row]) -> Judgement:
        first, *rest = sorted((one(rows) for one in judges), key=lambda found: WORST_FIRST.index(found.verdict))
        return replace(first, also=tuple(rest))

    return judge


def mean_point(
    seeds: int,
    values: Callable[[list[Row]], BySeed],
    where: str = "",
    fate: str = "diverged",
    most: float = math.inf,
) -> Callable[[list[Row]], list[Point] | None]:
    """Make one point from one number per seed: the mean over seeds.

    ``fate`` says why a seed may have no number. ``most`` is the largest possible value.
    """

    def points(rows: list[Row]) -> list[Point] | None:
        found = values(rows)
        if len(found) < seeds:
            return None
        good = [value for value in found.values() if value is not None]
        interval = over_seeds(good)
        if math.isfinite(most):
            interval = replace(interval, high=least([interval.high, most]))
        return [Point(mean(good) if good else None, interval, where, len(found) - len(good), fate)]

    return points


def together(*sources: Callable[[list[Row]], list[Point] | None]) -> Callable[[list[Row]], list[Point] | None]:
    """Combine the points of several sources into one claim; None if any source returns None."""

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
        return Judgement("undecided", where=f"every seed {points[0].fate}", needs=NONE_LOST)
    worst = max(measured, key=lambda p: p.interval.high if highest else -p.interval.low)
    if failing := [p for p in measured if bad(p)]:
        worst = max(failing, key=lambda p: p.interval.low if highest else -p.interval.high)
        verdict: Verdict = "fails"
    elif all(map(good, measured)) and len(measured) == len(points) and not diverged:
        verdict = "holds"
    else:
        verdict = "undecided"
    open_ = {p.needs for p in measured if not good(p)}
    needs = "" if verdict != "undecided" else NONE_LOST if not open_ else SEEDS if SEEDS in open_ else PROMPTS
    return Judgement(verdict, worst.value, worst.interval, "; ".join(filter(None, (worst.where, note))), needs=needs)
