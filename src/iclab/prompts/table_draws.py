"""Prompts over a table: examples and a query are different rows of it.

Tasks, classes, labels and outliers are drawn as for two patterns; `iclab.prompts.distribution` says from which words.
Then each token takes one block of slot 1 of the stream of further words (`Stream.more`):

    word 0   which row of its class, among those that earlier tokens of the prompt have left;  word 1   which trigger
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from iclab.config import InputError
from iclab.prompts.compact import PromptBatch
from iclab.prompts.counters import Stream, integers, words
from iclab.prompts.patterns import Patterns
from iclab.prompts.tables import CLASSES, Content, Table

if TYPE_CHECKING:
    from iclab.prompts.distribution import Prompts

UNUSED = ("irrelevant_scale", "signal", "noise", "relevant_mixtures", "irrelevant_mixtures", "levels")
"""Fields of prompts that speak of patterns, and say nothing about a table."""


def check(prompts: Prompts) -> None:
    """Refuse settings that have no meaning for a table."""
    for part, names, why in (
        (prompts, UNUSED, "tokens are rows of a table; leave it out"),
        (prompts.outliers, ("scale", "patterns"), "the trigger is in the table's vectors; leave it out"),
    ):
        for name in names:
            value, default = getattr(part, name), type(part).model_fields[name].default
            if value != default:
                raise ValueError(f"{'outliers.' * (part is not prompts)}{name} = {value}: {why}")


def draw(
    prompts: Prompts,
    table: Table,
    seeds: Sequence[int],
    stream: Stream,
    *,
    step: int,
    first: int,
    count: int,
    dtype: DTypeLike,
) -> PromptBatch:
    """Draw prompts ``first`` … ``first + count − 1`` of a step, for each seed."""
    content = table.load()
    fewest, needed = min(map(len, content.members)), prompts.context_length + 1
    if fewest < needed:
        raise InputError(
            f"context_length = {prompts.context_length}: prompts need {needed} sentences of each class, and "
            f"{table.name} has {fewest} of one"
        )
    batch = _skeleton(prompts).draw_level(seeds, stream, step=step, first=first, count=count, dtype=dtype)
    block = words(seeds, stream.more, step=step, first=first, count=count, positions=needed, slot=1)
    side = batch.index[..., 0]  # 0 for a sentence with label 1 in the table, 1 for one with label −1
    sentence = _sentences(block[..., 0], side, content)
    trigger = CLASSES + len(content.vectors) + table.triggers * sentence + integers(block[..., 1], table.triggers or 1)
    corrupted = batch.coefficient[..., 2] != 0
    coefficient = np.ones_like(batch.coefficient)
    coefficient[..., 2] = corrupted
    index = np.stack([side, CLASSES + sentence, np.where(corrupted, trigger, 0)], axis=-1)
    return replace(batch, index=index.astype(np.int32), coefficient=coefficient)


def sentences_of(batch: PromptBatch, table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of every token in the table, and the number of its trigger or −1, both (…, l + 1)."""
    rows = batch.index[..., 1].astype(np.int64) - CLASSES
    shift = batch.index[..., 2] - CLASSES - len(table.load().vectors)
    return rows, np.where(batch.coefficient[..., 2] != 0, shift - table.triggers * rows, -1)


def _skeleton(prompts: Prompts) -> Prompts:
    """Return prompts over two patterns, with the same tasks, labels and outliers."""
    if "skeleton" not in prompts._memo:
        two = Patterns(dimension=4, relevant=2, irrelevant=1, outlier=1)
        prompts._memo["skeleton"] = prompts.replace(patterns=two)
    return prompts._memo["skeleton"]


def _sentences(word: NDArray[np.uint32], side: NDArray[np.int32], content: Content) -> NDArray[np.int64]:
    """Choose a row for every token (…, l + 1), of its class and never twice in a prompt; all are equally likely."""
    sizes = np.array([len(members) for members in content.members])
    taken = np.full((*side.shape[:-1], CLASSES, side.shape[-1]), np.iinfo(np.int64).max)  # in order, in each class
    chosen = np.empty(side.shape, dtype=np.int64)
    for place in range(side.shape[-1]):
        here = side[..., place]
        mine = np.take_along_axis(taken, here[..., None, None], axis=-2)[..., 0, :]  # (…, l + 1)
        left = sizes[here] - (side[..., :place] == here[..., None]).sum(-1)
        number = ((word[..., place].astype(np.uint64) * left.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
        for earlier in range(place):
            number += number >= mine[..., earlier]  # skips what is taken
        chosen[..., place] = number
        mine[..., -1] = number  # still free: at most l tokens came before
        np.put_along_axis(taken, here[..., None, None], np.sort(mine, -1)[..., None, :], axis=-2)
    return np.where(side == 0, content.members[0][chosen % sizes[0]], content.members[1][chosen % sizes[1]])
