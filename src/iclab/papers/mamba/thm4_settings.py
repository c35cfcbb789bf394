"""Settings of M-thm4: prompt lengths by α, label rules beyond 1/2, strengths by batch size."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import MambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different, Disclosed
from iclab.theory.votes import vote_length

Below = Annotated[float, Field(gt=0, lt=0.5)]
Length = Annotated[int, Field(ge=1)]

EXPECTED = 0.9
"""ρ of the vote whose length the measured lengths are laid round; the model's own is measured."""


@cache
def lengths_round(fraction: float, error: float) -> tuple[int, ...]:
    """Return nine lengths, a factor √2 each, round the one that a vote needs at this α."""
    middle = vote_length(fraction, error, EXPECTED)
    return tuple(sorted({max(1, round(middle * 2 ** (k / 2))) for k in range(-5, 4)}))


class Thm4Settings(MambaPaper):
    """Settings of M-thm4."""

    train_outlier_fraction: Annotated[float, Field(gt=0, lt=1), Disclosed("p_a, M §4.1")] = 0.6
    batch_size: Annotated[
        int,
        Field(ge=1),
        Chosen(
            "B of the law of lengths. Theorem 3 (i) asks for B ≥ ε⁻² log ε⁻¹, 46,000 at ε = 0.01. With the 128 of the "
            "figures the noise in W_BᵀW_C, which the worst labels find, moves the majority: see M-thm4.batch"
        ),
    ] = 1024
    few: Annotated[int, Field(ge=1), Chosen("B of the figures, to compare with")] = 128
    fractions: Annotated[
        tuple[Below, ...],
        Different,
        Chosen("α; the power law is fitted over α ≥ 0.3, the factor over α ≤ 0.3", grid=True),
    ] = (0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.47)
    levels: Annotated[tuple[Below, ...], Different, Chosen("ε, the errors that prompts must be long enough for")] = (
        0.05,
        0.01,
    )
    mamba_fractions: Annotated[tuple[Below, ...], Different, Chosen("α of P2, §3.1, 'close to 1/2'")] = (0.3, 0.4, 0.45)
    mamba_lengths: Annotated[tuple[Length, ...], Different, Chosen("l_ts at which Mamba is tested", grid=True)] = (
        *(1, 2, 3, 4, 5, 6, 8, 10, 12, 16),
    )
    long_lengths: Annotated[
        tuple[Length, ...], Different, Chosen("l_ts at the largest α, with few prompts per batch", grid=True)
    ] = (256, 512, 1024, 2048, 4096)
    beyond: Annotated[tuple[float, ...], Different, Chosen("α above 1/2", grid=True)] = (0.55, 0.6, 0.7)
    beyond_lengths: Annotated[tuple[Length, ...], Different, Chosen("l_ts above 1/2", grid=True)] = (10, 40, 160, 640)
    batch_sizes: Annotated[tuple[int, ...], Different, Chosen("B of the sweep of κ_a': a factor of 64", grid=True)] = (
        *(16, 32, 64, 128, 256, 1024),
    )
    strengths: Annotated[tuple[float, ...], Different, Chosen("κ_a' of that sweep", grid=True)] = (
        *(2.0, 4.0, 6.0, 9.0, 14.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0, 220.0, 320.0),
    )
    strength_fraction: Annotated[Below, Chosen("α of that sweep: the error is 0 unless κ_a' is large")] = 0.2
    strength_length: Annotated[Length, Chosen("l_ts of that sweep")] = 80
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition; prompts are long", grid=True)] = 4_000

    instead = {"test_outliers": "strengths", "counting": "fractions"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts and strengths."""
        coarse = (4.0, 9.0, 20.0, 45.0, 100.0, 220.0)
        fewer = tuple(strength for strength in self.strengths if strength in coarse) or self.strengths
        return super().quick().replace(test_prompts=min(self.test_prompts, 600), strengths=fewer)

    def training(self, name: str, batch_size: int) -> Training:
        """Return the training of a model with so many prompts per batch."""
        own = self.as_kind(MambaPaper, batch_size=batch_size)
        prompts = own.train_prompts(self.train_outlier_fraction)
        return Training(model=own.model(name), prompts=prompts, recipe=own.recipe(name), engine=self.engine)

    def prompts(self, **changes: Any) -> Prompts:
        """Return test prompts; ``length``, ``strength``, ``fraction`` and ``labels`` may differ from the usual."""
        length, strength = changes["length"], changes["strength"]
        own = self.as_kind(MambaPaper, context_length=length, test_outlier_scale=strength)
        return own.test_prompts_with(labels=changes["labels"], fraction=changes["fraction"])

    def lengths(self, fraction: float) -> tuple[int, ...]:
        """Return the lengths at which the linear model is tested."""
        return lengths_round(fraction, min(self.levels))

    @property
    def near_half(self) -> list[float]:
        """The α of the power law."""
        return [fraction for fraction in self.fractions if fraction >= 0.3]

    @property
    def small(self) -> list[float]:
        """The α at which the factor α of (15) would show."""
        return [fraction for fraction in self.fractions if fraction <= 0.3]
