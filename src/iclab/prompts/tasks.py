"""Tasks: ordered pairs (a, b) of relevant patterns, where a means +1 and b means −1.

There are M1(M1 − 1) tasks. Training sees a subset; the papers ask whether the model then solves all of them.
Text forms, as on the command line: ``all``, ``ring:3``, ``unseen:ring:3``, ``0-1,1-2,2-0``; in Python also a list of
pairs, ``[(0, 1), (1, 2), (2, 0)]``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_serializer

from iclab.config import Config

Pair = tuple[int, int]


class _Tasks(Config):
    """A set of tasks, stored in its text form."""

    def __str__(self) -> str:
        raise NotImplementedError

    @model_serializer
    def _as_text(self) -> str:
        return str(self)


@cache  # many prompts ask
def _all_pairs(relevant: int) -> tuple[Pair, ...]:
    return tuple((a, b) for a in range(relevant) for b in range(relevant) if a != b)


@cache
def _ring(relevant: int, steps: int) -> tuple[Pair, ...]:
    return tuple(sorted((j, (j + k) % relevant) for j in range(relevant) for k in range(1, steps + 1)))


class AllPairs(_Tasks):
    """Every ordered pair of different relevant patterns."""

    kind: Literal["all"] = "all"

    def __str__(self) -> str:
        return "all"

    def pairs(self, relevant: int) -> tuple[Pair, ...]:
        """Return the tasks among ``relevant`` patterns, sorted."""
        return _all_pairs(relevant)


class Ring(_Tasks):
    """The U·M1 tasks (j, j + k mod M1) for k = 1 … U (T §5). U = 1 is the construction of M App. C."""

    kind: Literal["ring"] = "ring"
    steps: Annotated[int, Field(ge=1)] = 1
    """U, the number of steps round the ring."""

    def __str__(self) -> str:
        return f"ring:{self.steps}"

    def pairs(self, relevant: int) -> tuple[Pair, ...]:
        """Return the tasks among ``relevant`` patterns, sorted."""
        if self.steps >= relevant:
            raise ValueError(f"tasks.steps = {self.steps}: must be below relevant = {relevant}")
        return _ring(relevant, self.steps)


class Listed(_Tasks):
    """Tasks listed by the user."""

    kind: Literal["listed"] = "listed"
    listed: Annotated[tuple[Pair, ...], Field(min_length=1)]

    @field_validator("listed")
    @classmethod
    def _in_order(cls, pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(sorted(set(pairs)))

    def __str__(self) -> str:
        return ",".join(f"{a}-{b}" for a, b in self.listed)

    def pairs(self, relevant: int) -> tuple[Pair, ...]:
        """Check that all patterns exist and return the tasks, sorted."""
        for pair in self.listed:
            if pair[0] == pair[1] or not all(0 <= pattern < relevant for pattern in pair):
                raise ValueError(
                    f"tasks = {pair[0]}-{pair[1]}: must name two different relevant patterns, 0 to {relevant - 1}"
                )
        return self.listed


class Unseen(_Tasks):
    """All tasks that are not in another set, usually the training tasks."""

    kind: Literal["unseen"] = "unseen"
    seen: Seen

    def __str__(self) -> str:
        return f"unseen:{self.seen}"

    def pairs(self, relevant: int) -> tuple[Pair, ...]:
        """Return the tasks among ``relevant`` patterns, sorted."""
        seen = set(self.seen.pairs(relevant))
        rest = tuple(pair for pair in AllPairs().pairs(relevant) if pair not in seen)
        if not rest:
            raise ValueError("tasks = unseen: no task is left, training has them all")
        return rest


def _parse(value: Any) -> Any:
    if isinstance(value, (_Tasks, dict)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)) and value:
        value = ",".join("-".join(map(str, pair)) if isinstance(pair, (list, tuple)) else str(pair) for pair in value)
    if not isinstance(value, str):
        value = ""
    name, _, rest = value.partition(":")
    if value == "all":
        return {"kind": "all"}
    if name == "unseen" and rest:
        return {"kind": "unseen", "seen": _parse(rest)}
    if name == "ring" and re.fullmatch("[0-9]*", rest):
        return {"kind": "ring", "steps": int(rest or 1)}
    try:
        return {"kind": "listed", "listed": [(int(a), int(b)) for a, b in (p.split("-") for p in value.split(","))]}
    except ValueError:
        raise ValueError("must be 'all', 'ring:U', 'unseen:…' or pairs such as '0-1,1-2,2-0'") from None


Seen = Annotated[AllPairs | Ring | Listed, Field(discriminator="kind"), BeforeValidator(_parse)]
TaskSet = Annotated[AllPairs | Ring | Listed | Unseen, Field(discriminator="kind"), BeforeValidator(_parse)]


def meets_condition_1(pairs: tuple[Pair, ...], relevant: int) -> bool:
    """Check M's Condition 1 (T's 3.2): every pattern means +1 in exactly |tasks| / M1 ≥ 1 tasks, and −1 in as many."""
    share, rest = divmod(len(pairs), relevant)
    if rest or not share:
        return False
    return all(sum(pair[side] == pattern for pair in pairs) == share for pattern in range(relevant) for side in (0, 1))
