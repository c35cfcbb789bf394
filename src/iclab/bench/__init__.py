"""``iclab bench``: training speed of the engines and of ordinary training loops, in one run on this machine."""

from __future__ import annotations

import importlib.util
import math
import os
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from iclab.bench.ensembles import stacking
from iclab.bench.loops import jax_loop, torch_loop
from iclab.bench.mlp import transformer
from iclab.bench.stages import stages
from iclab.engines import Recipe, Training, train
from iclab.papers.mamba.fig2 import FigureSettings
from iclab.prompts import Prompts

SETTINGS = FigureSettings()
PROMPTS = SETTINGS.train_prompts(SETTINGS.train_outlier_fraction)
BATCH = SETTINGS.batch_size
STEPS = SETTINGS.steps


def best_of(times: int, run: Callable[[], float]) -> float:
    """Return the shortest time of several runs, the one least disturbed by other processes."""
    return min(run() for _ in range(times))


def seconds(
    engine: str,
    *,
    model: str = "mamba",
    prompts: Prompts = PROMPTS,
    seeds: int = 8,
    batch: int = BATCH,
    steps: int = STEPS,
    threads: int = 1,
) -> float:
    """Train and return the time in seconds."""
    training = _training(engine, model, prompts, batch, steps)
    started = time.perf_counter()
    train(training, tuple(range(seeds)), threads=threads)
    return time.perf_counter() - started


def _training(engine: str, model: str, prompts: Prompts, batch: int, steps: int) -> Training:
    recipe = Recipe(steps=steps, batch_size=batch, step_size=SETTINGS.step_sizes[model])
    return Training(model=model, prompts=prompts, recipe=recipe, engine=engine)


def bench(threads: int | None = None, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure everything and return plain data."""
    threads = threads or os.cpu_count() or 1
    rows: list[dict[str, Any]] = []

    def add(name: str, model: str, seeds: int, used: int, prompts: int, took: float, drawing: bool = True) -> None:
        rows.append(
            {
                "name": name,
                "model": model,
                "seeds": seeds,
                "threads": used,
                "drawing": drawing,
                "prompts_per_second": prompts / took,
            }
        )
        tell(f"{name}, {model}, {seeds} seeds, {used} threads: {prompts / took / 1e6:.3f} M prompts/s")

    for model in ("mamba", "linear"):
        rate = SETTINGS.step_sizes[model]
        seconds("fused", model=model, steps=2, seeds=1)  # compile, or load from the cache
        for used in sorted({1, threads}):
            for draw in (True, False):
                run = partial(_with_threads, used, partial(torch_loop, model, PROMPTS, BATCH, 200, rate, draw))
                add("loop", model, 1, used, 200 * BATCH, best_of(3, run), draw)
        for seeds in (1, 8, 32):
            steps = 160 // seeds + 20
            took = best_of(2, partial(seconds, "reference", model=model, seeds=seeds, steps=steps))
            add("reference", model, seeds, 1, steps * BATCH * seeds, took)
        for used in sorted({1, threads}):
            took = best_of(5, partial(seconds, "fused", model=model, seeds=8, threads=used))
            add("fused", model, 8, used, STEPS * BATCH * 8, took)
        if importlib.util.find_spec("jax"):
            add("jax", model, 8, threads, 100 * BATCH * 8, best_of(3, jax_loop(model, PROMPTS, BATCH, 100, rate, 8)))
    stacked, attending = stacking(threads, tell), transformer(threads, tell)
    return {
        "rows": rows,
        "stacked": stacked["rows"] + attending["rows"],
        "ratios": _ratios(rows, threads) | stacked["ratios"] | attending["ratios"],
        "limits": attending["limits"],
        "growth": growth(threads, tell),
        "nanoseconds_per_prompt": {
            m: stages(_training("fused", m, PROMPTS, BATCH, STEPS)) for m in ("mamba", "linear")
        },
        "setting": {"prompts": PROMPTS.model_dump(mode="json"), "batch_size": BATCH, "steps": STEPS},
        "machine": {"threads": threads, "cores": os.cpu_count(), "dtype": "float32"},
    }


def _with_threads(threads: int, run: Callable[[], float]) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return run()
    finally:
        torch.set_num_threads(before)


def _ratios(rows: list[dict[str, Any]], threads: int) -> dict[str, float | None]:
    def rate(name: str, model: str, **conditions: Any) -> float | None:
        wanted = {"drawing": True, "name": name, "model": model, **conditions}
        found = [r["prompts_per_second"] for r in rows if all(r[k] == v for k, v in wanted.items())]
        return max(found) if found else None

    ratios: dict[str, float | None] = {}
    for model, suffix in (("mamba", ""), ("linear", "_linear")):
        ours = rate("fused", model, threads=threads)
        alone = rate("fused", model, threads=1)
        for other in ("loop", "jax", "reference"):
            theirs = rate(other, model)  # its best row
            ratios[f"fused_vs_{other}{suffix}"] = ours / theirs if ours and theirs else None
            ratios[f"fused_one_thread_vs_{other}{suffix}"] = alone / theirs if alone and theirs else None
        ratios[f"threads{suffix}"] = ours / alone if ours and alone else None
    return ratios


def growth(threads: int, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure how the time of the fused engine grows with each size: exponent 1 is linear, 0 is constant."""

    def with_length(l: int) -> Prompts:  # noqa: E741
        return PROMPTS.replace(context_length=l)

    def with_dimension(d: int) -> Prompts:
        return PROMPTS.replace(patterns=PROMPTS.patterns.replace(dimension=d))

    axes: dict[str, tuple[tuple[int, ...], Callable[[int], float]]] = {
        "context_length": ((10, 40, 160, 640), lambda x: seconds("fused", prompts=with_length(x), steps=200)),
        "dimension": ((30, 300, 3000), lambda x: seconds("fused", prompts=with_dimension(x))),
        "batch_size": ((64, 256, 1024, 4096), lambda x: seconds("fused", batch=x, steps=200)),
        "steps": ((250, 1000, 4000), lambda x: seconds("fused", steps=x)),
        "seeds": ((4, 16, 64), lambda x: seconds("fused", seeds=x, steps=300)),
        "threads": (tuple(sorted({1, threads})), lambda x: seconds("fused", threads=x)),
    }
    found: dict[str, Any] = {}
    for name, (values, run) in axes.items():
        run(values[-1])
        took = [best_of(3, partial(run, x)) for x in values]
        exponent = None
        if len(values) > 1:
            exponent = math.log(took[-1] / took[0]) / math.log(values[-1] / values[0])
            tell(f"{name} {values[0]} to {values[-1]}: time × {took[-1] / took[0]:.2f}, exponent {exponent:.2f}")
        found[name] = {"values": list(values), "seconds": took, "exponent": exponent}
    peaks = []
    for steps in (250, 4000):
        tracemalloc.start()
        seconds("fused", steps=steps, seeds=2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    found["memory"] = {"steps": [250, 4000], "peak_bytes": peaks}
    tell(f"peak memory, 250 to 4000 steps: {peaks[0] / 1e6:.2f} to {peaks[1] / 1e6:.2f} MB")
    return found
