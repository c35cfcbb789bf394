"""GPT-2 on prompts: T §5, "the 3-layer 2-head real-world model GPT-2".

Code name → paper:  layers 3,  heads 2.  The paper names nothing else.

    F(P) = readout · GPT2(readin · p_1, …, readin · p_l, readin · p_query)_{l + 1}

Hugging Face's `GPT2Model` as it is, causal, with learnt positions, but for its embedding of words: a linear map reads
tokens in, and another reads the last position, the query's, out. Not included: a loss at positions before the last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from iclab.config import InputError, check_whole
from iclab.models.answer import Answer


class GPT2(nn.Module):
    """Hugging Face's GPT-2 between two linear maps.

    Args:
        width: the length of a token.
        label_width: how many of its last coordinates are the label; the model need not know, and finds out.
        layers: how many blocks.
        heads: heads of each.
        hidden: the width of the residual stream; a whole multiple of ``heads``.
        positions: the longest prompt it can take, the query included.
        init_scale: the standard deviation of the weights that read tokens in; by default as PyTorch draws them.
        dropout: the share of numbers dropped in training, wherever GPT-2 drops some; its own is 0.1.
    """

    group = 4  # enough to keep one core busy: eight seeds then take two

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
        check_whole(layers=layers, heads=heads, hidden=hidden, positions=positions)
        if hidden % heads:
            raise InputError(f"heads = {heads}: must divide hidden = {hidden}")
        if not 0 <= dropout < 1:
            raise InputError(f"dropout = {dropout}: must be at least 0 and below 1")
        from transformers import GPT2Config, GPT2Model  # takes seconds: only for who asks for it

        self.readin = nn.Linear(width, hidden)
        if init_scale is not None:
            nn.init.normal_(self.readin.weight, std=init_scale)
            nn.init.zeros_(self.readin.bias)
        words: dict[str, Any] = {"vocab_size": 1, "bos_token_id": 0, "eos_token_id": 0}  # has no place here
        drops: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
        shape: dict[str, Any] = {"n_layer": layers, "n_head": heads, "n_embd": hidden, "n_positions": positions}
        eager: dict[str, Any] = {"attn_implementation": "eager"}  # which returns its attention
        self.body = GPT2Model(GPT2Config(**shape, **drops, **words, **eager))
        del self.body.wte
        self.readout = nn.Linear(hidden, 1)
        self.positions = positions
        self.alone = "its dropout is drawn for each seed apart" if dropout else ""

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, width); the attention is the query's, averaged over heads."""
        if tokens.shape[1] > self.positions:
            raise InputError(f"positions = {self.positions}: too few for {tokens.shape[1] - 1} examples and a query")
        found = self.body(inputs_embeds=self.readin(tokens), use_cache=False, output_attentions=True)
        attention = torch.stack([layer[:, :, -1, :-1].mean(1) for layer in found.attentions], 1)  # (batch, layers, l)
        return Answer(self.readout(found.last_hidden_state[:, -1]), attention, torch.ones_like(attention))
