"""Measurements of deep models on the fused engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep import step_kernels
from iclab.engines.fused.deep.answer_kernels import make_plan
from iclab.engines.fused.deep.frame import project, rows, test_frame
from iclab.engines.fused.deep.learning import fill_weights, make_shape
from iclab.engines.fused.deep.learning import layers as layers_of
from iclab.engines.fused.deep.shape import Shape, Tables, make_memory, make_tables, make_weights
from iclab.engines.fused.deep.step_kernels import ATTENTION, ERROR, GATES, Rows
from iclab.engines.fused.summing import Add, Measuring
from iclab.engines.trained import Trained
from iclab.prompts import Prompts
from iclab.prompts.prompt_kernels import drawing, make_block

CODES = {"error": ERROR, "attention": ATTENTION, "gates": GATES}


def measuring(trained: Trained, probe: str, prompts: Prompts, at: int, draw: int) -> Measuring:
    """Prepare a probe on test prompts; attention has a shape of (layers,), gates of (layers, places)."""
    dtype, layers = np.dtype(trained.training.dtype), len(layers_of(trained.training))
    numbers = drawing(prompts, dtype)

    def seed(row: int) -> Add:
        shape, tables, dictionary = _prepared(trained, row, at, prompts)

        def add(first: int, count: int, total: NDArray[np.float64]) -> None:
            space = (make_memory(shape, dtype), make_block(numbers))
            sums = total.reshape(len(total), layers if total.ndim > 1 else 1, -1)
            which = (trained.seeds[row], draw, first, count, sums)
            step_kernels.measure(numbers, shape, dictionary, make_plan(shape), CODES[probe], tables, *space, *which)

        return add

    shapes = {"attention": (layers,), "gates": (layers, prompts.context_length)}
    return Measuring(shapes.get(probe, ()), seed, piece=512)


def _prepared(trained: Trained, row: int, at: int, prompts: Prompts) -> tuple[Shape, Tables, Rows]:
    """Return the model of one seed in coordinates that hold the test dictionary."""
    training, dtype = trained.training, np.dtype(trained.training.dtype)
    vectors = prompts.dictionary(trained.bases(prompts)[row])
    start, own = ({n: w[row].double().numpy() for n, w in trained.snapshots[step].items()} for step in (0, at))
    frame = test_frame(training, trained.bases()[row], start, vectors)
    shape = make_shape(training, len(frame), prompts.context_length)
    tables, weights = make_tables(shape, dtype), make_weights(shape, dtype)
    fill_weights(shape, weights, project(own, frame))
    step_kernels.fill_tables(shape, weights, tables)
    return shape, tables, rows(vectors, frame, dtype)
