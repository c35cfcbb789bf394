"""Softmax attention with an MLP, forward and backward, compiled by numba; docs/fused.md derives the equations.

Prompts are worked on in blocks of `LANES`, side by side. All arithmetic is in the dtype of the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.matrix_kernels import multiply, padded, turn, zeros
from iclab.prompts import Prompts
from iclab.prompts.compiling import compiled, inlined
from iclab.prompts.exponential import exponential
from iclab.prompts.noise_kernels import Noise, draw_side_by_side, make_noise
from iclab.prompts.prompt_kernels import LANES, draw


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


@inlined
def draw_block(drawing, p, a, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw prompts ``first`` … ``first + LANES − 1`` of a step, with their noise."""
    draw(drawing, p, seed, stream, step, first)
    if a.query.size:
        draw_side_by_side(drawing, p, a.noise, seed, stream, step, first)
        for k in range(a.query.shape[0]):
            for lane in range(LANES):
                a.query[k, lane] = a.noise.vectors[k, drawing.length * LANES + lane]


@inlined
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


@inlined
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


@inlined
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


@inlined
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


@inlined
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
