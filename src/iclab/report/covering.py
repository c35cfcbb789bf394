"""Which conditions of the theorems an experiment meets, over all the settings that it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from iclab.study.experiment import Condition
from iclab.study.predicting import EPSILON, Predicted, figure, settings_of
from iclab.theory.check import Check
from iclab.theory.predictions import Prediction
from iclab.theory.statements import BY_ID


@dataclass(frozen=True)
class ConditionLine:
    """A condition of a theorem at all settings of an experiment, as text."""

    statement: str
    where: str
    name: str
    formula: str
    constant: str
    """The constant taken, or nothing if the condition is exact."""
    met: int
    """At how many settings it is met."""
    settings: int
    """At how many settings it was checked."""
    left: str
    right: str
    slack: str
    """From the lowest to the highest."""
    remark: str
    """Of the setting with the lowest slack."""

    @property
    def label(self) -> str:
        """Its name, where the formula does not begin with it."""
        return "" if self.formula.startswith(self.name) else self.name

    @property
    def verdict(self) -> str:
        """Whether the settings meet it."""
        if self.met == self.settings:
            return "met"
        return "not met" if not self.met else f"met at {self.met} of {self.settings}"


@dataclass(frozen=True)
class PredictionLine:
    """A prediction at all settings of an experiment, as text."""

    words: str
    formula: str
    value: str
    remark: str


@dataclass(frozen=True)
class Covering:
    """What the theorems say about an experiment."""

    settings: int
    """The number of different settings, as the theorems see them."""
    conditions: tuple[ConditionLine, ...]
    predictions: tuple[PredictionLine, ...]

    @classmethod
    def read(cls, data: dict[str, Any]) -> Covering:
        """Return what `dataclasses.asdict` made plain data of."""
        conditions = tuple(ConditionLine(**line) for line in data["conditions"])
        return cls(data["settings"], conditions, tuple(PredictionLine(**line) for line in data["predictions"]))

    @property
    def epsilon(self) -> float:
        """The ε at which conditions were checked."""
        return EPSILON

    @property
    def groups(self) -> dict[str, list[ConditionLine]]:
        """The conditions by where they are stated, in the papers' order."""
        found: dict[str, list[ConditionLine]] = {}
        for line in self.conditions:
            found.setdefault(line.where, []).append(line)
        return found

    @property
    def summary(self) -> str:
        """One line for the fold."""
        total, short = len(self.conditions), sum(line.met < line.settings for line in self.conditions)
        settings = "its setting" if self.settings == 1 else f"its {self.settings} settings"
        return f"{total - short} of {total} conditions are met at {'' if self.settings == 1 else 'all '}{settings}"


def covering_of(listed: Iterable[Condition], paper: str) -> Covering | None:
    """Return what the theorems of a paper say about an experiment; of all papers if it belongs to none.

    None if no theorem is about any of its models.
    """
    found = [Predicted(setting) for setting in settings_of(listed)]
    several = len({getattr(predicted.setting, "model", "") for predicted in found}) > 1
    checks: dict[str, list[Check]] = {}
    values: dict[tuple[str, str, str], list[Prediction]] = {}
    for predicted in found:
        for check in predicted.conditions:
            if paper in ("", BY_ID[check.theorem].paper):
                checks.setdefault(check.id, []).append(check)
        for prediction in predicted.predictions:
            letter = prediction.id.partition(".")[0]
            if several and prediction.id.startswith("steps.other"):  # the experiment trains the other model itself
                continue
            if len(letter) > 1 or paper in ("", letter):
                key = (prediction.id, prediction.words, prediction.formula)
                values.setdefault(key, []).append(prediction)
    if not checks:
        return None
    order = {id_: place for place, id_ in enumerate(BY_ID)}
    lines = sorted(map(_condition_line, checks.values()), key=lambda line: order[line.statement])
    return Covering(len(found), tuple(lines), tuple(map(_prediction_line, values.values())))


def _condition_line(checks: list[Check]) -> ConditionLine:
    first = checks[0]
    worst = min(checks, key=lambda check: (check.holds, check.slack if math.isfinite(check.slack) else math.inf))
    return ConditionLine(
        statement=first.theorem,
        where=BY_ID[first.theorem].where,
        name=first.name,
        formula=first.formula,
        constant="" if first.constant is None else f"{first.constant:g}",
        met=sum(check.holds for check in checks),
        settings=len(checks),
        left=_range([check.left for check in checks]),
        right=_range([check.right for check in checks]),
        slack=_range([check.slack for check in checks]),
        remark=worst.remark,
    )


def _prediction_line(found: list[Prediction]) -> PredictionLine:
    remarks = {prediction.remark for prediction in found}
    value = _range([prediction.value for prediction in found])
    return PredictionLine(found[0].words, found[0].formula, value, remarks.pop() if len(remarks) == 1 else "")


def _range(values: list[float]) -> str:
    """Return the lowest and the highest number, or the only one.

    >>> _range([0.0, 0.9, 0.5]), _range([0.6, 0.6]), _range([math.nan])
    ('0 to 0.9', '0.6', '–')
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "–"
    low, high = figure(min(known)), figure(max(known))
    return low if low == high else f"{low} to {high}"
