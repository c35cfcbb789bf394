"""Means with intervals. Uncertainty over training seeds and over test prompts is kept apart.

A diverged seed has no error: it is counted beside the mean and never averaged in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A range from ``low`` to ``high``."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.3g}, {self.high:.3g}]"


def wilson(successes: float, total: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for a proportion: sensible at 0 and 1, where the usual ± is empty."""
    if total == 0:
        return Interval(0.0, 1.0)
    z = special.ndtri(0.5 + confidence / 2)
    p = successes / total
    centre = (p + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z / (1 + z**2 / total) * np.sqrt(p * (1 - p) / total + z**2 / (4 * total**2))
    # At 0 and at `total` the ends are 0 and 1 exactly; rounding may miss them.
    low = 0.0 if successes == 0 else max(0.0, float(centre - half))
    high = 1.0 if successes == total else min(1.0, float(centre + half))
    return Interval(low, high)


def over_seeds(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval for the mean over seeds; unbounded when there are fewer than two."""
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return Interval(-np.inf, np.inf)
    half = special.stdtrit(x.size - 1, 0.5 + confidence / 2) * x.std(ddof=1) / np.sqrt(x.size)
    return Interval(float(x.mean() - half), float(x.mean() + half))


@dataclass(frozen=True)
class Proportion:
    """An error rate over seeds and prompts.

    Example:
        >>> Proportion.of([0.0, 0.0, None], prompts=10_000)
        0 (over seeds [0, 0], over prompts [0, 0.000192], spread 0, 3 seeds of which 1 diverged)
    """

    mean: float | None
    """Over the seeds that did not diverge; None if all did."""
    spread: float | None
    """Standard deviation over seeds."""
    seed_interval: Interval
    """Where the mean lies, from the differences between seeds."""
    prompt_interval: Interval
    """Where the mean lies, from the number of prompts tried (Wilson, all seeds' prompts together)."""
    per_seed: tuple[float | None, ...]
    """One error a seed; None where it diverged."""

    @property
    def diverged(self) -> int:
        """How many seeds diverged."""
        return sum(error is None for error in self.per_seed)

    @classmethod
    def of(cls, errors: Sequence[float | None], prompts: int) -> Proportion:
        """Summarise one error rate per seed (None where it diverged), each over ``prompts`` prompts."""
        good = [e for e in errors if e is not None]
        if not good:
            return cls(None, None, Interval(0.0, 1.0), Interval(0.0, 1.0), tuple(errors))
        seed = over_seeds(good)
        return cls(
            mean=float(np.mean(good)),
            spread=float(np.std(good, ddof=1)) if len(good) > 1 else None,
            seed_interval=Interval(max(0.0, seed.low), min(1.0, seed.high)),
            prompt_interval=wilson(sum(good) * prompts, len(good) * prompts),
            per_seed=tuple(errors),
        )

    @property
    def interval(self) -> Interval:
        """The wider end of either interval: what a claim is judged on."""
        return Interval(
            min(self.seed_interval.low, self.prompt_interval.low),
            max(self.seed_interval.high, self.prompt_interval.high),
        )

    def short(self) -> str:
        """Write mean and interval for a table."""
        lost = f", {self.diverged} diverged" if self.diverged else ""
        if self.mean is None:
            return f"none{lost}"
        return f"{self.mean:.4f} [{self.interval.low:.4f}, {self.interval.high:.4f}]{lost}"

    def __repr__(self) -> str:
        mean = "none" if self.mean is None else f"{self.mean:.3g}"
        spread = "unknown" if self.spread is None else f"{self.spread:.3g}"
        s, p = self.seed_interval, self.prompt_interval
        return (
            f"{mean} (over seeds {s}, over prompts {p}, spread {spread}, "
            f"{len(self.per_seed)} seeds of which {self.diverged} diverged)"
        )


def paired(first: Sequence[float | None], second: Sequence[float | None]) -> tuple[float, Interval, int]:
    """Mean difference first − second over seeds that neither lost, its t interval, and how many pairs were lost."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        return float("nan"), Interval(-np.inf, np.inf), len(first)
    differences = [a - b for a, b in pairs]
    return float(np.mean(differences)), over_seeds(differences), len(first) - len(pairs)
