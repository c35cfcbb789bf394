"""`iclab.testing`: every built-in model passes, and every check can fail."""

import os
from unittest import SkipTest

import pytest
import torch
from torch import nn

import iclab
from iclab.engines import Trained
from iclab.models import MODELS
from iclab.testing import check_model, checks

OPTIONS = {"gpt2": {"layers": 1, "hidden": 8}}
SLOW = ("gpt2", "classical")  # they compile
SKIPPED = {"gpt2": {"stacked"}, "classical": {"gradients", "trains", "stacked", "seeds"}}
CAUSAL = ("deep-mamba", "deep-hybrid", "gpt2")  # they have a state per token that knows nothing of later ones


class Good(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.out(tokens[:, -1])


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS])
def test_every_built_in_model_passes(name):
    checked = check_model(name, options=OPTIONS.get(name))
    assert checked.model == name
    skipped = SKIPPED.get(name, set()) | {"recurrent"} | ({"prefix"} if name not in CAUSAL else set())
    assert set(checked.skipped) == skipped
    assert set(checked.passed) | skipped == {check for check, _ in checks()}


class WithBatchNorm(nn.Module):
    def __init__(self, width, hidden=4):
        super().__init__()
        self.body, self.norm, self.out = nn.LSTM(width, hidden, batch_first=True), nn.BatchNorm1d(hidden), None
        self.out = nn.Sequential(nn.Dropout(0.5), nn.Linear(hidden, 1))

    def forward(self, tokens):
        return self.out(self.norm(self.body(tokens)[0][:, -1]))


class ForOneLength(nn.Module):
    def __init__(self, width, context_length):
        super().__init__()
        self.out = nn.Linear(width * (context_length + 1), 1)

    def forward(self, tokens):
        return self.out(tokens.flatten(1).float())


def test_a_users_model_passes_and_the_report_says_what_was_skipped():
    checked = check_model(WithBatchNorm, options={"hidden": 3})
    assert list(checked.skipped) == ["modes", "recurrent", "stacked"]
    assert str(checked).startswith(
        "WithBatchNorm: 14 checks passed, 3 skipped\n  passed   builds: A seed always builds"
    )
    assert checked.skipped["modes"] == "a pass in training mode changes norm.running_mean, as in a batch norm"
    assert "  skipped  stacked: its seeds are not stacked: it has buffers" in str(checked)


def test_what_a_model_need_not_do_is_a_note():
    checked = check_model(ForOneLength)
    assert set(checked.skipped) == {"prefix", "recurrent", "lengths", "double"}
    assert checked.skipped["prefix"] == "it does not take prompts of 5 tokens"
    assert checked.skipped["lengths"].startswith("it takes prompts of 8 examples, but not of 4 (")
    assert checked.skipped["double"].startswith("it does not run in float64: model = ForOneLength")


# Models that fail, one for each check.


class Builds(Good):
    def __init__(self, width):
        super().__init__(width)
        with torch.no_grad():
            self.out.bias.fill_(int.from_bytes(os.urandom(2)))


class Shape(Good):
    def forward(self, tokens):
        return super().forward(tokens) if self.training else tokens[..., 0]


class Gradients(Good):
    def forward(self, tokens):
        return super().forward(tokens) + torch.sqrt(0.0 * self.out.weight).sum()  # the slope of √ at 0


class Trains(Good):
    def forward(self, tokens):
        noise = int.from_bytes(os.urandom(2)) / 2**16 if self.training else 0.0
        return super().forward(tokens) * (1 + noise)


class Deterministic(Good):
    def forward(self, tokens):
        return self.out(nn.functional.dropout(tokens[:, -1], 0.5))  # in evaluation too


class Modes(Good):
    def forward(self, tokens):
        return super().forward(tokens) * (1.1 if self.training else 1.0)


class Prefix(nn.Module):
    causal = True

    def __init__(self, width):
        super().__init__()
        self.mix, self.out = nn.LSTM(width, 4, batch_first=True, bidirectional=True), nn.Linear(8, 1)

    def forward(self, tokens):
        return self.out(self.mix(tokens)[0][:, -1])


class Recurrent(Good):
    def recurrent_step(self, token, state=None):
        state = token if state is None else state + token
        return self.out(state), state  # its forward pass reads the last token alone


class Untouched(Good):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, tokens):
        self.seen += len(tokens)
        return super().forward(tokens)


class Batch(Good):
    def forward(self, tokens):
        return self.out(tokens[:, -1] - tokens[:, -1].mean(0))


