"""The fused engine's inner loops (numba). `fused.py` prepares their arguments, docs/fused.md derives them.

They stand in one file because numba's cache on disk notices changes only in the file of the function it keeps.

Prompts are worked on in blocks of `LANES` side by side: every array is (…, token, lane), the innermost loop runs over
lanes, and the compiler turns it into vector instructions. Nothing is allocated inside a step. All arithmetic is in the
weights' dtype. A seed is always worked through by one thread in one order, so results do not depend on threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding
import numba
import numpy as np
from numpy.typing import NDArray

from iclab.engines.exponential import exponential
from iclab.prompts.counters import philox

LANES = 16

# Multiply and add may be contracted into one instruction; sums are never reordered.
# The compiler may make more checks that arrays do not overlap than it would by default, before it gives up on vectors.
llvmlite.binding.set_option("iclab", "-runtime-memory-check-threshold=256")
compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")

# How a model weighs its examples: F = h_l · decay(query), h_i = decay_i · h_{i−1} + inflow_i · y_i score_i.
UNGATED, PRODUCT = 0, 1
RANDOM, FLIP, TARGET = 0, 1, 2
ANYWHERE, FARTHEST, CLOSEST = 0, 1, 2
ERROR, ATTENTION, GATES = 0, 1, 2


class Drawing(NamedTuple):
    """A prompt distribution in numbers; see `iclab.prompts.distribution` for the meaning of the words."""

    length: int
    relevant: int
    irrelevant: int
    pairs: NDArray[np.int32]
    stratified: bool
    outlier_row: int
    outlier_rows: int
    threshold: np.uint64
    """A word below it makes an outlier: fraction · 2^32."""
    exact: int
    """The exact number of outliers, or −1."""
    placement: int
    labels: int
    target: int
    irrelevant_scale: Any
    outlier_scale: Any


class Scratch(NamedTuple):
    """One block of prompts: its draws and what the forward pass makes of them.

    Arrays over tokens are flat, (tokens · LANES,), lane by lane; the query is the last token.
    """

    position: NDArray[np.uint32]  # of each token, and its lane: constants
    lane: NDArray[np.uint32]
    base: NDArray[np.int32]  # where its lane begins in `read`
    words: NDArray[np.uint32]  # (4, tokens · LANES)
    plus: NDArray[np.int32]  # the task's pattern for +1, and how far away the one for −1 is
    apart: NDArray[np.int32]
    flag: NDArray[np.int32]
    relevant: NDArray[np.int32]
    irrelevant: NDArray[np.int32]
    outlier: NDArray[np.int32]
    kappa: NDArray[Any]
    strength: NDArray[Any]
    label: NDArray[Any]
    score: NDArray[Any]
    inflow: NDArray[Any]
    decay: NDArray[Any]
    before: NDArray[Any]  # h_{i−1}
    target: NDArray[Any]  # (LANES,)
    output: NDArray[Any]  # (LANES,)
    left: NDArray[np.int32]  # (LANES,)
    read: NDArray[Any]  # (LANES · (D' + 1),) W_Bᵀ W_C p_query against every dictionary row, and the label


def scratch(length: int, rows: int, dtype: Any) -> Scratch:
    """Make room for one block of prompts of ``length`` examples over ``rows`` dictionary rows."""
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
    """Draw prompts ``first`` … ``first + LANES − 1`` of a step: the same as `Prompts.draw`, lane by lane."""
    draw_words(s, np.uint32(seed), np.uint32(stream), np.uint32(step), np.uint32(first))
    _draw_tasks(drawing, s, np.uint32(seed), np.uint32(stream), np.uint32(step), first)
    _choose(drawing, s, s.words[3])
    _decode(drawing, s, s.words[0], s.words[1], s.words[2])


@compiled
def draw_words(s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Fill the block with random words: one Philox block a token."""
    w0, w1, w2, w3 = s.words[0], s.words[1], s.words[2], s.words[3]
    for e in range(w0.size):
        a, b, c, d = philox(s.position[e], first + s.lane[e], step, np.uint32(0), seed, stream)
        w0[e] = a
        w1[e] = b
        w2[e] = c
        w3[e] = d


