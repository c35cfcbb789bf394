"""The fused engine's sampler, compiled by numba: the prompts of `iclab.prompts.distribution`, 16 at a time.

Prompts are worked on in blocks of `LANES`. The innermost loop runs over lanes, and the compiler turns it into vector
instructions. Nothing is allocated inside a step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.compiling import compiled
from iclab.prompts.counter_kernels import philox
from iclab.prompts.counters import MORE

LANES = 16

# Codes of `Drawing`, in the order of the words that `Outliers` knows.
RANDOM, FLIP, TARGET = 0, 1, 2
ANYWHERE, FARTHEST, CLOSEST = 0, 1, 2


class Drawing(NamedTuple):
    """A prompt distribution in numbers; `iclab.prompts.distribution` says what the random words mean."""

    length: int
    relevant: int
    irrelevant: int
    pairs: NDArray[np.int32]
    stratified: bool
    outlier_row: int
    outlier_rows: int
    threshold: np.uint64
    """fraction · 2^32: a word below it makes an outlier."""
    exact: int
    """The exact number of outliers, or −1 for a random number."""
    query_threshold: np.uint64
    """The same as ``threshold``, for the query."""
    noise_threshold: np.uint64
    """label_noise · 2^32."""
    placement: int
    labels: int
    target: int
    irrelevant_scale: Any
    outlier_scale: Any


class Scratch(NamedTuple):
    """Working memory for one block of prompts: what is drawn, and what the forward pass computes.

    Arrays over tokens are flat, (tokens · LANES,), with the lanes of a token side by side. The query is the last token.
    """

    position: NDArray[np.uint32]  # of each token; constant
    lane: NDArray[np.uint32]  # of each token; constant
    base: NDArray[np.int32]  # where the lane of each token begins in `read`; constant
    words: NDArray[np.uint32]  # (4, tokens · LANES)
    plus: NDArray[np.int32]  # the row of the task's pattern for +1
    apart: NDArray[np.int32]  # from there to the row of the pattern for −1
    flag: NDArray[np.int32]  # 1 for an outlier
    relevant: NDArray[np.int32]  # dictionary rows
    irrelevant: NDArray[np.int32]
    outlier: NDArray[np.int32]
    kappa: NDArray[Any]  # the coefficient of the irrelevant row
    strength: NDArray[Any]  # and of the outlier row
    label: NDArray[Any]
    score: NDArray[Any]
    inflow: NDArray[Any]  # σ(wᵀp_i)
    decay: NDArray[Any]  # 1 − σ(wᵀp_i)
    before: NDArray[Any]  # h_{i−1}
    target: NDArray[Any]  # (LANES,)
    output: NDArray[Any]  # (LANES,)
    left: NDArray[np.int32]  # (LANES,) outliers still to place
    read: NDArray[Any]  # (LANES · (D' + 1),) W_Bᵀ W_C p_query times each dictionary row, then times the label


def make_scratch(length: int, rows: int, dtype: Any) -> Scratch:
    """Allocate working memory for prompts of ``length`` examples over ``rows`` dictionary rows."""
    size = (length + 1) * LANES
    token = np.arange(size, dtype=np.uint32)
    whole = [np.zeros(size, dtype=np.int32) for _ in range(6)]
    real = [np.zeros(size, dtype=dtype) for _ in range(7)]
    return Scratch(
        token // LANES,
        token % LANES,
        (token % LANES * (rows + 1)).astype(np.int32),
        np.zeros((4, size), dtype=np.uint32),
        *whole,
        *real,
        np.zeros(LANES, dtype=dtype),
        np.zeros(LANES, dtype=dtype),
        np.zeros(LANES, dtype=np.int32),
        np.zeros(LANES * (rows + 1), dtype=dtype),
    )


@compiled
def draw(drawing, s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw prompts ``first`` … ``first + LANES − 1`` of a step, the same as `Prompts.draw`."""
    draw_words(s, np.uint32(seed), np.uint32(stream), np.uint32(step), np.uint32(first))
    _draw_tasks(drawing, s, np.uint32(seed), np.uint32(stream), np.uint32(step), first)
    _choose(drawing, s, s.words[3])
    _decode(drawing, s, s.words[0], s.words[1], s.words[2])
    more = np.uint32(stream + MORE)
    if drawing.noise_threshold > np.uint64(0):
        _turn_labels(drawing, s, np.uint32(seed), more, np.uint32(step), np.uint32(first))
    if drawing.query_threshold > np.uint64(0):
        _corrupt_queries(drawing, s, np.uint32(seed), more, np.uint32(step), np.uint32(first))


