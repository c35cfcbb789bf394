"""mLSTM, the matrix memory of xLSTM: an input gate, a forget gate and a normaliser (Beck et al., 2024, (19)–(27)).

Code name → paper:  key W_k,  query W_q,  gate w_i (input),  forget w_f,  state_size d,  init_scale δ.

    C_t = f_t C_{t−1} + i_t v_t k_tᵀ,   n_t = f_t n_{t−1} + i_t k_t,   h_t = C_t q_t / max(|n_tᵀ q_t|, 1)
    i_t = exp(w_iᵀ p_t),   f_t = σ(w_fᵀ p_t)

and in the label's row, with s_i = k_iᵀ q_query and sums over all tokens up to the query,

    F = Σ_i G_i y_i s_i / max(|Σ_i G_i s_i|, 1),     G_i = i_i Π_{j > i} f_j.

The input gate sees the example itself, so that it can shut an outlier out. An exponential can overflow: as in xLSTM,
all G_i are divided by the largest, which changes nothing. Not included: biases, the factor 1/√d of keys, the output
gate.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.models.answer import Answer
from iclab.models.recurrent import Form, Recurrent, later


class MLSTM(Recurrent):
    """One layer of mLSTM; arguments as for `Recurrent`. The gate that is shown has the normaliser in it."""

    name = "mlstm"
    label = "mLSTM"
    colour = "#8C564B"
    list_order = 105
    step_size = 0.3
    has_transitions = "sign"

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        self.forget = nn.Parameter(torch.zeros(width))  # w_f

    def gate_vectors(self) -> tuple[nn.Parameter | None, ...]:
        """Return both gates."""
        return self.gate, self.forget

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        if self.form == "recurrence":
            return self._steps(tokens)
        scores, log_gates = self._scores(tokens), self.logits(tokens) + later(F.logsigmoid(tokens @ self.forget))
        largest = log_gates.amax(-1, keepdim=True).detach()
        powers = (log_gates - largest).exp()  # (batch, l + 1)
        normaliser = torch.maximum((powers * scores).sum(-1, keepdim=True).abs(), (-largest).exp())
        attention = self.attention(scores[..., :-1])
        gates = self.gates((powers / normaliser)[..., :-1])
        return Answer((gates * attention * tokens[..., :-1, -1]).sum(-1, keepdim=True), attention, gates)

    def _scores(self, tokens: Tensor) -> Tensor:
        """Return k_iᵀ q_query of every token, the query's own among them."""
        read = (tokens[..., -1, :] @ self.query.T) @ self.key
        return (read.unsqueeze(-2) @ tokens.mT).squeeze(-2)

    def _steps(self, tokens: Tensor) -> Answer:
        """Run the recurrence as printed, on the label's row of C and on n: (batch, d)."""
        inflow, decay, labels = self.logits(tokens).exp(), torch.sigmoid(tokens @ self.forget), tokens[..., -1]
        keys, read = tokens @ self.key.T, tokens[..., -1, :] @ self.query.T
        memory = normaliser = torch.zeros_like(keys[..., 0, :])
        gate = torch.zeros_like(labels)
        unit = torch.eye(tokens.shape[-2], dtype=tokens.dtype, device=tokens.device)
        for i in range(tokens.shape[-2]):
            kept, let_in = decay[..., i, None], inflow[..., i, None]
            memory = kept * memory + let_in * labels[..., i, None] * keys[..., i, :]
            normaliser = kept * normaliser + let_in * keys[..., i, :]
            gate = kept * gate + let_in * unit[i]
        below = (normaliser * read).sum(-1, keepdim=True).abs().clamp(min=1.0)
        scores = self._scores(tokens)[..., :-1]
        return Answer((memory * read).sum(-1, keepdim=True) / below, scores, (gate / below)[..., :-1])

    def transitions(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return f_i, and i_i s_i divided by the largest i of the prompt, which leaves the sign of F as it is."""
        logits = self.logits(tokens)
        inflow = (logits - logits.amax(-1, keepdim=True)).exp()
        return torch.sigmoid(tokens @ self.forget), (inflow * self._scores(tokens))[..., :-1]
