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

import torch

from iclab.engines.registry import fused_form
from iclab.engines.trained import Advance, Notify, Trained
from iclab.engines.training import Training
from iclab.prompts import Prompts


class Form(Protocol):
    """The module that runs a form."""

    def check(self, training: Training) -> None:
        """Refuse a recipe that does not suit the model."""

    def train(
        self, training: Training, seeds: tuple[int, ...], advance: Advance, notify: Notify, threads: int
    ) -> Trained:
        """Train every seed; the result depends neither on the number of threads nor on the other seeds."""

    def weights(self, trained: Trained, step: int) -> dict[str, torch.Tensor]:
        """Return the model's own weights, (seeds, …), from a snapshot."""

    def sums(
        self,
        trained: Trained,
        probe: str,
        prompts: Prompts,
        count: int,
        *,
        at: int,
        draw: int,
        advance: Advance = ...,
        threads: int = 1,
    ) -> dict[str, Any]:
        """Measure every seed on test prompts; `iclab.probes` turns the sums into rows."""


def form(training: Training) -> Form:
    """Return the module of a training's form."""
    module: Any = importlib.import_module(f"iclab.engines.fused.{fused_form(training).module}")
    return module
