"""Prompts in compact form: patterns, tasks, outliers, and pure functions that draw them."""

from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream
from iclab.prompts.distribution import INSTEAD, VERSION, Prompts
from iclab.prompts.outliers import PAPER_MIXTURES, Examples, Mixture, Outliers
from iclab.prompts.patterns import Basis, Patterns
from iclab.prompts.tables import Table, cache_folder
from iclab.prompts.tasks import AllPairs, Listed, Ring, TaskSet, Unseen, meets_condition_1

__all__ = [
    "INSTEAD",
    "PAPER_MIXTURES",
    "VERSION",
    "AllPairs",
    "Basis",
    "Examples",
    "Listed",
    "Mixture",
    "Outliers",
    "Patterns",
    "PromptBatch",
    "Prompts",
    "Ring",
    "Stream",
    "Table",
    "TaskSet",
    "Unseen",
    "cache_folder",
    "meets_condition_1",
]
