"""Probes: error, hinge loss, attention mass and gate profile of trained models, with their uncertainty."""

from iclab.probes.probes import PROBES, VERSION, Row, measure
from iclab.probes.statistics import Interval, Proportion, over_seeds, paired, wilson

__all__ = ["PROBES", "VERSION", "Interval", "Proportion", "Row", "measure", "over_seeds", "paired", "wilson"]
