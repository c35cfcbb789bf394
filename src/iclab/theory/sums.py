"""Error rates and hinge losses of models without a gate: the state is a sum h = Σ_i b_i of independent votes.

Let φ be the characteristic function of h. On |h| < W the sign and the absolute value are Fourier series, so

    Pr(h ≤ 0) = ½ − (2/π) Σ_k Im φ(t_k)/k,     E|h − c| = W/2 − (4W/π²) Σ_k Re(φ(t_k) e^(−i t_k c))/k²,

over odd k, t_k = kπ/W, up to half of the probability of a tie. φ is the l-th power of that of one vote, which is known
in closed form: Σ_t p_t exp(i t b_t), times sin(st)/(st) if a number uniform on (−s, s) is added. Nothing is rounded.

The series ends where |φ| is bounded by `NOTHING`. If the votes take too few values for that, h is blurred by a normal
variable of standard deviation ε, which damps the series by exp(−ε²t²/2): Pr(h ≤ 0) then moves by at most
½ E exp(−h²/2ε²), which is a series of the same kind, and E|h − c| by at most ε√(2/π) E exp(−(h − c)²/2ε²). Votes that
are all multiples of one number give ties, so they are added up as whole numbers, by a power of a Fourier transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOTHING = 1e-10
"""Values of |φ| below this are left out."""
BLUR = 7.0
"""ε times the largest frequency: the damping there is exp(−BLUR²/2), 2e-11."""
LATTICE = 1 << 16
"""The most values of a sum of whole numbers."""


@dataclass(frozen=True)
class Votes:
    """The votes of one query's tokens."""

    clean: Array
    """(2, n) probability and vote of a clean example."""
    outlier: Array
    """(2, n') of an outlier."""
    spread: Array
    """(S,) half-widths, one of them for every token at random."""
    length: int
    fraction: float
    count: int
    """−1 if every token is an outlier with probability ``fraction``."""

    @property
    def share(self) -> float:
        """The mean share of outliers."""
        return self.fraction if self.count < 0 else self.count / self.length

    @property
    def mean(self) -> float:
        """E h."""
        means = [float(p @ b) for p, b in (self.clean, self.outlier)]
        return self.length * ((1 - self.share) * means[0] + self.share * means[1])

    @property
    def possible(self) -> Array:
        """The votes that occur."""
        parts = [part[1][part[0] > 0] for part, p in ((self.clean, 1 - self.share), (self.outlier, self.share)) if p]
        return np.concatenate(parts)


def rates(votes: Votes, scale: float, frequencies: int) -> tuple[float, float, float, float]:
    """Return Pr(h ≤ 0), E max(0, 1 − scale·h), and a bound on the numerical error of each.

    >>> toss = np.array([[0.75, 0.25], [1.0, -1.0]])
    >>> [round(x, 6) for x in rates(Votes(toss, toss, np.zeros(1), 3, 0.0, -1), 0.5, 1000)]
    [0.15625, 0.460938, 0.0, 0.0]
    """
    steps = votes.possible
    still = float((votes.spread == 0).mean()) ** votes.length  # the probability that nothing is added to any vote
    error, hinge, counted = 0.0, 0.0, 0.0
    if still and (unit := _unit(steps)) and votes.length * np.ptp(np.append(steps, 0.0)) / unit < LATTICE:
        (error, hinge), counted = _whole_numbers(votes, scale, unit), still
    if counted == 1.0:
        return error, hinge, 0.0, 0.0
    rest = _series(votes, scale, frequencies, counted)
    return counted * error + rest[0], counted * hinge + rest[1], rest[2], rest[3]


def _unit(steps: Array) -> float:
    """Return the number of which all steps are multiples; 0 if there is none that is not tiny."""
    size = np.abs(steps[steps != 0])
    if not len(size):
        return 1.0
    for divisor in range(1, 65):
        unit = size.min() / divisor
        if size.max() / unit > 4096:
            break
        if np.abs(size / unit - np.round(size / unit)).max() < 1e-9:
            return float(unit)
    return 0.0


def _whole_numbers(votes: Votes, scale: float, unit: float) -> tuple[float, float]:
    """Add up votes that are multiples of a number, without anything added to them."""
    steps = np.round(np.append(votes.possible, 0.0) / unit).astype(np.int64)
    least, length = int(steps.min()), votes.length
    grid = length * int(np.ptp(steps)) + 1
    spectra = []
    for p, b in (votes.clean, votes.outlier):
        at = np.where(p > 0, np.round(b / unit).astype(np.int64) - least, 0)
        spectra.append(np.fft.rfft(np.bincount(at % grid, p, grid), 2 * grid))
    if votes.count < 0:
        spectrum = ((1 - votes.fraction) * spectra[0] + votes.fraction * spectra[1]) ** length
    else:
        spectrum = spectra[0] ** (length - votes.count) * spectra[1] ** votes.count
    mass = np.fft.irfft(spectrum, 2 * grid)[:grid]
    sums = np.arange(grid) + length * least
    hinge = float(mass @ np.maximum(0.0, 1.0 - scale * unit * sums))
    return min(max(float(mass[sums <= 0].sum()), 0.0), 1.0), max(hinge, 0.0)


