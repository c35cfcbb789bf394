"""What T-prop4.1 and T-cor4.3 share: trainings over M1 on two task graphs, and W_Q, W_K read as exp(τL)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from iclab.papers.nonlinear.laws import GRAPHS, Counts, TheoremPaper, Values
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.study.claims import BySeed
from iclab.study.settings import Chosen
from iclab.theory.graph import TaskGraph

Matrix = NDArray[np.float64]
MATRICES = {"query": "W_Q", "key": "W_K"}
NODES = 16
"""Points at which the strength κ of irrelevant patterns is averaged."""


class AlignmentSettings(TheoremPaper):
    """Settings of T-prop4.1 and T-cor4.3."""

    instead = {
        **TheoremPaper.instead,
        "relevant": "relevant_values",
        "irrelevant": "relevant_values",
        "neurons": "relevant_values",
    }
    relevant_values: Annotated[Counts, Chosen("M1, with M2 = M1 and m = M1² log M1: a factor of 5", grid=True)] = (
        4,
        6,
        8,
        12,
        16,
        20,
    )
    scale_values: Annotated[
        Values,
        Chosen("δ, with T longer for smaller ones; below 0.03, batches of 32 single out some patterns", grid=True),
    ] = (0.04, 0.06, 0.08, 0.12, 0.2)
    step_size: Annotated[
        float, Chosen("η: the largest that the theorem allows; it is the end of training that counts")
    ] = 1.0
    middle: Annotated[int, Field(ge=3), Chosen("M1 of the training that is watched all along")] = 8
    watched: Annotated[int, Field(ge=2), Chosen("kept steps of that training", grid=True)] = 12
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    tail_prompts: Annotated[
        int, Field(ge=1), Chosen("per seed and condition, for the 99th percentile over prompts", grid=True)
    ] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: no M1 = 20, fewer prompts; η stays."""
        fewer = tuple(n for n in self.relevant_values if n <= 16) or self.relevant_values
        quick = (
            super().quick().replace(step_size=self.step_size, relevant_values=fewer, test_prompts=500, tail_prompts=300)
        )
        return quick.replace(context_length=self.context_length)


def graph_of(graph: str, relevant: int) -> TaskGraph:
    """Return the training-task graph.

    >>> graph_of("ring", 6).complete, graph_of("complete", 6).complete
    (False, True)
    """
    return TaskGraph.of(GRAPHS[graph].pairs(relevant), relevant)


class Entries(NamedTuple):
    """Entries of W between unit vectors of patterns, times β: the parts of W µ_j along patterns, for one seed."""

    own: float
    by_distance: dict[int, float]
    """Mean part along other relevant patterns, by distance in the graph."""
    irrelevant: float
    """The part of W ν_k along ν_k."""

    @property
    def other(self) -> float:
        """The largest part along another relevant pattern."""
        return max(map(abs, self.by_distance.values()), default=0.0)


def entries(rows: Iterable[Row], own: NonlinearPaper, matrix: str) -> dict[int, Entries | None]:
    """Read the entries of each seed from rows of the probe ``growth``; None if the seed diverged."""
    start, norm = own.init_scale, own.pattern_norm
    found: dict[int, dict[tuple[str, int | None], float] | None] = {}
    for row in rows:
        if row["diverged"]:
            found[row["seed"]] = None
        elif row["matrix"] == matrix and (mine := found.setdefault(row["seed"], {})) is not None:
            mine[row["kind"], row["distance"]] = row["mean"]
    answer: dict[int, Entries | None] = {}
    for seed, moved in found.items():
        if moved is None:
            answer[seed] = None
            continue
        others = {d: norm * mean for (kind, d), mean in moved.items() if kind in ("met", "unmet") and d is not None}
        still = norm * (start + moved["irrelevant own", None])
        answer[seed] = Entries(norm * (start + moved["own", 0]), others, still)
    return answer


def kernels(rows: Iterable[Row], relevant: int) -> dict[int, Matrix | None]:
    """Return W_KᵀW_Q/δ² of each seed, from rows of the probe ``kernel``; None if the seed diverged."""
    found: dict[int, Matrix | None] = {}
    for row in rows:
        if row["diverged"]:
            found[row["seed"]] = None
        elif (matrix := found.setdefault(row["seed"], np.zeros((relevant, relevant)))) is not None:
            matrix[row["query_pattern"], row["pattern"]] = row["entry"]
    return found


def times(rows: Iterable[Row], graph: TaskGraph) -> dict[int, tuple[float, float] | None]:
    """Return τ and R² of exp(2τL), fitted to each seed's W_KᵀW_Q/δ²."""
    found = kernels(rows, graph.relevant)
    answer: dict[int, tuple[float, float] | None] = {}
    for seed, kernel in found.items():
        fit = None if kernel is None else graph.fit(kernel)
        answer[seed] = None if fit is None else (fit.time, fit.r2)
    return answer


def predicted_share(graph: TaskGraph, time: float, irrelevant_scale: float) -> float:
    """Return E part / E norm of W p along the pattern of p, W = δ exp(τL); the mean is over patterns and κ.

    Irrelevant patterns pass through W = δ as they are.

    >>> round(predicted_share(graph_of("ring", 6), 0.0, 0.0), 6)
    1.0
    """
    moved = graph.kernel(time / 2)  # kernel(τ) is exp(2τL)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    kappa = irrelevant_scale * nodes
    lengths = np.sqrt((moved**2).sum(0)[:, None] + kappa**2) @ (weights / 2)
    return float(np.diag(moved).mean() / lengths.mean())


def predicted_deficit(graph: TaskGraph, time: float, own: NonlinearPaper) -> float:
    """Return 1 − attention on the query's pattern of a long prompt of a training task, if scores are δ²β² exp(2τL).

    In a long prompt, shares of patterns are their probabilities: α/2 for each of the task's, the rest alike.

    >>> round(predicted_deficit(graph_of("complete", 6), 0.0, NonlinearPaper(init_scale=1e-9)), 6)
    0.6
    """
    scores = (own.init_scale * own.pattern_norm) ** 2 * graph.kernel(time)
    share, rest = own.relevant_fraction / 2, (1 - own.relevant_fraction) / max(1, graph.relevant - 2)
    total = 0.0
    for j, k in np.argwhere(graph.weights > 0):
        present = np.full(graph.relevant, rest)
        present[[j, k]] = share
        weight = present * np.exp(scores[j] - scores[j].max())
        total += graph.weights[j, k] * (1 - weight[j] / weight.sum())
    return float(total)


def over_log(found: dict[int, BySeed]) -> dict[float, BySeed]:
    """Return numbers by log M1 instead of by M1."""
    return {math.log(relevant): by_seed for relevant, by_seed in found.items()}


def of(rows: Iterable[Row], **where: Any) -> list[Row]:
    """Return the rows with these values in their columns."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]
