"""Where curves cross a margin, hitting times, and lines and power laws through points: seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from iclab.probes import Row
from iclab.probes.tracing import log, traced
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
)

FEWEST = 4
"""Through fewer points no line is called straight."""
FEWEST_POWERS = 5
"""Through fewer points no power law is judged; let them span a factor of 8 at least."""
NEAR = 0.15
"""How far a measured exponent may be from the claimed one."""
ROUNDING = 1e-9
"""An exponent this close to 0 has no sign: rounding alone makes it."""


@traced
def crossing(places: Sequence[float], values: Sequence[float | None], margin: float) -> float | None:
    """Return the place from which on values stay below a margin; None if they do not.

    It is interpolated on a logarithmic scale, since errors fall about exponentially. A value of 0 counts as a tenth
    of the margin.

    Example:
        >>> crossing([0, 10, 20], [0.5, 0.1, 0.001], margin=0.01)
        15.0
    """
    above = [i for i, value in enumerate(values) if value is None or value >= margin]
    if not above:
        return float(places[0])
    last = above[-1]
    if last + 1 == len(values):
        return None
    before, after = values[last], values[last + 1]
    if before is None or after is None:
        return None
    high, low = math.log(before / margin), math.log(max(after / margin, 0.1))
    return places[last] + (places[last + 1] - places[last]) * high / (high - low)


@traced
def inner_crossing(places: Sequence[float], values: Sequence[float | None], margin: float) -> float | None:
    """Return the `crossing` of a curve that starts above a margin and has no value missing; None of any other."""
    whole = all(value is not None for value in values) and (values[0] or 0.0) >= margin
    return crossing(places, values, margin) if whole else None


def crossings(places: Sequence[float], found: Sequence[BySeed], margin: float) -> BySeed:
    """Return each seed's crossing, given its values at every place; a seed that misses a place is left out.

    Example:
        >>> crossings([0, 10], [{0: 0.1, 1: 0.1}, {0: 0.001, 1: 0.1}], margin=0.01)
        {0: 5.0, 1: None}
    """
    return {seed: crossing(places, [by_seed[seed] for by_seed in found], margin) for seed in _in_all(found)}


@traced
def hitting_time(steps: Sequence[float], losses: Sequence[float | None], level: float) -> float | None:
    """Return T = min {t : loss(t) < level}, the first step with a loss below a level; None if there is none.

    Between two kept steps the logarithm of the loss is taken as linear in the step, which is exact for an exponential
    curve. A loss of 0 counts as a tenth of the level. Losses must be of fresh prompts: those of the training batch
    have been learned from. Unlike a `crossing`, it does not matter whether the loss rises again.

    Example:
        >>> round(hitting_time([0, 10, 20, 30], [1.0, 0.8, 0.2, 0.6], level=0.4), 6)
        15.0
    """
    for i, loss in enumerate(losses):
        if loss is None:
            return None  # the seed diverged
        if loss < level:
            if i == 0:
                return float(steps[0])
            high, low = math.log((losses[i - 1] or level) / level), math.log(max(loss / level, 0.1))
            return steps[i - 1] + (steps[i] - steps[i - 1]) * high / (high - low)
    return None


def hitting_times(steps: Sequence[float], found: Sequence[BySeed], level: float) -> BySeed:
    """Return each seed's hitting time, given its losses at every step; a seed that misses a step is left out.

    Example:
        >>> hitting_times([0, 10], [{0: 1.0, 1: 1.0}, {0: 0.25, 1: 0.9}], level=0.5)
        {0: 5.0, 1: None}
    """
    return {seed: hitting_time(steps, [by_seed[seed] for by_seed in found], level) for seed in _in_all(found)}


def straight_line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Return slope and start of the straight line nearest to the points.

    Example:
        >>> [round(number, 6) for number in straight_line([1, 2, 3], [5, 7, 9])]
        [2.0, 3.0]
    """
    slope, start = np.polyfit(xs, ys, 1)
    return float(slope), float(start)


