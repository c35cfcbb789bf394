"""Density evolution on cells of any size, for laws that are too rough for a grid.

With m tokens left, the mean of an answer is a function of the state, u_m(h) = Σ_t p_t u_{m−1}(d_t h + b_t). u_0 is the
answer itself, 1[h ≤ 0] or max(0, 1 − scale·h), and u_l(0) is wanted. u_1 has a jump and a kink for every type: it is
kept as it is. u_{l−1} is needed only at the inflows, and is computed there. So nothing is rounded up to l = 3. All
others are cubics on cells, which are halved until the cubic of a whole cell meets its halves. Answers fall with h, and
so does every u_m: no jump hides between the points of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.theory import evolution_cell_kernels as kernels
from iclab.theory.evolution_kernels import CLOSEST, COUNTED, MIXED, merge, reach

Array = NDArray[np.float64]

FIRST_CELLS = 4
WORK = 2_000_000
"""The most cells of one function, times the number of types."""
MANY = 512
"""Types; fewer, whose functions are rougher, have narrower cells at the same cost."""
JUMPS = 2048
"""So many jumps of a function, the largest, are edges of its cells from the start."""
NARROW = 1e-14
"""A cell is not halved below this share of the largest state."""
TINY = 1e-280
"""The width of the cell of ties."""
SAME = 1e-11
"""Types closer than this share of the largest state are one type."""


class Function(NamedTuple):
    """Mean error and hinge loss, given the state."""

    edges: Array
    """(n + 1,) of cells: the i-th has edges[i] < h ≤ edges[i + 1]."""
    cubics: Array
    """(n, 9) the coefficients of (h − edges[i]) / width, of the error, then of the hinge loss; then 1 / width."""
    first: NDArray[np.int64]
    """Where to look for i, by the even part of the whole range in which h lies."""
    jumps: Array
    """(k, 2) places and heights of the largest jumps."""

    @classmethod
    def of(cls, edges: Array, coefficients: Array, jumps: Array) -> Function:
        """Make one of coefficients (n, 8)."""
        first = np.searchsorted(edges[1:-1], np.linspace(edges[0], edges[-1], 2 * len(edges)))
        return cls(edges, np.column_stack((coefficients, 1.0 / np.diff(edges))), first, jumps)


Part = tuple[Array, Function]
"""Types (n, 3), which hold p, d, b, and the function of the state that follows."""


@dataclass(frozen=True)
class Evolution:
    """What all tokens of a query have in common."""

    low: Array
    """(l + 1,) the smallest state after so many tokens."""
    high: Array
    inflows: Array
    """Of all types: the states after one token."""
    scale: float
    limit: float
    """What a cell may miss that is as wide as the largest state."""

    @property
    def length(self) -> int:
        """The number of tokens."""
        return len(self.low) - 1

    def answer(self) -> Function:
        """Return u_0."""
        low, high = self.low[-1], self.high[-1]
        edges = np.array([low, 0.0, 1.0 / self.scale, high] if self.scale * high > 1.0 else [low, 0.0, high])
        coefficients = np.zeros((len(edges) - 1, 8))
        coefficients[0, 0] = 1.0
        coefficients[:2, 4], coefficients[:2, 5] = 1.0 - self.scale * edges[:2], -self.scale * np.diff(edges)[:2]
        return Function.of(edges, coefficients, np.array([[0.0, 1.0]]))

    def step(self, parts: list[Part], left: int) -> tuple[Function, float]:
        """Return the function with ``left`` tokens left, one of which ``parts`` describe, and what it may miss."""
        low, high = self.low[self.length - left], self.high[self.length - left]
        if left == 1:
            return self._last_token(np.concatenate([types for types, _ in parts]), low, high), 0.0
        if left == self.length - 1:
            return self._at_inflows(parts, low, high), 0.0
        return self._on_cells(parts, low, high)

    def _last_token(self, types: Array, low: float, high: float) -> Function:
        """Return u_1: sums of steps and of kinks."""
        p, d, b = types.T
        jumps, kinks = _ends(types, 0.0), np.full(len(p), np.inf)
        if self.scale > 0.0:
            kinks = _ends(types, 1.0 / self.scale)
        both = np.concatenate((jumps, kinks))
        edges = np.unique(np.concatenate(([low, high], both[(both > low) & (both < high)])))
        coefficients, slope = np.zeros((len(edges) - 1, 8)), self.scale * _not_below(edges[1:], p * d, kinks)
        coefficients[:, 0] = _not_below(edges[1:], p, jumps)
        coefficients[:, 4] = _not_below(edges[1:], p * (1.0 - self.scale * b), kinks) - slope * edges[:-1]
        coefficients[:, 5] = -slope * np.diff(edges)
        return Function.of(edges, coefficients, np.column_stack((jumps, p))[(jumps > low) & (jumps < high)])

    def _at_inflows(self, parts: list[Part], low: float, high: float) -> Function:
        """Return a function that is right only at the states after one token."""
        points = np.unique(self.inflows)
        coefficients = np.zeros((len(points), 8))
        coefficients[:, 0], coefficients[:, 4] = _mean(parts, points)
        edges = np.concatenate(([low], 0.5 * (points[1:] + points[:-1]), [high]))
        return Function.of(edges, coefficients, np.empty((0, 2)))

    def _on_cells(self, parts: list[Part], low: float, high: float) -> tuple[Function, float]:
        """Return cubics on cells. A narrow cell may miss more than a wide one: fewer states lie in it."""
        jumps = _jumps(parts, low, high, np.sqrt(self.limit))
        ties = [-TINY, 0.0]  # many states may be 0, for want of votes: a cell of their own
        start = np.unique(np.concatenate((np.linspace(low, high, FIRST_CELLS + 1), jumps[:, 0], ties)))
        cells, size = len(start) - 1, max(-self.low[-1], self.high[-1])
        most = 4 * JUMPS + WORK // sum(len(types) for types, _ in parts)
        ends, values = np.empty((most, 2)), np.empty((most, 2, 4))
        ends[:cells, 0], ends[:cells, 1] = start[:-1], start[1:]
        points = start[:-1, None] + np.diff(start)[:, None] * kernels.POINTS
        values[:cells] = _mean(parts, points.ravel()).reshape(2, cells, 4).swapaxes(0, 1)
        allowed = self.limit * np.sqrt(size)
        cells, rest = kernels.halve(*_both(parts), ends, values, cells, allowed, NARROW * size)
        which = np.flatnonzero(ends[:cells, 1] > ends[:cells, 0])
        which = which[np.argsort(ends[which, 0])]
        coefficients = (values[which] @ kernels.SOLVE.T).reshape(-1, 8)
        return Function.of(np.append(ends[which, 0], high), coefficients, jumps), rest / np.sqrt(size)


def _both(parts: list[Part]) -> tuple[Array, tuple[Array, ...], Array, tuple[Array, ...]]:
    """Return two parts, without jumps; the second may have no types."""
    types, function = parts[0]
    more, other = parts[1] if len(parts) > 1 else (types[:0], function)
    return types, function[:3], more, other[:3]  # type: ignore[return-value]


def _mean(parts: list[Part], points: Array) -> Array:
    """Return the mean error and hinge loss over one more token at some states, (2, n)."""
    return np.asarray(kernels.mean(*_both(parts), points))


def _ends(types: Array, level: float) -> Array:
    """Return the state up to which a token leads to at most ``level``, for each type."""
    _, d, b = types.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(d > 0.0, (level - b) / d, np.where(b <= level, np.inf, -np.inf))


def _not_below(edges: Array, values: Array, at: Array) -> Array:
    """Return the sums of the values whose ``at`` is not below an edge, for each edge."""
    order = np.argsort(at)
    sums = np.append(np.cumsum(values[order][::-1])[::-1], 0.0)
    return sums[np.searchsorted(at[order], edges)]


def _jumps(parts: list[Part], low: float, high: float, least: float) -> Array:
    """Return the largest jumps of the mean over one more token: x of u_{m−1} becomes (x − b_t)/d_t of u_m."""
    every = []
    for types, function in parts:
        p, d, b = (column[:, None] for column in types[types[:, 1] > 0.0].T)
        heights = p * function.jumps[:, 1]
        which = np.nonzero(heights > least)
        places = (function.jumps[which[1], 0] - b[which[0], 0]) / d[which[0], 0]
        inside = (places > low) & (places < high)
        every.append(np.column_stack((places, heights[which]))[inside])
    found = np.concatenate(every)
    return found[np.argsort(-found[:, 1], kind="stable")[:JUMPS]]


def _weighed(types: Array, weight: float) -> Array:
    """Return types that come with this probability."""
    return types * [weight, 1.0, 1.0]


Found = tuple[Array, float]
"""Mean error and hinge loss (2, 1), and what they may miss for want of cells."""


def _mixed(how: Evolution, types: Array) -> Found:
    """Let all tokens be of the same types."""
    function, rest = how.answer(), 0.0
    for left in range(1, how.length):
        function, more = how.step([(types, function)], left)
        rest += more
    return _mean([(types, function)], np.zeros(1)), rest


def _ordered(how: Evolution, before: Array, after: Array, weights: Array) -> Found:
    """Let k tokens of ``before`` come first and l − k of ``after`` last, with probability weights[k].

    With A and B the means over a token: v_m = A v_{m−1} from v_0 = u_0, and g_{k−1} = B g_k + w_{k−1} A v_{l−k} from
    g_l = w_l u_0. Wanted is g_0.
    """
    plain, rest = how.answer(), 0.0
    parts = [(_weighed(before, weights[-1]), plain), (_weighed(after, weights[-2]), plain)]
    for left in range(1, how.length):
        mixture, more = how.step(parts, left)
        plain, again = how.step([(after, plain)], left)
        parts = [(before, mixture), (_weighed(after, weights[-2 - left]), plain)]
        rest += more + again
    return _mean(parts, np.zeros(1)), rest


def _counted(how: Evolution, clean: Array, outlier: Array, count: int) -> Found:
    """Let exactly ``count`` of the tokens be outliers, at any places: of m tokens left c are, the next with c/m."""
    old, rest = [how.answer()] * (count + 1), 0.0  # by c

    def parts(m: int, c: int) -> list[Part]:
        some = [(_weighed(clean, (m - c) / m), old[c])] if c < m else []
        return some + ([(_weighed(outlier, c / m), old[c - 1])] if c > 0 else [])

    for m in range(1, how.length):
        new = old.copy()
        for c in range(max(0, count - how.length + m), min(count, m) + 1):
            new[c], more = how.step(parts(m, c), m)
            rest += more
        old = new
    return _mean(parts(how.length, count), np.zeros(1)), rest


def refine_all(
    schedule: int, clean: Array, outlier: Array, weights: Array, count: int, scale: Array, limit: Array, out: Array
) -> None:
    """Fill ``out`` (queries, 3): error, hinge loss, and what is missed for want of cells.

    Arguments are those of `evolution_kernels.answer_all`, with the ``limit`` of every query.
    """
    length = len(weights) - 1
    for q in range(len(clean)):
        both = clean[q] if schedule == MIXED else np.concatenate((clean[q], outlier[q]), axis=1)
        low, high = np.empty(length + 1), np.empty(length + 1)
        reach(both, length, low, high)
        size = max(-low[-1], high[-1])
        if size == 0.0:  # the state never leaves 0
            out[q] = 1.0, 1.0, 0.0
            continue
        first = merge(clean[q], SAME, size, -size, size)[:, :3].copy()
        second = first if schedule == MIXED else merge(outlier[q], SAME, size, -size, size)[:, :3].copy()
        inflows, margin = np.concatenate((first[:, 2], second[:, 2])), 1e-6 * size
        few = min(1.0, len(inflows) / MANY)
        how = Evolution(low - margin, high + margin, inflows, float(scale[q]), limit[q] * few)
        if schedule == MIXED:
            found, rest = _mixed(how, first)
        elif schedule == COUNTED:
            found, rest = _counted(how, first, second, count)
        elif schedule == CLOSEST:
            found, rest = _ordered(how, first, second, weights[::-1])
        else:
            found, rest = _ordered(how, second, first, weights)
        out[q] = *found[:, 0], rest
