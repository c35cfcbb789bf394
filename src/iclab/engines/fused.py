"""The fused engine: one-layer models trained and measured in dictionary coordinates, without a dense token.

Weights that start as δI and move by SGD stay δI outside the span of the training dictionary (docs/fused.md), so it is
enough to carry them in an orthonormal frame of that span. The gate's part outside the span is frozen at its start; a
test outlier that points there meets the gate through it. This is exact, not an approximation: the weights are those
of the reference engine, up to rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines import kernels
from iclab.engines.recipe import Recipe, Training
from iclab.engines.trained import Report, Trained, bases
from iclab.models.mamba import initial_gate
from iclab.prompts import Basis, Prompts, Stream

VERSION = 1
"""Part of every cell's hash: bump it when the same description trains to other weights."""

KINDS = {"product": kernels.PRODUCT, "none": kernels.UNGATED}
"""The kernels' name for each kind of gating that a model can declare."""

BLOCK = 4096
"""Test prompts added up in one piece; pieces are added in a fixed order, whatever thread did them."""
CHUNK_PROMPTS = 200_000
"""Training prompts between two looks at the outside world, for progress and interruption: a tenth of a second."""


@dataclass(frozen=True)
class Frame:
    """Orthonormal coordinates for the span of a training's dictionary rows.

    Without parts outside the patterns' span the frame is the patterns' own directions, and dimension does not matter.
    """

    rank: int
    extra: NDArray[np.float64] | None
    """(r − D, d) directions beyond the patterns', for training mixtures that have them."""

    @classmethod
    def of(cls, training: Training, basis: Basis) -> Frame:
        """Find the span of all rows that training prompts use."""
        patterns = training.prompts.patterns
        phases = (training.prompts, *(switch.prompts for switch in training.recipe.switches))
        rest = [basis.outside(p.outliers.mixture_vectors(patterns, basis)) for p in phases if _leaves_span(p)]
        if not rest:
            return cls(patterns.count, None)
        _, sizes, right = np.linalg.svd(np.concatenate(rest), full_matrices=False)
        extra = right[sizes > 1e-9 * sizes.max()]
        return cls(patterns.count + len(extra), extra)

    def coordinates(self, prompts: Prompts, basis: Basis) -> NDArray[np.float64]:
        """Return the dictionary rows' coordinates, (D', r); what lies outside the frame is left out."""
        patterns = prompts.patterns
        own = patterns.mixing
        mixed = [
            np.asarray(m.weights) @ own[patterns.relevant + patterns.irrelevant :] for m in prompts.outliers.mixtures
        ]
        inside = np.concatenate([own, np.reshape(mixed, (len(mixed), patterns.count))])
        if self.extra is None:
            return inside
        beyond = np.zeros((len(inside), len(self.extra)))
        if _leaves_span(prompts):
            beyond[patterns.count :] = prompts.outliers.mixture_vectors(patterns, basis) @ self.extra.T
        return np.concatenate([inside, beyond], axis=1)

    def directions(self, basis: Basis) -> NDArray[np.float64]:
        """Return the frame in space, (r, d)."""
        return basis.directions if self.extra is None else np.concatenate([basis.directions, self.extra])


def _leaves_span(prompts: Prompts) -> bool:
    return any(mixture.outside_norm for mixture in prompts.outliers.mixtures)


def train(
    training: Training,
    seeds: tuple[int, ...],
    report: Report = lambda prompts: None,
    tell: Callable[[str], None] = lambda text: None,
    threads: int = 1,
) -> Trained:
    """Train every seed; the result does not depend on the number of threads, nor on which seeds are together."""
    recipe, dtype = training.recipe, np.dtype(training.dtype)
    seats = [Seat(training, seed, basis) for seed, basis in zip(seeds, bases(training, seeds), strict=True)]
    losses = np.full((len(seeds), recipe.steps), np.nan, dtype=dtype)
    diverged_at = np.full(len(seeds), -1, dtype=np.int64)
    snapshots = {0: _stack(seats)}
    rates = np.array([recipe.step_size * recipe.rate(step) for step in range(recipe.steps)], dtype=dtype)
    with _announced(tell):
        seats[0].run(training.prompts, 0, 0, rates, losses[0])  # no step yet: only compiled, or read from the cache
    with ThreadPoolExecutor(threads) as pool:
        for first, last in _stretches(recipe, len(seeds), threads):
            prompts = training.prompts_at(first)
            alive = [i for i in range(len(seeds)) if diverged_at[i] < 0]
            jobs = {i: pool.submit(seats[i].run, prompts, first, last, rates, losses[i]) for i in alive}
            for i, job in jobs.items():
                diverged_at[i] = job.result()
            report((last - first) * recipe.batch_size * len(seeds))
            if last in recipe.kept:
                snapshots[last] = _stack(seats, diverged_at)
    for i, seat in enumerate(seats):
        if diverged_at[i] < 0 and not seat.finite:
            diverged_at[i] = recipe.steps
    return Trained(training, tuple(seeds), snapshots, diverged_at, losses.T.astype(np.float64))


