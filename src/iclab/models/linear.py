"""One-layer linear Transformer: Mamba with every gate set to 1 (M §3.4).

Code name → paper:  key W_B,  query W_C,  state_size m,  init_scale δ.

    F(Ψ; P) = Σ_{i ≤ l+1} y_i p_iᵀ W_Bᵀ W_C p_query

The sum is not divided by l, as in the paper.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.answer import Answer
from iclab.models.attention import diagonal, linear_scores
from iclab.models.base import Architecture, Point


class Linear(Architecture):
    """M's linear Transformer; arguments as for `Mamba`."""

    name = "linear"
    label = "linear Transformer"
    colour = "#D55E00"
    list_order = 20
    step_size = 0.05
    fused_gate = "none"
    readable = frozenset({"votes", "keys"})

    def __init__(self, width: int, state_size: int | None = None, init_scale: float = 0.2) -> None:
        super().__init__()
        self.key = diagonal(width, state_size, init_scale)
        self.query = diagonal(width, state_size, init_scale)
        self.attention = Point()

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        scores = self.attention(linear_scores(tokens, self.key, self.query))  # (batch, l)
        labels = tokens[..., :-1, -1]
        return Answer((scores * labels).sum(-1, keepdim=True), scores, torch.ones_like(scores))
