"""One-layer softmax attention with a ReLU MLP: T (2), S (2).

Code name → paper:  key W_K,  query W_Q,  value W_V,  hidden W_O,  signs a,  neurons m,  state_size m_a,
                    value_size m_b,  init_scale δ.

    F(Ψ; P) = aᵀ ReLU(W_O Σ_{i ≤ l} W_V p_i attn_i),     attn = softmax_i((W_K p_i)ᵀ W_Q p_query)                 (2)

The query is left out of the sum. W_V starts as δI, W_K and W_Q as δ on the first d_X diagonal entries (the inputs'),
W_O as N(0, ξ²) with ξ = 1/√m; a is ±1/m by chance and never moves. The papers write a ∈ {±1/m} and {±1/√m};
``output`` is that choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from iclab.config import InputError, check_whole
from iclab.models.answer import Answer
from iclab.models.compact import attend, read_out
from iclab.models.mamba import linear_scores
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, bernoulli, normals, words
from iclab.prompts.patterns import Basis


class Inside(NamedTuple):
    """All that goes on in a forward pass, in order."""

    scores: Tensor
    """(batch, l) (W_K p_i)ᵀ W_Q p_query."""
    attention: Tensor
    """(batch, l) their softmax."""
    value: Tensor
    """(batch, m_b) Σ W_V p_i attn_i."""
    before: Tensor
    """(batch, m) W_O times that, before the ReLU."""
    active: Tensor
    """(batch, m) and behind it."""
    output: Tensor
    """(batch, 1) F."""


class SoftmaxMLP(nn.Module):
    """T's and S's Transformer.

    Args:
        width: d_X + d_Y, the length of a token.
        label_width: d_Y, how many of its last coordinates are the label.
        neurons: m, the width of the MLP.
        state_size: m_a, rows of W_K and W_Q; by default as many as a token is long.
        value_size: m_b, rows of W_V; by default as many as a token is long.
        init_scale: δ.
        output: whether a is ±1/m (``mean``) or ±1/√m (``root``).
    """

    signs: Tensor

    def __init__(
        self,
        width: int,
        label_width: int = 1,
        neurons: int = 200,
        state_size: int | None = None,
        value_size: int | None = None,
        init_scale: float = 0.1,
        output: Literal["mean", "root"] = "mean",
    ) -> None:
        super().__init__()
        sizes = {
            "neurons": neurons,
            "state_size": width if state_size is None else state_size,
            "value_size": width if value_size is None else value_size,
        }
        check_whole(**sizes)
        if output not in ("mean", "root"):
            raise InputError(f"output = {output!r}: must be mean or root")
        inputs, values = torch.zeros(sizes["state_size"], width), torch.zeros(sizes["value_size"], width)
        inputs[:, : width - label_width].fill_diagonal_(init_scale)
        values.fill_diagonal_(init_scale)
        self.key, self.query = nn.Parameter(inputs), nn.Parameter(inputs.clone())
        self.value = nn.Parameter(values)
        self.hidden = nn.Parameter(torch.zeros(neurons, sizes["value_size"]))
        self.register_buffer("signs", torch.ones(neurons) / (neurons if output == "mean" else math.sqrt(neurons)))

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw W_O along the patterns' directions and others orthogonal to them, and the signs of a.

        A neuron sees W_O W_V µ of a pattern: rotating the patterns thus changes nothing that the model computes.
        """
        neurons, size = self.hidden.shape
        count, inputs = basis.directions.shape
        drawn = normals(seed, Stream.WEIGHTS, (neurons, size), slot=0)
        if size >= inputs:
            frame = np.linalg.qr(basis.directions.T, mode="complete")[0].T  # (d_X, d_X), orthonormal
            frame[:count] = basis.directions
            drawn[:, :inputs] = drawn[:, :inputs] @ frame
        chance = words([seed], Stream.WEIGHTS, positions=neurons, slot=1)[0, 0, :, 0]
        with torch.no_grad():
            self.hidden.copy_(torch.from_numpy(drawn / math.sqrt(neurons)))
            self.signs.abs_().mul_(torch.from_numpy(np.where(bernoulli(chance, 0.5), -1.0, 1.0)))

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d_X + d_Y); the attention returned sums to 1."""
        inside = self.inside(tokens)
        return Answer(inside.output, inside.attention, torch.ones_like(inside.attention))

    @staticmethod
    def compact(weights: Mapping[str, Tensor], rows: Tensor, batch: PromptBatch) -> Answer:
        """Answer compact prompts with stacked seeds: the same function in dictionary coordinates.

        How rows of the dictionary meet, and what each neuron sees of a row, is made once for the whole batch.

        Args:
            weights: (seeds, …) by name.
            rows: (seeds, D' + 1, d_X + d_Y) what tokens are made of; the last row is a label of 1.
            batch: compact prompts of these seeds.
        """
        products = rows @ weights["query"].mT @ (rows @ weights["key"].mT).mT  # (seeds, D' + 1, D' + 1)
        attention, mixed = attend(products, batch)  # (seeds, batch, l), (seeds, batch, D' + 1)
        neurons = rows @ weights["value"].mT @ weights["hidden"].mT  # (seeds, D' + 1, m)
        output = read_out(mixed @ neurons, weights["signs"])
        attention = attention.unsqueeze(-2)
        return Answer(output, attention, torch.ones_like(attention))

    def inside(self, tokens: Tensor) -> Inside:
        """Answer prompts, and return every step of the way."""
        scores = linear_scores(tokens, self.key, self.query)
        attention = torch.softmax(scores, -1)
        mixed = (attention.unsqueeze(-2) @ tokens[:, :-1]).squeeze(-2)  # Σ p_i attn_i, (batch, d_X + d_Y)
        value = mixed @ self.value.T
        before = value @ self.hidden.T
        active = torch.relu(before)
        return Inside(scores, attention, value, before, active, (active @ self.signs).unsqueeze(-1))
