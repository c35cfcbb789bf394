"""Steps and measurements of deep models, compiled by numba: from weights to tables, from tables to gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep.answer_kernels import answer
from iclab.engines.fused.deep.pass_kernels import backward, forward
from iclab.engines.fused.rules import squares_of, update, weigh
from iclab.engines.fused.sum_kernels import add_attention, add_gate, tally
from iclab.prompts import Stream
from iclab.prompts.compiling import compiled, inlined, inner, reordered
from iclab.prompts.prompt_kernels import LANES, draw

ERROR, ATTENTION, GATES = 0, 1, 2
TRAIN, TEST = int(Stream.TRAIN), int(Stream.TEST)
FULL = 12
"""With at least this many active prompts in a block, the backward pass takes the block as it is."""


class Rows(NamedTuple):
    """The dictionary in coordinates of the frame: row k has values ``value[start[k]:start[k + 1]]`` in channels."""

    start: NDArray[np.int64]
    channel: NDArray[np.int64]
    value: NDArray[Any]


@inlined
def _fill_token(p, e, rows, channels, out, at):  # type: ignore[no-untyped-def]
    """Add the coordinates of a drawn token: rows of the dictionary, and the label last."""
    for n in range(rows.start[p.relevant[e]], rows.start[p.relevant[e] + 1]):
        out[at + rows.channel[n] * LANES] += p.signal[e] * rows.value[n]
    for n in range(rows.start[p.irrelevant[e]], rows.start[p.irrelevant[e] + 1]):
        out[at + rows.channel[n] * LANES] += p.kappa[e] * rows.value[n]
    if p.strength[e] != 0:
        for n in range(rows.start[p.outlier[e]], rows.start[p.outlier[e] + 1]):
            out[at + rows.channel[n] * LANES] += p.strength[e] * rows.value[n]
    out[at + (channels - 1) * LANES] = p.label[e]


@compiled
def fill_prompts(p, rows, channels, out):  # type: ignore[no-untyped-def]
    """Write all drawn prompts."""
    out[:] = out.dtype.type(0)
    for i in range(p.label.size // LANES):
        for lane in range(LANES):
            _fill_token(p, i * LANES + lane, rows, channels, out, i * channels * LANES + lane)


@inner
def _multiply_turned(out, turned, o, left, right):  # type: ignore[no-untyped-def]
    """Write leftᵀ right, (a, b), and its transpose into flat arrays from place ``o`` on."""
    rows, columns = left.shape[1], right.shape[1]
    for a in range(rows):
        row = out[o + a * columns : o + (a + 1) * columns]
        row[:] = out.dtype.type(0)
        for k in range(left.shape[0]):
            for b in range(columns):
                row[b] += left[k, a] * right[k, b]
        for b in range(columns):
            turned[o + b * rows + a] = row[b]


@compiled
def fill_tables(shape, w, tables):  # type: ignore[no-untyped-def]
    """Fill W_BᵀW_C, W_O W_V and the gates from the weights."""
    c = shape.channels
    for layer in range(shape.layers):
        for head in range(shape.heads):
            number = layer * shape.heads + head
            at = number * c * c
            _multiply_turned(tables.pairs, tables.pairs_turned, at, w.key[layer, head], w.query[layer, head])
            gates = number * shape.gates * c
            _copy_turned(tables.gate, tables.gate_turned, gates, w.gate[layer, head])
            if shape.parts > 0 and shape.gates > 1:
                _copy_turned(tables.value, tables.value_turned, gates, w.value[layer, head])
                _copy_turned(tables.output, tables.output_turned, gates, w.output[layer, head])
            elif shape.parts > 0:
                out = w.output[layer, head].T
                _multiply_turned(tables.carry, tables.carry_turned, at, out, w.value[layer, head])


@inner
def _copy_turned(out, turned, o, matrix):  # type: ignore[no-untyped-def]
    """Write a matrix and its transpose into flat arrays from place ``o`` on."""
    rows, columns = matrix.shape
    for a in range(rows):
        for b in range(columns):
            out[o + a * columns + b] = matrix[a, b]
            turned[o + b * rows + a] = matrix[a, b]


@reordered
def _add_lanes(lanes):  # type: ignore[no-untyped-def]
    """Add up the lanes of each number, into the first numbers of the same array."""
    for e in range(lanes.size // LANES):
        total = lanes.dtype.type(0)
        for lane in range(LANES):
            total += lanes[e * LANES + lane]
        lanes[e] = total


@inner
def _weigh_rows(out, weights, matrix, scale):  # type: ignore[no-untyped-def]
    """Write scale · Σ_a weight_a · row a of a square matrix."""
    out[:] = scale - scale
    for a in range(out.size):
        for b in range(out.size):
            out[b] += scale * weights[a] * matrix[a * out.size + b]


@inner
def gradients(shape, w, tables, g, scale):  # type: ignore[no-untyped-def]
    """Turn the gradients of the tables, lane by lane, into ``scale`` times those of the weights."""
    _add_lanes(tables.d_pairs)
    _add_lanes(tables.d_carry)
    _add_lanes(tables.d_gate)
    _add_lanes(tables.d_value)
    _add_lanes(tables.d_output)
    c, zero = shape.channels, tables.pairs.dtype.type(0)
    for layer in range(shape.layers):
        for head in range(shape.heads):
            at = (layer * shape.heads + head) * c * c
            key, query = w.key[layer, head], w.query[layer, head]
            d_pairs, turned = tables.d_pairs[at : at + c * c], tables.pairs_turned[at : at + c * c]
            for a in range(c):
                for b in range(c):
                    turned[b * c + a] = d_pairs[a * c + b]  # what it holds is made anew before the next step
            for k in range(shape.rows):
                _weigh_rows(g.key[layer, head, k], query[k], turned, scale)
                _weigh_rows(g.query[layer, head, k], key[k], d_pairs, scale)
            value, output = w.value[layer, head], w.output[layer, head]
            for k in range(0 if shape.gates > 1 else shape.parts):
                for b in range(c):
                    d_value, d_output = zero, zero
                    for a in range(c):
                        d_value += output[a, k] * tables.d_carry[at + a * c + b]
                        d_output += value[k, a] * tables.d_carry[at + b * c + a]
                    g.value[layer, head, k, b] = scale * d_value
                    g.output[layer, head, b, k] = scale * d_output
    _scale(g.gate.ravel(), tables.d_gate, scale)
    if shape.gates > 1:
        _scale(g.value.ravel(), tables.d_value, scale)
        _scale(g.output.ravel(), tables.d_output, scale)


@inner
def _scale(out, numbers, factor):  # type: ignore[no-untyped-def]
    for e in range(out.size):
        out[e] = factor * numbers[e]


@inner
def _flat(w):  # type: ignore[no-untyped-def]
    return w.key.ravel(), w.query.ravel(), w.gate.ravel(), w.value.ravel(), w.output.ravel()


@inner
def _move(learner, rules, optimiser, rate, step):  # type: ignore[no-untyped-def]
    """Clip the gradient and change the weights."""
    slopes = _flat(learner.gradient)
    total = rate - rate
    for i in range(5):
        if rules.moves[i]:
            total += squares_of(slopes[i])
    norm = np.sqrt(total)
    if rules.clip > 0 and norm > rules.clip:
        for i in range(5):
            slopes[i][:] *= rules.clip / norm
    weights, average, squares = _flat(learner.weights), _flat(learner.average), _flat(learner.squares)
    for i in range(5):
        if rules.moves[i]:
            update(optimiser, weights[i], slopes[i], average[i], squares[i], rate, step)


@inner
def _gather(shape, p, rows, m, waiting, lane, count):  # type: ignore[no-untyped-def]
    """Write the prompt of one lane, with the weight of its loss, into place ``count`` of the waiting block."""
    for e in range(shape.tokens * shape.channels):
        waiting.prompt[e * LANES + count] = 0
    for i in range(shape.tokens):
        _fill_token(p, i * LANES + lane, rows, shape.channels, waiting.prompt, i * shape.channels * LANES + count)
    waiting.d_output[count] = m.d_output[lane]


@inner
def _flush(shape, tables, waiting, count):  # type: ignore[no-untyped-def]
    """Answer the waiting prompts again and take them back."""
    for lane in range(count, LANES):  # what is left of earlier prompts must be finite, and weigh nothing
        waiting.d_output[lane] = 0
    forward(shape, tables, waiting)
    backward(shape, tables, waiting)


@inner
def _judge(rules, p, m, many):  # type: ignore[no-untyped-def]
    """Fill ``d_output`` for the first ``many`` prompts of a block; return their loss, and how many have a gradient."""
    real = m.output.dtype.type
    loss, active = real(0), 0
    m.d_output[:] = real(0)
    for lane in range(many):
        more, push = weigh(rules.loss, real(1) - p.target[lane] * m.output[lane])
        loss += more
        m.d_output[lane] = -push * p.target[lane]
        active += push != real(0)
    return loss, active


@inner
def _clear_gradients(tables):  # type: ignore[no-untyped-def]
    zero = tables.pairs.dtype.type(0)
    tables.d_pairs[:] = zero
    tables.d_carry[:] = zero
    tables.d_gate[:] = zero
    tables.d_value[:] = zero
    tables.d_output[:] = zero


@compiled
def train(  # type: ignore[no-untyped-def]
    drawing, shape, rows, plan, learner, tables, m, waiting, p, seed, first, last, rules, optimiser, rates, losses
):
    """Run steps ``first`` … ``last − 1`` of one seed; return the step at which its loss is not finite, or −1.

    ``plan`` is how to answer without a forward pass; empty if there is no way.
    """
    real, batch, alone = tables.pairs.dtype.type, rules.batch, len(plan) > 0
    for step in range(first, last):
        fill_tables(shape, learner.weights, tables)
        _clear_gradients(tables)
        waiting.prompt[:] = real(0)
        loss, count = real(0), 0
        for start in range(0, batch, LANES):
            draw(drawing, p, seed, TRAIN, step, start)
            fill_prompts(p, rows, shape.channels, m.prompt)
            answer(plan, shape, tables, m) if alone else forward(shape, tables, m)
            more, active = _judge(rules, p, m, min(LANES, batch - start))
            loss += more
            if active >= FULL:
                if alone:  # the backward pass needs the tokens of every layer
                    forward(shape, tables, m)
                backward(shape, tables, m)
                continue
            for lane in range(LANES):
                if m.d_output[lane] != real(0):
                    _gather(shape, p, rows, m, waiting, lane, count)
                    count += 1
                    if count == LANES:
                        _flush(shape, tables, waiting, count)
                        count = 0
        losses[step] = loss / real(batch)
        if not np.isfinite(losses[step]):
            return step
        if count > 0:
            _flush(shape, tables, waiting, count)
        gradients(shape, learner.weights, tables, learner.gradient, real(1) / real(batch))
        _move(learner, rules, optimiser, rates[step], step)
    return -1


@compiled
def measure(drawing, shape, rows, plan, probe, tables, m, p, seed, step, first, count, sums):  # type: ignore[no-untyped-def]
    """Answer test prompts ``first`` … ``first + count − 1`` and add them to ``sums``, (names, layers, places)."""
    length, alone = drawing.length, probe == ERROR and len(plan) > 0
    for start in range(first, first + count, LANES):
        draw(drawing, p, seed, TEST, step, start)
        fill_prompts(p, rows, shape.channels, m.prompt)
        answer(plan, shape, tables, m) if alone else forward(shape, tables, m)
        for lane in range(min(LANES, first + count - start)):
            if probe == ERROR:
                tally(sums[:, 0], np.float64(p.target[lane]) * np.float64(m.output[lane]))
                continue
            for layer in range(shape.layers):
                at = layer * shape.tokens * LANES + lane
                if probe == ATTENTION:
                    add_attention(p, m.score, at, length, lane, sums[:, layer])
                else:
                    rank = 0
                    for place in range(length):
                        i = length - 1 - place
                        gate = np.float64(m.gate[at + i * LANES])
                        rank = add_gate(p, i * LANES + lane, gate, place, rank, sums[:, layer])
