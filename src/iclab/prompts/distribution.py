"""Prompt distributions and their samplers: M Definitions 1 and 2; T §3.2 and S §3.2, which add to them.

A prompt is a pure function of (distribution, stream, seed, step, index). Each token uses one block of four words:

    word 0   bit 31: which of the task's two patterns; bit 30: a coin for random labels; the rest: which outlier pattern
    word 1   which irrelevant pattern
    word 2   κ
    word 3   for an example: whether it is an outlier; for the query, which is never one: the task

If examples may carry relevant patterns outside the task (T's α < 1), each uses one more block:

    word 0   whether it carries such a pattern;  word 1   which one;  word 2   bit 31: its label

If λ varies, each token uses one more word. Noise uses as many blocks as it needs.

Blocks have slots: 0 a token's own, 1 users' rules, 2 stratified batches, 3 patterns outside the task, 4 λ; noise takes
5, 6, … as far as it needs. So later fields take another stream (`Stream.more`), where slot 0 has one block per token:

    word 0   for an example: whether label noise turns its label; for the query: whether it carries an outlier pattern
    word 1   for the query: which outlier pattern; for an example with real labels: the label of an outlier
    word 2   with real labels, for the query: the number of the task's first pattern; for an example: its true label,
             if its pattern is outside the task
    word 3   with real labels, for the query: the number of the task's second pattern

Slot 1 there chooses rows of a table (`iclab.prompts.table_draws`).

Level h of several levels is the prompt of another seed, s + h · 2^28 (`counters.LEVEL`); if outliers are ``together``,
it takes word 3 of its examples from seed s.

Changing this assignment changes every result: bump `VERSION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, model_validator

from iclab.config import Config, InputError
from iclab.prompts import readable, table_draws
from iclab.prompts.compact import PromptBatch, join_levels
from iclab.prompts.counters import LEVEL, Stream, check_counters
from iclab.prompts.outliers import Outliers
from iclab.prompts.patterns import GENERATED, Basis, Patterns
from iclab.prompts.tasks import AllPairs, TaskSet

VERSION = 1
"""Part of every cell's hash. Bump it when the same description gives different prompts."""
INSTEAD: dict[str, tuple[str, ...]] = {
    "count": ("fraction",),
    "fraction": ("count",),
    "relevant_count": ("relevant_fraction",),
    "relevant_fraction": ("relevant_count",),
    "vectors": GENERATED,
    **dict.fromkeys(GENERATED, ("vectors",)),
}
"""Fields that exclude each other: whoever changes one means that these no longer hold."""


