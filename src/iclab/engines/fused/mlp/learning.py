"""Training softmax attention with an MLP on the fused engine: the state of each seed, and the steps it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from iclab.engines.ensemble import initial_modules
from iclab.engines.fused.frame import Frame
from iclab.engines.fused.matrix_kernels import fill, padded, product, zeros
from iclab.engines.fused.mlp import step_kernels
from iclab.engines.fused.mlp.pass_kernels import make_pass
from iclab.engines.fused.mlp.step_kernels import Weights, make_tables
from iclab.engines.fused.rules import make_rules
from iclab.engines.fused.seeds import SeedState
from iclab.engines.training import Training
from iclab.prompts import Basis, Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

NAMES = ("key", "query", "value", "hidden")


def parameters(training: Training) -> tuple[str, ...]:
    """Return the names of the weights that can move."""
    return NAMES


class SoftmaxMLPState(SeedState):
    """The weights and working memory of one seed."""

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        super().__init__(training, seed, basis)
        dtype = np.dtype(training.dtype)
        (module,) = initial_modules(training, (seed,), (basis,))
        self.start = {name: w.detach().double().numpy() for name, w in module.state_dict().items()}
        self.inward = _inward(training, basis)
        self.image = _image(self.start["key"], self.inward)
        self.starting = self._coordinates()
        made = [fill(w, dtype) for w in self.starting.values()]
        self.weights = Weights(*made, *(zeros(w.shape, dtype) for w in made + made))
        self.rules = make_rules(training.recipe, NAMES, dtype)
        self.prepare(training.prompts)

    def _coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Return the initial weights in coordinates, by name."""
        return {
            "key": product(self.image.T, self.start["key"], self.inward.T),
            "query": product(self.image.T, self.start["query"], self.inward.T),
            "value": product(self.start["value"], self.inward.T),
            "hidden": self.start["hidden"],
        }

    @property
    def changing(self) -> Sequence[NDArray[np.floating]]:
        """Weights, gradients and momenta."""
        return self.weights

    def kept(self) -> dict[str, NDArray[np.floating]]:
        """Return the model's own weights: where they started, and how far each moved in its coordinates."""
        dtype, out = self.weights.key.dtype, {}
        for name, first in self.starting.items():
            now = getattr(self.weights, name)[: first.shape[0], : first.shape[1]]
            moved = now.astype(np.float64) - first.astype(dtype)
            if name in ("key", "query"):
                moved = product(self.image, moved)
            out[name] = now if name == "hidden" else self.start[name] + product(moved, self.inward)
        return {name: w.astype(dtype) for name, w in (out | {"signs": self.start["signs"]}).items()}

    def steps(self, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]) -> int:
        """Take steps; return the step at which the loss is not finite, or −1."""
        how = (self.label, self.seed, int(Stream.TRAIN), first, last, self.rules, rates, losses)
        return step_kernels.train(self.drawing, self.weights, self.tables, self.block, self.space, *how)

    def prepare(self, prompts: Prompts) -> None:
        """Allocate tables and working memory for a distribution."""
        dtype, self.prompts = self.weights.key.dtype, prompts
        self.drawing = drawing(prompts, dtype)
        self.block = make_block(self.drawing)
        rows, self.label = token_rows(prompts, self.basis)
        outer, signs = fill(product(rows, self.inward.T), dtype), fill(self.start["signs"], dtype)
        self.tables = make_tables(outer, signs, len(self.weights.key), len(self.weights.value))
        self.space = make_pass(prompts, len(outer), len(signs), dtype)


def token_rows(prompts: Prompts, basis: Basis) -> tuple[NDArray[np.float64], int]:
    """Return the rows that tokens are combined from, (R, d_X + d_Y), and the row of the label.

    They are the dictionary and a label of 1; with noise, also the axes of the inputs, after some rows of 0.
    """
    vectors = prompts.dictionary(basis)
    count, inputs = vectors.shape
    axes = padded(count + 1)[0]
    rows = np.zeros((axes + inputs if prompts.noise else count + 1, inputs + prompts.label_width))
    rows[:count, :inputs], rows[count, inputs] = vectors, 1.0
    rows[axes:, :inputs] = np.eye(len(rows[axes:]), inputs)
    return rows, count


def _inward(training: Training, basis: Basis) -> NDArray[np.float64]:
    """Return orthonormal rows that span all tokens of a training, (r + 1, d_X + d_Y): the label's is the last."""
    noisy = any(phase.noise for phase in training.phases)
    inside = np.eye(basis.directions.shape[1]) if noisy else Frame.of(training, basis).directions(basis)
    rows = np.pad(inside, ((0, 1), (0, training.prompts.label_width)))
    rows[-1, inside.shape[1]] = 1.0
    return rows


def _image(key: NDArray[np.float64], inward: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal columns, (m_a, s), that span what W_K⁽⁰⁾ = W_Q⁽⁰⁾ make of tokens."""
    left, sizes, _ = np.linalg.svd(key @ inward.T, full_matrices=False)
    return left[:, sizes > 1e-12 * max(sizes.max(), 1e-300)]
