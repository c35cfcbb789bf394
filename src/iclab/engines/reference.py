"""The reference engine: plain PyTorch, dense tokens, autograd, seeds stacked in one leading dimension.

It is slower than an engine written for one architecture, but it trains any model, and the faster engines are tested
against it. The *compact* engine is the same loop with models that answer prompts in dictionary coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines.ensemble import OneByOne, Stacked, Then, Weights, restore
from iclab.engines.failures import in_words, naming
from iclab.engines.losses import Loss, loss_function
from iclab.engines.registry import COMPACT
from iclab.engines.rehearsal import Rehearsed, fresh_modules, rehearse_answers, rehearse_training
from iclab.engines.stopping import Watch
from iclab.engines.trained import Advance, Notify, Trained, stacked_dictionary
from iclab.engines.training import Training
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts, Stream
from iclab.threads import one_thread

CHUNK = 256
"""Prompts per seed that are answered at a time in measurements: few enough to stay in the processor's cache."""


def train(
    training: Training,
    seeds: tuple[int, ...],
    advance: Advance = lambda prompts: None,
    notify: Notify = lambda text: None,
    threads: int = 1,
) -> Trained:
    """Train every seed from its initial weights, on one thread whatever ``threads`` is."""
    with one_thread():
        return _train(training, seeds, advance, notify)


def _train(training: Training, seeds: tuple[int, ...], advance: Advance, notify: Notify) -> Trained:
    recipe = training.recipe
    alive = list(range(len(seeds)))  # rows of `seeds` that still train
    rehearsed = rehearse_training(training)
    for note in rehearsed.notes if recipe.steps else ():
        notify(note)
    ensemble = _ensemble(training, seeds, rehearsed)
    forward = _Forward(training, seeds, ensemble)
    parameters = ensemble.parameters() or [torch.zeros(1)]  # an optimiser needs something, even for 0 steps
    optimizer = recipe.make_optimizer(parameters)
    loss_of, watch = (
        loss_function(recipe.loss),
        Watch(seeds, recipe.stop, recipe.callback),
    )
    losses = np.full((recipe.steps, len(seeds)), np.nan)
    diverged_at = np.full(len(seeds), -1, dtype=np.int64)
    snapshots: dict[int, Weights] = {}
    ended: dict[int, Weights] = {}  # weights of rows that stopped early

    for step in range(recipe.steps + 1):
        if step in recipe.kept and alive:
            snapshots[step] = _scatter(ensemble.weights(), alive, len(seeds), ended)
        if step == recipe.steps or not alive:
            break
        with naming(training.model, partial(_place, f"step {step}", ensemble)):
            losses[step, alive] = _step(training, step, seeds, alive, ensemble, forward, optimizer, loss_of)
        going = [i for i in alive if np.isfinite(losses[step, i])]
        diverged_at[[i for i in alive if i not in going]] = step
        _keep(ensemble, optimizer, alive, going)
        stopping = watch.ended(step, going, losses, ensemble.weights) if going else []
        if stopping:
            last = ensemble.weights()
            ended |= {i: {name: w[going.index(i)] for name, w in last.items()} for i in stopping}
        alive = [i for i in going if i not in stopping]
        _keep(ensemble, optimizer, going, alive)
        advance(recipe.batch_size * len(seeds))

    for step in recipe.kept:  # after the last seed has diverged or stopped
        snapshots.setdefault(step, _scatter({n: w[:0] for n, w in snapshots[0].items()}, [], len(seeds), ended))
    for name, end in snapshots[recipe.steps].items():
        start = snapshots[0][name]  # a mask may be infinite from the start
        lost = ~end.isfinite() & (start.isfinite() if start.shape == end.shape else True)
        diverged_at[lost.reshape(len(seeds), -1).any(1).numpy() & (diverged_at < 0)] = recipe.steps
    return Trained(training, tuple(seeds), snapshots, diverged_at, losses)


def _place(when: str, ensemble: Stacked | OneByOne) -> str:
    """Say what is going on, for the message of an exception."""
    return f"{when}, {in_words(ensemble.running)}"


def _step(
    training: Training,
    step: int,
    seeds: tuple[int, ...],
    alive: list[int],
    ensemble: Stacked | OneByOne,
    forward: _Forward,
    optimizer: torch.optim.Optimizer,
    loss_of: Loss,
) -> NDArray[np.float64]:
    """Take one step; return the loss before it of each seed that still trains."""
    recipe, prompts = training.recipe, training.prompts_at(step)
    batch = prompts.draw(
        [seeds[i] for i in alive], Stream.TRAIN, step=step, count=recipe.batch_size, dtype=training.dtype
    )
    target = torch.from_numpy(batch.target).to(training.device, getattr(torch, training.dtype))
    losses = []

    def go_back(rows: slice, answer: Answer) -> None:
        loss = loss_of(answer.output, target[rows]).mean(1)  # (seeds,)
        loss.sum().backward()
        losses.append(loss.detach())

    optimizer.zero_grad(set_to_none=True)
    forward(prompts, batch, alive, then=go_back)
    if recipe.clip is not None:
        ensemble.scale_gradients((recipe.clip / ensemble.norms()).clamp(max=1.0))
    for group in optimizer.param_groups:
        group["lr"] = recipe.step_size * recipe.rate(step)
    optimizer.step()
    return torch.cat(losses).cpu().numpy()


