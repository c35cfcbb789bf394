"""Settings of M-review: what each check of the review varies."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from iclab.beyond.phase_settings import PhaseSettings
from iclab.engines import Training
from iclab.papers.mamba.settings import RESTORED, DeepMambaPaper, MambaPaper
from iclab.prompts import Mixture, Patterns, Prompts
from iclab.study.settings import Chosen, Different, Disclosed

Fraction = Annotated[float, Field(gt=0, lt=1)]
Scale = Annotated[float, Field(ge=0)]
Whole = Annotated[int, Field(ge=1)]

StreamName = Literal["full", "label-only"]
STREAMS: dict[StreamName, dict[str, Any]] = {"full": {}, "label-only": {"stream": "label", "norm": "none"}}
"""What layers write in the check of depth: changes of the options of `deep-mamba` in M-tab1. With the label-only stream
and no norm, every layer is the one-layer model on labels that earlier layers have worked on."""


class ReviewSettings(MambaPaper):
    """Settings of M-review."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    smallest_sum: Annotated[float, Disclosed("L, the smallest Σλ of M §4")] = 0.3
    fractions: Annotated[
        tuple[Fraction, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "α of the checks of overlap, direction and length: below 1/2, where the linear model works too, and above"
        ),
    ] = (0.3, 0.6)
    coherences: Annotated[
        tuple[Annotated[float, Field(ge=0, lt=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("cosines between any two patterns, in training and tests alike", grid=True),
    ] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 0.95)
    dimensions: Annotated[
        tuple[Whole, ...],
        Field(min_length=1),
        Different,
        Chosen("d of random patterns: below and above their number, 19", grid=True),
    ] = (12, 16, 19, 24, 30, 60, 120)
    draws: Annotated[Whole, Chosen("random sets of patterns for each d, the same for all seeds", grid=True)] = 4
    depths: Annotated[tuple[Whole, ...], Field(min_length=1), Different, Chosen("layers of Mamba", grid=True)] = (
        *(1, 2, 3, 4),
    )
    streams: Annotated[
        tuple[StreamName, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "what layers write. full: all channels, with the norm of M-tab1; label-only: inputs pass unchanged, and "
            "without a norm each gate sees what it sees in one layer",
            grid=True,
        ),
    ] = tuple(STREAMS)
    deep_steps: Annotated[Whole, Chosen("T of several layers, as in M-tab1")] = 500
    deep_step_size: Annotated[
        float,
        Field(gt=0),
        Chosen(
            "η of the check of depth, for both streams and all depths, by the rule of M-hybrid: on its seeds, the loss "
            "at 0.2 is at most that at 0.1 in all eight cases, and no seed diverges at 0.5. M-tab1 takes 0.02, with "
            "which the drop at CQ is larger at every depth"
        ),
    ] = 0.2
    train_scales: Annotated[
        tuple[Scale, ...],
        Different,
        Chosen("κ_a: those of phase-diagram, and two below, to find the frontier", grid=True),
    ] = tuple(sorted({0.001, 0.003, *PhaseSettings.model_fields["train_scales"].default}))
    mamba_scales: Annotated[tuple[Scale, ...], Different, Chosen("κ_a' for Mamba, as in phase-diagram", grid=True)] = (
        PhaseSettings.model_fields["mamba_scales"].default
    )
    linear_scales: Annotated[
        tuple[Scale, ...], Different, Chosen("κ_a' for the linear model, as in phase-diagram", grid=True)
    ] = PhaseSettings.model_fields["linear_scales"].default
    cosines: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "between test outliers and one training outlier; the rest of them is orthogonal to all patterns", grid=True
        ),
    ] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
    lengths: Annotated[
        tuple[Whole, ...], Field(min_length=1), Different, Chosen("l_ts, from l/4 to 16 l", grid=True)
    ] = (5, 10, 20, 40, 80, 160, 320)
    outlier_count: Annotated[
        Whole, Chosen("outliers in prompts of every length, where their number is fixed: fits in the shortest")
    ] = 4
    few_steps: Annotated[Whole, Chosen("T of too short a training: below the 15 steps to a loss of 0.5")] = 5
    weak_scale: Annotated[float, Field(gt=0), Chosen("κ_a below V β⁻⁴ = 0.037")] = 0.01
    strong_scale: Annotated[
        float, Field(gt=0), Chosen("κ_a above V β (1 − p_a)/(p_a ε) = 600, the upper end of Theorem 1 (ii) at ε = 0.01")
    ] = 1_000.0
    long_length: Annotated[Whole, Chosen("l_ts of the signature of too many outliers: p_a l_tr/l_ts is 0.15")] = 80
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    instead = {"train_outlier_scale": "train_scales", "test_outlier_scale": "mamba_scales", "counting": "fractions"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer values and prompts."""
        phase = PhaseSettings().quick()
        coarse: dict[str, tuple[float, ...]] = {
            "train_scales": (0.003, 0.01, *phase.train_scales),
            "mamba_scales": phase.mamba_scales,
            "linear_scales": phase.linear_scales,
            "coherences": (0.0, 0.1, 0.3, 0.5, 0.6, 0.8, 0.95),
            "dimensions": (12, 16, 19, 30, 60),
            "cosines": (0.0, 0.1, 0.3, 0.5, 1.0),
            "lengths": (5, 20, 80, 320),
        }
        fewer = {
            name: tuple(value for value in getattr(self, name) if value in kept) or getattr(self, name)
            for name, kept in coarse.items()
        }
        return super().quick().replace(test_prompts=min(self.test_prompts, 500), draws=min(self.draws, 2), **fewer)

    # Trainings.

    def training(self, model: str, **changes: Any) -> Training:
        """Return the training of a one-layer model, with some settings changed."""
        own = self.as_kind(MambaPaper, **changes)
        prompts = own.train_prompts(self.train_outlier_fraction)
        return Training(model=own.model(model), prompts=prompts, recipe=own.recipe(model), engine=self.engine)

    def overlapping(self, model: str, patterns: Patterns) -> Training:
        """Return the training of a one-layer model on other patterns."""
        usual = self.training(model)
        return usual.replace(prompts=usual.prompts.replace(patterns=patterns))

    def deep(self, depth: int) -> DeepMambaPaper:
        """Return the settings of M-tab1 for a number of layers."""
        kept = {n: getattr(self, n) for n in MambaPaper.model_fields if n not in ("steps", "step_sizes")}
        return DeepMambaPaper(**kept, layers=depth, steps=self.deep_steps)

    def deep_training(self, depth: int, stream: StreamName) -> Training:
        """Return the training of so many layers of Mamba."""
        usual = self.deep(depth).training("deep-mamba")
        model = usual.model.replace(options=usual.model.options | STREAMS[stream])
        return usual.replace(model=model, recipe=usual.recipe.replace(step_size=self.deep_step_size, snapshots=()))

    def phase(self) -> PhaseSettings:
        """Return the settings of phase-diagram with these strengths, so that both share their cells."""
        own = ("train_outlier_fraction", "smallest_sum", "train_scales", "mamba_scales", "linear_scales")
        named = (*MambaPaper.model_fields, *own)
        return PhaseSettings(**{name: getattr(self, name) for name in named})

    # Prompts.

    def tests(self, scale: float = RESTORED, **outliers: Any) -> Prompts:
        """Return test prompts with the paper's unseen outliers, by default at the paper's κ_a/L."""
        return self.as_kind(MambaPaper, test_outlier_scale=scale).test_prompts_with(**{"labels": "flip"} | outliers)

    def turned(self, cosine: float, fraction: float) -> Prompts:
        """Return test prompts with outliers at an angle to one training outlier, the rest outside all patterns."""
        first = (cosine, *[0.0] * (self.outlier - 1))
        weights = [first[-i:] + first[:-i] for i in range(self.outlier)]
        outside = self.outlier_norm * float(np.sqrt(1 - cosine**2))
        mixtures = tuple(Mixture(weights=w, outside_norm=outside) for w in weights)
        usual = self.tests(fraction=fraction)
        return usual.replace(outliers=usual.outliers.replace(patterns=mixtures))

    def random_patterns(self, dimension: int, draw: int) -> Patterns:
        """Return patterns of random directions, linearly dependent if there are more of them than dimensions."""
        kinds = {"relevant": self.relevant, "irrelevant": self.irrelevant, "outlier": self.outlier}
        norms = (self.pattern_norm, self.outlier_norm)
        return Patterns(vectors=_random_rows(dimension, draw, *kinds.values(), *norms), **kinds)


@cache
def _random_rows(
    dimension: int, draw: int, relevant: int, irrelevant: int, outlier: int, norm: float, outlier_norm: float
) -> tuple[tuple[float, ...], ...]:
    """Draw vectors of random directions, the last ``outlier`` of them with a norm of their own."""
    drawn = np.random.default_rng([dimension, draw]).normal(size=(relevant + irrelevant + outlier, dimension))
    lengths = np.repeat([norm, outlier_norm], [relevant + irrelevant, outlier])
    return tuple(map(tuple, (drawn * (lengths / np.linalg.norm(drawn, axis=1))[:, None]).tolist()))
