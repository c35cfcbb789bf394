"""Training deep models on the fused engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.engines.ensemble import initial_modules
from iclab.engines.fused.deep import step_kernels
from iclab.engines.fused.deep.answer_kernels import make_plan
from iclab.engines.fused.deep.frame import NAMES, lift, project, rows, training_frame
from iclab.engines.fused.deep.shape import (
    ALL,
    CONTEXT,
    GATED,
    LINEAR,
    PAST,
    SOFTMAX,
    Learner,
    Shape,
    Weights,
    make_memory,
    make_tables,
    make_weights,
)
from iclab.engines.fused.rules import make_rules, make_update
from iclab.engines.fused.seeds import SeedState
from iclab.engines.training import Training
from iclab.models.deep_hybrid import layer_names
from iclab.prompts import Basis, Prompts
from iclab.prompts.prompt_kernels import drawing, make_block

KINDS = {"linear": LINEAR, "softmax": SOFTMAX, "mamba": GATED}
VIEWS = {"all": ALL, "past": PAST, "context": CONTEXT}
OWN_VIEW = {"linear": "all", "softmax": "context", "mamba": "past"}


def layers(training: Training) -> tuple[str, ...]:
    """Return what each layer is: ``mamba``, ``linear`` or ``softmax``."""
    kind, number = training.model.label.removeprefix("deep-"), training.model.options["layers"]
    return layer_names(number) if kind == "hybrid" else (kind,) * number


def parameters(training: Training) -> tuple[str, ...]:
    """Return the names of the model's weights."""
    options = training.model.options
    values = options["heads"] > 1 if options["values"] is None else options["values"]
    gated = ("gate",) if "mamba" in layers(training) else ()
    return ("key", "query", *gated, *(("value", "output") if values else ()))


def make_shape(training: Training, rank: int, length: int) -> Shape:
    """Describe the model in ``rank`` coordinates, on prompts of ``length`` examples."""
    options, dtype = training.model.options, np.dtype(training.dtype)
    named, heads = parameters(training), options["heads"]
    parts = rank // heads + 1 if "value" in named else 0
    by_layer = [
        (
            KINDS[layer],
            VIEWS[options.get("sees", OWN_VIEW[layer])],
            options["norm"] in ("rms", "scores") or (options["norm"] == "own" and layer != "linear"),
        )
        for layer in layers(training)
    ]
    return Shape(
        by_layer=np.array(by_layer, dtype=np.int64),
        kind=by_layer[0][0],
        sees=by_layer[0][1],
        normed=by_layer[0][2],
        layers=len(by_layer),
        heads=heads,
        tokens=length + 1,
        channels=rank + 1,
        rows=rank // heads,
        parts=parts,
        gates=(parts or rank + 1) if options.get("gating") == "channel" else int("gate" in named),
        residual=options["residual"],
        apart=options["norm"] == "scores",
        label_only=options["stream"] == "label",
        factor=dtype.type(1.0 / length if options.get("divide", True) else 1.0),
        width=dtype.type(training.prompts.patterns.dimension + 1),
    )


def fill_weights(shape: Shape, weights: Weights, matrices: dict[str, NDArray[np.float64]]) -> None:
    """Copy matrices (layers, heads, …) into kernels' weights, which have a gate in every layer, used or not."""
    for name, value in matrices.items():
        getattr(weights, name)[shape.gated if name == "gate" else ...] = value


class DeepSeed(SeedState):
    """The weights and working memory of one seed of a deep model."""

    chunk = 20_000

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        super().__init__(training, seed, basis)
        module = initial_modules(training, (seed,), (basis,))[0]
        self.start = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
        self.frame = training_frame(training, basis, self.start)
        self.dtype = np.dtype(training.dtype)
        shape = make_shape(training, len(self.frame), training.prompts.context_length)
        self.learner = Learner(*(make_weights(shape, self.dtype) for _ in range(4)))
        fill_weights(shape, self.learner.weights, project(self.start, self.frame))
        self.rules = make_rules(training.recipe, [name if name in self.start else "" for name in NAMES], self.dtype)
        self.update = make_update(training.recipe, self.dtype)
        self.prepare(training.prompts)

    @property
    def changing(self) -> Sequence[NDArray[Any]]:
        """Weights, and what the optimiser remembers."""
        return (*self.learner.weights, *self.learner.average, *self.learner.squares)

    def kept(self) -> dict[str, NDArray[np.floating]]:
        """Return the model's own weights."""
        moved = {name: getattr(self.learner.weights, name).astype(np.float64) for name in self.start}
        if "gate" in moved:
            moved["gate"] = moved["gate"][self.shape.gated]
        return {name: w.astype(self.dtype) for name, w in lift(self.start, moved, self.frame).items()}

    def prepare(self, prompts: Prompts) -> None:
        """Allocate tables and working memory for a distribution."""
        self.prompts = prompts
        self.shape = make_shape(self.training, len(self.frame), prompts.context_length)
        self.plan = make_plan(self.shape)
        self.drawing = drawing(prompts, self.dtype)
        self.rows = rows(prompts.dictionary(self.basis), self.frame, self.dtype)
        self.tables = make_tables(self.shape, self.dtype)
        self.present, self.waiting = (make_memory(self.shape, self.dtype) for _ in range(2))
        self.block = make_block(self.drawing)

    def steps(self, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]) -> int:
        """Take steps; return the step at which the loss is not finite, or −1."""
        return step_kernels.train(
            self.drawing,
            self.shape,
            self.rows,
            self.plan,
            self.learner,
            self.tables,
            self.present,
            self.waiting,
            self.block,
            self.seed,
            first,
            last,
            self.rules,
            self.update,
            rates,
            losses,
        )
