"""Layers of Mamba, M (89)–(90); `iclab.models.deep` has the stack around them and its letters.

Code name → paper:  gate W (one row per channel) or w (one for all).

    mix(Q)_i = Σ_{j ≤ i} (G_{j,i}(W) ⊙ q_j) q_jᵀ W_Bᵀ W_C q_i,                                          (89)
    G_{j,i}(W) = σ(Wᵀq_j) ⊙ Π_{j < k ≤ i} (1 − σ(Wᵀq_k)),                                               (90)

with W ∈ R^{d0×d0}, one gate per channel, or one gate w for all channels. This unrolls

    h_i = (1 − σ(Wᵀq_i)) ⊙ h_{i−1} + (σ(Wᵀq_i) ⊙ q_i) (W_B q_i)ᵀ,     mix(Q)_i = h_i W_C q_i.           (88)

Not included: the convolution, the skip connection and the output gate of the full Mamba block, as in the paper.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.deep import Deep, Mixed, Norm, Stream, by_head, later, project
from iclab.models.gates import initial_gate, product_gates
from iclab.prompts.patterns import Basis


class DeepMamba(Deep):
    """A Mamba of several layers.

    Args:
        width: d + 1, the length of a token.
        layers: the number of layers.
        heads: the number of slices that keys and values are cut into; must divide d. Each head has its own gate.
        values: whether to have W_V and W_O; by default only with several heads.
        residual: whether a layer adds to the stream, or replaces it.
        norm: ``rms`` divides each token by its root mean square before a layer reads it, ``scores`` only for keys and
            queries; ``none`` does not.
        gating: one ``scalar`` gate per head, or one per ``channel`` of its value, at ten times the cost.
        init_scale: δ, the first d diagonal entries of W_B and W_C.
        form: ``parallel`` or ``recurrence``: the same function, but the recurrence is slower.
        stream: ``full``, or ``label``: layers then write only the label, and inputs pass unchanged.
    """

    steps = (*Deep.steps, "gates")
    name = "deep-mamba"
    label = "Mamba"
    colour = "#0072B2"
    list_order = 40
    fused_form = "deep"
    step_size = 0.02

    def __init__(
        self,
        width: int,
        layers: int = 3,
        heads: int = 1,
        values: bool | None = None,
        residual: bool = True,
        norm: Norm = "rms",
        gating: Literal["scalar", "channel"] = "scalar",
        init_scale: float = 0.2,
        form: Literal["parallel", "recurrence"] = "parallel",
        stream: Stream = "full",
    ) -> None:
        super().__init__(width, layers, heads, values, residual, norm, init_scale, stream)
        if gating not in ("scalar", "channel"):
            raise InputError(f"gating = {gating!r}: must be scalar or channel")
        if form not in ("parallel", "recurrence"):
            raise InputError(f"form = {form!r}: must be parallel or recurrence")
        self.form = form
        channels = 1 if gating == "scalar" else width if self.value is None else self.slice + 1
        self.gate = nn.Parameter(torch.zeros(layers, heads, channels, width))

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw the gates."""
        draw_gates(self.gate, basis, seed)

    def mix(self, layer: int, tokens: Tensor, count: int, label_only: bool) -> Mixed:
        """Weigh values by scores times gates."""
        if self.form == "parallel":
            return mamba_mix(self, layer, tokens, count, label_only, self.gate[layer])
        values = self.carried(layer, tokens, label_only)
        return self._recurrence(layer, tokens, count, values, gate_logits(tokens, self.gate[layer], values))

    def _recurrence(self, layer: int, tokens: Tensor, count: int, values: Tensor, logits: Tensor) -> Mixed:
        """Run (88) from h_0 = 0 with the whole state (batch, heads, channels, d / heads)."""
        read = self.compared(tokens)
        keys, queries = (by_head(read, weight[layer]) for weight in (self.key, self.query))  # (…, l + 1, d / heads)
        delta = F.softplus(logits)  # Δ_i
        decay, inflow = torch.exp(-delta), -torch.expm1(-delta)  # 1 − σ and σ
        state = torch.zeros_like(values[:, :, 0, :, None] * keys[:, :, 0, None, :])
        outputs = []
        for i in range(tokens.shape[1]):
            enters = (inflow[..., i] * values[:, :, i]).unsqueeze(-1) * keys[:, :, i].unsqueeze(-2)
            state = state * decay[..., i, None] + enters
            outputs.append((state * queries[:, :, i].unsqueeze(-2)).sum(-1))
        scores = (keys @ queries[:, :, -1].unsqueeze(-1)).squeeze(-1)  # of the query, (batch, heads, l + 1)
        gates = product_gates(logits[:, :, -1]).exp()
        return Mixed(torch.stack(outputs[-count:], 2), scores[..., :-1].sum(1), gates[..., :-1].mean(1))


