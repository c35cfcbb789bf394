"""Measurements of softmax attention with an MLP on the fused engine: probes that it adds up without a dense token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
from iclab.engines.fused.one_layer.measuring import BLOCK
from iclab.engines.registry import FORMS
from iclab.engines.trained import Advance, Trained
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

CODES = {"error": ERROR, "attention": ATTENTION, "attended": ATTENDED, "parts": PARTS, "alignment": ALIGNMENT}


def sums(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    advance: Advance = lambda prompts: None,
    threads: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """Measure every seed on test prompts; `iclab.probes` turns the sums into rows."""
    names, dtype = FORMS["softmax-mlp"].sums[probe], np.dtype(trained.training.dtype)
    width = 2 if probe == "alignment" else 1  # W_Q and W_K
    numbers = drawing(prompts, dtype)

    def piece(seed: int, tables: Tables, label: int, first: int) -> NDArray[np.float64]:
        total, (neurons, rows) = np.zeros((len(names), width)), tables.neurons.shape
        block, space = make_block(numbers), make_pass(prompts, rows, neurons, dtype)
        which = (label, seed, int(Stream.TEST), draw, first, min(BLOCK, count - first))
        measure(numbers, CODES[probe], tables, block, space, make_space(neurons, dtype), *which, total)
        return total

    totals = np.zeros((len(trained.seeds), len(names), width))
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, count, BLOCK)
        for i, seed in enumerate(trained.seeds):
            made = _tables(trained, i, at, prompts, probe)
            jobs = [pool.submit(piece, seed, *made, first) for first in starts]
            for first, job in zip(starts, jobs, strict=True):
                totals[i] += job.result()
                advance(min(BLOCK, count - first))
    shape = {"attention": (-1, 1), "alignment": (-1, 2)}.get(probe, (-1,))  # (seeds, layers) or (seeds, matrices)
    return {name: totals[:, j].reshape(shape) for j, name in enumerate(names)}


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
