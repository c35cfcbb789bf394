"""The training step of softmax attention with an MLP, compiled by numba; docs/fused.md derives the equations.

All arithmetic is in the dtype of the weights. One thread works through a seed in one order, so results do not depend on
the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.exponential import exponential
from iclab.engines.fused.matrix_kernels import WIDE, multiply, padded, turn, zeros
from iclab.engines.fused.step_kernels import HINGE, LOGISTIC, SQUARED
from iclab.prompts import Prompts
from iclab.prompts.compiling import compiled
from iclab.prompts.noise_kernels import Noise, draw_side_by_side, make_noise
from iclab.prompts.prompt_kernels import LANES, draw


class Weights(NamedTuple):
    """The weights of one seed, tokens in r + 1 coordinates (the label's last); all sizes padded."""

    key: NDArray[Any]  # (s, r + 1) W_K, in s coordinates that W_K and W_Q never leave
    query: NDArray[Any]  # (s, r + 1) W_Q; its label column stays 0
    value: NDArray[Any]  # (m_b, r + 1) W_V
    hidden: NDArray[Any]  # (m, m_b) W_O
    key_step: NDArray[Any]
    query_step: NDArray[Any]
    value_step: NDArray[Any]
    hidden_step: NDArray[Any]
    key_momentum: NDArray[Any]
    query_momentum: NDArray[Any]
    value_momentum: NDArray[Any]
    hidden_momentum: NDArray[Any]


class Tables(NamedTuple):
    """Tables over R rows, and sums over a batch; all sizes padded.

    The rows are those of the dictionary, D', then a label of 1. Noise is in no dictionary: prompts with noise have a
    row for each of the d_X axes too, from a multiple of `WIDE` on.
    """

    outer: NDArray[Any]  # (R, r + 1) coordinates of the rows; constant
    outer_turned: NDArray[Any]  # its transpose
    signs: NDArray[Any]  # (m,) a; constant
    keys: NDArray[Any]  # (s, R) W_K row_j
    queries: NDArray[Any]  # (s, R) W_Q row_q
    values: NDArray[Any]  # (m_b, R) W_V row_j
    products: NDArray[Any]  # (R, R) (W_Q row_q)ᵀ W_K row_j
    neurons: NDArray[Any]  # (m, R) W_O W_V row_j
    pairs: NDArray[Any]  # the gradient of `products`
    seen: NDArray[Any]  # the gradient of `neurons`
    pairs_turned: NDArray[Any]
    values_turned: NDArray[Any]
    small: NDArray[Any]  # (s, R) scratch: the gradient of `keys`, and of `queries`
    back: NDArray[Any]  # (m_b, R) scratch: the gradient of `values`


def make_tables(outer: NDArray[Any], signs: NDArray[Any], state: int, value: int) -> Tables:
    """Allocate tables for W_K and W_Q with ``state`` rows and W_V with ``value``; the arrays are padded."""
    rows, m, dtype = len(outer), len(signs), outer.dtype
    state, value = padded(state, value)
    shapes = ((state, rows), (state, rows), (value, rows), (rows, rows), (m, rows), (rows, rows), (m, rows))
    scratch = ((rows, rows), (rows, value), (state, rows), (value, rows))
    made = [zeros(shape, dtype) for shape in (outer.T.shape, *shapes, *scratch)]
    made[0][:] = outer.T
    return Tables(outer, made[0], signs, *made[1:])


class Pass(NamedTuple):
    """What the two passes compute for one block of prompts; arrays over tokens are flat as in `Block`."""

    read: NDArray[Any]  # (LANES, R) products of the query with every row; then their gradient
    read_turned: NDArray[Any]
    attention: NDArray[Any]  # (l · LANES,) scores, and then their softmax
    largest: NDArray[Any]  # (LANES,) the largest score
    total: NDArray[Any]  # (LANES,) the sum of e^(score − largest)
    mixed: NDArray[Any]  # (R, LANES) the coordinates of Σ attn_i p_i over rows; then their gradient
    mixed_turned: NDArray[Any]
    before: NDArray[Any]  # (m, LANES) the neurons before the ReLU; then the slope of F in them
    output: NDArray[Any]  # (LANES,) F
    push: NDArray[Any]  # (LANES,) −z ∂loss/∂(z·F); 0 for a prompt that adds nothing
    slope: NDArray[Any]  # (l · LANES,) the gradient of the attention, and then of the scores
    mean: NDArray[Any]  # (LANES,) Σ attn_i slope_i
    noise: Noise  # of size 0 without noise
    query: NDArray[Any]  # (d_X, LANES) the noise of the query


def make_pass(prompts: Prompts, rows: int, neurons: int, dtype: Any) -> Pass:
    """Allocate working memory for prompts; the other sizes are padded."""
    length = prompts.context_length
    shapes = (
        *((LANES, rows), (rows, LANES), (length * LANES,), (LANES,), (LANES,), (rows, LANES), (LANES, rows)),
        *((neurons, LANES), (LANES,), (LANES,), (length * LANES,), (LANES,)),
    )
    axes = padded(prompts.patterns.dimension)[0] if prompts.noise else 0
    made: list[Any] = [zeros(shape, dtype) for shape in (*shapes, (axes, LANES))]
    dimension, tokens = (prompts.patterns.dimension, (length + 1) * LANES) if prompts.noise else (0, 0)
    made.insert(-1, make_noise(dimension, tokens, axes, dtype))
    return Pass(*made)


@compiled
def draw_block(drawing, p, a, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw prompts ``first`` … ``first + LANES − 1`` of a step, with their noise."""
    draw(drawing, p, seed, stream, step, first)
    if a.query.size:
        draw_side_by_side(drawing, p, a.noise, seed, stream, step, first)
        for k in range(a.query.shape[0]):
            for lane in range(LANES):
                a.query[k, lane] = a.noise.vectors[k, drawing.length * LANES + lane]


@compiled
def _gather(p, noise, length, label, table, out):  # type: ignore[no-untyped-def]
    """Set ``out`` to the sum of a token's coefficients times the entries of its rows in ``table`` (R, LANES)."""
    for i in range(length):
        for lane in range(LANES):
            e = i * LANES + lane
            found = p.signal[e] * table[p.relevant[e], lane] + p.kappa[e] * table[p.irrelevant[e], lane]
            out[e] = found + p.strength[e] * table[p.outlier[e], lane] + p.label[e] * table[label, lane]
    for k in range(noise.shape[0]):
        row = table[table.shape[0] - noise.shape[0] + k]
        for i in range(length):
            for lane in range(LANES):
                out[i * LANES + lane] += noise[k, i * LANES + lane] * row[lane]


@compiled
def _scatter(p, noise, length, label, weights, table):  # type: ignore[no-untyped-def]
    """Set ``table`` (R, LANES) to the sum over tokens of their weights times their coefficients, row by row."""
    table[:] = weights.dtype.type(0)
    for i in range(length):
        for lane in range(LANES):
            e = i * LANES + lane
            weight = weights[e]
            table[p.relevant[e], lane] += weight * p.signal[e]
            table[p.irrelevant[e], lane] += weight * p.kappa[e]
            table[label, lane] += weight * p.label[e]
            if p.strength[e] != 0:
                table[p.outlier[e], lane] += weight * p.strength[e]
    for k in range(noise.shape[0]):
        row = table[table.shape[0] - noise.shape[0] + k]
        for i in range(length):
            for lane in range(LANES):
                row[lane] += weights[i * LANES + lane] * noise[k, i * LANES + lane]


@compiled
def attend(p, a, length, label, products):  # type: ignore[no-untyped-def]
    """Fill ``attention`` for a block, and the coordinates of what it returns, ``mixed``; row ``label`` is the label."""
    query, rows = length * LANES, a.read.shape[1]
    for lane in range(LANES):
        e, read = query + lane, a.read[lane]
        one, two, three = products[p.relevant[e]], products[p.irrelevant[e]], products[p.outlier[e]]
        signal, kappa, strength = p.signal[e], p.kappa[e], p.strength[e]
        for j in range(rows):
            read[j] = signal * one[j] + kappa * two[j] + strength * three[j]
    if a.query.size:
        multiply(a.read, a.query, products[rows - a.query.shape[0] :], True, True)
    turn(a.read_turned, a.read)
    _gather(p, a.noise.vectors, length, label, a.read_turned, a.attention)
    _soften(a.attention, length, a.largest, a.total)
    _scatter(p, a.noise.vectors, length, label, a.attention, a.mixed)


@compiled
def _soften(scores, length, largest, total):  # type: ignore[no-untyped-def]
    """Turn scores into their softmax; a score that is no number makes the attention none."""
    real = scores.dtype.type
    largest[:] = real(-np.inf)
    total[:] = real(0)
    for i in range(length):
        for lane in range(LANES):
            score = scores[i * LANES + lane]
            largest[lane] = score if score > largest[lane] else largest[lane]
    for i in range(length):
        for lane in range(LANES):
            below = scores[i * LANES + lane] - largest[lane]
            power = exponential(below)
            power = power if below == below else below
            scores[i * LANES + lane] = power
            total[lane] += power
    for lane in range(LANES):
        total[lane] = real(1) / total[lane]
    for i in range(length):
        for lane in range(LANES):
            scores[i * LANES + lane] *= total[lane]


@compiled
def used(a, label):  # type: ignore[no-untyped-def]
    """Return the rows of ``mixed`` that may not be 0: without noise, those up to the label."""
    return a.mixed if a.query.size else a.mixed[: label + 1]


@compiled
def fire(a, label, neurons, signs):  # type: ignore[no-untyped-def]
    """Set the output: aᵀ ReLU(W_O Σ attn_i W_V p_i)."""
    zero = a.read.dtype.type(0)
    multiply(a.before, neurons, used(a, label), False, False)
    output, before = a.output, a.before
    output[:] = zero
    for n in range(0, signs.size, 4):  # NaN stays NaN
        s0, s1, s2, s3 = signs[n], signs[n + 1], signs[n + 2], signs[n + 3]
        for lane in range(LANES):
            b0, b1, b2, b3 = before[n, lane], before[n + 1, lane], before[n + 2, lane], before[n + 3, lane]
            total = output[lane] + s0 * (zero if b0 <= zero else b0)
            total += s1 * (zero if b1 <= zero else b1)
            total += s2 * (zero if b2 <= zero else b2)
            output[lane] = total + s3 * (zero if b3 <= zero else b3)


@compiled
def backward(p, a, length, label, t):  # type: ignore[no-untyped-def]
    """Add Σ push · ∂F of a block to ``pairs`` and ``seen``."""
    zero, query, rows, before = a.read.dtype.type(0), length * LANES, a.read.shape[1], a.before
    for n in range(t.signs.size):
        sign = t.signs[n]
        for lane in range(LANES):
            before[n, lane] = sign if before[n, lane] > zero else zero
    turn(a.mixed_turned, a.mixed)
    for lane in range(LANES):
        push = a.push[lane]
        for j in range(rows):
            a.mixed_turned[lane, j] *= push
    multiply(t.seen, before, a.mixed_turned, False, True)
    multiply(a.mixed, t.neurons, before, True, False)
    _gather(p, a.noise.vectors, length, label, a.mixed, a.slope)
    _through_softmax(a.slope, a.attention, a.push, a.mean, length)
    _scatter(p, a.noise.vectors, length, label, a.slope, a.read_turned)
    turn(a.read, a.read_turned)
    for lane in range(LANES):
        if a.push[lane] != zero:
            e, read = query + lane, a.read[lane]
            _add(t.pairs[p.relevant[e]], p.signal[e], read)
            _add(t.pairs[p.irrelevant[e]], p.kappa[e], read)
            if p.strength[e] != zero:
                _add(t.pairs[p.outlier[e]], p.strength[e], read)
    if a.query.size:
        multiply(t.pairs[rows - a.query.shape[0] :], a.query, a.read, False, True)


@compiled
def _through_softmax(slope, attention, push, mean, length):  # type: ignore[no-untyped-def]
    """Turn the gradient of the attention into that of the scores."""
    mean[:] = slope.dtype.type(0)
    for i in range(length):
        for lane in range(LANES):
            mean[lane] += attention[i * LANES + lane] * slope[i * LANES + lane]
    for i in range(length):
        for lane in range(LANES):
            e = i * LANES + lane
            slope[e] = push[lane] * (attention[e] * (slope[e] - mean[lane]))


@compiled
def _add(row, factor, more):  # type: ignore[no-untyped-def]
    for j in range(row.size):
        row[j] += factor * more[j]


@compiled
def fill_tables(w, t):  # type: ignore[no-untyped-def]
    """Fill ``products`` and ``neurons`` from the weights."""
    multiply(t.keys, w.key, t.outer_turned, False, False)
    multiply(t.queries, w.query, t.outer_turned, False, False)
    multiply(t.products, t.queries, t.keys, True, False)
    multiply(t.values, w.value, t.outer_turned, False, False)
    multiply(t.neurons, w.hidden, t.values, False, False)


@compiled
def gradients(w, t):  # type: ignore[no-untyped-def]
    """Turn the gradients of ``products`` and ``neurons`` into those of the weights."""
    turn(t.pairs_turned, t.pairs)
    multiply(t.small, t.queries, t.pairs, False, False)
    multiply(w.key_step, t.small, t.outer, False, False)
    multiply(t.small, t.keys, t.pairs_turned, False, False)
    multiply(w.query_step, t.small, t.outer, False, False)
    multiply(t.back, w.hidden, t.seen, True, False)
    multiply(w.value_step, t.back, t.outer, False, False)
    turn(t.values_turned, t.values)
    multiply(w.hidden_step, t.seen, t.values_turned, False, False)


class Rules(NamedTuple):
    """What a recipe says about a step, besides the step size."""

    batch: int
    loss: int
    """HINGE, LINEAR, SQUARED or LOGISTIC."""
    clip: Any
    """The largest norm of a gradient; 0 for none."""
    momentum: Any
    key_moves: bool
    query_moves: bool
    value_moves: bool
    hidden_moves: bool


@compiled
def _squares(values, counts, sums):  # type: ignore[no-untyped-def]
    """Return the sum of squares if it ``counts``, added in `WIDE` columns first; ``sums`` (WIDE,) is scratch."""
    sums[:] = values.dtype.type(0)
    if counts:
        for i in range(values.shape[0]):
            for k in range(0, values.shape[1], WIDE):
                for j in range(WIDE):
                    sums[j] += values[i, k + j] * values[i, k + j]
    return sums.sum()


@compiled
def _move(weight, step, memory, rate, scale, momentum, fresh):  # type: ignore[no-untyped-def]
    """Add rate · scale · step to a weight, with momentum as in torch's SGD."""
    for i in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            move = scale * step[i, j]
            if momentum != 0:
                move = move if fresh else momentum * memory[i, j] + move
                memory[i, j] = move
            weight[i, j] += rate * move


@compiled
def _moves(w, rules, rate, fresh, sums):  # type: ignore[no-untyped-def]
    """Take a step of SGD."""
    scale = w.key.dtype.type(1) / w.key.dtype.type(rules.batch)
    if rules.clip > 0:
        norm = _squares(w.key_step, rules.key_moves, sums)
        norm += _squares(w.query_step, rules.query_moves, sums)
        norm += _squares(w.value_step, rules.value_moves, sums)
        norm += _squares(w.hidden_step, rules.hidden_moves, sums)
        norm = np.sqrt(norm) * scale
        if norm > rules.clip:
            scale *= rules.clip / norm
    momentum = rules.momentum
    if rules.key_moves:
        _move(w.key, w.key_step, w.key_momentum, rate, scale, momentum, fresh)
    if rules.query_moves:
        _move(w.query, w.query_step, w.query_momentum, rate, scale, momentum, fresh)
    if rules.value_moves:
        _move(w.value, w.value_step, w.value_momentum, rate, scale, momentum, fresh)
    if rules.hidden_moves:
        _move(w.hidden, w.hidden_step, w.hidden_momentum, rate, scale, momentum, fresh)


@compiled
def _judge(rule, target, a, count):  # type: ignore[no-untyped-def]
    """Set ``push`` of the first ``count`` prompts of a block, 0 for the rest; return their loss and how many push."""
    real = a.read.dtype.type
    loss, active = real(0), 0
    for lane in range(LANES):
        a.push[lane] = real(0)
        margin, push = real(1) - target[lane] * a.output[lane], real(1)
        if lane >= count or (rule == HINGE and margin <= real(0)):  # not for NaN, which must reach the loss
            continue
        if rule == SQUARED:
            loss += real(0.5) * margin * margin
            push = margin
        elif rule == LOGISTIC:
            power = np.exp(-np.abs(margin - real(1)))  # of −|z·F|, so that it cannot overflow
            loss += max(real(0), margin - real(1)) + np.log1p(power)
            push = (real(1) if margin > real(1) else power) / (real(1) + power)
        else:
            loss += margin
        a.push[lane] = push * target[lane]
        active += 1
    return loss, active


@compiled
def train(drawing, w, t, p, a, label, seed, stream, first, last, rules, rates, losses):  # type: ignore[no-untyped-def]
    """Run steps ``first`` … ``last − 1`` of one seed; return the step at which its loss is not finite, or −1."""
    real, batch, moved = w.key.dtype.type, rules.batch, True
    for step in range(first, last):
        if moved:
            fill_tables(w, t)
            t.pairs[:] = real(0)
            t.seen[:] = real(0)
        total, moving = real(0), 0
        for start in range(0, batch, LANES):
            draw_block(drawing, p, a, seed, stream, step, start)
            attend(p, a, drawing.length, label, t.products)
            fire(a, label, t.neurons, t.signs)
            loss, active = _judge(rules.loss, p.target, a, batch - start)
            total += loss
            moving += active
            if active:
                backward(p, a, drawing.length, label, t)
        losses[step] = total / real(batch)
        if not np.isfinite(losses[step]):
            return step
        moved = moving > 0 or rules.momentum != 0
        if moved:
            gradients(w, t)
            _moves(w, rules, rates[step], step == 0, a.total)
    return -1
