"""The reference engine: plain PyTorch, dense tokens, autograd, seeds stacked in one leading dimension.

Slow beside an engine written for one architecture, but it trains anything, and every faster one is tested against it.
The same loop also drives the *compact* engine: models that can answer prompts in dictionary coordinates
(`iclab.models.compact`) are then asked in those, the rest is as here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from iclab.config import InputError
from iclab.engines.ensemble import OneByOne, Stacked, Weights, assemble, initial_modules
from iclab.engines.recipe import OPTIMIZERS, Training
from iclab.engines.trained import Report, Trained, bases, stacked_dictionary
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts, Stream

VERSION = 1
"""Part of every cell's hash: bump it when the same description trains to other weights, beyond rounding."""

CHUNK = 256
"""Prompts answered at a time when measuring: few enough to stay in the processor's cache."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: sums are then made in one order, so that results do not depend on cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    training: Training,
    seeds: tuple[int, ...],
    report: Report = lambda prompts: None,
    tell: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Train every seed from its initial weights by the recipe."""
    with one_thread():
        return _train(training, seeds, report, tell)


def _train(training: Training, seeds: tuple[int, ...], report: Report, tell: Callable[[str], None]) -> Trained:
    recipe, dtype = training.recipe, getattr(torch, training.dtype)
    alive = list(range(len(seeds)))  # rows of `seeds` still training
    ensemble, obstacle = _ensemble(training, seeds)
    ask = _Asking(training, seeds, ensemble)
    if obstacle and recipe.steps and not isinstance(training.model.name, str):  # what its author may want to mend
        tell(f"{training.model.label}: seeds run one after another, not stacked: {obstacle}")
    _check_parameters(training, ensemble)
    parameters = ensemble.parameters() or [torch.zeros(1)]  # an optimiser wants something, even for 0 steps
    optimizer = OPTIMIZERS[recipe.optimizer](parameters, lr=recipe.step_size, **recipe.optimizer_options)
    losses = np.full((recipe.steps, len(seeds)), np.nan)
    diverged_at = np.full(len(seeds), -1, dtype=np.int64)
    snapshots: dict[int, Weights] = {}

    for step in range(recipe.steps + 1):
        if step in recipe.kept and alive:
            snapshots[step] = _scatter(ensemble.weights(), alive, len(seeds))
        if step == recipe.steps or not alive:
            break
        prompts = training.prompts_at(step)
        batch = prompts.draw(
            [seeds[i] for i in alive], Stream.TRAIN, step=step, count=recipe.batch_size, dtype=training.dtype
        )
        target = torch.from_numpy(batch.target).to(training.device, dtype)
        output = ask(prompts, batch, alive).output
        loss = hinge(output, target).mean(1)  # (seeds,)
        optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        if recipe.clip is not None:
            ensemble.scale_gradients((recipe.clip / ensemble.norms()).clamp(max=1.0))
        for group in optimizer.param_groups:
            group["lr"] = recipe.step_size * recipe.rate(step)
        optimizer.step()

        losses[step, alive] = loss.detach().cpu().numpy()
        finite = np.isfinite(losses[step, alive])
        if not finite.all():
            diverged_at[[i for i, ok in zip(alive, finite, strict=True) if not ok]] = step
            ensemble.keep(np.flatnonzero(finite).tolist(), optimizer)
            alive = [i for i, ok in zip(alive, finite, strict=True) if ok]
        report(recipe.batch_size * len(seeds))

    for step in recipe.kept:  # steps after the last seed diverged
        snapshots.setdefault(step, _scatter({n: w[:0] for n, w in snapshots[0].items()}, [], len(seeds)))
    for end in snapshots[recipe.steps].values():
        broken = ~end.reshape(len(seeds), -1).isfinite().all(1).numpy()
        diverged_at[broken & (diverged_at < 0)] = recipe.steps
    return Trained(training, tuple(seeds), snapshots, diverged_at, losses)


