"""A condition of a theorem, checked at a setting: its two sides, and by which factor it holds or fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

Relation = Literal["≥", "≤", ">", "<", "≈"]
WITHIN = 2.0
"""How β = Θ(x) is read: β lies within this factor of x."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Check:
    """One condition at one setting.

    Example:
        >>> check = Check("M-thm4", "(c)", "α < 1/2", 0.4, "<", 0.5)
        >>> check.holds, check.slack
        (True, 1.25)
    """

    theorem: str
    """The id of the statement it belongs to."""
    name: str
    """Its name there, such as ``(ii) lower``."""
    formula: str
    """The condition with the paper's letters."""
    left: float
    relation: Relation
    right: float
    """Infinite if nothing suffices (≥), or anything does (≤)."""
    constant: float | None = None
    """The constant taken where the paper has Θ, Ω or ≳; None where the condition is exact."""
    remark: str = ""

    @property
    def id(self) -> str:
        """How statements refer to it: ``M-thm1 (ii) lower``."""
        return f"{self.theorem} {self.name}"

    @property
    def holds(self) -> bool:
        """Whether the condition is met, up to rounding."""
        room = _ROUNDING * max(abs(self.right), 1.0) if math.isfinite(self.right) else 0.0
        if self.relation == "≥":
            return self.left >= self.right - room
        if self.relation == "≤":
            return self.left <= self.right + room
        if self.relation == ">":
            return self.left > self.right + room
        if self.relation == "<":
            return self.left < self.right - room
        return self.slack >= 1

    @property
    def slack(self) -> float:
        """By which factor it is met (above 1) or missed (below 1); NaN if a side is 0 or negative."""
        if min(self.left, self.right) < 0 or self.left == self.right == 0:
            return math.nan
        if self.relation in ("≥", ">"):
            return _ratio(self.left, self.right)
        if self.relation in ("≤", "<"):
            return _ratio(self.right, self.left)
        return WITHIN * min(_ratio(self.left, self.right), _ratio(self.right, self.left))

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data for JSON; numbers that are not finite become None."""
        names = ("theorem", "name", "formula", "left", "relation", "right", "constant", "remark", "holds", "slack")
        return {"id": self.id} | {name: finite(getattr(self, name)) for name in names}


def finite(value: Any) -> Any:
    """Return a value, or None for a float that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.inf


class Sides(NamedTuple):
    """The two sides of a condition at a setting."""

    left: float
    right: float
    remark: str = ""


S_contra = TypeVar("S_contra", contravariant=True)


@dataclass(frozen=True)
class Rule(Generic[S_contra]):
    """A condition of a theorem as a function of the setting."""

    theorem: str
    name: str
    formula: str
    relation: Relation
    constant: float | None
    sides: Callable[[S_contra], Sides]

    def __call__(self, setting: S_contra) -> Check:
        """Check it at a setting."""
        left, right, remark = self.sides(setting)
        return Check(
            self.theorem, self.name, self.formula, float(left), self.relation, float(right), self.constant, remark
        )


class Rules(list[Rule[S_contra]]):
    """The conditions of a paper, in its order; used as a decorator of functions that return `Sides`."""

    def add(
        self, theorem: str, name: str, formula: str, relation: Relation, *, order: bool = False
    ) -> Callable[[Callable[[S_contra], Sides]], Callable[[S_contra], Sides]]:
        """Add a condition; ``order`` says that the paper states it up to a constant, for which 1 is taken."""

        def added(sides: Callable[[S_contra], Sides]) -> Callable[[S_contra], Sides]:
            constant = (WITHIN if relation == "≈" else 1.0) if order else None
            self.append(Rule(theorem, name, formula, relation, constant, sides))
            return sides

        return added


def over(above: float, below: float) -> float:
    """Return above / below, infinite if below is 0.

    >>> over(3.0, 0.0)
    inf
    """
    return above / below if below else math.inf


def power(base: float, exponent: float) -> float:
    """Return base^exponent, infinite where it is too large for a float.

    >>> power(6.0, 1e4)
    inf
    """
    try:
        return base**exponent
    except OverflowError:
        return math.inf
