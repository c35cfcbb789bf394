"""The fused engine's training step and measurements, compiled by numba; docs/fused.md derives the equations.

All arithmetic is in the dtype of the weights. One thread works through a seed in one order, so results do not depend on
the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.matrix_kernels import multiply, padded, turn, zeros
from iclab.engines.fused.one_layer.gate_kernels import PRODUCT, UNGATED, open_gate
from iclab.engines.fused.rules import HINGE, LOGISTIC, SQUARED, squares_of
from iclab.engines.fused.sum_kernels import add_attention, add_gate, add_squares, tally
from iclab.prompts.compiling import compiled, inlined
from iclab.prompts.exponential import exponential
from iclab.prompts.prompt_kernels import LANES, draw

# What `measure` adds up.
ERROR, ATTENTION, GATES, SQUARES_OF = 0, 1, 2, 3


class Scratch(NamedTuple):
    """What the forward pass computes of a block of prompts; arrays over tokens are flat, as in `Block`."""

    base: NDArray[np.int32]  # where the lane of each token begins in `read`; constant
    score: NDArray[Any]
    inflow: NDArray[Any]  # for Mamba σ(wᵀp_i)
    decay: NDArray[Any]  # for Mamba 1 − σ(wᵀp_i)
    before: NDArray[Any]  # h_{i−1}
    rise: NDArray[Any]  # ∂inflow/∂logit, for gates other than Mamba's
    fall: NDArray[Any]  # ∂decay/∂logit
    turn: NDArray[Any]  # ∂decay/∂a, a the gate's trained number
    output: NDArray[Any]  # (LANES,)
    read: NDArray[Any]  # (LANES · (D' + 1),) W_Bᵀ W_C p_query times each dictionary row, then times the label


def make_scratch(length: int, rows: int, dtype: Any) -> Scratch:
    """Allocate working memory for prompts of ``length`` examples over ``rows`` dictionary rows."""
    size = (length + 1) * LANES
    base = (np.arange(size) % LANES * (rows + 1)).astype(np.int32)
    return Scratch(base, *(np.zeros(n, dtype=dtype) for n in (*[size] * 7, LANES, LANES * (rows + 1))))


@inlined
def forward(gate, p, s, length, products, logits):  # type: ignore[no-untyped-def]
    """Answer a block ``p``; ``products[q, j]`` is p_jᵀ W_Bᵀ W_C p_q over dictionary rows, ``logits[j]`` is wᵀ p_j.

    F = h_l · decay(query), h_i = decay_i · h_{i−1} + inflow_i · y_i score_i.
    """
    rows = products.shape[0]  # D'; the label is column and entry `rows`
    real, query = s.score.dtype.type, length * LANES
    for lane in range(LANES):
        q, k, kappa = p.relevant[query + lane], p.irrelevant[query + lane], p.kappa[query + lane]
        read, pattern, other = s.read[lane * (rows + 1) : (lane + 1) * (rows + 1)], products[q], products[k]
        for j in range(rows + 1):
            read[j] = pattern[j] + kappa * other[j]
        if p.strength[query + lane] != real(0):  # a query with an outlier pattern
            third = products[p.outlier[query + lane]]
            for j in range(rows + 1):
                read[j] += p.strength[query + lane] * third[j]
    for e in range(query):
        base = s.base[e]
        score = s.read[base + p.relevant[e]] + p.kappa[e] * s.read[base + p.irrelevant[e]]
        s.score[e] = score + p.strength[e] * s.read[base + p.outlier[e]] + p.label[e] * s.read[base + rows]
    s.output[:] = real(0)
    if gate.kind == UNGATED:
        for i in range(length):
            for lane in range(LANES):
                s.output[lane] += p.label[i * LANES + lane] * s.score[i * LANES + lane]
        return
    for e in range(query + LANES):
        logit = logits[p.relevant[e]] + p.kappa[e] * logits[p.irrelevant[e]]
        s.decay[e] = logit + p.strength[e] * logits[p.outlier[e]] + p.label[e] * logits[rows]
    if gate.kind == PRODUCT:
        for e in range(query + LANES):
            power = exponential(-s.decay[e])
            inflow = real(1) / (real(1) + power)
            s.inflow[e] = inflow  # σ
            s.decay[e] = power * inflow  # 1 − σ
    else:
        for e in range(query + LANES):
            s.decay[e], s.inflow[e], s.fall[e], s.rise[e], s.turn[e] = open_gate(gate, s.decay[e])
    for i in range(length):
        for lane in range(LANES):
            e = i * LANES + lane
            s.before[e] = s.output[lane]
            s.output[lane] = s.decay[e] * s.output[lane] + s.inflow[e] * (p.label[e] * s.score[e])
    for lane in range(LANES):
        s.before[query + lane] = s.output[lane]
        s.output[lane] = s.decay[query + lane] * s.output[lane]


@inlined
def backward(gate, p, s, length, lane, z, pairs, along, turned, row):  # type: ignore[no-untyped-def]
    """Add one prompt's z·∂F to the sums: ``pairs[q, j]`` = Σ z G y c_j c_q, ``along[j]`` = Σ z ∂F/∂logit c_j.

    ``turned`` is Σ z ∂F/∂a, a the gate's trained number. Mamba's two slopes are opposite, so that none are stored.
    ``z`` is −∂loss/∂F: the query's label for the hinge and the linear loss.
    """
    rows = pairs.shape[0]
    real = s.score.dtype.type
    query = length * LANES + lane
    q, other, far = p.relevant[query], p.irrelevant[query], p.kappa[query]
    row[:] = real(0)
    suffix = real(1)
    if gate.kind != UNGATED:
        suffix = s.decay[query]
        if gate.kind == PRODUCT:
            slope = -z * s.inflow[query] * s.output[lane]
        else:
            slope = z * s.fall[query] * s.before[query]
            turned[0] += z * s.turn[query] * s.before[query]
        along[q] += slope
        along[other] += slope * far
        along[p.outlier[query]] += slope * p.strength[query]
    for back in range(length):
        e = (length - 1 - back) * LANES + lane
        label, kappa, strength = p.label[e], p.kappa[e], p.strength[e]
        r, k, o = p.relevant[e], p.irrelevant[e], p.outlier[e]
        weight = z * label * suffix
        if gate.kind != UNGATED:
            weight *= s.inflow[e]
            if gate.kind == PRODUCT:
                slope = z * suffix * s.inflow[e] * s.decay[e] * (label * s.score[e] - s.before[e])
            else:
                slope = z * suffix * (s.rise[e] * (label * s.score[e]) + s.fall[e] * s.before[e])
                turned[0] += z * suffix * s.turn[e] * s.before[e]
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
    if p.strength[query] != real(0):
        for j in range(rows + 1):
            pairs[p.outlier[query], j] += p.strength[query] * row[j]


class Weights(NamedTuple):
    """The weights of one seed in r coordinates of the frame, with their gradients and momenta; matrices are padded."""

    key: NDArray[Any]  # (r, r + 1) W_B, the label's column last
    query: NDArray[Any]  # (r, r) W_C; its label column stays 0
    gate: NDArray[Any]  # (r + 1,) w
    number: NDArray[Any]  # (1,) a, a trained number of the gate
    key_step: NDArray[Any]
    query_step: NDArray[Any]
    gate_step: NDArray[Any]
    number_step: NDArray[Any]
    key_momentum: NDArray[Any]
    query_momentum: NDArray[Any]
    gate_momentum: NDArray[Any]
    number_momentum: NDArray[Any]


class Tables(NamedTuple):
    """Tables over D' dictionary rows (the label last), and sums over a batch."""

    products: NDArray[Any]  # (D', D' + 1) p_jᵀ W_Bᵀ W_C p_q
    logits: NDArray[Any]  # (D' + 1,) wᵀ p_j
    pairs: NDArray[Any]  # (D', D' + 1) Σ z G y c_j c_q
    along: NDArray[Any]  # (D' + 1,) Σ z ∂F/∂logit c_j
    row: NDArray[Any]  # (D' + 1,) scratch: one prompt's row of `pairs`
    square: NDArray[Any]  # (r, r + 1) scratch, padded: W_Cᵀ W_B, or X
    turned: NDArray[Any]  # (r + 1, r) scratch, padded: its transpose
    half: NDArray[Any]  # (D', r + 1) scratch: between rows and coordinates


