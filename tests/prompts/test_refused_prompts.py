"""Prompts that cannot be drawn: refused in words that name the field, its value and what is allowed."""

import numpy as np
import pytest

from iclab.config import InputError
from iclab.prompts import Outliers, Patterns, Prompts, Stream


def refusal(**settings):
    with pytest.raises(InputError) as caught:
        Prompts(**settings)
    return str(caught.value)


def draw_with(**outliers):
    return Prompts(context_length=6, outliers=Outliers(count=2, **outliers)).draw([0], Stream.TEST, count=4)


def assert_named(message, parts):
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"patterns": {"dimension": 18}}, ["dimension = 18", "at least", "6 + 10 + 3 = 19"]),
        ({"context_length": 0}, ["context_length = 0", "greater than or equal to 1"]),
        ({"context_length": 2.5}, ["context_length = 2.5", "integer"]),
        ({"irrelevant_scale": -0.1}, ["irrelevant_scale = -0.1", "greater than or equal to 0"]),
        ({"irrelevant_scale": float("inf")}, ["irrelevant_scale = inf", "finite"]),
        ({"balance": "even"}, ["balance = 'even'", "'independent' or 'stratified'"]),
        ({"tasks": "0-6"}, ["tasks = 0-6", "0 to 5"]),
        ({"lenght": 20}, ["lenght", "unknown key"]),
        ({"patterns": {"relevent": 3}}, ["patterns.relevent", "unknown key"]),
        ({"patterns": {"outlier": 0}, "outliers": {"count": 1}}, ["patterns.outlier = 0", "at least one"]),
        ({"outliers": {"frac": 0.1}}, ["outliers.frac", "unknown key"]),
        ({"outliers": {"fraction": -0.01}}, ["outliers.fraction = -0.01", "greater than or equal to 0"]),
        ({"outliers": {"fraction": 1.01}}, ["outliers.fraction = 1.01", "less than or equal to 1"]),
        ({"outliers": {"fraction": float("nan")}}, ["outliers.fraction = nan", "finite"]),
        ({"outliers": {"scale": -1.0}}, ["outliers.scale = -1.0", "greater than or equal to 0"]),
        ({"outliers": {"count": -1}}, ["outliers.count = -1", "greater than or equal to 0"]),
        ({"outliers": {"count": 21}}, ["outliers.count = 21", "at most context_length = 20"]),
        ({"outliers": {"count": 3, "fraction": 0.2}}, ["count = 3", "either fraction or count"]),
        ({"outliers": {"labels": "flop"}}, ["labels = 'flop'", "random, flip, target", "package.module:function"]),
        ({"outliers": {"labels": 3}}, ["labels = 3", "'random', 'flip' or 'target'", "callable"]),
        ({"outliers": {"labels": "no.such:rule"}}, ["labels = 'no.such:rule'", "cannot be imported"]),
        ({"outliers": {"labels": "math:no_such"}}, ["labels = 'math:no_such'", "cannot be imported"]),
        ({"outliers": {"target": 0}}, ["target = 0", "1 or -1"]),
        ({"outliers": {"placement": "near"}}, ["placement = 'near'", "random, farthest, closest"]),
        ({"outliers": {"patterns": "papers"}}, ["patterns = 'papers'", "'training', 'paper' or a list"]),
        ({"outliers": {"patterns": []}}, ["patterns = []", "at least one mixture"]),
        ({"outliers": {"patterns": [{"weights": [1, 2]}]}}, ["weights = (1.0, 2.0)", "each of the 3 outlier patterns"]),
        ({"outliers": {"patterns": [{"weights": []}]}}, ["weights = []", "at least 1"]),
        (
            {"outliers": {"patterns": [{"weights": [1, 1, 1], "outside_norm": -1}]}},
            ["outside_norm = -1", "greater than or equal to 0"],
        ),
        (
            {"patterns": {"dimension": 19}, "outliers": {"patterns": [{"weights": [1, 1, 1], "outside_norm": 2}]}},
            ["outside_norm = 2.0", "fill all 19 dimensions"],
        ),
    ],
    ids=str,
)
def test_impossible_prompts_are_refused_with_field_value_and_range(settings, named):
    assert_named(refusal(**settings), named)


def test_the_limits_themselves_are_allowed():
    for count in (0, 1):
        prompts = Prompts(context_length=1, irrelevant_scale=0.0, outliers=Outliers(count=count))
        assert (prompts.draw([0], Stream.TEST, count=3).outlier == bool(count)).all()
    for fraction in (0.0, 1.0):
        prompts = Prompts(patterns=Patterns(dimension=19), outliers=Outliers(fraction=fraction))
        assert (prompts.draw([0], Stream.TEST, count=3).outlier == bool(fraction)).all()


# Rules that break their contract.


def no_batch(number, uniform):
    return np.arange(6) < number[0, :, None]


def numbers(number, uniform):
    return 1.0 * (np.arange(6) < number[..., None])


def one_more(number, uniform):
    return np.arange(6) < number[..., None] + 1


def one_label(examples):
    return examples.labels[..., 0]


def no_number(examples):
    return np.full(examples.labels.shape, np.nan)


@pytest.mark.parametrize(
    "placement, named",
    [
        (no_batch, ["returned bool of shape (4, 6)", "needs bool of shape (1, 4, 6)"]),
        (numbers, ["returned float64", "needs bool"]),
        (one_more, ["exactly as many"]),
    ],
)
def test_a_placement_that_breaks_its_contract_is_refused(placement, named):
    with pytest.raises(InputError) as caught:
        draw_with(placement=placement)
    assert_named(str(caught.value), [f"outliers.placement = {__name__}:{placement.__name__}", *named])


def test_a_label_rule_of_the_wrong_shape_is_refused():
    with pytest.raises(InputError) as caught:
        draw_with(labels=one_label)
    assert_named(str(caught.value), [f"outliers.labels = {__name__}:one_label", "shape (1, 4)", "needs (1, 4, 6)"])


def test_a_label_rule_that_returns_nan_is_refused():
    with pytest.raises(InputError, match=r"outliers\.labels = .*:no_number: .* not finite"):
        draw_with(labels=no_number)


def test_a_rule_that_is_not_callable_is_refused():
    message = refusal(outliers={"labels": "math:pi"})
    assert_named(message, ["labels = 'math:pi'", "must be a function or a class", "float"])


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_a_seed_out_of_range_cannot_draw(bad):
    with pytest.raises(InputError, match=rf"seed = {bad}: .* below 2\^32"):
        Prompts().draw([bad], Stream.TEST)
