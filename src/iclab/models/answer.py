"""What a forward pass returns: the output, and the attention and gates behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from iclab.config import InputError


class Answer(NamedTuple):
    """A model's output for a batch of prompts, with the attention scores and gates that made it.

    A model of one layer may leave the axis of layers out. `iclab.Run.answer` adds an axis of seeds in front. Scores of
    several heads are summed (softmax: averaged), gates are averaged. Arrays over examples leave the query out: it shows
    no label, so in one layer it adds nothing to the output.
    """

    output: Tensor
    """(batch, H) F, one number for each level; H = 1 unless prompts have several."""
    attention: Tensor | None = None
    """(batch, layers, l) the score of each example, p_iᵀ W_Bᵀ W_C p_query, or its softmax; with levels for layers in a
    model of several levels."""
    gate: Tensor | None = None
    """(batch, layers, l) the gate G of each example as the query sees it; 1 in a model without gates."""


def combine(answers: Sequence[Answer], how: Callable[[list[Tensor]], Tensor]) -> Answer:
    """Combine answers of one model part by part; ``how`` stacks seeds or concatenates chunks."""
    parts: dict[str, Any] = {}
    for name in Answer._fields:
        values = [getattr(answer, name) for answer in answers]
        parts[name] = None if values[0] is None else how(values)
    return Answer(**parts)


def as_answer(returned: Answer | Tensor, batch: int, length: int, levels: int = 1) -> Answer:
    """Turn what a model returned, an `Answer` or just its output, into an `Answer`, and check its shapes."""
    answer = returned if isinstance(returned, Answer) else Answer(returned)
    output = answer.output
    answer = answer._replace(
        attention=_by_layer("attention", answer.attention, batch, length),
        gate=_by_layer("gate", answer.gate, batch, length),
    )
    if not isinstance(output, torch.Tensor):
        raise InputError(f"output = {type(output).__name__}: must be a tensor of shape ({batch}, 1)")
    if output.dtype not in (torch.float32, torch.float64):
        raise InputError(f"output dtype = {str(output.dtype).removeprefix('torch.')}: must be float32 or float64")
    if levels > 1 and output.shape == (batch, levels):
        return answer
    if output.shape in ((batch,), () if batch == 1 else (batch,)):  # squeezed
        return answer._replace(output=output.reshape(batch, 1))
    if output.shape != (batch, 1):
        raise InputError(f"output shape = {tuple(output.shape)}: must be ({batch}, 1), one row per prompt")
    return answer


def _by_layer(name: str, part: Tensor | None, batch: int, length: int) -> Tensor | None:
    """Add the axis of layers if a model of one layer left it out."""
    if part is None:
        return None
    if isinstance(part, torch.Tensor) and (part.shape[0:1], part.shape[-1:]) == ((batch,), (length,)):
        if part.dim() == 2:
            return part.unsqueeze(1)
        if part.dim() == 3:
            return part
    found = f"shape {tuple(part.shape)}" if isinstance(part, torch.Tensor) else type(part).__name__
    raise InputError(f"{name} = {found}: must be a tensor ({batch}, {length}) or ({batch}, layers, {length})")
