"""What a prompt of T can say at all: whether any of its examples shows the query's pattern."""

from __future__ import annotations

import math


def lacking(fraction: float, length: int) -> float:
    """Return the probability that no example shares the query's pattern: (1 − α/2)^l.

    An example carries one of its task's two patterns with probability α, both equally likely. Whoever looks for the
    query's pattern alone can only guess where it is absent, and errs on half of these prompts.

    >>> round(lacking(0.8, 5), 4)
    0.0778
    """
    return (1 - fraction / 2) ** length


def length_for(fraction: float, share: float) -> float:
    """Return the length at which only this share of prompts lacks the query's pattern.

    >>> round(lacking(0.8, 1) ** length_for(0.8, 0.02), 9)
    0.02
    """
    return math.log(share) / math.log1p(-fraction / 2)
