"""One-layer linear Transformer: Mamba with every gate set to 1 (M §3.4).

Code name → paper:  key W_B,  query W_C,  state_size m,  init_scale δ.

    F(Ψ; P) = Σ_{i ≤ l+1} y_i p_iᵀ W_Bᵀ W_C p_query

The sum is not divided by l, as in the paper.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from iclab.models.answer import Answer
from iclab.models.mamba import diagonal, linear_scores


class Linear(nn.Module):
    """M's linear Transformer; arguments as for `Mamba`."""

    gating: ClassVar[str] = "none"

    def __init__(self, width: int, state_size: int | None = None, init_scale: float = 0.2) -> None:
        super().__init__()
        self.key, self.query = (
            diagonal(width, state_size, init_scale),
            diagonal(width, state_size, init_scale),
        )

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1)."""
        scores = linear_scores(tokens, self.key, self.query)  # (batch, l)
        labels = tokens[..., :-1, -1]
        return Answer((scores * labels).sum(-1, keepdim=True), scores, torch.ones_like(scores))