def _series(votes: Votes, scale: float, frequencies: int, still: float) -> tuple[float, float, float, float]:
    """Do it by the series; ``still`` is the probability of what `_whole_numbers` has counted."""
    steps, reach, length, mean = votes.possible, float(votes.spread.max()), votes.length, votes.mean
    low, high = length * (float(steps.min()) - reach), length * (float(steps.max()) + reach)
    # Hoeffding: the sum is farther from its mean with a probability below 1e-16
    far = (float(np.ptp(steps)) + 2 * reach) * math.sqrt(length * math.log(2e16) / 2)
    low, high = max(low, mean - far), min(high, mean + far)
    kink = 1 / scale if scale * high > 1 else 0.0
    window = 1.02 * max(abs(low), abs(high), abs(low - kink), abs(high - kink))
    step = math.pi / window

    def envelope(k: int) -> float:
        with np.errstate(divide="ignore"):
            seen = np.minimum(1.0, 1.0 / (k * step * votes.spread)).mean()
        return float(seen) ** length - still

    last, blur = 2 * frequencies - 1, 0.0
    if envelope(last) < NOTHING:
        few = 1
        while last - few > 2:  # |φ| is below `NOTHING` at last, and may not be at few
            middle = (few + last) // 4 * 2 + 1
            few, last = (few, middle) if envelope(middle) < NOTHING else (middle, last)
    else:
        blur = BLUR / (last * step)
    size = np.array([step, blur, kink, still])
    packed = (votes.clean, votes.outlier, np.ascontiguousarray(votes.spread), votes.length, votes.fraction, votes.count)
    sign, distance, bump, near = _sums(*packed, size, last)
    mass = 1.0 - still
    error = mass / 2 - 2 / math.pi * sign
    above = mass * window / 2 - 4 * window / math.pi**2 * distance  # E|h − kink|
    hinge = scale * (above + (kink - mean) * mass) / 2 if kink else (1 - scale * mean) * mass
    edge = 2 * blur * math.sqrt(2 * math.pi) / window
    tail = 10 * max(envelope(last), 0.0) if not blur else 1e-10
    hinge_bound = scale * (blur * math.sqrt(2 / math.pi) * edge * max(near, 0.0) / 2 + window * tail) if kink else 0.0
    return min(max(error, 0.0), 1.0), max(hinge, 0.0), edge * max(bump, 0.0) / 2 + tail, hinge_bound


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _power(a, b, n):  # type: ignore[no-untyped-def]
    """Return (a + ib)^n."""
    x, y = 1.0, 0.0
    while n:
        if n & 1:
            x, y = x * a - y * b, x * b + y * a
        a, b = a * a - b * b, 2.0 * a * b
        n >>= 1
    return x, y


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _sums(clean, outlier, spread, length, fraction, count, size, last):  # type: ignore[no-untyped-def]
    """Return Σ Im φ/k, Σ Re(φ e^(−itc))/k², Σ Re φ, Σ Re(φ e^(−itc)) over odd k up to ``last``, all of them damped."""
    step, blur, kink, still = size[0], size[1], size[2], size[3]
    n, m, s = clean.shape[1], outlier.shape[1], len(spread)
    value = np.concatenate((clean[1], outlier[1], spread, np.array([-kink])))
    x, y, dx, dy = np.empty_like(value), np.empty_like(value), np.empty_like(value), np.empty_like(value)
    for i in range(len(value)):
        dx[i], dy[i] = np.cos(2 * step * value[i]), np.sin(2 * step * value[i])
    sign = distance = bump = near = 0.0
    for k in range(1, last + 1, 2):
        t = k * step
        if k % 1024 == 1:  # afresh, so that rounding errors do not grow
            for i in range(len(value)):
                x[i], y[i] = np.cos(t * value[i]), np.sin(t * value[i])
        a, b, c, d, seen = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            a += clean[0, i] * x[i]
            b += clean[0, i] * y[i]
        for i in range(m):
            c += outlier[0, i] * x[n + i]
            d += outlier[0, i] * y[n + i]
        for i in range(s):
            seen += y[n + m + i] / (t * spread[i]) if spread[i] > 0 else 1.0
        if count < 0:
            a, b = _power((1 - fraction) * a + fraction * c, (1 - fraction) * b + fraction * d, length)
        else:
            a, b = _power(a, b, length - count)
            c, d = _power(c, d, count)
            a, b = a * c - b * d, a * d + b * c
        damp = ((seen / s) ** length - still) * np.exp(-0.5 * (blur * t) ** 2)
        a, b = damp * a, damp * b
        turned = a * x[-1] - b * y[-1]
        sign += b / k
        distance += turned / (k * k)
        bump += a
        near += turned
        for i in range(len(value)):
            x[i], y[i] = x[i] * dx[i] - y[i] * dy[i], x[i] * dy[i] + y[i] * dx[i]
    return sign, distance, bump, near
