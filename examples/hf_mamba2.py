"""Hugging Face's Mamba-2 between two linear maps.

iclab score hf_mamba2:HFMamba2 --quick
"""

import torch
import transformers

transformers.logging.set_verbosity_error()  # or it says that its CUDA kernels are not installed


class HFMamba2(torch.nn.Module):
    """Two layers of `transformers.Mamba2Model`, the answer read from the last token."""

    causal = True  # the check `prefix` may hold it to this
    takes_levels = True  # it answers four classes too: two numbers, one per binary digit

    def __init__(self, width, label_width=1, hidden=16, state=8, layers=2):
        super().__init__()
        self.levels = label_width
        self.readin, self.readout = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, label_width)
        sizes = {"hidden_size": hidden, "state_size": state, "num_hidden_layers": layers}
        heads = {"num_heads": 4, "head_dim": hidden // 2, "n_groups": 1, "chunk_size": 32}  # 4 · hidden/2 = 2 hidden
        self.body = transformers.Mamba2Model(transformers.Mamba2Config(vocab_size=1, use_cache=False, **sizes, **heads))

    def forward(self, tokens):
        """Answer prompts (batch, length + 1, width), the query last."""
        return self.readout(self.body(inputs_embeds=self.readin(tokens)).last_hidden_state[:, -1])
