"""A deep model's forward pass over a block of prompts, compiled by numba; `iclab.models.deep` has the equations.

    q_i = norm(p_i),     read_i = W_BᵀW_C q_i,     weight_ij from q_jᵀ read_i,     p_i ← p_i + W_O W_V Σ_j weight_ij q_j

Only the query's label is read after the last layer, so there position i is the query alone.
"""

from __future__ import annotations

import numpy as np

from iclab.engines.fused.deep.shape import ALL, PAST
from iclab.engines.fused.lanes import (
    LANES,
    Grid,
    combine,
    copy,
    larger,
    load,
    multiply,
    spread,
    stay_apart,
    store,
)
from iclab.prompts.compiling import inner
from iclab.prompts.exponential import exponential


@inner
def first_reader(shape, layer):  # type: ignore[no-untyped-def]
    """Return the first position that a layer writes: 0, or the query in the last layer."""
    return shape.tokens - 1 if layer == shape.layers - 1 else 0


@inner
def seen(shape, i):  # type: ignore[no-untyped-def]
    """Return how many tokens position ``i`` sees, from the first on."""
    if shape.sees == PAST:
        return i + 1
    return shape.tokens if shape.sees == ALL else shape.tokens - 1


@inner
def together(shape, first):  # type: ignore[no-untyped-def]
    """Return how many positions, from ``first`` on, are worked on at a time: two that see the past, or all.

    The first of two then also gets what only the second one sees; its weight there is set to 0.
    """
    return 2 if shape.sees == PAST else max(1, shape.tokens - first)


@inner
def normalise(shape, m, layer):  # type: ignore[no-untyped-def]
    """Divide every token by its root mean square, or copy it; for `Shape.apart`, do both."""
    stay_apart()
    real, size = m.stream.dtype.type, shape.tokens * shape.channels * LANES
    start = layer * size
    if shape.apart:
        copy(m.raw, start, m.stream, 0, size)
    if not shape.normed:
        copy(m.normed, start, m.stream, 0, size)
        return
    for i in range(shape.tokens):
        at, inverse = i * shape.channels * LANES, (layer * shape.tokens + i) * LANES
        total = spread(real(0))
        for c in range(shape.channels):
            x = load(m.stream, at + c * LANES)
            total += x * x
        store(m.inverse, inverse, total / spread(shape.width) + spread(real(1e-6)))
    for e in range(layer * shape.tokens * LANES, (layer + 1) * shape.tokens * LANES):
        m.inverse[e] = real(1) / np.sqrt(m.inverse[e])
    for i in range(shape.tokens):
        at, factor = i * shape.channels * LANES, load(m.inverse, (layer * shape.tokens + i) * LANES)
        for c in range(shape.channels):
            store(m.normed, start + at + c * LANES, factor * load(m.stream, at + c * LANES))


