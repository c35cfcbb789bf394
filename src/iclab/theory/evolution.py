"""Error rates and hinge losses of one-layer models without sampling: density evolution.

Given the query, the tokens of a prompt are independent and of few types, and the output of Mamba, M (3), is

    zF = (1 − σ_query) h_l,   h_i = d_i h_{i−1} + b_i,   h_0 = 0,   d = 1 − σ(wᵀp),   b = σ(wᵀp) z y pᵀW_BᵀW_C p_query;

for the linear model d = 1 and b = z y pᵀW_BᵀW_C p_query. So u_i(h) = E[u_l(h_l) | h_i = h] follows backwards from
u_l(h) = 1[h ≤ 0] (an error; a tie is one) or max(0, 1 − (1−σ_query) h) (the hinge loss) by

    u_{i−1}(h) = Σ_t p_t u_i(d_t h + b_t),    and the mean is u_0(0).

u is kept on a grid that is finest near h = 0, and interpolated by a cubic between its points. As d ≥ 0, every h_i is
monotone in every earlier one: states rounded down to grid points all the way give an upper bound of both means, states
rounded up a lower bound. Interpolated values lie between them, and usually much closer to the truth.

The state of the linear model is a sum of independent numbers: its law follows from a power of a Fourier transform.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iclab.config import InputError

Array = NDArray[np.float64]
Placement = Literal["random", "farthest", "closest"]

GRID = 256
"""The number of grid points between the smallest and the largest state; sums use `FINER` times as many."""
FINER = 64
TOLERANCE = 0.5
"""Types whose targets differ by less than this many of the smallest grid cells are merged; means are kept."""


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
    """Means over prompts, arrays over queries. Those rounded down and up to the grid are rigorous bounds."""

    error: Array
    """1 − Pr(zF > 0)."""
    error_low: Array
    error_high: Array
    hinge: Array
    """E max(0, 1 − zF)."""
    hinge_low: Array
    hinge_high: Array

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
    grid: int = GRID,
    tolerance: float = TOLERANCE,
    bracket: bool = True,
    threads: int = 1,
) -> Rates:
    """Return Pr(zF ≤ 0) and E max(0, 1 − zF) for every query.

    Args:
        clean: the types of a clean example, (queries, types) or (types,).
        context: the number of examples, and of outliers among them.
        outlier: the types of an outlier.
        scale: 1 − σ_query, (queries,).
        grid: the number of grid points.
        tolerance: merge types that differ by less than this many cells.
        bracket: compute the rigorous bounds as well; without, they are NaN.
        threads: how many threads to use; results do not depend on it.

    >>> toss = TokenTypes([0.75, 0.25], [1.0, 1.0], [1.0, -1.0])  # without a gate: a majority of three labels decides
    >>> round(float(evolve(toss, 3).error), 6)
    0.15625
    """
    context = Context(context) if isinstance(context, int) else context
    if grid < 16:
        raise InputError(f"grid = {grid}: must be at least 16")
    if outlier is None:
        if context.count or context.fraction:
            raise InputError("outlier: needs the types of outliers, as the context has some")
        outlier = clean
    lead = np.broadcast_shapes(clean.decay.shape[:-1], outlier.decay.shape[:-1], np.shape(scale))
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), lead).ravel()
    if clean.ungated and outlier.ungated:
        found = _sums(clean, outlier, context, lead, scales, grid * FINER, bracket)
    else:
        found = _states(clean, outlier, context, lead, scales, grid, tolerance, bracket, threads)
    return Rates(*(part.reshape(lead) for part in found))


def _states(
    clean: TokenTypes,
    outlier: TokenTypes,
    context: Context,
    lead: tuple[int, ...],
    scales: Array,
    grid: int,
    tolerance: float,
    bracket: bool,
    threads: int,
) -> Rates:
    """Do it backwards on a grid, for gated models."""
    from iclab.theory import evolution_kernels as kernels  # imported late, because numba takes long to import

    schedule, weights = kernels.MIXED, context.weights()
    first, second = clean, outlier
    if context.independent:
        first = second = clean.mixed(outlier, context.fraction)
    else:
        anywhere = kernels.COUNTED
        schedule = {"random": anywhere, "farthest": kernels.FARTHEST, "closest": kernels.CLOSEST}[context.placement]
    packed = first.packed(lead), second.packed(lead)
    lanes = [np.full((len(scales), kernels.LANES[kind]), np.nan) for kind in (kernels.BLEND, kernels.BRACKET)]

    def piece(kind: int, part: slice) -> None:
        counts = (weights, context.count or 0)
        how = (*counts, grid, tolerance, scales[part], lanes[kind][part])
        kernels.answer_all(kind, schedule, packed[0][part], packed[1][part], *how)

    kinds = (kernels.BLEND, kernels.BRACKET) if bracket else (kernels.BLEND,)
    size = max(1, -(-len(scales) // (4 * threads)))
    jobs: list[Callable[[], None]] = [
        partial(piece, kind, slice(start, start + size)) for kind in kinds for start in range(0, len(scales), size)
    ]
    with ThreadPoolExecutor(threads) as pool:
        for job in [pool.submit(job) for job in jobs]:
            job.result()
    never_left = _never_left(clean, outlier, context, lead)
    error, hinge = np.clip(lanes[0][:, 0] + 0.5 * never_left, 0.0, 1.0), np.maximum(lanes[0][:, 1], 0.0)
    high_error, high_hinge, low_error, low_hinge = lanes[1].T
    if bracket:  # the cubic rule may leave them by a little
        error, hinge = np.clip(error, low_error, high_error), np.clip(hinge, low_hinge, high_hinge)
    return Rates(error, low_error, high_error, hinge, low_hinge, high_hinge)


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
    grid: int,
    bracket: bool,
) -> Rates:
    """Do it by Fourier transform, for models whose state is a sum; the order of examples does not matter."""
    packed = clean.packed(lead), outlier.packed(lead)
    never_left = _never_left(clean, outlier, context, lead)
    rows = [
        _sum(packed[0][q], packed[1][q], context, scales[q], grid, bracket, never_left[q]) for q in range(len(scales))
    ]
    return Rates(*np.array(rows).reshape(-1, 6).T)


def _sum(
    clean: Array, outlier: Array, context: Context, scale: float, grid: int, bracket: bool, never_left: float
) -> list[float]:
    """Return the six numbers of one query."""
    length = context.length
    steps = np.concatenate([part[2][part[0] > 0] for part in (clean, outlier)])
    low, high = min(0.0, steps.min()), max(0.0, steps.max())
    if high == low:
        return [1.0] * 6
    # Hoeffding: the sum leaves a window of this many spreads with a probability below 1e-16
    window = (high - low) * min(float(length), 2.0 * np.sqrt(length * np.log(2e16) / 2.0))
    grid = max(grid, 8 * length)
    cell, exact = window / (grid - 4 * length), False  # rounding and splitting widen every step by up to 3 cells
    unit = _unit(steps)
    if unit and length * (high - low) / unit < grid - 4 * length:
        cell, exact = unit, True
    found: dict[str, tuple[float, float]] = {}
    for rule in ("split", "down", "up") if bracket else ("split",):
        mass, states = _law_of_sum(clean, outlier, context, cell, grid, rule)
        tie = 1.0 if exact or rule != "split" else 0.5
        wrong = mass[states < 0].sum() + tie * mass[states == 0].sum()
        wrong += 0.0 if tie == 1.0 else 0.5 * never_left
        hinge = (mass * np.maximum(0.0, 1.0 - scale * cell * states)).sum()
        found[rule] = min(max(float(wrong), 0.0), 1.0), max(float(hinge), 0.0)
    (error, hinge), none = found["split"], (float("nan"), float("nan"))
    down, up = found.get("down", none), found.get("up", none)
    if bracket:
        error, hinge = min(max(error, up[0]), down[0]), min(max(hinge, up[1]), down[1])
    return [error, up[0], down[0], hinge, up[1], down[1]]


def _unit(steps: Array) -> float:
    """Return the number of which all steps are multiples; 0 if there is none that is not tiny."""
    size = np.abs(steps[steps != 0])
    for divisor in range(1, 65):
        unit = size.min() / divisor
        if size.max() / unit > 4096:
            break
        if np.abs(size / unit - np.round(size / unit)).max() < 1e-9:
            return float(unit)
    return 0.0


def _law_of_sum(
    clean: Array, outlier: Array, context: Context, cell: float, grid: int, rule: str
) -> tuple[Array, NDArray[np.int64]]:
    """Return the masses of a sum and its values in cells, (grid,) both, with every step rounded by ``rule``."""
    length, weights = context.length, context.weights()
    share = float((weights * np.arange(length + 1)).sum() / length)
    mean = ((1 - share) * (clean[0] * clean[2]).sum() + share * (outlier[0] * outlier[2]).sum()) / cell
    origin = round(mean)  # so that sums stay near 0, and wrap round the window as little as possible
    spectra, least, most = [], 0, 0
    for part in (clean, outlier):
        x = part[2] / cell
        x = np.where(np.abs(x - np.round(x)) < 1e-9, np.round(x), x)
        below = np.floor(x)
        f = x - below if rule == "split" else (x > below) * float(rule == "up")
        at = below.astype(np.int64) - origin
        least = min(least, int(at[part[0] > 0].min(initial=0)))
        most = max(most, int(at[part[0] > 0].max(initial=0)))
        g = 1.0 - f  # four points around a step share its mass so that the first three moments are kept
        shares = (-f * g * (1 + g) / 6, g * (1 + f) * (1 + g) / 2, f * (1 + f) * (1 + g) / 2, -f * g * (1 + f) / 6)
        mass = sum(np.bincount((at + i - 1) % grid, part[0] * w, grid) for i, w in enumerate(shares))
        spectra.append(np.fft.rfft(mass))
    if context.count is None:
        spectrum = ((1 - context.fraction) * spectra[0] + context.fraction * spectra[1]) ** length
    else:
        spectrum = spectra[0] ** (length - context.count) * spectra[1] ** context.count
    law = np.fft.irfft(spectrum, grid)
    room = grid - length * (most - least)  # if every sum fits, the window holds all; else those near the mean
    start = length * least - min(room // 2, 2) if room > 0 else max(length * (least - 1), -(grid // 2))
    index = np.arange(grid, dtype=np.int64)
    return law, (index - start) % grid + start + length * origin
