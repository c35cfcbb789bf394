"""GPT-2 in plain PyTorch: the function, the names and the first weights of Hugging Face's `GPT2Model`, without words.

This is the readable form, and what runs if somebody looks inside; `iclab.models.gpt2_passes` computes the same, faster.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02
"""The standard deviation of the first weights."""


class Map(nn.Module):
    """x W + c with W of shape (in, out): the other way round than in ``nn.Linear``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=SPREAD))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        return x @ self.weight + self.bias


class Attention(nn.Module):
    """Causal softmax attention of several heads."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Map(hidden, 3 * hidden), Map(hidden, hidden)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is added to the stream, and the shares (batch, heads, l + 1, l + 1)."""
        batch, length, hidden = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # (batch, heads, l + 1, hidden / heads)
        scores = query @ key.transpose(-1, -2) / math.sqrt(hidden // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        shares = self.attn_dropout(torch.softmax(scores.masked_fill(later, -torch.inf), -1))
        mixed = (shares @ value).transpose(1, 2).reshape(batch, length, hidden)
        return self.resid_dropout(self.c_proj(mixed)), shares


class GELU(nn.Module):
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""

    def forward(self, x: Tensor) -> Tensor:
        """Bend every number."""
        return functional.gelu(x, approximate="tanh")


class MLP(nn.Module):
    """Two maps with a GELU in between, four times as wide as the stream."""

    def __init__(self, hidden: int, dropout: float) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Map(hidden, 4 * hidden), Map(4 * hidden, hidden)
        self.act, self.dropout = GELU(), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return what is added to the stream."""
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class Block(nn.Module):
    """Attention, then an MLP, each behind a layer norm and added to the stream."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(hidden), Attention(hidden, heads, dropout)
        self.ln_2, self.mlp = nn.LayerNorm(hidden), MLP(hidden, dropout)

    def forward(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new stream, and the shares."""
        added, shares = self.attn(self.ln_1(stream))
        stream = stream + added
        return stream + self.mlp(self.ln_2(stream)), shares

    def start(self, less: float) -> None:
        """Draw all maps again, in the order of Hugging Face; those into the stream are smaller by a factor ``less``."""
        for first, second in ((self.attn.c_attn, self.attn.c_proj), (self.mlp.c_fc, self.mlp.c_proj)):
            for weight, spread in ((first.weight, SPREAD), (second.weight, SPREAD), (second.weight, less * SPREAD)):
                nn.init.normal_(weight, std=spread)

    def weights(self) -> list[Tensor]:
        """Return its weights in the order of `iclab.models.gpt2_passes`."""
        parts: tuple[nn.LayerNorm | Map, ...] = (
            *(self.ln_1, self.attn.c_attn, self.attn.c_proj),
            *(self.ln_2, self.mlp.c_fc, self.mlp.c_proj),
        )
        return [weight for part in parts for weight in (part.weight, part.bias)]


class Body(nn.Module):
    """Learnt positions, blocks, and a last layer norm."""

    def __init__(self, layers: int, heads: int, hidden: int, positions: int, dropout: float) -> None:
        super().__init__()
        words = nn.Embedding(1, hidden)  # Hugging Face draws it too: so a seed starts where its GPT-2 starts
        self.wpe = nn.Embedding(positions, hidden)
        self.drop = nn.Dropout(dropout)
        blocks = [Block(hidden, heads, dropout) for _ in range(layers)]
        self.h = nn.ModuleList(blocks)
        self.ln_f = nn.LayerNorm(hidden)
        for embedding in (words, self.wpe):
            nn.init.normal_(embedding.weight, std=SPREAD)
        for block in blocks:
            block.start(less=1 / math.sqrt(2 * layers))

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the stream (batch, l + 1, hidden) behind the last norm, and the shares of each block."""
        stream = self.drop(tokens + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        attentions = []
        for block in self.h:
            stream, shares = block(stream)
            attentions.append(shares)
        return self.ln_f(stream), attentions

    def block_weights(self) -> list[list[Tensor]]:
        """Return the weights of each block."""
        return [block.weights() for block in self.h if isinstance(block, Block)]

    @property
    def is_watched(self) -> bool:
        """Whether somebody has hooks inside, so that every step must be taken by its own module."""
        return any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in self.modules())
