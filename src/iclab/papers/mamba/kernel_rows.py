"""Reading M-kernel's rows: kernels as matrices, their fits, and clean errors by distance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.papers.mamba.kernel_settings import Which, graph_of
from iclab.probes import Proportion, Row
from iclab.study.claims import BySeed
from iclab.study.rows import proportion
from iclab.theory.evolution import TokenTypes, evolve
from iclab.theory.graph import KernelFit, mean_by_distance

Matrix = NDArray[np.float64]


def where(which: Which, what: str, model: str) -> dict[str, Any]:
    """Return the columns that name the rows of one measurement."""
    return {"what": what, "relevant": which[0], "tasks": which[1], "model": model}


def select(rows: Iterable[Row], which: Which, what: str, model: str) -> list[Row]:
    """Return the rows of one measurement."""
    relevant, tasks = which
    mine = [row for row in rows if row["what"] == what and row["relevant"] == relevant]
    return [row for row in mine if row["tasks"] == tasks and row["model"] == model]


def kernels(rows: list[Row], which: Which) -> dict[int, Matrix | None]:
    """Return the kernel of each seed as a matrix (M1, M1); None if the seed diverged."""
    found: dict[int, Matrix | None] = {}
    for row in rows:
        if row["diverged"]:
            found[row["seed"]] = None
        else:
            matrix = found.setdefault(row["seed"], np.zeros((which[0], which[0])))
            assert matrix is not None
            matrix[row["query_pattern"], row["pattern"]] = row["entry"]
    return found


def mean_kernel(rows: list[Row], which: Which, model: str) -> Matrix | None:
    """Return the kernel after training, mean over seeds; None if no seed has one."""
    good = [k for k in kernels(select(rows, which, "kernel", model), which).values() if k is not None]
    return np.mean(good, axis=0) if good else None


def fits(rows: list[Row], which: Which, model: str) -> dict[int, KernelFit | None]:
    """Fit exp(2τL) to the kernel of each seed after training."""
    found = kernels(select(rows, which, "kernel", model), which)
    return {seed: None if kernel is None else graph_of(which).fit(kernel) for seed, kernel in found.items()}


def entries(rows: list[Row], which: Which, model: str) -> dict[int, dict[int, float] | None]:
    """Return the mean entry by distance of each seed's kernel after training."""
    found = kernels(select(rows, which, "kernel", model), which)
    return {seed: None if k is None else mean_by_distance(graph_of(which), k) for seed, k in found.items()}


def clean_errors(rows: list[Row], which: Which, model: str) -> dict[int, Proportion]:
    """Return the error on clean prompts by the distance of the task's patterns."""
    mine = select(rows, which, "error", model)
    found = {d: proportion(mine, between=d) for d in sorted({row["between"] for row in mine})}
    return {d: p for d, p in found.items() if p is not None and p.mean is not None}


def predicted_errors(rows: list[Row], which: Which, context_length: int) -> dict[int, float]:
    """Return the clean error of Mamba by distance that follows from exp(2τL) and one gate for all examples.

    τ is fitted to the mean kernel, and the gate is that of the mean clean logit.
    """
    measured, graph = mean_kernel(rows, which, "mamba"), graph_of(which)
    logits = [row["mean"] for row in select(rows, which, "gate", "mamba") if _clean_logit(row)]
    if measured is None or not logits:
        return {}
    kernel, inflow = graph.kernel(graph.fit(measured).time), 1 / (1 + np.exp(-np.mean(logits)))
    found = {}
    for distance in (int(d) for d in np.unique(graph.distances) if d != 0):
        j, k = np.nonzero(graph.distances == distance)
        votes = inflow * np.stack([kernel[j, j], -kernel[j, k]], axis=-1)  # (pairs, 2): the query's pattern, the other
        votes, pairs = np.unique(votes.round(12), axis=0, return_counts=True)  # on a ring, all pairs are alike
        error = evolve(TokenTypes([0.5, 0.5], 1 - inflow, votes), context_length, bracket=False).error
        found[distance] = float(np.average(error, weights=pairs))
    return found


def _clean_logit(row: Row) -> bool:
    return not row["diverged"] and (row["kind"], row["quantity"]) == ("clean", "logit")


def slow_times(rows: list[Row], which: Which) -> dict[int, tuple[float, BySeed]]:
    """Return the mean loss and the fitted τ of each seed, by step of the slow training."""
    losses, slow = select(rows, which, "slow loss", "mamba"), select(rows, which, "slow kernel", "mamba")
    found: dict[int, tuple[float, BySeed]] = {}
    for step in sorted({row["step"] for row in slow} - {0}):
        hinge = [row["hinge"] for row in losses if row["step"] == step and row["hinge"] is not None]
        matrices = kernels([row for row in slow if row["step"] == step], which)
        times = {seed: None if k is None else graph_of(which).fit(k).time for seed, k in matrices.items()}
        if hinge:
            found[step] = float(np.mean(hinge)), times
    return found
