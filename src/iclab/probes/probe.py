"""What a probe is: how its rows are made, and what it needs of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from iclab.engines import Sums, Training
from iclab.models.base import Readable
from iclab.prompts import Prompts

Row = dict[str, Any]
"""One line of results: values by column."""


class Probe(NamedTuple):
    """One kind of measurement."""

    version: int
    """Part of the hash of its cells. Raise it when the same weights give other rows."""
    looks_at: Literal["answers", "prompts", "insides", "weights"]
    """What it needs: answers of the model, prompts only, prompts and weights together, or weights only."""
    rows: Callable[..., list[Row]]
    """Makes rows from seeds and sums; a probe of weights only, from the trained seeds, their weights and prompts."""
    columns: tuple[str, ...]
    """The columns besides ``seed`` and ``diverged``; all null for a seed that diverged."""
    sums: Callable[..., Sums] | None = None
    """Returns what to add up over a chunk of prompts."""
    reads: Readable | None = None
    """What a model must have for it; None if any model will do."""
    obstacle: Callable[[Training, int], str] = lambda training, count: ""
    """Returns the reason why it cannot measure a training on so many prompts; empty if it can."""
    prompts_obstacle: Callable[[Training, Prompts], str] = lambda training, prompts: ""
    """Returns the reason why it cannot measure a training on these prompts; empty if it can."""
    of_patterns: bool = True
    """Whether a probe of weights goes through patterns one by one. Tables of vectors have none."""
    sees_prompts: bool = False
    """Whether its rows are also made from the test prompts, in addition to seeds and sums."""