def answers(
    trained: Trained,
    weights: Weights,
    prompts: Prompts,
    count: int,
    *,
    stream: Stream = Stream.TEST,
    step: int = 0,
    report: Report = lambda prompts: None,
) -> Iterator[tuple[PromptBatch, Answer]]:
    """Answer ``count`` fresh prompts with each seed's weights (dense, by name), a chunk at a time."""
    training, seeds = trained.training, trained.seeds
    ensemble, _ = _ensemble(training, seeds, weights=weights)
    ask = _Asking(training, seeds, ensemble)
    for first in range(0, count, CHUNK):
        with one_thread(), torch.no_grad():
            batch = prompts.draw(
                seeds, stream, step=step, first=first, count=min(CHUNK, count - first), dtype=training.dtype
            )
            answer = ask(prompts, batch, training=False)
        yield batch, answer
        report(batch.outlier.shape[1] * len(seeds))


class _Asking:
    """Puts prompts before an ensemble: as dense tokens, or as they are to the compact form of a model."""

    def __init__(self, training: Training, seeds: tuple[int, ...], ensemble: Stacked | OneByOne) -> None:
        self._training, self._seeds, self._ensemble = training, seeds, ensemble
        self._dictionaries: dict[Prompts, torch.Tensor] = {}

    def __call__(
        self, prompts: Prompts, batch: PromptBatch, alive: list[int] | None = None, *, training: bool = True
    ) -> Answer:
        """Answer prompts of the living seeds; of all, if nothing is said about them."""
        compact = self._training.engine == "compact" and not prompts.noise
        if prompts not in self._dictionaries:
            rows = stacked_dictionary(self._training, self._seeds, prompts)
            self._dictionaries[prompts] = with_label(rows, prompts.label_width) if compact else rows
        dictionary = self._dictionaries[prompts]
        if alive is not None and len(alive) < len(self._seeds):
            dictionary = dictionary[alive]
        if compact:
            assert isinstance(self._ensemble, Stacked)  # as built-in models are
            return self._ensemble.compact(batch, dictionary)
        return self._ensemble.forward(batch.dense(dictionary), training=training)


def with_label(dictionary: torch.Tensor, width: int) -> torch.Tensor:
    """Make tokens of dictionary rows (seeds, D', d), and a last one of a label of 1: (seeds, D' + 1, d + width)."""
    rows = torch.nn.functional.pad(dictionary, (0, width, 0, 1))
    rows[:, -1, dictionary.shape[-1]] = 1.0
    return rows


def hinge(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """max{0, 1 − z·F}, averaged over the numbers of a label: M (4). At the kink the gradient is 0."""
    return torch.relu(1.0 - target * output).mean(-1)


def stacking_obstacle(training: Training) -> str:
    """Say why seeds of this model cannot be stacked; an empty text if they can."""
    ensemble, obstacle = _ensemble(training, (0, 1))
    _check_parameters(training, ensemble)
    return obstacle


def _check_parameters(training: Training, ensemble: Stacked | OneByOne) -> None:
    if training.recipe.steps and not ensemble.parameters():
        raise InputError(f"model = {training.model.label}: has no parameters to train; ask for 0 steps")


def _ensemble(
    training: Training,
    seeds: tuple[int, ...],
    weights: Weights | None = None,
) -> tuple[Stacked | OneByOne, str]:
    """Build the seeds' models, at their initial weights or at the given ones."""
    first = training.prompts.draw(seeds, Stream.TRAIN, count=2, dtype=training.dtype)
    example = first.dense(stacked_dictionary(training, seeds, training.prompts))
    dtype = getattr(torch, training.dtype)
    modules = initial_modules(training.model, example.shape[-1], training.prompts, seeds, bases(training, seeds), dtype)
    for row, module in enumerate(modules):
        module.to(training.device)
        if weights is not None:
            module.load_state_dict({name: w[row] for name, w in weights.items()})
    return assemble(modules, seeds, example)


def _scatter(weights: Weights, alive: list[int], total: int) -> Weights:
    """Put the living seeds' weights into their rows, NaN elsewhere."""
    if len(alive) == total:
        return weights
    out = {}
    for name, w in weights.items():
        full = torch.full((total, *w.shape[1:]), torch.nan if w.is_floating_point() else 0, dtype=w.dtype)
        full[alive] = w
        out[name] = full
    return out
