"""Prompts of paper T: examples that do not matter to the task, labels that are vectors, patterns out of domain."""

import numpy as np
import pytest
import torch

from iclab.engines import Training
from iclab.prompts import Outliers, Patterns, Prompts, Stream

PATTERNS = Patterns(dimension=12, relevant=5, irrelevant=4, outlier=2)
T_PROMPTS = Prompts(patterns=PATTERNS, context_length=6, relevant_fraction=0.7, label_dimension=3, label_norm=2.0)


@pytest.fixture(scope="module")
def drawn():
    return T_PROMPTS.draw([0, 1], Stream.TEST, count=40_000, dtype=np.float64)


def test_each_deciding_pattern_has_half_of_the_fraction_and_others_share_the_rest(drawn):
    relevant, task = drawn.index[..., :-1, 0], drawn.task[..., None, :]
    total = relevant.size
    for side in (0, 1):
        share = (relevant == task[..., side]).mean()
        assert share == pytest.approx(0.35, abs=4 * np.sqrt(0.35 * 0.65 / total))
    for pattern in range(5):  # where it does not decide: (1 − α) / (M1 − 2)
        elsewhere = (drawn.task != pattern).all(-1)
        share = (relevant[elsewhere] == pattern).mean()
        assert share == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / relevant[elsewhere].size))


def test_labels_follow_the_task_where_it_decides_and_chance_where_it_does_not(drawn):
    relevant, task, sign = drawn.index[..., :-1, 0], drawn.task[..., None, :], np.sign(drawn.labels[..., :-1, 0])
    assert (sign[relevant == task[..., 0]] == 1).all()
    assert (sign[relevant == task[..., 1]] == -1).all()
    stray = (relevant != task[..., 0]) & (relevant != task[..., 1])
    assert abs(sign[stray].mean()) < 4 / np.sqrt(stray.sum())
    each = [sign[stray & (relevant == pattern)].mean() for pattern in range(5)]
    assert np.abs(each).max() < 5 / np.sqrt(stray.sum() / 5)
    position = np.broadcast_to(np.arange(6), stray.shape)
    np.testing.assert_allclose([stray[position == i].mean() for i in range(6)], 0.3, atol=0.008)


def test_the_query_always_decides(drawn):
    query = drawn.index[..., -1, 0]
    assert ((query == drawn.task[..., 0]) | (query == drawn.task[..., 1])).all()
    np.testing.assert_array_equal(drawn.target[..., 0], np.where(query == drawn.task[..., 0], 1.0, -1.0))


def test_labels_are_vectors_of_their_norm_and_the_query_shows_none(drawn):
    assert drawn.labels.shape == (2, 40_000, 7, 3)
    np.testing.assert_array_equal(np.abs(drawn.labels[..., :-1, 0]), 2.0)
    assert (drawn.labels[..., 1:] == 0).all()
    assert (drawn.labels[..., -1, :] == 0).all()
    assert drawn.target.shape == (2, 40_000, 1)
    few = T_PROMPTS.draw([0], Stream.TEST, count=3)
    tokens = few.dense(torch.from_numpy(T_PROMPTS.dictionary(PATTERNS.basis(0)))[None])
    assert tokens.shape == (1, 3, 7, 15)
    np.testing.assert_array_equal(tokens[..., 12:].numpy(), few.labels)


def test_a_fraction_of_one_is_paper_m():
    plain = Prompts(patterns=PATTERNS, context_length=6)
    before, after = (p.draw([4], Stream.TRAIN, count=50) for p in (plain, plain.replace(relevant_fraction=1.0)))
    np.testing.assert_array_equal(before.index, after.index)
    np.testing.assert_array_equal(before.labels, after.labels)


def test_the_rest_of_a_prompt_does_not_depend_on_the_fraction():
    some, all_ = (
        Prompts(patterns=PATTERNS, context_length=6, relevant_fraction=f).draw([4], Stream.TRAIN, count=500)
        for f in (0.5, 1.0)
    )
    np.testing.assert_array_equal(some.index[..., 1], all_.index[..., 1])
    np.testing.assert_array_equal(some.coefficient, all_.coefficient)
    np.testing.assert_array_equal(some.task, all_.task)


