"""Pruning: removing neurons of T's MLP before a measurement (T §3.4, Figure 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from iclab.config import Config, InputError
from iclab.engines import Trained, kept_step
from iclab.prompts import Stream
from iclab.prompts.counters import uniform, words

VERSION = 1
"""Part of the hash of measurements of pruned models. Raise it when other neurons are removed."""
LARGE = 1.0
"""T Theorem 3.7 (14): rows of W_O W_V in L have a length of Ω(1), read here as at least this."""
SLOT = 2
"""The block of random words, in the stream of weights, that orders random pruning."""


class Pruning(Config):
    """Remove a share of the neurons: their rows of W_O become 0.

    Example:
        >>> Pruning(rate=0.15).order
        'smallest'
    """

    rate: Annotated[float, Field(ge=0, le=1)]
    """R, the share of all neurons to remove, as far as ``among`` allows."""
    order: Literal["smallest", "largest", "random"] = "smallest"
    """Which to remove first: those of small magnitude, those of large magnitude, or any."""
    by: Literal["product", "hidden"] = "product"
    """The magnitude is the length of a row of W_O W_V, as in T Theorem 3.7, or of W_O, as in T Figure 5."""
    balanced: bool = False
    """Remove the same share of the neurons with a > 0 and with a < 0."""
    among: Literal["all", "large", "small"] = "all"
    """Which may be removed: all, those of magnitude 1 or more (L in T Theorem 3.7), or the others."""

    def chosen(self, magnitude: NDArray[np.float64], signs: NDArray[np.float64], seed: int) -> NDArray[np.intp]:
        """Return the indices of the neurons to remove, given all magnitudes and signs."""
        if self.order == "random":
            rank = uniform(words([seed], Stream.WEIGHTS, positions=len(signs), slot=SLOT)[0, 0, :, 0])
        else:
            rank = magnitude if self.order == "smallest" else -magnitude
        allowed = np.ones(len(signs), dtype=bool)
        if self.among != "all":
            allowed = (magnitude >= LARGE) == (self.among == "large")
        gone = []
        for side in (signs > 0, signs < 0) if self.balanced else (signs != 0,):
            may = np.flatnonzero(side & allowed)
            gone.append(may[np.argsort(rank[may], kind="stable")][: round(self.rate * side.sum())])
        return np.concatenate(gone)


def pruned(trained: Trained, pruning: Pruning, at: int) -> Trained:
    """Return the seeds with neurons removed from their weights after step ``at``."""
    weights = trained.snapshots[kept_step(trained, at)]
    if not {"value", "hidden", "signs"} <= weights.keys():
        raise InputError(f"pruning: removes neurons, and {trained.training.model.label} has none")
    hidden = weights["hidden"].clone()
    magnitudes = hidden @ weights["value"] if pruning.by == "product" else hidden  # (S, m, …)
    for i, seed in enumerate(trained.seeds):
        magnitude = magnitudes[i].double().norm(dim=1).numpy()
        hidden[i, torch.from_numpy(pruning.chosen(magnitude, weights["signs"][i].numpy(), seed))] = 0.0
    snapshots = {**trained.snapshots, at: {**weights, "hidden": hidden}}
    return replace(trained, snapshots=snapshots)
