"""The coordinates of deep models: an orthonormal frame of the patterns' span if weights stay in it, or all of R^d.

Let Q (r × d) have orthonormal rows that span the training dictionary, and let Q' be Q with the label's axis added. If a
model has one head, one gate for all channels, and moves by SGD, every token of every layer stays in the span of Q'. A
weight then differs from its start only there: W = W⁽⁰⁾ + Qᵀ(K − K⁽⁰⁾)Q', with K = Q W Q'ᵀ (docs/fused.md). So r
coordinates are enough in any dimension d. A norm divides by a length, which Q keeps. (If there are W_V and W_O, Q also
spans the gates, along which gradients flow back.)

Heads cut R^d into slices, gates per channel weigh its axes one by one, and Adam rescales each entry of a weight. None
of these knows the span of Q. For them the frame is R^d itself, Q = I; all the rest is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.deep.step_kernels import Rows
from iclab.engines.fused.frame import Frame
from iclab.engines.fused.matrix_kernels import product
from iclab.engines.training import Training
from iclab.prompts import Basis
from iclab.prompts.prompt_kernels import LANES

Matrices = Mapping[str, NDArray[np.float64]]
NAMES = ("key", "query", "gate", "value", "output")


def stays_in_span(training: Training) -> bool:
    """Whether the span of the patterns is enough."""
    options = training.model.options
    return options["heads"] == 1 and options.get("gating") != "channel" and training.recipe.optimizer == "sgd"


def training_frame(training: Training, basis: Basis, start: Matrices) -> NDArray[np.float64]:
    """Return Q, (r, d), for training from the weights ``start``."""
    if not stays_in_span(training):
        return np.eye(training.prompts.patterns.dimension)
    frame = Frame.of(training, basis).directions(basis)
    if "gate" in start and "value" in start:  # what flows back through a gate w lies along w, and moves W_O
        gates = start["gate"][..., :-1]
        frame = _extended(frame, gates.reshape(-1, gates.shape[-1]))
    return frame


def test_frame(training: Training, basis: Basis, start: Matrices, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Q, (r, d), for tests on a dictionary of ``vectors`` (D', d), which may leave the span."""
    return _extended(training_frame(training, basis, start), vectors)


def _extended(frame: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add directions to a frame (r, d), as many as vectors (n, d) need."""
    rest = vectors - (vectors @ frame.T) @ frame
    _, sizes, right = np.linalg.svd(rest, full_matrices=False)
    return np.concatenate([frame, right[sizes > 1e-9 * np.abs(vectors).max()]])


def _with_label(frame: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.zeros((frame.shape[0] + 1, frame.shape[1] + 1))
    out[:-1, :-1], out[-1, -1] = frame, 1.0
    return out


def _is_everything(frame: NDArray[np.float64]) -> bool:
    """Whether coordinates are those of R^d itself; weights may then be cut into heads."""
    return len(frame) == frame.shape[1] and bool((frame == np.eye(len(frame))).all())


def _sides(name: str, frame: NDArray[np.float64]) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return what multiplies a weight from the left, if anything, and from the right."""
    left = {"key": frame, "query": frame, "gate": None}.get(name, _with_label(frame))
    return left, _with_label(frame)


def project(weights: Matrices, frame: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the model's own weights in coordinates: Q W Q'ᵀ; (layers, heads, …)."""
    if _is_everything(frame):
        return dict(weights)
    out = {}
    for name, weight in weights.items():
        left, right = _sides(name, frame)
        out[name] = _each(weight, *([] if left is None else [left]), None, right.T)
    return out


def lift(start: Matrices, moved: Matrices, frame: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the model's own weights from coordinates: where it started, plus what moved in the frame."""
    if _is_everything(frame):
        return dict(moved)
    before = project(start, frame)
    out = {}
    for name, weight in start.items():
        left, right = _sides(name, frame)
        out[name] = weight + _each(moved[name] - before[name], *([] if left is None else [left.T]), None, right)
    return out


def _each(weights: NDArray[np.float64], *factors: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Multiply factors for every layer and head, with its own weight (…, a, b) in the place of None."""
    matrices = weights.reshape(-1, *weights.shape[-2:])
    made = [product(*(matrix if factor is None else factor for factor in factors)) for matrix in matrices]
    return np.stack(made).reshape(*weights.shape[:-2], *made[0].shape)


def rows(vectors: NDArray[np.float64], frame: NDArray[np.float64], dtype: np.dtype) -> Rows:
    """Return dictionary ``vectors`` (D', d) in coordinates, without zeros."""
    coordinates = vectors @ frame.T
    coordinates[np.abs(coordinates) < 1e-14 * np.abs(vectors).max()] = 0.0  # rounding
    width = max(1, int(np.count_nonzero(coordinates, axis=1).max()))
    channel = np.argsort(coordinates == 0.0, axis=1, kind="stable")[:, :width]  # those that are not 0 first
    value = np.take_along_axis(coordinates, channel, axis=1)
    return Rows(width, (channel * LANES).ravel(), value.astype(dtype).ravel())
