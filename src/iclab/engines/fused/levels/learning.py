"""Training one-layer models level by level: each level is the state of a one-layer model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines.fused import one_layer
from iclab.engines.fused.one_layer import OneLayer
from iclab.engines.fused.seeds import SeedState
from iclab.engines.trained import Trained
from iclab.engines.training import Training
from iclab.prompts import Basis, Prompts
from iclab.prompts.counters import LEVEL


class Levels(SeedState):
    """The levels of one seed."""

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        super().__init__(training, seed, basis)
        self.levels = [OneLayer(training, seed + h * LEVEL, own) for h, own in enumerate(basis.levels)]
        self.prompts = training.prompts

    @property
    def changing(self) -> Sequence[NDArray[np.floating]]:
        """Weights, gradients and momenta of all levels."""
        return [array for level in self.levels for array in level.changing]

    def kept(self) -> dict[str, NDArray[np.floating]]:
        """Return the weights in coordinates of each level's frame, (levels, …)."""
        kept = [level.kept() for level in self.levels]
        return {name: np.stack([weights[name] for weights in kept]) for name in kept[0]}

    def prepare(self, prompts: Prompts) -> None:
        """Prepare every level."""
        self.prompts = prompts
        for level in self.levels:
            level.prepare(prompts)

    def steps(self, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]) -> int:
        """Take the steps of every level; the loss is the sum of theirs."""
        own = np.full((len(self.levels), len(losses)), np.nan, dtype=losses.dtype)
        ends = [level.steps(first, last, rates, row) for level, row in zip(self.levels, own, strict=True)]
        losses[first:last] = own.sum(0)[first:last]
        return min((end for end in ends if end >= 0), default=-1)


def apart(trained: Trained) -> Trained:
    """Return the levels as seeds of their own, those of a seed one after another."""
    levels = trained.training.prompts.levels
    return replace(
        trained,
        seeds=tuple(seed + h * LEVEL for seed in trained.seeds for h in range(levels)),
        snapshots={
            step: {name: w.flatten(0, 1) for name, w in weights.items()} for step, weights in trained.snapshots.items()
        },
        diverged_at=np.repeat(trained.diverged_at, levels),
        losses=np.repeat(trained.losses, levels, axis=1),
    )


def weights(trained: Trained, step: int) -> dict[str, torch.Tensor]:
    """Return the model's own weights from their coordinates: W_B and W_C (seeds, H, m, d + 1), w (seeds, H, d + 1)."""
    shape = (len(trained.seeds), trained.training.prompts.levels)
    return {name: w.unflatten(0, shape) for name, w in one_layer.weights(apart(trained), step).items()}
