"""Outliers: how many, where, with which pattern, and what label they show."""

import itertools
import math

import numpy as np
import pytest
from drawn_prompts import (
    FIRST_MIXTURE,
    FIRST_OUTLIER,
    FRACTION,
    MIXTURES,
    PATTERNS,
    RULES,
    assert_same,
    by_chance,
    by_lot,
    by_pattern,
    make,
    observed,
)
from evenness import assert_distributed, assert_even, assert_independent, assert_shares, between, quarter

from iclab.config import OutsideTheoremWarning
from iclab.prompts import PAPER_MIXTURES, Mixture, Outliers, Prompts, Stream

# ---- exact counts and placement --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(6))
def test_an_exact_count_is_exact_and_every_subset_is_equally_likely(count):
    flags = make(length=5, count=count).draw([0], Stream.TRAIN, count=100_000).outlier[0]
    assert (flags.sum(-1) == count).all()
    subsets = list(itertools.combinations(range(5), count))
    rank = {sum(1 << i for i in subset): n for n, subset in enumerate(subsets)}
    drawn = [rank[code] for code in (flags @ (1 << np.arange(5))).tolist()]
    if len(subsets) > 1:
        assert_even(drawn, math.comb(5, count))


@pytest.mark.parametrize("count", [1, 7, 29])
def test_an_exact_count_favours_no_position(count):
    flags = make(length=30, count=count).draw([0, 1], Stream.TEST, count=10_000).outlier
    assert (flags.sum(-1) == count).all()
    for position in range(30):
        assert_shares(flags[..., position], [1 - count / 30, count / 30])


@pytest.mark.parametrize("amount", [{"fraction": 0.4}, {"count": 2}], ids=["fraction", "count"])
def test_placement_moves_outliers_but_not_their_number(amount):
    random, farthest, closest, lots = (
        make(**amount, placement=placement).draw([0, 1], Stream.TEST, count=500).outlier
        for placement in ("random", "farthest", "closest", by_lot)
    )
    for s, b in np.ndindex(2, 500):
        number = random[s, b].sum()
        assert farthest[s, b].tolist() == [True] * number + [False] * (6 - number)
        assert closest[s, b].tolist() == [False] * (6 - number) + [True] * number
        assert lots[s, b].sum() == number
    assert (random != farthest).any()
    assert (random != closest).any()
    assert (random != lots).any()


def test_a_placement_by_lot_favours_no_position_and_reads_nothing_else():
    prompts = make(count=2, placement=by_lot)
    batch = prompts.draw([0], Stream.TEST, count=50_000)
    for position in range(6):
        assert_shares(batch.outlier[..., position], [2 / 3, 1 / 3])
        random = make(count=2).draw([0], Stream.TEST, count=50_000).outlier[..., position]
        assert_independent(batch.outlier[..., position], random)
    _, of_examples, _ = observed(batch, prompts)
    for name in ("side", "irrelevant", "kappa"):
        assert_independent(of_examples[name][..., 2], batch.outlier[..., 2])


def test_a_placement_is_given_fresh_uniform_numbers():
    seen = []

    def watch(number, uniform):
        seen.append(uniform)
        return np.arange(uniform.shape[-1]) < number[..., None]

    prompts = make(fraction=FRACTION, placement=watch)
    batch = prompts.draw([0, 1], Stream.TRAIN, count=20_000)
    (uniform,) = seen
    assert uniform.shape == (2, 20_000, 6)
    assert uniform.min() >= 0.0
    assert uniform.max() < 1.0
    assert_distributed(uniform, between(0, 1))
    flags = make(fraction=FRACTION).draw([0, 1], Stream.TRAIN, count=20_000).outlier
    _, of_examples, _ = observed(batch, prompts)
    fresh = quarter(uniform, 0, 1)
    for other in (flags, of_examples["side"], of_examples["irrelevant"], of_examples["kappa"]):
        assert_independent(fresh, other)


