"""Settings of phase-diagram: strengths of outliers in training and test, fractions and lengths."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import RESTORED, MambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different, Disclosed

Scale = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Length = Annotated[int, Field(ge=1)]


class PhaseSettings(MambaPaper):
    """Settings of phase-diagram."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    outlier_fraction: Annotated[Fraction, Chosen("α of the maps over strengths: below 1/2, inside both theorems")] = 0.4
    smallest_sum: Annotated[float, Disclosed("L, the smallest Σλ of M §4")] = 0.3
    train_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a, each needs trainings", grid=True)] = (
        *(0.0, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    )
    mamba_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a' for Mamba", grid=True)] = (
        *(0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
    )
    linear_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a' for the linear model", grid=True)] = (
        *(0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
    )
    slow_step_size: Annotated[
        float, Field(gt=0), Chosen("η of a second training of Mamba where κ_a is large: a tenth of the usual")
    ] = 0.1
    slow_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a of that training", grid=True)] = (5.0, 10.0, 20.0)
    slow_test_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a' of its test", grid=True)] = (
        *(20.0, 50.0, 100.0, 200.0),
    )
    fractions: Annotated[tuple[Fraction, ...], Different, Chosen("α of the maps over lengths", grid=True)] = (
        *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    )
    lengths: Annotated[tuple[Length, ...], Different, Chosen("l_ts of these maps", grid=True)] = (
        *(5, 10, 20, 40, 80, 160, 320),
    )
    length_scale: Annotated[float, Field(gt=0), Chosen("κ_a' of these maps: κ_a/L for the paper's κ_a = 2")] = RESTORED
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and cell of a map", grid=True)] = 2_000

    instead = {"train_outlier_scale": "train_scales", "test_outlier_scale": "mamba_scales", "counting": "fractions"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, coarser maps, fewer prompts."""
        coarse = {
            "train_scales": (0.0, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0),
            "mamba_scales": (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 2.0, 5.0, 20.0, 200.0),
            "linear_scales": (0.0, 2.0, 5.0, 20.0, 50.0, 200.0),
            "fractions": (0.1, 0.3, 0.5, 0.7, 0.8),
            "lengths": (5, 20, 80, 320),
        }
        fewer = {
            name: tuple(value for value in getattr(self, name) if value in kept) or getattr(self, name)
            for name, kept in coarse.items()
        }
        return super().quick().replace(test_prompts=min(self.test_prompts, 500), **fewer)

    @property
    def usual_scale(self) -> float:
        """κ_a of the maps over lengths: the paper's."""
        return self.train_outlier_scale

    def training(self, name: str, scale: float, step_size: float | None = None) -> Training:
        """Return the training of a model with outliers of a strength."""
        sizes = self.step_sizes if step_size is None else self.step_sizes | {name: step_size}
        own = self.as_kind(MambaPaper, train_outlier_scale=scale, step_sizes=sizes)
        prompts = own.train_prompts(self.train_outlier_fraction)
        return Training(model=own.model(name), prompts=prompts, recipe=own.recipe(name), engine=self.engine)

    def prompts(self, scale: float, fraction: float, length: int) -> Prompts:
        """Return test prompts; the worst case does not depend on the labels they are drawn with."""
        own = self.as_kind(MambaPaper, test_outlier_scale=scale, context_length=length)
        return own.test_prompts_with(labels="flip", fraction=fraction)

    @property
    def printed(self) -> float:
        """V β⁻⁴, the least κ_a of Theorem 1 (ii)."""
        return self.outlier * self.pattern_norm**-4

    @property
    def learnt(self) -> float:
        """The κ_a at which both sides of iclab's (C) are equal: p_a κ_a² ‖v*‖² M1 = V β²."""
        ratio = self.outlier / (self.train_outlier_fraction * self.relevant)
        return self.pattern_norm / self.outlier_norm * math.sqrt(ratio)
