"""What a forward pass gives back: the output, and what went on inside."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Answer(NamedTuple):
    """A model's output for a batch of prompts, with the attention scores and gates that made it.

    The arrays over examples leave the query out: it shows no label, so it adds nothing to the output.
    """

    output: Tensor
    """(batch, w) F, one number for each number in a label."""
    attention: Tensor | None = None
    """(batch, l) score of each example: p_iᵀ W_Bᵀ W_C p_query, or its softmax."""
    gate: Tensor | None = None
    """(batch, l) G of each example; 1 where the model has none."""


def as_answer(returned: Answer | Tensor, batch: int, label_width: int) -> Answer:
    """Accept what a model returned: an `Answer`, or a tensor (batch,) or (batch, w) as users' modules do."""
    answer = returned if isinstance(returned, Answer) else Answer(returned)
    output = answer.output
    if not isinstance(output, torch.Tensor):
        raise ValueError(f"model output = {type(output).__name__}: must be a tensor of shape ({batch}, {label_width})")
    if output.shape == (batch,) and label_width == 1:
        return answer._replace(output=output.unsqueeze(-1))
    if output.shape != (batch, label_width):
        raise ValueError(
            f"model output shape = {tuple(output.shape)}: must be ({batch}, {label_width}), one row for each prompt"
        )
    return answer