def weights(trained: Trained, step: int) -> Weights:
    """Return the weights after a step, (seeds, …) by name."""
    return trained.snapshots[step]


def answers(
    trained: Trained,
    weights: Weights,
    prompts: Prompts,
    count: int,
    *,
    stream: Stream = Stream.TEST,
    step: int = 0,
    advance: Advance = lambda prompts: None,
) -> Iterator[tuple[PromptBatch, Answer]]:
    """Answer ``count`` fresh prompts per seed with the given weights, one chunk at a time."""
    training, seeds = trained.training, trained.seeds
    with one_thread():
        ensemble = _ensemble(training, seeds, rehearse_answers(training, prompts), weights)
    forward = _Forward(training, seeds, ensemble)
    place = partial(_place, "in evaluation", ensemble)
    for first in range(0, count, CHUNK):
        with one_thread(), torch.no_grad(), naming(training.model, place):
            batch = prompts.draw(
                seeds, stream, step=step, first=first, count=min(CHUNK, count - first), dtype=training.dtype
            )
            answer = forward(prompts, batch, training=False)
        yield batch, answer
        advance(batch.outlier.shape[1] * len(seeds))


class _Forward:
    """Runs an ensemble on drawn prompts: as dense tokens, or in dictionary coordinates on the compact engine."""

    def __init__(self, training: Training, seeds: tuple[int, ...], ensemble: Stacked | OneByOne) -> None:
        self._training, self._seeds, self._ensemble = training, seeds, ensemble
        self._known: dict[Prompts, tuple[bool, torch.Tensor]] = {}  # whether to answer in coordinates, and dictionaries

    def __call__(
        self,
        prompts: Prompts,
        batch: PromptBatch,
        alive: list[int] | None = None,
        *,
        training: bool = True,
        then: Then | None = None,
    ) -> Answer:
        """Answer the prompts of the seeds in rows ``alive``; by default of all seeds."""
        if prompts not in self._known:
            in_coordinates = self._training.engine == "compact" and not COMPACT.obstacle(prompts)
            rows = stacked_dictionary(self._training, self._seeds, prompts)
            self._known[prompts] = in_coordinates, with_label(rows, prompts.label_width) if in_coordinates else rows
        compact, dictionary = self._known[prompts]
        if alive is not None and len(alive) < len(self._seeds):
            dictionary = dictionary[alive]
        if isinstance(self._ensemble, OneByOne):
            return self._ensemble.forward(batch.dense(dictionary), training=training, then=then)
        if compact:
            answer = self._ensemble.answer_compact(batch, dictionary)
        else:
            answer = self._ensemble.forward(batch.dense(dictionary), training=training)
        if then is not None:
            then(slice(None), answer)
        return answer


def with_label(dictionary: torch.Tensor, width: int) -> torch.Tensor:
    """Turn dictionary rows (seeds, D', d) into tokens, and append a label of 1: (seeds, D' + 1, d + width)."""
    rows = torch.nn.functional.pad(dictionary, (0, width, 0, 1))
    rows[:, -1, dictionary.shape[-1]] = 1.0
    return rows


def stacking_obstacle(training: Training) -> str:
    """Try the model; return the reason why its seeds cannot be stacked in training, empty if they can."""
    with one_thread():
        obstacle = rehearse_training(training).obstacle
    _check_compact(training, obstacle)
    loss_function(training.recipe.loss)
    return obstacle


def _check_compact(training: Training, obstacle: str) -> None:
    if obstacle and training.engine == "compact":
        raise InputError(
            f"model = {training.model.label}: has a compact form, so its seeds must be stacked: {obstacle}"
        )


def _ensemble(
    training: Training, seeds: tuple[int, ...], rehearsed: Rehearsed, weights: Weights | None = None
) -> Stacked | OneByOne:
    """Build the models of all seeds with their initial weights, or with the given ones."""
    _check_compact(training, rehearsed.obstacle)
    modules = fresh_modules(training, seeds, rehearsed.lazy)
    if weights is not None:
        for row, module in enumerate(modules):
            restore(module, {name: w[row] for name, w in weights.items()})
    return OneByOne(modules, seeds) if rehearsed.obstacle else Stacked(modules, seeds)


def _keep(ensemble: Stacked | OneByOne, optimizer: torch.optim.Optimizer, rows: list[int], kept: list[int]) -> None:
    """Drop the seeds of ``rows`` that are not ``kept``."""
    if len(kept) < len(rows):
        ensemble.keep([rows.index(i) for i in kept], optimizer)


def _scatter(weights: Weights, alive: list[int], total: int, ended: dict[int, Weights]) -> Weights:
    """Put the weights of seeds that still train, or stopped early, into their rows; NaN elsewhere."""
    if len(alive) == total:
        return weights
    out = {}
    for name, w in weights.items():
        full = torch.full((total, *w.shape[1:]), torch.nan if w.is_floating_point() else 0, dtype=w.dtype)
        full[alive] = w
        for row, last in ended.items():
            full[row] = last[name]
        out[name] = full
    return out
