"""The lab: cells of work, the store that keeps them, and the run that computes what is missing."""

from iclab.lab.cells import MeasurementCell, TrainingCell
from iclab.lab.executors import LocalExecutor, RayExecutor
from iclab.lab.plan import Plan
from iclab.lab.runner import run
from iclab.lab.store import Store

__all__ = ["LocalExecutor", "MeasurementCell", "Plan", "RayExecutor", "Store", "TrainingCell", "run"]
