"""Probes: error, hinge loss, attention, gates, alignment and neurons of trained models, pruned or whole."""

from iclab.probes.probe import Probe, Row
from iclab.probes.probes import PROBES, measure, measuring_obstacle, versions
from iclab.probes.pruning import LARGE, Pruning
from iclab.probes.statistics import Interval, Proportion, over_seeds, paired, wilson

__all__ = [
    "LARGE",
    "PROBES",
    "Interval",
    "Probe",
    "Proportion",
    "Pruning",
    "Row",
    "measure",
    "measuring_obstacle",
    "over_seeds",
    "paired",
    "versions",
    "wilson",
]
