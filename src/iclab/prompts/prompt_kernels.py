"""The sampler, compiled by numba: prompts of any distribution without users' functions, 16 at a time.

Every engine calls `draw` inside its own compiled loops; `iclab.prompts.readable` says the same in numpy. Prompts are
worked on in blocks of `LANES`. The innermost loop runs over lanes, and the compiler turns it into vector instructions.
Nothing is allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from iclab.prompts.compiling import compiled, inlined, rounded
from iclab.prompts.counter_kernels import ball_vector, philox
from iclab.prompts.counters import LEVEL, MORE

if TYPE_CHECKING:
    from iclab.prompts.distribution import Prompts

LANES = 16

# Codes of `Drawing`, in the order of the words that `Outliers` knows.
RANDOM, FLIP, TARGET = 0, 1, 2
ANYWHERE, FARTHEST, CLOSEST = 0, 1, 2


class Drawing(NamedTuple):
    """A prompt distribution in numbers; `iclab.prompts.distribution` says what the random words mean."""

    length: int
    pairs: NDArray[np.int32]
    """(tasks, 2) the dictionary rows of the patterns for +1 and −1."""
    stratified: bool
    relevant_row: int
    """The first dictionary row of the relevant patterns in prompts."""
    relevant_rows: int
    irrelevant_row: int
    irrelevant_rows: int
    others: bool
    """Whether examples may carry relevant patterns outside the task."""
    own_threshold: np.uint64
    """relevant_fraction · 2^32: a word below it makes an example of the task."""
    own_exact: int
    """The exact number of examples of the task, or −1 for a random number."""
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
    together: bool
    """Whether the examples that are outliers are those of the first level."""
    placement: int
    real: bool
    """Whether labels are real numbers."""
    labels: int
    target: int
    varied: bool
    """Whether the coefficient of the relevant pattern varies."""
    signal_low: float
    signal_span: float
    noise: float
    """The radius of the ball that noise is drawn from."""
    irrelevant_scale: Any
    outlier_scale: Any
    label_scale: Any
    """These three have the dtype of the coefficients."""


def drawing(prompts: Prompts, dtype: DTypeLike) -> Drawing:
    """Turn a distribution into the numbers that the kernels take."""
    outliers, patterns = prompts.outliers, prompts.patterns
    real: Any = np.dtype(dtype).type
    row, rows = outliers.rows(patterns)
    low, high = prompts.signal
    return Drawing(
        length=prompts.context_length,
        pairs=prompts.pairs + np.int32(prompts.relevant_row),
        stratified=prompts.balance == "stratified",
        relevant_row=prompts.relevant_row,
        relevant_rows=prompts.relevant,
        irrelevant_row=prompts.irrelevant_row,
        irrelevant_rows=prompts.irrelevant,
        others=prompts.has_others,
        own_threshold=_threshold(prompts.relevant_fraction),
        own_exact=-1 if prompts.relevant_count is None else prompts.relevant_count,
        outlier_row=row,
        outlier_rows=max(rows, 1),
        threshold=_threshold(outliers.fraction),
        exact=-1 if outliers.count is None else outliers.count,
        query_threshold=_threshold(outliers.query),
        noise_threshold=_threshold(prompts.label_noise),
        together=outliers.together,
        placement=("random", "farthest", "closest").index(str(outliers.placement)),
        real=prompts.label_values == "real",
        labels=("random", "flip", "target").index(str(outliers.labels)),
        target=outliers.target,
        varied=prompts.signal != (1.0, 1.0),
        signal_low=low,
        signal_span=high - low,
        noise=prompts.noise,
        irrelevant_scale=real(prompts.irrelevant_scale),
        outlier_scale=real(outliers.scale),
        label_scale=real(prompts.label_norm),
    )


def _threshold(probability: float) -> np.uint64:
    return np.uint64(round(probability * 2**32))


class Block(NamedTuple):
    """`LANES` prompts of one `Drawing`.

    Arrays over tokens are flat, (tokens · LANES,): token i of a lane is element i · LANES + lane. The query is the last
    token. Noise is not here: `draw_noise` draws it.
    """

    position: NDArray[np.uint32]  # of each token; constant
    lane: NDArray[np.uint32]  # of each token; constant
    words: NDArray[np.uint32]  # (4, tokens · LANES)
    more: NDArray[np.uint32]  # (4, tokens · LANES) further words
    plus: NDArray[np.int32]  # the dictionary row of the task's pattern for +1
    apart: NDArray[np.int32]  # from there to the row of the pattern for −1
    own: NDArray[np.int32]  # 1 for a token that carries a pattern of the task
    flag: NDArray[np.int32]  # 1 for an example that is an outlier
    relevant: NDArray[np.int32]  # dictionary rows
    irrelevant: NDArray[np.int32]
    outlier: NDArray[np.int32]  # 0 without an outlier pattern
    signal: NDArray[Any]  # the coefficient of the relevant row
    kappa: NDArray[Any]  # of the irrelevant row
    strength: NDArray[Any]  # and of the outlier row, 0 without one
    label: NDArray[Any]  # the label shown, ±label_norm or a real number; 0 for the query
    truth: NDArray[Any]  # the label that the task gives
    target: NDArray[Any]  # (LANES,) the query's true label as ±1, or a real number
    left: NDArray[np.int32]  # (LANES,) scratch: examples still to choose


def make_block(drawing: Drawing) -> Block:
    """Allocate a block for prompts of a distribution."""
    size, dtype = (drawing.length + 1) * LANES, drawing.label_scale.dtype
    token = np.arange(size, dtype=np.uint32)
    words: list[Any] = [np.zeros((4, size), dtype=np.uint32) for _ in range(2)]
    whole: list[Any] = [np.zeros(size, dtype=np.int32) for _ in range(7)]
    real = [np.zeros(size, dtype=dtype) for _ in range(5)]
    lanes: list[Any] = [np.zeros(LANES, dtype=kind) for kind in (dtype, np.int32)]
    block = Block(token // LANES, token % LANES, *words, *whole, *real, *lanes)
    block.own[:] = 1  # these two stay 1 in most distributions
    block.signal[:] = 1
    return block


@inlined
def draw(drawing, p, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw prompts ``first`` … ``first + LANES − 1`` of a step into a block."""
    key, counter = (np.uint32(seed), np.uint32(stream)), (np.uint32(step), np.uint32(first))
    query = drawing.length * LANES
    draw_words(p.position, p.lane, p.words, 0, np.uint32(0), key, counter)
    _draw_tasks(drawing, p, key, counter, first)
    if drawing.together and seed >= LEVEL:
        draw_words(p.position, p.lane, p.more, 0, np.uint32(0), (np.uint32(seed % LEVEL), key[1]), counter)
        for e in range(query):
            p.words[3, e] = p.more[3, e]
    _choose(p.words[3], drawing.threshold, drawing.exact, drawing.length, p.flag, p.left)
    if drawing.placement != ANYWHERE:
        _place(drawing, p)
    _decode(drawing, p, p.words[0], p.words[1], p.words[2])
    if drawing.others:
        draw_words(p.position, p.lane, p.more, 0, np.uint32(3), key, counter)
        _choose(p.more[0], drawing.own_threshold, drawing.own_exact, drawing.length, p.own, p.left)
        _carry_others(drawing, p, p.words[0], p.more[1], p.more[2])
    if drawing.varied:
        draw_words(p.position, p.lane, p.more, 0, np.uint32(4), key, counter)
        _vary_signal(p.more[0], drawing.signal_low, drawing.signal_span, p.signal)
    noisy, corrupted = drawing.noise_threshold > np.uint64(0), drawing.query_threshold > np.uint64(0)
    if noisy or corrupted or drawing.real:
        further = (key[0], np.uint32(stream + MORE))
        start = 0 if noisy or drawing.real else query
        draw_words(p.position, p.lane, p.more, start, np.uint32(0), further, counter)
    if drawing.real:
        _give_numbers(drawing, p, p.words[0], p.more)
    if noisy:
        _turn_labels(drawing, p, p.more[0])
    if corrupted:
        _corrupt_queries(drawing, p, p.more[0], p.more[1])


