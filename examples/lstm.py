"""An LSTM, in plain PyTorch.

iclab score lstm:LSTM --quick
"""

import torch


class LSTM(torch.nn.Module):
    """One layer, the answer read from the last token."""

    causal = True  # the check `prefix` may hold it to this
    takes_levels = True  # it answers four classes too: two numbers, one per binary digit

    def __init__(self, width, label_width=1, hidden=32):
        super().__init__()
        self.levels = label_width
        self.body, self.readout = torch.nn.LSTM(width, hidden, batch_first=True), torch.nn.Linear(hidden, label_width)

    def forward(self, tokens):
        """Answer prompts (batch, length + 1, width), the query last."""
        return self.readout(self.body(tokens)[0][:, -1])

    def recurrent_step(self, token, state=None):
        """Do the same one token (batch, width) after another; the check `recurrent` compares."""
        output, state = self.body(token[:, None], state)
        return self.readout(output[:, -1]), state
