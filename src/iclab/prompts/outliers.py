"""Outliers: which context examples are corrupted, by which pattern, how strongly, and which label they show.

M (6), (7): a corrupted example is µ_j + κ ν_k + κ_a v, and its label may break the rule of the task. In the papers the
query is always clean; here it may be corrupted too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from iclab.config import Code, Config, InputError, OutsideTheoremWarning, what_was_raised
from iclab.prompts.counters import Stream, bernoulli, normals
from iclab.prompts.patterns import Basis, Patterns


@dataclass(frozen=True)
class Examples:
    """The context examples of a batch, as a user's label rule sees them: arrays of shape (…, length)."""

    relevant: NDArray[np.integer]
    """The number of the µ in each example."""
    irrelevant: NDArray[np.int64]
    """The number of the ν in each example."""
    outlier: NDArray[np.bool_]
    """Whether each example is corrupted."""
    outlier_pattern: NDArray[np.int64]
    """The number of the outlier pattern in each corrupted example."""
    labels: NDArray[np.float64]
    """The true label of each example, before corruption."""
    uniform: NDArray[np.float64]
    """A random number in [0, 1) for each example, for rules that need one."""

    def read_only(self) -> Examples:
        """Return a copy with read-only arrays."""
        copies = {field.name: getattr(self, field.name).copy() for field in fields(self)}
        for array in copies.values():
            array.setflags(write=False)
        return Examples(**copies)


LabelRule = Callable[[Examples], NDArray[Any]]
"""Returns labels for all examples, shape (…, length); labels of clean examples are ignored."""

Placement = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.bool_]]
"""Takes the number of outliers (…) and random numbers (…, length); returns which positions (0 is farthest from the
query) are outliers, as booleans (…, length)."""


class Mixture(Config):
    """An unseen outlier v' = Σ λ_i v*_i + u, with u orthogonal to every pattern: M (11)."""

    weights: Annotated[tuple[float, ...], Field(min_length=1)]
    """λ_1 … λ_V. Theorem 2 requires a positive sum."""
    outside_norm: Annotated[float, Field(ge=0)] = 0.0
    """The norm of u. Its direction is drawn with the basis."""


PAPER_MIXTURES = (
    Mixture(weights=(0.7, 0.6, -0.4)),
    Mixture(weights=(0.4, 0.7, -0.6)),
    Mixture(weights=(-0.7, 0.5, 0.5)),
)
"""The three unseen outliers of M §4. Their weights sum to 0.9, 0.5 and 0.3 = L."""


