"""Means with intervals, separately for the uncertainty over training seeds and over test prompts.

A diverged seed has no error: it is counted next to the mean, and is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from iclab.probes.tracing import least, mean, most, total, traced

CONFIDENCE = 0.95
"""The confidence of every interval, unless `at_confidence` or an argument says otherwise."""
_CONFIDENCE: ContextVar[float] = ContextVar("confidence", default=CONFIDENCE)


def current_confidence() -> float:
    """Return the confidence of intervals that are made now."""
    return _CONFIDENCE.get()


@contextmanager
def at_confidence(level: float) -> Iterator[None]:
    """Give all intervals made inside a ``with`` block another confidence.

    Claims make their intervals in many places. Those who judge them again and again need a higher confidence
    (`iclab.study.sequences`), and set it around the judging, as `numpy.errstate` does for warnings.

    Example:
        >>> with at_confidence(0.99):
        ...     wide = wilson(3, 50)
        >>> wide == wilson(3, 50, 0.99), wide == wilson(3, 50)
        (True, False)
    """
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: must be between 0 and 1")
    before = _CONFIDENCE.set(level)
    try:
        yield
    finally:
        _CONFIDENCE.reset(before)


@dataclass(frozen=True)
class Interval:
    """A range from ``low`` to ``high``."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.3g}, {self.high:.3g}]"


@traced
def wilson(successes: float, total: int, confidence: float | None = None) -> Interval:
    """Return Wilson's score interval for a proportion, which is not empty at 0 and 1 as the usual ± is."""
    if total == 0:
        return Interval(0.0, 1.0)
    from scipy import special  # slow to import, and not needed to list experiments

    z = special.ndtri(0.5 + (confidence or current_confidence()) / 2)
    p = successes / total
    centre = (p + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z / (1 + z**2 / total) * np.sqrt(p * (1 - p) / total + z**2 / (4 * total**2))
    # At 0 and at `total` the ends are exactly 0 and 1, which rounding may miss.
    low = 0.0 if successes == 0 else max(0.0, float(centre - half))
    high = 1.0 if successes == total else min(1.0, float(centre + half))
    return Interval(low, high)


@traced
def over_seeds(values: Sequence[float], confidence: float | None = None) -> Interval:
    """Return Student's t interval for the mean over seeds; unbounded for fewer than two."""
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return Interval(-np.inf, np.inf)
    from scipy import special

    t = special.stdtrit(x.size - 1, 0.5 + (confidence or current_confidence()) / 2)
    half = t * x.std(ddof=1) / np.sqrt(x.size)
    return Interval(float(x.mean() - half), float(x.mean() + half))


@dataclass(frozen=True)
class Proportion:
    """An error rate over seeds and prompts.

    Example:
        >>> Proportion.of([0.0, 0.0, None], prompts=10_000)
        0 (over seeds [0, 0], over prompts [0, 0.000192], spread 0, 3 seeds, 1 diverged)
    """

    mean: float | None
    """The mean over seeds that did not diverge; None if all did."""
    spread: float | None
    """The standard deviation over seeds."""
    seed_interval: Interval
    """The interval of the mean from differences between seeds."""
    prompt_interval: Interval
    """The interval of the mean from the number of prompts (Wilson, over the prompts of all seeds)."""
    per_seed: tuple[float | None, ...]
    """One error per seed; None if it diverged."""

    @property
    def diverged(self) -> int:
        """The number of seeds that diverged."""
        return sum(error is None for error in self.per_seed)

    @classmethod
    def of(cls, errors: Sequence[float | None], prompts: int) -> Proportion:
        """Summarise one error rate per seed (None if it diverged), each over ``prompts`` prompts."""
        good = [e for e in errors if e is not None]
        if not good:
            return cls(None, None, Interval(0.0, 1.0), Interval(0.0, 1.0), tuple(errors))
        seed = over_seeds(good)
        return cls(
            mean=mean(good),
            spread=float(np.std(good, ddof=1)) if len(good) > 1 else None,
            seed_interval=Interval(most([0.0, seed.low]), least([1.0, seed.high])),
            prompt_interval=wilson(total(good) * prompts, len(good) * prompts),
            per_seed=tuple(errors),
        )

    @property
    def interval(self) -> Interval:
        """The smallest interval that holds both; claims are judged on it."""
        return Interval(
            least([self.seed_interval.low, self.prompt_interval.low]),
            most([self.seed_interval.high, self.prompt_interval.high]),
        )

    def short(self) -> str:
        """Write mean and interval for a table."""
        lost = f", {self.diverged} diverged" if self.diverged else ""
        if self.mean is None:
            return f"none{lost}"
        return f"{self.mean:.4f} [{self.interval.low:.4f}, {self.interval.high:.4f}]{lost}"

    def __repr__(self) -> str:
        if self.mean is None:
            return f"none: all {len(self.per_seed)} seeds diverged"
        mean = f"{self.mean:.3g}"
        spread = "unknown" if self.spread is None else f"{self.spread:.3g}"
        s, p = self.seed_interval, self.prompt_interval
        return (
            f"{mean} (over seeds {s}, over prompts {p}, spread {spread}, "
            f"{len(self.per_seed)} seeds, {self.diverged} diverged)"
        )


def paired(first: Sequence[float | None], second: Sequence[float | None]) -> tuple[float, Interval, int]:
    """Return the mean of first − second over seeds, its t interval, and the number of pairs lost to divergence."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        return float("nan"), Interval(-np.inf, np.inf), len(first)
    differences = [a - b for a, b in pairs]
    return mean(differences), over_seeds(differences), len(first) - len(pairs)
