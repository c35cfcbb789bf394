"""Prompt distributions and their samplers: M Definitions 1 and 2.

A prompt is a pure function of (distribution, stream, seed, step, index). Each token takes one block of four words:

    word 0   bit 31: which of the task's two patterns; bit 30: a coin for random labels; the rest: which outlier pattern
    word 1   which irrelevant pattern
    word 2   κ
    word 3   whether it is an outlier; in the query, which cannot be one: the task

Changing this assignment changes every result: bump `VERSION`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, model_validator

from iclab.description import Description
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, integers, symmetric, uniform, words
from iclab.prompts.outliers import Examples, Outliers
from iclab.prompts.patterns import Basis, Patterns
from iclab.prompts.tasks import AllPairs, TaskSet

VERSION = 1
"""Part of every cell's hash: bump it when the same description gives other prompts."""


class Prompts(Description):
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
    outliers: Outliers = Outliers()
    balance: Literal["independent", "stratified"] = "independent"
    """How a batch covers tasks and query patterns: by independent draws, or in equal shares as far as they divide."""

    @model_validator(mode="after")
    def _consistent(self) -> Prompts:
        self.tasks.pairs(self.patterns.relevant)
        self.outliers.check(self.patterns, self.context_length)
        return self

    @property
    def pairs(self) -> NDArray[np.int32]:
        """The tasks as an array, shape (tasks, 2)."""
        return np.asarray(self.tasks.pairs(self.patterns.relevant), dtype=np.int32)

    def dictionary(self, basis: Basis) -> NDArray[np.float64]:
        """Return all rows a token of this distribution can use, shape (D', d): the basis, then the mixtures."""
        return np.concatenate([basis.vectors, self.outliers.mixture_vectors(self.patterns, basis)])

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
        irrelevant = integers(block[..., 1], patterns.irrelevant)

        outlier = self.outliers.choose(context[..., 3], lambda: fresh(0))  # (S, B, l)
        row, rows = self.outliers.rows(patterns)
        outlier_pattern = integers(choice[..., :-1], max(rows, 1), bits=30)
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

        index = np.zeros((*relevant.shape, 3), dtype=np.int32)
        index[..., 0] = relevant
        index[..., 1] = patterns.relevant + irrelevant
        index[..., :-1, 2] = np.where(outlier, row + outlier_pattern, 0)
        coefficient = np.zeros(index.shape, dtype=dtype)
        scale = coefficient.dtype.type(self.irrelevant_scale)
        coefficient[..., 0] = 1.0
        coefficient[..., 1] = scale * symmetric(block[..., 2]).astype(dtype)
        coefficient[..., :-1, 2] = outlier * self.outliers.scale
        labels = np.zeros((*relevant.shape, 1), dtype=dtype)
        labels[..., :-1, 0] = shown
        return PromptBatch(
            index=index,
            coefficient=coefficient,
            labels=labels,
            target=true[..., -1:].astype(dtype),
            outlier=outlier,
            true_labels=true[..., :-1, None].astype(dtype),
            task=task,
        )

    def _dealt(
        self, start: NDArray[np.uint32], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Deal the 2·|tasks| combinations of task and query side out in turn, from a random one on."""
        pairs = self.pairs
        turn = (integers(start, 2 * len(pairs)) + index) % (2 * len(pairs))  # (S, B)
        return pairs[turn // 2], turn % 2
