"""Patterns placed in space: the angles and lengths that were asked for, in a uniformly random rotation."""

import numpy as np
import pytest
from evenness import assert_distributed, assert_even
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iclab.config import InputError
from iclab.prompts import Patterns

SEEDS = range(3000)


@st.composite
def some_patterns(draw):
    counts = {
        "relevant": draw(st.integers(2, 6)),
        "irrelevant": draw(st.integers(1, 6)),
        "outlier": draw(st.integers(0, 4)),
    }
    total = sum(counts.values())
    norms = {f"{kind}_norm": draw(st.floats(0.25, 8.0)) for kind in counts}
    coherence = draw(st.just(0.0) | st.floats(-0.9 / (total - 1), 0.9))
    return Patterns(dimension=total + draw(st.integers(0, 5)), coherence=coherence, **counts, **norms)


def literal_gram(p):
    """Inner products, entry by entry: norms on the diagonal, one cosine everywhere else."""
    norms = [p.relevant_norm] * p.relevant + [p.irrelevant_norm] * p.irrelevant + [p.outlier_norm] * p.outlier
    return np.array(
        [[a * b * (1.0 if i == j else p.coherence) for j, b in enumerate(norms)] for i, a in enumerate(norms)]
    )


def refusal(**settings):
    with pytest.raises(InputError) as caught:
        Patterns(**settings)
    return str(caught.value)


@pytest.mark.parametrize("coherence", [0.0, 0.3, 0.95, -0.05])
def test_patterns_have_the_asked_norms_and_angles(coherence):
    p = Patterns(relevant_norm=2.0, irrelevant_norm=0.5, outlier_norm=7.0, coherence=coherence)
    vectors = p.basis(3).vectors
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms[:6], 2.0)
    np.testing.assert_allclose(norms[6:16], 0.5)
    np.testing.assert_allclose(norms[16:], 7.0)
    cosines = (vectors / norms[:, None]) @ (vectors / norms[:, None]).T
    np.testing.assert_allclose(cosines[~np.eye(19, dtype=bool)], coherence, atol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(p=some_patterns(), seed=st.integers(0, 2**32 - 1))
def test_gram_norms_directions_and_outside_agree_for_any_setting(p, seed):
    basis = p.basis(seed)
    d, n = p.dimension, p.relevant + p.irrelevant + p.outlier
    assert p.count == n
    assert basis.vectors.shape == basis.directions.shape == (n, d)
    assert basis.seed == seed
    scale = np.outer(p.norms, p.norms)
    np.testing.assert_allclose(p.gram / scale, literal_gram(p) / scale, atol=1e-14)
    np.testing.assert_allclose(basis.vectors @ basis.vectors.T / scale, literal_gram(p) / scale, atol=1e-11)
    np.testing.assert_allclose(p.norms, np.sqrt(np.diag(literal_gram(p))))
    np.testing.assert_allclose(basis.directions @ basis.directions.T, np.eye(n), atol=1e-12)
    inside = basis.vectors - (basis.vectors @ basis.directions.T) @ basis.directions
    np.testing.assert_allclose(inside, 0.0, atol=1e-11)  # the directions span the patterns

    vector = np.linspace(-1.0, 2.0, 2 * d).reshape(2, d)
    outside = basis.outside(vector)
    np.testing.assert_allclose(outside @ basis.vectors.T, 0.0, atol=1e-10)
    np.testing.assert_allclose(basis.outside(outside), outside, atol=1e-11)
    np.testing.assert_allclose(basis.outside(basis.vectors), 0.0, atol=1e-11)
    # What was taken away lies in the span: the outside part keeps d − n dimensions.
    assert np.linalg.matrix_rank(basis.outside(np.eye(d)), tol=1e-9) == d - n


def test_orthogonal_patterns_point_along_the_directions():
    p = Patterns(relevant_norm=2.0, outlier_norm=5.0)
    basis = p.basis(0)
    np.testing.assert_allclose(basis.vectors, p.norms[:, None] * basis.directions, atol=1e-14)


def test_the_basis_is_a_function_of_the_seed():
    p = Patterns()
    once = p.basis(0).vectors.copy()
    for seed in range(1, 400):  # more than any cache holds
        assert not np.allclose(p.basis(seed).vectors, once)
    np.testing.assert_array_equal(Patterns().basis(0).vectors, once)


def test_the_basis_cannot_be_changed_by_its_users():
    basis = Patterns().basis(0)
    for array in (basis.vectors, basis.directions):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0


def test_the_basis_seed_must_be_in_range():
    with pytest.raises(InputError, match="seed = -1"):
        Patterns().basis(-1)


def test_the_rotation_is_uniform():
    # In a uniform rotation of R^d every coordinate x of every direction has (1 + x)/2 ~ Beta((d−1)/2, (d−1)/2),
    # and so has the coordinate along any fixed unit vector.
    p = Patterns(dimension=5, relevant=2, irrelevant=1, outlier=1)
    directions = np.stack([p.basis(seed).directions for seed in SEEDS])  # (seeds, 4, 5)
    law = stats.beta(2, 2).cdf
    for row in range(4):
        for coordinate in range(5):
            assert_distributed((1 + directions[:, row, coordinate]) / 2, law)
        assert_distributed((1 + directions[:, row].sum(axis=-1) / np.sqrt(5)) / 2, law)
    # Two directions together: (e_i + e_j)/√2 is a uniform unit vector as well.
    for i, j in [(0, 1), (1, 3), (2, 3)]:
        assert_distributed((1 + (directions[:, i, 0] + directions[:, j, 0]) / np.sqrt(2)) / 2, law)


def test_a_full_rotation_keeps_or_flips_orientation_equally_often():
    p = Patterns(dimension=4, relevant=2, irrelevant=1, outlier=1)
    determinants = np.linalg.det(np.stack([p.basis(seed).directions for seed in SEEDS]))
    np.testing.assert_allclose(abs(determinants), 1.0)
    assert_even(determinants > 0, 2)


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"dimension": 18}, ["dimension = 18", "6 + 10 + 3 = 19"]),
        ({"dimension": 0}, ["dimension = 0", "greater than or equal to 1"]),
        ({"relevant": 1}, ["relevant = 1", "greater than or equal to 2"]),
        ({"irrelevant": 0}, ["irrelevant = 0", "greater than or equal to 1"]),
        ({"outlier": -1}, ["outlier = -1", "greater than or equal to 0"]),
        ({"relevant_norm": 0.0}, ["relevant_norm = 0.0", "greater than or equal to"]),
        ({"relevant_norm": 1e-300}, ["relevant_norm = 1e-300", "greater than or equal to"]),  # its square would be 0
        ({"outlier_norm": 1e200}, ["outlier_norm = 1e+200", "less than or equal to"]),
        ({"irrelevant_norm": -3.0}, ["irrelevant_norm = -3.0", "greater than or equal to"]),
        ({"outlier_norm": float("inf")}, ["outlier_norm = inf", "finite"]),
        ({"coherence": 1.0}, ["coherence = 1.0", "at most 0.999"]),
        ({"coherence": -0.06}, ["coherence = -0.06", "-0.0556"]),
        ({"coherence": float("nan")}, ["coherence = nan", "finite"]),
        ({"norm": 3.0}, ["norm", "unknown key"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_impossible_patterns_are_refused_with_field_value_and_range(settings, named):
    message = refusal(**settings)
    for part in named:
        assert part in message


def test_patterns_may_fill_the_space():
    assert Patterns(dimension=19).basis(0).vectors.shape == (19, 19)
