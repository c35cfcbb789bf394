"""Sums of product gates: identity (153) of paper M, the sum of Lemma 6, and the rotations of its proof, (186).

σ_1 … σ_l belong to the examples and σ_{l+1} to the query; G_i = σ_i Π_{i < j ≤ l+1} (1 − σ_j).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError

Array = NDArray[np.float64]


def product_gates(shares: Array) -> Array:
    """Return G_1 … G_l, (…, l), of σ_1 … σ_{l+1}, (…, l + 1).

    >>> product_gates(np.array([0.5, 0.5, 0.5])).tolist()
    [0.125, 0.25]
    """
    if shares.shape[-1] < 2 or not ((shares > 0) & (shares < 1)).all():
        raise InputError("shares: must be at least two numbers above 0 and below 1")
    kept = np.cumprod((1 - shares)[..., ::-1], axis=-1)[..., ::-1]  # Π_{j ≥ i}
    return np.asarray(shares[..., :-1] * kept[..., 1:])


def gate_total(shares: Array) -> Array:
    """Return 1 − σ_{l+1} − Π_{i ≤ l+1} (1 − σ_i), which is Σ G_i by (153)."""
    return np.asarray(1 - shares[..., -1] - (1 - shares).prod(-1))


def reach(shares: Array) -> Array:
    """Return Σ_{i ≤ l} G_i (l − i + 1), the sum of Lemma 6 (39).

    >>> float(reach(np.array([0.5, 0.5, 0.5])))
    0.5
    """
    length = shares.shape[-1] - 1
    return np.asarray((product_gates(shares) * np.arange(length, 0, -1)).sum(-1))


def rotation_bound(shares: Array) -> Array:
    """Return the right side of the first inequality of (186).

    Rotation k puts token k last: (k + 1, …, l + 1, 1, …, k). The bound is Σ_i G_i plus, for k = l, l − 1, …, 2, the sum
    of gates of rotation k times Π_{j ≤ l + 1 − k} (1 − σ_j) over its own order.
    """
    length = shares.shape[-1] - 1
    total = product_gates(shares).sum(-1)
    for k in range(length, 1, -1):
        turned = np.roll(shares, -k, axis=-1)
        total = total + product_gates(turned).sum(-1) * (1 - turned[..., : length + 1 - k]).prod(-1)
    return np.asarray(total)


def geometric_bound(shares: Array) -> Array:
    """Return 1/c with c the smallest σ, the last line of (186)."""
    return np.asarray(1 / shares.min(-1))
