"""The graph of training tasks, and the attention that training on them must learn.

Patterns are nodes; a training task that tells two patterns apart is an edge. Let A_jk be the probability that a
training prompt has query pattern j and other pattern k, and q_j = Σ_k A_jk. While the hinge is active for nearly all
prompts, the population gradient of M's W_B and W_C on the relevant block is a multiple of W L, where

    L = M1 (diag(q) − A)

is the Laplacian of the graph. Examples with the query's pattern vote for the right answer and those with the other
pattern against it, and each are half of the clean ones: hence the minus sign. Weights that start as δI then follow

    W_B = W_C = δ exp(τ L),      W_Bᵀ W_C = δ² exp(2τ L),                                                   (A)

with a time τ that `iclab.theory.laws` gives. If every pattern is in as many tasks (Condition 1), L = I − P, P the
random walk on the graph. To leading order in τ, entries of exp(2τL) are negative between patterns that share a task and
positive between patterns that only share a neighbour. Graphs without such pairs, complete ones above all, have no
wrong sign. docs/theory.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError

Matrix = NDArray[np.float64]


class KernelFit(NamedTuple):
    """The best fit of exp(2τL) to a measured kernel."""

    time: float
    """τ, the only free number."""
    r2: float
    """The share of the kernel's variance over its entries that the fit explains."""


@dataclass(frozen=True)
class TaskGraph:
    """The graph of a set of training tasks.

    Example:
        >>> ring = TaskGraph.of([(0, 1), (1, 2), (2, 3), (3, 0)], relevant=4)
        >>> ring.complete, ring.distances[0].tolist()
        (False, [0, 1, 2, 1])
    """

    weights: Matrix
    """(M1, M1) A_jk: how likely a prompt has query pattern j and other pattern k; symmetric, adds up to 1."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], relevant: int) -> TaskGraph:
        """Build the graph of tasks (a, b), all equally likely, each with its query on either side as often."""
        counts = np.zeros((relevant, relevant))
        for a, b in pairs:
            if a == b or not (0 <= a < relevant and 0 <= b < relevant):
                raise InputError(f"tasks = {a}-{b}: must name two different patterns, 0 to {relevant - 1}")
            counts[a, b] += 1
            counts[b, a] += 1
        if not counts.any():
            raise InputError("tasks = []: the task graph is empty; name at least one pair of patterns")
        return cls(counts / counts.sum())

    @property
    def relevant(self) -> int:
        """M1, the number of nodes."""
        return len(self.weights)

    @cached_property
    def laplacian(self) -> Matrix:
        """L = M1 (diag(q) − A), (M1, M1)."""
        return self.relevant * (np.diag(self.weights.sum(1)) - self.weights)

    @property
    def complete(self) -> bool:
        """Whether every two patterns share a task."""
        return bool((self.weights + np.eye(self.relevant) > 0).all())

    @property
    def connected(self) -> bool:
        """Whether a path leads from every pattern to every other."""
        return bool((self.distances >= 0).all())

    @property
    def regular(self) -> bool:
        """Whether every pattern is the query equally often."""
        return bool(np.allclose(self.weights.sum(1), 1 / self.relevant))

    @cached_property
    def distances(self) -> NDArray[np.int64]:
        """(M1, M1) the number of edges on the shortest path; −1 if there is none."""
        found = np.where(np.eye(self.relevant, dtype=bool), 0, -1).astype(np.int64)
        edges, reached = self.weights > 0, np.eye(self.relevant, dtype=bool)
        for length in range(1, self.relevant):
            reached = reached | (reached @ edges)
            found[reached & (found < 0)] = length
        return found

    def kernel(self, time: float) -> Matrix:
        """Return exp(2τL), (M1, M1): the predicted W_Bᵀ W_C of unit patterns, divided by δ²."""
        values, vectors = self._modes
        return np.asarray((vectors * np.exp(2 * time * values)) @ vectors.T)

    def fit(self, kernel: Matrix) -> KernelFit:
        """Find the τ whose exp(2τL) is closest to a measured W_BᵀW_C/δ², (M1, M1), by least squares."""
        values, vectors = self._modes
        along = ((vectors.T @ kernel) * vectors.T).sum(1)  # vᵀ K v of every mode

        def left(times: NDArray[np.float64]) -> NDArray[np.float64]:
            """Return Σ (K − exp(2τL))² over entries, by its modes."""
            grown = np.exp(2 * times[:, None] * values)
            return np.asarray((kernel**2).sum() - 2 * grown @ along + (grown**2).sum(1))

        low, high = 0.0, np.log(1 + np.abs(kernel).sum()) / (2 * float(values.max()))
        while high - low > 1e-9 * (1 + high):
            grid = np.linspace(low, high, 65)
            best = int(np.argmin(left(grid)))
            low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 64)])
        rest = float(((kernel - self.kernel(low)) ** 2).sum())
        return KernelFit(low, 1 - rest / float(((kernel - kernel.mean()) ** 2).sum()))

    @cached_property
    def _modes(self) -> tuple[NDArray[np.float64], Matrix]:
        values, vectors = np.linalg.eigh(self.laplacian)
        return values.clip(min=0.0), vectors


def mean_by_distance(graph: TaskGraph, kernel: Matrix) -> dict[int, float]:
    """Return the mean entry of a kernel (M1, M1) by graph distance; patterns without a path have distance −1."""
    distances = graph.distances
    return {int(d): float(kernel[distances == d].mean()) for d in np.unique(distances)}
