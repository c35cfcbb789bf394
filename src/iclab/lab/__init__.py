"""The lab: cells of work, the store that keeps them, and the executor that runs what is missing."""

from iclab.lab.cells import MeasurementCell, TrainingCell
from iclab.lab.executors.local import Plan, run
from iclab.lab.store import Store

__all__ = ["MeasurementCell", "Plan", "Store", "TrainingCell", "run"]