@inner
def score(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Fill ``weight`` with the scores q_jᵀ W_BᵀW_C q_i."""
    stay_apart()
    c, t, number, step = shape.channels, shape.tokens, layer * shape.heads + head, together(shape, first)
    tokens = Grid(layer * t * c, 1, c)  # (channels, tokens)
    q, read = (layer * t + first) * c, (number * t + first) * c
    multiply(m.read, read, tables.pairs, number * c * c, c, m.normed, q, t - first, c, False)
    for i in range(first, t, step):
        many = min(step, t - i)
        row, to = number * t + i, Grid((number * t + i) * t, t, 1)
        sees = seen(shape, i + many - 1)
        combine(m.weight, to, m.read, Grid(row * c, c, 1), m.normed, tokens, many, sees, c, False)


@inner
def add_attention(shape, m, layer, head, factor):  # type: ignore[no-untyped-def]
    """Add the query's weights, as they are now, to the attention that probes read."""
    t = shape.tokens
    row = ((layer * shape.heads + head) * t + t - 1) * t * LANES
    for e in range(seen(shape, t - 1) * LANES):
        m.score[layer * t * LANES + e] += factor * m.weight[row + e]


@inner
def scale(shape, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Turn scores into linear attention."""
    stay_apart()
    t, number = shape.tokens, layer * shape.heads + head
    for i in range(first, t):
        row = (number * t + i) * t * LANES
        for e in range(row, row + seen(shape, i) * LANES):
            m.weight[e] *= shape.factor
    hide_later(shape, m.weight, number * t, first)
    add_attention(shape, m, layer, head, m.weight.dtype.type(1))
    for e in range(layer * t * LANES, (layer + 1) * t * LANES):
        m.gate[e] = m.weight.dtype.type(1)


@inner
def soften(shape, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Turn scores into their softmax."""
    stay_apart()
    real, t, number = m.weight.dtype.type, shape.tokens, layer * shape.heads + head
    for i in range(first, t):
        row, many = (number * t + i) * t * LANES, seen(shape, i)
        largest = load(m.weight, row)
        for j in range(1, many):
            largest = larger(largest, load(m.weight, row + j * LANES))
        store(m.spare, 0, largest)
        part, most = m.weight[row : row + many * LANES], m.spare[:LANES]
        for j in range(many):
            for lane in range(LANES):
                part[j * LANES + lane] = exponential(part[j * LANES + lane] - most[lane])
        total = spread(real(0))
        for j in range(many):
            total += load(m.weight, row + j * LANES)
        inverse = spread(real(1)) / total
        for j in range(many):
            store(m.weight, row + j * LANES, load(m.weight, row + j * LANES) * inverse)
    hide_later(shape, m.weight, number * t, first)
    add_attention(shape, m, layer, head, real(1) / real(shape.heads))
    for e in range(layer * t * LANES, (layer + 1) * t * LANES):
        m.gate[e] = real(1)


@inner
def open_gates(shape, tables, m, layer, head):  # type: ignore[no-untyped-def]
    """Fill ``inflow`` and ``decay`` with σ and 1 − σ of every gate at every token."""
    real, c, t, g = m.weight.dtype.type, shape.channels, shape.tokens, shape.gates
    number = layer * shape.heads + head
    start, size = number * t * g * LANES, t * g * LANES
    multiply(m.decay, number * t * g, tables.gate, number * g * c, c, m.raw, layer * t * c, t, g, False)
    inflow, decay = m.inflow[start : start + size], m.decay[start : start + size]
    for e in range(size):
        power = exponential(-decay[e])
        inflow[e] = real(1) / (real(1) + power)
        decay[e] = power * inflow[e]


@inner
def gate(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Multiply scores by the gates G_{j,i} = σ_j Π_{j < k ≤ i} (1 − σ_k)."""
    stay_apart()
    real, t, number = m.weight.dtype.type, shape.tokens, layer * shape.heads + head
    start = number * t * LANES
    open_gates(shape, tables, m, layer, head)
    add_attention(shape, m, layer, head, real(1))
    for i in range(first, t):
        row = (number * t + i) * t * LANES
        suffix = spread(real(1))
        for back in range(i + 1):
            j = i - back
            here = suffix * load(m.inflow, start + j * LANES)
            if i == t - 1:
                at, share = (layer * t + j) * LANES, spread(real(1) / real(shape.heads))
                store(m.gate, at, load(m.gate, at) + share * here)
            store(m.weight, row + j * LANES, here * load(m.weight, row + j * LANES))
            suffix *= load(m.decay, start + j * LANES)
    hide_later(shape, m.weight, number * t, first)


@inner
def hide_later(shape, weights, rows, first):  # type: ignore[no-untyped-def]
    """Set what the first of two positions gives to the second one to 0, if positions see only the past."""
    if shape.sees == PAST:
        for i in range(first, shape.tokens - 1, 2):
            store(weights, ((rows + i) * shape.tokens + i + 1) * LANES, spread(weights.dtype.type(0)))


@inner
def keep_inputs(shape, m):  # type: ignore[no-untyped-def]
    """Put the prompt's inputs back into the stream: only labels are written."""
    stay_apart()
    c = shape.channels
    for i in range(shape.tokens):
        copy(m.stream, i * c * LANES, m.prompt, i * c * LANES, (c - 1) * LANES)


@inner
def mix(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Add what a head writes to the next layer's stream, or to the output."""
    stay_apart()
    c, t, number, step = shape.channels, shape.tokens, layer * shape.heads + head, together(shape, first)
    tokens, last = layer * t * c, layer == shape.layers - 1
    for i in range(first, t, step):
        many = min(step, t - i)
        sees, weights = seen(shape, i + many - 1), Grid((number * t + i) * t, t, 1)
        if shape.parts > 0:
            to = Grid((number * t + i) * c, c, 1)
            combine(m.mixed, to, m.weight, weights, m.raw, Grid(tokens, c, 1), many, c, sees, False)
        elif last:  # only the label
            labels = Grid(tokens + c - 1, c, 1)
            combine(m.output, Grid(0, 1, 1), m.weight, weights, m.raw, labels, 1, 1, sees, True)
        elif shape.label_only:
            labels, to = Grid(tokens + c - 1, c, 1), Grid(i * c + c - 1, c, 1)
            combine(m.stream, to, m.weight, weights, m.raw, labels, many, 1, sees, True)
        else:
            to = Grid(i * c, c, 1)
            combine(m.stream, to, m.weight, weights, m.raw, Grid(tokens, c, 1), many, c, sees, True)
    if shape.parts == 0:
        return
    mixed = (number * t + first) * c
    if last:
        multiply(m.output, 0, tables.carry, (number * c + c - 1) * c, c, m.mixed, mixed, 1, 1, True)
    else:
        multiply(m.stream, 0, tables.carry, number * c * c, c, m.mixed, mixed, t, c, True)