def gate_logits(tokens: Tensor, gate: Tensor, values: Tensor) -> Tensor:
    """Return Wᵀq of every token, (batch, heads, channels or 1, l + 1), for a layer's gate (heads, …, d + 1)."""
    gate = gate[:, -values.shape[-1] :]  # the label is the last channel
    return project(tokens, gate.flatten(0, 1)).mT.unflatten(1, gate.shape[:2])


def mamba_mix(model: Deep, layer: int, tokens: Tensor, count: int, label_only: bool, gate: Tensor) -> Mixed:
    """Mix tokens as a layer of Mamba does, with the weights of a model's layer and its gate."""
    values = model.carried(layer, tokens, label_only)  # (batch, heads, l + 1, channels)
    logits = gate_logits(tokens, gate, values)  # (batch, heads, channels or 1, l + 1)
    scores = model.at(layer, "attention", model.scores(layer, tokens[:, -count:], tokens))  # (batch, heads, n, l + 1)
    gates = product_gates(logits).exp().unsqueeze(-2) if count == 1 else gate_matrix(logits)
    gates = model.at(layer, "gates", gates)  # (batch, heads, channels, n, l + 1)
    if gates.shape[2] == 1:
        mixed = (scores * gates.squeeze(2)) @ values
    else:
        mixed = ((scores.unsqueeze(2) * gates) @ values.mT.unsqueeze(-1)).squeeze(-1).mT
    return Mixed(mixed, scores[:, :, -1, :-1].sum(1), gates[:, :, -1, -1, :-1].mean(1))


def draw_gates(gate: nn.Parameter, basis: Basis, seed: int) -> None:
    """Draw every gate (…, heads, channels, d + 1) as `Mamba` does: w ~ N(0, I/(d + 1)), rotating with the patterns.

    The label's channel of the first layer is drawn first, so that one layer starts as the one-layer model.
    """
    numbers = range(gate[..., 0].numel())
    drawn = [torch.from_numpy(initial_gate(basis.directions.shape, seed, i).whole(basis)) for i in numbers]
    with torch.no_grad():
        gate.copy_(torch.stack(drawn).view(gate.shape).flip(2))


def gate_matrix(logits: Tensor) -> Tensor:
    """Return G_{j,i} for every position i, (…, l + 1, l + 1), from Wᵀq, (…, l + 1); 0 where j comes after i.

    Computed as log σ(s_j) + Σ_{j < k ≤ i} log(1 − σ(s_k)), the sum as a difference that is never positive. Nothing
    overflows at any length, and a gate that fades to 0 has a gradient of 0. The difference of long sums loses digits:
    in float32 a gate is right to 1e-6 at l = 20 and to 1e-3 at l = 2,000.
    """
    gone = F.logsigmoid(-logits).cumsum(-1)
    logs = gone.unsqueeze(-1) + (F.logsigmoid(logits) - gone).unsqueeze(-2)
    length = logits.shape[-1]
    return logs.masked_fill(later(length, length, logits.device), -torch.inf).exp()
