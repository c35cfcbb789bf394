"""Experiments: one file a figure or table, with its cells, its drawing and its claims."""

from iclab.experiments.experiment import Condition, Experiment, experiments, find
from iclab.experiments.provenance import Settings

__all__ = ["Condition", "Experiment", "Settings", "experiments", "find"]
