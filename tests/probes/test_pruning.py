"""Taking neurons out: which ones go, and what is left."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import iclab
from iclab.models import Model
from iclab.prompts import Patterns, Prompts

PROMPTS = Prompts(patterns=Patterns(dimension=8, relevant=3, irrelevant=4, outlier=0), context_length=5)
ORDERS = ("smallest", "largest", "random")


@pytest.fixture(scope="module")
def run():
    model = Model(name="softmax-mlp", options={"neurons": 20})
    return iclab.train(model, PROMPTS, iclab.Recipe(steps=40, step_size=2.0), seeds=3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("balanced", [False, True])
def test_nothing_pruned_changes_nothing_and_all_pruned_leaves_a_dead_network(run, order, balanced):
    whole = run.measure("error", count=200)
    none = run.measure("error", count=200, pruning=iclab.Pruning(rate=0.0, order=order, balanced=balanced))
    assert none == whole
    for row in run.measure("error", count=200, pruning=iclab.Pruning(rate=1.0, order=order, balanced=balanced)):
        assert (row["error"], row["ties"], row["hinge"]) == (1.0, 200, 1.0)


@pytest.mark.parametrize("by", ["product", "hidden"])
def test_small_and_large_are_by_the_length_of_rows(run, by):
    weights = run.weights()
    for s in run.seeds:
        rows = weights["hidden"][s] @ weights["value"][s] if by == "product" else weights["hidden"][s]
        order = np.argsort(rows.double().norm(dim=1).numpy())
        for name, expected in (("smallest", order[:5]), ("largest", order[-5:])):
            left = run.measure("neurons", count=1, pruning=iclab.Pruning(rate=0.25, by=by, order=name))
            gone = {row["neuron"] for row in left if row["seed"] == s and row["length"] == 0}
            assert gone == set(expected.tolist())


def test_the_run_itself_is_left_whole(run):
    before = run.weights()["hidden"].clone()
    run.measure("error", count=50, pruning=iclab.Pruning(rate=0.5))
    torch.testing.assert_close(run.weights()["hidden"], before, atol=0, rtol=0)


signs = st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=40).map(np.array)


@given(signs=signs, rate=st.floats(0, 1), order=st.sampled_from(ORDERS), seed=st.integers(0, 99))
def test_balanced_pruning_takes_the_same_share_of_both_signs(signs, rate, order, seed):
    magnitude = np.random.default_rng(seed).random(len(signs))
    gone = iclab.Pruning(rate=rate, order=order, balanced=True).chosen(magnitude, signs, seed)
    assert len(set(gone)) == len(gone)
    for sign in (-1.0, 1.0):
        assert (signs[gone] == sign).sum() == round(rate * (signs == sign).sum())


@given(signs=signs, rates=st.tuples(st.floats(0, 1), st.floats(0, 1)), order=st.sampled_from(ORDERS))
def test_a_higher_rate_takes_out_all_that_a_lower_one_does(signs, rates, order):
    magnitude = np.linspace(1, 2, len(signs))
    low, high = (
        set(iclab.Pruning(rate=rate, order=order).chosen(magnitude, signs, 5).tolist()) for rate in sorted(rates)
    )
    assert low <= high


@pytest.mark.parametrize("order", ORDERS)
def test_large_and_small_ones_are_taken_from_their_own_group(order):
    magnitude, signs = np.array([0.2, 1.0, 3.0, 0.9, 1.5, 0.1]), np.ones(6)
    for among, group in (("large", {1, 2, 4}), ("small", {0, 3, 5})):
        some, all_ = (
            iclab.Pruning(rate=rate, order=order, among=among).chosen(magnitude, signs, 3) for rate in (1 / 3, 1.0)
        )
        assert len(some) == 2  # a share of all six, as far as the group goes
        assert set(some.tolist()) < set(all_.tolist()) == group


def test_random_pruning_is_even_and_differs_between_seeds():
    signs, magnitude = np.ones(50), np.zeros(50)
    gone = [iclab.Pruning(rate=0.3, order="random").chosen(magnitude, signs, seed) for seed in range(400)]
    counts = np.bincount(np.concatenate(gone), minlength=50)
    assert counts.sum() == 400 * 15
    assert np.abs(counts - 120).max() < 5 * np.sqrt(120 * 0.7)
    assert set(gone[0]) != set(gone[1])


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_rates_outside_0_to_1_are_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        iclab.Pruning(rate=rate)


def test_a_model_without_neurons_is_refused():
    run = iclab.train("linear", PROMPTS, iclab.Recipe(steps=0), seeds=1)
    with pytest.raises(iclab.InputError, match="pruning: removes neurons, and linear has none"):
        run.measure("error", count=5, pruning=iclab.Pruning(rate=0.5))
