"""Outliers: which context examples are corrupted, with what pattern, how strongly, and what label they then show.

M (6), (7): a corrupted example is µ_j + κ ν_k + κ_a v, and its label follows a rule that need not be the task's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from iclab.config import Code, Config, InputError, OutsideTheoremWarning
from iclab.prompts.counters import Stream, bernoulli, normals
from iclab.prompts.patterns import Basis, Patterns


@dataclass(frozen=True)
class Examples:
    """What a user's label rule may look at: the context examples of a batch, arrays of shape (…, length)."""

    relevant: NDArray[np.int64]
    """Which µ each example carries."""
    irrelevant: NDArray[np.int64]
    """Which ν each example carries."""
    outlier: NDArray[np.bool_]
    """Which examples are corrupted."""
    outlier_pattern: NDArray[np.int64]
    """Which outlier pattern a corrupted example carries."""
    labels: NDArray[np.float64]
    """The task's own label, before corruption."""
    uniform: NDArray[np.float64]
    """A random number in [0, 1) for each example, for rules that need one."""

    def read_only(self) -> Examples:
        """Return the same examples in arrays that cannot be written to."""
        copies = {field.name: getattr(self, field.name).copy() for field in fields(self)}
        for array in copies.values():
            array.setflags(write=False)
        return Examples(**copies)


LabelRule = Callable[[Examples], NDArray[Any]]
"""Labels for all examples, shape (…, length); those of clean examples are ignored."""

Placement = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.bool_]]
"""From the number of outliers (…) and random numbers (…, length): which positions (0 is farthest from the query)."""


class Mixture(Config):
    """An unseen outlier v' = Σ λ_i v*_i + u, with u orthogonal to every pattern: M (11)."""

    weights: Annotated[tuple[float, ...], Field(min_length=1)]
    """λ_1 … λ_V. Theorem 2 asks that they sum to something positive."""
    outside_norm: Annotated[float, Field(ge=0)] = 0.0
    """The norm of u; its direction is drawn with the basis."""


PAPER_MIXTURES = (
    Mixture(weights=(0.7, 0.6, -0.4)),
    Mixture(weights=(0.4, 0.7, -0.6)),
    Mixture(weights=(-0.7, 0.5, 0.5)),
)
"""The three unseen outliers of M §4; the sums of their weights are 0.9, 0.5 and 0.3 = L."""


