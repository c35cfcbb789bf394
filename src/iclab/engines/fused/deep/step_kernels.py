"""Steps and measurements of deep models, compiled by numba: from weights to tables, from tables to gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep.answer_kernels import answer
from iclab.engines.fused.deep.pass_kernels import backward, forward
from iclab.engines.fused.lanes import Grid
from iclab.engines.fused.matrix_kernels import multiply_flat
from iclab.engines.fused.rules import squares_of, update, weigh
from iclab.engines.fused.sum_kernels import add_attention, add_gate, tally
from iclab.prompts import Stream
from iclab.prompts.compiling import compiled, inner, reordered
from iclab.prompts.prompt_kernels import LANES, draw

ERROR, ATTENTION, GATES = 0, 1, 2
TRAIN, TEST = int(Stream.TRAIN), int(Stream.TEST)
FULL = 12
"""With at least this many active prompts in a block, the backward pass takes the block as it is."""


class Rows(NamedTuple):
    """The dictionary in coordinates of the frame: entry n of row k is number ``k · width + n`` of the arrays."""

    width: int
    """How many entries a row has; 0 fills up those that have fewer."""
    place: NDArray[np.int64]
    """An entry's channel, as a place in a block."""
    value: NDArray[Any]


@compiled
def fill_prompts(p, rows, channels, out):  # type: ignore[no-untyped-def]
    """Write the coordinates of all drawn tokens: rows of the dictionary, and the label last."""
    out[:] = out.dtype.type(0)
    for i in range(p.label.size // LANES):
        start = i * channels * LANES
        for n in range(rows.width):
            for lane in range(LANES):
                e, at = i * LANES + lane, start + lane
                relevant, irrelevant = p.relevant[e] * rows.width + n, p.irrelevant[e] * rows.width + n
                outlier = p.outlier[e] * rows.width + n
                out[at + rows.place[relevant]] += p.signal[e] * rows.value[relevant]
                out[at + rows.place[irrelevant]] += p.kappa[e] * rows.value[irrelevant]
                out[at + rows.place[outlier]] += p.strength[e] * rows.value[outlier]
        for lane in range(LANES):
            out[start + (channels - 1) * LANES + lane] = p.label[i * LANES + lane]


@compiled
def fill_tables(shape, w, tables):  # type: ignore[no-untyped-def]
    """Fill W_BᵀW_C, W_O W_V and the gates from the weights."""
    c, one = shape.channels, tables.pairs.dtype.type(1)
    key, query, _, value, output = _flat(w)
    for layer in range(shape.layers):
        for head in range(shape.heads):
            number = layer * shape.heads + head
            at, keys, values = number * c * c, number * shape.rows * c, number * shape.parts * c
            square = Grid(at, c, 1)
            multiply_flat(tables.pairs, square, key, Grid(keys, 1, c), query, Grid(keys, c, 1), c, c, shape.rows, one)
            _turn(tables.pairs_turned, tables.pairs, at, c)
            gates = number * shape.gates * c
            _copy_turned(tables.gate, tables.gate_turned, gates, w.gate[layer, head])
            if shape.parts > 0 and shape.gates > 1:
                _copy_turned(tables.value, tables.value_turned, gates, w.value[layer, head])
                _copy_turned(tables.output, tables.output_turned, gates, w.output[layer, head])
            elif shape.parts > 0:
                left, right = Grid(values, shape.parts, 1), Grid(values, c, 1)
                multiply_flat(tables.carry, square, output, left, value, right, c, c, shape.parts, one)
                _turn(tables.carry_turned, tables.carry, at, c)


@inner
def _turn(out, matrix, at, size):  # type: ignore[no-untyped-def]
    """Write the transpose of a square matrix."""
    for a in range(size):
        for b in range(size):
            out[at + b * size + a] = matrix[at + a * size + b]


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
            keys, rows = Grid((layer * shape.heads + head) * shape.rows * c, c, 1), shape.rows
            _turn(tables.pairs_turned, tables.d_pairs, at, c)  # what it holds is made anew before the next step
            square = Grid(at, c, 1)
            multiply_flat(g.key.ravel(), keys, w.query.ravel(), keys, tables.pairs_turned, square, rows, c, c, scale)
            multiply_flat(g.query.ravel(), keys, w.key.ravel(), keys, tables.d_pairs, square, rows, c, c, scale)
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
def _gather(m, waiting, count):  # type: ignore[no-untyped-def]
    """Move a block's prompts with a gradient behind the ``count`` ones that wait, while there is room.

    Return how many wait then. With a count of 0, the block may be the waiting one itself.
    """
    for lane in range(LANES):
        if m.d_output[lane] != 0 and count < LANES:
            for e in range(0, m.prompt.size, LANES):
                waiting.prompt[e + count] = m.prompt[e + lane]
            push = m.d_output[lane]
            m.d_output[lane] = 0
            waiting.d_output[count] = push
            count += 1
    return count


@inner
def _take_back(shape, tables, waiting, again):  # type: ignore[no-untyped-def]
    """Take the waiting prompts back; first answer them, unless they were answered as they stand."""
    if again:
        forward(shape, tables, waiting)
    backward(shape, tables, waiting)
    waiting.d_output[:] = 0


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
        waiting.d_output[:] = real(0)
        loss, count, whole = real(0), 0, False
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
            if active > 0 and count == 0:  # the block itself waits; it is packed if another one comes
                m, waiting, count, whole = waiting, m, active, True
            elif active > 0:
                if whole:
                    count, whole = _gather(waiting, waiting, 0), False
                count = _gather(m, waiting, count)
                if count == LANES:
                    _take_back(shape, tables, waiting, not whole)
                    count = _gather(m, waiting, 0)
        losses[step] = loss / real(batch)
        if not np.isfinite(losses[step]):
            return step
        if count > 0:
            _take_back(shape, tables, waiting, alone or not whole)
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
