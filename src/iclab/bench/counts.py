"""How much arithmetic a prompt needs in dictionary coordinates, by family: products of numbers, and exponentials.

Letters: l examples and t = l + 1 tokens, D rows of the dictionary, r coordinates, c = r + 1 channels with the label.
"""

from __future__ import annotations

from typing import NamedTuple

from iclab.engines import Training
from iclab.engines.fused.deep.answer_kernels import PRODUCTS, SEE, make_plan
from iclab.engines.fused.deep.learning import DeepSeed
from iclab.engines.fused.deep.shape import ALL, CONTEXT, GATED, SOFTMAX, Shape
from iclab.engines.fused.one_layer import OneLayer
from iclab.engines.fused.one_layer.gate_kernels import UNGATED


class Counts(NamedTuple):
    """Multiply-adds and exponentials."""

    forward: int
    """Multiply-adds of a prompt's answer."""
    backward: int
    """More of them, for a prompt inside the hinge."""
    batch: int
    """More of them for a whole batch: tables from weights, and the weights' gradients from those of tables."""
    exponentials: int
    """Of a prompt's answer; the backward pass needs none."""

    def per_prompt(self, batch: int, active: float) -> float:
        """Return the multiply-adds of a training prompt, if a share ``active`` of them is inside the hinge."""
        return self.forward + active * self.backward + self.batch / batch


def one_layer(training: Training) -> Counts:
    """Count for Mamba and linear attention; `step_kernels` has the loops."""
    state = OneLayer(training, 0, training.prompts.patterns.basis(0))
    rows, rank = state.coordinates.shape
    return one_layer_counts(training.prompts.context_length, rows, rank, state.gate.kind != UNGATED)


def one_layer_counts(length: int, rows: int, rank: int, gated: bool) -> Counts:
    """Count for orthogonal patterns: each token is three rows and a label, and only one row counts fully."""
    tokens, table = length + 1, rows + 1
    forward = table + 3 * length + (7 * length + 5 if gated else length)
    backward = (15 * length + 4 if gated else 5 * length) + table
    products = 2 * rows * rows + 2 * rows  # of the dictionary's lengths
    moved = 2 * rank * rank + 2 * rank
    return Counts(forward, backward, 3 * rank * rank * (rank + 1) + products + moved, tokens if gated else 0)


def deep(training: Training) -> Counts:
    """Count for deep models; `engines/fused/deep` has the loops."""
    return deep_counts(DeepSeed(training, 0, training.prompts.patterns.basis(0)).shape)


def deep_counts(shape: Shape) -> Counts:
    """Count for an answer as the engine finds it; prompts inside the hinge take the whole forward pass besides."""
    whole, plan = pass_counts(shape), make_plan(shape)
    if not len(plan):
        return whole
    c, see = shape.channels, 2 * shape.tokens * shape.channels
    answer = sum(see if operation == SEE else c * c for operation in plan[:, 0] if operation in PRODUCTS)
    return whole._replace(forward=answer, backward=whole.forward + whole.backward)


def pass_counts(shape: Shape) -> Counts:
    """Count products of matrices in the forward and the backward pass.

    Passes over numbers one by one are left out: norms, gates, the softmax. Together they are a tenth of the work.
    """
    c, t, heads, last = shape.channels, shape.tokens, shape.heads, shape.layers - 1
    forward = backward = exponentials = 0
    for layer in range(shape.layers):
        n = 1 if layer == last else t  # only the query's label is read after the last layer
        pairs = _pairs(shape, n)
        mixed = 1 if layer == last and not shape.parts else c  # channels that are mixed
        carried = n * c * (1 if layer == last else c) if shape.parts else 0  # W_O W_V
        gate = t * c if shape.kind == GATED else 0
        forward += heads * (n * c * c + pairs * c + pairs * mixed + carried + gate)
        backward += heads * (pairs * mixed + pairs * c + n * c * c + 2 * carried + gate)
        if layer > 0:  # from there to the tokens, which the layer below wrote
            backward += heads * (n * c * c + pairs * mixed + pairs * c + gate)
        exponentials += heads * {GATED: t, SOFTMAX: pairs}.get(shape.kind, 0)
    batch = 3 * shape.layers * heads * (shape.rows + shape.parts) * c * c
    return Counts(forward, backward, batch, exponentials)


def _pairs(shape: Shape, readers: int) -> int:
    """Return how many tokens the last ``readers`` positions see, added up."""
    if shape.sees == ALL:
        return readers * shape.tokens
    if shape.sees == CONTEXT:
        return readers * (shape.tokens - 1)
    return sum(range(shape.tokens - readers + 1, shape.tokens + 1))


def transformer(training: Training) -> Counts:
    """Count for softmax attention with an MLP."""
    options, basis = training.model.options, training.prompts.patterns.basis(0)
    rows = len(training.prompts.dictionary(basis)) + 1
    return transformer_counts(training.prompts.context_length, rows, options["neurons"], options["value_size"])


def transformer_counts(length: int, rows: int, neurons: int, values: int) -> Counts:
    """Count with m ``neurons``, m_b ``values``, and as many rows as coordinates, the label among both.

    Look-ups of scores and mixing are a few per token and are left out.
    """
    tables = 3 * rows**3 + values * rows**2 + neurons * values * rows  # keys, queries, products; values; neurons
    back = 4 * rows**3 + values * rows**2 + 2 * neurons * values * rows
    return Counts(rows * neurons, 2 * rows * neurons, tables + back, length)