# ---- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_what_outliers_show_under_each_rule(rule):
    batch = make(fraction=FRACTION, **RULES[rule]).draw([0, 1], Stream.TEST, count=20_000)
    shown, truth = batch.labels[..., :-1, 0], batch.true_labels[..., 0]
    np.testing.assert_array_equal(shown[~batch.outlier], truth[~batch.outlier])
    corrupted, truth = shown[batch.outlier], truth[batch.outlier]
    if rule == "random":
        assert_even(corrupted > 0, 2)
        assert_independent(corrupted, truth)
    else:
        np.testing.assert_array_equal(corrupted, {"flip": -truth, "plus": 1 + 0 * truth, "minus": -1 + 0 * truth}[rule])


def test_a_users_label_rule_decides_what_outliers_show():
    batch = make(fraction=FRACTION, labels=by_pattern).draw([0], Stream.TEST, count=2000)
    shown = batch.labels[..., :-1, 0]
    np.testing.assert_array_equal(shown[~batch.outlier], batch.true_labels[..., 0][~batch.outlier])
    pattern = batch.index[..., :-1, 2][batch.outlier]
    assert set(pattern.tolist()) == {FIRST_OUTLIER, FIRST_OUTLIER + 1, FIRST_OUTLIER + 2}
    np.testing.assert_array_equal(shown[batch.outlier], np.where(pattern == FIRST_OUTLIER, 1.0, -1.0))


def test_a_users_rule_can_be_named_by_its_import_path():
    by_name = make(fraction=0.5, labels="drawn_prompts:by_pattern", placement="drawn_prompts:by_lot")
    by_object = make(fraction=0.5, labels=by_pattern, placement=by_lot)
    assert by_name == by_object
    assert Prompts.model_validate(by_name.model_dump(mode="json")) == by_name
    assert_same(by_name.draw([0], Stream.TEST, count=50), by_object.draw([0], Stream.TEST, count=50))


def test_a_users_label_rule_sees_the_examples_as_they_are():
    seen = []

    def watch(examples):
        seen.append(examples)
        return by_chance(examples)

    batch = make(fraction=FRACTION, labels=watch, placement="closest").draw([0, 1], Stream.TEST, count=20_000)
    (examples,) = seen
    np.testing.assert_array_equal(examples.relevant, batch.index[..., :-1, 0])
    np.testing.assert_array_equal(examples.irrelevant + PATTERNS.relevant, batch.index[..., :-1, 1])
    np.testing.assert_array_equal(examples.outlier, batch.outlier)
    np.testing.assert_array_equal(examples.labels, batch.true_labels[..., 0])
    pattern = examples.outlier_pattern[batch.outlier] + FIRST_OUTLIER
    np.testing.assert_array_equal(pattern, batch.index[..., :-1, 2][batch.outlier])
    assert examples.uniform.shape == batch.outlier.shape
    assert_distributed(examples.uniform, between(0, 1))
    assert_shares(batch.labels[..., :-1, 0][batch.outlier] > 0, [0.7, 0.3])
    assert_independent(quarter(examples.uniform, 0, 1), examples.relevant)
    assert_independent(quarter(examples.uniform, 0, 1), examples.outlier_pattern)


def test_a_users_placement_and_label_rule_have_their_own_random_numbers():
    batch = make(count=2, placement=by_lot, labels=by_chance).draw([0], Stream.TEST, count=20_000)
    assert_shares(batch.labels[..., :-1, 0][batch.outlier] > 0, [0.7, 0.3])


def test_a_label_rule_cannot_change_clean_examples():
    def careless(examples):
        examples.labels[...] = 1.0
        return examples.labels

    with pytest.raises(ValueError, match="read-only"):
        make(count=2, labels=careless).draw([0], Stream.TEST, count=100)


# ---- mixtures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coherence", [0.0, 0.4])
def test_a_mixture_is_its_weights_over_the_training_outliers_and_a_vector_outside(coherence):
    patterns = PATTERNS.replace(coherence=coherence, outlier_norm=4.0)
    prompts = Prompts(patterns=patterns, outliers=Outliers(fraction=0.5, patterns=MIXTURES))
    basis = patterns.basis(8)
    dictionary = prompts.dictionary(basis)
    assert dictionary.shape == (FIRST_MIXTURE + 4, 17)
    np.testing.assert_array_equal(dictionary[:FIRST_MIXTURE], basis.vectors)
    for mixture, row in zip(MIXTURES, dictionary[FIRST_MIXTURE:], strict=True):
        u = row - sum(weight * basis.vectors[FIRST_OUTLIER + i] for i, weight in enumerate(mixture.weights))
        np.testing.assert_allclose(np.linalg.norm(u), mixture.outside_norm, atol=1e-12)
        np.testing.assert_allclose(basis.vectors @ u, 0.0, atol=1e-11)


