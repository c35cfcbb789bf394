"""Timing of the engines in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from iclab.engines import Training, train
from iclab.probes import measure
from iclab.prompts import Prompts


def best_of(times: int, run: Callable[[], float]) -> float:
    """Return the shortest time of several runs, the one least disturbed by other processes."""
    return min(run() for _ in range(times))


def timed_training(training: Training, seeds: int | tuple[int, ...], threads: int = 1) -> float:
    """Train and return the time in seconds."""
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else seeds
    started = time.perf_counter()
    train(training, numbers, threads=threads)
    return time.perf_counter() - started


def timed_measuring(
    training: Training,
    seeds: int | tuple[int, ...],
    probes: tuple[str, ...],
    tests: Prompts,
    count: int,
    threads: int = 1,
    times: int = 1,
) -> float:
    """Train one step; then take probes on ``count`` prompts per seed each, and return the shortest time in seconds."""
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else seeds
    trained = train(training.replace(recipe=training.recipe.replace(steps=1)), numbers)

    def run() -> float:
        started = time.perf_counter()
        for probe in probes:
            measure(trained, probe, tests, count, threads=threads)
        return time.perf_counter() - started

    return best_of(times, run)
