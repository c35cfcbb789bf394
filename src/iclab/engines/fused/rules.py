"""What a recipe says about a step, in numbers, and the compiled functions that follow it: losses and optimisers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from iclab.engines.recipe import Recipe
from iclab.prompts.compiling import inner

# The loss, by what it is made of: z·F, or the margin m = 1 − z·F.
HINGE, LINEAR, SQUARED, LOGISTIC = 0, 1, 2, 3  # max(0, m), m, m²/2 = (F − z)²/2, log(1 + exp(−z·F))
SGD, ADAM, ADAMW = 0, 1, 2


class Update(NamedTuple):
    """An optimiser, with the options of torch's."""

    kind: int
    """SGD, ADAM or ADAMW."""
    momentum: Any
    first: Any
    """β₁"""
    second: Any
    """β₂"""
    epsilon: Any
    decay: Any
    """The weight decay of Adam or AdamW."""


def make_update(recipe: Recipe, dtype: Any) -> Update:
    """Read the optimiser from a recipe."""
    options: dict[str, Any] = dict(recipe.optimizer_options)
    real = np.dtype(dtype).type
    first, second = options.get("betas", (0.9, 0.999))
    decay = options.get("weight_decay", 0.01 if recipe.optimizer == "adamw" else 0.0)
    numbers = (options.get("momentum", 0.0), first, second, options.get("eps", 1e-8), decay)
    return Update(("sgd", "adam", "adamw").index(recipe.optimizer), *(real(number) for number in numbers))


class Rules(NamedTuple):
    """What a recipe says about a step, besides the step size and the optimiser."""

    batch: int
    loss: int
    """HINGE, LINEAR, SQUARED or LOGISTIC."""
    clip: Any
    """The largest norm of a gradient; 0 for none."""
    momentum: Any
    moves: tuple[bool, ...]
    """Which of the weights move, in the order in which kernels have them."""


def make_rules(recipe: Recipe, names: Sequence[str], dtype: Any) -> Rules:
    """Read the rules from a recipe, for weights of these names; an empty name is a weight that the model has not."""
    real = np.dtype(dtype).type
    loss = {"hinge": HINGE, "linear": LINEAR, "squared": SQUARED, "logistic": LOGISTIC}[str(recipe.loss)]
    moves = tuple(bool(name) and name not in recipe.frozen for name in names)
    momentum = recipe.optimizer_options.get("momentum", 0.0)
    return Rules(recipe.batch_size, loss, real(recipe.clip or 0.0), real(momentum), moves)


@inner
def weigh(kind, margin):  # type: ignore[no-untyped-def]
    """Return the loss at m = 1 − z·F, and −∂loss/∂(z·F); both are NaN if the margin is."""
    one, zero = margin - margin + 1, margin - margin  # of its dtype, or NaN
    if kind == HINGE:
        return (zero, zero) if margin <= 0 else (margin, one)
    if kind == SQUARED:
        return margin * margin / (one + one), margin
    if kind == LOGISTIC:
        power = np.exp(-np.abs(margin - one))  # of −|z·F|, so that it cannot overflow
        push = (one if margin > one else power) / (one + power)
        return max(zero, margin - one) + np.log1p(power), push
    return margin, one


@inner
def update(rule, weight, gradient, memory, squares, rate, step):  # type: ignore[no-untyped-def]
    """Change a flat weight against its gradient as torch's optimiser does in its step ``step``, counted from 0.

    ``memory`` and ``squares`` hold what the optimiser remembers: momentum, or Adam's two averages.
    """
    one = rate - rate + 1
    if rule.kind == SGD:
        for e in range(weight.size):
            move = gradient[e]
            if rule.momentum != 0:
                move = move if step == 0 else rule.momentum * memory[e] + move
                memory[e] = move
            weight[e] -= rate * move
        return
    first, second = one - rule.first ** (step + 1), np.sqrt(one - rule.second ** (step + 1))
    for e in range(weight.size):
        slope = gradient[e]
        if rule.kind == ADAM:
            slope += rule.decay * weight[e]
        else:
            weight[e] -= rate * rule.decay * weight[e]
        memory[e] += (one - rule.first) * (slope - memory[e])
        squares[e] = rule.second * squares[e] + (one - rule.second) * slope * slope
        weight[e] -= rate / first * memory[e] / (np.sqrt(squares[e]) / second + rule.epsilon)


@inner
def squares_of(values):  # type: ignore[no-untyped-def]
    """Return the sum of squares of a flat array."""
    total = values.dtype.type(0)
    for e in range(values.size):
        total += values[e] * values[e]
    return total