class Seat:
    """One seed's weights and working memory."""

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        self.training, self.seed, self.basis = training, seed, basis
        self.kind = KINDS[training.model.gating]
        self.frame = Frame.of(training, basis)
        dtype, r = np.dtype(training.dtype), self.frame.rank
        scale = training.model.options["init_scale"]
        gate = np.zeros(r + 1)
        if self.kind != kernels.UNGATED:
            w = initial_gate(basis.directions.shape, seed)
            gate[: len(w.inside)], gate[-1] = w.inside, w.label
            if self.frame.extra is not None:
                gate[len(w.inside) : -1] = self.frame.extra @ w.outside(basis)
        shapes = ((r, r + 1), (r, r), (r + 1,))
        self.weights = kernels.Weights(
            (scale * np.eye(r, r + 1)).astype(dtype),
            (scale * np.eye(r)).astype(dtype),
            gate.astype(dtype),
            *(np.zeros(shape, dtype=dtype) for shape in shapes + shapes),
        )
        self._prepare(training.prompts)

    @property
    def finite(self) -> bool:
        """Whether all weights are."""
        return all(np.isfinite(w).all() for w in self.weights[:3])

    def run(
        self, prompts: Prompts, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]
    ) -> int:
        """Take steps ``first`` … ``last − 1``; return the step at which the loss was not finite, or −1."""
        recipe, dtype = self.training.recipe, self.weights.key.dtype
        if prompts is not self.prompts:
            self._prepare(prompts)
        return kernels.train(
            self.drawing,
            self.kind,
            self.weights,
            self.sums,
            self.scratch,
            self.coordinates,
            self.diagonal,
            self.seed,
            int(Stream.TRAIN),
            first,
            last,
            recipe.batch_size,
            rates,
            dtype.type(recipe.clip or 0.0),
            dtype.type(recipe.optimizer_options.get("momentum", 0.0)),
            losses,
        )

    def _prepare(self, prompts: Prompts) -> None:
        """Make tables and working memory for a distribution."""
        dtype = self.weights.key.dtype
        self.prompts = prompts
        self.drawing = drawing(prompts, dtype)
        self.coordinates = self.frame.coordinates(prompts, self.basis).astype(dtype)
        rows = len(self.coordinates)
        off = self.coordinates - np.eye(rows, self.frame.rank) * self.coordinates
        self.diagonal = rows == self.frame.rank and not off.any()
        self.sums = kernels.room(rows, self.frame.rank, dtype)
        self.scratch = kernels.scratch(prompts.context_length, rows, dtype)


def _stretches(recipe: Recipe, seeds: int, threads: int) -> Iterator[tuple[int, int]]:
    """Cut the training at snapshots and switches, and often enough to report."""
    stride = max(1, CHUNK_PROMPTS * threads // (recipe.batch_size * seeds))
    ends = sorted({*recipe.kept, *(switch.step for switch in recipe.switches)} - {0})
    first = 0
    for end in ends:
        while first < end:
            last = min(first + stride, end)
            yield first, last
            first = last


def _stack(seats: list[Seat], diverged_at: NDArray[np.int64] | None = None) -> dict[str, torch.Tensor]:
    """Copy the seeds' weights; NaN where a seed has diverged."""
    out = {}
    for name in ("key", "query", "gate")[: 2 if seats[0].kind == kernels.UNGATED else 3]:
        stacked = torch.from_numpy(np.stack([getattr(seat.weights, name) for seat in seats]))
        if diverged_at is not None:
            stacked[torch.from_numpy(diverged_at >= 0)] = torch.nan
        out[name] = stacked
    return out


def dense(trained: Trained, step: int) -> dict[str, torch.Tensor]:
    """Turn the weights back into the model's own: W_B and W_C (seeds, m, d + 1), w (seeds, d + 1)."""
    compact, options = trained.snapshots[step], trained.training.model.options
    dimension = trained.training.prompts.patterns.dimension
    size = options["state_size"] or dimension
    out: dict[str, list[NDArray[np.float64]]] = {name: [] for name in compact}
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(), strict=True)):
        q = Frame.of(trained.training, basis).directions(basis)  # (r, d)
        rest = options["init_scale"] * (np.eye(dimension) - q.T @ q)
        for name in ("key", "query"):
            inner = compact[name][i].double().numpy()
            whole = np.zeros((size, dimension + 1))
            whole[:dimension, :dimension] = q.T @ inner[:, : len(q)] @ q + rest
            if name == "key":
                whole[:dimension, dimension] = q.T @ inner[:, -1]
            out[name].append(whole)
        if "gate" in compact:
            gate = compact["gate"][i].double().numpy()
            outside = initial_gate(basis.directions.shape, seed).outside(basis)
            outside -= (outside @ q.T) @ q
            out["gate"].append(np.append(gate[:-1] @ q + outside, gate[-1]))
    dtype = getattr(torch, trained.training.dtype)
    return {name: torch.from_numpy(np.stack(values)).to(dtype) for name, values in out.items()}


