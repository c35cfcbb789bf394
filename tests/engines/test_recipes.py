"""Recipes: schedules, losses, early stopping and callbacks, on every engine."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iclab.config import InputError
from iclab.engines import Recipe, Stop, Training, check, train, weights
from iclab.engines.losses import LOSSES
from iclab.prompts import Patterns, Prompts

PROMPTS = Prompts(patterns=Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2), outliers={"fraction": 0.3})
ENGINES = ("fused", "reference")


def training(recipe, engine="auto", model="mamba", dtype="float64"):
    return Training(model=model, prompts=PROMPTS, recipe=recipe, engine=engine, dtype=dtype)


# Schedules


def test_a_warm_up_rises_in_a_line_and_decay_begins_where_it_ends():
    recipe = Recipe(steps=10, warmup=4, decay="linear")
    expected = [0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert [recipe.rate(step) for step in range(10)] == pytest.approx(expected)


@given(steps=st.integers(1, 200), share=st.floats(0, 1), decay=st.sampled_from(["none", "linear", "cosine"]))
def test_every_rate_is_positive_and_the_largest_is_the_step_size(steps, share, decay):
    recipe = Recipe(steps=steps, warmup=int(share * steps), decay=decay)
    rates = [recipe.rate(step) for step in range(steps)]
    assert min(rates) > 0
    assert max(rates) == 1
    top = rates.index(1.0)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_what_a_recipe_does_not_use_is_not_in_its_description():
    """Cells that were stored before these fields existed keep their names."""
    assert not {"warmup", "stop", "callback", "frozen"} & Recipe().model_dump(mode="json").keys()
    assert Recipe(warmup=3).digest() != Recipe().digest()


def test_geometric_snapshots_by_name():
    assert Recipe(steps=1000, snapshots="geometric:7").kept == (0, 1, 3, 10, 32, 100, 316, 1000)
    assert Recipe(steps=0, snapshots="geometric:7").kept == (0,)


# Losses


def test_losses_are_their_equations():
    output, target = torch.tensor([[[0.3], [-2.0], [4.0]]]), torch.tensor([[[1.0], [1.0], [-1.0]]])
    f, z = output[0, :, 0].numpy().astype(float), target[0, :, 0].numpy().astype(float)
    expected = {
        "hinge": np.maximum(0, 1 - z * f),
        "linear": 1 - z * f,
        "squared": (f - z) ** 2 / 2,
        "logistic": np.log(1 + np.exp(-z * f)),
    }
    assert expected.keys() == LOSSES.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(LOSSES[name](output, target)[0].numpy(), values, rtol=1e-6)


def test_the_logistic_loss_does_not_overflow():
    recipe = Recipe(steps=3, batch_size=8, step_size=1e4, loss="logistic")
    for engine in ENGINES:
        assert np.isfinite(train(training(recipe, engine), (0,)).losses).all()


def users_hinge(output, target):
    return torch.relu(1 - target * output)


def mean_only(output, target):
    return users_hinge(output, target).mean()


def detached(output, target):
    return users_hinge(output, target).detach()


def raising(output, target):
    raise ZeroDivisionError("by hand")


def test_a_users_loss_trains_as_the_same_built_in_one():
    ours, theirs = (Recipe(steps=12, batch_size=16, loss=loss) for loss in (users_hinge, "hinge"))
    found = [train(training(recipe, "reference"), (0, 1)) for recipe in (ours, theirs)]
    assert training(ours).engine == "reference"  # compiled code cannot call it
    torch.testing.assert_close(weights(found[0]), weights(found[1]), atol=1e-12, rtol=0)
    assert ours.digest() != theirs.digest()


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (mean_only, "must return one loss per prompt, a tensor of shape (seeds, batch) = (2, 3); returned ()"),
        (detached, "must depend on the output through torch"),
        (raising, "raised ZeroDivisionError: by hand"),
    ],
)
def test_a_users_loss_is_tried_before_any_work(loss, words):
    with pytest.raises(InputError, match=re.escape(words)):
        check(training(Recipe(steps=5, loss=loss)))


def test_a_users_loss_sees_one_output_per_prompt_also_if_labels_are_vectors():
    model = {"name": "softmax-mlp", "options": {"neurons": 6}}
    prompts = Prompts(patterns=Patterns(outlier=0), label_dimension=4)
    recipe = Recipe(steps=2, batch_size=5, loss=users_hinge)
    own = Training(model=model, prompts=prompts, recipe=recipe)
    check(own)
    found = [train(own.replace(recipe=recipe.replace(loss=loss)), (0,)).losses for loss in (users_hinge, "hinge")]
    np.testing.assert_allclose(*found, atol=1e-6)


# Early stopping


def stops_by_hand(losses, loss, patience, window):
    """Return after how many steps the rule stops, by its definition."""
    means = [(t + 1, np.mean(losses[t + 1 - window : t + 1])) for t in range(window - 1, len(losses))]
    for n, (steps, mean) in enumerate(means):
        best = min(range(n + 1), key=lambda k: (means[k][1], k))
        if (loss is not None and mean <= loss) or (patience is not None and n - best >= patience):
            return steps
    return None


@given(
    losses=st.lists(st.integers(0, 8), max_size=40),
    loss=st.none() | st.integers(0, 8),
    patience=st.none() | st.integers(1, 9),
    window=st.sampled_from([1, 2, 4]),  # whose means are exact
)
def test_early_stopping_is_its_definition(losses, loss, patience, window):
    if loss is None and patience is None:
        return
    rule, found = Stop(loss=loss, patience=patience, window=window), np.array(losses, dtype=float)
    assert rule.reached(found) == stops_by_hand(found, loss, patience, window)


@pytest.mark.parametrize("level", [0.1, np.log(2)])
def test_rounding_is_no_smaller_loss(level):
    assert Stop(patience=50, window=20).reached([level] * 200) == 70


@pytest.mark.parametrize("engine", ENGINES)
def test_a_seed_that_stops_is_a_seed_with_fewer_steps(engine):
    recipe = Recipe(steps=80, batch_size=32, step_size=0.5, snapshots=(79,), stop=Stop(loss=0.55, window=4))
    stopped = train(training(recipe, engine), (0, 1, 2, 3))
    ends = stopped.stopped_at
    assert len(set(ends.tolist())) > 1  # each at a time of its own
    assert not stopped.diverged.any()
    for row, end in enumerate(ends):
        assert 4 <= end < 80
        assert np.isnan(stopped.losses[end:, row]).all()
        shorter = train(training(Recipe(steps=int(end), batch_size=32, step_size=0.5), engine), (stopped.seeds[row],))
        for step in (79, 80):
            for name, expected in weights(shorter).items():
                torch.testing.assert_close(weights(stopped, step)[name][row], expected[0], atol=1e-9, rtol=0)


def test_threads_do_not_move_the_end():
    recipe = Recipe(steps=80, batch_size=32, step_size=0.5, stop=Stop(loss=0.55, window=4))
    found = [train(training(recipe, "fused"), tuple(range(4)), threads=threads) for threads in (1, 3)]
    assert found[0].stopped_at.tolist() == found[1].stopped_at.tolist()
    torch.testing.assert_close(weights(found[0]), weights(found[1]), atol=0, rtol=0)


# Callbacks


def test_a_callback_sees_every_step_and_may_stop_seeds():
    seen = []

    def callback(done):
        seen.append(done)
        return [1] if done.step == 3 else None

    recipe = Recipe(steps=6, batch_size=8, callback=callback)
    trained = train(training(recipe), (0, 1))
    assert [done.step for done in seen] == [1, 2, 3, 4, 5, 6]
    assert [done.seeds for done in seen] == [(0, 1)] * 3 + [(0,)] * 3
    assert trained.stopped_at.tolist() == [-1, 3]
    np.testing.assert_array_equal(seen[4].losses, trained.losses[4, :1])
    torch.testing.assert_close(seen[5].weights()["query"][0], weights(trained)["query"][0], atol=0, rtol=0)


def raising_at_3(done):
    assert 1 / (3 - done.step)


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (raising_at_3, "step 3: raised ZeroDivisionError: division by zero (test_recipes.py, line"),
        (lambda done: 7.5, "must return nothing, or a list of seeds to stop; returned 7.5"),
        (lambda done: [9], "returned seed 9, which does not train; those that do: 0, 1"),
    ],
)
def test_what_a_callback_does_wrong_is_said_in_one_line(callback, words):
    with pytest.raises(InputError, match=re.escape(words)):
        train(training(Recipe(steps=6, batch_size=8, callback=callback)), (0, 1))
