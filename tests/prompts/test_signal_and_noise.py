"""Prompts of paper S: λ µ + κ ν + bounded noise; and irrelevant patterns out of domain."""

import numpy as np
import pytest
import torch
from scipy import stats

from iclab.engines import Training
from iclab.prompts import Patterns, Prompts, Stream
from iclab.prompts.counters import ball

PATTERNS = Patterns(dimension=9, relevant=3, irrelevant=4, outlier=0)
PLAIN = Prompts(patterns=PATTERNS, context_length=5, relevant_fraction=0.7)


def dense(prompts, batch, seed=0):
    return batch.dense(torch.from_numpy(prompts.dictionary(PATTERNS.basis(seed)))[None]).numpy()


@pytest.mark.parametrize("dimension", [1, 2, 3, 9, 30])
def test_noise_is_uniform_in_the_ball(dimension):
    vectors = ball([7], Stream.TEST, dimension, count=4_000, positions=3)
    length = np.linalg.norm(vectors, axis=-1)
    assert length.max() <= 1.0
    assert stats.kstest(length.ravel() ** dimension, "uniform").pvalue > 1e-3
    if dimension == 1:
        return
    cosine = vectors[..., 0] / length  # the square of one coordinate of a uniform direction is Beta(1/2, (d − 1)/2)
    assert stats.kstest(cosine.ravel() ** 2, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > 1e-3
    units = (vectors / length[..., None]).reshape(-1, dimension)
    np.testing.assert_allclose(units.T @ units / len(units), np.eye(dimension) / dimension, atol=0.03)
    np.testing.assert_allclose(units.mean(0), 0.0, atol=0.03)


def test_noise_is_added_to_every_input_and_to_nothing_else():
    noisy = PLAIN.replace(noise=0.4)
    before, after = (p.draw([0], Stream.TEST, count=200, dtype=np.float64) for p in (PLAIN, noisy))
    added = dense(noisy, after) - dense(PLAIN, before)
    np.testing.assert_array_equal(added[..., 9:], 0.0)
    length = np.linalg.norm(added[..., :9], axis=-1)
    assert length.max() <= 0.4 + 1e-12
    assert length.min() > 0.0
    np.testing.assert_allclose(added[..., :9], after.noise, atol=1e-12)


def test_noise_is_a_function_of_the_prompt_alone():
    noisy = PLAIN.replace(noise=1.0)
    whole = noisy.draw([3, 8], Stream.TRAIN, step=4, count=10)
    part = noisy.draw([8], Stream.TRAIN, step=4, first=6, count=3)
    np.testing.assert_array_equal(whole.noise[1:, 6:9], part.noise)
    assert not np.array_equal(whole.noise, noisy.draw([3, 8], Stream.TEST, step=4, count=10).noise)
    joined = type(whole).join([noisy.draw([3, 8], Stream.TRAIN, step=4, first=f, count=5) for f in (0, 5)])
    np.testing.assert_array_equal(joined.noise, whole.noise)


def test_the_signal_scales_relevant_patterns_evenly_between_its_ends():
    batch = PLAIN.replace(signal=(0.25, 0.75)).draw([0], Stream.TEST, count=3_000, dtype=np.float64)
    scale = batch.coefficient[..., 0]
    assert stats.kstest(scale.ravel(), stats.uniform(0.25, 0.5).cdf).pvalue > 1e-3
    plain = PLAIN.draw([0], Stream.TEST, count=3_000, dtype=np.float64)
    np.testing.assert_array_equal(plain.coefficient[..., 0], 1.0)
    np.testing.assert_array_equal(batch.coefficient[..., 1:], plain.coefficient[..., 1:])
    np.testing.assert_array_equal(batch.index, plain.index)
    tokens = dense(PLAIN, batch)[..., :9] @ PATTERNS.basis(0).directions.T  # (…, 7) along each pattern
    np.testing.assert_allclose(tokens[..., :3].sum(-1), 3.0 * scale, atol=1e-12)


def test_irrelevant_mixtures_stand_in_for_irrelevant_patterns():
    mixtures = ((0.6, 0.8, 0.0, 0.0), (0.0, 0.0, -0.6, 0.8))
    shifted = PLAIN.replace(irrelevant_mixtures=mixtures, relevant_mixtures=((0.5, 0.5, 0.0), (0, 0, 1), (1, 0, 0)))
    batch = shifted.draw([0], Stream.TEST, count=2_000, dtype=np.float64)
    along = dense(shifted, batch)[..., :9] @ PATTERNS.basis(0).directions.T
    which = batch.index[..., 1] - (7 + 3)
    assert set(which.ravel()) == {0, 1}
    assert which.mean() == pytest.approx(0.5, abs=0.02)
    expected = 3.0 * batch.coefficient[..., 1:2] * np.asarray(mixtures)[which]
    np.testing.assert_allclose(along[..., 3:7], expected, atol=1e-12)
    assert (batch.index[..., 0] < 7 + 3).all()
    assert (batch.index[..., 0] >= 7).all()


def test_irrelevant_mixtures_may_have_a_part_along_relevant_patterns():
    mixtures = ((0.6, 0, 0, 0.8, 0, 0, 0), (0, 0, 1.0, 0, 0, 0, 1.0))
    shifted = PLAIN.replace(irrelevant_mixtures=mixtures)
    batch = shifted.draw([0], Stream.TEST, count=50, dtype=np.float64)
    along = dense(shifted, batch)[..., :9] @ PATTERNS.basis(0).directions.T
    relevant = 3.0 * np.eye(7)[batch.index[..., 0]]
    expected = relevant + 3.0 * batch.coefficient[..., 1:2] * np.asarray(mixtures)[batch.index[..., 1] - 7]
    np.testing.assert_allclose(along, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"irrelevant_mixtures": ((1, 0, 0, 0, 0, 0, 0), (1, 0, 0, 0))}, "or of all 7 relevant and irrelevant ones"),
        ({"noise": -0.1}, "noise = -0.1: .*greater than or equal to 0"),
        ({"signal": (0.0, 1.0)}, "greater than 0"),
        ({"signal": (0.9, 0.5)}, "the first must be at most the second"),
        ({"relevant_fraction": 1.2}, "less than or equal to 1"),
        (
            {"irrelevant_mixtures": ((1.0,),)},
            r"irrelevant_mixtures = \(1.0,\): needs one finite weight for each of the 4",
        ),
        (
            {"relevant_mixtures": ((1.0, 0.0, 0.0),) * 4},
            "relevant_mixtures = 4 of them: must be at most the 3 they mix",
        ),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        PLAIN.replace(**changes)


@pytest.mark.parametrize("changes", [{"noise": 0.1}, {"signal": (0.5, 1.0)}, {"irrelevant_mixtures": ((1, 0, 0, 0),)}])
def test_the_fused_engine_leaves_such_prompts_to_the_reference(changes):
    prompts = Prompts(patterns=PATTERNS, **changes)
    assert Training(model="mamba", prompts=prompts).engine == "reference"
    with pytest.raises(ValueError, match=f"{next(iter(changes))} = .*knows only the default"):
        Training(model="mamba", prompts=prompts, engine="fused")
