"""Settings of M-cor1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.papers.mamba.late import LateSettings, Multiples
from iclab.papers.mamba.lemmas import Counts, Fraction, Values
from iclab.papers.mamba.settings import RESTORED
from iclab.prompts import Prompts
from iclab.prompts.tasks import AllPairs, Listed, Ring, TaskSet
from iclab.study.settings import Chosen

Pairs = Literal["met", "never met"]


class AttentionSettings(LateSettings):
    """Trainings over M1 with all tasks, and one whose tasks form a ring."""

    multiples: Annotated[Multiples, Chosen("kept steps in units of T_M", grid=True)] = (1, 2, 4)
    test_fractions: Annotated[Values, Chosen("α of the test prompts", grid=True)] = (0.0, 0.3, 0.6)
    test_scale: Annotated[float, Field(gt=0), Chosen("κ_a' = κ_a/L for the weakest of the paper's mixtures")] = RESTORED
    ring: Annotated[TaskSet, Chosen("a task graph that meets Condition 1 and is not complete")] = Ring(steps=1)

    batches: Annotated[Counts, Chosen("B of the sweep over batches: a factor of 256", grid=True)] = (
        *(8, 32, 128, 512, 2048),
    )
    fractions: Annotated[
        tuple[Fraction, ...],
        Field(min_length=1),
        Chosen("p_a of the sweep over the share of clean examples, 1 to 1/8", grid=True),
    ] = (0.0, 0.3, 0.5, 0.75, 0.875)

    def tested(self, pairs: Pairs, alpha: float) -> Prompts:
        """Return test prompts over tasks whose patterns met in training, or are two tasks apart and never met."""
        distances = self.theory.graph.distances
        wanted = 1 if pairs == "met" else 2
        chosen = [(a, b) for a, b in AllPairs().pairs(self.relevant) if distances[a, b] == wanted]
        more: dict[str, Any] = {"fraction": alpha, "scale": self.test_scale, "patterns": "paper"} if alpha else {}
        prompts = self.prompts(**({"fraction": 0.0} | more))
        return prompts.replace(tasks=AllPairs() if self.theory.graph.complete else Listed(listed=tuple(chosen)))
