"""How a model is trained: M (4), (19) and Algorithm 1, and what other models need besides plain SGD."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from iclab.config import Config, InputError
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


def _known(value: Any) -> Any:
    if not isinstance(value, str) or value not in OPTIMIZERS:
        raise ValueError(f"must be one of {', '.join(OPTIMIZERS)}")
    return value


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
    """η."""
    loss: Literal["hinge", "linear"] = "hinge"
    """max{0, 1 − z·F}, averaged over the batch: M (4); or 1 − z·F, which the proofs differentiate: M (93)."""
    optimizer: Annotated[str, BeforeValidator(_known)] = "sgd"
    """The name of a torch optimiser, in lower case."""
    optimizer_options: dict[str, float | bool | tuple[float, ...]] = {}
    """Its further arguments, such as ``momentum`` or ``weight_decay``."""
    clip: Annotated[float | None, Field(gt=0)] = None
    """Scale the gradient of each seed down to at most this norm."""
    decay: Literal["none", "linear", "cosine"] = "none"
    """How η falls to 0 during training."""
    switches: tuple[Switch, ...] = ()
    """Later prompt distributions; the first is that of the training."""
    snapshots: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Steps after which to keep weights, in addition to 0 and ``steps``."""
    frozen: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()
    """Names of parameters that stay as they start, such as ``gate``."""

    @field_validator("optimizer_options")
    @classmethod
    def _without_defaults(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Drop values that are torch's defaults, so that writing one out changes nothing."""
        if "optimizer" not in info.data:
            return options
        defaults = inspect.signature(OPTIMIZERS[info.data["optimizer"]]).parameters
        return {k: v for k, v in options.items() if k not in defaults or defaults[k].default != v}

    @field_validator("snapshots", "frozen")
    @classmethod
    def _in_order(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(set(values)))

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        late = [s for s in (*self.snapshots, *(switch.step for switch in self.switches)) if s > self.steps]
        if late:
            raise ValueError(f"snapshots or switches = {late[0]}: must be at most steps = {self.steps}")
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
        done = step / self.steps
        if self.decay == "linear":
            return 1.0 - done
        if self.decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * done))
        return 1.0

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
