"""A model to be checked, and what several checks need of it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal
from unittest import SkipTest

import torch
from torch import Tensor, nn

from iclab.engines import Recipe, Trained, Training, train, weights
from iclab.engines.ensemble import Draws, ask, restore
from iclab.engines.rehearsal import drawn, fresh_modules, rehearse_answers
from iclab.models import Model
from iclab.prompts import Outliers, Patterns, Prompts, Stream

DType = Literal["float32", "float64"]
PROMPTS = Prompts(
    patterns=Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2),
    context_length=8,
    outliers=Outliers(fraction=0.5),
)
"""Small prompts that every model should be able to take."""
RECIPE = Recipe(steps=3, batch_size=8, step_size=0.1, clip=1.0)
"""A few steps that are short enough for any model."""
SEEDS = (0, 1, 2)
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
"""How far numbers that should agree may be apart, relative to the largest of them."""


class Subject:
    """A model to be checked, and what several checks need of it."""

    def __init__(self, model: Model, prompts: Prompts, dtype: DType, noise: float) -> None:
        self.prompts, self.dtype, self.tolerance, self.noise = prompts, dtype, TOLERANCE[dtype], noise
        self._whole = Training(model=model, prompts=prompts, recipe=RECIPE, engine="reference", dtype=dtype)
        self.still = self._whole.replace(recipe=Recipe(steps=0))

    @cached_property
    def lazy(self) -> bool:
        """Whether the first forward pass makes parameters or buffers."""
        return rehearse_answers(self.still, self.prompts).lazy

    @cached_property
    def trains(self) -> bool:
        """Whether it has anything to train."""
        return any(p.requires_grad for p in self.fresh().parameters())

    @property
    def training(self) -> Training:
        """A few steps, or none if there is nothing to train."""
        return self._whole if self.trains else self.still

    @cached_property
    def trained(self) -> Trained:
        """The model after a few steps."""
        return train(self.training, SEEDS)

    def fresh(self) -> nn.Module:
        """Return the module of seed 0 as training starts with it."""
        return fresh_modules(self.still, (0,), self.lazy)[0]

    def modules(self, seeds: tuple[int, ...] = SEEDS) -> list[nn.Module]:
        """Return trained modules that a check may use up."""
        modules, found = fresh_modules(self.training, seeds, self.lazy), weights(self.trained.select(seeds))
        for row, module in enumerate(modules):
            restore(module, {name: weight[row] for name, weight in found.items()})
            with torch.no_grad():
                for p in module.parameters() if self.noise else ():
                    p.add_(self.noise * torch.randn(p.shape, generator=torch.Generator().manual_seed(seeds[row])))
        return modules

    def tokens(self, count: int, prompts: Prompts | None = None, seeds: tuple[int, ...] = SEEDS) -> Tensor:
        """Return prompts (seeds, count, l + 1, width)."""
        return drawn(self.still, prompts or self.prompts, count, seeds, Stream.TEST)

    def answer(self, module: nn.Module, tokens: Tensor, *, learning: bool = False, seed: int = 0) -> Tensor:
        """Answer as in evaluation, or as in training, (batch, 1)."""
        with torch.no_grad(), Draws() as draws:
            draws.seed(seed)
            return ask(module.train(learning), tokens.clone()).output

    def need_parameters(self) -> None:
        """Skip a check of training for a model that is not trained."""
        if not self.trains:
            raise SkipTest("it has no parameters to train")

    def same(self, first: Tensor, second: Tensor, what: str) -> None:
        """Require that two tensors agree, up to rounding."""
        apart, largest = gap(first, second), float(first.detach().nan_to_num().abs().max())
        assert apart <= self.tolerance * max(largest, 1e-30), f"{what} differ by {apart:.3g}"


def gap(first: Tensor, second: Tensor | None) -> float:
    """Return the largest difference; infinite if shapes differ or only one of two numbers is NaN."""
    if second is None or first.shape != second.shape or not torch.equal(first.isnan(), second.isnan()):
        return math.inf
    if not first.numel():
        return 0.0
    return float((first.detach().double() - second.detach().double()).nan_to_num(nan=0.0, posinf=math.inf).abs().max())
