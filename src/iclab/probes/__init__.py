"""Probes: error, hinge loss, attention, gates, alignment and neurons of trained models, pruned or whole."""

from iclab.probes.probe import Probe, Row
from iclab.probes.probes import PROBES, measure, measuring_obstacle, prompts_obstacle, versions
from iclab.probes.pruning import LARGE, Pruning
from iclab.probes.statistics import (
    CONFIDENCE,
    Interval,
    Proportion,
    at_confidence,
    current_confidence,
    over_seeds,
    paired,
    wilson,
)

__all__ = [
    "CONFIDENCE",
    "LARGE",
    "PROBES",
    "Interval",
    "Probe",
    "Proportion",
    "Pruning",
    "Row",
    "at_confidence",
    "current_confidence",
    "measure",
    "measuring_obstacle",
    "over_seeds",
    "paired",
    "prompts_obstacle",
    "versions",
    "wilson",
]
