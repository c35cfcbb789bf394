"""One-layer Mamba: linear attention times a product gate (M §2, E.1).

Code name → paper:  key W_B,  query W_C,  gate w,  state_size m,  init_scale δ,  tokens P (columns there, rows here).

    F(Ψ; P) = Σ_{i ≤ l+1} G_i(w) y_i p_iᵀ W_Bᵀ W_C p_query,                                              (3)
    G_i(w)  = σ(wᵀp_i) Π_{j > i} (1 − σ(wᵀp_j)),

which unrolls the recurrence (1) with A = −I and h_0 = 0 (the paper starts (1) at h_0 = U and drops it in (88)).
Not here: the convolution, the skip connection and the output gate of the full Mamba block, as in the paper.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.answer import Answer
from iclab.prompts.counters import Stream, normals
from iclab.prompts.patterns import Basis


class Mamba(nn.Module):
    """M's one-layer Mamba, as its closed form (3) or as its recurrence (1).

    Args:
        width: d + 1, the length of a token.
        state_size: m; by default d, the least for which d diagonal entries exist.
        init_scale: δ, the first d diagonal entries of W_B and W_C.
        form: ``closed`` or ``recurrence``; the same function, the second one slower.
    """

    gating: ClassVar[str] = "product"
    """How the fused engine weighs examples in its place; a model without this has no fused form."""

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        form: Literal["closed", "recurrence"] = "closed",
    ) -> None:
        super().__init__()
        self.key, self.query = (
            diagonal(width, state_size, init_scale),
            diagonal(width, state_size, init_scale),
        )
        self.gate = nn.Parameter(torch.zeros(width))  # w
        if form not in ("closed", "recurrence"):
            raise InputError(f"form = {form!r}: must be closed or recurrence")
        self.form = form

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw w ~ N(0, I/(d + 1)) in the patterns' directions, plus a part outside their span.

        Rotating the patterns thus rotates w with them, and changes nothing that the model computes.
        """
        w = initial_gate(basis.directions.shape, seed).whole(basis)
        with torch.no_grad():
            self.gate.copy_(torch.from_numpy(w))

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        if self.form == "recurrence":
            return self._recurrence(tokens)
        scores = linear_scores(tokens, self.key, self.query)  # (batch, l)
        gates = product_gates(tokens @ self.gate).exp()[..., :-1]  # (batch, l)
        labels = tokens[..., :-1, -1]
        return Answer((gates * scores * labels).sum(-1, keepdim=True), scores, gates)

    def _recurrence(self, tokens: Tensor) -> Answer:
        """Run (1) from h_0 = 0: h_i = h_{i−1} ⊙ Ã_i + u_i ⊙ B̃_i, o = h C.

        The rows of h do not mix, and F reads only the label's row, so only that one is carried: (batch, m).
        """
        delta = F.softplus(tokens @ self.gate)  # Δ_i, (batch, l + 1)
        decay = torch.exp(-delta)  # Ã_i = exp(Δ_i A) with A = −I
        inflow = -torch.expm1(-delta)  # (exp(Δ_i A) − I)(Δ_i A)⁻¹ Δ_i = σ(wᵀp_i)
        keys = tokens @ self.key.T  # B_i, (batch, l + 1, m)
        read = tokens[..., -1, :] @ self.query.T  # C of the query, (batch, m)
        labels = tokens[..., -1]
        state = torch.zeros_like(keys[..., 0, :])
        gate = torch.zeros_like(labels)  # what is left of each example's inflow
        unit = torch.eye(tokens.shape[-2], dtype=tokens.dtype, device=tokens.device)
        for i in range(tokens.shape[-2]):
            state = state * decay[..., i, None] + (labels * inflow)[..., i, None] * keys[..., i, :]
            gate = gate * decay[..., i, None] + unit[i] * inflow[..., i, None]
        scores = (keys @ read.unsqueeze(-1)).squeeze(-1)
        return Answer((state * read).sum(-1, keepdim=True), scores[..., :-1], gate[..., :-1])


class InitialGate(NamedTuple):
    """w⁽⁰⁾ ~ N(0, I/(d + 1)), piece by piece."""

    inside: NDArray[np.float64]
    """Its coordinates along the patterns' directions, (D,)."""
    label: float
    """Its coordinate at the label."""
    seed: int
    number: int

    def outside(self, basis: Basis) -> NDArray[np.float64]:
        """Return its part orthogonal to the patterns, (d,)."""
        dimension = basis.directions.shape[1]
        drawn = normals(self.seed, Stream.WEIGHTS, (dimension,), slot=3 * self.number + 1)
        return basis.outside(drawn) / np.sqrt(dimension + 1)

    def whole(self, basis: Basis) -> NDArray[np.float64]:
        """Return all of it, (d + 1,)."""
        return np.append(self.inside @ basis.directions + self.outside(basis), self.label)


def initial_gate(shape: tuple[int, ...], seed: int, number: int = 0) -> InitialGate:
    """Draw w⁽⁰⁾ for D patterns in d dimensions, ``shape`` = (D, d); ``number`` tells several gates apart."""
    scale = 1.0 / np.sqrt(shape[1] + 1)
    inside = normals(seed, Stream.WEIGHTS, (shape[0],), slot=3 * number) * scale
    label = normals(seed, Stream.WEIGHTS, (1,), slot=3 * number + 2)[0] * scale
    return InitialGate(inside, float(label), seed, number)


def diagonal(width: int, state_size: int | None, init_scale: float) -> nn.Parameter:
    """W_B⁽⁰⁾ and W_C⁽⁰⁾: m × (d + 1), δ on the first d diagonal entries, else 0 (the label's column too)."""
    dimension = width - 1
    size = dimension if state_size is None else state_size
    if size < 1:
        raise InputError(f"state_size = {size}: must be at least 1")
    weight = torch.zeros(size, width)
    weight[:dimension, :dimension].fill_diagonal_(init_scale)
    return nn.Parameter(weight)


def linear_scores(tokens: Tensor, key: Tensor, query: Tensor) -> Tensor:
    """p_iᵀ W_Bᵀ W_C p_query for every example, (batch, l): tokens first meet the vector W_Bᵀ W_C p_query."""
    read = (tokens[..., -1, :] @ query.T) @ key  # (batch, d + 1)
    # A row times a matrix: many times faster in a batch than a matrix times a column.
    return (read.unsqueeze(-2) @ tokens[..., :-1, :].mT).squeeze(-2)


def product_gates(logits: Tensor) -> Tensor:
    """log G_i = log σ(s_i) + Σ_{j > i} log(1 − σ(s_j)) for s = wᵀp, (…, l + 1); never 0 · ∞ however long."""
    stay = F.logsigmoid(-logits)
    later = stay.flip(-1).cumsum(-1).flip(-1) - stay  # Σ_{j > i}
    return F.logsigmoid(logits) + later
