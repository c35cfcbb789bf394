"""Mamba-3's recurrence: an example enters twice, with its own step and with the next one's (Lahoti et al., 2026).

Code name → paper:  key B,  query C,  gate w (of Δ),  blend u (of λ),  rate a,  state_size N,  init_scale δ.

    h_t = α_t h_{t−1} + β_t B_{t−1} x_{t−1} + γ_t B_t x_t
    α_t = exp(Δ_t A),   β_t = (1 − λ_t) Δ_t α_t,   γ_t = λ_t Δ_t,   Δ_t = softplus(wᵀp_t),   λ_t = σ(uᵀp_t),   A = −e^a

This is the exponential-trapezoidal rule; λ = 1 is Mamba-2's. In the label's row,

    F = Σ_i G_i y_i p_iᵀ W_Bᵀ W_C p_query,     G_i = (λ_i Δ_i + (1 − λ_{i+1}) Δ_{i+1}) Π_{j > i} α_j.

Δ_i can shut an example out, but only from its own step: if the next token has λ < 1, it lets the example in again.
Not included: the rotation of B and C (complex states), several inputs and outputs, biases and norms of B and C.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.models.answer import Answer
from iclab.models.attention import linear_scores
from iclab.models.recurrent import Form, Recurrent, later


class Mamba3(Recurrent):
    """One layer of Mamba-3's trapezoidal recurrence; arguments as for `Recurrent`."""

    name = "mamba3"
    label = "Mamba-3"
    colour = "#17BECF"
    list_order = 101
    step_size = 0.3

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        self.blend = nn.Parameter(torch.zeros(width))  # u
        self.rate = nn.Parameter(torch.zeros(1))  # a

    def gate_vectors(self) -> tuple[nn.Parameter | None, ...]:
        """Return both gates."""
        return self.gate, self.blend

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        step, own = F.softplus(self.logits(tokens)), torch.sigmoid(tokens @ self.blend)  # Δ, λ
        log_decay, labels = -step * self.rate.exp(), tokens[..., -1]
        scores = self.attention(linear_scores(tokens, self.key, self.query))  # (batch, l)
        inflow = (own * step)[..., :-1] + ((1 - own) * step)[..., 1:]
        gates = self.gates(inflow * later(log_decay).exp()[..., :-1])  # (batch, l)
        output = (gates * scores * labels[..., :-1]).sum(-1, keepdim=True)
        if self.form == "recurrence":
            output = self._steps(tokens, step, own, log_decay.exp())
        return Answer(output, scores, gates)

    def _steps(self, tokens: Tensor, step: Tensor, own: Tensor, decay: Tensor) -> Tensor:
        """Run the recurrence as printed, on the label's row of h: (batch, N)."""
        keys = tokens @ self.key.T * tokens[..., -1:]  # y_t B_t
        before = state = torch.zeros_like(keys[..., 0, :])
        for t in range(tokens.shape[-2]):
            alpha, delta, blend, now = decay[..., t, None], step[..., t, None], own[..., t, None], keys[..., t, :]
            state = alpha * state + (1 - blend) * delta * alpha * before + blend * delta * now
            before = now
        return (state * (tokens[..., -1, :] @ self.query.T)).sum(-1, keepdim=True)