def make_tables(rows: int, rank: int, dtype: Any) -> Tables:
    """Allocate tables for ``rows`` dictionary rows in ``rank`` coordinates."""
    shapes = ((rows, rows + 1), (rows + 1,), (rows, rows + 1), (rows + 1,), (rows + 1,))
    inner = (padded(rank, rank + 1), padded(rank + 1, rank), (rows, rank + 1))
    return Tables(*(zeros(shape, dtype) for shape in (*shapes, *inner)))


@inlined
def fill_tables(w, t, frame, diagonal):  # type: ignore[no-untyped-def]
    """Fill ``products`` and ``logits`` from the weights; ``frame`` (D', r) holds the dictionary rows' coordinates."""
    rows, rank = frame.shape
    zero = frame.dtype.type(0)
    multiply(t.square, w.query, w.key, True, False)  # W_Cᵀ W_B
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


@inlined
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
    turn(t.turned, t.square)
    multiply(w.query_step, w.key, t.turned, False, False)
    multiply(w.key_step, w.query, t.square, False, False)


@compiled
def _move(weight, step, memory, rate, scale, momentum, fresh):  # type: ignore[no-untyped-def]
    """Add rate · scale · step to a weight, with momentum as in torch's SGD."""
    for i in range(weight.size):
        move = scale * step[i]
        if momentum != 0:
            move = move if fresh else momentum * memory[i] + move
            memory[i] = move
        weight[i] += rate * move