@compiled
def draw_words(position, lane, words, start, slot, key, counter):  # type: ignore[no-untyped-def]
    """Fill ``words`` from element ``start`` on, one block of Philox per token."""
    (seed, stream), (step, first) = key, counter
    w0, w1, w2, w3 = words[0], words[1], words[2], words[3]
    for e in range(start, w0.size):
        a, b, c, d = philox(position[e], first + lane[e], step, slot, seed, stream)
        w0[e] = a
        w1[e] = b
        w2[e] = c
        w3[e] = d


@inlined
def _draw_tasks(drawing, p, key, counter, first):  # type: ignore[no-untyped-def]
    """Choose the task of every token and, in stratified batches, the side of the query."""
    query, tasks, zero = drawing.length * LANES, drawing.pairs.shape[0], np.uint32(0)
    start = 0
    if drawing.stratified:
        word, _, _, _ = philox(zero, zero, counter[0], np.uint32(2), key[0], key[1])
        start = np.int64((np.uint64(word) * np.uint64(2 * tasks)) >> np.uint64(32))
    for lane in range(LANES):
        if drawing.stratified:
            turn = (start + first + lane) % (2 * tasks)
            task, side = turn // 2, np.uint32(turn % 2)
            p.words[0, query + lane] = (p.words[0, query + lane] & np.uint32(0x7FFFFFFF)) | (side << np.uint32(31))
        else:
            task = np.int64((np.uint64(p.words[3, query + lane]) * np.uint64(tasks)) >> np.uint64(32))
        p.plus[lane] = drawing.pairs[task, 0]
        p.apart[lane] = drawing.pairs[task, 1] - drawing.pairs[task, 0]
    for e in range(query):
        p.plus[e + LANES] = p.plus[e]
    for e in range(query):
        p.apart[e + LANES] = p.apart[e]


