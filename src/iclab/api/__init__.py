"""The Python interface: train many seeds in one call, compare models, run experiments, and look inside.

Everything goes the way the command line goes: cells of work, computed on all cores and kept in a store if one is given.
"""

from iclab.api.comparing import Comparison, compare
from iclab.api.running import experiments, run
from iclab.api.runs import Run, load
from iclab.api.training import train

__all__ = ["Comparison", "Run", "compare", "experiments", "load", "run", "train"]
