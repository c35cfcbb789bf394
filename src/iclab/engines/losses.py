"""The losses that a recipe may name, and a user's own.

With the output F of a prompt and its target z:

    hinge      max(0, 1 − z·F)        M (4)
    linear     1 − z·F                what the proofs differentiate, M (93)
    squared    (F − z)² / 2           as in M E.8, (202)
    logistic   log(1 + exp(−z·F))

The losses of several levels are added up. A user's loss is a function of the outputs and targets of all prompts, two
tensors (seeds, batch). It returns one loss per prompt, of the same shape. Prompts must not mix.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from iclab.config import Code, InputError, what_was_raised

Loss = Callable[[Tensor, Tensor], Tensor]
"""Takes outputs F and targets z, both (seeds, batch, levels); returns losses (seeds, batch)."""


def hinge(output: Tensor, target: Tensor) -> Tensor:
    """Return max(0, 1 − z·F). Its gradient at the kink is 0."""
    return torch.relu(1.0 - target * output).sum(-1)


def linear(output: Tensor, target: Tensor) -> Tensor:
    """Return 1 − z·F: the hinge loss without its kink."""
    return (1.0 - target * output).sum(-1)


def squared(output: Tensor, target: Tensor) -> Tensor:
    """Return (F − z)² / 2."""
    return 0.5 * (output - target).square().sum(-1)


def logistic(output: Tensor, target: Tensor) -> Tensor:
    """Return log(1 + exp(−z·F)), without overflow."""
    return functional.softplus(-target * output).sum(-1)


LOSSES: dict[str, Loss] = {"hinge": hinge, "linear": linear, "squared": squared, "logistic": logistic}
"""The losses by name."""


def loss_function(loss: str | Code) -> Loss:
    """Return the loss of a recipe; a user's function is tried first, and refused if it gives no loss per prompt."""
    if isinstance(loss, str):
        return LOSSES[loss]
    function = _users(loss)
    output = torch.zeros(2, 3, 1, requires_grad=True)
    found = function(output, torch.ones(2, 3, 1))
    if not found.requires_grad:
        raise InputError(f"recipe.loss = {loss.path}: must depend on the output through torch, or nothing is learnt")
    return function


def _users(code: Code) -> Loss:
    own, zero = code.load(), torch.zeros(())

    def function(output: Tensor, target: Tensor) -> Tensor:
        if output.shape[-1] > 1:
            return sum((function(*pair) for pair in zip(output.split(1, -1), target.split(1, -1), strict=True)), zero)
        try:
            found = own(output[..., 0], target[..., 0])
        except Exception as error:  # a user's function may raise anything
            raise InputError(f"recipe.loss = {code.path}: {what_was_raised(error)}") from error
        if not isinstance(found, Tensor) or found.shape != output.shape[:2]:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"recipe.loss = {code.path}: must return one loss per prompt, a tensor of shape (seeds, batch) = "
                f"{tuple(output.shape[:2])}; returned {shape}"
            )
        return found

    return function
