"""A deep model's backward pass over a block of prompts, compiled by numba; docs/fused.md derives it.

It adds to the gradients of `Tables`, lane by lane. What weighs a prompt's loss is in ``d_output``: 0 for a prompt whose
hinge is not active.
"""

from __future__ import annotations

from iclab.engines.fused.deep.forward_kernels import hide_later, seen, together
from iclab.engines.fused.deep.shape import CONTEXT, PAST
from iclab.engines.fused.lanes import LANES, Grid, clear, combine, load, multiply, spread, stay_apart, store
from iclab.prompts.compiling import inner


@inner
def through_values(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """From what a head wrote to Σ_j weight q_j, through W_O W_V."""
    stay_apart()
    if shape.parts == 0:
        return
    c, t, number = shape.channels, shape.tokens, layer * shape.heads + head
    multiply(m.d_mixed, first * c, tables.carry_turned, number * c * c, c, m.d_stream, first * c, t - first, c, False)
    wrote, mixed = (
        Grid(first * c, 1, c),
        Grid((number * t + first) * c, c, 1),
    )  # (channels, tokens) and (tokens, channels)
    to = Grid(number * c * c, c, 1)
    combine(tables.d_carry, to, m.d_stream, wrote, m.mixed, mixed, c, c, t - first, True)


@inner
def through_weights(shape, m, d_mixed, layer, head, first):  # type: ignore[no-untyped-def]
    """From Σ_j weight q_j to the weights."""
    stay_apart()
    c, t, step = shape.channels, shape.tokens, together(shape, first)
    low = c - 1 if shape.label_only and shape.parts == 0 else 0  # the first channel that was written
    tokens = Grid(layer * t * c + low, 1, c)  # (channels, tokens)
    for i in range(first, t, step):
        many = min(step, t - i)
        sees, wrote = seen(shape, i + many - 1), Grid(i * c + low, c, 1)
        combine(m.d_weight, Grid(i * t, t, 1), d_mixed, wrote, m.raw, tokens, many, sees, c - low, False)


@inner
def through_scale(shape, m, first):  # type: ignore[no-untyped-def]
    """From linear attention to scores."""
    for i in range(first, shape.tokens):
        row = i * shape.tokens * LANES
        for e in range(row, row + seen(shape, i) * LANES):
            m.d_weight[e] *= shape.factor
    hide_later(shape, m.d_weight, 0, first)


@inner
def through_softmax(shape, m, layer, head, first):  # type: ignore[no-untyped-def]
    """From weights to scores: w (dw − Σ w dw)."""
    stay_apart()
    t, number = shape.tokens, layer * shape.heads + head
    for i in range(first, t):
        row, d_row, many = (number * t + i) * t * LANES, i * t * LANES, seen(shape, i)
        mean = spread(m.weight.dtype.type(0))
        for j in range(many):
            mean += load(m.weight, row + j * LANES) * load(m.d_weight, d_row + j * LANES)
        for j in range(many):
            here = load(m.weight, row + j * LANES) * (load(m.d_weight, d_row + j * LANES) - mean)
            store(m.d_weight, d_row + j * LANES, here)
    hide_later(shape, m.d_weight, 0, first)


@inner
def through_gates(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """From weights s_ij G_ji to scores and to the gate, with G_ji = σ_j Π_{j < k ≤ i} (1 − σ_k).

    With E_ij = dweight_ij · weight_ij, ∂/∂logit_k = (1 − σ_k) Σ_{i ≥ k} E_ik − σ_k Σ_{i ≥ k > j} E_ij. The last sum
    changes from k to k + 1 by Σ_{i > k} E_ik − Σ_{j < k} E_kj.
    """
    stay_apart()
    real, c, t = m.weight.dtype.type, shape.channels, shape.tokens
    number = layer * shape.heads + head
    start, zero = number * t * LANES, spread(m.weight.dtype.type(0))
    clear(m.d_logit, 0, m.d_logit.size)  # first Σ_{i > k} E_ik, then the gradient
    for i in range(first, t):
        row, d_row = (number * t + i) * t * LANES, i * t * LANES
        suffix, earlier = spread(real(1)), zero
        for back in range(i + 1):
            j = i - back
            d_weight = load(m.d_weight, d_row + j * LANES)
            product = d_weight * load(m.weight, row + j * LANES)
            store(m.d_weight, d_row + j * LANES, d_weight * (suffix * load(m.inflow, start + j * LANES)))
            suffix *= load(m.decay, start + j * LANES)
            if j == i:
                store(m.own, i * LANES, product)  # E_ii
            else:
                earlier += product
                store(m.d_logit, j * LANES, load(m.d_logit, j * LANES) + product)
        store(m.earlier, i * LANES, earlier)  # Σ_{j < i} E_ij
    hide_later(shape, m.d_weight, 0, first)
    across = zero  # Σ_{i ≥ k > j} E_ij
    for k in range(t):
        own, earlier = zero, zero
        if k >= first:
            own, earlier = load(m.own, k * LANES), load(m.earlier, k * LANES)
        later = load(m.d_logit, k * LANES)
        d_logit = load(m.decay, start + k * LANES) * (own + later) - load(m.inflow, start + k * LANES) * across
        store(m.d_logit, k * LANES, d_logit)
        across += later - earlier
    gate, tokens = Grid(number * c, c, 1), Grid(layer * t * c, c, 1)
    combine(tables.d_gate, gate, m.d_logit, Grid(0, t, 1), m.raw, tokens, 1, c, t, True)
    if layer > 0:
        multiply(m.d_raw, 0, tables.gate_turned, number * c, 1, m.d_logit, 0, t, c, True)


@inner
def through_scores(shape, tables, m, layer, head, first):  # type: ignore[no-untyped-def]
    """From scores to W_BᵀW_C and, unless these are the prompt's own, to the tokens."""
    stay_apart()
    c, t, number, step = shape.channels, shape.tokens, layer * shape.heads + head, together(shape, first)
    tokens = Grid(layer * t * c, c, 1)
    for i in range(first, t, step):
        many = min(step, t - i)
        sees, to = seen(shape, i + many - 1), Grid(i * c, c, 1)
        combine(m.d_read, to, m.d_weight, Grid(i * t, t, 1), m.normed, tokens, many, c, sees, False)
    turned, readers = Grid(first * c, 1, c), Grid((layer * t + first) * c, c, 1)
    to = Grid(number * c * c, c, 1)
    combine(tables.d_pairs, to, m.d_read, turned, m.normed, readers, c, c, t - first, True)
    if layer == 0:
        return
    label = c - 1 if shape.label_only and not shape.normed else 0  # the first channel whose gradient is needed
    if label > 0:
        turned = (number * c + label) * c
        multiply(m.spare, first, tables.pairs_turned, turned, c, m.d_read, first * c, t - first, 1, False)
        for i in range(first, t):
            at = (i * c + label) * LANES
            store(m.d_normed, at, load(m.d_normed, at) + load(m.spare, i * LANES))
    else:
        multiply(m.d_normed, first * c, tables.pairs_turned, number * c * c, c, m.d_read, first * c, t - first, c, True)
    count = t - 1 if shape.sees == CONTEXT else t
    step = 2 if shape.sees == PAST else count
    for j in range(0, count, step):
        low, many = max(first, j) if shape.sees == PAST else first, min(step, count - j)
        by, read = Grid(low * t + j, 1, t), Grid((number * t + low) * c + label, c, 1)  # (tokens, readers), …
        to = Grid(j * c + label, c, 1)
        combine(m.d_normed, to, m.d_weight, by, m.read, read, many, c - label, t - low, True)


@inner
def through_mixing(shape, m, d_mixed, layer, head, first):  # type: ignore[no-untyped-def]
    """From Σ_j weight q_j to the tokens."""
    stay_apart()
    c, t, number = shape.channels, shape.tokens, layer * shape.heads + head
    label = c - 1 if shape.label_only and shape.parts == 0 else 0  # the first channel that was written
    count = t - 1 if shape.sees == CONTEXT else t
    step = 2 if shape.sees == PAST else count
    for j in range(0, count, step):
        low, many = max(first, j) if shape.sees == PAST else first, min(step, count - j)
        by, wrote = Grid((number * t + low) * t + j, 1, t), Grid(low * c + label, c, 1)
        to = Grid(j * c + label, c, 1)
        combine(m.d_raw, to, m.weight, by, d_mixed, wrote, many, c - label, t - low, True)


@inner
def through_norm(shape, m, layer):  # type: ignore[no-untyped-def]
    """From normed tokens to the stream: (dq − q (qᵀdq) / width) / root mean square."""
    stay_apart()
    c, t = shape.channels, shape.tokens
    if not shape.residual:
        clear(m.d_stream, 0, m.d_stream.size)
    low = c - 1 if shape.label_only else 0  # inputs are the prompt's own
    for i in range(t):
        at, q = i * c * LANES, (layer * t + i) * c * LANES
        if shape.apart:
            for b in range(low, c):
                store(m.d_stream, at + b * LANES, load(m.d_stream, at + b * LANES) + load(m.d_raw, at + b * LANES))
        if not shape.normed:
            for b in range(low, c):
                store(m.d_stream, at + b * LANES, load(m.d_stream, at + b * LANES) + load(m.d_normed, at + b * LANES))
            continue
        inner = spread(m.stream.dtype.type(0))
        for b in range(c):
            inner += load(m.normed, q + b * LANES) * load(m.d_normed, at + b * LANES)
        inner /= spread(shape.width)
        factor = load(m.inverse, (layer * t + i) * LANES)
        for b in range(low, c):
            back = load(m.d_normed, at + b * LANES) - inner * load(m.normed, q + b * LANES)
            store(m.d_stream, at + b * LANES, load(m.d_stream, at + b * LANES) + factor * back)
