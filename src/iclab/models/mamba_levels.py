"""One-layer Mamba for 2^H classes, as H binary levels with a head each (M E.7, (201)).

Code name → paper:  key W_B,h,  query W_C,h,  gate w_h,  state_size m,  init_scale δ,  levels H.

    F_h(Ψ; P) = Σ_{i ≤ l+1} G_i(w_h) y_{i,h} p_{i,h}ᵀ W_B,hᵀ W_C,h p_query,h,     h = 1 … H,                  (201)
    G_i(w_h)  = σ(w_hᵀp_{i,h}) Π_{j > i} (1 − σ(w_hᵀp_{j,h})).

A token has H blocks p_{i,h} = (x_{i,h}; y_{i,h}), (200). Here its coordinates are the inputs of all blocks, and then
all labels: the rows of (200) in another order. In (201) head h sees block h only (``sees = block``). So H levels are H
models that share nothing, and with H = 1 it is `iclab.models.mamba`. A head may also see the whole token
(``sees = token``): then p_{i,h} is p_i for every h, and the head must learn which block its label comes from.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.answer import Answer
from iclab.models.attention import diagonal, linear_scores
from iclab.models.base import Architecture, Point
from iclab.models.gates import initial_gate, product_gates
from iclab.prompts.counters import LEVEL
from iclab.prompts.patterns import Basis


class MambaLevels(Architecture):
    """M's H-head Mamba; arguments as for `Mamba`, and:

    Args:
        width: (d + 1) H, the length of a token.
        label_width: H, the number of levels.
        sees: what head h sees of a token: its ``block``, as in (201), or the whole ``token``.
    """

    name = "mamba-levels"
    label = "Mamba, H levels"
    colour = "#332288"
    list_order = 95
    step_size = 1.0
    takes_levels = True
    fused_gate = "product"
    fused_form = "levels"
    readable = frozenset()

    def __init__(
        self,
        width: int,
        label_width: int = 1,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        sees: Literal["block", "token"] = "block",
    ) -> None:
        super().__init__()
        if sees not in ("block", "token"):
            raise InputError(f"sees = {sees!r}: must be block or token")
        self.levels, self.sees, self.gate_scale = label_width, sees, gate_scale
        self.block = width // label_width - 1  # d
        seen = self.block + 1 if sees == "block" else width
        labels = seen - 1 if sees == "block" else width - label_width  # where the labels begin in what a head sees
        weights = [diagonal(labels + 1, state_size, init_scale) for _ in range(2)]
        key, query = (nn.functional.pad(weight.data, (0, seen - labels - 1)) for weight in weights)
        self.key = nn.Parameter(key.repeat(self.levels, 1, 1))  # (H, m, seen)
        self.query = nn.Parameter(query.repeat(self.levels, 1, 1))
        self.gate = nn.Parameter(torch.zeros(self.levels, seen))
        self.attention, self.gates = Point(), Point()

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw every w_h as Mamba draws its w; the w_h of a whole token has one such part for every block."""
        for h in range(self.levels):
            blocks = [h] if self.sees == "block" else range(self.levels)
            parts = []
            for b in blocks:
                number = 0 if b == h else 1 + b  # other normal numbers than those of level b itself
                start = initial_gate(basis.directions.shape, seed + h * LEVEL, number, self.gate_scale)
                parts.append(torch.from_numpy(start.whole(basis.levels[b])))
            inputs, labels = torch.cat([part[:-1] for part in parts]), torch.stack([part[-1] for part in parts])
            with torch.no_grad():
                self.gate[h].copy_(torch.cat([inputs, labels]) / len(parts) ** 0.5)

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, (d + 1) H)."""
        seen = [tokens] * self.levels
        if self.sees == "block":
            inputs, labels = tokens[..., : -self.levels], tokens[..., -self.levels :]
            blocks = zip(inputs.split(self.block, -1), labels.split(1, -1), strict=True)
            seen = [torch.cat(block, -1) for block in blocks]
        heads = range(self.levels)
        scores = [linear_scores(seen[h], self.key[h], self.query[h]) for h in heads]  # (batch, l) each
        gates = [product_gates(seen[h] @ self.gate[h]).exp()[..., :-1] for h in heads]
        attention, gate = self.attention(torch.stack(scores, -2)), self.gates(torch.stack(gates, -2))  # (batch, H, l)
        shown = tokens[..., :-1, -self.levels :].mT
        return Answer((gate * attention * shown).sum(-1), attention, gate)
