"""Statistical checks that the tests of the samplers share.

The samplers are pure functions of fixed seeds, so a check that passes once passes always.
"""

import numpy as np
from scipy import stats

SMALLEST_P = 1e-4


def assert_shares(values, expected):
    """Chi-square: the values 0 … n−1 occur in the expected shares (n probabilities)."""
    values, expected = np.asarray(values).ravel(), np.asarray(expected, dtype=float)
    assert values.min() >= 0
    assert values.max() < len(expected)
    counts = np.bincount(values.astype(np.int64), minlength=len(expected))
    assert (expected * values.size).min() > 20, "too few draws for this check"
    p = stats.chisquare(counts, expected * values.size).pvalue
    assert p > SMALLEST_P, f"p = {p:.1e}: counts {counts.tolist()}, expected shares {expected.tolist()}"


def assert_even(values, n):
    """Chi-square: the values 0 … n−1 are equally frequent."""
    assert_shares(values, np.full(n, 1.0 / n))


def assert_independent(a, b):
    """Chi-square on the table of two discrete variables, seen together."""
    a, b = np.broadcast_arrays(a, b)
    rows, columns = (np.unique(x.ravel(), return_inverse=True)[1] for x in (a, b))
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1)
    assert min(table.shape) > 1, "one of the variables never varies"
    p = stats.chi2_contingency(table, correction=False).pvalue
    assert p > SMALLEST_P, f"p = {p:.1e}: table {table.tolist()}"


def assert_distributed(values, cdf):
    """Kolmogorov-Smirnov: the values follow the distribution function ``cdf``."""
    p = stats.kstest(np.asarray(values, dtype=np.float64).ravel(), cdf).pvalue
    assert p > SMALLEST_P, f"p = {p:.1e}"


def between(low, high):
    """The distribution function of the uniform law on (low, high)."""
    return stats.uniform(low, high - low).cdf


def quarter(values, low, high):
    """Which quarter of (low, high) each value lies in: 0 … 3."""
    return np.minimum(((np.asarray(values, dtype=np.float64) - low) / (high - low) * 4).astype(int), 3)
