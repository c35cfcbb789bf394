"""iclab's laws of one-layer training in closed form: (A) the clock, (B) the gate's first steps, (E) the hitting time.

docs/theory.md derives them. They hold on average over prompts, while the hinge is active for nearly all of them and the
gate is near w = 0. W_B = W_C = δ exp(τL) with L the Laplacian of the task graph (`iclab.theory.graph`).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from iclab.theory.setting import MambaSetting

HALF = 0.5
"""The output E zF that counts as half trained: the expected hinge loss is then about 1/2."""
Model = Literal["mamba", "linear"]


def gate_sum(model: Model, length: int) -> float:
    """Return g = Σ_{i≤l} G_i before training: ½ (1 − 2^−l) for Mamba with w = 0, l for the linear Transformer.

    >>> gate_sum("mamba", 2), gate_sum("linear", 20)
    (0.375, 20.0)
    """
    return (1 - 2.0**-length) / 2 if model == "mamba" else float(length)


def clean_weight(s: MambaSetting, model: Model | None = None) -> float:
    """Return (1 − p_a) g, the mean sum of the gates of clean examples at w = 0."""
    return (1 - s.train_outlier_fraction) * gate_sum(model or s.model, s.train_length)


def graph_time(s: MambaSetting, steps: float, model: Model | None = None) -> float:
    """Return τ of iclab's (A), W_BᵀW_C = δ² exp(2τL): τ = η β² (1 − p_a) g t / (2 M1).

    >>> round(graph_time(MambaSetting(train_outlier_fraction=0.3, step_size=0.05), 21), 3)
    0.276
    """
    return s.step_size * s.relevant_norm**2 * clean_weight(s, model) * steps / (2 * s.relevant)


def contrast(s: MambaSetting, time: float = 0.0) -> float:
    """Return S̄ = ½ δ²β² (K_jj − K_jk) averaged over training tasks, K = exp(2τL); E zF is (1 − p_a) g S̄."""
    kernel = s.graph.kernel(time)
    apart = float((s.graph.weights * (kernel.diagonal()[:, None] - kernel)).sum())
    return 0.5 * (s.init_scale * s.relevant_norm) ** 2 * apart


class Velocities(NamedTuple):
    """How fast the gate learns, per step."""

    clean: float
    """d(wᵀe_j)/dt, e_j = µ_j/β."""
    outlier: float
    """d(wᵀv̂_s)/dt."""


def gate_velocities(s: MambaSetting, driving: float) -> Velocities:
    """Return iclab's (B): the speed of w at w = 0 under S̄ = ``driving``, for the loss 1 − zF.

    d(wᵀv̂_s)/dt = −ηc p_a (1 − p_a) (κ_a‖v*‖/V) S̄,  d(wᵀe_j)/dt = −ηc (1 − p_a) (β/M1) S̄,  c = ¼ (1 − (l + 1) 2^−l).

    It is linear in S̄: with the integral of S̄ over steps in its place, it gives how far w has moved.
    """
    length = s.train_length
    pull = -s.step_size / 4 * (1 - (length + 1) * 2.0**-length) * (1 - s.train_outlier_fraction) * driving
    strength = s.train_outlier_fraction * s.train_outlier_scale * s.outlier_norm / max(s.outlier, 1)
    return Velocities(pull * s.relevant_norm / s.relevant, pull * strength)


def mean_field_steps(s: MambaSetting, model: Model | None = None, output: float = HALF) -> float:
    """Return the steps until E zF = f on training tasks, with the gate frozen at w = 0; 0 if it starts above f.

    E zF = (1 − p_a) g S̄ with S̄ at the τ of (A). If the task graph is complete, this is iclab's (E):

        T = (M1 − 1) / (η β² (1 − p_a) g) · log( 2f / ((1 − p_a) g δ² β²) ).
    """
    wanted = 2 * output / (clean_weight(s, model) * (s.init_scale * s.relevant_norm) ** 2)
    return _time_until(s, wanted) / graph_time(s, 1.0, model)


def _time_until(s: MambaSetting, wanted: float) -> float:
    """Return the τ at which Σ_jk A_jk (K_jj − K_jk) = tr(L exp(2τL)) / M1 reaches a value; 0 if it starts above it."""
    if wanted <= 1:  # the trace of L is M1
        return 0.0
    modes = np.linalg.eigvalsh(s.graph.laplacian).clip(min=0.0)
    low, high = 0.0, math.log(wanted) / 2  # enough: by Jensen's inequality the trace is at least M1 exp(2τ)
    for _ in range(60):
        middle = (low + high) / 2
        reached = float((modes * np.exp(2 * middle * modes)).sum()) / s.relevant
        low, high = (low, middle) if reached >= wanted else (middle, high)
    return high
