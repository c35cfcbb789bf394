"""What the experiments on paper M's corollaries and lemmas share: one base setting, its variations, and its mean field.

The base setting is that of M-thm1: every training task (a complete task graph), β = 3, δβ = 0.3, κ_a‖v*‖ = 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from iclab.engines import Recipe, Training, geometric
from iclab.models import Model
from iclab.probes import Row, over_seeds
from iclab.prompts import Outliers, Patterns, Prompts
from iclab.prompts.tasks import AllPairs, TaskSet
from iclab.study.charts import Panel, Series
from iclab.study.claims import BySeed, Point
from iclab.study.rows import lost, values
from iclab.study.settings import Chosen, Disclosed, Settings
from iclab.theory.laws import contrast, gate_velocities, graph_time, mean_field_steps
from iclab.theory.meanfield import Curve, predicted_curve
from iclab.theory.setting import MambaSetting

Fraction = Annotated[float, Field(ge=0, lt=1)]
Loss = Literal["hinge", "linear"]
Values = Annotated[tuple[float, ...], Field(min_length=1)]
Counts = Annotated[tuple[int, ...], Field(min_length=1)]


class LemmaSettings(Settings):
    """One-layer Mamba at a small step size, so that laws of its training show."""

    seeds: Annotated[int, Field(ge=1), Chosen("two groups of eight", grid=True)] = 16
    dimension: Annotated[int, Chosen("d, room for every number of patterns in the sweeps")] = 60
    relevant: Annotated[int, Chosen("M1 of the base setting")] = 8
    irrelevant: Annotated[int, Chosen("M2; the paper's value")] = 10
    outlier: Annotated[int, Chosen("V; the paper's value")] = 3
    pattern_norm: Annotated[float, Disclosed("β, M §4")] = 3.0
    outlier_norm: Annotated[float, Chosen("‖v*‖ = β, as in M-fig2")] = 3.0
    outlier_scale: Annotated[float, Disclosed("κ_a, M §4")] = 2.0
    init_scale: Annotated[float, Chosen("δ = 0.3/β: scores start at δ²β² = 0.09, so that growth can be seen")] = 0.1
    irrelevant_scale: Annotated[float, Chosen("K, the largest value the paper allows")] = 0.5
    outlier_fraction: Annotated[Fraction, Chosen("p_a of the base setting")] = 0.3
    context_length: Annotated[int, Field(ge=1), Chosen("l_tr of the base setting")] = 40
    tasks: Annotated[TaskSet, Chosen("a complete task graph, for which nothing is left to M-kernel")] = AllPairs()
    step_size: Annotated[float, Chosen("η: training takes hundreds of steps")] = 0.02
    batch_size: Annotated[int, Field(ge=1), Chosen("B, prompts per step")] = 512
    steps: Annotated[int, Field(ge=1), Chosen("the longest training", grid=True)] = 100_000
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed, step and condition", grid=True)] = 2_000

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer test prompts."""
        return super().quick().replace(test_prompts=min(self.test_prompts, 500))

    def prompts(self, **outliers: Any) -> Prompts:
        """Return prompts of training, Definition 1; or with other outliers."""
        norm = self.pattern_norm
        chosen = {"fraction": self.outlier_fraction, "scale": self.outlier_scale} | outliers
        return Prompts(
            patterns=Patterns(
                dimension=self.dimension,
                relevant=self.relevant,
                irrelevant=self.irrelevant,
                outlier=self.outlier,
                relevant_norm=norm,
                irrelevant_norm=norm,
                outlier_norm=self.outlier_norm,
            ),
            tasks=self.tasks,
            context_length=self.context_length,
            irrelevant_scale=self.irrelevant_scale,
            outliers=Outliers(**chosen),
        )

    def training(
        self,
        steps: float,
        *,
        kept: int | Iterable[float] = 0,
        gate_scale: float = 0.0,
        loss: Loss = "hinge",
        frozen: tuple[str, ...] = (),
    ) -> Training:
        """Return a training of at most `steps`, weights kept at about ``kept`` geometric steps or at given ones."""
        last = max(1, round(min(steps, self.steps)))
        if isinstance(kept, int):
            snapshots = geometric(last, max(kept, 2))
        else:
            snapshots = tuple(sorted({max(1, min(last, round(step))) for step in kept}))
        recipe = Recipe(
            steps=last,
            batch_size=self.batch_size,
            step_size=self.step_size,
            loss=loss,
            frozen=frozen,
            snapshots=snapshots,
        )
        model = Model(name="mamba", options={"init_scale": self.init_scale, "gate_scale": gate_scale})
        return Training(model=model, prompts=self.prompts(), recipe=recipe, engine=self.engine)

    @property
    def theory(self) -> MambaSetting:
        """The setting as theory knows it."""
        return MambaSetting(
            dimension=self.dimension,
            relevant=self.relevant,
            irrelevant=self.irrelevant,
            outlier=self.outlier,
            relevant_norm=self.pattern_norm,
            outlier_norm=self.outlier_norm,
            tasks=self.tasks.pairs(self.relevant),
            train_length=self.context_length,
            test_length=self.context_length,
            train_outlier_fraction=self.outlier_fraction,
            train_outlier_scale=self.outlier_scale,
            train_irrelevant_scale=self.irrelevant_scale,
            batch_size=self.batch_size,
            step_size=self.step_size,
            init_scale=self.init_scale,
        )

    @property
    def strength(self) -> float:
        """κ_a ‖v*‖, the length of an outlier's part of a token."""
        return self.outlier_scale * self.outlier_norm

    def trained_after(self, times: float = 1.0) -> float:
        """Return a multiple of T_M: twice the steps after which (E) puts E zF at 1/2 with the gate held at 1/2."""
        return times * 2 * mean_field_steps(self.theory, "mamba")

    def graph_time(self, step: float) -> float:
        """Return τ of (A) after so many steps, with the gate at 1/2."""
        return graph_time(self.theory, step)

    def contrast(self, step: float) -> float:
        """Return S̄ after so many steps of (A)."""
        return contrast(self.theory, self.graph_time(step))

    def gate_moves(self, step: float, *, held: bool = False) -> tuple[float, float]:
        """Return wᵀv̂ and wᵀe after so many steps from w = 0 by (B), with W_B and W_C growing by (A) or held."""
        if held:
            driven = step * self.contrast(0)
        else:  # Simpson's rule: S̄ is smooth
            driven = step * (self.contrast(0) + 4 * self.contrast(step / 2) + self.contrast(step)) / 6
        clean, outlier = gate_velocities(self.theory, driven)
        return outlier, clean

    def field(self, steps: float, points: int = 24) -> Curve:
        """Return the mean field (F) over so many steps from w = 0, for trainings on all tasks."""
        return predicted_curve(self.theory, max(1, round(steps)), points=points)


