"""What the kernels of deep models take: the shape of a model, tables made from its weights, and working memory.

Arrays over tokens hold one block of `LANES` prompts. Number c of token i is at (i · channels + c) · LANES + lane, what
position i takes from token j at (i · tokens + j) · LANES + lane. Layers and heads follow one another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.lanes import LANES
from iclab.prompts.compiling import inner

# How a layer weighs tokens.
LINEAR, SOFTMAX, GATED = 0, 1, 2
# Which tokens position i sees: all, those up to i, or the examples.
ALL, PAST, CONTEXT = 0, 1, 2


class Shape(NamedTuple):
    """A model and the length of its prompts, in numbers; `at_layer` fills in what differs from layer to layer."""

    by_layer: NDArray[np.int64]
    """(layers, 3) the kind of each layer, what its positions see, and whether a norm stands before it."""
    kind: int
    """Of the present layer, as are ``sees`` and ``normed``."""
    sees: int
    normed: bool
    layers: int
    heads: int
    tokens: int
    """l + 1."""
    channels: int
    """r + 1: the coordinates of the frame, then the label."""
    rows: int
    """The rows of a head's W_B and W_C: r / heads."""
    parts: int
    """The rows of a head's W_V, r / heads + 1; 0 without W_V and W_O."""
    gates: int
    """The gates of a head: 0, 1, or one per channel of its value."""
    residual: bool
    apart: bool
    """Whether only scores read normed tokens, and values and gates the tokens themselves."""
    label_only: bool
    """Whether layers write only the label."""
    factor: Any
    """What linear attention is multiplied by: 1/l or 1."""
    width: Any
    """d + 1, which a norm divides by."""

    @property
    def gated(self) -> NDArray[np.bool_]:
        """Which layers have gates."""
        return self.by_layer[:, 0] == GATED


@inner
def at_layer(shape, layer):  # type: ignore[no-untyped-def]
    """Return the shape with the kind, view and norm of a layer."""
    kind, sees, normed = shape.by_layer[layer, 0], shape.by_layer[layer, 1], shape.by_layer[layer, 2] == 1
    sizes = (shape.layers, shape.heads, shape.tokens, shape.channels, shape.rows, shape.parts, shape.gates)
    rest = (shape.residual, shape.apart, shape.label_only, shape.factor, shape.width)
    return Shape(shape.by_layer, kind, sees, normed, *sizes, *rest)


class Weights(NamedTuple):
    """Weights, or anything of their shapes: gradients, momenta."""

    key: NDArray[Any]  # (layers, heads, rows, channels) W_B
    query: NDArray[Any]  # (layers, heads, rows, channels) W_C
    gate: NDArray[Any]  # (layers, heads, gates, channels)
    value: NDArray[Any]  # (layers, heads, parts, channels) W_V
    output: NDArray[Any]  # (layers, heads, channels, parts) W_O


def make_weights(shape: Shape, dtype: Any) -> Weights:
    """Allocate zeros of the shapes of the weights."""
    front, c = (shape.layers, shape.heads), shape.channels
    shapes = ((shape.rows, c), (shape.rows, c), (shape.gates, c), (shape.parts, c), (c, shape.parts))
    return Weights(*(np.zeros((*front, *back), dtype=dtype) for back in shapes))


class Learner(NamedTuple):
    """What training changes."""

    weights: Weights
    gradient: Weights
    average: Weights
    """Momentum, or Adam's average of gradients."""
    squares: Weights
    """Adam's average of their squares."""


class Tables(NamedTuple):
    """Products of weights, the same for all prompts of a step, as flat arrays; and their gradients, lane by lane."""

    pairs: NDArray[Any]  # (layers, heads, channels, channels) W_BᵀW_C
    pairs_turned: NDArray[Any]  # its transpose
    carry: NDArray[Any]  # (layers, heads, channels, channels) W_O W_V
    carry_turned: NDArray[Any]
    gate: NDArray[Any]  # (layers, heads, gates, channels)
    gate_turned: NDArray[Any]
    value: NDArray[Any]  # (layers, heads, parts, channels) W_V, if each of its channels has a gate
    value_turned: NDArray[Any]
    output: NDArray[Any]  # (layers, heads, channels, parts) W_O, likewise
    output_turned: NDArray[Any]
    d_pairs: NDArray[Any]  # (layers, heads, channels, channels, LANES), and so on
    d_carry: NDArray[Any]
    d_gate: NDArray[Any]
    d_value: NDArray[Any]
    d_output: NDArray[Any]


