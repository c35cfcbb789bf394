"""Layers of softmax attention (M B.1); `iclab.models.deep` has the stack around them and its letters.

    mix(Q)_i = Σ_j softmax_j(q_jᵀ W_Bᵀ W_C q_i) q_j,

over the examples only (``context``, as in T (2)), over all j, or over j ≤ i (``past``). Scores are not divided by √d.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.deep import Deep, Mixed, Norm, Sees, Stream, check_sees, later


class DeepSoftmax(Deep):
    """Softmax attention of several layers; arguments as for `DeepLinear`, without ``divide``."""

    name = "deep-softmax"
    label = "softmax attention"
    colour = "#009E73"
    list_order = 60
    fused_form = "deep"
    step_size = 0.1

    def __init__(
        self,
        width: int,
        layers: int = 3,
        heads: int = 1,
        values: bool | None = None,
        residual: bool = True,
        norm: Norm = "rms",
        sees: Sees = "context",
        init_scale: float = 0.2,
        stream: Stream = "full",
    ) -> None:
        super().__init__(width, layers, heads, values, residual, norm, init_scale, stream)
        check_sees(sees)
        self.sees = sees

    def mix(self, layer: int, tokens: Tensor, count: int, label_only: bool) -> Mixed:
        """Weigh values by the softmax of their scores; the attention is its mean over heads."""
        return softmax_mix(self, layer, tokens, count, label_only, self.sees)


def softmax_mix(model: Deep, layer: int, tokens: Tensor, count: int, label_only: bool, sees: Sees) -> Mixed:
    """Mix tokens as a layer of softmax attention does, with the weights of a model's layer."""
    length = tokens.shape[1] - 1
    seen = tokens[:, :-1] if sees == "context" else tokens
    scores = model.scores(layer, tokens[:, -count:], seen)
    if sees == "past":
        scores = scores.masked_fill(later(count, length + 1, tokens.device), -torch.inf)
    weights = model.at(layer, "attention", torch.softmax(scores, -1))
    attention = weights[:, :, -1, :length].mean(1)
    return Mixed(weights @ model.carried(layer, seen, label_only), attention, torch.ones_like(attention))
