"""Prompts that go beyond the papers': label noise, outliers in the query, an exact share of relevant patterns."""

import numpy as np
import pytest
from drawn_prompts import FIRST_OUTLIER, PATTERNS, STREAMS, everything, make, observed
from evenness import assert_even, assert_independent, assert_shares

from iclab.config import InputError
from iclab.prompts import Outliers, Prompts, Stream

NOISY = make(fraction=0.3, label_noise=0.2, query=0.4, labels="flip", scale=1.5)


@pytest.fixture(scope="module", params=STREAMS, ids=lambda stream: stream.name)
def noisy(request):
    """80 000 prompts of two seeds, 480 000 examples."""
    return NOISY.draw([0, 1], request.param, step=2, count=40_000, dtype=np.float64)


def turned(batch):
    return (batch.labels[..., :-1, 0] != batch.true_labels[..., 0]).astype(int)


def test_label_noise_turns_its_share_of_clean_examples_and_outliers_keep_their_rule(noisy):
    assert_shares(turned(noisy)[~noisy.outlier], [0.8, 0.2])
    assert turned(noisy)[noisy.outlier].all()  # flipped
    np.testing.assert_array_equal(abs(noisy.labels[..., :-1, 0]), 1.0)


def test_label_noise_depends_on_nothing(noisy):
    of_prompts, of_examples, _ = observed(noisy, NOISY)
    noise, clean = turned(noisy), ~noisy.outlier
    for value in of_prompts.values():
        assert_independent(np.broadcast_to(value[..., None], clean.shape)[clean], noise[clean])
    for name in of_examples.keys() - {"outlier"}:
        assert_independent(of_examples[name][clean], noise[clean])
    both = clean[..., :-1] & clean[..., 1:]
    assert_independent(noise[..., :-1][both], noise[..., 1:][both])


def test_queries_carry_outliers_by_their_own_probability(noisy):
    strength, row = noisy.coefficient[..., -1, 2], noisy.index[..., -1, 2]
    corrupted = strength > 0
    assert_shares(corrupted, [0.6, 0.4])
    np.testing.assert_array_equal(strength[corrupted], 1.5)
    assert_even(row[corrupted] - FIRST_OUTLIER, 3)
    assert (row[~corrupted] == 0).all()
    of_prompts, of_examples, _ = observed(noisy, NOISY)
    for value in of_prompts.values():
        assert_independent(value, corrupted)
        assert_independent(value[corrupted], row[corrupted])
    for name in of_examples.keys() - {"position"}:
        assert_independent(of_examples[name], corrupted[..., None])
    assert_independent(turned(noisy)[..., -1], corrupted)


def test_an_outlier_in_the_query_changes_neither_its_answer_nor_its_label(noisy):
    query = noisy.index[..., -1, 0]
    np.testing.assert_array_equal(noisy.target[..., 0], np.where(query == noisy.task[..., 0], 1.0, -1.0))
    assert (noisy.labels[..., -1, :] == 0).all()


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_the_rest_of_a_prompt_is_as_without_them(stream):
    plain, more = (prompts.draw([0, 1], stream, step=2, count=500) for prompts in (make(fraction=0.3), NOISY))
    for name, array in everything(plain).items():
        if name in ("index", "coefficient"):  # the query's outlier and its strength are the last
            np.testing.assert_array_equal(getattr(more, name)[..., :2], array[..., :2])
        elif name != "labels":
            np.testing.assert_array_equal(getattr(more, name), array)


def test_training_and_test_prompts_have_different_noise():
    whole = make(label_noise=0.5, query=0.5)
    one, other = (whole.draw([0], stream, count=2000) for stream in STREAMS)
    assert_independent(turned(one), turned(other))
    assert_independent(*(batch.coefficient[..., -1, 2] > 0 for batch in (one, other)))


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_certain_noise_and_certain_outliers(chance):
    batch = make(label_noise=chance, query=chance, scale=2.0).draw([3], Stream.TEST, count=50)
    assert (turned(batch) == chance).all()
    assert (batch.coefficient[..., -1, 2] == 2.0 * chance).all()


@pytest.mark.parametrize("count", [1, 4, 6])
def test_exactly_as_many_examples_carry_the_tasks_patterns(count):
    batch = make(relevant_count=count).draw([0, 1], Stream.TEST, count=30_000)
    relevant, task = batch.index[..., :-1, 0], batch.task[..., None, :]
    own = (relevant == task[..., 0]) | (relevant == task[..., 1])
    assert (own.sum(-1) == count).all()
    if count < 6:
        first = (own * 2 ** np.arange(6)).sum(-1)  # which subset
        subsets = np.unique(first)
        assert len(subsets) == {1: 6, 4: 15}[count]
        assert_even(np.searchsorted(subsets, first), len(subsets))
    side = (relevant == task[..., 1]).astype(int)
    assert_even(side[own], 2)
    np.testing.assert_array_equal(batch.true_labels[..., 0][own], 1 - 2 * side[own])
    stray = batch.true_labels[..., 0][~own]
    if stray.size:
        assert_even(stray < 0, 2)


def test_all_examples_is_the_usual_prompt():
    usual, all_ = (make(relevant_count=count).draw([0], Stream.TRAIN, count=50) for count in (None, 6))
    for name, array in everything(usual).items():
        np.testing.assert_array_equal(getattr(all_, name), array)


def test_defaults_leave_the_description_as_it_was():
    plain = Prompts().model_dump(mode="json")
    assert not {"label_noise", "relevant_count"} & plain.keys()
    assert "query" not in plain["outliers"]
    assert not {"draw", "vectors"} & plain["patterns"].keys()
    changed = [
        Prompts(label_noise=0.1),
        Prompts(relevant_count=3),
        Prompts(outliers=Outliers(query=0.1)),
        Prompts(patterns={"draw": 1}),
    ]
    for prompts in changed:
        assert Prompts.model_validate_json(prompts.model_dump_json()) == prompts
    assert len({prompts.digest() for prompts in (Prompts(), *changed)}) == 5


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"label_noise": 1.5}, ["label_noise = 1.5", "less than or equal to 1"]),
        ({"label_noise": -0.5}, ["label_noise = -0.5", "greater than or equal to 0"]),
        ({"label_noise": float("nan")}, ["label_noise = nan", "finite"]),
        ({"outliers": {"query": 2}}, ["outliers.query = 2", "less than or equal to 1"]),
        ({"outliers": {"query": 0.5}, "patterns": {"outlier": 0}}, ["patterns.outlier = 0", "at least one"]),
        ({"relevant_count": 0}, ["relevant_count = 0", "greater than or equal to 1"]),
        ({"relevant_count": 21}, ["relevant_count = 21", "at most context_length = 20"]),
        ({"relevant_count": 2, "relevant_fraction": 0.5}, ["relevant_count = 2", "not both"]),
        (
            {"relevant_count": 2, "patterns": {"relevant": 2}},
            ["relevant_count = 2", "below context_length = 20", "third relevant pattern, there are 2"],
        ),
    ],
    ids=str,
)
def test_impossible_variants_are_refused_with_field_value_and_range(settings, named):
    with pytest.raises(InputError) as caught:
        Prompts(**settings)
    for part in named:
        assert part in str(caught.value)


def test_two_relevant_patterns_may_be_in_all_examples():
    assert not Prompts(patterns=PATTERNS.replace(relevant=2), relevant_count=20).has_others