@traced
def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the slope of the straight line nearest to the points."""
    return straight_line(xs, ys)[0]


@traced
def straightness(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return R² of the straight line through the points; 0 if all have one height.

    Example:
        >>> round(straightness([1, 2, 3, 4], [1, 4, 9, 16]), 3)
        0.969
    """
    slope, start = straight_line(xs, ys)
    rest, total = np.var(np.array(ys) - start - slope * np.array(xs)), np.var(ys)
    return float(1.0 - rest / total) if total > 0 else 0.0


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the exponent of the power law nearest to the points: the slope of log y against log x.

    Example:
        >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
        2.0
    """
    return slope([log(x) for x in xs], [log(y) for y in ys])


def power_straightness(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return R² of the straight line through the points, both on a logarithmic scale."""
    return straightness([log(x) for x in xs], [log(y) for y in ys])


def fit_per_seed(
    points: Mapping[float, BySeed], fit: Callable[[list[float], list[float]], float], fewest: int = FEWEST
) -> BySeed:
    """Fit each seed's points, given by x; None where one of them is missing, and nothing of too few.

    Example:
        >>> fit_per_seed({1: {0: 5.0, 1: 5.0}, 2: {0: 7.0, 1: None}}, lambda xs, ys: ys[-1] - ys[0], fewest=2)
        {0: 2.0, 1: None}
    """
    if len(points) < fewest:
        return {}
    answer: BySeed = {}
    for seed in _in_all(list(points.values())):
        ys = [y for by_seed in points.values() if (y := by_seed[seed]) is not None]
        answer[seed] = fit(list(points), ys) if len(ys) == len(points) else None
    return answer


