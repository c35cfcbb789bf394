"""Users' modules that cannot be trained or measured are refused before training; what they raise later has a place."""

import traceback

import pytest
import torch
from small_modules import PROMPTS, RECIPE, BatchNorm, Plain, training
from torch import nn

import iclab
from iclab.engines import Recipe, stacking_obstacle, train, weights
from iclab.prompts import Outliers


class Half(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.out.half()


class Brain(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.out.bfloat16()


class Complex(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))


class HalfOutput(Plain):
    def forward(self, tokens):
        return super().forward(tokens).half()


class WholeNumbers(Plain):
    def forward(self, tokens):
        return super().forward(tokens).sign().long()


class Elsewhere(Plain):
    def forward(self, tokens):
        return super().forward(tokens).to("meta")


class Detached(Plain):
    def forward(self, tokens):
        return super().forward(tokens).detach()


class Unasked(Plain):
    """Its output has a gradient, but none of its parameters."""

    def __init__(self, width):
        super().__init__(width)
        self.scale = torch.ones((), requires_grad=True)

    def forward(self, tokens):
        return tokens[:, :, -1].sum(1) * self.scale


class Frozen(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.requires_grad_(False)


class OneInEvaluation(Plain):
    def forward(self, tokens):
        found = super().forward(tokens)
        return found if self.training else found[:1]


class FailsInEvaluation(Plain):
    def forward(self, tokens):
        if not self.training:
            raise ZeroDivisionError("I cannot\nbe measured")
        return super().forward(tokens)


class NeedsGradients(Plain):
    def forward(self, tokens):
        found = super().forward(tokens)
        found.grad_fn.name()
        return found


class OneBatchSize(Plain):
    def forward(self, tokens):
        assert len(tokens) in (2, 4)
        return super().forward(tokens)


class FailsInTraining(Plain):
    def forward(self, tokens):
        if self.training:
            raise KeyError("train")
        return super().forward(tokens)


class FailsAtTheStart(Plain):
    def __init__(self, width):
        super().__init__(width)
        raise OSError("no file weights.pt")


class FailsBackwards(Plain):
    def forward(self, tokens):
        found = super().forward(tokens)
        if found.requires_grad:
            found.register_hook(lambda gradient: 1 / 0)
        return found


class KeepsItsGraph(Plain):
    memory = None

    def forward(self, tokens):
        found = super().forward(tokens)
        if self.training:
            found = found + (0.0 if self.memory is None else self.memory.mean())
            self.memory = found
        return found


class Forgets(Plain):
    """Its step count decides the answer, and is no buffer."""

    steps = 0

    def forward(self, tokens):
        self.steps += self.training
        return super().forward(tokens) * (1 + self.steps)


class OtherShapes(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, int(torch.randint(2, 1000, ())))

    def forward(self, tokens):
        return self.hidden(tokens[:, -1]).mean(1)


REFUSED = {
    Half: ("at the start, seed 0", "out.weight is of float16", "must be float32 or float64"),
    Brain: ("out.weight is of bfloat16", "must be float32 or float64"),
    Complex: ("phase is of complex64", "must be float32 or float64"),
    HalfOutput: ("in evaluation, seed 0", "output dtype = float16", "float32 or float64"),
    WholeNumbers: ("in evaluation, seed 0", "output dtype = int64", "float32 or float64"),
    Elsewhere: ("output device = meta", "must be cpu"),
    Detached: ("in training, seed 0", "the output has no gradient"),
    Unasked: ("in training, seed 0", "no parameter gets a gradient"),
    Frozen: ("no parameters to train",),
    OneInEvaluation: ("in evaluation, seed 0", "output shape = (1, 1)", "(2, 1)"),
    FailsInEvaluation: ("in evaluation, seed 0", "ZeroDivisionError: I cannot (test_refused_modules.py, line "),
    NeedsGradients: ("in evaluation, seed 0", "AttributeError"),
    OneBatchSize: ("in evaluation, seed 0", "(1, 5, 10)", "AssertionError"),
    FailsInTraining: ("in training, seed 0", "KeyError: 'train' (test_refused_modules.py, line "),
    FailsAtTheStart: ("seed 0", "cannot be built with {'width': 10}", "OSError: no file weights.pt"),
    FailsBackwards: ("in training, seed 0", "ZeroDivisionError"),
    KeepsItsGraph: ("in training, seed 0", "backward through the graph a second time"),
    Forgets: ("in training, seed 0", "no parameter or buffer", "register_buffer"),
    OtherShapes: ("hidden.bias has shape", "for seed 0 and", "for seed 1"),
}


@pytest.mark.parametrize("model, words", REFUSED.items(), ids=[model.__name__ for model in REFUSED])
def test_it_is_refused_in_one_line_before_training(model, words):
    done = []
    with pytest.raises(iclab.InputError) as refused:
        train(training(model), (0, 1), advance=done.append)
    for word in (f"model = {model.__name__}", *words):
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not done


def test_one_prompt_a_step_is_tried_as_it_will_be():
    with pytest.raises(iclab.InputError, match="in training, seed 0: raised ValueError: Expected more than 1 value"):
        train(training(BatchNorm, RECIPE.replace(batch_size=1)), (0,))


def test_a_module_that_is_built_already_is_refused():
    with pytest.raises(ValueError, match="must be the class, not a module that is built already"):
        iclab.Model(name=Plain(10))


# What is raised later comes back with its place and its traceback.


class Tires(Plain):
    """Raises in its ninth step: of all seeds if they are stacked, else of those whose weights say so."""

    def __init__(self, width, stacked=False):
        super().__init__(width)
        self.stacked, self.calls = stacked, 0
        if not stacked:
            self.register_buffer("anything", torch.zeros(1))

    def forward(self, tokens):
        self.calls += self.training
        if self.calls > 8 and (self.stacked or self.out.bias > 0):
            raise KeyError("I am\ntired")
        return super().forward(tokens)


def raised_by(described, seeds):
    with pytest.raises(iclab.InputError) as refused:
        train(described, seeds)
    assert isinstance(refused.value.__cause__, KeyError)
    assert 'raise KeyError("I am' in "".join(traceback.format_exception(refused.value))
    return str(refused.value)


def test_an_exception_in_training_names_step_and_seed():
    described, seeds = training(Tires, RECIPE.replace(steps=10, frozen=("out.bias",))), tuple(range(8))
    bias = weights(train(training(Plain, Recipe(steps=0)), seeds))["out.bias"][:, 0]
    first = int(torch.nonzero(bias > 0)[0])
    for group in (seeds, (first,)):
        assert raised_by(described, group).startswith(f"model = Tires, step 8, seed {first}: raised KeyError: ")


def test_an_exception_of_stacked_seeds_names_all_of_them():
    described = training(iclab.Model(name=Tires, options={"stacked": True}), RECIPE.replace(steps=10))
    assert not stacking_obstacle(described)
    assert raised_by(described, (0, 1, 2)).startswith("model = Tires, step 8, seeds 0 to 2: raised KeyError: ")
    assert raised_by(described, (0, 2, 5)).startswith("model = Tires, step 8, seeds 0, 2, 5: raised KeyError: ")


class Shy(Plain):
    def forward(self, tokens):
        if len(tokens) > 100:
            raise LookupError("so many")
        return super().forward(tokens)


def test_an_exception_in_evaluation_says_so():
    run = iclab.Run(train(training(Shy), (3, 4)))
    with pytest.raises(iclab.InputError, match="model = Shy, in evaluation, seeds 3 to 4: raised LookupError") as found:
        run.error(count=200)
    assert isinstance(found.value.__cause__, LookupError)


CALLS = []


def tiring_rule(examples):
    CALLS.append(len(examples.labels))
    if len(CALLS) > 8:
        raise KeyError("I am tired")
    return -examples.labels


def test_an_exception_of_a_label_rule_names_the_step():
    CALLS.clear()
    prompts = PROMPTS.replace(outliers=Outliers(fraction=0.5, labels=tiring_rule))
    told = raised_by(training("linear", RECIPE.replace(steps=50), prompts), (0, 1))
    assert ", step " in told
    assert ", seeds 0 to 1: outliers.labels = " in told
    assert "test_refused_modules:tiring_rule: raised KeyError: 'I am tired' (test_refused_modules.py, line " in told


def test_an_exception_of_ours_keeps_its_type(monkeypatch):
    """A mistake in a built-in model is no mistake of the user."""
    monkeypatch.setattr(iclab.models.Linear, "forward", lambda self, tokens: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(training("linear"), (0,))