def _name(known: tuple[str, ...], what: str) -> Callable[[Any], Any]:
    """Accept one of the known names or a user's callable."""

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
    """The corruption of a prompt's context. By default there is none.

    Example:
        >>> Outliers(fraction=0.6, scale=2.0).labels
        'random'
        >>> len(Outliers(count=10, labels="flip", patterns="paper").patterns)
        3
    """

    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    """p_a in training, α in tests: the probability that an example is corrupted, independently of the others."""
    count: Annotated[int | None, Field(ge=0)] = None
    """Corrupt exactly this many examples instead; every subset is equally likely."""
    query: Annotated[float, Field(ge=0, le=1, exclude_if=lambda chance: not chance)] = 0.0
    """The probability that the query carries an outlier pattern too; its label, the right answer, stays the task's."""
    scale: Annotated[float, Field(ge=0)] = 2.0
    """κ_a in training, κ_a' in tests."""
    together: Annotated[bool, Field(exclude_if=lambda together: not together)] = False
    """With several levels: an example that is corrupted is corrupted at every level. By default levels draw apart."""
    labels: Annotated[
        Literal["random", "flip", "target"] | Code,
        BeforeValidator(_name(("random", "flip", "target"), "label rule")),
    ] = "random"
    """The label of a corrupted example: random ±1, the opposite of the true label, or always ``target``."""
    target: Literal[1, -1] = 1
    """The label shown under the rule ``target``."""
    placement: Annotated[
        Literal["random", "farthest", "closest"] | Code,
        BeforeValidator(_name(("random", "farthest", "closest"), "placement")),
    ] = "random"
    """The positions of corrupted examples: R, FQ or CQ in M §4.2."""
    patterns: Annotated[Literal["training"] | tuple[Mixture, ...], BeforeValidator(_mixtures)] = "training"
    """The outlier patterns: the training v*, or mixtures of them (``paper``: the three of M §4)."""

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
        """Check the settings that depend on the rest of the prompt."""
        if self.count is not None and self.count > context_length:
            raise ValueError(f"outliers.count = {self.count}: must be at most context_length = {context_length}")
        if (self.present or self.query) and not patterns.outlier:
            raise ValueError("patterns.outlier = 0: prompts with outliers need at least one outlier pattern")
        for mixture in self.mixtures:
            if len(mixture.weights) != patterns.outlier:
                raise ValueError(
                    f"outliers.patterns.weights = {mixture.weights}: needs one weight for each of the "
                    f"{patterns.outlier} outlier patterns"
                )
            if mixture.outside_norm and patterns.rank == patterns.dimension:
                raise ValueError(
                    f"outliers.patterns.outside_norm = {mixture.outside_norm}: the {patterns.count} patterns fill all "
                    f"{patterns.dimension} dimensions, so no vector is orthogonal to them"
                )

    @property
    def present(self) -> bool:
        """Whether any example can be corrupted."""
        return bool(self.count if self.count is not None else self.fraction)

    @property
    def mixtures(self) -> tuple[Mixture, ...]:
        """The mixtures in use; empty for the training patterns."""
        return () if self.patterns == "training" else self.patterns

    def rows(self, patterns: Patterns) -> tuple[int, int]:
        """Return the first dictionary row of the outlier patterns and their number. Mixtures follow the basis."""
        if self.mixtures:
            return patterns.count, len(self.mixtures)
        return patterns.relevant + patterns.irrelevant, patterns.outlier

    def mixture_vectors(self, patterns: Patterns, basis: Basis) -> NDArray[np.float64]:
        """Return the mixtures as vectors, shape (mixtures, d)."""
        training = basis.vectors[patterns.relevant + patterns.irrelevant :]
        out = np.zeros((len(self.mixtures), patterns.dimension))
        for row, mixture in enumerate(self.mixtures):
            out[row] = np.asarray(mixture.weights) @ training
            if mixture.outside_norm:
                slot = row + patterns.draw * 2**16
                u = basis.outside(normals(basis.seed, Stream.MIXTURE, (patterns.dimension,), slot=slot))
                out[row] += mixture.outside_norm * u / np.linalg.norm(u)
        return out

    def choose(self, word: NDArray[np.uint32], uniform: Callable[[], NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Choose the corrupted examples from one random word each, shape (…, length)."""
        flags = bernoulli(word, self.fraction) if self.count is None else exactly(word, self.count)
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
            raise InputError(
                f"outliers.placement = {self.placement.path}: must place exactly as many outliers as it is given"
            )
        return placed

    def show(self, examples: Examples, coin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the labels shown in the context, shape (…, length); ``coin`` is random ±1."""
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
    """Call a user's rule; turn any exception into a message of one line."""
    try:
        return rule.load()(*arguments)
    except Exception as error:
        raise InputError(f"outliers.{field} = {rule.path}: {what_was_raised(error)}") from error


def exactly(word: NDArray[np.uint32], count: int) -> NDArray[np.bool_]:
    """Choose exactly ``count`` positions in one pass (selection sampling); all subsets are equally likely."""
    length = word.shape[-1]
    wide = word.astype(np.uint64)
    flags = np.empty(word.shape, dtype=np.bool_)
    left = np.full(word.shape[:-1], count, dtype=np.uint64)
    for position in range(length):
        flags[..., position] = (wide[..., position] * np.uint64(length - position)) >> np.uint64(32) < left
        left -= flags[..., position]
    return flags
