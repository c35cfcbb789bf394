"""Prompt distributions and their samplers: M Definitions 1 and 2; T §3.2 and S §3.2, which are the same with more.

A prompt is a pure function of (distribution, stream, seed, step, index). Each token takes one block of four words:

    word 0   bit 31: which of the task's two patterns; bit 30: a coin for random labels; the rest: which outlier pattern
    word 1   which irrelevant pattern
    word 2   κ
    word 3   whether it is an outlier; in the query, which cannot be one: the task

and, where examples may carry patterns that do not matter to the task, one more block:

    word 0   whether it carries one that does not;  word 1   which;  word 2   bit 31: its label

and, where the relevant pattern's share varies, a word more; where there is noise, as many blocks as it needs.

Changing this assignment changes every result: bump `VERSION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, model_validator

from iclab.config import Config
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, ball, bernoulli, integers, symmetric, uniform, words
from iclab.prompts.outliers import Examples, Outliers
from iclab.prompts.patterns import Basis, Patterns
from iclab.prompts.tasks import AllPairs, TaskSet

VERSION = 1
"""Part of every cell's hash: bump it when the same description gives other prompts."""


class Prompts(Config):
    """A distribution of prompts: l examples µ_j + κ ν_k (+ κ_a v) with labels, and a clean query.

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
    """S's λ: a token carries λ µ_j, with λ uniform between these two; the smaller one is λ*."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """S's τ: a token carries a vector drawn uniformly from the ball of this radius besides."""
    outliers: Outliers = Outliers()
    relevant_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """T's α: an example carries one of its task's two patterns with this probability, both equally likely; else one of
    the other relevant patterns, with a random label."""
    relevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T (12): prompts are made of these M1' mixtures Σ k_i µ_i instead of the µ themselves."""
    irrelevant_mixtures: tuple[tuple[float, ...], ...] = ()
    """Out of domain, T Theorem 3.4: the ν' are these mixtures of the ν, instead of the ν themselves."""
    label_dimension: Annotated[int | None, Field(ge=1)] = None
    """dY: a label is ±q in R^dY, q along its first axis; by default it is the number ±1."""
    label_norm: Annotated[float, Field(gt=0)] = 1.0
    """‖q‖, where labels are vectors."""
    balance: Literal["independent", "stratified"] = "independent"
    """How a batch covers tasks and query patterns: by independent draws, or in equal shares as far as they divide."""

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
        if self.relevant_fraction < 1 and self.relevant < 3:
            raise ValueError(
                f"relevant_fraction = {self.relevant_fraction}: below 1 it needs a third relevant pattern, there are "
                f"{self.relevant}"
            )
        if self.label_dimension is None and self.label_norm != 1:
            raise ValueError(f"label_norm = {self.label_norm}: labels are numbers unless label_dimension is given")
        self.outliers.check(self.patterns, self.context_length)
        return self

    @property
    def relevant(self) -> int:
        """How many relevant patterns prompts are made of: M1, or M1' out of domain."""
        return len(self.relevant_mixtures) or self.patterns.relevant

    @property
    def label_width(self) -> int:
        """How many numbers a label has."""
        return self.label_dimension or 1

    @property
    def pairs(self) -> NDArray[np.int32]:
        """The tasks as an array, shape (tasks, 2)."""
        return np.asarray(self.tasks.pairs(self.relevant), dtype=np.int32)

    def fits(self, other: Prompts) -> str:
        """Say why a model trained on these prompts cannot take others; an empty text if it can."""
        if other.patterns != self.patterns:
            return "prompts.patterns: must be those of the training prompts; only the rest may shift"
        if (other.label_dimension, other.label_norm) != (self.label_dimension, self.label_norm):
            return "prompts.label_dimension and label_norm: must be those of the training prompts"
        return ""

    def dictionary(self, basis: Basis) -> NDArray[np.float64]:
        """Return the rows tokens are made of, shape (D', d): the basis, mixtures of outliers, relevant, irrelevant."""
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
        length, patterns = self.context_length, self.patterns
        block = words(seeds, stream, step=step, first=first, count=count, positions=length + 1)
        choice, context = block[..., 0], block[..., :-1, :]  # (S, B, l + 1), (S, B, l, 4)

        def fresh(word: int) -> NDArray[np.float64]:  # numbers for users' rules, from blocks of their own
            own = words(seeds, stream, step=step, first=first, count=count, positions=length, slot=1)
            return uniform(own[..., word])

        if self.balance == "stratified":
            start = words(seeds, stream, step=step, slot=2)[:, 0, :1, 0]  # (S, 1) one word a step
            task, second = self._dealt(start, np.arange(first, first + count))
        else:
            task, second = (
                self.pairs[integers(block[..., -1, 3], len(self.pairs))],
                (choice[..., -1] >> np.uint32(31)).astype(np.int64),
            )
        negative = (choice >> np.uint32(31)).astype(np.bool_)  # (S, B, l + 1) does the token carry the −1 pattern
        negative[..., -1] = second  # (S, B)
        relevant = np.where(negative, task[..., 1:], task[..., :1])
        true = np.where(negative, -1.0, 1.0)
        if self.relevant_fraction < 1:
            more = words(seeds, stream, step=step, first=first, count=count, positions=length, slot=3)
            stray = ~bernoulli(more[..., 0], self.relevant_fraction)  # (S, B, l)
            relevant[..., :-1] = np.where(stray, self._others(more[..., 1], task), relevant[..., :-1])
            coin = np.where(more[..., 2] >> np.uint32(31), -1.0, 1.0)
            true[..., :-1] = np.where(stray, coin, true[..., :-1])
        irrelevant = integers(block[..., 1], len(self.irrelevant_mixtures) or patterns.irrelevant)

        index = np.zeros((*relevant.shape, 3), dtype=np.int32)
        coefficient = np.zeros(index.shape, dtype=dtype)
        outlier, shown = np.zeros(true[..., :-1].shape, dtype=np.bool_), true[..., :-1]  # (S, B, l)
        if self.outliers.present:
            outlier = self.outliers.choose(context[..., 3], lambda: fresh(0))
            row, rows = self.outliers.rows(patterns)
            outlier_pattern = integers(choice[..., :-1], rows, bits=30)
            examples = Examples(
                relevant=relevant[..., :-1],
                irrelevant=irrelevant[..., :-1],
                outlier=outlier,
                outlier_pattern=outlier_pattern,
                labels=true[..., :-1],
                uniform=fresh(1) if not isinstance(self.outliers.labels, str) else np.empty(0),
            )
            coin = np.where(choice[..., :-1] >> np.uint32(30) & np.uint32(1), -1.0, 1.0)
            shown = self.outliers.show(examples, coin)
            index[..., :-1, 2] = np.where(outlier, row + outlier_pattern, 0)
            coefficient[..., :-1, 2] = outlier * self.outliers.scale
        index[..., 0], index[..., 1] = relevant, patterns.relevant + irrelevant
        mixed = patterns.count + len(self.outliers.mixtures)  # the row of the first mixture of relevant patterns
        if self.relevant_mixtures:
            index[..., 0] += mixed
        if self.irrelevant_mixtures:
            index[..., 1] = mixed + len(self.relevant_mixtures) + irrelevant
        scale = coefficient.dtype.type(self.irrelevant_scale)
        coefficient[..., 0] = 1.0
        if self.signal != (1.0, 1.0):
            share = words(seeds, stream, step=step, first=first, count=count, positions=length + 1, slot=4)[..., 0]
            low, high = self.signal
            coefficient[..., 0] = low + (high - low) * uniform(share)
        coefficient[..., 1] = scale * symmetric(block[..., 2]).astype(dtype)
        labels, truth = self._vectors(relevant.shape, dtype), self._vectors(outlier.shape, dtype)
        labels[..., :-1, 0] = self.label_norm * shown
        truth[..., 0] = self.label_norm * true[..., :-1]
        return PromptBatch(
            index=index,
            coefficient=coefficient,
            labels=labels,
            target=true[..., -1:].astype(dtype),
            outlier=outlier,
            true_labels=truth,
            task=task,
            noise=self._noise(seeds, stream, step, first, count, dtype),
        )

    def _vectors(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.floating]:
        """Make room for labels, (…, w), number by number: those that stay 0 cost nothing."""
        return np.moveaxis(np.zeros((self.label_width, *shape), dtype=dtype), 0, -1)

    def _noise(
        self, seeds: Sequence[int], stream: Stream, step: int, first: int, count: int, dtype: DTypeLike
    ) -> NDArray[np.floating] | None:
        if not self.noise:
            return None
        places = {"step": step, "first": first, "count": count, "positions": self.context_length + 1}
        return (self.noise * ball(seeds, stream, self.patterns.dimension, slot=5, **places)).astype(dtype)

    def _others(self, word: NDArray[np.uint32], task: NDArray[np.int32]) -> NDArray[np.int64]:
        """Choose a relevant pattern that is neither of the task's two, (S, B, l)."""
        low, high = np.sort(task, axis=-1)[..., None, 0], np.sort(task, axis=-1)[..., None, 1]
        other = integers(word, self.relevant - 2)
        other += other >= low
        return other + (other >= high)

    def _dealt(
        self, start: NDArray[np.uint32], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Deal the 2·|tasks| combinations of task and query side out in turn, from a random one on."""
        pairs = self.pairs
        turn = (integers(start, 2 * len(pairs)) + index) % (2 * len(pairs))  # (S, B)
        return pairs[turn // 2], turn % 2
