"""The fused engine: models trained and measured in dictionary coordinates, without a dense token, compiled by numba.

Weights that start as δI and move by SGD stay δI outside the span of the training dictionary (docs/fused.md). So it is
enough to carry them in an orthonormal frame of that span. The part of the gate outside the span stays as it started; a
test outlier that points there meets the gate through it. This is exact, not an approximation: the weights are those of
the reference engine, up to rounding.

Each *form* is a family of models that share their kernels; `iclab.engines.registry` says which trainings a form takes.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines.fused.seeds import SeedState, train_apart
from iclab.engines.fused.summing import Measuring, sum_pieces
from iclab.engines.registry import fused_form
from iclab.engines.trained import Advance, Notify, Trained
from iclab.engines.training import Training
from iclab.prompts import Prompts


class Form(Protocol):
    """What the package of a form has."""

    State: type[SeedState]
    """The weights and working memory of one seed."""

    def parameters(self, training: Training) -> tuple[str, ...]:
        """Return the names of the weights that can move."""

    def weights(self, trained: Trained, step: int) -> dict[str, torch.Tensor]:
        """Return the model's own weights, (seeds, …), from a snapshot."""

    def measuring(self, trained: Trained, probe: str, prompts: Prompts, at: int, draw: int) -> Measuring:
        """Prepare a probe on test prompts."""


def _form(training: Training) -> Form:
    form: Any = importlib.import_module(f"{__name__}.{fused_form(training).module}")
    return form


def check(training: Training) -> None:
    """Refuse a recipe that freezes what the model does not have."""
    names = _form(training).parameters(training)
    if unknown := sorted(set(training.recipe.frozen) - set(names)):
        raise InputError(f"recipe.frozen = {unknown[0]}: is no parameter of this model; it has {', '.join(names)}")


def train(
    training: Training,
    seeds: tuple[int, ...],
    advance: Advance = lambda prompts: None,
    notify: Notify = lambda text: None,
    threads: int = 1,
) -> Trained:
    """Train every seed; the result depends neither on the number of threads nor on the other seeds."""
    check(training)
    return train_apart(training, seeds, _form(training).State, advance, notify, threads)


def weights(trained: Trained, step: int) -> dict[str, torch.Tensor]:
    """Return the model's own weights, (seeds, …), from a snapshot."""
    return _form(trained.training).weights(trained, step)


def sums(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    advance: Advance = lambda prompts: None,
    threads: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """Measure every seed on test prompts; `iclab.probes` turns the sums into rows."""
    measuring = _form(trained.training).measuring(trained, probe, prompts, at, draw)
    return sum_pieces(trained.seeds, fused_form(trained.training).sums[probe], measuring, count, advance, threads)
