"""Identity (153) of paper M, the sum of Lemma 6 (39), and both inequalities of its proof, (186), on random gates.

σ_1 … σ_l belong to the examples and σ_{l+1} to the query; G_i = σ_i Π_{i < j ≤ l+1} (1 − σ_j). M-lem6 measures the sum
on trained models; here the steps of the proof are checked, which are about any gates.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


def product_gates(shares):
    """Return G_1 … G_l, (…, l), of σ_1 … σ_{l+1}, (…, l + 1)."""
    kept = np.cumprod((1 - shares)[..., ::-1], axis=-1)[..., ::-1]  # Π_{j ≥ i}
    return shares[..., :-1] * kept[..., 1:]


def gate_total(shares):
    """Return 1 − σ_{l+1} − Π_{i ≤ l+1} (1 − σ_i), which is Σ G_i by (153)."""
    return 1 - shares[..., -1] - (1 - shares).prod(-1)


def reach(shares):
    """Return Σ_{i ≤ l} G_i (l − i + 1), the sum of Lemma 6 (39)."""
    length = shares.shape[-1] - 1
    return (product_gates(shares) * np.arange(length, 0, -1)).sum(-1)


def rotation_bound(shares):
    """Return the right side of the first inequality of (186).

    Rotation k puts token k last: (k + 1, …, l + 1, 1, …, k). The bound is Σ_i G_i plus, for k = l, l − 1, …, 2, the sum
    of gates of rotation k times Π_{j ≤ l + 1 − k} (1 − σ_j) over its own order.
    """
    length = shares.shape[-1] - 1
    total = product_gates(shares).sum(-1)
    for k in range(length, 1, -1):
        turned = np.roll(shares, -k, axis=-1)
        total = total + product_gates(turned).sum(-1) * (1 - turned[..., : length + 1 - k]).prod(-1)
    return total


def geometric_bound(shares):
    """Return 1/c with c the smallest σ, the last line of (186)."""
    return 1 / shares.min(-1)


shares = st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=30).map(np.array)


@given(shares)
def test_identity_153(some):
    assert product_gates(some).sum() == pytest.approx(gate_total(some), abs=1e-12)


def test_gates_by_hand():
    a, b, c = 0.2, 0.7, 0.4
    assert product_gates(np.array([a, b, c])) == pytest.approx([a * (1 - b) * (1 - c), b * (1 - c)])
    assert reach(np.array([a, b, c])) == pytest.approx(2 * a * (1 - b) * (1 - c) + b * (1 - c))


def test_the_rotations_of_two_examples_by_hand():
    a, b, c = 0.2, 0.7, 0.4  # rotation 2 is (query, 1, 2): its last token is example 2
    turned = c * (1 - a) * (1 - b) + a * (1 - b)
    first = a * (1 - b) * (1 - c) + b * (1 - c)
    assert rotation_bound(np.array([a, b, c])) == pytest.approx(first + turned * (1 - c))


def test_first_inequality_of_186_on_random_gates():
    """100,000 draws, l = 1 … 12, gates small, large and mixed: no counterexample."""
    generator, worst = np.random.default_rng(0), np.inf
    for length in range(1, 13):
        for low, high in ((0.0, 1.0), (0.0, 0.1), (0.9, 1.0)):
            some = generator.uniform(low, high, (2_800, length + 1)).clip(1e-9, 1 - 1e-9)
            worst = min(worst, float((rotation_bound(some) - reach(some)).min()))
    assert worst > -1e-12


@given(shares)
def test_last_line_of_186(some):
    assert reach(some) <= geometric_bound(some) * (1 + 1e-12)
