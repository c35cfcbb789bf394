"""What a statement of a paper is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["theorem", "corollary", "lemma", "proposition", "condition", "setting", "iclab", "other"]
UNTESTED: tuple[Kind, ...] = ("condition", "setting", "iclab")
"""Kinds that state a hypothesis, or a result of iclab's own, and so need no line of their own on the scoreboard."""


@dataclass(frozen=True)
class Statement:
    """A statement of a paper."""

    id: str
    where: str
    words: str
    """What it says, in one or two sentences."""
    kind: Kind = "other"
    equations: str = ""
    """The equation numbers."""
    hypotheses: tuple[str, ...] = ()
    """What it requires: ids of conditions, such as ``M-thm1 (i)``, or of statements, for all conditions of those."""
    law: str = ""
    """The predicted law, with the paper's letters."""

    @property
    def paper(self) -> str:
        """The letter of its paper."""
        return self.id.partition("-")[0]

    @property
    def to_test(self) -> bool:
        """Whether it belongs on the scoreboard."""
        return self.kind not in UNTESTED


def conditions_of(theorem: str, *names: str) -> tuple[str, ...]:
    """Return ids of conditions, such as ``M-thm1 (i)``."""
    return tuple(f"{theorem} {name}" for name in names)
