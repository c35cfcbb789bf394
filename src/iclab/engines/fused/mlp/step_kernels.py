"""The training step of softmax attention with an MLP, compiled by numba; docs/fused.md derives the equations.

One thread works through a seed in one order, so results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.matrix_kernels import WIDE, multiply, padded, turn, zeros
from iclab.engines.fused.mlp.pass_kernels import attend, backward, draw_block, fire
from iclab.engines.fused.rules import weigh
from iclab.prompts.compiling import compiled, inlined
from iclab.prompts.prompt_kernels import LANES


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
        norm = _squares(w.key_step, rules.moves[0], sums)
        norm += _squares(w.query_step, rules.moves[1], sums)
        norm += _squares(w.value_step, rules.moves[2], sums)
        norm += _squares(w.hidden_step, rules.moves[3], sums)
        norm = np.sqrt(norm) * scale
        if norm > rules.clip:
            scale *= rules.clip / norm
    momentum = rules.momentum
    if rules.moves[0]:
        _move(w.key, w.key_step, w.key_momentum, rate, scale, momentum, fresh)
    if rules.moves[1]:
        _move(w.query, w.query_step, w.query_momentum, rate, scale, momentum, fresh)
    if rules.moves[2]:
        _move(w.value, w.value_step, w.value_momentum, rate, scale, momentum, fresh)
    if rules.moves[3]:
        _move(w.hidden, w.hidden_step, w.hidden_momentum, rate, scale, momentum, fresh)


@inlined
def _judge(rule, target, a, count):  # type: ignore[no-untyped-def]
    """Set ``push`` of the first ``count`` prompts of a block, 0 for the rest; return their loss and how many push."""
    real = a.read.dtype.type
    total, active = real(0), 0
    for lane in range(LANES):
        a.push[lane] = real(0)
        if lane < count:
            loss, push = weigh(rule, real(1) - target[lane] * a.output[lane])
            total += loss
            a.push[lane] = push * target[lane]
            active += push != real(0)
    return total, active


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
