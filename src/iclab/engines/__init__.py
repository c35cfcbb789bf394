"""Engines: train (a recipe in, weights and snapshots out) and answer prompts with the result."""

from iclab.engines.engine import answers, check, tally, tally_prompts, train, version, weights
from iclab.engines.recipe import Engine, Recipe, Switch, Training, faster_obstacle, warn_beyond_theory
from iclab.engines.reference import VERSION as REFERENCE_VERSION
from iclab.engines.reference import stacking_obstacle
from iclab.engines.trained import Report, Trained, stacked_dictionary

__all__ = [
    "REFERENCE_VERSION",
    "Engine",
    "Recipe",
    "Report",
    "Switch",
    "Trained",
    "Training",
    "answers",
    "check",
    "faster_obstacle",
    "stacked_dictionary",
    "stacking_obstacle",
    "tally",
    "tally_prompts",
    "train",
    "version",
    "warn_beyond_theory",
    "weights",
]
