"""How many outliers a model tolerates (M Theorems 2 and 4), and how often no model can succeed."""

from __future__ import annotations


def mamba_outlier_bound(train_fraction: float, train_length: int, test_length: int) -> float:
    """Return the outlier fraction below which Theorem 2 (c) promises success: α < min(1, p_a l_tr / l_ts).

    The condition is sufficient; above it, the theorem says nothing.

    >>> mamba_outlier_bound(0.6, 20, 20)
    0.6
    """
    return min(1.0, train_fraction * train_length / test_length)


def linear_outlier_bound() -> float:
    """Return the outlier fraction below which Theorem 4 (c) promises success: α < 1/2."""
    return 0.5


def all_outliers(fraction: float, length: int, exact: bool = False) -> float:
    """Return the probability that every example of a prompt is an outlier: α^l if outliers are independent.

    Such a prompt says nothing about its task to a learner that does not know the label rule. A learner that trusts
    flipped labels is then always wrong; a learner that guesses is wrong half of the time. With an exact count this
    never happens, except for α = 1.

    >>> round(all_outliers(0.8, 20), 4)
    0.0115
    """
    if exact:
        return float(fraction >= 1.0)
    return fraction**length
