"""Whole batches of prompts, drawn by the compiled sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from iclab.prompts import prompt_kernels
from iclab.prompts.compact import PromptBatch, zero_labels
from iclab.prompts.compiling import compiled
from iclab.prompts.counters import Stream
from iclab.prompts.prompt_kernels import LANES, draw_noise, drawing, make_block

if TYPE_CHECKING:
    from iclab.prompts.distribution import Prompts


def draw(
    prompts: Prompts, seeds: Sequence[int], stream: Stream, *, step: int, first: int, count: int, dtype: DTypeLike
) -> PromptBatch:
    """Draw a batch in float32 or float64; the distribution has no users' functions."""
    numbers = drawing(prompts, dtype)
    shape, tokens = (len(seeds), count), prompts.context_length + 1
    batch = PromptBatch(
        index=np.empty((*shape, tokens, 3), dtype=np.int32),
        coefficient=np.empty((*shape, tokens, 3), dtype=dtype),
        labels=zero_labels((*shape, tokens), prompts.label_dimension or 1, dtype),
        target=np.empty((*shape, 1), dtype=dtype),
        outlier=np.empty((*shape, tokens - 1), dtype=np.bool_),
        true_labels=zero_labels((*shape, tokens - 1), prompts.label_dimension or 1, dtype),
        task=np.empty((*shape, 2), dtype=np.int32),
        noise=np.empty((*shape, tokens, prompts.patterns.dimension), dtype=dtype) if prompts.noise else None,
    )
    block = make_block(numbers)
    vector = np.empty(prompts.patterns.dimension)
    for s, seed in enumerate(seeds):
        which = (int(seed), int(stream), int(step), int(first))
        out: tuple[Any, ...] = (batch.index[s], batch.coefficient[s], batch.labels[s, ..., 0], batch.target[s, :, 0])
        fill(numbers, block, *which, *out, batch.outlier[s], batch.true_labels[s, ..., 0], batch.task[s])
        if batch.noise is not None:
            draw_noise(numbers, batch.noise[s], vector, *which)
    return batch


@compiled
def fill(drawing, p, seed, stream, step, first, index, coefficient, labels, target, outlier, true_labels, task):  # type: ignore[no-untyped-def]
    """Fill the arrays of one seed's prompts."""
    length, count = drawing.length, len(target)
    for start in range(0, count, LANES):
        prompt_kernels.draw(drawing, p, seed, stream, step, first + start)
        for lane in range(min(LANES, count - start)):
            b = start + lane
            target[b] = p.target[lane]
            task[b, 0] = p.plus[lane] - drawing.relevant_row
            task[b, 1] = p.plus[lane] + p.apart[lane] - drawing.relevant_row
            for i in range(length + 1):
                e = i * LANES + lane
                index[b, i, 0] = p.relevant[e]
                index[b, i, 1] = p.irrelevant[e]
                index[b, i, 2] = p.outlier[e]
                coefficient[b, i, 0] = p.signal[e]
                coefficient[b, i, 1] = p.kappa[e]
                coefficient[b, i, 2] = p.strength[e]
                labels[b, i] = p.label[e]
            for i in range(length):
                e = i * LANES + lane
                outlier[b, i] = p.flag[e] != 0
                true_labels[b, i] = p.truth[e]
