"""What the tests of users' modules share: small prompts, a short recipe, and two modules."""

from torch import nn

from iclab.engines import Recipe, Training
from iclab.prompts import Outliers, Patterns, Prompts

SMALL = Patterns(dimension=9, relevant=3, irrelevant=2, outlier=2)
PROMPTS = Prompts(patterns=SMALL, context_length=4, outliers=Outliers(fraction=0.5))
RECIPE = Recipe(steps=3, batch_size=4, step_size=0.05)


def training(model, recipe=RECIPE, prompts=PROMPTS, **more):
    return Training(model=model, prompts=prompts, recipe=recipe, engine="reference", **more)


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.out(tokens[:, -1])


class BatchNorm(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, tokens):
        return self.out(self.norm(tokens[:, -1]))
