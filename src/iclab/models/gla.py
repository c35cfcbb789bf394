"""Gated linear attention, in the two readings of M E.6: rows of the state (196), or keys (198).

Code name → paper:  key W_K,  query W_Q,  gate W (its last row w for ``rows``),  temperature τ,  init_scale δ.

    h_i = h_{i−1} ⊙ (σ(W p_i)^{1/τ} 1ᵀ) + v_i k_iᵀ                                                          (196)

gates rows of the state, and F reads the label's row, so that only the last row w of W matters:

    reading = rows:   F = Σ_i G_i y_i p_iᵀ W_Kᵀ W_Q p_query,   G_i = Π_{j > i} σ(wᵀp_j)^{1/τ}

which is gated retention, (195). The paper goes on with (197) and (198) instead, which gate keys, each by its own token,
and have no product over later tokens:

    reading = keys:   F = Σ_i y_i (W_K p_i ⊙ σ(W p_i)^{1/τ})ᵀ W_Q p_query                                   (198)

The first cannot tell an outlier from a clean example, the second can (docs/theory.md, 8). τ = 16 as in the paper that M
cites (Yang et al., 2024), where decays belong to channels of keys and are multiplied over later tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.answer import Answer
from iclab.models.gates import Flow, GateForm, initial_gate
from iclab.models.recurrent import Form, Recurrent, above_zero
from iclab.prompts.patterns import Basis


class GLA(Recurrent):
    """One layer of gated linear attention; arguments as for `Recurrent`, and

    Args:
        reading: ``keys`` for (198), ``rows`` for (196).
        temperature: τ, above 0; a large one makes gates close to 1.
    """

    name = "gla"
    label = "GLA"
    colour = "#009E73"
    list_order = 104
    step_size = 0.05
    fused_gate = "retention"
    fused_options = ("reading", "temperature")

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        reading: Literal["keys", "rows"] = "keys",
        temperature: float = 16.0,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        above_zero(temperature=temperature)
        if reading not in ("keys", "rows"):
            raise InputError(f"reading = {reading!r}: must be keys or rows")
        self.reading, self.temperature = reading, temperature
        if reading == "keys":
            self.gate = nn.Parameter(torch.zeros(len(self.key), width))  # W: a row for each channel of the keys

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return the fused engine's function for rows; gates of keys do not fit its tables."""
        return None if options["reading"] == "keys" else GateForm("retention", 1.0 / options["temperature"])

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw every row of W as Mamba's w: N(0, I/(d + 1))."""
        if self.reading == "rows":
            return super().initialise(basis, seed)
        shape, factor = basis.directions.shape, self.gate_scale
        rows = [initial_gate(shape, seed, number, factor).whole(basis) for number in range(len(self.key))]
        with torch.no_grad():
            self.gate.copy_(torch.from_numpy(np.stack(rows)))  # type: ignore[union-attr]

    def flow(self, logits: Tensor) -> Flow:
        """Return decay and inflow: only rows of the state have decays."""
        if self.reading == "keys":
            return Flow(torch.zeros_like(logits), torch.ones_like(logits))
        return Flow(F.logsigmoid(logits) / self.temperature, torch.ones_like(logits))

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1).

        Gates of keys differ by channel: the gate that is shown is the share of |k_c q_c| over channels that passes, and
        the attention is what passes, divided by it.
        """
        if self.reading == "rows":
            return super().forward(tokens)
        products, channels = self._channels(tokens)  # (batch, l, m) each
        if self.form == "recurrence":  # the sum (197), token by token
            state = torch.zeros_like(tokens[..., 0, : len(self.key)])
            keys = tokens @ self.key.T
            for i in range(tokens.shape[-2] - 1):
                state = state + tokens[..., i, -1:] * keys[..., i, :] * channels[..., i, :]
            output = (state * (tokens[..., -1, :] @ self.query.T)).sum(-1, keepdim=True)
        passed = (products * channels).sum(-1)
        with torch.no_grad():  # the gate cancels in the output, so it needs no gradient
            least, sizes = torch.finfo(tokens.dtype).tiny, products.abs()
            share = ((sizes * channels).sum(-1) / sizes.sum(-1).clamp(min=least)).clamp(min=least)
        gates, scores = self.gates(share), self.attention(passed / share)
        if self.form == "closed":
            output = (gates * scores * tokens[..., :-1, -1]).sum(-1, keepdim=True)
        return Answer(output, scores, gates)

    def _channels(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return k_c q_c and σ(W p_i)_c^{1/τ} of every example and channel."""
        read = (tokens[..., -1, :] @ self.query.T).unsqueeze(-2)
        gate = (F.logsigmoid(tokens[..., :-1, :] @ self.gate.T) / self.temperature).exp()  # type: ignore[union-attr]
        return (tokens[..., :-1, :] @ self.key.T) * read, gate

    def transitions(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 and the gated score, or what `Recurrent` says."""
        if self.reading == "rows":
            return super().transitions(tokens)
        products, channels = self._channels(tokens)
        return torch.ones_like(tokens[..., 0]), (products * channels).sum(-1)