def gate_entry(rows: Sequence[Row], kind: str, **where: Any) -> BySeed:
    """Return how far w has moved along the patterns of a kind, the mean over patterns, by seed."""
    return lost(rows, **where) | values(rows, "mean", **where, matrix="gate", kind=kind)


def scaled(found: BySeed, factor: float) -> BySeed:
    """Multiply every seed's number."""
    return {seed: None if value is None else factor * value for seed, value in found.items()}


def combined(weights: Mapping[float, BySeed] | Sequence[tuple[float, BySeed]]) -> BySeed:
    """Return Σ weight × value of every seed that has all values."""
    pairs = list(weights.items() if isinstance(weights, Mapping) else weights)
    seeds = set.intersection(*(set(found) for _, found in pairs)) if pairs else set()
    answer: BySeed = {}
    for seed in sorted(seeds):
        parts = [found[seed] for _, found in pairs]
        good = [part for part in parts if part is not None]
        answer[seed] = sum(w * p for (w, _), p in zip(pairs, good, strict=True)) if len(good) == len(parts) else None
    return answer


def quotient(first: BySeed, second: BySeed) -> BySeed:
    """Return first / second for the seeds in both."""
    answer: BySeed = {}
    for seed in sorted(first.keys() & second.keys()):
        a, b = first[seed], second[seed]
        answer[seed] = None if a is None or not b else a / b
    return answer


def points_of(found: Iterable[tuple[str, BySeed]], seeds: int) -> list[Point] | None:
    """Make one point per named condition: mean and t interval over seeds; None if a seed is missing anywhere."""
    points = []
    for where, by_seed in found:
        if len(by_seed) < seeds:
            return None
        good = [value for value in by_seed.values() if value is not None]
        mean = sum(good) / len(good) if good else None
        points.append(Point(mean, over_seeds(good), where, len(by_seed) - len(good)))
    return points or None


def draw_means(panel: Panel, series: Series, found: Mapping[float, BySeed], *, positive: bool = False) -> None:
    """Draw means over seeds with their t intervals; on a logarithmic scale only what is positive."""
    for x, by_seed in found.items():
        good = [value for value in by_seed.values() if value is not None]
        mean = sum(good) / len(good) if good else None
        if mean is None or (positive and mean <= 0):
            continue
        interval = over_seeds(good)
        low, high = (interval.low, interval.high) if len(good) > 1 else (mean, mean)
        panel.interval(series, x, mean, max(low, mean / 3) if positive else low, high)


def mean_of(found: BySeed, digits: int = 3) -> str:
    """Format a mean over seeds with half of its interval; a dash if there is none."""
    good = [value for value in found.values() if value is not None]
    if not good:
        return "–"
    mean, interval = sum(good) / len(good), over_seeds(good)
    half = f" ± {(interval.high - interval.low) / 2:.{max(digits - 1, 1)}g}" if len(good) > 1 else ""
    return f"{mean:.{digits}g}{half}".replace("-", "−")
