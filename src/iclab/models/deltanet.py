"""Gated DeltaNet: the delta rule, with or without forgetting (Yang et al., 2024, 2025).

Code name → paper:  key W_k,  query W_q,  gate w_β,  forget w_α,  rate a,  state_size d_k,  init_scale δ.

    S_t = α_t S_{t−1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ,     o_t = S_t q_t
    β_t = σ(w_βᵀ p_t),   α_t = exp(−softplus(w_αᵀ p_t) e^a), or 1 with ``forgets`` = False: the plain delta rule

Before it writes, a token erases what the state has stored along its key. In the label's row

    F = Σ_i y_i β_i Π_{j > i} α_j a_i,     a_i = k_iᵀ Π_{j > i} (I − β_j k_j k_jᵀ) q_query,   later tokens on the right,

where a_i is the attention that later erasures leave: a_i = k_iᵀ q − Σ_{j > i} β_j k_iᵀ k_j a_j, a triangular system.

β_i sees the example itself, so that it can shut an outlier out. Keys have length 1, as in DeltaNet (``unit_keys``):
else β ‖k‖² > 2 makes the state grow where it should be erased, and outliers are long. That alone makes outliers weak,
as their keys point elsewhere. Queries keep their length, which stands in for the output projection. Not included:
convolutions, SiLU, output gate, norm.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.models.answer import Answer
from iclab.models.recurrent import Form, Recurrent, later


class DeltaNet(Recurrent):
    """One layer of the (gated) delta rule; arguments as for `Recurrent`, and

    Args:
        forgets: whether there is a decay α; without it, this is DeltaNet's plain delta rule.
        unit_keys: whether keys are divided by their length.
    """

    name = "deltanet"
    label = "gated DeltaNet"
    colour = "#7F7F7F"
    list_order = 106
    step_size = 0.3

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        forgets: bool = True,
        unit_keys: bool = True,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        self.unit_keys = unit_keys
        self.forget = nn.Parameter(torch.zeros(width)) if forgets else None  # w_α
        self.rate = nn.Parameter(torch.zeros(1)) if forgets else None  # a

    def gate_vectors(self) -> tuple[nn.Parameter | None, ...]:
        """Return both gates."""
        return self.gate, self.forget

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1); the gate that is shown is β_i Π_{j > i} α_j."""
        keys, read = tokens @ self.key.T, tokens[..., -1, :] @ self.query.T
        if self.unit_keys:
            keys = F.normalize(keys, dim=-1)
        beta, log_alpha, labels = torch.sigmoid(self.logits(tokens)), tokens[..., 0] * 0, tokens[..., -1]
        if self.forget is not None and self.rate is not None:
            log_alpha = -F.softplus(tokens @ self.forget) * self.rate.exp()
        erased = torch.triu((keys @ keys.mT) * beta.unsqueeze(-2), diagonal=1)  # β_j k_iᵀ k_j, j > i
        plain = keys @ read.unsqueeze(-1)
        seen = torch.linalg.solve_triangular(erased, plain, upper=True, unitriangular=True).squeeze(-1)
        scores = self.attention(seen[..., :-1])
        gates = self.gates((beta * later(log_alpha).exp())[..., :-1])
        output = (gates * scores * labels[..., :-1]).sum(-1, keepdim=True)
        if self.form == "recurrence":
            output = self._steps(keys, read, log_alpha.exp(), beta, labels)
        return Answer(output, scores, gates)

    def _steps(self, keys: Tensor, read: Tensor, alpha: Tensor, beta: Tensor, labels: Tensor) -> Tensor:
        """Run the recurrence as printed, on the label's row of S: (batch, d_k)."""
        state = torch.zeros_like(keys[..., 0, :])
        for i in range(keys.shape[-2]):
            key, write = keys[..., i, :], beta[..., i, None]
            stored = (state * key).sum(-1, keepdim=True)
            state = alpha[..., i, None] * (state - write * stored * key) + write * labels[..., i, None] * key
        return (state * read).sum(-1, keepdim=True)
