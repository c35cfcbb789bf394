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
    word 1   for the query: which outlier pattern

Changing this assignment changes every result: bump `VERSION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, model_validator

from iclab.config import Config
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, ball, bernoulli, integers, symmetric, uniform, words
from iclab.prompts.outliers import Examples, Outliers, exactly
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
    relevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T (12): M1' mixtures Σ k_i µ_i that replace the µ in prompts."""
    irrelevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T Theorem 3.4: mixtures ν' of the ν that replace the ν in prompts."""
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
            for mixture in mixtures:
                if len(mixture) != known or not np.isfinite(mixture).all():
                    raise ValueError(
                        f"{kind}_mixtures = {mixture}: needs one finite weight for each of the {known} {kind} patterns"
                    )
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
        return self

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
        return self.label_dimension or 1

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
        return ""

    def dictionary(self, basis: Basis) -> NDArray[np.float64]:
        """Return the dictionary, shape (D', d): the basis, then mixtures of outlier, relevant, irrelevant patterns."""
        rows = [basis.vectors, self.outliers.mixture_vectors(self.patterns, basis)]
        relevant, irrelevant = self.patterns.relevant, self.patterns.irrelevant
        if self.relevant_mixtures:
            rows.append(np.asarray(self.relevant_mixtures) @ basis.vectors[:relevant])
        if self.irrelevant_mixtures:
            rows.append(np.asarray(self.irrelevant_mixtures) @ basis.vectors[relevant : relevant + irrelevant])
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
        """Draw prompts ``first`` … ``first + count − 1`` of a step, for each seed."""
        source = _Source(seeds, stream, step, first, count)
        block = source.words(self.context_length + 1)  # (S, B, l + 1, 4)
        task, query_side = self._draw_tasks(source, block)
        relevant, truth = self._draw_relevant(source, block, task, query_side)
        irrelevant = integers(block[..., 1], len(self.irrelevant_mixtures) or self.patterns.irrelevant)
        outlier, outlier_row, shown = self._draw_outliers(source, block, relevant, irrelevant, truth)
        query_strength, query_row = self._draw_query_outlier(source)
        labels, true_labels = self._zero_labels(relevant.shape, dtype), self._zero_labels(outlier.shape, dtype)
        labels[..., :-1, 0] = self.label_norm * self._add_label_noise(source, outlier, shown)
        true_labels[..., 0] = self.label_norm * truth[..., :-1]
        strength = np.concatenate([outlier * self.outliers.scale, query_strength], axis=-1)
        return PromptBatch(
            index=self._rows(relevant, irrelevant, np.concatenate([outlier_row, query_row], axis=-1)),
            coefficient=self._draw_coefficients(source, block, strength, dtype),
            labels=labels,
            target=truth[..., -1:].astype(dtype),
            outlier=outlier,
            true_labels=true_labels,
            task=task,
            noise=self._draw_noise(source, dtype),
        )

    # The steps of a draw. S seeds, B prompts, l examples; the module docstring says which word decides what.

    def _draw_tasks(self, source: _Source, block: NDArray[np.uint32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw the task (S, B, 2) and the side of the query (S, B): 0 for +1, 1 for −1."""
        if self.balance == "stratified":
            start = words(source.seeds, source.stream, step=source.step, slot=2)[:, 0, :1, 0]  # (S, 1): one per step
            return self._in_turn(start, np.arange(source.first, source.first + source.count))
        side = (block[..., -1, 0] >> np.uint32(31)).astype(np.int64)
        return self.pairs[integers(block[..., -1, 3], len(self.pairs))], side

    def _in_turn(
        self, start: NDArray[np.uint32], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Go through the 2·|tasks| combinations of task and query side in turn, from a random start."""
        pairs = self.pairs
        turn = (integers(start, 2 * len(pairs)) + index) % (2 * len(pairs))  # (S, B)
        return pairs[turn // 2], turn % 2

    def _draw_relevant(
        self, source: _Source, block: NDArray[np.uint32], task: NDArray[np.int32], query_side: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Draw the relevant pattern of every token and its true label, both (S, B, l + 1)."""
        negative = (block[..., 0] >> np.uint32(31)).astype(np.bool_)  # whether the token carries the −1 pattern
        negative[..., -1] = query_side
        relevant = np.where(negative, task[..., 1:], task[..., :1])
        truth = np.where(negative, -1.0, 1.0)
        if self.has_others:
            more, count = source.words(self.context_length, slot=3), self.relevant_count
            own = bernoulli(more[..., 0], self.relevant_fraction) if count is None else exactly(more[..., 0], count)
            other = ~own  # (S, B, l): carries a pattern outside the task
            relevant[..., :-1] = np.where(other, self._other_patterns(more[..., 1], task), relevant[..., :-1])
            coin = np.where(more[..., 2] >> np.uint32(31), -1.0, 1.0)
            truth[..., :-1] = np.where(other, coin, truth[..., :-1])
        return relevant, truth

    def _other_patterns(self, word: NDArray[np.uint32], task: NDArray[np.int32]) -> NDArray[np.int64]:
        """Choose a relevant pattern that does not belong to the task, (S, B, l)."""
        low, high = np.sort(task, axis=-1)[..., None, 0], np.sort(task, axis=-1)[..., None, 1]
        other = integers(word, self.relevant - 2)
        other += other >= low
        return other + (other >= high)

    def _draw_outliers(
        self,
        source: _Source,
        block: NDArray[np.uint32],
        relevant: NDArray[np.int32],
        irrelevant: NDArray[np.int64],
        truth: NDArray[np.float64],
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
        """Draw which examples are outliers, their dictionary rows (0 if clean) and the labels shown, all (S, B, l)."""
        labels = truth[..., :-1]
        if not self.outliers.present:
            return np.zeros(labels.shape, dtype=np.bool_), np.zeros(labels.shape, dtype=np.int64), labels

        def uniform_for_rule(word: int) -> NDArray[np.float64]:  # from a block of its own, for users' rules
            return uniform(source.words(self.context_length, slot=1)[..., word])

        choice = block[..., :-1, 0]
        outlier = self.outliers.choose(block[..., :-1, 3], lambda: uniform_for_rule(0))
        first_row, rows = self.outliers.rows(self.patterns)
        outlier_pattern = integers(choice, rows, bits=30)
        examples = Examples(
            relevant=relevant[..., :-1],
            irrelevant=irrelevant[..., :-1],
            outlier=outlier,
            outlier_pattern=outlier_pattern,
            labels=labels,
            uniform=uniform_for_rule(1) if not isinstance(self.outliers.labels, str) else np.empty(0),
        )
        coin = np.where(choice >> np.uint32(30) & np.uint32(1), -1.0, 1.0)
        shown = self.outliers.show(examples, coin)
        return outlier, np.where(outlier, first_row + outlier_pattern, 0), shown

    def _draw_query_outlier(self, source: _Source) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Draw the strength of the query's outlier pattern and its dictionary row (both 0 if clean), (S, B, 1)."""
        shape = (len(source.seeds), source.count, 1)
        if not self.outliers.query:
            return np.zeros(shape), np.zeros(shape, dtype=np.int64)
        word = source.further(self.context_length + 1)[..., -1:, :]
        corrupted = bernoulli(word[..., 0], self.outliers.query)
        first_row, rows = self.outliers.rows(self.patterns)
        strength = np.where(corrupted, self.outliers.scale, 0.0)
        return strength, np.where(corrupted, first_row + integers(word[..., 1], rows), 0)

    def _add_label_noise(
        self, source: _Source, outlier: NDArray[np.bool_], shown: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Turn the labels of some clean examples, (S, B, l)."""
        if not self.label_noise:
            return shown
        noisy = bernoulli(source.further(self.context_length)[..., 0], self.label_noise)
        return np.where(noisy & ~outlier, -shown, shown)

    def _rows(
        self, relevant: NDArray[np.int32], irrelevant: NDArray[np.int64], outlier_row: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the dictionary rows of every token, (S, B, l + 1, 3)."""
        index = np.zeros((*relevant.shape, 3), dtype=np.int32)
        index[..., 0], index[..., 1] = relevant, self.patterns.relevant + irrelevant
        index[..., 2] = outlier_row
        first_mixture = self.patterns.count + len(self.outliers.mixtures)
        if self.relevant_mixtures:
            index[..., 0] += first_mixture
        if self.irrelevant_mixtures:
            index[..., 1] = first_mixture + len(self.relevant_mixtures) + irrelevant
        return index

    def _draw_coefficients(
        self, source: _Source, block: NDArray[np.uint32], strength: NDArray[np.float64], dtype: DTypeLike
    ) -> NDArray[np.floating]:
        """Draw the coefficients of the dictionary rows of every token, (S, B, l + 1, 3)."""
        coefficient = np.zeros((*block.shape[:-1], 3), dtype=dtype)
        coefficient[..., 0] = 1.0
        if self.signal != (1.0, 1.0):
            low, high = self.signal
            coefficient[..., 0] = low + (high - low) * uniform(source.words(self.context_length + 1, slot=4)[..., 0])
        coefficient[..., 1] = coefficient.dtype.type(self.irrelevant_scale) * symmetric(block[..., 2]).astype(dtype)
        coefficient[..., 2] = strength
        return coefficient

    def _zero_labels(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.floating]:
        """Allocate labels (…, w), one component after the other in memory: components that stay 0 cost nothing."""
        return np.moveaxis(np.zeros((self.label_width, *shape), dtype=dtype), 0, -1)

    def _draw_noise(self, source: _Source, dtype: DTypeLike) -> NDArray[np.floating] | None:
        """Draw the noise of every token, (S, B, l + 1, d)."""
        if not self.noise:
            return None
        vectors = ball(
            source.seeds,
            source.stream,
            self.patterns.dimension,
            step=source.step,
            first=source.first,
            count=source.count,
            positions=self.context_length + 1,
            slot=5,
        )
        return (self.noise * vectors).astype(dtype)


@dataclass(frozen=True)
class _Source:
    """Which prompts to draw: the key and the counters of their random words."""

    seeds: Sequence[int]
    stream: Stream
    step: int
    first: int
    count: int

    def words(self, positions: int, slot: int = 0) -> NDArray[np.uint32]:
        """Return one block of words per prompt and position, (S, B, positions, 4)."""
        return words(
            self.seeds, self.stream, step=self.step, first=self.first, count=self.count, positions=positions, slot=slot
        )

    def further(self, positions: int) -> NDArray[np.uint32]:
        """Return one block of further words per prompt and position, (S, B, positions, 4)."""
        return words(
            self.seeds, self.stream.more, step=self.step, first=self.first, count=self.count, positions=positions
        )
