"""Measurements of one-layer models on the fused engine: probes that it adds up without a dense token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.frame import Frame, leaves_span
from iclab.engines.fused.one_layer import step_kernels, worst_kernels
from iclab.engines.fused.one_layer.learning import gate_kind, gate_scale
from iclab.engines.fused.one_layer.step_kernels import ATTENTION, ERROR, GATES, make_scratch
from iclab.engines.fused.one_layer.worst_kernels import make_choices
from iclab.engines.registry import FORMS
from iclab.engines.trained import Advance, Trained
from iclab.models.gates import initial_gate
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

BLOCK = 4096
"""Test prompts that are added up in one piece. Pieces are added in a fixed order, whichever thread did them."""


def sums(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    advance: Advance = lambda prompts: None,
    threads: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """Measure every seed on test prompts; `iclab.probes` turns the sums into rows."""
    names = FORMS["one-layer"].sums[probe]
    width = prompts.context_length if probe == "gates" else 1
    code = {"error": ERROR, "attention": ATTENTION, "gates": GATES}.get(probe)
    kind = gate_kind(trained.training)
    dtype = np.dtype(trained.training.dtype)
    numbers = drawing(prompts, dtype)
    tables = [_tables(trained, i, at, prompts) for i in range(len(trained.seeds))]
    rows = len(tables[0][0])

    def piece(seed: int, table: tuple[NDArray[np.floating], NDArray[np.floating]], first: int) -> NDArray[np.float64]:
        total = np.zeros((len(names), width))
        space = (make_block(numbers), make_scratch(prompts.context_length, rows, dtype))
        which = (seed, int(Stream.TEST), draw, first, min(BLOCK, count - first))
        if code is None:
            choices = make_choices(prompts.context_length, dtype)
            worst_kernels.measure(numbers, kind, probe == "worst-placement", *space, choices, *table, *which, total)
        else:
            step_kernels.measure(numbers, kind, code, *space, *table, *which, total)
        return total

    totals = np.zeros((len(trained.seeds), len(names), width))
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, count, BLOCK)
        for i, seed in enumerate(trained.seeds):
            jobs = [pool.submit(piece, seed, tables[i], first) for first in starts]
            for first, job in zip(starts, jobs, strict=True):
                totals[i] += job.result()
                advance(min(BLOCK, count - first))
    shape = {"attention": (-1, 1), "gates": (-1, 1, width)}.get(probe, (-1,))  # (seeds, layers, places)
    return {name: totals[:, j].reshape(shape) for j, name in enumerate(names)}


def _tables(trained: Trained, row: int, at: int, prompts: Prompts) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return p_jᵀ W_Bᵀ W_C p_q, (D', D' + 1), and wᵀ p_j, (D' + 1,), over the test dictionary."""
    training, snapshot, dtype = trained.training, trained.snapshots[at], np.dtype(trained.training.dtype)
    basis, seed = trained.bases()[row], trained.seeds[row]
    frame = Frame.of(training, basis)
    coordinates, beyond = _rows(trained, row, prompts, frame)
    outer = np.zeros((len(coordinates) + 1, frame.rank + 1))
    outer[:-1, :-1], outer[-1, -1] = coordinates, 1.0
    key, query = (snapshot[name][row].double().numpy() for name in ("key", "query"))
    products = coordinates @ query.T @ key @ outer.T
    logits = np.zeros(len(outer))
    if "gate" in snapshot:
        logits = outer @ snapshot["gate"][row].double().numpy()
    if beyond is not None:  # outside the frame W_B and W_C are still δI, and w is as it started
        products[:, :-1] += training.model.options["init_scale"] ** 2 * (beyond @ beyond.T)
        if "gate" in snapshot:
            start = initial_gate(basis.directions.shape, seed, factor=gate_scale(training))
            logits[:-1] += beyond @ start.outside(basis)
    return products.astype(dtype), logits.astype(dtype)


def _rows(
    trained: Trained, row: int, prompts: Prompts, frame: Frame
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the test dictionary's coordinates in the frame, (D', r), and its part outside, (D', d), if it has one."""
    basis = trained.bases()[row]
    q = frame.directions(basis)
    if prompts.patterns != trained.training.prompts.patterns:  # these may lie anywhere
        vectors = prompts.dictionary(trained.bases(prompts)[row])
        coordinates = vectors @ q.T
        return coordinates, vectors - coordinates @ q
    coordinates = frame.coordinates(prompts, basis)
    if not leaves_span(prompts):
        return coordinates, None
    vectors = prompts.outliers.mixture_vectors(prompts.patterns, basis)
    beyond = np.zeros((len(coordinates), q.shape[1]))
    beyond[prompts.patterns.count :] = vectors - (vectors @ q.T) @ q
    return coordinates, beyond
