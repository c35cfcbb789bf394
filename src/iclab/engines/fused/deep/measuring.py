"""Measurements of deep models on the fused engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep import step_kernels
from iclab.engines.fused.deep.frame import project, rows, test_frame
from iclab.engines.fused.deep.learning import fill_weights, make_shape
from iclab.engines.fused.deep.shape import Shape, Tables, make_memory, make_tables, make_weights
from iclab.engines.fused.deep.step_kernels import ATTENTION, ERROR, GATES, Rows
from iclab.engines.registry import FORMS
from iclab.engines.trained import Advance, Trained
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

BLOCK = 512
"""Test prompts that are added up in one piece. Pieces are added in a fixed order, whichever thread did them."""


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
    names = FORMS["deep"].sums[probe]
    code = {"error": ERROR, "attention": ATTENTION, "gates": GATES}[probe]
    dtype, layers = np.dtype(trained.training.dtype), trained.training.model.options["layers"]
    width = prompts.context_length if probe == "gates" else 1
    numbers = drawing(prompts, dtype)

    def piece(seed: int, model: tuple[Shape, Tables, Rows], first: int) -> NDArray[np.float64]:
        total = np.zeros((len(names), layers, width))
        shape, tables, dictionary = model
        memory, block = make_memory(shape, dtype), make_block(numbers)
        which = (seed, int(Stream.TEST), draw, first, min(BLOCK, count - first))
        step_kernels.measure(numbers, shape, dictionary, code, tables, memory, block, *which, total)
        return total

    totals = np.zeros((len(trained.seeds), len(names), layers, width))
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, count, BLOCK)
        for i, seed in enumerate(trained.seeds):
            model = _prepared(trained, i, at, prompts)
            jobs = [pool.submit(piece, seed, model, first) for first in starts]
            for first, job in zip(starts, jobs, strict=True):
                totals[i] += job.result()
                advance(min(BLOCK, count - first))
    if probe == "error":
        return {name: totals[:, j, 0, 0] for j, name in enumerate(names)}
    return {name: totals[:, j] if probe == "gates" else totals[:, j, :, 0] for j, name in enumerate(names)}


def _prepared(trained: Trained, row: int, at: int, prompts: Prompts) -> tuple[Shape, Tables, Rows]:
    """Return the model of one seed in coordinates that hold the test dictionary."""
    training, dtype = trained.training, np.dtype(trained.training.dtype)
    vectors = prompts.dictionary(trained.bases(prompts)[row])
    start, own = ({n: w[row].double().numpy() for n, w in trained.snapshots[step].items()} for step in (0, at))
    frame = test_frame(training, trained.bases()[row], start, vectors)
    shape = make_shape(training, len(frame), prompts.context_length)
    tables, weights = make_tables(shape, dtype), make_weights(shape, dtype)
    fill_weights(weights, project(own, frame))
    step_kernels.fill_tables(shape, weights, tables)
    return shape, tables, rows(vectors, frame, dtype)
