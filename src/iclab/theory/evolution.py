"""Error rates and hinge losses of one-layer models without sampling: density evolution.

Given the query, the tokens of a prompt are independent and of few types, and the output of Mamba, M (3), is

    zF = (1 − σ_query) h_l,   h_i = d_i h_{i−1} + b_i,   h_0 = 0,   d = 1 − σ(wᵀp),   b = σ(wᵀp) z y pᵀW_BᵀW_C p_query;

for the linear model d = 1 and b = z y pᵀW_BᵀW_C p_query. So the law of h_i is that of h_{i−1}, moved by every type of
token with its probability. The law of h_l has the means of 1[h_l ≤ 0] (an error; a tie is one) and of
max(0, 1 − (1−σ_query) h_l), the hinge loss.

The law is kept as masses on a grid that is finest near h = 0. A mass between grid points is shared by the four points
around it. As d ≥ 0, every h_i is monotone in every earlier one: states rounded down to grid
points all the way give an upper bound of both means, states rounded up a lower bound. Shared masses give values
between them, and usually much closer to the truth.

For short prompts and weights near their start, the law has few atoms or narrow heaps of them, and the mean of the
answers that follow a state has jumps, not only at 0. A grid that is wider than a heap cannot tell on which side of a
jump it lies: its error falls slowly and changes sign. If an accuracy is asked for, what half the grid changes by more
is computed again by `iclab.theory.evolution_cells`, backwards, on cells that are halved until they are narrow enough.

The state of the linear model is a sum of independent numbers, for which `iclab.theory.sums` needs no grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iclab.config import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Placement = Literal["random", "farthest", "closest"]

GRID = 256
"""The number of grid points between the smallest and the largest state of `USUAL` tokens. Fewer tokens, whose states
take fewer values, have more points, at the same cost; sums have up to `FINER` times as many frequencies."""
USUAL = 20
FINER = 64
TOLERANCE = 0.5
"""Types whose targets differ by less than this many grid cells are merged; means are kept."""
TRIGGER = 0.3
"""A query is computed on cells if half the grid changes it by more than this share of the accuracy asked for."""
ALWAYS = 3
"""If an accuracy is asked for, prompts of up to so many tokens are computed on cells: nothing is rounded then."""


class TokenTypes:
    """The kinds of token a prompt can have, given its query, as arrays (…, types) with queries in front.

    >>> float(TokenTypes([0.7, 0.3], [0.5, 0.5], [0.5, -0.5]).probability.sum())
    1.0
    """

    def __init__(self, probability: ArrayLike, decay: ArrayLike, inflow: ArrayLike) -> None:
        given = (np.asarray(values, dtype=np.float64) for values in (probability, decay, inflow))
        self.probability, self.decay, self.inflow = np.broadcast_arrays(*given)
        if self.probability.ndim < 1 or not all(np.isfinite(a).all() for a in self._arrays):
            raise InputError("probability, decay, inflow: must be finite arrays (…, types)")
        total = self.probability.sum(-1)
        if (self.probability < 0).any() or not np.allclose(total, 1.0, rtol=0, atol=1e-9):
            raise InputError("probability: must be at least 0 and sum to 1 over types")
        if (self.decay < 0).any() or (self.decay > 1).any():
            raise InputError(f"decay = {self.decay.min():g} … {self.decay.max():g}: must lie between 0 and 1")

    @property
    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.probability, self.decay, self.inflow

    @property
    def ungated(self) -> bool:
        """Whether every decay is 1, so that the state is a sum."""
        return bool((self.decay == 1.0).all())

    def packed(self, queries: tuple[int, ...]) -> Array:
        """Return one array (queries, 3, types)."""
        n = self.probability.shape[-1]
        whole = [np.broadcast_to(a, (*queries, n)).reshape(-1, n) for a in self._arrays]
        return np.ascontiguousarray(np.stack(whole, axis=1))

    def mixed(self, other: TokenTypes, share: float) -> TokenTypes:
        """Return tokens that are of the ``other`` types with probability ``share``."""
        lead = np.broadcast_shapes(self.decay.shape[:-1], other.decay.shape[:-1])
        pairs = zip(self._arrays, other._arrays, (1.0 - share, 1.0, 1.0), (share, 1.0, 1.0), strict=True)
        joined = []
        for a, b, mine, theirs in pairs:
            parts = [np.broadcast_to(x, (*lead, x.shape[-1])) for x in (mine * a, theirs * b)]
            joined.append(np.concatenate(parts, axis=-1))
        return TokenTypes(*joined)

    def stay(self) -> Array:
        """Return the probability of a token that leaves the state 0 where it is, (…)."""
        return np.where(self.inflow == 0.0, self.probability, 0.0).sum(-1)


@dataclass(frozen=True)
class Context:
    """How many of the ``length`` examples are outliers, and where: as `Outliers` says it."""

    length: int
    fraction: float = 0.0
    count: int | None = None
    placement: Placement = "random"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InputError(f"length = {self.length}: must be at least 1")
        if not 0.0 <= self.fraction <= 1.0:
            raise InputError(f"fraction = {self.fraction}: must lie between 0 and 1")
        if self.count is not None and not 0 <= self.count <= self.length:
            raise InputError(f"count = {self.count}: must lie between 0 and length = {self.length}")
        if self.placement not in ("random", "farthest", "closest"):
            raise InputError(f"placement = {self.placement!r}: must be one of random, farthest, closest")

    @property
    def independent(self) -> bool:
        """Whether tokens are independent of each other."""
        return self.count is None and (self.placement == "random" or self.fraction in (0.0, 1.0))

    def weights(self) -> Array:
        """Return the probability of k = 0 … l outliers, (l + 1,)."""
        if self.count is not None:
            return np.eye(self.length + 1)[self.count]
        k, p = np.zeros(self.length + 1), self.fraction
        if p in (0.0, 1.0):
            k[-1 if p else 0] = 1.0
            return k
        k[0] = 1.0
        for _ in range(self.length):  # one token at a time: no overflow, no subtraction
            k[1:], k[0] = k[1:] * (1.0 - p) + k[:-1] * p, k[0] * (1.0 - p)
        return k


class Rates(NamedTuple):
    """Means over prompts, arrays over queries, with rigorous bounds."""

    error: Array
    """1 − Pr(zF > 0)."""
    error_low: Array
    error_high: Array
    hinge: Array
    """E max(0, 1 − zF)."""
    hinge_low: Array
    hinge_high: Array
    missed: Array
    """What may be missing where the most cells are not enough; 0 nearly always."""

    def mean(self, weights: ArrayLike) -> Rates:
        """Return the means over queries that have these weights."""
        share = np.asarray(weights, dtype=np.float64)
        return Rates(*(np.asarray((part * share).sum() / share.sum()) for part in self))


def evolve(
    clean: TokenTypes,
    context: Context | int,
    outlier: TokenTypes | None = None,
    *,
    scale: ArrayLike = 1.0,
    spread: ArrayLike = 0.0,
    grid: int = GRID,
    tolerance: float = TOLERANCE,
    accuracy: ArrayLike | None = None,
    bracket: bool = True,
    threads: int = 1,
) -> Rates:
    """Return Pr(zF ≤ 0) and E max(0, 1 − zF) for every query.

    Args:
        clean: the types of a clean example, (queries, types) or (types,).
        context: the number of examples, and of outliers among them.
        outlier: the types of an outlier.
        scale: 1 − σ_query, (queries,).
        spread: without a gate, (queries, S) or (S,): one of these, at random, times a number that is uniform on (−1, 1)
            is added to every inflow.
        grid: the number of grid points.
        tolerance: merge types that differ by less than this many cells.
        accuracy: with a gate, (queries,): what half the grid changes by more is computed on cells, at about a tenth of
            a second per query for hundreds of types. By default nothing is; the grid takes some milliseconds.
        bracket: compute the rigorous bounds with a gate as well; without, they are NaN. They come for free without one.
        threads: how many threads to use; results do not depend on it.

    >>> toss = TokenTypes([0.75, 0.25], [1.0, 1.0], [1.0, -1.0])  # without a gate: a majority of three labels decides
    >>> round(float(evolve(toss, 3).error), 6)
    0.15625
    """
    context = Context(context) if isinstance(context, int) else context
    if grid < 16:
        raise InputError(f"grid = {grid}: must be at least 16")
    if accuracy is not None and not np.min(accuracy) > 0:
        raise InputError(f"accuracy = {np.min(accuracy):g}: must be above 0")
    if outlier is None:
        if context.count or context.fraction:
            raise InputError("outlier: needs the types of outliers, as the context has some")
        outlier = clean
    spreads = np.atleast_1d(np.abs(np.asarray(spread, dtype=np.float64)))
    lead = np.broadcast_shapes(clean.decay.shape[:-1], outlier.decay.shape[:-1], np.shape(scale), spreads.shape[:-1])
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), lead).ravel()
    if clean.ungated and outlier.ungated:
        found = _sums(clean, outlier, context, lead, scales, spreads, grid * FINER)
    elif spreads.any():
        raise InputError(f"spread = {spreads.max():g}: must be 0 with a gate")
    else:
        found = _states(clean, outlier, context, lead, scales, (grid, tolerance, accuracy), bracket, threads)
    return Rates(*(part.reshape(lead) for part in found))


def _states(
    clean: TokenTypes,
    outlier: TokenTypes,
    context: Context,
    lead: tuple[int, ...],
    scales: Array,
    fineness: tuple[int, float, ArrayLike | None],
    bracket: bool,
    threads: int,
) -> Rates:
    """Do it on a grid, for gated models; then on cells where the grid is not fine enough."""
    from iclab.theory import evolution_kernels as kernels  # imported late, because numba takes long to import

    schedule, weights = kernels.MIXED, context.weights()
    first, second = clean, outlier
    if context.independent:
        first = second = clean.mixed(outlier, context.fraction)
    else:
        anywhere = kernels.COUNTED
        schedule = {"random": anywhere, "farthest": kernels.FARTHEST, "closest": kernels.CLOSEST}[context.placement]
    packed = first.packed(lead), second.packed(lead)
    grid, tolerance, accuracy = fineness
    wanted = np.broadcast_to(0.0 if accuracy is None else accuracy, lead).ravel() * GRID / grid
    points = round(grid * max(1.0, math.sqrt(USUAL / context.length)))

    def on_grid(points: int, bracket: bool) -> Array:
        def work(which: Rows, out: Array) -> None:
            how = weights, context.count or 0, points, tolerance, scales[which], bracket, out
            kernels.answer_all(schedule, packed[0][which], packed[1][which], *how)

        return _in_threads(work, np.arange(len(scales)), (3, 2), threads)

    def on_cells(which: Rows, out: Array) -> None:
        from iclab.theory import evolution_cells

        how = weights, context.count or 0, scales[which], wanted[which], out
        evolution_cells.refine_all(schedule, packed[0][which], packed[1][which], *how)

    found = on_grid(points, bracket)
    never_left = _never_left(clean, outlier, context, lead)
    error, hinge = found[:, kernels.BLEND, 0] + 0.5 * never_left, np.maximum(found[:, kernels.BLEND, 1], 0.0)
    missed = np.zeros_like(error)
    if accuracy is not None:
        rough = np.arange(len(scales))
        if context.length > ALWAYS:
            changes = np.abs(found[:, kernels.BLEND] - on_grid(points // 2, False)[:, kernels.BLEND])
            changes = np.maximum(changes, changes.mean(0))  # one query's may be small by chance
            rough = np.flatnonzero((changes > TRIGGER * wanted[:, None]).any(-1))
        error[rough], hinge[rough], missed[rough] = _in_threads(on_cells, rough, (3,), threads).T
    error = np.clip(error, 0.0, 1.0)
    (high_error, high_hinge), (low_error, low_hinge) = found[:, kernels.DOWN].T, found[:, kernels.UP].T
    low_error, high_error = (np.clip(part, 0.0, 1.0) for part in (low_error, high_error))
    low_error, low_hinge = np.minimum(low_error, high_error), np.minimum(low_hinge, high_hinge)  # rounding errors
    if bracket:  # the cubic rule may leave them by a little
        error, hinge = np.clip(error, low_error, high_error), np.clip(hinge, low_hinge, high_hinge)
    return Rates(error, low_error, high_error, hinge, low_hinge, high_hinge, missed)


def _in_threads(work: Callable[[Rows, Array], None], which: Rows, shape: tuple[int, ...], threads: int) -> Array:
    """Return what ``work`` finds for some queries; it fills an array (queries, …) of NaN."""
    found = np.full((len(which), *shape), np.nan)
    size = max(1, -(-len(which) // (4 * threads)))
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, len(which), size)
        jobs = [pool.submit(work, which[i : i + size], found[i : i + size]) for i in starts]
        for job in jobs:
            job.result()
    return found


def _never_left(clean: TokenTypes, outlier: TokenTypes, context: Context, lead: tuple[int, ...]) -> Array:
    """Return the probability that the state stays at 0 for want of a vote: a tie, which is an error."""
    k = np.arange(context.length + 1)
    stay = np.asarray(clean.stay())[..., None] ** (context.length - k) * np.asarray(outlier.stay())[..., None] ** k
    return np.broadcast_to((context.weights() * stay).sum(-1), lead).ravel()


def _sums(
    clean: TokenTypes,
    outlier: TokenTypes,
    context: Context,
    lead: tuple[int, ...],
    scales: Array,
    spreads: Array,
    frequencies: int,
) -> Rates:
    """Do it by Fourier series, for models whose state is a sum; the order of examples does not matter."""
    from iclab.theory import sums  # imported late, because numba takes long to import

    packed = [part.packed(lead)[:, ::2].copy() for part in (clean, outlier)]  # probability and inflow
    spreads = np.broadcast_to(spreads, (*lead, spreads.shape[-1])).reshape(len(scales), -1)
    count, rows = -1 if context.count is None else context.count, []
    for q, scale in enumerate(scales):
        votes = sums.Votes(packed[0][q], packed[1][q], spreads[q], context.length, context.fraction, count)
        error, hinge, error_bound, hinge_bound = sums.rates(votes, float(scale), frequencies)
        low, high = max(0.0, error - error_bound), min(1.0, error + error_bound)
        rows.append([error, low, high, hinge, max(0.0, hinge - hinge_bound), hinge + hinge_bound, 0.0])
    return Rates(*np.array(rows).reshape(-1, 7).T)