def make_tables(shape: Shape, dtype: Any) -> Tables:
    """Allocate tables."""
    front, square, by_channel = shape.layers * shape.heads, shape.channels**2, shape.gates > 1
    carry, gate = square * (shape.parts > 0 and not by_channel), shape.gates * shape.channels
    value = shape.parts * shape.channels * by_channel
    products, gradients = (*[square] * 2, *[carry] * 2, *[gate] * 2, *[value] * 4), (square, carry, gate, value, value)
    return Tables(
        *(np.zeros(front * size, dtype=dtype) for size in products),
        *(np.zeros(front * size * LANES, dtype=dtype) for size in gradients),
    )


class Memory(NamedTuple):
    """Working memory for one block: what the forward pass keeps for the backward pass, and what that needs."""

    prompt: NDArray[Any]  # (tokens, channels) what the first layer reads
    stream: NDArray[Any]  # (tokens, channels) what the present layer reads, and then what it wrote
    normed: NDArray[Any]  # (layers, tokens, channels) what each layer read, after its norm
    raw: NDArray[Any]  # (layers, tokens, channels) what its values and gates read: the same array, unless `Shape.apart`
    inverse: NDArray[Any]  # (layers, tokens) what the norm multiplied it by
    read: NDArray[Any]  # (layers, heads, tokens, channels) W_BᵀW_C q_i
    weight: NDArray[Any]  # (layers, heads, tokens, tokens) of token j for position i
    mixed: NDArray[Any]  # (layers, heads, tokens, channels) Σ_j weight q_j, if there is a W_V; by gates if these differ
    carried: NDArray[Any]  # (layers, heads, tokens, parts) W_V q_j, if each of its channels has a gate
    inflow: NDArray[Any]  # (layers, heads, tokens, gates) σ of the gate's logit
    decay: NDArray[Any]  # (layers, heads, tokens, gates) 1 − σ
    score: NDArray[Any]  # (layers, tokens) the query's attention, added up over heads
    gate: NDArray[Any]  # (layers, tokens) the gates of examples, as the query sees them, averaged over heads
    output: NDArray[Any]  # (LANES,)
    d_output: NDArray[Any]  # (LANES,)
    d_stream: NDArray[Any]  # (tokens, channels)
    d_normed: NDArray[Any]
    d_raw: NDArray[Any]  # the same array, unless `Shape.apart`
    d_mixed: NDArray[Any]
    d_read: NDArray[Any]
    d_carried: NDArray[Any]
    d_weight: NDArray[Any]  # (tokens, tokens)
    d_logit: NDArray[Any]  # (tokens, gates)
    own: NDArray[Any]  # (tokens, gates) scratch
    earlier: NDArray[Any]  # (tokens, gates) scratch
    spare: NDArray[Any]  # (gates,) or (tokens,) scratch
    stack: NDArray[Any]  # (layers + 1, channels) scratch of `answer_kernels`


def make_memory(shape: Shape, dtype: Any) -> Memory:
    """Allocate working memory."""
    t, g, tc = shape.tokens, shape.gates, shape.tokens * shape.channels
    layers, heads, by_channel = shape.layers, shape.layers * shape.heads, shape.gates > 1
    mixed = t * g if by_channel else tc * (shape.parts > 0)
    carried = t * shape.parts * by_channel
    read = (tc, tc, layers * tc, layers * tc * shape.apart, layers * t, heads * tc)
    kept = (*read, heads * t * t, heads * mixed, heads * carried)
    gates = (heads * t * g, heads * t * g, layers * t, layers * t)
    back = (1, 1, tc, tc, tc * shape.apart, tc, tc, t * g * by_channel, t * t, t * g, t * g, t * g)
    scratch = (max(g, t), (layers + 1) * shape.channels)
    memory = Memory(*(np.zeros(size * LANES, dtype=dtype) for size in (*kept, *gates, *back, *scratch)))
    return memory if shape.apart else memory._replace(raw=memory.normed, d_raw=memory.d_normed)
