"""The sampler in numpy, to be read: M Definitions 1 and 2; T §3.2 and S §3.2, which add to them.

`iclab.prompts.distribution` says which word decides what. `iclab.prompts.prompt_kernels` has the same compiled, which
is what engines use; this one draws prompts with users' functions, and tests compare the two bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from iclab.prompts.compact import PromptBatch, zero_labels
from iclab.prompts.counters import LEVEL, Stream, ball, bernoulli, integers, symmetric, uniform, words
from iclab.prompts.outliers import Examples, exactly

if TYPE_CHECKING:
    from iclab.prompts.distribution import Prompts


def draw(
    prompts: Prompts,
    seeds: Sequence[int],
    stream: Stream,
    *,
    step: int = 0,
    first: int = 0,
    count: int = 1,
    dtype: DTypeLike = np.float32,
) -> PromptBatch:
    """Draw prompts ``first`` … ``first + count − 1`` of a step, for each seed; the same as `Prompts.draw_level`."""
    return _Draw(prompts, seeds, stream, step, first, count, dtype).batch()


@dataclass(frozen=True)
class _Draw:
    """Which prompts to draw, and the steps of drawing them. S seeds, B prompts, l examples."""

    prompts: Prompts
    seeds: Sequence[int]
    stream: Stream
    step: int
    first: int
    count: int
    dtype: DTypeLike

    @property
    def length(self) -> int:
        return self.prompts.context_length

    def words(self, positions: int, slot: int = 0, *, more: bool = False) -> NDArray[np.uint32]:
        """Return one block of words per prompt and position, (S, B, positions, 4)."""
        which = {"step": self.step, "first": self.first, "count": self.count, "positions": positions, "slot": slot}
        return words(self.seeds, self.stream.more if more else self.stream, **which)

    def batch(self) -> PromptBatch:
        prompts, dtype = self.prompts, self.dtype
        block = self.words(self.length + 1)  # (S, B, l + 1, 4)
        task, query_side = self.tasks(block)
        relevant, truth = self.relevant(block, task, query_side)
        irrelevant = integers(block[..., 1], prompts.irrelevant)
        outlier, outlier_row, shown = self.outliers(block, relevant, irrelevant, truth)
        query_strength, query_row = self.query_outlier()
        labels = zero_labels(relevant.shape, prompts.label_dimension or 1, dtype)
        true_labels = zero_labels(outlier.shape, prompts.label_dimension or 1, dtype)
        labels[..., :-1, 0] = prompts.label_norm * self.add_label_noise(outlier, shown)
        true_labels[..., 0] = prompts.label_norm * truth[..., :-1]
        rows = (
            prompts.relevant_row + relevant,
            prompts.irrelevant_row + irrelevant,
            np.concatenate([outlier_row, query_row], axis=-1),
        )
        strength = np.concatenate([outlier * prompts.outliers.scale, query_strength], axis=-1)
        return PromptBatch(
            index=np.stack(rows, axis=-1).astype(np.int32),
            coefficient=self.coefficients(block, strength),
            labels=labels,
            target=truth[..., -1:].astype(dtype),
            outlier=outlier,
            true_labels=true_labels,
            task=task,
            noise=self.noise(),
        )

    def tasks(self, block: NDArray[np.uint32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw the task (S, B, 2) and the side of the query (S, B): 0 for +1, 1 for −1."""
        if self.prompts.balance == "stratified":
            start = words(self.seeds, self.stream, step=self.step, slot=2)[:, 0, :1, 0]  # (S, 1): one per step
            return self.in_turn(start, np.arange(self.first, self.first + self.count))
        side = (block[..., -1, 0] >> np.uint32(31)).astype(np.int64)
        pairs = self.prompts.pairs
        return pairs[integers(block[..., -1, 3], len(pairs))], side

    def in_turn(
        self, start: NDArray[np.uint32], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Go through the 2·|tasks| combinations of task and query side in turn, from a random start."""
        pairs = self.prompts.pairs
        turn = (integers(start, 2 * len(pairs)) + index) % (2 * len(pairs))  # (S, B)
        return pairs[turn // 2], turn % 2

    def relevant(
        self, block: NDArray[np.uint32], task: NDArray[np.int32], query_side: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Draw the relevant pattern of every token and its true label, both (S, B, l + 1)."""
        negative = (block[..., 0] >> np.uint32(31)).astype(np.bool_)  # whether the token carries the −1 pattern
        negative[..., -1] = query_side
        relevant = np.where(negative, task[..., 1:], task[..., :1])
        truth = np.where(negative, -1.0, 1.0)
        if self.prompts.has_others:
            more, count = self.words(self.length, slot=3), self.prompts.relevant_count
            chance = self.prompts.relevant_fraction
            own = bernoulli(more[..., 0], chance) if count is None else exactly(more[..., 0], count)
            other = ~own  # (S, B, l): carries a pattern outside the task
            relevant[..., :-1] = np.where(other, self.other_patterns(more[..., 1], task), relevant[..., :-1])
            coin = np.where(more[..., 2] >> np.uint32(31), -1.0, 1.0)
            truth[..., :-1] = np.where(other, coin, truth[..., :-1])
        if self.prompts.label_values == "real":
            further = self.words(self.length + 1, more=True)
            first, second = symmetric(further[..., -1:, 2]), symmetric(further[..., -1:, 3])  # (S, B, 1)
            truth = np.where(negative, second, first)
            if self.prompts.has_others:
                truth[..., :-1] = np.where(other, symmetric(further[..., :-1, 2]), truth[..., :-1])
        return relevant, truth

    def other_patterns(self, word: NDArray[np.uint32], task: NDArray[np.int32]) -> NDArray[np.int64]:
        """Choose a relevant pattern that does not belong to the task, (S, B, l)."""
        low, high = np.sort(task, axis=-1)[..., None, 0], np.sort(task, axis=-1)[..., None, 1]
        other = integers(word, self.prompts.relevant - 2)
        other += other >= low
        return other + (other >= high)

    def outliers(
        self,
        block: NDArray[np.uint32],
        relevant: NDArray[np.int32],
        irrelevant: NDArray[np.int64],
        truth: NDArray[np.float64],
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
        """Draw which examples are outliers, their dictionary rows (0 if clean) and the labels shown, all (S, B, l)."""
        outliers, labels = self.prompts.outliers, truth[..., :-1]
        if not outliers.present:
            return np.zeros(labels.shape, dtype=np.bool_), np.zeros(labels.shape, dtype=np.int64), labels

        choice, chosen_by = block[..., :-1, 0], self
        if outliers.together:
            chosen_by = replace(self, seeds=[seed % LEVEL for seed in self.seeds])
        which = chosen_by.words(self.length)[..., 3] if outliers.together else block[..., :-1, 3]
        outlier = outliers.choose(which, lambda: uniform(chosen_by.words(self.length, slot=1)[..., 0]))
        first_row, rows = outliers.rows(self.prompts.patterns)
        outlier_pattern = integers(choice, rows, bits=30)
        users_rule = not isinstance(outliers.labels, str)
        examples = Examples(
            relevant=relevant[..., :-1],
            irrelevant=irrelevant[..., :-1],
            outlier=outlier,
            outlier_pattern=outlier_pattern,
            labels=labels,
            uniform=uniform(self.words(self.length, slot=1)[..., 1]) if users_rule else np.empty(0),
        )
        coin = np.where(choice >> np.uint32(30) & np.uint32(1), -1.0, 1.0)
        if self.prompts.label_values == "real":
            coin = symmetric(self.words(self.length, more=True)[..., 1])
        shown = outliers.show(examples, coin)
        return outlier, np.where(outlier, first_row + outlier_pattern, 0), shown

    def query_outlier(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Draw the strength of the query's outlier pattern and its dictionary row (both 0 if clean), (S, B, 1)."""
        outliers, shape = self.prompts.outliers, (len(self.seeds), self.count, 1)
        if not outliers.query:
            return np.zeros(shape), np.zeros(shape, dtype=np.int64)
        word = self.words(self.length + 1, more=True)[..., -1:, :]
        corrupted = bernoulli(word[..., 0], outliers.query)
        first_row, rows = outliers.rows(self.prompts.patterns)
        strength = np.where(corrupted, outliers.scale, 0.0)
        return strength, np.where(corrupted, first_row + integers(word[..., 1], rows), 0)

    def add_label_noise(self, outlier: NDArray[np.bool_], shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the labels of some clean examples, (S, B, l)."""
        if not self.prompts.label_noise:
            return shown
        noisy = bernoulli(self.words(self.length, more=True)[..., 0], self.prompts.label_noise)
        return np.where(noisy & ~outlier, -shown, shown)

    def coefficients(self, block: NDArray[np.uint32], strength: NDArray[np.float64]) -> NDArray[np.floating]:
        """Draw the coefficients of the dictionary rows of every token, (S, B, l + 1, 3)."""
        coefficient = np.zeros((*block.shape[:-1], 3), dtype=self.dtype)
        coefficient[..., 0] = 1.0
        if self.prompts.signal != (1.0, 1.0):
            low, high = self.prompts.signal
            coefficient[..., 0] = low + (high - low) * uniform(self.words(self.length + 1, slot=4)[..., 0])
        scale = coefficient.dtype.type(self.prompts.irrelevant_scale)
        coefficient[..., 1] = scale * symmetric(block[..., 2]).astype(self.dtype)
        coefficient[..., 2] = strength
        return coefficient

    def noise(self) -> NDArray[np.floating] | None:
        """Draw the noise of every token, (S, B, l + 1, d)."""
        if not self.prompts.noise:
            return None
        vectors = ball(
            self.seeds,
            self.stream,
            self.prompts.patterns.dimension,
            step=self.step,
            first=self.first,
            count=self.count,
            positions=self.length + 1,
            slot=5,
        )
        return (self.prompts.noise * vectors).astype(self.dtype)
