"""One layer with any gate that forgets by one number per token: what such models share.

Code name → paper (M E.6):  key W_K (W_B),  query W_Q (W_C),  gate w,  decay γ(w; i).

    h_i = decay_i h_{i−1} + inflow_i y_i W_K p_i,   F = h_{l+1}ᵀ W_Q p_query,   h_0 = 0                     (187)

    F = Σ_{i ≤ l+1} G_i y_i p_iᵀ W_Kᵀ W_Q p_query,     G_i = inflow_i Π_{j > i} decay_j                     (189)

h is the label's row of the paper's state, the only one that F reads. A model says what decay and inflow are, as
functions of the logit wᵀp_i. Mamba is the case decay = 1 − σ, inflow = σ; linear attention is decay = inflow = 1.
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
from iclab.models.gates import Flow, initial_gate
from iclab.prompts.patterns import Basis

Form = Literal["closed", "recurrence"]


class Recurrent(Architecture):
    """The closed form and the recurrence; a subclass defines `flow`.

    Args:
        width: d + 1, the length of a token.
        state_size: m; by default d, the least with d diagonal entries.
        init_scale: δ, the first d diagonal entries of W_K and W_Q.
        gate_scale: how large w⁽⁰⁾ is: 1 as in paper M, 0 for a gate that starts alike for every example.
        form: ``closed`` or ``recurrence``: the same function, but the recurrence is slower.
    """

    readable = frozenset({"votes", "keys"})

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        form: Form = "closed",
    ) -> None:
        super().__init__()
        self.key = diagonal(width, state_size, init_scale)
        self.query = diagonal(width, state_size, init_scale)
        self.gate: nn.Parameter | None = nn.Parameter(torch.zeros(width))  # w
        self.gate_scale = gate_scale
        self.attention, self.gates = Point(), Point()
        if form not in ("closed", "recurrence"):
            raise InputError(f"form = {form!r}: must be closed or recurrence")
        self.form = form

    def gate_vectors(self) -> tuple[nn.Parameter | None, ...]:
        """Return the vectors that gates are made of, in the order of their random numbers; None has none."""
        return (self.gate,)

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw every gate vector as Mamba's w: N(0, I/(d + 1)), so that it rotates with the patterns."""
        with torch.no_grad():
            for number, vector in enumerate(self.gate_vectors()):
                if vector is not None:
                    w = initial_gate(basis.directions.shape, seed, number, self.gate_scale).whole(basis)
                    vector.copy_(torch.from_numpy(w))

    def logits(self, tokens: Tensor) -> Tensor:
        """Return wᵀp of every token; 0 without a w."""
        return tokens[..., 0] * 0 if self.gate is None else tokens @ self.gate

    def flow(self, logits: Tensor) -> Flow:
        """Return decay and inflow of tokens from their logits wᵀp."""
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        flow = self.flow(self.logits(tokens))
        if self.form == "recurrence":
            return self._recurrence(tokens, flow)
        scores = self.attention(linear_scores(tokens, self.key, self.query))  # (batch, l)
        gates = self.gates((flow.inflow * later(flow.log_decay).exp())[..., :-1])  # (batch, l)
        return Answer((gates * scores * tokens[..., :-1, -1]).sum(-1, keepdim=True), scores, gates)

    def _recurrence(self, tokens: Tensor, flow: Flow) -> Answer:
        """Run (187) from h_0 = 0 on the label's row of the state, (batch, m)."""
        decay, inflow, labels = flow.decay, flow.inflow, tokens[..., -1]
        keys = tokens @ self.key.T  # (batch, l + 1, m)
        read = tokens[..., -1, :] @ self.query.T  # (batch, m)
        state = torch.zeros_like(keys[..., 0, :])
        gate = torch.zeros_like(labels)  # what is left of each example's inflow
        unit = torch.eye(tokens.shape[-2], dtype=tokens.dtype, device=tokens.device)
        for i in range(tokens.shape[-2]):
            state = state * decay[..., i, None] + (labels * inflow)[..., i, None] * keys[..., i, :]
            gate = gate * decay[..., i, None] + unit[i] * inflow[..., i, None]
        scores = (keys @ read.unsqueeze(-1)).squeeze(-1)
        return Answer((state * read).sum(-1, keepdim=True), scores[..., :-1], gate[..., :-1])


def later(log_decay: Tensor) -> Tensor:
    """Return Σ_{j > i} log decay_j of every token: what the tokens after it leave of it, as a logarithm."""
    sums = log_decay[..., 1:].flip(-1).cumsum(-1).flip(-1)
    return F.pad(sums, (0, 1))


def above_zero(**options: float) -> None:
    """Refuse options that are not above 0."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError(f"{name} = {value}: must be above 0")