class Seeds(Good):
    """All seeds share what one of them was shown."""

    shared = 0.0

    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("nothing", torch.zeros(1))  # so that seeds are not stacked
        type(self).shared = 0.0

    def forward(self, tokens):
        if not self.training:
            return super().forward(tokens)
        type(self).shared = 0.5 * self.shared + float(tokens.abs().mean())
        return super().forward(tokens) * self.shared


class Measures(Good):
    def forward(self, tokens):
        found = super().forward(tokens)
        return found * torch.nan if len(tokens) == 7 else found


FAILING = {
    Builds: "out.bias is not the same for the same seed",
    Shape: "in evaluation, seed 0: output shape = (2, 9): must be (2, 1)",
    Gradients: "the gradient of out.weight is not finite",
    Trains: "out.weight is not the same after the same training",
    Deterministic: "two calls in evaluation differ by",
    Modes: "answers in evaluation and in training mode differ by",
    Prefix: "the states of the first 5 tokens in mix differ by",
    Recurrent: "answers to whole prompts and token by token differ by",
    Untouched: "an answer in evaluation changes seen",
    Batch: "answers to a prompt alone and among others differ by",
    Seeds: "trained alone and with others, differ by",
    Measures: "an answer is not finite",
}


@pytest.mark.parametrize("model, reason", FAILING.items(), ids=[model.__name__ for model in FAILING])
def test_a_model_that_fails_is_told_which_check(model, reason):
    with pytest.raises(AssertionError) as failed:
        check_model(model)
    assert str(failed.value).startswith(f"{model.__name__} fails the check {model.__name__.lower()}: ")
    assert reason in str(failed.value)


def test_a_model_that_is_not_causal_is_wrong_only_if_it_says_that_it_is():
    class Both(Prefix):
        causal = None

    check = dict(checks())["prefix"]
    with pytest.raises(SkipTest, match=r"it is not causal: .* declare causal = True"):
        check(Both)


def test_a_recurrence_is_compared_with_whole_prompts():
    class Steps(Prefix):
        def __init__(self, width):
            super().__init__(width)
            self.mix, self.out = nn.LSTM(width, 4, batch_first=True), nn.Linear(4, 1)

        def recurrent_step(self, token, state=None):
            output, state = self.mix(token[:, None], state)
            return self.out(output[:, -1]), state

    assert {"prefix", "recurrent", "modes", "start"} <= set(check_model(Steps).passed)


def test_random_layers_may_be_on_in_training():
    class Random(Good):
        def forward(self, tokens):
            return self.out(nn.functional.dropout(tokens[:, -1], 0.5, self.training))

    assert check_model(Random).skipped["modes"] == "it draws random numbers in training mode, as dropout does"


def test_weights_that_the_bench_changes_before_training_are_found(monkeypatch):
    make = iclab.engines.reference.fresh_modules

    def meddling(*arguments):
        modules = make(*arguments)
        with torch.no_grad():
            modules[0].out.bias.add_(0.01)
        return modules

    monkeypatch.setattr(iclab.engines.reference, "fresh_modules", meddling)
    with pytest.raises(AssertionError, match=r"fails the check start: training starts with another out\.bias"):
        dict(checks())["start"](type("Fresh", (Good,), {}))


def test_weights_that_are_lost_on_the_way_are_found(monkeypatch):
    load = Trained.load

    def careless(*arguments):
        found = load(*arguments)
        found.snapshots[found.training.recipe.steps].pop("out.bias")
        return found

    monkeypatch.setattr(Trained, "load", careless)
    with pytest.raises(AssertionError, match=r"Good fails the check saves: out\.bias is lost"):
        check_model(Good)


def test_stacked_seeds_that_differ_are_found(monkeypatch):
    forward = iclab.engines.ensemble.Stacked.forward
    check = dict(checks())["stacked"]
    check(Good)

    def mixed(self, tokens, training):
        answer = forward(self, tokens, training)
        return answer._replace(output=answer.output.roll(1, 0))

    monkeypatch.setattr(iclab.engines.ensemble.Stacked, "forward", mixed)
    with pytest.raises(AssertionError, match="Good fails the check stacked: stacked and single answers differ by"):
        check(Good)


def test_what_a_model_raises_is_the_cause():
    class Raises(Good):
        def forward(self, tokens):
            raise LookupError("nothing")

    with pytest.raises(AssertionError, match=r"fails the check shape: .*raised LookupError: nothing") as failed:
        check_model(Raises)
    assert isinstance(failed.value.__cause__, LookupError)


@pytest.mark.parametrize("name, check", checks())
def test_checks_can_be_tests(name, check):
    check(Good)
