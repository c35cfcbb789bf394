"""Small prompts, recipes and modules for tests of the Python interface."""

from __future__ import annotations

import torch

import iclab

SMALL = iclab.Prompts(
    patterns=iclab.Patterns(dimension=10, relevant=3, irrelevant=2, outlier=3),
    tasks="ring:2",
    context_length=5,
    outliers=iclab.Outliers(fraction=0.5, scale=2.0),
)
CLEAN = SMALL.replace(outliers=iclab.Outliers())
BRIEF = iclab.Recipe(steps=4, batch_size=4, step_size=0.1)


class Net(torch.nn.Module):
    """A module with named parts, one of which returns a tuple and one of which is not used."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(width, 6), torch.nn.Tanh())
        self.pair = Pair()
        self.idle = torch.nn.Identity()
        self.read = torch.nn.Linear(6, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.read(self.pair(self.body(tokens))[0].mean(1)).squeeze(-1)


class Pair(torch.nn.Module):
    def forward(self, value: torch.Tensor) -> tuple[torch.Tensor, int]:
        return value, 2