@compiled
def _clear(values):  # type: ignore[no-untyped-def]
    for i in range(values.size):
        values[i] = values.dtype.type(0)


@compiled
def train(drawing, gate, w, t, p, s, frame, diagonal, seed, stream, first, last, rules, rates, losses):  # type: ignore[no-untyped-def]
    """Run steps ``first`` … ``last − 1`` of one seed; return the step at which its loss is not finite, or −1."""
    real, batch, clip, momentum = frame.dtype.type, rules.batch, rules.clip, rules.momentum
    moved = True
    for step in range(first, last):
        if moved:
            fill_tables(w, t, frame, diagonal)
            gate.trained[0] = w.number[0]
            _clear(t.pairs.ravel())
            _clear(t.along)
            _clear(w.number_step)
        loss, active = real(0), 0
        for start in range(0, batch, LANES):
            draw(drawing, p, seed, stream, step, start)
            forward(gate, p, s, drawing.length, t.products, t.logits)
            for lane in range(min(LANES, batch - start)):
                margin, pull = real(1) - p.target[lane] * s.output[lane], p.target[lane]
                if rules.loss == HINGE and margin <= real(0):  # not for NaN, which must reach the loss
                    continue
                if rules.loss == SQUARED:
                    pull = p.target[lane] - s.output[lane]  # labels may be real numbers
                    loss += real(0.5) * pull * pull
                elif rules.loss == LOGISTIC:
                    power = np.exp(-np.abs(margin - real(1)))  # of −|z·F|, so that it cannot overflow
                    loss += max(real(0), margin - real(1)) + np.log1p(power)
                    pull *= (real(1) if margin > real(1) else power) / (real(1) + power)
                else:
                    loss += margin
                active += 1
                backward(gate, p, s, drawing.length, lane, pull, t.pairs, t.along, w.number_step, t.row)
        losses[step] = loss / real(batch)
        if not np.isfinite(losses[step]):
            return step
        moved = active > 0 or momentum != 0
        if not moved:
            continue
        gradients(w, t, frame, diagonal)
        if not rules.moves[0]:
            _clear(w.key_step.ravel())
        if not rules.moves[1]:
            _clear(w.query_step.ravel())
        if not rules.moves[2]:
            _clear(w.gate_step)
        if not rules.moves[3]:
            _clear(w.number_step)
        scale, rate, fresh = real(1) / real(batch), rates[step], step == 0
        if clip > 0:
            norm = squares_of(w.key_step.ravel()) + squares_of(w.query_step.ravel()) + squares_of(w.gate_step)
            norm += squares_of(w.number_step)
            norm = np.sqrt(norm) * scale
            if norm > clip:
                scale *= clip / norm
        _move(w.key.ravel(), w.key_step.ravel(), w.key_momentum.ravel(), rate, scale, momentum, fresh)
        _move(w.query.ravel(), w.query_step.ravel(), w.query_momentum.ravel(), rate, scale, momentum, fresh)
        if gate.kind != UNGATED:
            _move(w.gate, w.gate_step, w.gate_momentum, rate, scale, momentum, fresh)
            _move(w.number, w.number_step, w.number_momentum, rate, scale, momentum, fresh)
    return -1


@compiled
def measure(drawing, gate, probe, p, s, products, logits, seed, stream, step, first, count, sums):  # type: ignore[no-untyped-def]
    """Answer test prompts ``first`` … ``first + count − 1`` and add them to ``sums``, with the rows of `FORMS`."""
    length = drawing.length
    for start in range(first, first + count, LANES):
        draw(drawing, p, seed, stream, step, start)
        forward(gate, p, s, length, products, logits)
        for lane in range(min(LANES, first + count - start)):
            if probe == ERROR:
                tally(sums, np.float64(p.target[lane]) * np.float64(s.output[lane]))
            elif probe == SQUARES_OF:
                add_squares(sums, np.float64(s.output[lane]), np.float64(p.target[lane]))
            elif probe == ATTENTION:
                add_attention(p, s.score, lane, length, lane, sums)
            else:
                suffix = 1.0 if gate.kind == UNGATED else np.float64(s.decay[length * LANES + lane])
                rank = 0
                for place in range(length):
                    e = (length - 1 - place) * LANES + lane
                    passed = suffix
                    if gate.kind != UNGATED:
                        passed *= s.inflow[e]
                        suffix *= s.decay[e]
                    rank = add_gate(p, e, passed, place, rank, sums)
