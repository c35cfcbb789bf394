"""Layers of Mamba with one gate per channel of a value, forward and backward, compiled by numba.

    v_j = W_V q_j or q_j,     mixed_ci = Σ_{j ≤ i} s_ij G_cji v_cj,     G_cji = σ_cj Π_{j < k ≤ i} (1 − σ_ck)

A channel has gates of its own, so values cannot be mixed first and carried later: W_V and W_O stay apart here.
"""

from __future__ import annotations

from iclab.engines.fused.deep.forward_kernels import add_attention, hide_later, open_gates
from iclab.engines.fused.lanes import Grid, clear, combine, load, multiply, spread, stay_apart, store
from iclab.prompts.compiling import inner
from iclab.prompts.prompt_kernels import LANES


@inner
def mix_channels(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """Add what a head writes to the stream, or to the output; ``weight`` holds its scores."""
    stay_apart()
    real, c, t, n, number = m.weight.dtype.type, shape.channels, shape.tokens, shape.gates, layer * shape.heads + head
    last = layer == shape.layers - 1
    open_gates(shape, tables, m, layer, head)
    add_attention(shape, m, layer, head, real(1))
    carried, start = m.raw, layer * t * n
    if shape.parts > 0:
        carried, start = m.carried, number * t * n
        multiply(m.carried, start, tables.value, number * n * c, c, m.raw, layer * t * c, t, n, False)
    low = n - 1 if last and shape.parts == 0 else 0  # only the label
    for i in range(first, t):
        to, row = (number * t + i) * n * LANES, (number * t + i) * t * LANES
        clear(m.mixed, to, n * LANES)
        fill_ones(m.spare, n)
        for back in range(i + 1):
            j = i - back
            gates, value, score = (number * t + j) * n * LANES, (start + j * n) * LANES, load(m.weight, row + j * LANES)
            for e in range(low * LANES, n * LANES, LANES):
                gate = load(m.spare, e) * load(m.inflow, gates + e)
                store(m.mixed, to + e, load(m.mixed, to + e) + score * gate * load(carried, value + e))
                store(m.spare, e, load(m.spare, e) * load(m.decay, gates + e))
                if i == t - 1 and e == (n - 1) * LANES:
                    at, share = (layer * t + j) * LANES, spread(real(1) / real(shape.heads))
                    store(m.gate, at, load(m.gate, at) + share * gate)
    mixed = (number * t + first) * n
    if last and shape.parts == 0:
        at = (mixed + n - 1) * LANES
        store(m.output, 0, load(m.output, 0) + load(m.mixed, at))
    elif last:
        multiply(m.output, 0, tables.output, (number * c + c - 1) * n, n, m.mixed, mixed, 1, 1, True)
    elif shape.parts > 0:
        multiply(m.stream, 0, tables.output, number * c * n, n, m.mixed, mixed, t, c, True)
    else:
        for e in range(0, t * c * LANES, LANES):
            store(m.stream, e, load(m.stream, e) + load(m.mixed, mixed * LANES + e))


@inner
def fill_ones(array, count):  # type: ignore[no-untyped-def]
    """Set the first blocks of a flat array to 1."""
    for e in range(0, count * LANES, LANES):
        store(array, e, spread(array.dtype.type(1)))


@inner
def through_channels(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """From what a head wrote to its scores, gates and values, and to the tokens through the last two."""
    stay_apart()
    c, t, n, number = shape.channels, shape.tokens, shape.gates, layer * shape.heads + head
    if shape.parts > 0:
        turned = number * c * n
        multiply(m.d_mixed, first * n, tables.output_turned, turned, c, m.d_stream, first * c, t - first, n, False)
        wrote, mixed = Grid(first * c, 1, c), Grid((number * t + first) * n, n, 1)
        combine(tables.d_output, Grid(turned, n, 1), m.d_stream, wrote, m.mixed, mixed, c, n, t - first, True)
        channels_back(shape, m, m.d_mixed, m.carried, number * t * n, layer, head, first)
    else:
        channels_back(shape, m, m.d_stream, m.raw, layer * t * n, layer, head, first)
    hide_later(shape, m.d_weight, 0, first)
    gates_back(shape, m, number)
    tokens, logits, values = Grid(layer * t * c, c, 1), Grid(0, 1, n), Grid(0, 1, n)  # (gates, tokens)
    combine(tables.d_gate, Grid(number * n * c, c, 1), m.d_logit, logits, m.raw, tokens, n, c, t, True)
    if shape.parts > 0:
        to = Grid(number * n * c, c, 1)
        combine(tables.d_value, to, m.d_carried, values, m.raw, tokens, n, c, t, True)
    if layer == 0:
        return
    multiply(m.d_raw, 0, tables.gate_turned, number * c * n, n, m.d_logit, 0, t, c, True)
    if shape.parts > 0:
        multiply(m.d_raw, 0, tables.value_turned, number * c * n, n, m.d_carried, 0, t, c, True)
    else:
        for e in range(0, t * c * LANES, LANES):
            store(m.d_raw, e, load(m.d_raw, e) + load(m.d_carried, e))


@inner
def channels_back(shape, m, d_mixed, carried, start, layer, head, first):  # type: ignore[no-untyped-def]
    """Fill ``d_weight`` and ``d_carried``, and for each channel the sums of E_ij that `gates_back` needs.

    E_ij = dmixed_i · s_ij G_ji v_j; ``d_logit`` gets Σ_{i > k} E_ik, ``own`` E_ii, ``earlier`` Σ_{j < i} E_ij.
    """
    stay_apart()
    t, n, number = shape.tokens, shape.gates, layer * shape.heads + head
    for array in (m.d_carried, m.d_logit, m.own, m.earlier):
        clear(array, 0, t * n * LANES)
    for i in range(first, t):
        row, here = (number * t + i) * t * LANES, i * n * LANES
        fill_ones(m.spare, n)
        for back in range(i + 1):
            j = i - back
            gates, value, there = (number * t + j) * n * LANES, (start + j * n) * LANES, j * n * LANES
            score, d_score = load(m.weight, row + j * LANES), spread(m.weight.dtype.type(0))
            for e in range(0, n * LANES, LANES):
                flow = load(d_mixed, here + e) * (load(m.spare, e) * load(m.inflow, gates + e))
                d_score += flow * load(carried, value + e)
                flow *= score
                store(m.d_carried, there + e, load(m.d_carried, there + e) + flow)
                flow *= load(carried, value + e)
                if j == i:
                    store(m.own, here + e, flow)
                else:
                    store(m.earlier, here + e, load(m.earlier, here + e) + flow)
                    store(m.d_logit, there + e, load(m.d_logit, there + e) + flow)
                store(m.spare, e, load(m.spare, e) * load(m.decay, gates + e))
            store(m.d_weight, (i * t + j) * LANES, d_score)


@inner
def gates_back(shape, m, number):  # type: ignore[no-untyped-def]
    """Turn the sums of E_ij into gradients of the gates' logits, as in `through_gates`."""
    t, n = shape.tokens, shape.gates
    for e in range(0, n * LANES, LANES):
        across = spread(m.weight.dtype.type(0))
        for k in range(t):
            at, gate = k * n * LANES + e, (number * t + k) * n * LANES + e
            later = load(m.d_logit, at)
            d_logit = load(m.decay, gate) * (load(m.own, at) + later) - load(m.inflow, gate) * across
            store(m.d_logit, at, d_logit)
            across += later - load(m.earlier, at)
