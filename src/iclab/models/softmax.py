"""One-layer, single-head softmax attention (the attention of T (2), with M's labels).

Code name → paper:  key W_K,  query W_Q,  state_size m_a,  init_scale δ.

    F(Ψ; P) = Σ_{i ≤ l} y_i softmax_i(p_iᵀ W_Kᵀ W_Q p_query)

The softmax leaves the query out, as in T (2), and scores are not divided by √d.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.answer import Answer
from iclab.models.attention import diagonal, linear_scores
from iclab.models.base import Architecture, Point


class Softmax(Architecture):
    """Softmax attention over the context examples; arguments as for `Mamba`."""

    name = "softmax"
    label = "softmax attention"
    colour = "#009E73"
    list_order = 30
    step_size = 0.3
    readable = frozenset({"votes", "keys"})

    def __init__(self, width: int, state_size: int | None = None, init_scale: float = 0.2) -> None:
        super().__init__()
        self.key = diagonal(width, state_size, init_scale)
        self.query = diagonal(width, state_size, init_scale)
        self.attention = Point()

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1); the attention is the softmax, which sums to 1."""
        weights = self.attention(torch.softmax(linear_scores(tokens, self.key, self.query), dim=-1))  # (batch, l)
        labels = tokens[..., :-1, -1]
        return Answer((weights * labels).sum(-1, keepdim=True), weights, torch.ones_like(weights))
