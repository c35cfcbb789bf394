"""Weights that are neither the start nor an end of a training."""

import torch


def move(run, seed):
    """Add noise to the last weights of a run, but for the fixed signs; return the run."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in run.trained.snapshots[run.trained.training.recipe.steps].items():
        if name != "signs":
            weight += 0.3 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return run
