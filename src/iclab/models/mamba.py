"""One-layer Mamba: linear attention times a product gate (M §2, E.1).

Code name → paper:  key W_B,  query W_C,  gate w,  state_size m,  init_scale δ,  tokens P (columns there, rows here).

    F(Ψ; P) = Σ_{i ≤ l+1} G_i(w) y_i p_iᵀ W_Bᵀ W_C p_query,                                              (3)
    G_i(w)  = σ(wᵀp_i) Π_{j > i} (1 − σ(wᵀp_j)),

which unrolls the recurrence (1) with A = −I and h_0 = 0 (the paper starts (1) at h_0 = U and drops it in (88)).
Not included: the convolution, the skip connection and the output gate of the full Mamba block, as in the paper.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.answer import Answer
from iclab.models.attention import diagonal, linear_scores
from iclab.models.base import Architecture, Point
from iclab.models.gates import initial_gate, product_gates
from iclab.prompts.patterns import Basis


class Mamba(Architecture):
    """M's one-layer Mamba, as the closed form (3) or as the recurrence (1).

    Args:
        width: d + 1, the length of a token.
        state_size: m; by default d, the least with d diagonal entries.
        init_scale: δ, the first d diagonal entries of W_B and W_C.
        gate_scale: how large w⁽⁰⁾ is: 1 as in the paper, 0 for a gate that starts at ½ for every example.
        form: ``closed`` or ``recurrence``: the same function, but the recurrence is slower.
    """

    name = "mamba"
    label = "Mamba"
    colour = "#0072B2"
    list_order = 10
    step_size = 1.0
    fused_gate = "product"
    readable = frozenset({"votes", "keys"})

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        form: Literal["closed", "recurrence"] = "closed",
    ) -> None:
        super().__init__()
        self.key = diagonal(width, state_size, init_scale)
        self.query = diagonal(width, state_size, init_scale)
        self.gate = nn.Parameter(torch.zeros(width))  # w
        self.gate_scale = gate_scale
        self.attention, self.gates = Point(), Point()
        if form not in ("closed", "recurrence"):
            raise InputError(f"form = {form!r}: must be closed or recurrence")
        self.form = form

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw w ~ N(0, I/(d + 1)) so that it rotates with the patterns."""
        w = initial_gate(basis.directions.shape, seed, factor=self.gate_scale).whole(basis)
        with torch.no_grad():
            self.gate.copy_(torch.from_numpy(w))

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        if self.form == "recurrence":
            return self._recurrence(tokens)
        scores = self.attention(linear_scores(tokens, self.key, self.query))  # (batch, l)
        gates = self.gates(product_gates(tokens @ self.gate).exp()[..., :-1])  # (batch, l)
        labels = tokens[..., :-1, -1]
        return Answer((gates * scores * labels).sum(-1, keepdim=True), scores, gates)

    def _recurrence(self, tokens: Tensor) -> Answer:
        """Run (1) from h_0 = 0: h_i = h_{i−1} ⊙ Ã_i + u_i ⊙ B̃_i, o = h C.

        The rows of h do not mix, and F reads only the label's row. So only that row is carried: (batch, m).
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
