"""Sums of product gates: (153) exactly, and both inequalities of (186) on random gates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.config import InputError
from iclab.theory.rotations import gate_total, geometric_bound, product_gates, reach, rotation_bound

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


@pytest.mark.parametrize("bad", [[0.5], [0.0, 0.5], [0.5, 1.0], [0.5, float("nan")]])
def test_shares_that_are_no_gates(bad):
    with pytest.raises(InputError, match="at least two numbers above 0 and below 1"):
        product_gates(np.array(bad))
