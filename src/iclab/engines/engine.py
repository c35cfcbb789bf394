"""The front door of the engines: train, answer and add up, whichever engine a training runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import fused, reference
from iclab.engines.recipe import Training, undrawable
from iclab.engines.trained import Report, Trained
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts, Stream

Sums = dict[str, NDArray[np.float64]]


def version(training: Training) -> int:
    """Return the version of the code that this training runs on: part of every cell's hash."""
    return fused.VERSION if training.engine == "fused" else reference.VERSION


def check(training: Training) -> None:
    """Refuse a model that cannot take these prompts, before any work is done."""
    if training.engine == "reference":
        reference.stacking_obstacle(training)


def train(
    training: Training,
    seeds: tuple[int, ...],
    report: Report = lambda prompts: None,
    tell: Callable[[str], None] = lambda text: None,
    threads: int = 1,
) -> Trained:
    """Train every seed from its initial weights by the recipe."""
    if training.engine == "fused":
        return fused.train(training, seeds, report, tell, threads)
    return reference.train(training, seeds, report, tell)


def weights(trained: Trained, at: int | None = None) -> dict[str, torch.Tensor]:
    """Return the model's own weights by name, (seeds, …), after step ``at``; by default the last."""
    step = _kept(trained, at)
    return fused.dense(trained, step) if trained.training.engine == "fused" else trained.snapshots[step]


def answers(
    trained: Trained,
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    stream: Stream = Stream.TEST,
    step: int = 0,
    report: Report = lambda prompts: None,
) -> Iterator[tuple[PromptBatch, Answer]]:
    """Answer ``count`` fresh prompts with each seed's weights, a chunk at a time, with all that went on inside."""
    return reference.answers(trained, weights(trained, at), prompts, count, stream=stream, step=step, report=report)


def tally(
    trained: Trained,
    probe: str,
    add_up: Callable[[PromptBatch, Answer], Sums],
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    draw: int = 0,
    report: Report = lambda prompts: None,
    threads: int = 1,
) -> Sums:
    """Add up a probe over ``count`` test prompts a seed; ``add_up`` says what it adds for one chunk of answers."""
    if trained.training.engine == "fused" and probe in fused.SUMS and not undrawable(prompts):
        step = _kept(trained, at)
        return fused.sums(trained, probe, prompts, count, at=step, draw=draw, report=report, threads=threads)
    sums: Sums = {}
    for batch, answer in answers(trained, prompts, count, at=at, step=draw, report=report):
        _add(sums, add_up(batch, answer))
    return sums


def tally_prompts(
    trained: Trained,
    add_up: Callable[[PromptBatch], Sums],
    prompts: Prompts,
    count: int,
    *,
    draw: int = 0,
    report: Report = lambda prompts: None,
) -> Sums:
    """Add up what the same test prompts say by themselves, without asking the model."""
    sums: Sums = {}
    for first in range(0, count, reference.CHUNK):
        many = min(reference.CHUNK, count - first)
        batch = prompts.draw(trained.seeds, Stream.TEST, step=draw, first=first, count=many)
        _add(sums, add_up(batch))
        report(many * len(trained.seeds))
    return sums


def _add(sums: Sums, more: Sums) -> None:
    for name, value in more.items():
        sums[name] = sums[name] + value if name in sums else value


def _kept(trained: Trained, at: int | None) -> int:
    step = trained.training.recipe.steps if at is None else at
    if step not in trained.snapshots:
        kept = ", ".join(map(str, trained.snapshots))
        raise InputError(f"at = {step}: no weights were kept after that step; kept: {kept}")
    return step