def _name(known: tuple[str, ...], what: str) -> Callable[[Any], Any]:
    """Accept one of the known names, or a user's callable."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and ":" not in value and value not in known:
            raise ValueError(f"must be one of {', '.join(known)}, or a {what} as 'package.module:function'")
        return value

    return check


def _mixtures(value: Any) -> Any:
    if value == "paper":
        return PAPER_MIXTURES
    if isinstance(value, str) and value != "training":
        raise ValueError("must be 'training', 'paper' or a list of mixtures")
    return value


class Outliers(Config):
    """The corruption of a prompt's context. The default is none at all.

    Example:
        >>> Outliers(fraction=0.6, scale=2.0).labels
        'random'
        >>> len(Outliers(count=10, labels="flip", patterns="paper").patterns)
        3
    """

    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    """p_a in training, α in tests: each example is corrupted independently with this probability."""
    count: Annotated[int | None, Field(ge=0)] = None
    """Corrupt exactly this many examples instead, every subset equally likely."""
    scale: Annotated[float, Field(ge=0)] = 2.0
    """κ_a in training, κ_a' in tests."""
    labels: Annotated[
        Literal["random", "flip", "target"] | Code,
        BeforeValidator(_name(("random", "flip", "target"), "label rule")),
    ] = "random"
    """What a corrupted example shows: ±1 by chance, the opposite of the truth, or always ``target``."""
    target: Literal[1, -1] = 1
    """The label shown under the rule ``target``."""
    placement: Annotated[
        Literal["random", "farthest", "closest"] | Code,
        BeforeValidator(_name(("random", "farthest", "closest"), "placement")),
    ] = "random"
    """Where the corrupted examples stand: R, FQ or CQ in M §4.2."""
    patterns: Annotated[Literal["training"] | tuple[Mixture, ...], BeforeValidator(_mixtures)] = "training"
    """Which outlier patterns: the training v*, or mixtures of them (``paper``: the three of M §4)."""

    @model_validator(mode="after")
    def _consistent(self) -> Outliers:
        if self.count is not None and self.fraction != 0.0:
            raise ValueError(f"count = {self.count}: give either fraction or count, not both")
        if self.patterns == ():
            raise ValueError("patterns = []: needs at least one mixture")
        for mixture in self.mixtures:
            total = sum(mixture.weights)
            if total <= 1e-12:  # so that 0.1 + 0.2 − 0.3 counts as 0
                warnings.warn(
                    f"patterns: the weights {mixture.weights} sum to {total:g}; no theorem covers a sum that is not "
                    "positive",
                    OutsideTheoremWarning,
                    stacklevel=2,
                )
        return self

    def check(self, patterns: Patterns, context_length: int) -> None:
        """Check what depends on the prompt around the outliers."""
        if self.count is not None and self.count > context_length:
            raise ValueError(f"outliers.count = {self.count}: must be at most context_length = {context_length}")
        if self.present and not patterns.outlier:
            raise ValueError("patterns.outlier = 0: prompts with outliers need at least one outlier pattern")
        for mixture in self.mixtures:
            if len(mixture.weights) != patterns.outlier:
                raise ValueError(
                    f"outliers.patterns.weights = {mixture.weights}: needs one weight for each of the "
                    f"{patterns.outlier} outlier patterns"
                )
            if mixture.outside_norm and patterns.count == patterns.dimension:
                raise ValueError(
                    f"outliers.patterns.outside_norm = {mixture.outside_norm}: the {patterns.count} patterns fill all "
                    f"{patterns.dimension} dimensions, nothing is orthogonal to them"
                )

    @property
    def present(self) -> bool:
        """Whether any example can be corrupted at all."""
        return bool(self.count if self.count is not None else self.fraction)

    @property
    def mixtures(self) -> tuple[Mixture, ...]:
        """The mixtures in use; empty for the training patterns."""
        return () if self.patterns == "training" else self.patterns

    def rows(self, patterns: Patterns) -> tuple[int, int]:
        """Return first dictionary row and number of rows that an outlier is drawn from (mixtures follow the basis)."""
        if self.mixtures:
            return patterns.count, len(self.mixtures)
        return patterns.relevant + patterns.irrelevant, patterns.outlier

    def mixture_vectors(self, patterns: Patterns, basis: Basis) -> NDArray[np.float64]:
        """Place the mixtures in space, shape (mixtures, d)."""
        training = basis.vectors[patterns.relevant + patterns.irrelevant :]
        out = np.zeros((len(self.mixtures), patterns.dimension))
        for row, mixture in enumerate(self.mixtures):
            out[row] = np.asarray(mixture.weights) @ training
            if mixture.outside_norm:
                u = basis.outside(normals(basis.seed, Stream.MIXTURE, (patterns.dimension,), slot=row))
                out[row] += mixture.outside_norm * u / np.linalg.norm(u)
        return out

    def choose(self, word: NDArray[np.uint32], uniform: Callable[[], NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Say which examples are corrupted, from one random word each, shape (…, length)."""
        flags = bernoulli(word, self.fraction) if self.count is None else _exactly(word, self.count)
        if self.placement == "random":
            return flags
        length = word.shape[-1]
        number = flags.sum(-1)
        if self.placement == "farthest":
            return np.arange(length) < number[..., None]
        if self.placement == "closest":
            return np.arange(length) >= length - number[..., None]
        placed = np.asarray(_call(self.placement, "placement", number.copy(), uniform()))
        if placed.shape != flags.shape or placed.dtype != np.bool_:
            raise InputError(
                f"outliers.placement = {self.placement.path}: returned {placed.dtype} of shape {placed.shape}, "
                f"needs bool of shape {flags.shape}"
            )
        if (placed.sum(-1) != number).any():
            raise InputError(f"outliers.placement = {self.placement.path}: must place exactly as many as it is given")
        return placed

    def show(self, examples: Examples, coin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the labels that the context shows, shape (…, length); ``coin`` is ±1 by chance."""
        rule = self.labels
        if rule == "random":
            corrupted: NDArray[Any] = coin
        elif rule == "flip":
            corrupted = -examples.labels
        elif rule == "target":
            corrupted = np.full_like(examples.labels, self.target)
        else:
            corrupted = np.asarray(_call(rule, "labels", examples.read_only()))
            if corrupted.dtype.kind not in "iuf":
                raise InputError(f"outliers.labels = {rule.path}: returned {corrupted.dtype}, needs numbers such as ±1")
            if corrupted.shape != examples.labels.shape:
                raise InputError(
                    f"outliers.labels = {rule.path}: returned shape {corrupted.shape}, needs {examples.labels.shape}"
                )
            if not np.isfinite(corrupted[examples.outlier]).all():
                raise InputError(f"outliers.labels = {rule.path}: returned a label that is not finite")
        return np.where(examples.outlier, corrupted, examples.labels)


def _call(rule: Code, field: str, *arguments: Any) -> Any:
    """Call a user's rule; whatever it raises becomes one line."""
    try:
        return rule.load()(*arguments)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"outliers.{field} = {rule.path}: raised {reason}") from error


def _exactly(word: NDArray[np.uint32], count: int) -> NDArray[np.bool_]:
    """Choose exactly ``count`` positions, all subsets equally likely, in one pass (selection sampling)."""
    length = word.shape[-1]
    wide = word.astype(np.uint64)
    flags = np.empty(word.shape, dtype=np.bool_)
    left = np.full(word.shape[:-1], count, dtype=np.uint64)
    for position in range(length):
        flags[..., position] = (wide[..., position] * np.uint64(length - position)) >> np.uint64(32) < left
        left -= flags[..., position]
    return flags