@inlined
def _choose(word, threshold, exact, length, chosen, left):  # type: ignore[no-untyped-def]
    """Choose examples: each with a probability, or exactly so many (`iclab.prompts.outliers.exactly`)."""
    if exact < 0:
        for e in range(length * LANES):
            chosen[e] = np.int32(np.uint64(word[e]) < threshold)
    else:
        left[:] = exact
        for i in range(length):
            for lane in range(LANES):
                e = i * LANES + lane
                place = (np.uint64(word[e]) * np.uint64(length - i)) >> np.uint64(32)
                chosen[e] = np.int32(np.int64(place) < left[lane])
                left[lane] -= chosen[e]


@inlined
def _place(drawing, p):  # type: ignore[no-untyped-def]
    """Move the outliers to the beginning or the end."""
    length = drawing.length
    p.left[:] = 0
    for i in range(length):
        for lane in range(LANES):
            p.left[lane] += p.flag[i * LANES + lane]
    for i in range(length):
        for lane in range(LANES):
            if drawing.placement == FARTHEST:
                p.flag[i * LANES + lane] = np.int32(i < p.left[lane])
            else:
                p.flag[i * LANES + lane] = np.int32(i >= length - p.left[lane])


@inlined
def _shown(rule, target, truth, coin, flag):  # type: ignore[no-untyped-def]
    """Return the label shown, ±1: an outlier's follows the rule."""
    by_chance, by_truth, fixed = np.int32(rule == RANDOM), np.int32(rule == FLIP), np.int32(rule == TARGET)
    corrupted = by_chance * coin - by_truth * truth + fixed * np.int32(target)
    return truth + flag * (corrupted - truth)


@inlined
def _sign(word, bit):  # type: ignore[no-untyped-def]
    """Return +1 if a bit of a word is 0, and −1 if it is 1."""
    return np.int32(1) - np.int32(2) * np.int32((word >> np.uint32(bit)) & np.uint32(1))


@inlined
def _decode(drawing, p, w0, w1, w2):  # type: ignore[no-untyped-def]
    """Turn words into patterns, coefficients and labels."""
    real, two = p.kappa.dtype.type, np.int32(2)
    irrelevant, many = np.int32(drawing.irrelevant_row), np.uint64(drawing.irrelevant_rows)
    row, rows = np.int32(drawing.outlier_row), np.uint64(drawing.outlier_rows)
    for e in range(w0.size):
        word, flag = w0[e], p.flag[e]
        p.relevant[e] = p.plus[e] + np.int32(word >> np.uint32(31)) * p.apart[e]
        p.irrelevant[e] = irrelevant + np.int32((np.uint64(w1[e]) * many) >> np.uint64(32))
        odd = two * np.int32(w2[e] >> np.uint32(8)) + np.int32(1 - 2**24)
        p.kappa[e] = drawing.irrelevant_scale * (real(odd) * real(2.0**-24))
        which = np.int32((np.uint64(word & np.uint32(0x3FFFFFFF)) * rows) >> np.uint64(30))
        p.outlier[e] = flag * (row + which)
        p.strength[e] = drawing.outlier_scale if flag else real(0)
        truth = _sign(word, 31)
        p.truth[e] = drawing.label_scale * real(truth)
        shown = _shown(drawing.labels, drawing.target, truth, _sign(word, 30), flag)
        p.label[e] = drawing.label_scale * real(shown)
    query = drawing.length * LANES
    for lane in range(LANES):
        p.target[lane] = real(_sign(w0[query + lane], 31))
        p.label[query + lane] = real(0)


