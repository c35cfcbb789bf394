"""Trained gates, shared by M-cor1, M-cor2, M-lem5 and M-lem6: trainings of several T_M over M1, κ_a and l.

T_M is twice the number of steps after which (E) puts E zF at 1/2 with the gate held at 1/2: the hinge loss is then
about 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.lemmas import Counts, LemmaSettings
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.claims import BySeed
from iclab.study.experiment import Condition, in_groups
from iclab.study.rows import lost, values
from iclab.study.settings import Chosen
from iclab.theory.meanfield import Curve

Multiples = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class LateSettings(LemmaSettings):
    """Longer trainings, at a larger step size."""

    context_length: Annotated[int, Field(ge=1), Chosen("l_tr of the base setting")] = 20
    step_size: Annotated[float, Chosen("η: T_M is 150 steps at the base setting; η T_M is the same at 0.02")] = 0.1
    batch_size: Annotated[int, Field(ge=1), Chosen("B; noise of the gate is below the differences between seeds")] = 128
    relevants: Annotated[Counts, Chosen("M1: a factor of 8", grid=True)] = (4, 6, 8, 16, 32)
    multiples: Annotated[Multiples, Chosen("kept steps in units of T_M", grid=True)] = (1, 2, 4, 8, 16)

    def usual(self, last: int) -> Training:
        """Return a training as in the paper, kept at every multiple of T_M up to the last."""
        kept = [self.trained_after(times) for times in self.multiples if times <= last]
        return self.training(self.trained_after(last), kept=kept, gate_scale=1.0)

    def step(self, times: int, last: int) -> int:
        """Return the kept step of a multiple of T_M."""
        end = max(1, round(min(self.trained_after(last), self.steps)))
        return max(1, min(end, round(self.trained_after(times))))

    def mean_field(self, times: float, points: int = 24) -> Curve:
        """Return the mean field (F) up to a multiple of T_M."""
        return self.field(self.trained_after(times), points)


def at_multiples(
    settings: LateSettings,
    own: LateSettings,
    where: dict[str, Any],
    last: int,
    prompts: Prompts | None = None,
    **how: Any,
) -> list[Condition]:
    """Return measurements of one training at every multiple of T_M up to the last."""
    training, found = own.usual(last), []
    for times in (times for times in settings.multiples if times <= last):
        columns = where | {"times": times}
        at = own.step(times, last)
        found += in_groups(settings, columns, training, prompts=prompts or training.prompts, at=at, **how)
    return found


def logit(rows: Sequence[Row], kind: str, quantity: str, column: str, **where: Any) -> BySeed:
    """Return a number of the probe ``logits`` by seed."""
    return lost(rows, **where) | values(rows, column, **where, kind=kind, quantity=quantity)


@lru_cache(maxsize=64)
def _predicted(own: LateSettings, last: int) -> Curve:
    return own.mean_field(last)


def predicted_gate(own: LateSettings, times: float, last: int) -> tuple[float, float]:
    """Return the clean and the outlier logit of the mean field (F) at a multiple of T_M."""
    curve = _predicted(own, last)
    clean, outlier = (
        float(np.interp(own.trained_after(times), curve.steps, curve.numbers[:, place])) for place in (2, 3)
    )
    return own.pattern_norm * clean, own.pattern_norm * clean + own.strength * outlier
