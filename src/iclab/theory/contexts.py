"""How often a prompt of paper T has an example with the query's pattern."""

from __future__ import annotations

import math


def lacking(fraction: float, length: float) -> float:
    """Return the probability that no example shares the query's pattern: (1 − α/2)^l.

    An example carries one of its task's two patterns with probability α, both equally likely.

    >>> round(lacking(0.8, 5), 4)
    0.0778
    """
    return (1 - fraction / 2) ** length


def guessed(fraction: float, length: float) -> float:
    """Return the error of a learner that uses only examples with the query's pattern and guesses if there are none.

    >>> round(guessed(0.8, 5), 4)
    0.0389
    """
    return lacking(fraction, length) / 2


def length_for(fraction: float, share: float) -> float:
    """Return the length at which this share of prompts has no example with the query's pattern.

    >>> round(lacking(0.8, 1) ** length_for(0.8, 0.02), 9)
    0.02
    """
    return math.log(share) / math.log1p(-fraction / 2)
