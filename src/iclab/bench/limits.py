"""What the machine allows: a prompt's arithmetic at the speed of its own matrix product, exponential and random words.

It is a lower bound on the time of a prompt on one core. Look-ups, passes over memory and the step itself come on top.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from iclab.bench.counts import Counts
from iclab.bench.stages import exponential_rate, word_rate
from iclab.engines import Training, answers, train
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing

SIZES = (128, 256, 512)
"""Of square matrices: the best of these counts."""
EXPONENTIALS = 1 << 14


class Rates(NamedTuple):
    """What one core does in a second."""

    multiply_adds: float
    exponentials: float
    words: float


def rates(prompts: Prompts, times: int = 20) -> Rates:
    """Measure torch.mm, the better of torch.exp and the engines' own e^x, and their Philox: float32, one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        product = max(_products(n, times) for n in SIZES)
        numbers = -torch.rand(EXPONENTIALS)
        out = torch.empty_like(numbers)
        exponential = max(EXPONENTIALS / _best(lambda: torch.exp(numbers, out=out), times), exponential_rate())
    finally:
        torch.set_num_threads(before)
    return Rates(product, exponential, word_rate(prompts))


def _products(size: int, times: int) -> float:
    square, out = torch.rand(size, size), torch.empty(size, size)
    return size**3 / _best(lambda: torch.mm(square, square, out=out), times)


def _best(run: Callable[[], Any], times: int) -> float:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        took.append(time.perf_counter() - started)
    return min(took)


def words(training: Training) -> int:
    """Return how many random words a prompt takes: a block of four per token, another if others' patterns appear…"""
    plan = drawing(training.prompts, np.dtype(training.dtype))
    return 4 * (plan.length + 1) * (1 + bool(plan.others) + bool(plan.varied))


def active_share(training: Training, points: int = 10, prompts: int = 256) -> float:
    """Train two seeds; return the share of prompts inside the hinge, averaged over the training."""
    steps = training.recipe.steps
    kept = tuple(sorted({round(steps * (k / points) ** 3) for k in range(1, points)} - {0, steps}))  # many early
    trained = train(training.replace(recipe=training.recipe.replace(snapshots=kept)), (0, 1))
    inside = []
    for at in (0, *kept, steps):
        for batch, answer in answers(trained, training.prompts, prompts, at=at, stream=Stream.TEST):
            inside.append(float((batch.target * answer.output.numpy() < 1.0).mean()))
    return float(np.trapezoid(inside, (0, *kept, steps)) / steps)


def limit(training: Training, counts: Counts, machine: Rates, active: float | None) -> dict[str, Any]:
    """Return a family's limit; ``active`` is None for measuring, which has no backward pass and no tables per batch."""
    batch = training.recipe.batch_size
    needed = counts.forward if active is None else counts.per_prompt(batch, active)
    seconds = needed / machine.multiply_adds
    seconds += counts.exponentials / machine.exponentials
    seconds += words(training) / machine.words
    return {
        "forward": counts.forward,
        "backward": None if active is None else counts.backward,
        "batch": None if active is None else counts.batch / batch,
        "active": active,
        "multiply_adds": needed,
        "exponentials": counts.exponentials,
        "words": words(training),
        "nanoseconds": 1e9 * seconds,
        "prompts_per_second": 1.0 / seconds,
    }
