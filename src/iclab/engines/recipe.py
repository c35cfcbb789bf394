"""How a model is trained: M (4), (19) and Algorithm 1, and what other models need besides plain SGD."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from iclab.config import Code, Config, InputError
from iclab.engines.losses import LOSSES
from iclab.engines.stopping import Stop
from iclab.prompts import Prompts

# Optimisers that update every number by itself, so that stacking seeds does not couple them.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    name.lower(): getattr(torch.optim, name)
    for name in (
        "SGD",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Rprop",
    )
}


_FUSED = ("adam", "adamw")
"""Those that make several passes over every parameter, where torch has one that makes a single pass."""
_WAYS = {"foreach", "fused", "capturable", "differentiable"}
"""Options that say how an optimiser computes, of which some exclude others."""


def _known(value: Any) -> Any:
    if not isinstance(value, str) or value not in OPTIMIZERS:
        raise ValueError(f"must be one of {', '.join(OPTIMIZERS)}")
    return value


def _loss(value: Any) -> Any:
    if isinstance(value, str) and ":" not in value:
        if value not in LOSSES:
            raise ValueError(f"must be one of {', '.join(LOSSES)}, or a function as 'package.module:name'")
        return value
    return Code.of(value) if callable(value) or isinstance(value, str) else value


def _none(value: Any) -> bool:
    return value is None


class Switch(Config):
    """From ``step`` on, draw training prompts from another distribution."""

    step: Annotated[int, Field(ge=1)]
    prompts: Prompts


class Recipe(Config):
    """Loss, optimiser, and how many steps of how many fresh prompts.

    Example:
        >>> Recipe(step_size=0.05, steps=200).optimizer
        'sgd'
    """

    steps: Annotated[int, Field(ge=0)] = 1000
    """T, the number of iterations."""
    batch_size: Annotated[int, Field(ge=1)] = 128
    """B, fresh prompts per iteration."""
    step_size: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """η. If a training names none, SGD takes the one that the model declares, and other optimisers torch's default."""
    loss: Annotated[str | Code, BeforeValidator(_loss)] = "hinge"
    """``hinge`` as in M (4), ``linear``, ``squared``, ``logistic``, or your own function: `iclab.engines.losses`."""
    optimizer: Annotated[str, BeforeValidator(_known)] = "sgd"
    """The name of a torch optimiser, in lower case."""
    optimizer_options: dict[str, float | bool | tuple[float, ...]] = {}
    """Its further arguments, such as ``momentum`` or ``weight_decay``."""
    clip: Annotated[float | None, Field(gt=0)] = None
    """Scale the gradient of each seed down to at most this norm."""
    warmup: Annotated[int, Field(ge=0, exclude_if=lambda steps: not steps)] = 0
    """Steps in which η rises from η / warmup to η, in a straight line."""
    decay: Literal["none", "linear", "cosine"] = "none"
    """How η falls to 0, from the end of the warm-up to the end of the training."""
    stop: Annotated[Stop | None, Field(exclude_if=_none)] = None
    """Early stopping, for each seed by itself."""
    callback: Annotated[Code | None, Field(exclude_if=_none)] = None
    """Your function, called with a `StepDone` after every step; it may return seeds to stop.

    It runs where the seeds train, which may be another process, and not for seeds that a store has. Seeds train in
    their usual groups, mostly of eight, because a callback may stop one because of another."""
    switches: tuple[Switch, ...] = ()
    """Later prompt distributions; the first is that of the training."""
    snapshots: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Steps after which to keep weights, in addition to 0 and ``steps``; ``"geometric:20"`` means about 20 of them,
    each larger than the last by about the same factor."""
    frozen: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()
    """Names of parameters that stay as they start, such as ``gate``."""

    @field_validator("optimizer_options")
    @classmethod
    def _without_defaults(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Drop values that are torch's defaults, so that writing one out changes nothing."""
        if "optimizer" not in info.data or not options:
            return options
        defaults = inspect.signature(OPTIMIZERS[info.data["optimizer"]]).parameters
        return {k: v for k, v in options.items() if k not in defaults or defaults[k].default != v}

    @field_validator("snapshots", mode="before")
    @classmethod
    def _geometric(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str):
            return value
        word, _, count = value.partition(":")
        if word != "geometric" or not count.isdecimal():
            raise ValueError("must be a list of steps, or geometric:N")
        return geometric(info.data["steps"], int(count)) if info.data.get("steps") else ()

    @field_validator("snapshots", "frozen")
    @classmethod
    def _in_order(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(set(values)))

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        late = [s for s in (*self.snapshots, *(switch.step for switch in self.switches)) if s > self.steps]
        if late:
            raise ValueError(f"snapshots or switches = {late[0]}: must be at most steps = {self.steps}")
        if self.warmup > self.steps:
            raise ValueError(f"warmup = {self.warmup}: must be at most steps = {self.steps}")
        order = [switch.step for switch in self.switches]
        if order != sorted(set(order)):
            raise ValueError(f"switches = {order}: the steps must increase")
        if self.optimizer_options:  # constructing an optimiser loads much of torch
            try:
                OPTIMIZERS[self.optimizer]([torch.zeros(1)], lr=self.step_size, **self.optimizer_options)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"optimizer_options = {self.optimizer_options}: {error}") from None
        return self

    def rate(self, step: int) -> float:
        """Return the factor on the step size in iteration ``step``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / (self.steps - self.warmup)
        if self.decay == "linear":
            return 1.0 - done
        if self.decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * done))
        return 1.0

    def make_optimizer(self, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        """Return a fresh optimiser, in torch's fastest form."""
        fused = self.optimizer in _FUSED and not _WAYS & self.optimizer_options.keys()
        options = {**({"fused": True} if fused else {}), **self.optimizer_options}
        return OPTIMIZERS[self.optimizer](parameters, lr=self.step_size, **options)

    def suited(self, step_size: float | None) -> Recipe:
        """Return the recipe with a step size of its own, if it names none.

        SGD takes the one that the model declares, ``step_size``, if it does; other optimisers take torch's default.

        Example:
            >>> Recipe().suited(0.05).step_size, Recipe(step_size=1.0).suited(0.05).step_size
            (0.05, 1.0)
            >>> Recipe(optimizer="adam").suited(0.05).step_size
            0.001
        """
        if "step_size" in self.model_fields_set:
            return self
        if self.optimizer != "sgd":
            return self.replace(step_size=inspect.signature(OPTIMIZERS[self.optimizer]).parameters["lr"].default)
        return self if step_size is None else self.replace(step_size=step_size)

    @property
    def kept(self) -> tuple[int, ...]:
        """Every step after which weights are kept."""
        return tuple(sorted({0, *self.snapshots, self.steps}))


def geometric(steps: int, count: int, first: int = 1) -> tuple[int, ...]:
    """Return about ``count`` steps from ``first`` to ``steps``, each larger than the last by about the same factor.

    >>> geometric(1000, 7)
    (1, 3, 10, 32, 100, 316, 1000)
    """
    if not 1 <= first <= steps or count < 2:
        raise InputError(f"first = {first}, steps = {steps}, count = {count}: needs 1 ≤ first ≤ steps and two or more")
    ratio = (steps / first) ** (1 / (count - 1))
    return tuple(sorted({round(first * ratio**i) for i in range(count)}))
