"""Training one-layer models on the fused engine: the state of each seed, and the steps it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines.fused.frame import Frame
from iclab.engines.fused.matrix_kernels import fill, zeros
from iclab.engines.fused.one_layer import step_kernels
from iclab.engines.fused.one_layer.gate_kernels import Gate, make_gate
from iclab.engines.fused.one_layer.step_kernels import Weights, make_scratch, make_tables
from iclab.engines.fused.rules import make_rules
from iclab.engines.fused.seeds import SeedState
from iclab.engines.trained import Trained
from iclab.engines.training import Training
from iclab.models.gates import GateForm, initial_gate
from iclab.prompts import Basis, Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block


def gate_form(training: Training) -> GateForm:
    """Return the gate that the model declares."""
    form = training.model.architecture.gate_form(training.model.options)
    assert form is not None  # or the engine does not apply
    return form


def gate_scale(training: Training) -> float:
    """Return how large w⁽⁰⁾ is, compared with the paper's."""
    return float(training.model.options.get("gate_scale", 1.0))


def parameters(training: Training) -> tuple[str, ...]:
    """Return the names of the weights that can move."""
    return tuple(name for name in _names(training) if name)


def _names(training: Training) -> tuple[str, str, str, str]:
    """Return the names of the weights that kernels have; empty for one that the model has not."""
    form = gate_form(training)
    return "key", "query", "gate" if form.vector else "", form.scalar


class OneLayer(SeedState):
    """The weights and working memory of one seed of a one-layer model."""

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        super().__init__(training, seed, basis)
        form = gate_form(training)
        self.frame = Frame.of(training, basis)
        dtype, r = np.dtype(training.dtype), self.frame.rank
        scale = training.model.options["init_scale"]
        gate = np.zeros(r + 1)
        if form.vector:
            w = initial_gate(basis.directions.shape, seed, factor=gate_scale(training))
            gate[: len(w.inside)], gate[-1] = w.inside, w.label
            if self.frame.extra is not None:
                gate[len(w.inside) : -1] = self.frame.extra @ w.outside(basis)
        key, query = fill(scale * np.eye(r, r + 1), dtype), fill(scale * np.eye(r), dtype)
        number = np.full(1, form.start, dtype=dtype)
        shapes = (key.shape, query.shape, gate.shape, number.shape)
        rest = (zeros(shape, dtype) for shape in shapes + shapes)
        self.weights = Weights(key, query, gate.astype(dtype), number, *rest)
        self.gate: Gate = make_gate(form, dtype, form.start)
        self.names = _names(training)
        self.rules = make_rules(training.recipe, self.names, dtype)
        self.prepare(training.prompts)

    @property
    def changing(self) -> Sequence[NDArray[np.floating]]:
        """Weights, gradients and momenta."""
        return self.weights

    def kept(self) -> dict[str, NDArray[np.floating]]:
        """Return the weights in coordinates of the frame."""
        w, r = self.weights, self.frame.rank
        kept = (w.key[:r, : r + 1], w.query[:r, :r], w.gate, w.number)
        return {name: weight for name, weight in zip(self.names, kept, strict=True) if name}

    def steps(self, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]) -> int:
        """Take steps; return the step at which the loss is not finite, or −1."""
        return step_kernels.train(
            self.drawing,
            self.gate,
            self.weights,
            self.tables,
            self.block,
            self.scratch,
            self.coordinates,
            self.diagonal,
            self.seed,
            int(Stream.TRAIN),
            first,
            last,
            self.rules,
            rates,
            losses,
        )

    def prepare(self, prompts: Prompts) -> None:
        """Allocate tables and working memory for a distribution."""
        dtype = self.weights.key.dtype
        self.prompts = prompts
        self.drawing = drawing(prompts, dtype)
        self.block = make_block(self.drawing)
        self.coordinates = self.frame.coordinates(prompts, self.basis).astype(dtype)
        rows = len(self.coordinates)
        off = self.coordinates - np.eye(rows, self.frame.rank) * self.coordinates
        self.diagonal = rows == self.frame.rank and not off.any()
        self.tables = make_tables(rows, self.frame.rank, dtype)
        self.scratch = make_scratch(prompts.context_length, rows, dtype)


def weights(trained: Trained, step: int) -> dict[str, torch.Tensor]:
    """Return the model's own weights from their coordinates: W_B and W_C (seeds, m, d + 1), w (seeds, d + 1), a."""
    snapshot, options = trained.snapshots[step], trained.training.model.options
    dimension = trained.training.prompts.patterns.dimension
    size = options["state_size"] or dimension
    out: dict[str, list[NDArray[np.float64]]] = {name: [] for name in snapshot}
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(), strict=True)):
        q = Frame.of(trained.training, basis).directions(basis)  # (r, d)
        rest = options["init_scale"] * (np.eye(dimension) - q.T @ q)
        for name in ("key", "query"):
            inner = snapshot[name][i].double().numpy()
            whole = np.zeros((size, dimension + 1))
            whole[:dimension, :dimension] = q.T @ inner[:, : len(q)] @ q + rest
            if name == "key":
                whole[:dimension, dimension] = q.T @ inner[:, -1]
            out[name].append(whole)
        if "gate" in snapshot:
            gate = snapshot["gate"][i].double().numpy()
            outside = initial_gate(basis.directions.shape, seed, factor=gate_scale(trained.training)).outside(basis)
            outside -= (outside @ q.T) @ q
            out["gate"].append(np.append(gate[:-1] @ q + outside, gate[-1]))
        if name := gate_form(trained.training).scalar:
            out[name].append(snapshot[name][i].double().numpy())
    dtype = getattr(torch, trained.training.dtype)
    return {name: torch.from_numpy(np.stack(values)).to(dtype) for name, values in out.items()}
