"""How many outliers a model can bear: M Theorems 2 and 4, and what no model can bear."""

from __future__ import annotations


def mamba_outlier_bound(train_fraction: float, train_length: int, test_length: int) -> float:
    """Return the outlier fraction below which Theorem 2 (c) promises success: α < min(1, p_a l_tr / l_ts).

    It is a sufficient condition: beyond it the theorem is silent.

    >>> mamba_outlier_bound(0.6, 20, 20)
    0.6
    """
    return min(1.0, train_fraction * train_length / test_length)


def linear_outlier_bound() -> float:
    """Return the outlier fraction below which Theorem 4 (c) promises success: α < 1/2."""
    return 0.5


def all_outliers(fraction: float, length: int, exact: bool = False) -> float:
    """Return the probability that every example of a prompt is an outlier: α^l when each is one independently.

    Such a prompt says nothing about its task to one who does not know the label rule. Whoever believes its labels errs
    on all of them when they are flipped; whoever guesses errs on half. With an exact count this never happens (but for
    α = 1).

    >>> round(all_outliers(0.8, 20), 4)
    0.0115
    """
    if exact:
        return float(fraction >= 1.0)
    return fraction**length
