"""Where curves cross a margin, and lines and power laws through points: seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from iclab.study.claims import BySeed

FEWEST = 4
"""Through fewer points no line is called straight."""


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


def crossings(places: Sequence[float], found: Sequence[BySeed], margin: float) -> BySeed:
    """Return each seed's crossing, given its values at every place; a seed that misses a place is left out.

    Example:
        >>> crossings([0, 10], [{0: 0.1, 1: 0.1}, {0: 0.001, 1: 0.1}], margin=0.01)
        {0: 5.0, 1: None}
    """
    return {seed: crossing(places, [by_seed[seed] for by_seed in found], margin) for seed in _in_all(found)}


def straight_line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Return slope and start of the straight line nearest to the points.

    Example:
        >>> [round(number, 6) for number in straight_line([1, 2, 3], [5, 7, 9])]
        [2.0, 3.0]
    """
    slope, start = np.polyfit(xs, ys, 1)
    return float(slope), float(start)


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
    return straight_line(np.log(xs).tolist(), np.log(ys).tolist())[0]


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
