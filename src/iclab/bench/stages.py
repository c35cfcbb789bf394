"""Time of each stage of a step of the fused engine, in nanoseconds per prompt."""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np

from iclab.engines import Training
from iclab.engines.fused.one_layer import OneLayer, step_kernels
from iclab.prompts import Prompts, prompt_kernels
from iclab.prompts.exponential import exponential
from iclab.prompts.prompt_kernels import LANES

REPEATS = 2000

_compiled = numba.njit(nogil=True, error_model="numpy")


@_compiled
def _words(p, n):  # type: ignore[no-untyped-def]
    zero, one = np.uint32(0), np.uint32(1)
    for i in range(n):
        prompt_kernels.draw_words(p.position, p.lane, p.words, 0, zero, (zero, one), (np.uint32(i), zero))


@_compiled
def _draw(drawing, p, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        prompt_kernels.draw(drawing, p, 0, 1, i, 0)


@_compiled
def _forward(gate, p, s, length, products, logits, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        step_kernels.forward(gate, p, s, length, products, logits)


@_compiled
def _backward(gate, p, s, length, w, t, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        sums = (t.pairs, t.along, w.number_step, t.row)
        step_kernels.backward(gate, p, s, length, i % LANES, s.score.dtype.type(1), *sums)


@_compiled
def _step(w, t, frame, diagonal, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        step_kernels.fill_tables(w, t, frame, diagonal)
        step_kernels.gradients(w, t, frame, diagonal)


def stages(training: Training) -> dict[str, float]:
    """Time the stages.

    The backward pass is for a prompt inside the hinge; tables and gradients are for a whole batch.
    """
    state = OneLayer(training, 0, training.prompts.patterns.basis(0))
    length = training.prompts.context_length
    tables = (state.tables.products, state.tables.logits)
    work: dict[str, tuple[Any, tuple[Any, ...], float]] = {
        "random words": (_words, (state.block,), LANES),
        "drawing, words included": (_draw, (state.drawing, state.block), LANES),
        "forward": (_forward, (state.gate, state.block, state.scratch, length, *tables), LANES),
        "backward, if inside the hinge": (
            _backward,
            (state.gate, state.block, state.scratch, length, state.weights, state.tables),
            1,
        ),
        "tables and gradients": (
            _step,
            (state.weights, state.tables, state.coordinates, state.diagonal),
            training.recipe.batch_size,
        ),
    }
    return {
        name: _shortest(run, arguments) / REPEATS / prompts * 1e9 for name, (run, arguments, prompts) in work.items()
    }


@_compiled
def _powers(numbers, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        for e in range(numbers.size):
            numbers[e] = exponential(-numbers[e])


def exponential_rate() -> float:
    """Return how many exponentials per second one thread computes as the engines do."""
    numbers = np.linspace(0, 1, 1024, dtype=np.float32)
    return numbers.size / (_shortest(_powers, (numbers,)) / REPEATS)


def word_rate(prompts: Prompts) -> float:
    """Return how many random words per second one thread draws."""
    block = prompt_kernels.make_block(prompt_kernels.drawing(prompts, np.dtype(np.float32)))
    return block.words.size / (_shortest(_words, (block,)) / REPEATS)


def _shortest(run: Any, arguments: tuple[Any, ...]) -> float:
    """Return the shortest time of `REPEATS` repetitions, in seconds."""
    run(*arguments, 1)
    took = []
    for _ in range(10):
        started = time.perf_counter()
        run(*arguments, REPEATS)
        took.append(time.perf_counter() - started)
    return min(took)
