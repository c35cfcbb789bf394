"""The best that any learner can do on prompts of papers T and S: the Bayes rule.

Query pattern a, label z. Unknown are z and the task's other pattern b, uniform over all others. An example has pattern
a with probability α/2 and then shows z, pattern b with α/2 and then −z, or one of the other M1 − 2 patterns and then a
random label. So the likelihood of a context is

    Π_i  α/2 · 1[y_i = z]  if j_i = a;   α/2 · 1[y_i = −z]  if j_i = b;   (1 − α)/(2 (M1 − 2))  otherwise.

If a occurs, z is known. If it does not, every pattern c whose n_c examples all show one label votes for the opposite
one with weight r^n_c, r = α (M1 − 2)/(1 − α): partners help, so the error is below ½ (1 − α/2)^l, that of a guess.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.theory.contexts import lacking

Counts = NDArray[np.int64]
DRAWN = 20_000
"""Contexts without the query's pattern that are drawn for one error rate."""


@cache
def bayes_error(relevant: int, fraction: float, length: int) -> float:
    """Return the error of the Bayes rule on prompts with M1 patterns, share α and l examples.

    Contexts without the query's pattern are drawn with a fixed seed: the standard error is below 0.4 % of
    (1 − α/2)^l, the share of such prompts.

    >>> bayes_error(6, 0.8, 5) < 0.5 * lacking(0.8, 5)
    True
    >>> bayes_error(3, 1.0, 4)
    0.0
    """
    if relevant < 3 and fraction < 1:
        raise InputError(f"relevant = {relevant}: a share below 1 needs a third pattern")
    if fraction >= 1:
        return 0.0  # every example shows the query's pattern or its partner, and either reveals z
    others = relevant - 1
    partner, rest = fraction / (2 - fraction), (1 - fraction) / ((relevant - 2) * (1 - fraction / 2))
    generator = np.random.default_rng([relevant, length, round(fraction * 1e9)])
    counts = generator.multinomial(length, [partner, *[rest] * (others - 1)], size=DRAWN)  # the first is b
    plus = generator.binomial(counts, 0.5)  # how many show +1
    plus[:, 0] = 0  # z = +1, so all examples of b show −1
    votes = votes_of(counts, plus, relevant, fraction)
    wrong = np.where(np.isclose(votes, 0.0), 0.5, votes < 0).mean()
    return lacking(fraction, length) * float(wrong)


def votes_of(counts: Counts, plus: Counts, relevant: int, fraction: float) -> NDArray[np.float64]:
    """Return Σ_c ±r^n_c of contexts without the query's pattern: above 0 if z = +1 is the likelier label.

    Args:
        counts: (contexts, M1 − 1) how many examples have each of the other patterns.
        plus: (contexts, M1 − 1) how many of these show +1.
        relevant: M1.
        fraction: α, below 1.
    """
    agreed = np.where(plus == 0, 1.0, np.where(plus == counts, -1.0, 0.0)) * (counts > 0)  # what pattern c says of z
    weights = (fraction * (relevant - 2) / (1 - fraction)) ** (counts - counts.max(1, keepdims=True)).astype(float)
    return np.asarray((agreed * weights).sum(1))


def bayes_length(relevant: int, fraction: float, error: float) -> float:
    """Return the length at which the Bayes rule has this error, between whole lengths on a logarithmic scale.

    >>> bayes_length(6, 0.8, 0.01) < 8
    True
    """
    before, length = 0.5, 1
    while (now := bayes_error(relevant, fraction, length)) > error:
        before, length = now, length + 1
    if now <= 0:
        return float(length)
    return length - 1 + float(np.log(before / error) / np.log(before / now))