@inlined
def _carry_others(drawing, p, w0, which, coins):  # type: ignore[no-untyped-def]
    """Give the examples that are not the task's another relevant pattern and a random true label."""
    real, first, many = p.kappa.dtype.type, np.int32(drawing.relevant_row), np.uint64(drawing.relevant_rows - 2)
    for e in range(drawing.length * LANES):
        own, minus = p.own[e] != 0, p.plus[e] + p.apart[e]
        row = first + np.int32((np.uint64(which[e]) * many) >> np.uint64(32))
        row += np.int32(row >= min(p.plus[e], minus))
        row += np.int32(row >= max(p.plus[e], minus))
        truth = _sign(coins[e], 31)
        shown = _shown(drawing.labels, drawing.target, truth, _sign(w0[e], 30), p.flag[e])
        p.relevant[e] = p.relevant[e] if own else row
        p.truth[e] = p.truth[e] if own else drawing.label_scale * real(truth)
        p.label[e] = p.label[e] if own else drawing.label_scale * real(shown)


@inlined
def _symmetric(real, word):  # type: ignore[no-untyped-def]
    """Map a word onto (−1, 1), as `iclab.prompts.counters.symmetric` does."""
    return real(np.int32(2) * np.int32(word >> np.uint32(8)) + np.int32(1 - 2**24)) * real(2.0**-24)


@inlined
def _give_numbers(drawing, p, w0, more):  # type: ignore[no-untyped-def]
    """Make labels real numbers: two for the patterns of the task, one for every other example that draws its own."""
    real, query = p.kappa.dtype.type, drawing.length * LANES
    for e in range(query + LANES):
        at = query + e % LANES
        first, second = _symmetric(real, more[2, at]), _symmetric(real, more[3, at])
        truth = second if w0[e] >> np.uint32(31) else first
        if p.own[e] == 0:
            truth = _symmetric(real, more[2, e])
        shown = truth
        if p.flag[e]:
            shown = -truth if drawing.labels == FLIP else real(drawing.target)
            if drawing.labels == RANDOM:
                shown = _symmetric(real, more[1, e])
        p.truth[e] = truth
        p.label[e] = shown
    for lane in range(LANES):
        p.target[lane] = p.truth[query + lane]
        p.label[query + lane] = real(0)


@rounded
def _vary_signal(word, low, span, signal):  # type: ignore[no-untyped-def]
    """Draw the coefficient of the relevant pattern, in float64 as numpy does."""
    for e in range(word.size):
        signal[e] = low + span * (np.float64(word[e]) * 2.0**-32)


@inlined
def _turn_labels(drawing, p, word):  # type: ignore[no-untyped-def]
    """Let some clean examples show the opposite label."""
    for e in range(drawing.length * LANES):
        turned = np.uint64(word[e]) < drawing.noise_threshold and p.flag[e] == 0
        p.label[e] = -p.label[e] if turned else p.label[e]


@inlined
def _corrupt_queries(drawing, p, whether, which):  # type: ignore[no-untyped-def]
    """Give some queries an outlier pattern."""
    real, row, rows = p.kappa.dtype.type, np.int32(drawing.outlier_row), np.uint64(drawing.outlier_rows)
    query = drawing.length * LANES
    for e in range(query, query + LANES):
        flag = np.int32(np.uint64(whether[e]) < drawing.query_threshold)
        p.outlier[e] = flag * (row + np.int32((np.uint64(which[e]) * rows) >> np.uint64(32)))
        p.strength[e] = drawing.outlier_scale if flag else real(0)


@rounded
def draw_noise(drawing, noise, vector, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw the noise of prompts ``first`` … of a step into (prompts, tokens, d); ``vector`` (d,) is float64 scratch."""
    for b in range(noise.shape[0]):
        for position in range(noise.shape[1]):
            ball_vector(
                vector,
                np.uint32(position),
                np.uint32(first + b),
                np.uint32(step),
                np.uint32(5),
                np.uint32(seed),
                np.uint32(stream),
            )
            for i in range(vector.size):
                noise[b, position, i] = drawing.noise * vector[i]
