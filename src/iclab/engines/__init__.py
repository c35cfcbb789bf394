"""Engines: train (a recipe in, weights and snapshots out) and answer prompts with the result."""

from iclab.engines.recipe import Recipe, Switch, Training
from iclab.engines.reference import VERSION, answers, hinge, stacking_obstacle, train
from iclab.engines.trained import Trained

__all__ = [
    "VERSION",
    "Recipe",
    "Switch",
    "Trained",
    "Training",
    "answers",
    "hinge",
    "stacking_obstacle",
    "train",
]