@compiled
def draw_words(s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Fill the block with random words, one Philox block per token."""
    w0, w1, w2, w3 = s.words[0], s.words[1], s.words[2], s.words[3]
    for e in range(w0.size):
        a, b, c, d = philox(s.position[e], first + s.lane[e], step, np.uint32(0), seed, stream)
        w0[e] = a
        w1[e] = b
        w2[e] = c
        w3[e] = d


@compiled
def _draw_tasks(drawing, s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Choose the task of every token and, in stratified batches, the side of the query."""
    query, tasks, zero = drawing.length * LANES, drawing.pairs.shape[0], np.uint32(0)
    start = 0
    if drawing.stratified:
        word, _, _, _ = philox(zero, zero, step, np.uint32(2), seed, stream)
        start = np.int64((np.uint64(word) * np.uint64(2 * tasks)) >> np.uint64(32))
    for lane in range(LANES):
        if drawing.stratified:
            turn = (start + first + lane) % (2 * tasks)
            task, side = turn // 2, np.uint32(turn % 2)
            s.words[0, query + lane] = (s.words[0, query + lane] & np.uint32(0x7FFFFFFF)) | (side << np.uint32(31))
        else:
            task = np.int64((np.uint64(s.words[3, query + lane]) * np.uint64(tasks)) >> np.uint64(32))
        s.plus[lane] = drawing.pairs[task, 0]
        s.apart[lane] = drawing.pairs[task, 1] - drawing.pairs[task, 0]
    for e in range(query):
        s.plus[e + LANES] = s.plus[e]
    for e in range(query):
        s.apart[e + LANES] = s.apart[e]


@compiled
def _decode(drawing, s, w0, w1, w2):  # type: ignore[no-untyped-def]
    """Turn words into patterns, coefficients and labels."""
    real, one, two = s.kappa.dtype.type, np.int32(1), np.int32(2)
    relevant, irrelevant = np.int32(drawing.relevant), np.uint64(drawing.irrelevant)
    row, rows = np.int32(drawing.outlier_row), np.uint64(drawing.outlier_rows)
    by_chance = np.int32(drawing.labels == RANDOM)
    by_truth = -np.int32(drawing.labels == FLIP)
    fixed = np.int32(drawing.target) * np.int32(drawing.labels == TARGET)
    for e in range(w0.size):
        word, flag = w0[e], s.flag[e]
        side = np.int32(word >> np.uint32(31))
        s.relevant[e] = s.plus[e] + side * s.apart[e]
        s.irrelevant[e] = relevant + np.int32((np.uint64(w1[e]) * irrelevant) >> np.uint64(32))
        odd = two * np.int32(w2[e] >> np.uint32(8)) + np.int32(1 - 2**24)
        s.kappa[e] = drawing.irrelevant_scale * (real(odd) * real(2.0**-24))
        which = np.int32((np.uint64(word & np.uint32(0x3FFFFFFF)) * rows) >> np.uint64(30))
        s.outlier[e] = flag * (row + which)
        s.strength[e] = real(flag) * drawing.outlier_scale
        truth = one - two * side
        coin = one - two * np.int32((word >> np.uint32(30)) & one)
        shown = by_chance * coin + by_truth * truth + fixed
        s.label[e] = real(truth + flag * (shown - truth))
    query = drawing.length * LANES
    for lane in range(LANES):
        s.target[lane] = s.label[query + lane]
        s.label[query + lane] = real(0)


@compiled
def _choose(drawing, s, word):  # type: ignore[no-untyped-def]
    """Choose the outliers as `Outliers.choose` does; the query is never one."""
    length, query = drawing.length, drawing.length * LANES
    if drawing.exact < 0:
        for e in range(query):
            s.flag[e] = np.int32(np.uint64(word[e]) < drawing.threshold)
    else:
        s.left[:] = drawing.exact
        for i in range(length):
            for lane in range(LANES):
                e = i * LANES + lane
                place = (np.uint64(word[e]) * np.uint64(length - i)) >> np.uint64(32)
                s.flag[e] = np.int32(np.int64(place) < s.left[lane])
                s.left[lane] -= s.flag[e]
    for e in range(query, query + LANES):
        s.flag[e] = 0
    if drawing.placement == ANYWHERE:
        return
    s.left[:] = 0
    for i in range(length):
        for lane in range(LANES):
            s.left[lane] += s.flag[i * LANES + lane]
    for i in range(length):
        for lane in range(LANES):
            if drawing.placement == FARTHEST:
                s.flag[i * LANES + lane] = np.int32(i < s.left[lane])
            else:
                s.flag[i * LANES + lane] = np.int32(i >= length - s.left[lane])


@compiled
def _turn_labels(drawing, s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Let some clean examples show the opposite label."""
    real, one = s.kappa.dtype.type, np.int32(1)
    for e in range(drawing.length * LANES):
        word, _, _, _ = philox(s.position[e], first + s.lane[e], step, np.uint32(0), seed, stream)
        turned = np.int32(np.uint64(word) < drawing.noise_threshold) * (one - s.flag[e])
        s.label[e] *= real(one - np.int32(2) * turned)


@compiled
def _corrupt_queries(drawing, s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Give some queries an outlier pattern."""
    real, row, rows = s.kappa.dtype.type, np.int32(drawing.outlier_row), np.uint64(drawing.outlier_rows)
    query = drawing.length * LANES
    for e in range(query, query + LANES):
        whether, which, _, _ = philox(s.position[e], first + s.lane[e], step, np.uint32(0), seed, stream)
        flag = np.int32(np.uint64(whether) < drawing.query_threshold)
        s.outlier[e] = flag * (row + np.int32((np.uint64(which) * rows) >> np.uint64(32)))
        s.strength[e] = real(flag) * drawing.outlier_scale
