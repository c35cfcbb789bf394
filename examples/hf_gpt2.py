"""Hugging Face's GPT-2 between two linear maps.

iclab score hf_gpt2:HFGPT2 --quick
"""

import torch
import transformers


class HFGPT2(torch.nn.Module):
    """Two layers of `transformers.GPT2Model`, the answer read from the last token."""

    causal = True  # the check `prefix` may hold it to this
    takes_levels = True  # it answers four classes too: two numbers, one per binary digit

    def __init__(self, width, label_width=1, hidden=32, layers=2, positions=384):  # the suite asks for 321 tokens
        super().__init__()
        self.levels = label_width
        self.readin, self.readout = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, label_width)
        self.body = transformers.GPT2Model(
            transformers.GPT2Config(
                vocab_size=1,
                n_positions=positions,
                n_embd=hidden,
                n_layer=layers,
                n_head=4,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=0,
                eos_token_id=0,
                use_cache=False,
                attn_implementation="eager",  # `torch.func` can stack it, so that 8 seeds train together
            )
        )

    def forward(self, tokens):
        """Answer prompts (batch, length + 1, width), the query last."""
        return self.readout(self.body(inputs_embeds=self.readin(tokens)).last_hidden_state[:, -1])
