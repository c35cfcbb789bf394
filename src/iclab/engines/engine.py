"""What the engines do, whichever one a training runs on: train, return weights, answer prompts, sum over answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import Code, InputError
from iclab.engines import intervening, reference
from iclab.engines.failures import naming
from iclab.engines.registry import ENGINES, fused_form
from iclab.engines.rehearsal import rehearse_answers
from iclab.engines.trained import Advance, Notify, Trained
from iclab.engines.training import Training
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts, Stream

Sums = dict[str, NDArray[np.float64]]
"""What a probe adds up over prompts: arrays (seeds, …) by name."""


class Runner(Protocol):
    """The module that runs an engine."""

    def train(
        self, training: Training, seeds: tuple[int, ...], advance: Advance, notify: Notify, threads: int
    ) -> Trained:
        """Train every seed from its initial weights."""

    def weights(self, trained: Trained, step: int) -> dict[str, torch.Tensor]:
        """Return the model's own weights, (seeds, …), from a snapshot."""


def _runner(training: Training) -> Runner:
    if training.engine != "fused":
        return reference
    from iclab.engines import fused  # imported late, because numba takes long to import

    return fused


def check(training: Training, tests: Iterable[Prompts] = ()) -> None:
    """Refuse a model that cannot be trained, or not be tested on these prompts, before any work is done."""
    if training.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device = cuda: torch finds no GPU here; use cpu")
    if training.engine == "fused":
        from iclab.engines import fused

        fused.check(training)
    else:
        reference.stacking_obstacle(training)  # which tries the model
    kinds = {(p.context_length, p.outliers.labels, p.outliers.placement): p for p in tests}
    for prompts in kinds.values():
        if training.model.is_users:
            rehearse_answers(training, prompts)
        elif isinstance(prompts.outliers.labels, Code) or isinstance(prompts.outliers.placement, Code):
            with naming(training.model, "in evaluation, seed 0"):
                prompts.draw((0,), Stream.TEST, count=2)


def trains_apart(training: Training) -> bool:
    """Whether a seed has the same result, to the bit, whichever seeds train beside it."""
    if training.recipe.callback is not None:  # it sees all seeds, and may stop one because of another
        return False
    return ENGINES[training.engine].separate_seeds or bool(reference.stacking_obstacle(training))


def train(
    training: Training,
    seeds: tuple[int, ...],
    advance: Advance = lambda prompts: None,
    notify: Notify = lambda text: None,
    threads: int = 1,
) -> Trained:
    """Train every seed from its initial weights, as the recipe says."""
    return _runner(training).train(training, seeds, advance, notify, threads)


def weights(trained: Trained, at: int | None = None) -> dict[str, torch.Tensor]:
    """Return the model's own weights by name, (seeds, …), after step ``at``; by default the last."""
    return _runner(trained.training).weights(trained, kept_step(trained, at))


def answers(
    trained: Trained,
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    stream: Stream = Stream.TEST,
    step: int = 0,
    advance: Advance = lambda prompts: None,
) -> Iterator[tuple[PromptBatch, Answer]]:
    """Answer ``count`` fresh prompts per seed, one chunk at a time, with attention and gates."""
    if obstacle := trained.training.prompts.fits(prompts):
        raise InputError(obstacle)
    answering = intervening if trained.interventions else reference
    return answering.answers(trained, weights(trained, at), prompts, count, stream=stream, step=step, advance=advance)


def sum_answers(
    trained: Trained,
    probe: str,
    add: Callable[[PromptBatch, Answer], Sums],
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    draw: int = 0,
    advance: Advance = lambda prompts: None,
    threads: int = 1,
) -> Sums:
    """Sum a probe over ``count`` test prompts per seed; ``add`` returns the sums of one chunk of answers."""
    if sums_itself(trained.training, probe, prompts):
        from iclab.engines import fused

        step = kept_step(trained, at)
        return fused.sums(trained, probe, prompts, count, at=step, draw=draw, advance=advance, threads=threads)
    total: Sums = {}
    for batch, answer in answers(trained, prompts, count, at=at, step=draw, advance=advance):
        _add(total, add(batch, answer))
    return total


def sum_prompts(
    trained: Trained,
    add: Callable[[PromptBatch], Sums],
    prompts: Prompts,
    count: int,
    *,
    draw: int = 0,
    advance: Advance = lambda prompts: None,
) -> Sums:
    """Sum over the same test prompts as `sum_answers`, without asking the model."""
    total: Sums = {}
    for first in range(0, count, reference.CHUNK):
        many = min(reference.CHUNK, count - first)
        batch = prompts.draw(trained.seeds, Stream.TEST, step=draw, first=first, count=many)
        _add(total, add(batch))
        advance(many * len(trained.seeds))
    return total


def answer_versions(training: Training, probe: str, prompts: Prompts) -> dict[str, int]:
    """Return the version of the reference engine if that answers the prompts of a probe; part of the hash of cells."""
    return {} if sums_itself(training, probe, prompts) else {"reference": ENGINES["reference"].version}


def sums_itself(training: Training, probe: str, prompts: Prompts) -> bool:
    """Whether the engine of a training sums a probe by itself, without the reference engine."""
    if training.engine != "fused":
        return False
    form = fused_form(training)
    return probe in form.sums and not form.scope.obstacle(prompts)


def _add(total: Sums, more: Sums) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def kept_step(trained: Trained, at: int | None) -> int:
    """Return the step of a snapshot, by default the last; refuse steps without one."""
    step = trained.training.recipe.steps if at is None else at
    if step not in trained.snapshots:
        kept = ", ".join(map(str, trained.snapshots))
        raise InputError(f"at = {step}: no weights were kept after that step; kept: {kept}")
    return step
