"""Engines: train (a recipe in, weights and snapshots out) and answer prompts with the result."""

from iclab.engines.engine import (
    Sums,
    answer_versions,
    answers,
    check,
    kept_step,
    sum_answers,
    sum_prompts,
    sums_itself,
    train,
    trains_apart,
    weights,
)
from iclab.engines.recipe import Recipe, Switch, geometric
from iclab.engines.reference import stacking_obstacle
from iclab.engines.registry import ENGINES, Engine, faster_obstacle, versions
from iclab.engines.stopping import StepDone, Stop
from iclab.engines.trained import Advance, Notify, Trained, stacked_dictionary
from iclab.engines.training import EngineName, Training, warn_beyond_theory

__all__ = [
    "ENGINES",
    "Advance",
    "Engine",
    "EngineName",
    "Notify",
    "Recipe",
    "StepDone",
    "Stop",
    "Sums",
    "Switch",
    "Trained",
    "Training",
    "answer_versions",
    "answers",
    "check",
    "faster_obstacle",
    "geometric",
    "kept_step",
    "stacked_dictionary",
    "stacking_obstacle",
    "sum_answers",
    "sum_prompts",
    "sums_itself",
    "train",
    "trains_apart",
    "versions",
    "warn_beyond_theory",
    "weights",
]
