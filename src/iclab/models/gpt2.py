"""GPT-2 on prompts: T §5, "the 3-layer 2-head real-world model GPT-2".

Code name → paper:  layers 3,  heads 2.  The paper names nothing else.

    F(P) = readout · GPT2(readin · p_1, …, readin · p_l, readin · p_query)_{l + 1}

This is the function of Hugging Face's `GPT2Model`, causal and with learnt positions, without its word embedding: one
linear map reads tokens in, another reads the last position, the query's, out. A seed starts with the weights that
Hugging Face would draw. Not included: a loss at positions before the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from iclab.config import InputError, check_whole
from iclab.models.answer import Answer
from iclab.models.base import Architecture
from iclab.models.gpt2_body import Body
from iclab.models.gpt2_passes import run_blocks


class GPT2(Architecture):
    """GPT-2 between two linear maps.

    Args:
        width: the length of a token.
        label_width: how many of its last coordinates are the label; not used, the model learns it.
        layers: the number of blocks.
        heads: the number of heads per block.
        hidden: the width of the residual stream; a multiple of ``heads``.
        positions: the longest prompt it takes, counting the query.
        init_scale: the standard deviation of the weights that read tokens in; by default PyTorch's.
        dropout: the dropout rate wherever GPT-2 has dropout; GPT-2's own is 0.1.
    """

    name = "gpt2"
    label = "GPT-2"
    colour = "#E69F00"
    list_order = 80
    version = 2  # other random numbers for dropout
    group_size = 4  # eight seeds then use two cores
    readable = frozenset()

    def __init__(
        self,
        width: int,
        label_width: int = 1,
        layers: int = 3,
        heads: int = 2,
        hidden: int = 64,
        positions: int = 256,
        init_scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = {"layers": layers, "heads": heads, "hidden": hidden, "positions": positions}
        self.check({**sizes, "init_scale": init_scale, "dropout": dropout})
        self.readin = nn.Linear(width, hidden)
        if init_scale is not None:
            nn.init.normal_(self.readin.weight, std=init_scale)
            nn.init.zeros_(self.readin.bias)
        self.body = Body(layers, heads, hidden, positions, dropout)
        self.readout = nn.Linear(hidden, 1)
        self.heads, self.positions, self.dropout = heads, positions, dropout

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Check the options by themselves: this draws no weights."""
        check_whole(**{name: options[name] for name in ("layers", "heads", "hidden", "positions")})
        heads, hidden, scale, dropout = (options[name] for name in ("heads", "hidden", "init_scale", "dropout"))
        if hidden % heads:
            raise InputError(f"heads = {heads}: must divide hidden = {hidden}")
        if scale is not None and not (_is_number(scale) and scale >= 0):
            raise InputError(f"init_scale = {scale!r}: must be a number of at least 0, or none")
        if not (_is_number(dropout) and 0 <= dropout < 1):
            raise InputError(f"dropout = {dropout!r}: must be at least 0 and below 1")

    @classmethod
    def longest_context(cls, options: Mapping[str, Any]) -> int | None:
        """Return the number of positions, less one for the query."""
        return options["positions"] - 1

    @classmethod
    def one_by_one(cls, options: Mapping[str, Any]) -> str:
        """Name what stacking would lose."""
        return "its passes are written for one seed, whose batch keeps a core busy"

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, width); the attention is the query's, averaged over heads."""
        if tokens.shape[1] > self.positions:
            examples = tokens.shape[1] - 1
            raise InputError(f"positions = {self.positions}: must be at least {examples + 1} for {examples} examples")
        read = self.readin(tokens)
        if read.device.type == "cpu" and not self.body.is_watched:
            dropout = self.dropout if self.training else 0.0
            stream, attention = run_blocks(read, self.body.wpe.weight, self.body.block_weights(), self.heads, dropout)
            last = self.body.ln_f(stream)
        else:
            stream, shares = self.body(read)
            last = stream[:, -1]
            attention = torch.stack([block[:, :, -1, :-1].mean(1) for block in shares], 1)  # (batch, layers, l)
        return Answer(self.readout(last), attention, torch.ones_like(attention))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