@dataclass(frozen=True)
class PowerLaw:
    """The fit of y ∝ x^p for every seed, by ordinary least squares of log y on log x.

    Seeds with a number that is missing or not positive have no exponent. Too few points give nothing.

    Example:
        >>> law = PowerLaw({x: {0: 3.0 * x**2} for x in (1.0, 2.0, 4.0, 8.0, 16.0)})
        >>> [round(found[0], 6) for found in (law.exponent, law.straightness, law.lower, law.upper)]
        [2.0, 1.0, 2.0, 2.0]
    """

    points: Mapping[float, BySeed]
    """y of every seed, by x."""
    fewest: int = FEWEST_POWERS

    def _fit(self, xs: Sequence[float], fit: Callable[[list[float], list[float]], float]) -> BySeed:
        if len(self.points) < max(self.fewest, 3):
            return {}
        positive = {x: {s: y if y is not None and y > 0 else None for s, y in self.points[x].items()} for x in xs}
        return fit_per_seed(positive, fit, fewest=2)

    @cached_property
    def exponent(self) -> BySeed:
        """p over the whole range."""
        return self._fit(sorted(self.points), exponent)

    @cached_property
    def straightness(self) -> BySeed:
        """R² of the line. Alone it is no evidence: over a factor of 3 any power between 0.5 and 1 passes 0.98."""
        return self._fit(sorted(self.points), power_straightness)

    @cached_property
    def lower(self) -> BySeed:
        """p over the lower half of the range, with the middle point if there is one.

        A power law has one exponent, a crossover has two.
        """
        return self._fit(sorted(self.points)[: (len(self.points) + 1) // 2], exponent)

    @cached_property
    def upper(self) -> BySeed:
        """p over the upper half, with the middle point if there is one."""
        return self._fit(sorted(self.points)[len(self.points) // 2 :], exponent)

    def text(self) -> str:
        """Return the means over seeds as text for a table.

        Example:
            >>> PowerLaw({x: {0: 3.0 * x**2} for x in (1.0, 2.0, 4.0, 8.0, 16.0)}).text()
            '2.00 (R² 1.000; halves 2.00, 2.00)'
        """
        found = []
        for by_seed in (self.exponent, self.straightness, self.lower, self.upper):
            good = [value for value in by_seed.values() if value is not None]
            found.append(sum(good) / len(good) if good else math.nan)
        if math.isnan(found[0]):
            return "–"
        return f"{found[0]:.2f} (R² {found[1]:.3f}; halves {found[2]:.2f}, {found[3]:.2f})".replace("-", "−")


Curves = Callable[[list[Row]], Mapping[float, BySeed]]
"""Makes y by x and seed from rows, such as hitting times by step size."""


def exponent_point(
    seeds: int, curves: Curves, where: str = "", fate: str = "never get there", fewest: int = FEWEST_POWERS
) -> Callable[[list[Row]], list[Point] | None]:
    """Make one point for a claim: the mean over seeds of the exponent of a power law, with its t interval."""
    return mean_point(seeds, lambda rows: PowerLaw(curves(rows), fewest).exponent, where, fate)


def exponent_claim(
    id_: str, paper: str, curves: Curves, power: float, *, seeds: int, within: float = NEAR, **more: Any
) -> Claim:
    """Claim that y ∝ x^power: the interval of the exponent lies in power ± within. In direction: its sign is right.

    ``more`` goes to `exponent_point` (``where``, ``fate``, ``fewest``) and to `Claim` (``models``, ``ours``).

    Example:
        >>> exponent_claim("M-x.steps", "T ∝ 1/η", lambda rows: {}, -1.0, seeds=8).tested
        'exponent within 0.15 of −1, fitted seed by seed, mean over seeds; in direction: below 0'
    """
    own = {name: more.pop(name) for name in ("where", "fate", "fewest") if name in more}
    points = exponent_point(seeds, curves, **own)
    direction = None
    if power:
        rule, words = (every_above, "above 0") if power > 0 else (every_below, "below 0")
        direction = Direction(words, judged(points, rule, math.copysign(ROUNDING, power)))
    predicate = f"exponent within {within:g} of {power:g}, fitted seed by seed, mean over seeds".replace("-", "−")
    size = judged(points, every_within, power - within, power + within)
    return Claim(id_, paper, predicate, size, direction=direction, **more)


def bound_claim(
    id_: str, paper: str, curves: Curves, power: float, *, seeds: int, above: bool = False, **more: Any
) -> Claim:
    """Claim that y falls at least as fast as x^power, or with ``above`` that it grows at least as fast.

    The interval of the exponent must lie below power + 0.15, or above power − 0.15. ``more`` is that of
    `exponent_claim`.

    Example:
        >>> bound_claim("T-x.small", "≤ M2^(−1/2)", lambda rows: {}, -0.5, seeds=8).tested
        'exponent < −0.35, fitted seed by seed, mean over seeds; in direction: below 0'
    """
    own = {name: more.pop(name) for name in ("where", "fate", "fewest") if name in more}
    points = exponent_point(seeds, curves, **own)
    rule, sign, margin = (every_above, ">", power - NEAR) if above else (every_below, "<", power + NEAR)
    words = "above 0" if above else "below 0"
    direction = Direction(words, judged(points, rule, ROUNDING if above else -ROUNDING))
    predicate = f"exponent {sign} {margin:g}, fitted seed by seed, mean over seeds".replace("-", "−")
    return Claim(id_, paper, predicate, judged(points, rule, margin), direction=direction, **more)


def spread(found: BySeed, missing: str = "never") -> str:
    """Return mean, lowest and highest seed as text for a table, and how many seeds have no number.

    Example:
        >>> spread({0: 100.0, 1: 300.0, 2: None})
        '200 (100 to 300, 1 never)'
    """
    good = [value for value in found.values() if value is not None]
    if not good:
        return missing if found else ""
    rest = f", {len(found) - len(good)} {missing}" if len(good) < len(found) else ""
    return f"{np.mean(good):.0f} ({min(good):.0f} to {max(good):.0f}{rest})"


def _in_all(found: Sequence[BySeed]) -> list[int]:
    return sorted(set.intersection(*map(set, found))) if found else []
