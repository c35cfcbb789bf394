"""The conditions of the theorems at a setting, as a table: left side, right side, and the slack between them.

Theorems give sufficient conditions. One that is not met says that the theorem is silent, not that the model fails.
Where a paper states a condition up to a constant, the constant is 1 and the table says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from iclab.theory.check import Check
from iclab.theory.mamba_conditions import MAMBA, OF_MODEL
from iclab.theory.setting import MambaSetting, Setting
from iclab.theory.statements import STATEMENTS, required
from iclab.theory.transformer_conditions import TRANSFORMER

_ORDER = {statement.id: place for place, statement in enumerate(STATEMENTS)}


def conditions(setting: Setting) -> list[Check]:
    """Return every condition that concerns a setting, in the papers' order.

    Example:
        >>> from iclab.theory.setting import MambaSetting
        >>> {check.id: check for check in conditions(MambaSetting(test_outlier_scale=6.0))}["M-thm2 (b) restored"].holds
        False
    """
    if isinstance(setting, MambaSetting):
        others = {id_ for model, ids in OF_MODEL.items() if model != setting.model for id_ in ids}
        found = [rule(setting) for rule in MAMBA if rule.theorem not in others]
    else:
        found = [rule(setting) for rule in TRANSFORMER]
    return sorted(found, key=lambda check: _ORDER[check.theorem])


def missed(statement: str, checks: Sequence[Check]) -> list[Check]:
    """Return the conditions that a statement rests on and that are not met."""
    needed = required(statement)
    return [check for check in checks if check.id in needed and not check.holds]
