"""Gates of one layer: Mamba's product gates, M (3), their initial weights, and what a gate of any form consists of.

G_i(w) = σ(wᵀp_i) Π_{j > i} (1 − σ(wᵀp_j)),     w⁽⁰⁾ ~ N(0, I/(d + 1))
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from iclab.prompts.counters import Stream, normals
from iclab.prompts.patterns import Basis


class Flow(NamedTuple):
    """What every token does to the state of one layer: h_i = decay_i h_{i−1} + inflow_i y_i s_i. Arrays (…, l + 1)."""

    log_decay: Tensor
    """The logarithm of what is left of the state: products of decays then stay finite at any length."""
    inflow: Tensor

    @property
    def decay(self) -> Tensor:
        """What is left of the state."""
        return self.log_decay.exp()


class GateForm(NamedTuple):
    """How the fused engine computes decay and inflow: `iclab.engines.fused.one_layer.gate_kernels` has functions."""

    kind: str
    """The name of its function."""
    first: float = 0.0
    """A constant of the function, such as the exponent of retention."""
    second: float = 0.0
    """Another constant."""
    vector: bool = True
    """Whether it reads a logit wᵀp, so that the model has weights ``gate``."""
    scalar: str = ""
    """The name of a trained number that the function takes; empty if it takes none."""
    start: float = 0.0
    """Where that number starts, or what it is if it is not trained."""


def product_gates(logits: Tensor) -> Tensor:
    """Return log G_i = log σ(s_i) + Σ_{j > i} log(1 − σ(s_j)) for s = wᵀp, (…, l + 1); finite at any length."""
    stay = F.logsigmoid(-logits)
    later = stay.flip(-1).cumsum(-1).flip(-1) - stay  # Σ_{j > i}
    return F.logsigmoid(logits) + later


class InitialGate(NamedTuple):
    """w⁽⁰⁾, drawn in the patterns' directions: rotating the patterns rotates it with them."""

    inside: NDArray[np.float64]
    """(D,) coordinates along the patterns' directions."""
    label: float
    """The coordinate of the label."""
    seed: int
    number: int
    factor: float

    def outside(self, basis: Basis) -> NDArray[np.float64]:
        """Return the part orthogonal to the patterns, (d,)."""
        dimension = basis.directions.shape[1]
        drawn = normals(self.seed, Stream.WEIGHTS, (dimension,), slot=3 * self.number + 1)
        return self.factor * basis.outside(drawn) / np.sqrt(dimension + 1)

    def whole(self, basis: Basis) -> NDArray[np.float64]:
        """Return the whole vector, (d + 1,)."""
        return np.append(self.inside @ basis.directions + self.outside(basis), self.label)


def initial_gate(shape: tuple[int, ...], seed: int, number: int = 0, factor: float = 1.0) -> InitialGate:
    """Draw w⁽⁰⁾ for D patterns in d dimensions, ``shape`` = (D, d), times ``factor``.

    ``number`` counts the gates of a model.
    """
    scale = factor / np.sqrt(shape[1] + 1)
    inside = normals(seed, Stream.WEIGHTS, (shape[0],), slot=3 * number) * scale
    label = normals(seed, Stream.WEIGHTS, (1,), slot=3 * number + 2)[0] * scale
    return InitialGate(inside, float(label), seed, number, factor)
