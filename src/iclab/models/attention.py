"""Keys and queries of one layer: how they start, and how they score examples.

score_i = p_iᵀ W_Bᵀ W_C p_query,     W_B⁽⁰⁾ = W_C⁽⁰⁾ = δ on the first d diagonal entries, else 0
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from iclab.config import check_whole


def diagonal(width: int, state_size: int | None, init_scale: float) -> nn.Parameter:
    """Return W_B⁽⁰⁾ or W_C⁽⁰⁾, (m, d + 1), for tokens of ``width`` d + 1; m is d by default."""
    dimension = width - 1
    size = dimension if state_size is None else state_size
    check_whole(state_size=size)
    weight = torch.zeros(size, width)
    weight[:dimension, :dimension].fill_diagonal_(init_scale)
    return nn.Parameter(weight)


def linear_scores(tokens: Tensor, key: Tensor, query: Tensor) -> Tensor:
    """Return p_iᵀ W_Bᵀ W_C p_query of every example, (batch, l)."""
    read = (tokens[..., -1, :] @ query.T) @ key  # W_Bᵀ W_C p_query, (batch, d + 1)
    # A row times a matrix: many times faster in a batch than a matrix times a column.
    return (read.unsqueeze(-2) @ tokens[..., :-1, :].mT).squeeze(-2)
