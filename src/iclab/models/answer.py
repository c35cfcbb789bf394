"""What a forward pass gives back: the output, and what went on inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from iclab.config import InputError


class Answer(NamedTuple):
    """A model's output for a batch of prompts, with the attention scores and gates that made it.

    ``output`` is (batch, w), ``attention`` and ``gate`` are (batch, layers, l); a model of one layer may leave that
    axis out, and what `iclab.Run.answer` returns has the seeds in front. Of several heads, scores are summed (softmax:
    averaged) and gates averaged. The arrays over examples leave the query out. It shows no label, so in one layer it
    adds nothing to the output.
    """

    output: Tensor
    """(batch, w) F, one number for each number in a label."""
    attention: Tensor | None = None
    """(batch, layers, l) score of each example, p_iᵀ W_Bᵀ W_C p_query, or its softmax; a model may leave one layer's
    axis out."""
    gate: Tensor | None = None
    """(batch, layers, l) G of each example's label, seen from the query; 1 where the model has none."""


def combine(answers: Sequence[Answer], how: Callable[[list[Tensor]], Tensor]) -> Answer:
    """Put several answers of one model together, part by part: stacked by seed, or one chunk behind the other."""
    parts: dict[str, Any] = {}
    for name in Answer._fields:
        values = [getattr(answer, name) for answer in answers]
        parts[name] = None if values[0] is None else how(values)
    return Answer(**parts)


def as_answer(returned: Answer | Tensor, batch: int, length: int, label_width: int = 1) -> Answer:
    """Accept what a model returned for prompts of ``length`` examples: an `Answer`, or just its output."""
    answer = returned if isinstance(returned, Answer) else Answer(returned)
    output = answer.output
    answer = answer._replace(
        attention=_by_layer("attention", answer.attention, batch, length),
        gate=_by_layer("gate", answer.gate, batch, length),
    )
    if not isinstance(output, torch.Tensor):
        raise InputError(f"model output = {type(output).__name__}: must be a tensor of shape ({batch}, {label_width})")
    if output.shape == (batch,) and label_width == 1:
        return answer._replace(output=output.unsqueeze(-1))
    if output.shape != (batch, label_width):
        raise InputError(
            f"model output shape = {tuple(output.shape)}: must be ({batch}, {label_width}), one row for each prompt"
        )
    return answer


def _by_layer(name: str, part: Tensor | None, batch: int, length: int) -> Tensor | None:
    """Give what one layer did the axis of layers."""
    if part is None:
        return None
    if isinstance(part, torch.Tensor) and (part.shape[0:1], part.shape[-1:]) == ((batch,), (length,)):
        if part.dim() == 2:
            return part.unsqueeze(1)
        if part.dim() == 3:
            return part
    found = f"shape {tuple(part.shape)}" if isinstance(part, torch.Tensor) else type(part).__name__
    raise InputError(f"model {name} = {found}: must be a tensor ({batch}, {length}) or ({batch}, layers, {length})")
