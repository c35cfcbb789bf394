"""How long a prompt a vote needs against flipped labels: M Theorem 4 and its law (15), and the exact answer.

The linear Transformer adds up the labels of all examples: those with the query's pattern count 1, those with the task's
other pattern count −ρ, for their labels are opposite. Every label is flipped with probability α. So each example gives
+1 or +ρ (clean, half each), or −1 or −ρ (flipped), and the vote errs if the sum is not above 0.
"""

from __future__ import annotations

import math
from functools import cache

from iclab.config import InputError
from iclab.theory.evolution import TokenTypes, evolve

LONGEST = 2**20


def vote_error(fraction: float, length: int, other: float = 1.0) -> float:
    """Return the probability that the vote of ``length`` examples errs, without sampling; ``other`` is ρ.

    >>> round(vote_error(0.2, 1), 6), round(vote_error(0.2, 3), 6)  # 3 · 0.2² · 0.8 + 0.2³
    (0.2, 0.104)
    """
    _check(fraction, other)
    good, bad = (1 - fraction) / 2, fraction / 2
    votes = TokenTypes([good, good, bad, bad], [1.0] * 4, [1.0, other, -1.0, -other])
    return float(evolve(votes, length, bracket=False).error)


@cache
def vote_length(fraction: float, error: float, other: float = 1.0) -> int:
    """Return the smallest number of examples with which, or with one more, the vote errs at most so often.

    Even numbers of examples are worse than odd ones, as they allow ties; so both are asked for.

    >>> vote_length(0.4, 0.01, other=0.9)
    133
    """
    if not 0 < error < 1:
        raise InputError(f"error = {error}: must lie between 0 and 1")
    if fraction >= 0.5:
        raise InputError(f"fraction = {fraction}: must be below 1/2, or no number of examples is enough")

    def enough(length: int) -> bool:
        return max(vote_error(fraction, length, other), vote_error(fraction, length + 1, other)) <= error

    high = 1
    while not enough(high):
        high *= 2
        if high > LONGEST:
            raise InputError(f"fraction = {fraction}: needs more than {LONGEST} examples")
    low = high // 2  # not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def chernoff_rate(fraction: float, other: float = 1.0) -> float:
    """Return I with error ≈ e^(−I l): I = −log min_t E e^(−t vote), Chernoff's rate of the vote.

    For ρ = 1 it is ½ log 1/(4α(1 − α)), for ρ = 0 −log(½ + √(α(1 − α))); for α → ½ it is
    (½ − α)² (1 + ρ)²/(1 + ρ²). It has no factor 1/α as (15) has.

    >>> round(chernoff_rate(0.4), 6), round(0.5 * math.log(1 / (4 * 0.4 * 0.6)), 6)
    (0.020411, 0.020411)
    """
    _check(fraction, other)
    if fraction == 0:
        return math.inf if other > 0 else math.log(2)

    def mean(t: float) -> float:
        good, bad = 1 - fraction, fraction
        return 0.5 * sum(good * math.exp(-t * w) + bad * math.exp(t * w) for w in (1.0, other))

    low, high = 0.0, math.log(1 / fraction) / min(1.0, other) if other > 0 else math.log(1 / fraction)
    high = min(high, 500.0)
    for _ in range(200):  # the mean is convex in t
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if mean(a) < mean(b) else (a, high)
    return -math.log(mean((low + high) / 2))


def length_claimed(fraction: float) -> float:
    """Return the law of (15) without its constant and logarithm: max{(1 − α)⁻¹, (½ − α)⁻² α}.

    >>> length_claimed(0.05) == 1 / 0.95, round(length_claimed(0.4), 6)
    (True, 40.0)
    """
    return max(1 / (1 - fraction), fraction / (0.5 - fraction) ** 2)


def _check(fraction: float, other: float) -> None:
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction = {fraction}: must lie between 0 and 1")
    if not 0 <= other <= 1:
        raise InputError(f"other = {other}: must lie between 0 and 1")
