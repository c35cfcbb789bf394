"""Hugging Face's Mamba between two linear maps.

iclab score hf_mamba:HFMamba --quick
"""

import torch
import transformers

transformers.logging.set_verbosity_error()  # or it says that its CUDA kernels are not installed


class HFMamba(torch.nn.Module):
    """Two layers of `transformers.MambaModel`, the answer read from the last token."""

    causal = True  # the check `prefix` may hold it to this
    takes_levels = True  # it answers four classes too: two numbers, one per binary digit

    def __init__(self, width, label_width=1, hidden=16, state=4, layers=2):
        super().__init__()
        self.levels = label_width
        self.readin, self.readout = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, label_width)
        self.body = transformers.MambaModel(
            transformers.MambaConfig(
                vocab_size=1, hidden_size=hidden, state_size=state, num_hidden_layers=layers, use_cache=False
            )
        )

    def forward(self, tokens):
        """Answer prompts (batch, length + 1, width), the query last."""
        return self.readout(self.body(inputs_embeds=self.readin(tokens)).last_hidden_state[:, -1])