class Prompts(Config):
    """A distribution of prompts: l examples µ_j + κ ν_k (+ κ_a v) with labels, and a query.

    The query is clean, unless ``outliers.query`` says otherwise. Its label is always the task's.

    Example:
        >>> prompts = Prompts(tasks="ring:3", outliers=Outliers(fraction=0.6, scale=2.0))
        >>> batch = prompts.draw([0], Stream.TEST, count=100)
        >>> batch.labels.shape
        (1, 100, 21, 1)
    """

    patterns: Patterns = Patterns()
    tasks: TaskSet = AllPairs()
    context_length: Annotated[int, Field(ge=1)] = 20
    """l, the number of examples before the query."""
    irrelevant_scale: Annotated[float, Field(ge=0)] = 0.5
    """K: κ is uniform on (−K, K)."""
    signal: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (1.0, 1.0)
    """S's λ: a token carries λ µ_j, with λ uniform between these two numbers. The smaller one is λ*."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """S's τ: each token gets a random vector on top, uniform in the ball of this radius."""
    outliers: Outliers = Outliers()
    relevant_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """T's α: the probability that an example carries one of its task's two patterns, both equally likely. Otherwise it
    carries one of the other relevant patterns, with a random label."""
    relevant_count: Annotated[int | None, Field(ge=1, exclude_if=lambda count: count is None)] = None
    """Exactly this many examples carry one of the task's two patterns instead; every subset is equally likely."""
    label_noise: Annotated[float, Field(ge=0, le=1, exclude_if=lambda chance: not chance)] = 0.0
    """The probability that a clean example shows the opposite of its true label, independently of the others. Outliers
    keep their own rule."""
    label_values: Annotated[Literal["signs", "real"], Field(exclude_if=lambda values: values == "signs")] = "signs"
    """Labels are ±1, or real numbers as in M E.8: every prompt draws two numbers, uniform on (−1, 1), for the patterns
    of its task, and with ``random`` labels one for each outlier."""
    levels: Annotated[int, Field(ge=1, le=8, exclude_if=lambda levels: levels == 1)] = 1
    """M E.7's H: 2^H classes as H binary levels. A token has H independent blocks, each with its own patterns, task,
    outliers and label. A label is H signs."""
    relevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T (12): M1' mixtures Σ k_i µ_i that replace the µ in prompts."""
    irrelevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T Theorem 3.4: mixtures ν' of the ν that replace the ν in prompts. With M1 + M2 weights they mix
    the µ too, which come first: S Theorem 2 does not forbid it."""
    label_dimension: Annotated[int | None, Field(ge=1)] = None
    """dY: a label is ±q in R^dY, with q along the first axis. By default, a label is the number ±1."""
    label_norm: Annotated[float, Field(gt=0)] = 1.0
    """‖q‖, if labels are vectors."""
    balance: Literal["independent", "stratified"] = "independent"
    """How a batch covers tasks and query patterns: independent draws, or shares as equal as the batch size allows."""

    @model_validator(mode="after")
    def _consistent(self) -> Prompts:
        for kind in ("relevant", "irrelevant"):
            mixtures, known = getattr(self, f"{kind}_mixtures"), getattr(self.patterns, kind)
            both = self.patterns.relevant + known
            needed = both if kind == "irrelevant" and mixtures and len(mixtures[0]) == both else known
            for mixture in mixtures:
                if len(mixture) != needed or not np.isfinite(mixture).all():
                    also = f", or of all {both} relevant and irrelevant ones" if kind == "irrelevant" else ""
                    words = f"needs one finite weight for each of the {known} {kind} patterns{also}"
                    raise ValueError(f"{kind}_mixtures = {mixture}: {words}")
            if kind == "relevant" and len(mixtures) == 1:
                raise ValueError("relevant_mixtures = 1 of them: a task needs two")
            if len(mixtures) > known:
                raise ValueError(f"{kind}_mixtures = {len(mixtures)} of them: must be at most the {known} they mix")
        if self.signal[0] > self.signal[1]:
            raise ValueError(f"signal = {self.signal}: the first must be at most the second")
        self.tasks.pairs(self.relevant)
        self._check_shares()
        if self.label_dimension is None and self.label_norm != 1:
            raise ValueError(f"label_norm = {self.label_norm}: labels are numbers unless label_dimension is given")
        self.outliers.check(self.patterns, self.context_length)
        self._check_labels()
        if self.patterns.table is not None:
            table_draws.check(self)
        return self

    def _check_labels(self) -> None:
        """Check what labels are, and their number."""
        if self.label_values == "real" and self.label_dimension is not None:
            raise ValueError(f"label_dimension = {self.label_dimension}: real labels are numbers; leave it out")
        if self.levels == 1 and self.outliers.together:
            raise ValueError("outliers.together = True: needs several levels, and levels = 1")
        for name in ("noise", "label_dimension"):
            if self.levels > 1 and (value := getattr(self, name)):
                raise ValueError(f"{name} = {value}: prompts of {self.levels} levels have none; leave it out")

    def _check_shares(self) -> None:
        """Check the settings that say how many examples carry a pattern of the task."""
        fraction, count, length = self.relevant_fraction, self.relevant_count, self.context_length
        if count is not None and fraction != 1:
            raise ValueError(f"relevant_count = {count}: give either relevant_fraction or relevant_count, not both")
        if count is not None and count > length:
            raise ValueError(f"relevant_count = {count}: must be at most context_length = {length}")
        if self.has_others and self.relevant < 3:
            given = f"relevant_count = {count}: a value below context_length = {length}"
            if count is None:
                given = f"relevant_fraction = {fraction}: a value below 1"
            raise ValueError(f"{given} needs a third relevant pattern, there are {self.relevant}")

    @property
    def has_others(self) -> bool:
        """Whether examples may carry relevant patterns outside the task."""
        if self.relevant_count is not None:
            return self.relevant_count < self.context_length
        return self.relevant_fraction < 1

    @property
    def relevant(self) -> int:
        """The number of relevant patterns in prompts: M1, or M1' out of domain."""
        return len(self.relevant_mixtures) or self.patterns.relevant

    @property
    def irrelevant(self) -> int:
        """The number of irrelevant patterns in prompts: M2, or that of mixtures out of domain."""
        return len(self.irrelevant_mixtures) or self.patterns.irrelevant

    @property
    def relevant_row(self) -> int:
        """The first dictionary row of the relevant patterns in prompts."""
        return self.patterns.count + len(self.outliers.mixtures) if self.relevant_mixtures else 0

    @property
    def irrelevant_row(self) -> int:
        """The first dictionary row of the irrelevant patterns in prompts."""
        if self.irrelevant_mixtures:
            return self.patterns.count + len(self.outliers.mixtures) + len(self.relevant_mixtures)
        return self.patterns.relevant

    @property
    def label_width(self) -> int:
        """The number of components of a label."""
        return self.label_dimension or self.levels

    @property
    def width(self) -> int:
        """The length of a token: its inputs, then its label."""
        return self.levels * self.patterns.dimension + self.label_width

    @property
    def rows(self) -> int:
        """D', the number of dictionary rows of one level."""
        mixtures = (self.outliers.mixtures, self.relevant_mixtures, self.irrelevant_mixtures)
        return self.patterns.count + sum(map(len, mixtures))

    @property
    def pairs(self) -> NDArray[np.int32]:
        """The tasks as an array, shape (tasks, 2)."""
        return np.asarray(self.tasks.pairs(self.relevant), dtype=np.int32)

    def fits(self, other: Prompts) -> str:
        """Return why a model trained on these prompts cannot take others, or an empty string if it can."""
        if reason := self.patterns.fits(other.patterns):
            return f"prompts.patterns.{reason}"
        if (other.label_dimension, other.label_norm) != (self.label_dimension, self.label_norm):
            return "prompts.label_dimension and label_norm: must be those of the training prompts"
        for name in ("levels", "label_values"):
            if (value := getattr(other, name)) != (own := getattr(self, name)):
                return f"prompts.{name} = {value}: must be that of the training prompts, {own}"
        return ""

    def dictionary(self, basis: Basis) -> NDArray[np.float64]:
        """Return the dictionary, shape (D', d): the basis, then mixtures of outlier, relevant, irrelevant patterns.

        If the basis has further levels, theirs follow: shape (H D', H d), in blocks.
        """
        if basis.further:
            blocks = [self.dictionary(level) for level in basis.levels]
            (rows, dimension), levels = blocks[0].shape, len(blocks)
            whole = np.zeros((levels, rows, levels, dimension))
            for h, block in enumerate(blocks):
                whole[h, :, h] = block
            return whole.reshape(levels * rows, levels * dimension)
        rows = [basis.vectors, self.outliers.mixture_vectors(self.patterns, basis)]
        relevant, irrelevant = self.patterns.relevant, self.patterns.irrelevant
        if self.relevant_mixtures:
            rows.append(np.asarray(self.relevant_mixtures) @ basis.vectors[:relevant])
        if self.irrelevant_mixtures:
            first = relevant + irrelevant - len(self.irrelevant_mixtures[0])  # 0 if they mix the µ too
            rows.append(np.asarray(self.irrelevant_mixtures) @ basis.vectors[first : relevant + irrelevant])
        return np.concatenate(rows)

    def draw(
        self,
        seeds: Sequence[int],
        stream: Stream,
        *,
        step: int = 0,
        first: int = 0,
        count: int = 1,
        dtype: DTypeLike = np.float32,
    ) -> PromptBatch:
        """Draw prompts ``first`` … ``first + count − 1`` of a step, for each seed.

        This is compiled, except for users' functions; `iclab.prompts.readable` draws the same bits in numpy.
        """
        check_counters(seeds, step, first, count)
        if self.levels > 1:
            if high := [seed for seed in seeds if seed >= LEVEL]:
                raise InputError(f"seed = {high[0]}: must be below 2^28 for prompts of several levels")
            which: dict[str, Any] = {"step": step, "first": first, "count": count, "dtype": dtype}
            apart = ([seed + h * LEVEL for seed in seeds] for h in range(self.levels))
            return join_levels([self.draw_level(level, stream, **which) for level in apart], self.rows)
        return self.draw_level(seeds, stream, step=step, first=first, count=count, dtype=dtype)

    def draw_level(
        self, seeds: Sequence[int], stream: Stream, *, step: int, first: int, count: int, dtype: DTypeLike
    ) -> PromptBatch:
        """Draw one level, that of the seeds given, as prompts by themselves."""
        if (table := self.patterns.table) is not None:
            which: dict[str, Any] = {"step": step, "first": first, "count": count, "dtype": dtype}
            return table_draws.draw(self, table, seeds, stream, **which)
        functions = not (isinstance(self.outliers.labels, str) and isinstance(self.outliers.placement, str))
        if functions or np.dtype(dtype) not in (np.float32, np.float64):
            return readable.draw(self, seeds, stream, step=step, first=first, count=count, dtype=dtype)
        from iclab.prompts import batch_kernels  # imported late, because numba takes long to import

        return batch_kernels.draw(self, seeds, stream, step=step, first=first, count=count, dtype=dtype)
