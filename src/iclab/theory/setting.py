"""What the theorems speak about: a training and a test as plain numbers, with the papers' letters.

A setting knows nothing of prompts, models or engines; `iclab.study.predicting` makes one from them. The defaults are
the papers' experiments (M §4 at p_a = 0.6, T §5), and iclab's choices where a paper states nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from iclab.config import InputError
from iclab.theory.graph import TaskGraph

Pair = tuple[int, int]


def ring(relevant: int, steps: int) -> tuple[Pair, ...]:
    """Return the tasks (j, j + k mod M1), k = 1 … steps: M App. C, T §5."""
    return tuple((j, (j + k) % relevant) for k in range(1, steps + 1) for j in range(relevant))


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """What the settings of all papers have."""

    dimension: int = 30
    """d, T's and S's d_X."""
    relevant: int = 6
    """M1."""
    relevant_norm: float = 3.0
    """β."""
    train_length: int = 20
    """l_tr."""
    test_length: int = 20
    """l_ts."""
    train_irrelevant_scale: float = 0.5
    """K."""
    batch_size: int = 128
    """B."""
    step_size: float = 1.0
    """η."""
    epsilon: float = 0.01
    """ε, the loss or error that a theorem promises."""
    departures: tuple[str, ...] = ()
    """What else the theorems assume and this setting lacks, in words."""

    tasks: tuple[Pair, ...]
    """The training tasks."""

    def __post_init__(self) -> None:
        for name in ("train_length", "test_length", "batch_size", "dimension"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "must be at least 1")
        _check("relevant", self.relevant, self.relevant >= 2, "must be at least 2")
        for name in ("relevant_norm", "step_size"):
            _check(name, getattr(self, name), 0 < getattr(self, name) < math.inf, "must be above 0")
        _check("epsilon", self.epsilon, 0 < self.epsilon < 1, "must be above 0 and below 1")
        _ = self.graph  # refuses an empty one

    @property
    def graph(self) -> TaskGraph:
        """The graph of the training tasks."""
        return _graph(self.tasks, self.relevant)

    @property
    def label_counts(self) -> tuple[int, ...]:
        """In how many training tasks each pattern means +1, then in how many it means −1."""
        return tuple(sum(pair[side] == j for pair in self.tasks) for side in (0, 1) for j in range(self.relevant))


@dataclass(frozen=True, kw_only=True)
class MambaSetting(_Setting):
    """A training and a test of paper M: one-layer Mamba, or the linear Transformer, on prompts with outliers.

    Example:
        >>> MambaSetting().mixture_sum
        0.3
    """

    model: Literal["mamba", "linear"] = "mamba"
    layers: int = 1
    irrelevant: int = 10
    """M2."""
    outlier: int = 3
    """V."""
    outlier_norm: float = 3.0
    """‖v*‖."""
    tasks: tuple[Pair, ...] = ring(6, 3)
    train_outlier_fraction: float = 0.6
    """p_a."""
    test_outlier_fraction: float = 0.6
    """α."""
    train_outlier_scale: float = 2.0
    """κ_a."""
    test_outlier_scale: float = 6.67
    """κ_a'."""
    mixture_sums: tuple[float, ...] = (0.9, 0.5, 0.3)
    """Σ λ_i of every test outlier; 1 for a training outlier."""
    outside_norm: float = 0.0
    """The largest ‖u‖ of a test outlier."""
    exact_count: bool = False
    """Whether a test prompt has exactly α·l_ts outliers."""
    test_irrelevant_scale: float = 1.5
    """K'."""
    steps: int = 1000
    """T."""
    init_scale: float = 0.2
    """δ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        p, alpha = self.train_outlier_fraction, self.test_outlier_fraction
        _check("train_outlier_fraction", p, 0 <= p < 1, "must be at least 0 and below 1; M's p_a is in [0, 1)")
        _check("test_outlier_fraction", alpha, 0 <= alpha <= 1, "must be between 0 and 1")
        for name in ("train_outlier_scale", "test_outlier_scale", "outlier_norm", "outlier"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) < math.inf, "must be at least 0")
        _check("init_scale", self.init_scale, 0 < self.init_scale < math.inf, "must be above 0")
        _check("mixture_sums", self.mixture_sums, bool(self.mixture_sums), "must have at least one sum")

    @property
    def mixture_sum(self) -> float:
        """L of M (11): the smallest Σ λ_i, to ten digits, so that 0.7 + 0.6 − 0.4 is 0.9."""
        return round(min(self.mixture_sums), 10)


@dataclass(frozen=True, kw_only=True)
class TransformerSetting(_Setting):
    """A training and a test of papers T and S: softmax attention with an MLP, labels ±q in R^dY."""

    tasks: tuple[Pair, ...] = ring(6, 1)
    irrelevant: int = 24
    """M2."""
    label_dimension: int = 30
    """d_Y."""
    relevant_fraction: float = 0.8
    """α: the share of examples with one of the task's patterns, in training."""
    test_relevant_fraction: float = 0.8
    """α'."""
    test_irrelevant_scale: float = 0.5
    """K'."""
    mixture_sums: tuple[float, ...] = ()
    """S_j of every test pattern out of domain; empty in domain."""
    smallest_weight: float = 0.0
    """The smallest k_i of those mixtures."""
    neurons: int = 200
    """m."""
    attention_size: int = 60
    """The smaller of m_a and m_b."""
    signal: float = 1.0
    """S's λ*."""
    noise: float = 0.0
    """S's τ."""
    steps: int = 600
    """T."""
    init_scale: float = 0.1
    """δ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("relevant_fraction", "test_relevant_fraction", "signal"):
            _check(name, getattr(self, name), 0 < getattr(self, name) <= 1, "must be above 0 and at most 1")
        for name in ("irrelevant", "neurons", "attention_size", "label_dimension"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "must be at least 1")


Setting = MambaSetting | TransformerSetting


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise InputError(f"{name} = {value!r}: {allowed}")


@lru_cache(maxsize=256)
def _graph(tasks: tuple[Pair, ...], relevant: int) -> TaskGraph:
    return TaskGraph.of(tasks, relevant)
