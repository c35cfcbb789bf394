"""Measurements of one-layer models on the fused engine: probes that it adds up without a dense token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.frame import Frame, leaves_span
from iclab.engines.fused.one_layer import step_kernels, worst_kernels
from iclab.engines.fused.one_layer.gate_kernels import Gate, make_gate
from iclab.engines.fused.one_layer.learning import gate_form, gate_scale
from iclab.engines.fused.one_layer.step_kernels import ATTENTION, ERROR, GATES, SQUARES_OF, make_scratch
from iclab.engines.fused.one_layer.worst_kernels import make_choices
from iclab.engines.fused.summing import Add, Measuring
from iclab.engines.trained import Trained
from iclab.models.gates import initial_gate
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

CODES = {"error": ERROR, "attention": ATTENTION, "gates": GATES, "squares": SQUARES_OF}
"""What `step_kernels` adds up; the other probes are those of `worst_kernels`."""


def measuring(trained: Trained, probe: str, prompts: Prompts, at: int, draw: int) -> Measuring:
    """Prepare a probe on test prompts; attention has a shape of (layers,), gates of (layers, places)."""
    dtype, length = np.dtype(trained.training.dtype), prompts.context_length
    numbers = drawing(prompts, dtype)

    def seed(row: int) -> Add:
        tables, gate = tables_of(trained, row, at, prompts), gate_of(trained, row, at)

        def add(first: int, count: int, total: NDArray[np.float64]) -> None:
            space = (make_block(numbers), make_scratch(length, len(tables[0]), dtype))
            which = (trained.seeds[row], int(Stream.TEST), draw, first, count, total.reshape(len(total), -1))
            if probe in CODES:
                step_kernels.measure(numbers, gate, CODES[probe], *space, *tables, *which)
            else:
                choices = make_choices(length, dtype)
                worst_kernels.measure(numbers, gate, probe == "worst-placement", *space, choices, *tables, *which)

        return add

    return Measuring({"attention": (1,), "gates": (1, length)}.get(probe, ()), seed)


def gate_of(trained: Trained, row: int, at: int) -> Gate:
    """Return the gate of a seed, with its trained number."""
    form = gate_form(trained.training)
    number = float(trained.snapshots[at][form.scalar][row, 0]) if form.scalar else form.start
    return make_gate(form, trained.training.dtype, number)


def tables_of(
    trained: Trained, row: int, at: int, prompts: Prompts
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
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
