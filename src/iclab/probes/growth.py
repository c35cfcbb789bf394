"""Probes of one-layer weights in the patterns' own directions: the attention kernel, and every entry of M's Lemma 3.

e_j = µ_j/β is the direction of a relevant pattern; ν̂ and v̂ are those of irrelevant and outlier patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Trained, Training, weights
from iclab.probes.probe import Row
from iclab.prompts import Prompts
from iclab.theory.graph import TaskGraph

Matrix = NDArray[np.float64]

KERNEL = ("query_pattern", "pattern", "distance", "entry")
GROWTH = ("matrix", "kind", "distance", "entries", "mean", "rms")


def kernel_rows(trained: Trained, now: dict[str, torch.Tensor], prompts: Prompts) -> list[Row]:
    """Return one row per seed and pair of relevant patterns: e_kᵀ W_Bᵀ W_C e_j, divided by its start δ².

    ``distance`` counts edges of the training-task graph between the two patterns; −1 if no path joins them.
    """
    distances, rows = _graph(trained.training).distances, []
    for i, seed in enumerate(trained.seeds):
        directions = _directions(trained, i)[: trained.training.prompts.patterns.relevant]
        kernel = _product(now, i, directions) / _product(weights(trained, 0), i, directions)[0, 0]
        for j, k in np.ndindex(*kernel.shape):
            where = {"seed": seed, "query_pattern": j, "pattern": k, "distance": int(distances[j, k])}
            rows.append(where | {"entry": float(kernel[j, k])})
    return rows


def _product(now: dict[str, torch.Tensor], row: int, directions: Matrix) -> Matrix:
    """Return e_kᵀ W_Bᵀ W_C e_j as entry (j, k)."""
    dimension = directions.shape[1]
    key, query = (now[name][row, :, :dimension].double().numpy() @ directions.T for name in ("key", "query"))
    return np.asarray(query.T @ key)


def growth_rows(trained: Trained, now: dict[str, torch.Tensor], prompts: Prompts) -> list[Row]:
    """Return one row per seed, weight and kind of entry: mean and root mean square of how far it has moved.

    Entries of W_B and W_C are e_aᵀ (W − W⁽⁰⁾) e_b over directions of patterns, ``kind`` says which (a, b): ``own`` a
    relevant pattern with itself; ``met`` and ``unmet`` two relevant patterns that share a training task or do not, by
    graph ``distance``; the rest by name. Entries of w are (w − w⁽⁰⁾)ᵀ e_a.
    """
    before, graph = weights(trained, 0), _graph(trained.training)
    rows: list[Row] = []
    for i, seed in enumerate(trained.seeds):
        directions = _directions(trained, i)
        moved = {name: (now[name][i] - before[name][i]).double().numpy() for name in now}
        for name in ("key", "query"):
            block = directions @ moved[name][: directions.shape[1], : directions.shape[1]] @ directions.T
            for kind, distance, values in _blocks(block, trained.training, graph):
                rows.append({"seed": seed, "matrix": name} | _entry(kind, distance, values))
        if "gate" in moved:
            along = directions @ moved["gate"][:-1]
            for kind, which in _kinds(trained.training).items():
                rows.append({"seed": seed, "matrix": "gate"} | _entry(kind, None, along[which]))
            rows.append({"seed": seed, "matrix": "gate"} | _entry("label", None, moved["gate"][-1:]))
    return rows


def _entry(kind: str, distance: int | None, values: Matrix) -> dict[str, Any]:
    mean, rms = float(values.mean()), float(np.sqrt((values**2).mean()))
    return {"kind": kind, "distance": distance, "entries": int(values.size), "mean": mean, "rms": rms}


def _kinds(training: Training) -> dict[str, slice]:
    patterns, seen = training.prompts.patterns, 0
    found = {}
    for name in ("relevant", "irrelevant", "outlier"):
        if count := getattr(patterns, name):
            found[name] = slice(seen, seen + count)
        seen += count
    return found


def _blocks(block: Matrix, training: Training, graph: TaskGraph) -> Iterator[tuple[str, int | None, Matrix]]:
    """Yield the kinds of entries of a matrix over all patterns: name, graph distance, values."""
    kinds = _kinds(training)
    relevant = block[kinds["relevant"], kinds["relevant"]]
    for distance in np.unique(graph.distances):
        name = {0: "own", 1: "met"}.get(int(distance), "unmet")
        yield name, int(distance), relevant[graph.distances == distance]
    for first, second in ((a, b) for a in kinds for b in kinds if (a, b) != ("relevant", "relevant")):
        values = block[kinds[first], kinds[second]]
        if first == second:
            same = np.eye(len(values), dtype=bool)
            yield f"{first} own", None, values[same]
            if len(values) > 1:
                yield f"{first} other", None, values[~same]
        else:
            yield f"{first} {second}", None, values.ravel()


def growth_obstacle(training: Training, count: int) -> str:
    """Return the reason why weights cannot be read in the patterns' directions; empty if they can."""
    size, least = training.model.options.get("state_size"), training.prompts.patterns.dimension
    if size is not None and size < least:
        return f"state_size = {size}: must be at least {least}, the dimension, for the probes kernel and growth"
    return ""


def own_patterns(training: Training, prompts: Prompts) -> str:
    """Return the reason why weights cannot be compared with these prompts' patterns; empty if they can."""
    if prompts.patterns == training.prompts.patterns:
        return ""
    return "prompts.patterns: must be those of the training prompts for the probes kernel, growth, luck and hidden"


def _graph(training: Training) -> TaskGraph:
    relevant = training.prompts.patterns.relevant
    return TaskGraph.of(training.prompts.tasks.pairs(relevant), relevant)


def _directions(trained: Trained, row: int) -> Matrix:
    """Return the unit vectors of all patterns, (D, d)."""
    vectors = trained.bases()[row].vectors
    for name in ("key", "query"):
        if name not in trained.snapshots[0]:
            raise InputError(f"probes kernel and growth: read weights that the model does not have ({name})")
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
