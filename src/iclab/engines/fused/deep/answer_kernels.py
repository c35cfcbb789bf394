"""Answers of deep linear attention without the tokens of layers in between, compiled by numba.

If there is no norm, every position sees all tokens, and layers write whole tokens, a layer maps all tokens alike, and
S = Σ_j q_j q_jᵀ with them:

    q_i ← q_i + f Σ_j q_j (q_jᵀ P q_i) = A q_i,     A = I + f S P,     S ← A S Aᵀ,     P = W_BᵀW_C

So an answer needs products of each layer's S with vectors, and these come from products with the layer before:

    f S₊ v = A (f S) Aᵀ v,     Aᵀ v = v + Pᵀ (f S v),     A v = v + f S P v

Three products with S make one with S₊. A product with the first layer's S is Σ_j q_j (q_jᵀ v), over a prompt's tokens.
What comes after what is written down once, as a list of operations on a stack of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep.shape import ALL, LINEAR, Shape
from iclab.engines.fused.lanes import LANES, Grid, combine, copy, load, multiply, spread, stay_apart, store
from iclab.prompts.compiling import inner

# Operations on the vector v in a row of the stack, and w in the next row: v ← f S v with the first layer's S, w ← v,
# w ← P v, v ← v + Pᵀ w, v ← v + w.
SEE, COPY, READ, READ_BACK, ADD = 0, 1, 2, 3, 4
PRODUCTS = (SEE, READ, READ_BACK)


def make_plan(shape: Shape) -> NDArray[np.int64]:
    """Return the list of (operation, layer, row); none if answers need the forward pass, or get them faster by it."""
    linear = bool((shape.by_layer == (LINEAR, ALL, 0)).all())  # every layer, without a norm
    alike = linear and shape.residual and not shape.label_only
    faster = (3**shape.layers - 1) // 2 < (
        shape.layers - 1
    ) * shape.tokens  # products with the first S, or rows of scores
    if not (alike and faster and shape.heads == 1 and shape.parts == 0):
        return np.zeros((0, 3), dtype=np.int64)
    steps = [step for layer in range(shape.layers) for step in _through(layer, 0)]
    return np.array(steps, dtype=np.int64)


def _through(layer: int, row: int) -> Iterator[tuple[int, int, int]]:
    """A v: through a layer."""
    yield READ, layer, row
    yield from _see(layer, row + 1)
    yield ADD, layer, row


def _see(layer: int, row: int) -> Iterator[tuple[int, int, int]]:
    """f S v with the S of a layer: A (f S) Aᵀ v of the layer before."""
    if layer == 0:
        yield SEE, layer, row
        return
    yield COPY, layer - 1, row
    yield from _see(layer - 1, row + 1)
    yield READ_BACK, layer - 1, row
    yield from _see(layer - 1, row)
    yield from _through(layer - 1, row)


@inner
def answer(plan, shape, tables, m):  # type: ignore[no-untyped-def]
    """Answer the prompts of the block as planned."""
    stay_apart()
    stack, prompt, c, t = m.stack, m.prompt, shape.channels, shape.tokens
    copy(stack, 0, prompt, (t - 1) * c * LANES, c * LANES)
    for n in range(len(plan)):
        operation, matrix, v = plan[n, 0], plan[n, 1] * c * c, plan[n, 2] * c
        w = v + c
        if operation == SEE:
            column, vector = Grid(0, 1, 1), Grid(v, 1, 1)
            combine(m.spare, column, stack, vector, prompt, Grid(0, 1, c), 1, t, c, False)
            for i in range(t):
                store(m.spare, i * LANES, spread(shape.factor) * load(m.spare, i * LANES))
            combine(stack, vector, m.spare, column, prompt, Grid(0, c, 1), 1, c, t, False)
        elif operation == COPY:
            copy(stack, w * LANES, stack, v * LANES, c * LANES)
        elif operation == READ:
            multiply(stack, w, tables.pairs, matrix, c, stack, v, 1, c, False)
        elif operation == READ_BACK:
            multiply(stack, v, tables.pairs_turned, matrix, c, stack, w, 1, c, True)
        else:
            for e in range(0, c * LANES, LANES):
                store(stack, v * LANES + e, load(stack, v * LANES + e) + load(stack, w * LANES + e))
    store(m.output, 0, load(stack, (c - 1) * LANES))
