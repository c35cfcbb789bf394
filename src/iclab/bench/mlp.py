"""Speed of softmax attention with an MLP: the fused engine, the compact engine, and what the machine allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from iclab.engines import Trained, Training, train
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import measure

SETTINGS = NonlinearPaper()
SEEDS = tuple(range(8))
STEPS = 100
"""All hinges are active in so few steps, so that no prompt is left out."""
PROMPTS = {"fused": 8192, "compact": 1024}
"""Test prompts per seed."""


def training(engine: str) -> Training:
    """Return the training of T-fig2 on an engine."""
    usual = SETTINGS.training()
    return usual.replace(engine=engine, recipe=usual.recipe.replace(steps=STEPS, snapshots=()))


def transformer(threads: int, tell: Callable[[str], None] = lambda text: None, times: int = 4) -> dict[str, Any]:
    """Measure training and the probe ``error``, drawing included, one engine after the other, several times."""
    trained = train(training("fused").replace(recipe=training("fused").recipe.replace(steps=1)), SEEDS)
    best: dict[tuple[str, str, int], float] = {}
    for _ in range(times):
        for engine, used in dict.fromkeys((("compact", 1), ("fused", 1), ("fused", threads))):
            for work, took in (("training", _train(engine, used)), ("error", _error(trained, engine, used))):
                best[work, engine, used] = min(best.get((work, engine, used), float("inf")), took)
    rows = [
        {
            "model": f"softmax-mlp, {work}",
            "name": engine,
            "seeds": len(SEEDS),
            "processes": 1,
            "threads": used,
            "prompts_per_second": 1 / took,
        }
        for (work, engine, used), took in best.items()
    ]
    for row in rows:
        tell(f"{row['model']}, {row['name']}, {row['threads']} threads: {row['prompts_per_second']:,.0f} prompts/s")
    ratios, limits = {}, {}
    for work, name in (("training", "train"), ("error", "measure")):
        alone, limit = best[work, "fused", 1], least_seconds(work)
        ratios[f"softmax-mlp-{name}"] = best[work, "compact", 1] / best[work, "fused", threads]
        ratios[f"softmax-mlp-{name}_one_thread"] = best[work, "compact", 1] / alone
        limits[f"softmax-mlp-{name}"] = {
            "multiply_adds": multiply_adds(work),
            "limit_prompts_per_second": 1 / limit,
            "times_the_limit": alone / limit,
        }
        tell(f"softmax-mlp, {work}: one thread takes {alone / limit:.1f} × the limit of one core")
    return {"rows": rows, "ratios": ratios, "limits": limits}


def _train(engine: str, threads: int) -> float:
    """Train; return the seconds per prompt."""
    started = time.perf_counter()
    train(training(engine), SEEDS, threads=threads)
    return (time.perf_counter() - started) / (STEPS * SETTINGS.batch_size * len(SEEDS))


def _error(trained: Trained, engine: str, threads: int) -> float:
    """Measure the error on unseen tasks; return the seconds per prompt."""
    on_it, tests = replace(trained, training=training(engine)), SETTINGS.prompts(tasks=SETTINGS.unseen())
    started = time.perf_counter()
    measure(on_it, "error", tests, PROMPTS[engine], at=1, threads=threads)
    return (time.perf_counter() - started) / (PROMPTS[engine] * len(SEEDS))


def multiply_adds(work: str) -> float:
    """Return how many multiply-adds one prompt takes in dictionary coordinates, drawing and look-ups left out."""
    rows, neurons, size = SETTINGS.relevant + SETTINGS.irrelevant + 1, SETTINGS.neurons, SETTINGS.attention_size
    if work == "error":
        return rows * neurons
    once = 3 * rows * size * neurons + 7 * rows**3 + 2 * rows**2 * size  # tables and gradients of a batch
    return 3 * rows * neurons + once / SETTINGS.batch_size


def least_seconds(work: str) -> float:
    """Return the time of a prompt at the rate of PyTorch's matrix product and exponential on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        square, many = torch.ones(512, 512), torch.full((1 << 16,), -1.0)
        product, power = _best(lambda: square @ square) / 512**3, _best(lambda: torch.exp(many)) / len(many)
    finally:
        torch.set_num_threads(before)
    return multiply_adds(work) * product + SETTINGS.context_length * power


def _best(run: Callable[[], Any], times: int = 20) -> float:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        took.append(time.perf_counter() - started)
    return min(took)
