"""Checks of what iclab does with a module: train it, stack seeds, measure, save and load."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import SkipTest

import torch
from torch import Tensor

from iclab.config import InputError
from iclab.engines import Trained, answers, train, weights
from iclab.engines.ensemble import OneByOne, Stacked
from iclab.engines.rehearsal import rehearse_training
from iclab.prompts import Prompts
from iclab.testing.subject import RECIPE, SEEDS, Subject, gap


def trains(subject: Subject) -> None:
    """Training runs, moves weights, and gives the same weights when it is run again."""
    subject.need_parameters()
    first, again = subject.trained, train(subject.training, SEEDS)
    assert not first.diverged.any(), f"after {RECIPE.steps} small steps the loss or a weight is not finite"
    before, after = weights(first, 0), weights(first)
    for name, weight in after.items():
        assert gap(weight, weights(again)[name]) == 0, f"{name} is not the same after the same training"
    assert any(gap(before[name], weight) > 0 for name, weight in after.items()), "training moves no weight"


def stacked(subject: Subject) -> None:
    """Seeds that are stacked answer as single ones do, and have the same gradients."""
    subject.need_parameters()
    if obstacle := rehearse_training(subject.training).obstacle:
        raise SkipTest(f"its seeds are not stacked: {obstacle}")
    tokens, modules = subject.tokens(5), subject.modules()
    stacked, single = Stacked([module.train() for module in modules], SEEDS), OneByOne(modules, SEEDS)
    outputs = [ensemble.forward(tokens.clone(), training=True).output for ensemble in (stacked, single)]
    subject.same(outputs[1], outputs[0], "stacked and single answers")
    for output in outputs:
        output.sum().backward()
    alone = [dict(module.named_parameters()) for module in modules]
    for name, parameter in stacked.named_parameters().items():
        if parameter.grad is not None:
            singles = torch.stack([torch.zeros_like(p[name]) if (g := p[name].grad) is None else g for p in alone])
            subject.same(singles, parameter.grad, f"stacked and single gradients of {name}")


def seeds(subject: Subject) -> None:
    """A seed that is trained with others has the weights that it has alone."""
    subject.need_parameters()
    together, shuffled = subject.trained, train(subject.training, SEEDS[::-1]).select(SEEDS)
    for seed in SEEDS:
        alone = weights(train(subject.training, (seed,)))
        for name, weight in weights(together.select((seed,))).items():
            subject.same(alone[name], weight, f"{name} of seed {seed}, trained alone and with others,")
            other = weights(shuffled.select((seed,)))[name]
            subject.same(alone[name], other, f"{name} of seed {seed}, trained alone and in another order,")


def measures(subject: Subject) -> None:
    """Trained seeds are measured, in evaluation mode, with finite answers that do not depend on how many are asked."""
    few, many = (_outputs(subject.trained, subject.prompts, count) for count in (3, 7))
    assert many.isfinite().all(), "an answer is not finite"
    subject.same(many[:, :3], few, "answers to the first 3 of 7 prompts and to 3 prompts")


def saves(subject: Subject) -> None:
    """Weights that are saved and loaded are the same, and answer alike."""
    with tempfile.TemporaryDirectory() as folder:
        subject.trained.save(Path(folder) / "weights.safetensors")
        loaded = Trained.load(Path(folder) / "weights.safetensors", subject.training)
    for name, weight in weights(subject.trained).items():
        assert name in weights(loaded), f"{name} is lost"
        assert gap(weight, weights(loaded)[name]) == 0, f"{name} is changed"
    found = [_outputs(trained, subject.prompts, 3) for trained in (subject.trained, loaded)]
    assert gap(*found) == 0, "answers before and after differ"


def double(subject: Subject) -> None:
    """It also runs in float64."""
    if subject.dtype == "float64":
        return
    try:
        _outputs(train(subject.training.replace(dtype="float64"), (0,)), subject.prompts, 2)
    except InputError as error:
        raise SkipTest(f"it does not run in float64: {error}") from error


def _outputs(trained: Trained, prompts: Prompts, count: int) -> Tensor:
    return torch.cat([answer.output for _, answer in answers(trained, prompts, count)], dim=1)
