"""Patterns that are given as vectors, and other patterns of the same kind."""

import warnings

import numpy as np
import pytest
import torch
from evenness import assert_distributed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iclab.config import InputError, OutsideTheoremWarning
from iclab.prompts import Mixture, Outliers, Patterns, Prompts, Stream

COUNTS = {"relevant": 3, "irrelevant": 2, "outlier": 2}
OBLIQUE = np.random.default_rng(0).standard_normal((7, 9))
SQUARE = np.eye(7)


@st.composite
def some_vectors(draw):
    """Any table of seven rows, often with dependent ones, in 1 to 10 dimensions."""
    dimension, rank = draw(st.integers(1, 10)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mixed = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, dimension))
    return mixed * 10.0 ** rng.uniform(-3, 3, (7, 1)), min(rank, dimension)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(some_vectors())
def test_directions_span_any_vectors_and_mixing_gives_them_back(made):
    vectors, rank = made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoremWarning)
        p = Patterns(vectors=vectors, **COUNTS)
    basis, norms = p.basis(5), np.linalg.norm(vectors, axis=1)
    assert (p.dimension, p.rank, p.count) == (vectors.shape[1], rank, 7)
    assert basis.directions.shape == (rank, p.dimension)
    assert p.mixing.shape == (7, rank)
    np.testing.assert_array_equal(basis.vectors, vectors)
    np.testing.assert_allclose(basis.directions @ basis.directions.T, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(p.mixing @ basis.directions / norms[:, None], vectors / norms[:, None], atol=1e-11)
    np.testing.assert_allclose(p.norms, norms)
    np.testing.assert_allclose(p.gram, vectors @ vectors.T)
    np.testing.assert_allclose(basis.outside(vectors) / norms[:, None], 0.0, atol=1e-11)
    assert not np.triu(p.mixing, 1).any()  # pattern after pattern


@pytest.mark.parametrize("coherence", [0.0, 0.3])
def test_the_vectors_of_a_basis_are_that_basis(coherence):
    made = Patterns(coherence=coherence, outlier_norm=1.5)
    own = Patterns(vectors=made.basis(3).vectors, relevant=6, irrelevant=10, outlier=3)
    for seed in (0, 9):  # the same for every seed
        np.testing.assert_allclose(own.basis(seed).directions, made.basis(3).directions, atol=1e-12)
        np.testing.assert_array_equal(own.basis(seed).vectors, made.basis(3).vectors)
    np.testing.assert_allclose(own.mixing, made.mixing, atol=1e-12)
    np.testing.assert_allclose(own.gram, made.gram, atol=1e-12)


def test_arrays_tensors_and_lists_are_the_same_description():
    single = OBLIQUE.astype(np.float32)
    forms = [single, torch.from_numpy(single).requires_grad_(), single.tolist(), tuple(map(tuple, single.tolist()))]
    made = [Patterns(vectors=form, **COUNTS) for form in forms]
    made[0].basis(0)  # what is worked out and kept disturbs no comparison
    assert len(set(made)) == 1
    assert made[0] == made[1]
    assert made[0].dimension == 9
    assert Patterns.model_validate_json(made[0].model_dump_json()) == made[0] == made[0].replace()
    assert made[0].digest() != Patterns(vectors=OBLIQUE, **COUNTS).digest()
    whole = torch.eye(7, dtype=torch.int64), torch.eye(7, dtype=torch.bfloat16)
    assert len({Patterns(vectors=form, **COUNTS) for form in (SQUARE, *whole)}) == 1
    assert "7 rows" in repr(made[0])
    assert len(repr(made[0])) < 250


def bad(row, value):
    vectors = OBLIQUE.copy()
    vectors[row] = value
    return vectors


@pytest.mark.parametrize(
    "given, named",
    [
        ({"vectors": OBLIQUE}, ["vectors", "say how many are relevant, irrelevant and outlier"]),
        ({"vectors": OBLIQUE[:6], **COUNTS}, ["vectors = 6 rows", "3 + 2 + 2 = 7"]),
        ({"vectors": OBLIQUE, "relevant": 3}, ["vectors = 7 rows", "3 + 10 + 3 = 16"]),
        ({"vectors": OBLIQUE, "dimension": 8, **COUNTS}, ["vectors = rows of 9 numbers", "dimension = 8"]),
        ({"vectors": OBLIQUE[0], **COUNTS}, ["vectors = float64 of shape (9,)", "(patterns, dimension)"]),
        ({"vectors": [[1.0, 2.0], [3.0]], **COUNTS}, ["vectors = rows of different lengths", "one length"]),
        ({"vectors": "all", **COUNTS}, ["vectors", "shape ()", "real numbers"]),
        ({"vectors": OBLIQUE * 1j, **COUNTS}, ["vectors = complex128", "real numbers"]),
        ({"vectors": [], **COUNTS}, ["vectors", "shape (0,)"]),
        ({"vectors": bad(4, np.nan), **COUNTS}, ["vectors = nan", "row 4", "finite and not 0"]),
        ({"vectors": bad(6, np.inf), **COUNTS}, ["vectors = inf", "row 6", "finite and not 0"]),
        ({"vectors": bad(2, 0.0), **COUNTS}, ["vectors = 0.0", "row 2", "finite and not 0"]),
        ({"vectors": OBLIQUE, "outlier_norm": 2.0, **COUNTS}, ["outlier_norm = 2.0", "used as they are"]),
        ({"vectors": OBLIQUE, "coherence": 0.1, **COUNTS}, ["coherence = 0.1", "used as they are"]),
        ({"vectors": OBLIQUE, "draw": 1, **COUNTS}, ["draw = 1", "used as they are"]),
        ({"draw": -1}, ["draw = -1", "greater than or equal to 0"]),
        ({"draw": 2**16}, ["draw = 65536", "less than 65536"]),
        ({"dimension": 18}, ["dimension = 18", "only vectors of your own may be more"]),
    ],
)
def test_bad_vectors_are_refused_in_one_line(given, named):
    with pytest.raises(InputError) as caught:
        Patterns(**given)
    message = str(caught.value)
    assert len(message) < 150
    assert "\n" not in message
    for part in named:
        assert part in message


@pytest.mark.parametrize(
    "vectors",
    [
        OBLIQUE[:, :6],
        bad(6, OBLIQUE[0] - 2 * OBLIQUE[1]),
        np.float32(bad(6, OBLIQUE[0] - 2 * OBLIQUE[1])),
        bad(6, 1e4 * OBLIQUE[0]),
    ],
    ids=["more than dimensions", "a combination", "a combination in single precision", "parallel"],
)
def test_dependent_vectors_are_taken_with_a_warning(vectors):
    with pytest.warns(OutsideTheoremWarning, match="the 7 patterns are linearly dependent; no theorem covers them"):
        Patterns(vectors=vectors, **COUNTS)


@pytest.mark.parametrize("vectors", [OBLIQUE, 1e-9 * SQUARE, SQUARE * np.logspace(-8, 8, 7)])
def test_independent_vectors_of_any_size_are_taken_without_one(vectors):
    Patterns(vectors=vectors, **COUNTS)


def test_dense_prompts_are_made_of_the_vectors():
    prompts = Prompts(patterns=Patterns(vectors=OBLIQUE, **COUNTS), outliers=Outliers(fraction=0.5, query=0.5))
    batch = prompts.draw([0, 1], Stream.TEST, count=20, dtype=np.float64)
    rows = np.stack([prompts.dictionary(prompts.patterns.basis(seed)) for seed in (0, 1)])
    tokens = batch.dense(torch.from_numpy(rows)).numpy()
    expected = np.einsum("sbik,sbikd->sbid", batch.coefficient, OBLIQUE[batch.index])
    np.testing.assert_allclose(tokens[..., :-1], expected, atol=1e-13)


def test_mixtures_leave_the_span_if_it_has_an_outside():
    away = Outliers(fraction=0.5, patterns=(Mixture(weights=(1, 1), outside_norm=2.0),))
    plane = OBLIQUE * ([1] * 5 + [0] * 4)  # rank 5 in 9 dimensions
    with pytest.warns(OutsideTheoremWarning):
        prompts = Prompts(patterns=Patterns(vectors=plane, **COUNTS), outliers=away)
    flat = prompts.patterns
    u = prompts.dictionary(flat.basis(3))[-1] - plane[5:].sum(0)
    np.testing.assert_allclose([np.linalg.norm(u), *(flat.basis(3).vectors @ u)], [2.0] + [0.0] * 7, atol=1e-12)
    full = Patterns(vectors=OBLIQUE[:, :7], **COUNTS)
    with pytest.raises(InputError, match="the 7 patterns fill all 7 dimensions"):
        Prompts(patterns=full, outliers=away)


# Other patterns of the same kind.


def test_another_draw_is_another_rotation():
    p = Patterns(dimension=5, relevant=2, irrelevant=1, outlier=1)
    one, two = (np.stack([p.replace(draw=k).basis(seed).directions for seed in range(2000)]) for k in (0, 1))
    law = stats.beta(2, 2).cdf
    for i, j in [(0, 0), (1, 3)]:
        assert_distributed((1 + two[:, i, 0]) / 2, law)
        assert_distributed((1 + (one[:, i] * two[:, j]).sum(-1)) / 2, law)  # the angle between old and new
    np.testing.assert_allclose(
        p.replace(draw=7).basis(0).vectors @ p.replace(draw=7).basis(0).vectors.T, p.gram, atol=1e-12
    )


def test_another_draw_has_its_own_outside_directions():
    away = Outliers(patterns=tuple(Mixture(weights=(1, 0, 0), outside_norm=1.0) for _ in range(2)))
    wide = Prompts(patterns=Patterns(dimension=400), outliers=away)
    other = wide.replace(patterns=Patterns(dimension=400, draw=1))
    u = []
    for prompts in (wide, other):
        basis = prompts.patterns.basis(0)
        u += list(prompts.dictionary(basis)[-2:] - basis.vectors[16])
    cosines = np.array(u) @ np.array(u).T
    assert np.abs(cosines - np.eye(4)).max() < 0.25  # u of training and test were equal otherwise


@pytest.mark.parametrize(
    "other, reason",
    [
        (Patterns(), ""),
        (Patterns(relevant_norm=2.0, coherence=0.1), ""),
        (Patterns(draw=1, relevant=4), ""),
        (Patterns(vectors=np.eye(30)[:7], **COUNTS), ""),
        (Patterns(dimension=31), "prompts.patterns.dimension = 31: must be that of the training prompts, 30"),
        (Patterns(vectors=OBLIQUE, **COUNTS), "prompts.patterns.dimension = 9: must be that of the training"),
        (Patterns(relevant=4), "prompts.patterns.relevant = 4: must be that of the training prompts, 6, unless draw"),
    ],
)
def test_patterns_that_a_model_can_be_tested_on(other, reason):
    found = Prompts().fits(Prompts(patterns=other))
    assert found.startswith(reason)
    assert bool(found) == bool(reason)
