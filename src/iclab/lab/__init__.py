"""The lab: cells of work, the store that keeps them, and the executor that runs what is missing."""

from iclab.lab.cells import GROUP, MeasurementCell, TrainingCell, groups
from iclab.lab.executor import Plan, run
from iclab.lab.store import Store

__all__ = ["GROUP", "MeasurementCell", "Plan", "Store", "TrainingCell", "groups", "run"]
