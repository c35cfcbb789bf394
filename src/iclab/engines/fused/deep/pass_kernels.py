"""The forward and the backward pass of deep models over a block of prompts, layer by layer, compiled by numba."""

from __future__ import annotations

from iclab.engines.fused.deep.backward_kernels import (
    through_gates,
    through_mixing,
    through_norm,
    through_scale,
    through_scores,
    through_softmax,
    through_values,
    through_weights,
)
from iclab.engines.fused.deep.channel_kernels import mix_channels, through_channels
from iclab.engines.fused.deep.forward_kernels import (
    first_reader,
    gate,
    keep_inputs,
    mix,
    normalise,
    scale,
    score,
    soften,
)
from iclab.engines.fused.deep.shape import GATED, LINEAR, at_layer
from iclab.engines.fused.lanes import clear, copy, load, stay_apart, store
from iclab.prompts.compiling import inner
from iclab.prompts.prompt_kernels import LANES


@inner
def forward(model, tables, m):  # type: ignore[no-untyped-def]
    """Answer the prompts of the block."""
    stay_apart()
    size = model.tokens * model.channels * LANES
    copy(m.stream, 0, m.prompt, 0, size)
    for layer in range(model.layers):
        shape = at_layer(model, layer)
        last = layer == shape.layers - 1
        first = first_reader(shape, layer)
        normalise(shape, m, layer)
        if not shape.residual:
            clear(m.stream, 0, size)
        if last:
            store(m.output, 0, load(m.stream, size - LANES))
        clear(m.score, layer * shape.tokens * LANES, shape.tokens * LANES)
        clear(m.gate, layer * shape.tokens * LANES, shape.tokens * LANES)
        for head in range(shape.heads):
            score(shape, tables, m, layer, head, first)
            if shape.gates > 1:
                mix_channels(shape, tables, m, layer, head, first)
                continue
            if shape.kind == GATED:
                gate(shape, tables, m, layer, head, first)
            elif shape.kind == LINEAR:
                scale(shape, m, layer, head, first)
            else:
                soften(shape, m, layer, head, first)
            mix(shape, tables, m, layer, head, first)
        if shape.label_only and not last:
            keep_inputs(shape, m)


@inner
def backward(model, tables, m):  # type: ignore[no-untyped-def]
    """Add the gradient of Σ d_output · F over the block; needs the memory of `forward`."""
    stay_apart()
    clear(m.d_stream, 0, m.d_stream.size)
    store(m.d_stream, (model.tokens * model.channels - 1) * LANES, load(m.d_output, 0))
    for back in range(model.layers):
        layer = model.layers - 1 - back
        shape = at_layer(model, layer)
        first = first_reader(shape, layer)
        clear(m.d_normed, 0, m.d_normed.size)
        clear(m.d_raw, 0, m.d_raw.size)
        for head in range(shape.heads):
            if shape.gates > 1:
                through_channels(shape, tables, m, layer, head, first)
                through_scores(shape, tables, m, layer, head, first)
                continue
            through_values(shape, tables, m, layer, head, first)
            d_mixed = m.d_stream if shape.parts == 0 else m.d_mixed
            through_weights(shape, m, d_mixed, layer, head, first)
            if shape.kind == GATED:
                through_gates(shape, tables, m, layer, head, first)
            elif shape.kind == LINEAR:
                through_scale(shape, m, first)
            else:
                through_softmax(shape, m, layer, head, first)
            through_scores(shape, tables, m, layer, head, first)
            if layer > 0:
                through_mixing(shape, m, d_mixed, layer, head, first)
        if layer > 0:
            through_norm(shape, m, layer)