def outside_directions(seed):
    """Unit vectors u of three mixtures that have one, and the basis."""
    mixtures = [Mixture(weights=(1.0, 0.0, 0.0), outside_norm=1.0)] * 3
    basis = PATTERNS.basis(seed)
    rows = make(count=1, patterns=mixtures).dictionary(basis)[FIRST_MIXTURE:]
    return rows - basis.vectors[FIRST_OUTLIER], basis


def test_vectors_outside_point_uniformly_and_differently():
    # In the 3 dimensions that the 14 patterns leave, the coordinate of a uniform unit vector is uniform on (−1, 1).
    along, between_two = [], []
    for seed in range(2000):
        u, basis = outside_directions(seed)
        axis = basis.outside(np.eye(17)[0])
        along.append(u @ axis / np.linalg.norm(axis))
        between_two.append([u[0] @ u[1], u[0] @ u[2], u[1] @ u[2]])
    for value in (*np.transpose(along), *np.transpose(between_two)):
        assert_distributed(value, between(-1, 1))


def test_outliers_are_drawn_evenly_from_the_mixtures():
    prompts = make(fraction=0.5, patterns=MIXTURES)
    batch = prompts.draw([0], Stream.TEST, count=30_000)
    assert_even(batch.index[..., :-1, 2][batch.outlier] - FIRST_MIXTURE, 4)
    assert not batch.index[..., 2][..., :-1][~batch.outlier].any()


def test_the_papers_mixtures():
    assert Outliers(patterns="paper").patterns == PAPER_MIXTURES
    assert [mixture.weights for mixture in PAPER_MIXTURES] == [(0.7, 0.6, -0.4), (0.4, 0.7, -0.6), (-0.7, 0.5, 0.5)]
    assert not any(mixture.outside_norm for mixture in PAPER_MIXTURES)


@pytest.mark.parametrize(
    "weights",
    [
        (1.0, -1.0, 0.0),
        (0.5, -0.7, 0.1),
        (0.1, 0.2, -0.3),  # 0 but for rounding
    ],
)
def test_mixtures_whose_weights_do_not_sum_to_something_positive_warn(weights):
    with pytest.warns(OutsideTheoremWarning, match=r"sum to .* not positive"):
        Outliers(fraction=0.2, patterns=[Mixture(weights=(1.0, 1.0, 1.0)), Mixture(weights=weights)])


# ---- common random numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amounts",
    [[{"fraction": p} for p in np.linspace(0, 1, 11)], [{"count": n} for n in range(7)]],
    ids=["fraction", "count"],
)
@pytest.mark.parametrize("placement", ["random", "farthest", "closest"])
def test_outlier_sets_are_nested_and_nothing_else_changes_as_their_number_grows(amounts, placement):
    batches = [
        make(**amount, placement=placement).draw([0, 1], Stream.TEST, count=300, dtype=np.float64) for amount in amounts
    ]
    assert not batches[0].outlier.any()
    assert batches[-1].outlier.all()
    for fewer, more in itertools.pairwise(batches):
        assert (fewer.outlier <= more.outlier).all()
        assert fewer.outlier.sum() < more.outlier.sum()
        unchanged = np.pad(fewer.outlier == more.outlier, [(0, 0), (0, 0), (0, 1)], constant_values=True)
        for name in ("index", "coefficient", "labels"):
            np.testing.assert_array_equal(getattr(fewer, name)[unchanged], getattr(more, name)[unchanged])
        for name in ("target", "true_labels", "task"):
            np.testing.assert_array_equal(getattr(fewer, name), getattr(more, name))
        np.testing.assert_array_equal(fewer.index[..., :2], more.index[..., :2])
        np.testing.assert_array_equal(fewer.coefficient[..., :2], more.coefficient[..., :2])
