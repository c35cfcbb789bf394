"""Speed of the reference engine with stacked seeds in processes, compared with a loop over single seeds."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import torch

from iclab.bench.loops import torch_loop
from iclab.engines import Training, train
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.papers.nonlinear.settings import NonlinearPaper

SEEDS = 10
STEPS = 60


class Case(NamedTuple):
    """A model to time, and its forms for an ordinary training loop."""

    name: str
    training: Callable[[], Training]
    loops: dict[str, dict[str, Any]]
    """Model options by name of the loop."""


CASES = {
    "deep": Case(
        "three layers of Mamba",
        lambda: DeepMambaPaper().training("deep-mamba"),
        {"loop": {"form": "parallel"}, "recurrence": {"form": "recurrence"}},
    ),
    "mlp": Case("softmax attention with MLP", lambda: NonlinearPaper(engine="compact").training(), {"loop": {}}),
}


def stacked(case: str, seeds: tuple[int, ...], steps: int | None = None) -> float:
    """Train some seeds together on one thread; return the time in seconds."""
    training = CASES[case].training()
    training = training.replace(recipe=training.recipe.replace(steps=steps or STEPS, snapshots=()))
    started = time.perf_counter()
    train(training, seeds)
    return time.perf_counter() - started


def in_processes(case: str, seeds: int, processes: int, times: int) -> float:
    """Distribute the seeds over running processes; return the time in seconds until all are done."""
    shares = [tuple(range(i, seeds, processes)) for i in range(processes)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(stacked, case, steps=2), shares))  # start and warm up
        took = []
        for _ in range(times):
            started = time.perf_counter()
            list(pool.map(partial(stacked, case), shares))
            took.append(time.perf_counter() - started)
    return min(took)


def one_by_one(case: str, loop: str, threads: int, times: int) -> float:
    """Train one seed in an ordinary loop; return the time in seconds."""
    training = CASES[case].training()
    name, batch, rate = training.model.label, training.recipe.batch_size, training.recipe.step_size
    options = training.model.options | CASES[case].loops[loop]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return min(torch_loop(name, training.prompts, batch, STEPS, rate, options=options) for _ in range(times))
    finally:
        torch.set_num_threads(before)


def stacking(threads: int, tell: Callable[[str], None] = lambda text: None, times: int = 2) -> dict[str, Any]:
    """Measure all cases, in prompts per second, with drawing included."""
    rows: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    for case, (name, training, loops) in CASES.items():
        batch = training().recipe.batch_size
        rates: dict[tuple[str, int], float] = {}
        for used in sorted({1, threads}):
            for loop in loops:
                rates[loop, used] = batch * STEPS / one_by_one(case, loop, used, times)
            rates["stacked", used] = SEEDS * batch * STEPS / in_processes(case, SEEDS, used, times)
        for (how, used), rate in rates.items():
            processes = used if how == "stacked" else 1
            row = {"model": name, "name": how, "seeds": SEEDS if how == "stacked" else 1}
            rows.append({**row, "processes": processes, "threads": used // processes, "prompts_per_second": rate})
            tell(f"{name}, {how}, {processes} processes, {used // processes} threads each: {rate:,.0f} prompts/s")
        for loop in loops:
            best = max(rate for (how, _), rate in rates.items() if how == loop)
            ratios[f"{case}_stacked_vs_{loop}"] = rates["stacked", threads] / best
        ratios[f"{case}_processes"] = rates["stacked", threads] / rates["stacked", 1]
    return {"rows": rows, "ratios": ratios}
