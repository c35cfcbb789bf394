"""Probes: error, hinge loss, attention, gates, alignment and neurons of trained models, pruned or whole."""

from iclab.probes.answers import Row
from iclab.probes.probes import PROBES, VERSION, measure, unmeasurable
from iclab.probes.pruning import LARGE, Pruning
from iclab.probes.statistics import Interval, Proportion, over_seeds, paired, wilson

__all__ = [
    "LARGE",
    "PROBES",
    "VERSION",
    "Interval",
    "Proportion",
    "Pruning",
    "Row",
    "measure",
    "over_seeds",
    "paired",
    "unmeasurable",
    "wilson",
]
