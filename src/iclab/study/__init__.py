"""What an experiment is: its settings and where they come from, its cells, its claims, and what was found."""

from iclab.study.experiment import Condition, Experiment
from iclab.study.settings import Settings

__all__ = ["Condition", "Experiment", "Settings"]