def sums(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    report: Report = lambda prompts: None,
    threads: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """Measure every seed on test prompts; the sums that `iclab.probes` makes rows of."""
    names = SUMS[probe]
    width = prompts.context_length if probe == "gates" else 1
    places = {"error": kernels.ERROR, "attention": kernels.ATTENTION, "gates": kernels.GATES}
    kind = KINDS[trained.training.model.gating]
    dtype = np.dtype(trained.training.dtype)
    numbers = drawing(prompts, dtype)
    tables = [_tables(trained, i, at, prompts) for i in range(len(trained.seeds))]
    rows = len(tables[0][0])

    def piece(seed: int, table: tuple[NDArray[np.floating], NDArray[np.floating]], first: int) -> NDArray[np.float64]:
        total = np.zeros((len(names), width))
        space = kernels.scratch(prompts.context_length, rows, dtype)
        many = min(BLOCK, count - first)
        kernels.measure(numbers, kind, places[probe], space, *table, seed, int(Stream.TEST), draw, first, many, total)
        return total

    totals = np.zeros((len(trained.seeds), len(names), width))
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, count, BLOCK)
        for i, seed in enumerate(trained.seeds):
            jobs = [pool.submit(piece, seed, tables[i], first) for first in starts]
            for first, job in zip(starts, jobs, strict=True):
                totals[i] += job.result()
                report(min(BLOCK, count - first))
    shape = {"error": (-1,), "attention": (-1, 1), "gates": (-1, 1, width)}[probe]  # (seeds, layers, places)
    return {name: totals[:, j].reshape(shape) for j, name in enumerate(names)}


# What the columns of the kernel's sums are; the names are those of the probes.
SUMS = {
    "error": ("prompts", "right", "wrong", "ties", "nans", "hinge", "hinge_squares"),
    "attention": ("prompts", "same", "other", "same_squares", "other_squares"),
    "gates": ("clean_count", "clean", "outlier_count", "outlier", "rank_count", "rank"),
}


def _tables(trained: Trained, row: int, at: int, prompts: Prompts) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return p_jᵀ W_Bᵀ W_C p_q and wᵀ p_j over the test dictionary."""
    compact, dtype = trained.snapshots[at], np.dtype(trained.training.dtype)
    basis, seed = trained.bases()[row], trained.seeds[row]
    frame = Frame.of(trained.training, basis)
    coordinates = frame.coordinates(prompts, basis)
    outer = np.zeros((len(coordinates) + 1, frame.rank + 1))
    outer[:-1, :-1], outer[-1, -1] = coordinates, 1.0
    key, query = (compact[name][row].double().numpy() for name in ("key", "query"))
    products = coordinates @ query.T @ key @ outer.T
    logits = np.zeros(len(outer))
    if "gate" in compact:
        logits = outer @ compact["gate"][row].double().numpy()
        if _leaves_span(prompts):  # the part of u beyond the frame meets the frozen part of the gate
            vectors = prompts.outliers.mixture_vectors(prompts.patterns, basis)
            q = frame.directions(basis)
            beyond = vectors - (vectors @ q.T) @ q
            logits[prompts.patterns.count : -1] += beyond @ initial_gate(basis.directions.shape, seed).outside(basis)
    return products.astype(dtype), logits.astype(dtype)


def drawing(prompts: Prompts, dtype: np.dtype) -> kernels.Drawing:
    """Put a distribution into the numbers the kernels take."""
    outliers, patterns = prompts.outliers, prompts.patterns
    row, rows = outliers.rows(patterns)
    return kernels.Drawing(
        length=prompts.context_length,
        relevant=patterns.relevant,
        irrelevant=patterns.irrelevant,
        pairs=prompts.pairs,
        stratified=prompts.balance == "stratified",
        outlier_row=row,
        outlier_rows=max(rows, 1),
        threshold=np.uint64(round(outliers.fraction * 2**32)),
        exact=-1 if outliers.count is None else outliers.count,
        placement=("random", "farthest", "closest").index(str(outliers.placement)),
        labels=("random", "flip", "target").index(str(outliers.labels)),
        target=outliers.target,
        irrelevant_scale=dtype.type(prompts.irrelevant_scale),
        outlier_scale=dtype.type(outliers.scale),
    )


@contextmanager
def _announced(tell: Callable[[str], None]) -> Iterator[None]:
    """Say what takes so long, if it does: compilation, whose result numba then keeps on disk."""
    timer = threading.Timer(2.0, tell, ("compiling the fused engine: once on this machine, some 15 seconds",))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