def test_a_prompt_does_not_depend_on_its_company():
    whole = T_PROMPTS.draw([3, 4], Stream.TRAIN, step=2, count=20)
    part = T_PROMPTS.draw([4], Stream.TRAIN, step=2, first=7, count=5)
    np.testing.assert_array_equal(whole.index[1:, 7:12], part.index)
    np.testing.assert_array_equal(whole.labels[1:, 7:12], part.labels)


def test_patterns_out_of_domain_are_the_mixtures():
    mixtures = ((0.3, -0.3, 0.0, 0.5, 0.6), (0.7, 0.7, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0, 0.0))
    outliers = Outliers(fraction=0.3, patterns=({"weights": (1.0, 0.5)},))
    prompts = Prompts(
        patterns=PATTERNS, context_length=6, relevant_mixtures=mixtures, relevant_fraction=0.8, outliers=outliers
    )
    basis = PATTERNS.basis(1)
    batch = prompts.draw([1], Stream.TEST, count=200, dtype=np.float64)
    tokens = batch.dense(torch.from_numpy(prompts.dictionary(basis))[None])[0].numpy()
    assert set(map(tuple, batch.task.reshape(-1, 2))) <= {(a, b) for a in range(3) for b in range(3) if a != b}
    expected = np.asarray(mixtures) @ basis.vectors[:5]
    for b in range(200):
        query = batch.task[0, b, 0 if batch.target[0, b, 0] > 0 else 1]
        k = batch.index[0, b, -1, 1]
        x = expected[query] + batch.coefficient[0, b, -1, 1] * basis.vectors[k]
        np.testing.assert_allclose(tokens[b, -1, :-1], x, atol=1e-12)
    coordinates = tokens[..., :-1] @ np.linalg.pinv(expected)  # which mixture each token carries, whatever else it does
    assert set(np.unique(batch.index[..., 0] - 12)) == {0, 1, 2}
    np.testing.assert_array_equal(coordinates.argmax(-1), batch.index[0, ..., 0] - 12)


BAD = {
    "no room for others": (
        {"relevant_fraction": 0.5, "patterns": {**PATTERNS.model_dump(), "relevant": 2}},
        "third relevant pattern",
    ),
    "none at all": ({"relevant_fraction": 0.0}, "greater than 0"),
    "too many": ({"relevant_fraction": 1.5}, "less than or equal to 1"),
    "mixtures of the wrong length": ({"relevant_mixtures": ((1.0, 2.0),)}, "one finite weight for each of the 5"),
    "mixtures of nothing finite": ({"relevant_mixtures": ((np.nan,) * 5,) * 3}, "finite"),
    "a norm without a vector": ({"label_norm": 2.0}, "labels are numbers"),
    "a task beyond the mixtures": ({"relevant_mixtures": ((1.0,) * 5,) * 2, "tasks": "0-3"}, "0 to 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_impossible_prompts_are_refused(case):
    changes, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        Prompts.model_validate({"patterns": PATTERNS, **changes})


@pytest.mark.parametrize(
    "changes", [{"relevant_fraction": 0.8}, {"label_dimension": 4}, {"relevant_mixtures": ((1.0,) * 5,) * 3}]
)
def test_the_fused_engine_leaves_them_to_the_reference(changes):
    assert Training(model="mamba", prompts=Prompts(patterns=PATTERNS, **changes)).engine == "reference"


def test_labels_of_another_shape_are_refused_in_tests():
    number = T_PROMPTS.replace(label_dimension=None, label_norm=1.0)
    assert "label_dimension" in T_PROMPTS.fits(number)
    assert T_PROMPTS.fits(T_PROMPTS.replace(relevant_fraction=1.0)) == ""


def test_prompts_but_for_something_are_validated():
    other = T_PROMPTS.replace(tasks="unseen:ring:1", relevant_fraction=1.0)
    assert str(other.tasks) == "unseen:ring:1"
    assert other.replace(tasks="all", relevant_fraction=0.7) == T_PROMPTS
    with pytest.raises(ValueError, match="relevant_fraction"):
        T_PROMPTS.replace(relevant_fraction=2.0)
