"""The least mean squared error of one layer on real labels, M E.8: what a count of examples costs.

Let attention be 1 between equal patterns and 0 between others, and z = r the number of the query's pattern. A clean
example of that pattern shows r, so F = s·r·W, where W is what the gates leave of these examples. W changes from prompt
to prompt, and no s corrects that:

    min over s of E(sW r − r)² / E r² = 1 − (E W)² / E W²,     E r² = 1/3 for r uniform on (−1, 1).

Linear attention counts, W ~ Binomial(l, q) with q = (1 − α)/2: the least is (1 − q) / (1 + q(l − 1)). A gate that is σ
for every clean example and 0 for outliers gives W_i = (1 − σ) W_{i−1} + σ b_i at a clean example, b_i = 0 or 1 with
probability ½, and W_i = W_{i−1} at an outlier. Softmax attention divides by the count, and has no such floor.
"""

from __future__ import annotations

import math
from functools import cache

VARIANCE = 1.0 / 3.0
"""E z² of labels uniform on (−1, 1): the mean squared error of the answer 0."""


def linear_floor(outlier_fraction: float, length: int) -> float:
    """Return the least mean squared error of linear attention that ignores outliers."""
    q = (1.0 - outlier_fraction) / 2.0
    return VARIANCE * (1.0 - q) / (1.0 + q * (length - 1))


def gate_floor(outlier_fraction: float, length: int, inflow: float) -> float:
    """Return the least mean squared error with a gate that is ``inflow`` for clean examples, and shuts outliers out."""
    mean, square, clean, stay = 0.0, 0.0, 1.0 - outlier_fraction, 1.0 - inflow
    for _ in range(length):
        next_square = stay**2 * square + inflow * stay * mean + inflow**2 / 2.0
        square += clean * (next_square - square)
        mean += clean * (stay * mean + inflow / 2.0 - mean)
    return float(VARIANCE * (1.0 - mean**2 / square)) if square > 0 else VARIANCE


@cache
def best_inflow(outlier_fraction: float, length: int) -> float:
    """Return the σ with the least floor: small enough to remember, large enough not to count."""
    low, high = -9.0, 0.0  # of log σ; the floor has one minimum
    for _ in range(60):
        one, two = (2 * low + high) / 3, (low + 2 * high) / 3
        if gate_floor(outlier_fraction, length, math.exp(one)) < gate_floor(outlier_fraction, length, math.exp(two)):
            high = two
        else:
            low = one
    return math.exp((low + high) / 2)