@compiled
def _draw_tasks(drawing, s, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Give every token its task, and the query its side, where tasks are dealt out in turn."""
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
    """Say which examples are outliers, as `Outliers.choose` does; the query never is."""
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
def forward(kind, s, length, products, logits):  # type: ignore[no-untyped-def]
    """Answer a block. ``products[q, j]`` is p_jᵀ W_Bᵀ W_C p_q over dictionary rows, ``logits[j]`` is wᵀ p_j."""
    rows = products.shape[0]  # D'; column and entry `rows` belong to the label
    real, query = s.kappa.dtype.type, length * LANES
    for lane in range(LANES):
        q, k, kappa = s.relevant[query + lane], s.irrelevant[query + lane], s.kappa[query + lane]
        read, pattern, other = s.read[lane * (rows + 1) : (lane + 1) * (rows + 1)], products[q], products[k]
        for j in range(rows + 1):
            read[j] = pattern[j] + kappa * other[j]
    for e in range(query):
        base = s.base[e]
        score = s.read[base + s.relevant[e]] + s.kappa[e] * s.read[base + s.irrelevant[e]]
        s.score[e] = score + s.strength[e] * s.read[base + s.outlier[e]] + s.label[e] * s.read[base + rows]
    s.output[:] = real(0)
    if kind == UNGATED:
        for i in range(length):
            for lane in range(LANES):
                s.output[lane] += s.label[i * LANES + lane] * s.score[i * LANES + lane]
        return
    for e in range(query + LANES):
        logit = logits[s.relevant[e]] + s.kappa[e] * logits[s.irrelevant[e]]
        s.decay[e] = logit + s.strength[e] * logits[s.outlier[e]] + s.label[e] * logits[rows]
    for e in range(query + LANES):
        power = exponential(-s.decay[e])
        inflow = real(1) / (real(1) + power)
        s.inflow[e] = inflow  # σ
        s.decay[e] = power * inflow  # 1 − σ
    for i in range(length):
        for lane in range(LANES):
            e = i * LANES + lane
            s.before[e] = s.output[lane]
            s.output[lane] = s.decay[e] * s.output[lane] + s.inflow[e] * (s.label[e] * s.score[e])
    for lane in range(LANES):
        s.before[query + lane] = s.output[lane]
        s.output[lane] = s.decay[query + lane] * s.output[lane]


@compiled
def backward(kind, s, length, lane, pairs, along, row):  # type: ignore[no-untyped-def]
    """Add one prompt's z·∂F to the sums: ``pairs[q, j]`` = Σ z G y c_j c_q, ``along[j]`` = Σ z ∂F/∂logit c_j."""
    rows = pairs.shape[0]
    real, z = s.kappa.dtype.type, s.target[lane]
    query = length * LANES + lane
    q, other, far = s.relevant[query], s.irrelevant[query], s.kappa[query]
    row[:] = real(0)
    suffix = real(1)
    if kind == PRODUCT:
        suffix = s.decay[query]
        slope = -z * s.inflow[query] * s.output[lane]
        along[q] += slope
        along[other] += slope * far
    for back in range(length):
        e = (length - 1 - back) * LANES + lane
        label, kappa, strength = s.label[e], s.kappa[e], s.strength[e]
        r, k, o = s.relevant[e], s.irrelevant[e], s.outlier[e]
        weight = z * label * suffix
        if kind == PRODUCT:
            weight *= s.inflow[e]
            slope = z * suffix * s.inflow[e] * s.decay[e] * (label * s.score[e] - s.before[e])
            along[r] += slope
            along[k] += slope * kappa
            along[o] += slope * strength
            along[rows] += slope * label
            suffix *= s.decay[e]
        row[r] += weight
        row[k] += weight * kappa
        row[o] += weight * strength
        row[rows] += weight * label
    for j in range(rows + 1):
        pairs[q, j] += row[j]
        pairs[other, j] += far * row[j]


class Weights(NamedTuple):
    """One seed's weights in r frame coordinates, and room for their gradients."""

    key: NDArray[Any]  # (r, r + 1) W_B, the label's column last
    query: NDArray[Any]  # (r, r) W_C, whose label column stays 0
    gate: NDArray[Any]  # (r + 1,) w
    key_step: NDArray[Any]
    query_step: NDArray[Any]
    gate_step: NDArray[Any]
    key_momentum: NDArray[Any]
    query_momentum: NDArray[Any]
    gate_momentum: NDArray[Any]


class Sums(NamedTuple):
    """Tables over dictionary rows (D' of them, and the label last) and sums over a batch."""

    products: NDArray[Any]  # (D', D' + 1) p_jᵀ W_Bᵀ W_C p_q
    logits: NDArray[Any]  # (D' + 1,) wᵀ p_j
    pairs: NDArray[Any]  # (D', D' + 1) Σ z G y c_j c_q
    along: NDArray[Any]  # (D' + 1,) Σ z ∂F/∂logit c_j
    row: NDArray[Any]  # (D' + 1,)
    square: NDArray[Any]  # (r, r + 1)
    turned: NDArray[Any]  # (r + 1, r)
    half: NDArray[Any]  # (D', r + 1)


def room(rows: int, rank: int, dtype: Any) -> Sums:
    """Make the tables for ``rows`` dictionary rows in ``rank`` coordinates."""
    shapes = ((rows, rows + 1), (rows + 1,), (rows, rows + 1), (rows + 1,), (rows + 1,))
    inner = ((rank, rank + 1), (rank + 1, rank), (rows, rank + 1))
    return Sums(*(np.zeros(shape, dtype=dtype) for shape in (*shapes, *inner)))


@compiled
def fill_tables(w, t, frame, diagonal):  # type: ignore[no-untyped-def]
    """Fill ``products`` and ``logits`` from the weights; ``frame`` (D', r) holds the dictionary rows' coordinates."""
    rows, rank = frame.shape
    zero = frame.dtype.type(0)
    t.square[:] = zero  # W_Cᵀ W_B
    for k in range(rank):
        for q in range(rank):
            c = w.query[k, q]
            for j in range(rank + 1):
                t.square[q, j] += c * w.key[k, j]
    if diagonal:
        for q in range(rows):
            for j in range(rows):
                t.products[q, j] = frame[q, q] * frame[j, j] * t.square[q, j]
            t.products[q, rows] = frame[q, q] * t.square[q, rank]
            t.logits[q] = frame[q, q] * w.gate[q]
    else:
        for q in range(rows):
            for j in range(rank + 1):
                t.half[q, j] = zero
            for a in range(rank):
                for j in range(rank + 1):
                    t.half[q, j] += frame[q, a] * t.square[a, j]
        for q in range(rows):
            for j in range(rows):
                total = zero
                for b in range(rank):
                    total += t.half[q, b] * frame[j, b]
                t.products[q, j] = total
            t.products[q, rows] = t.half[q, rank]
            total = zero
            for b in range(rank):
                total += frame[q, b] * w.gate[b]
            t.logits[q] = total
    t.logits[rows] = w.gate[rank]


@compiled
def gradients(w, t, frame, diagonal):  # type: ignore[no-untyped-def]
    """Turn sums over dictionary rows into Σ z·∂F over weights: ∇W_C = W_B X, ∇W_B = W_C Xᵀ, X = Σ z G y p pᵀ."""
    rows, rank = frame.shape
    zero = frame.dtype.type(0)
    if diagonal:
        for a in range(rank):
            for b in range(rank):
                t.square[a, b] = frame[a, a] * frame[b, b] * t.pairs[a, b]
            t.square[a, rank] = frame[a, a] * t.pairs[a, rows]
            w.gate_step[a] = frame[a, a] * t.along[a]
    else:
        for q in range(rows):
            for b in range(rank):
                t.half[q, b] = zero
            for j in range(rows):
                for b in range(rank):
                    t.half[q, b] += t.pairs[q, j] * frame[j, b]
            t.half[q, rank] = t.pairs[q, rows]
        t.square[:] = zero
        w.gate_step[:] = zero
        for q in range(rows):
            for a in range(rank):
                for b in range(rank + 1):
                    t.square[a, b] += frame[q, a] * t.half[q, b]
                w.gate_step[a] += frame[q, a] * t.along[q]
    w.gate_step[rank] = t.along[rows]
    for a in range(rank):
        for b in range(rank + 1):
            t.turned[b, a] = t.square[a, b]
    w.query_step[:] = zero
    w.key_step[:] = zero
    for k in range(rank):
        for b in range(rank + 1):
            for a in range(rank):
                w.query_step[k, a] += w.key[k, b] * t.turned[b, a]
        for a in range(rank):
            for b in range(rank + 1):
                w.key_step[k, b] += w.query[k, a] * t.square[a, b]


@compiled
def _move(weight, step, memory, rate, scale, momentum, fresh):  # type: ignore[no-untyped-def]
    """Add rate · scale · step to a weight, by way of the momentum if there is any, as torch's SGD does."""
    for i in range(weight.size):
        move = scale * step[i]
        if momentum != 0:
            move = move if fresh else momentum * memory[i] + move
            memory[i] = move
        weight[i] += rate * move


@compiled
def _squares(values):  # type: ignore[no-untyped-def]
    total = values.dtype.type(0)
    for i in range(values.size):
        total += values[i] * values[i]
    return total


@compiled
def _clear(values):  # type: ignore[no-untyped-def]
    for i in range(values.size):
        values[i] = values.dtype.type(0)


@compiled
def train(drawing, kind, w, t, s, frame, diagonal, seed, stream, first, last, batch, rates, clip, momentum, losses):  # type: ignore[no-untyped-def]
    """Run steps ``first`` … ``last − 1`` of one seed; return the step at which its loss was not finite, or −1."""
    real = frame.dtype.type
    moved = True
    for step in range(first, last):
        if moved:
            fill_tables(w, t, frame, diagonal)
            _clear(t.pairs.ravel())
            _clear(t.along)
        loss, active = real(0), 0
        for start in range(0, batch, LANES):
            draw(drawing, s, seed, stream, step, start)
            forward(kind, s, drawing.length, t.products, t.logits)
            for lane in range(min(LANES, batch - start)):
                margin = real(1) - s.target[lane] * s.output[lane]
                if not margin <= real(0):  # true for NaN too, which must reach the loss
                    active += 1
                    loss += margin
                    backward(kind, s, drawing.length, lane, t.pairs, t.along, t.row)
        losses[step] = loss / real(batch)
        if not np.isfinite(losses[step]):
            return step
        moved = active > 0 or momentum != 0
        if not moved:
            continue
        gradients(w, t, frame, diagonal)
        scale, rate, fresh = real(1) / real(batch), rates[step], step == 0
        if clip > 0:
            norm = _squares(w.key_step.ravel()) + _squares(w.query_step.ravel()) + _squares(w.gate_step)
            norm = np.sqrt(norm) * scale
            if norm > clip:
                scale *= clip / norm
        _move(w.key.ravel(), w.key_step.ravel(), w.key_momentum.ravel(), rate, scale, momentum, fresh)
        _move(w.query.ravel(), w.query_step.ravel(), w.query_momentum.ravel(), rate, scale, momentum, fresh)
        if kind != UNGATED:
            _move(w.gate, w.gate_step, w.gate_momentum, rate, scale, momentum, fresh)
    return -1


@compiled
def measure(drawing, kind, probe, s, products, logits, seed, stream, step, first, count, sums):  # type: ignore[no-untyped-def]
    """Answer test prompts ``first`` … ``first + count − 1`` and add them to ``sums``, whose rows `fused.SUMS` names."""
    length = drawing.length
    for start in range(first, first + count, LANES):
        draw(drawing, s, seed, stream, step, start)
        forward(kind, s, length, products, logits)
        for lane in range(min(LANES, first + count - start)):
            if probe == ERROR:
                margin = np.float64(s.target[lane]) * np.float64(s.output[lane])
                sums[0, 0] += 1.0
                sums[1, 0] += margin > 0
                sums[2, 0] += margin < 0
                sums[3, 0] += margin == 0
                sums[4, 0] += np.isnan(margin)
                hinge = 0.0 if margin >= 1.0 else 1.0 - margin
                sums[5, 0] += hinge
                sums[6, 0] += hinge * hinge
            elif probe == ATTENTION:
                same, other = 0.0, 0.0
                for i in range(length):
                    e = i * LANES + lane
                    if s.relevant[e] == s.relevant[length * LANES + lane]:
                        same += s.score[e]
                    else:
                        other += s.score[e]
                sums[0, 0] += 1.0
                sums[1, 0] += same
                sums[2, 0] += other
                sums[3, 0] += same * same
                sums[4, 0] += other * other
            else:
                suffix = 1.0 if kind == UNGATED else np.float64(s.decay[length * LANES + lane])
                rank = 0
                for place in range(length):
                    e = (length - 1 - place) * LANES + lane
                    gate = suffix
                    if kind != UNGATED:
                        gate *= s.inflow[e]
                        suffix *= s.decay[e]
                    if s.flag[e]:
                        sums[2, place] += 1.0
                        sums[3, place] += gate
                    else:
                        sums[0, place] += 1.0
                        sums[1, place] += gate
                        sums[4, rank] += 1.0
                        sums[5, rank] += gate
                        rank += 1
