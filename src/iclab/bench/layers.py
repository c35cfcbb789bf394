"""How fast deep models train: stacked seeds in processes, beside one seed after another and a literal recurrence."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import torch

from iclab.bench.loops import torch_loop
from iclab.engines import Recipe, train
from iclab.experiments.settings import DeepMambaPaper

SETTINGS = DeepMambaPaper()
MODEL = "deep-mamba"
PROMPTS = SETTINGS.train_prompts(SETTINGS.train_outlier_fraction)
SEEDS = 10
STEPS = 20


def stacked(seeds: tuple[int, ...], steps: int = STEPS) -> float:
    """Train some seeds of M-tab1's Mamba together, on one thread; return the seconds it took."""
    recipe = Recipe(steps=steps, batch_size=SETTINGS.batch_size, step_size=SETTINGS.step_sizes[MODEL])
    training = SETTINGS.training(MODEL).model_copy(update={"recipe": recipe})
    started = time.perf_counter()
    train(training, seeds)
    return time.perf_counter() - started


def in_processes(seeds: int, processes: int, times: int) -> float:
    """Share the seeds out to processes that have started already; return the seconds the last one took."""
    shares = [tuple(range(i, seeds, processes)) for i in range(processes)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(stacked, steps=2), shares))  # started and warm
        took = []
        for _ in range(times):
            started = time.perf_counter()
            list(pool.map(stacked, shares))
            took.append(time.perf_counter() - started)
    return min(took)


def one_by_one(form: str, threads: int, times: int) -> float:
    """Train one seed in an ordinary loop; return the seconds it took."""
    options = SETTINGS.model(MODEL).options | {"form": form}
    rate, before = SETTINGS.step_sizes[MODEL], torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return min(torch_loop(MODEL, PROMPTS, SETTINGS.batch_size, STEPS, rate, options=options) for _ in range(times))
    finally:
        torch.set_num_threads(before)


def deep(threads: int, tell: Callable[[str], None] = lambda text: None, times: int = 2) -> dict[str, Any]:
    """Measure all; every rate is prompts a second, drawing included."""
    prompts = SETTINGS.batch_size * STEPS
    rows: list[dict[str, Any]] = []

    def add(name: str, seeds: int, processes: int, used: int, took: float) -> None:
        rate = prompts * seeds / took
        rows.append({"name": name, "seeds": seeds, "processes": processes, "threads": used, "prompts_per_second": rate})
        tell(f"three layers, {name}, {seeds} seeds, {processes} processes, {used} threads: {rate:,.0f} prompts/s")

    for used in sorted({1, threads}):
        add("loop", 1, 1, used, one_by_one("parallel", used, times))
        add("recurrence", 1, 1, used, one_by_one("recurrence", used, times))
    for processes in sorted({1, threads}):
        add("stacked", SEEDS, processes, 1, in_processes(SEEDS, processes, times))
    best = {
        name: max(row["prompts_per_second"] for row in rows if row["name"] == name) for name in ("loop", "recurrence")
    }
    ours = {row["processes"]: row["prompts_per_second"] for row in rows if row["name"] == "stacked"}
    ratios = {f"deep_stacked_vs_{name}": ours[threads] / rate for name, rate in best.items()}
    return {"rows": rows, "ratios": ratios | {"deep_processes": ours[threads] / ours[1]}}
