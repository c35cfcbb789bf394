"""What T-fig3 trains and tests, and the columns that name its rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from iclab.papers.nonlinear.settings import LARGEST_SUM, GPT2Paper
from iclab.prompts.tasks import Ring, TaskSet
from iclab.study.settings import Chosen, Different

DOMAINS = {"in": "in domain, unseen tasks", "out": "out of domain"}
SMALL = 0.01
"""The paper: the error out of domain is "< 0.01 when S1 ≥ 1 and deviates from 0 when S1 < 1"."""


class ShiftSettings(GPT2Paper):
    """Settings of T-fig3."""

    models: Annotated[
        tuple[Literal["softmax-mlp", "gpt2"], ...],
        Field(min_length=1),
        Different,
        Chosen("the paper's figure shows GPT-2; its theorem is about the other", grid=True),
    ] = ("softmax-mlp", "gpt2")
    sums: Annotated[
        tuple[Annotated[float, Field(ge=-LARGEST_SUM, le=LARGEST_SUM)], ...],
        Field(min_length=1),
        Different,
        Chosen("S1 = a + b, from the smallest possible to the largest, 1.28", grid=True),
    ] = (-1.28, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.15, 1.28)
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("α', T Figure 3 b", grid=True),
    ] = (0.4, 0.6, 0.8)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different, Chosen("l_ts, T Figure 3 b", grid=True)
    ] = (2, 5, 10, 20, 40)
    more_tasks: Annotated[
        tuple[TaskSet, ...],
        Different,
        Chosen("other training tasks for the one-layer model, besides the paper's U = 1", grid=True),
    ] = (Ring(steps=2),)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and point", grid=True)] = 4_000

    def quick(self) -> Self:
        """Return the quick edition: fewer points and prompts; a sixteenth of GPT-2's training, without verdicts."""
        return (
            super()
            .quick()
            .replace(
                sums=tuple(s for s in self.sums if s in (-1.28, 0.0, 0.5, 1.0, 1.28)) or self.sums,
                lengths=tuple(n for n in self.lengths if n in (5, 20)) or self.lengths,
                test_fractions=tuple(sorted({min(self.test_fractions), max(self.test_fractions)})),
                test_prompts=min(self.test_prompts, 1_000),
                gpt2_steps=min(self.gpt2_steps, 100),
            )
        )


def more_tasks(settings: ShiftSettings) -> list[str]:
    """Return the names of the other training tasks, without the usual ones."""
    return [name for name in map(str, settings.more_tasks) if name != str(settings.train_tasks)]


def own_columns(settings: ShiftSettings, model: str) -> dict[str, Any]:
    """Return the columns of a model trained on the paper's tasks."""
    return {"model": model, "tasks": str(settings.training_of(model).prompts.tasks)}
