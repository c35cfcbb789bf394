"""Layers of linear attention (M §4.2, B.1); `iclab.models.deep` has the stack around them and its letters.

    mix(Q)_i = c Σ_j q_j q_jᵀ W_Bᵀ W_C q_i,     c = 1/l or 1,

over all j, over j ≤ i (``past``), or over the examples only (``context``). The paper does not say whether it divides by
l, or whether positions look ahead.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.deep import Deep, Mixed, Norm, Sees, Stream, check_sees, check_switches, later


class DeepLinear(Deep):
    """A linear Transformer of several layers.

    Args:
        width: d + 1, the length of a token.
        layers: the number of layers.
        heads: the number of slices that keys and values are cut into; must divide d.
        values: whether to have W_V and W_O; by default only with several heads.
        residual: whether a layer adds to the stream, or replaces it.
        norm: ``rms`` divides each token by its root mean square before a layer reads it, ``scores`` only for keys and
            queries; ``none`` does not.
        divide: whether to divide attention by l.
        sees: ``all``, ``past`` or ``context``.
        init_scale: δ, the first d diagonal entries of W_B and W_C.
        stream: ``full``, or ``label``: layers then write only the label, and inputs pass unchanged.
    """

    name = "deep-linear"
    label = "linear Transformer"
    colour = "#D55E00"
    list_order = 50
    fused_form = "deep"
    step_size = 0.1

    def __init__(
        self,
        width: int,
        layers: int = 3,
        heads: int = 1,
        values: bool | None = None,
        residual: bool = True,
        norm: Norm = "none",
        divide: bool = True,
        sees: Sees = "all",
        init_scale: float = 0.2,
        stream: Stream = "full",
    ) -> None:
        super().__init__(width, layers, heads, values, residual, norm, init_scale, stream)
        check_sees(sees)
        check_switches(divide=divide)
        self.divide, self.sees = divide, sees

    def mix(self, layer: int, tokens: Tensor, count: int, label_only: bool) -> Mixed:
        """Weigh values by their scores."""
        return linear_mix(self, layer, tokens, count, label_only, self.sees, self.divide)


def linear_mix(
    model: Deep, layer: int, tokens: Tensor, count: int, label_only: bool, sees: Sees, divide: bool
) -> Mixed:
    """Mix tokens as a layer of linear attention does, with the weights of a model's layer."""
    length = tokens.shape[1] - 1
    seen = tokens[:, :-1] if sees == "context" else tokens
    scores = model.scores(layer, tokens[:, -count:], seen, 1.0 / max(length, 1) if divide else 1.0)
    if sees == "past":
        scores = scores.masked_fill(later(count, length + 1, tokens.device), 0.0)
    scores = model.at(layer, "attention", scores)
    attention = scores[:, :, -1, :length].sum(1)
    return Mixed(scores @ model.carried(layer, seen, label_only), attention, torch.ones_like(attention))
