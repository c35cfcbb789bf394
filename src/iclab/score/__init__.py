"""The scorecard: any model on one fixed, versioned suite, beside the built-in families (docs/score.md).

card = iclab.score(Mine, quick=True)
card["flip/0.4"].mean
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from iclab.score.card import Card
from iclab.score.scoring import score
from iclab.score.suite import VERSION, Suite, suite

__all__ = ["VERSION", "Card", "Suite", "score", "suite"]


class _Callable(ModuleType):
    """The module is also the function: ``iclab.score(Mine)`` and ``iclab.score.suite`` both work."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Card:
        return score(*arguments, **keywords)


sys.modules[__name__].__class__ = _Callable
