"""What an experiment is: its settings and where they come from, its cells, its claims, and what was found."""

from iclab.study.charts import Axis, Figure, Panel, Series, series_of
from iclab.study.claims import Claim, Direction, every_above, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.recipes import RecipeSettings
from iclab.study.rows import error_points, errors, paired_points, proportion
from iclab.study.settings import Chosen, Disclosed, Settings

__all__ = [
    "Axis",
    "Chosen",
    "Claim",
    "Condition",
    "Direction",
    "Disclosed",
    "Experiment",
    "Figure",
    "Panel",
    "RecipeSettings",
    "Series",
    "Settings",
    "error_points",
    "errors",
    "every_above",
    "every_below",
    "every_within",
    "in_groups",
    "judged",
    "paired_points",
    "proportion",
    "series_of",
]
