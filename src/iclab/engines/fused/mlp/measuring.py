"""Measurements of softmax attention with an MLP on the fused engine: probes that it adds up without a dense token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.matrix_kernels import fill, product, zeros
from iclab.engines.fused.mlp.learning import token_rows
from iclab.engines.fused.mlp.pass_kernels import make_pass
from iclab.engines.fused.mlp.probe_kernels import (
    ALIGNMENT,
    ATTENDED,
    ATTENTION,
    ERROR,
    PARTS,
    Tables,
    make_space,
    measure,
)
from iclab.engines.fused.summing import Add, Measuring
from iclab.engines.trained import Trained
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

CODES = {"error": ERROR, "attention": ATTENTION, "attended": ATTENDED, "parts": PARTS, "alignment": ALIGNMENT}


def measuring(trained: Trained, probe: str, prompts: Prompts, at: int, draw: int) -> Measuring:
    """Prepare a probe on test prompts; attention has a shape of (layers,), alignment of (W_Q and W_K,)."""
    dtype = np.dtype(trained.training.dtype)
    numbers = drawing(prompts, dtype)

    def seed(row: int) -> Add:
        tables, label = _tables(trained, row, at, prompts, probe)
        neurons, rows = tables.neurons.shape

        def add(first: int, count: int, total: NDArray[np.float64]) -> None:
            space = (make_block(numbers), make_pass(prompts, rows, neurons, dtype), make_space(neurons, dtype))
            which = (label, trained.seeds[row], int(Stream.TEST), draw, first, count, total.reshape(len(total), -1))
            measure(numbers, CODES[probe], tables, *space, *which)

        return add

    return Measuring({"attention": (1,), "alignment": (2,)}.get(probe, ()), seed)


def _tables(trained: Trained, row: int, at: int, prompts: Prompts, probe: str) -> tuple[Tables, int]:
    """Return what a probe looks up, and the row of the label."""
    dtype = np.dtype(trained.training.dtype)
    w = {name: value[row].double().numpy() for name, value in trained.snapshots[at].items()}
    rows, label = token_rows(prompts, trained.bases(prompts)[row])
    queries, keys, values = (product(rows, w[name].T) for name in ("query", "key", "value"))  # (R, m_a or m_b)
    products, neurons = fill(product(queries, keys.T), dtype), fill(product(w["hidden"], values.T), dtype)
    parts, none = zeros((4, *neurons.shape), dtype), np.zeros((2, 1, 1))
    squares, along = none, none
    inputs = prompts.patterns.dimension
    if probe == "parts":
        hidden, width = w["hidden"], inputs + prompts.label_width
        parts[0], parts[0, :, label] = neurons, 0.0
        parts[1, :, label] = neurons[:, label]
        parts[2] = fill(product(hidden[:, :inputs], values[:, :inputs].T), dtype)
        parts[3] = fill(product(hidden[:, inputs:width], values[:, inputs:width].T), dtype)
    if probe == "alignment":
        unit = rows[:, :inputs] / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        squares = np.stack([fill(product(seen, seen.T), np.float64) for seen in (queries, keys)])
        along = np.stack([fill(product(seen[:, :inputs], unit.T), np.float64) for seen in (queries, keys)])
    return Tables(products, neurons, fill(w["signs"], dtype), parts, squares, along), label
