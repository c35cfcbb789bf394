"""One-layer softmax attention with a ReLU MLP: T (2), S (2).

Code name → paper:  key W_K,  query W_Q,  value W_V,  hidden W_O,  signs a,  neurons m,  state_size m_a,
                    value_size m_b,  init_scale δ.

    F(Ψ; P) = aᵀ ReLU(W_O Σ_{i ≤ l} W_V p_i attn_i),     attn = softmax_i((W_K p_i)ᵀ W_Q p_query)                 (2)

The sum leaves the query out. W_V starts as δI, W_K and W_Q as δ on the first d_X diagonal entries (the inputs'), W_O as
N(0, ξ²) with ξ = 1/√m. Each a_i is ±1/m at random and never moves. The papers write both {±1/m} and {±1/√m}: the option
``output``.
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
from iclab.models.attention import linear_scores
from iclab.models.base import Architecture, Point
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, bernoulli, normals, words
from iclab.prompts.patterns import Basis


class Inside(NamedTuple):
    """Every step of a forward pass, in order."""

    scores: Tensor
    """(batch, l) (W_K p_i)ᵀ W_Q p_query."""
    attention: Tensor
    """(batch, l) their softmax."""
    value: Tensor
    """(batch, m_b) Σ W_V p_i attn_i."""
    before: Tensor
    """(batch, m) W_O times the value, before the ReLU."""
    active: Tensor
    """(batch, m) after the ReLU."""
    output: Tensor
    """(batch, 1) F."""


class SoftmaxMLP(Architecture):
    """T's and S's Transformer.

    Args:
        width: d_X + d_Y, the length of a token.
        label_width: d_Y, how many of its last coordinates are the label.
        neurons: m, the width of the MLP.
        state_size: m_a, the rows of W_K and W_Q; by default ``width``.
        value_size: m_b, the rows of W_V; by default ``width``.
        init_scale: δ.
        output: whether a is ±1/m (``mean``) or ±1/√m (``root``).
    """

    name = "softmax-mlp"
    label = "softmax attention with MLP"
    colour = "#CC79A7"
    list_order = 70
    step_size = 1.0
    constant_buffers = True  # the signs
    fused_form = "softmax-mlp"
    readable = frozenset({"keys", "neurons"})

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
        self.attention, self.neurons = Point(), Point()
        self.hidden = nn.Parameter(torch.zeros(neurons, sizes["value_size"]))
        self.register_buffer("signs", torch.ones(neurons) / (neurons if output == "mean" else math.sqrt(neurons)))

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw W_O in an orthonormal frame that starts with the patterns' directions, and the signs of a.

        A neuron sees a pattern as W_O W_V µ, so rotating the patterns changes nothing that the model computes.
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
        """Answer prompts (batch, l + 1, d_X + d_Y); the attention sums to 1."""
        inside = self.inside(tokens)
        return Answer(inside.output, inside.attention, torch.ones_like(inside.attention))

    @staticmethod
    def answer_compact(weights: Mapping[str, Tensor], rows: Tensor, batch: PromptBatch) -> Answer:
        """Answer compact prompts: all of a batch share the products of rows, and what each neuron sees of a row."""
        from iclab.models.attention_kernels import attend, read_out  # imported late, because numba takes long to import

        products = rows @ weights["query"].mT @ (rows @ weights["key"].mT).mT  # (seeds, D' + 1, D' + 1)
        attention, mixed = attend(products, batch)  # (seeds, batch, l), (seeds, batch, D' + 1)
        neurons = rows @ weights["value"].mT @ weights["hidden"].mT  # (seeds, D' + 1, m)
        output = read_out(mixed @ neurons, weights["signs"])
        attention = attention.unsqueeze(-2)
        return Answer(output, attention, torch.ones_like(attention))

    def inside(self, tokens: Tensor) -> Inside:
        """Answer prompts (batch, l + 1, d_X + d_Y) and return every step."""
        scores = linear_scores(tokens, self.key, self.query)
        attention = self.attention(torch.softmax(scores, -1))
        mixed = (attention.unsqueeze(-2) @ tokens[:, :-1]).squeeze(-2)  # Σ p_i attn_i, (batch, d_X + d_Y)
        value = mixed @ self.value.T
        before = value @ self.hidden.T
        active = self.neurons(torch.relu(before))
        return Inside(scores, attention, value, before, active, (active @ self.signs).unsqueeze(-1))
