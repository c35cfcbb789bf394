"""What all fused forms share: seeds that train one by one, in threads, from a stretch of steps to the next."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines.fused.summing import mapping
from iclab.engines.recipe import Recipe
from iclab.engines.stopping import Countdown
from iclab.engines.trained import Advance, Notify, Trained, bases
from iclab.engines.training import Training
from iclab.prompts import Basis, Prompts

LONGEST = 0.5
"""Seconds between two moments in which Ctrl-C and a time limit can act, if single steps are shorter."""


class SeedState(ABC):
    """The weights and working memory of one seed; a form of the fused engine defines what a step is."""

    chunk: ClassVar[int] = 200_000
    """Training prompts between two calls that show progress: about a tenth of a second."""
    prompts: Prompts
    """The distribution that it is prepared for; set by ``prepare``."""

    def __init__(self, training: Training, seed: int, basis: Basis) -> None:
        self.training, self.seed, self.basis = training, seed, basis
        self.stopped = False
        """Whether it stopped early."""
        self.countdown = Countdown(training.recipe.stop) if training.recipe.stop else None

    @property
    @abstractmethod
    def changing(self) -> Sequence[NDArray[np.floating]]:
        """The arrays that decide the next steps, and that steps change in place: weights and momenta."""

    @abstractmethod
    def kept(self) -> dict[str, NDArray[np.floating]]:
        """Return the weights of a snapshot by name."""

    @abstractmethod
    def prepare(self, prompts: Prompts) -> None:
        """Set ``prompts``, and allocate tables and working memory for them."""

    @abstractmethod
    def steps(self, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]) -> int:
        """Take steps ``first`` … ``last − 1``; return the step at which the loss is not finite, or −1."""

    def run(
        self, prompts: Prompts, first: int, last: int, rates: NDArray[np.floating], losses: NDArray[np.floating]
    ) -> int:
        """Take steps as `steps` does; if the recipe stops the seed early, just the steps up to there."""
        if prompts is not self.prompts:
            self.prepare(prompts)
        if self.countdown is None:
            return self.steps(first, last, rates, losses)
        before = [array.copy() for array in self.changing]
        diverged = self.steps(first, last, rates, losses)
        finite = range(first, last if diverged < 0 else diverged)
        end = next((step + 1 for step in finite if self.countdown.ends_with(losses[step])), None)
        if end is None:
            return diverged
        self.stopped = True
        if end < last:  # go back, and take no more than these
            for now, then in zip(self.changing, before, strict=True):
                now[...] = then
            losses[first:last] = np.nan
            self.steps(first, end, rates, losses)
        return -1


def own_weights(trained: Trained, step: int) -> dict[str, torch.Tensor]:
    """Return the weights after a step, (seeds, …) by name, of forms whose snapshots hold the model's own."""
    return trained.snapshots[step]


def train_apart(
    training: Training,
    seeds: tuple[int, ...],
    kind: type[SeedState],
    advance: Advance,
    notify: Notify,
    threads: int,
) -> Trained:
    """Train every seed by itself."""
    recipe, dtype = training.recipe, np.dtype(training.dtype)
    states = [kind(training, seed, basis) for seed, basis in zip(seeds, bases(training, seeds), strict=True)]
    losses = np.full((len(seeds), recipe.steps), np.nan, dtype=dtype)
    diverged_at = np.full(len(seeds), -1, dtype=np.int64)
    snapshots = {0: _stack(states)}
    rates = np.array([recipe.step_size * recipe.rate(step) for step in range(recipe.steps)], dtype=dtype)
    with _announced(notify, (kind, training.model.label, training.dtype)):
        states[0].run(training.prompts, 0, 0, rates, losses[0])  # no step: compiles, or reads the cache
    with mapping(threads) as each:
        for first, last in _stretches(recipe, max(1, kind.chunk * threads // (recipe.batch_size * len(seeds)))):
            prompts = training.prompts_at(first)
            alive = [i for i in range(len(seeds)) if diverged_at[i] < 0 and not states[i].stopped]
            ends = each(lambda i: states[i].run(prompts, first, last, rates, losses[i]), alive)  # noqa: B023 (read below)
            for i, end in zip(alive, ends, strict=True):
                diverged_at[i] = end
            advance((last - first) * recipe.batch_size * len(seeds))
            if last in recipe.kept:
                snapshots[last] = _stack(states, diverged_at)
    for i, state in enumerate(states):
        if diverged_at[i] < 0 and not all(np.isfinite(w).all() for w in state.kept().values()):
            diverged_at[i] = recipe.steps
    return Trained(training, tuple(seeds), snapshots, diverged_at, losses.T.astype(np.float64))


def _stretches(recipe: Recipe, most: int) -> Iterator[tuple[int, int]]:
    """Cut the training at snapshots and switches, and often enough to show progress and to be stopped.

    A stretch has ``most`` steps at most, and fewer if steps take long. No result depends on where the cuts are.
    """
    ends = sorted({*recipe.kept, *(switch.step for switch in recipe.switches)} - {0})
    first, stride = 0, 1
    for end in ends:
        while first < end:
            last, started = min(first + stride, end), time.monotonic()
            yield first, last
            took = time.monotonic() - started  # by whoever takes the steps
            if took > LONGEST:
                stride = max(1, stride // 2)
            elif took < LONGEST / 4 and last - first == stride:
                stride = min(8 * stride, most) if took < LONGEST / 32 else min(2 * stride, most)
            first = last


def _stack(states: Sequence[SeedState], diverged_at: NDArray[np.int64] | None = None) -> dict[str, torch.Tensor]:
    """Copy the weights of all seeds; NaN where a seed has diverged."""
    kept = [state.kept() for state in states]
    out = {name: torch.from_numpy(np.stack([weights[name] for weights in kept])) for name in kept[0]}
    if diverged_at is not None:
        for stacked in out.values():
            stacked[torch.from_numpy(diverged_at >= 0)] = torch.nan
    return out


_COMPILED: set[Hashable] = set()
"""What this process has compiled, or read from the cache."""


@contextmanager
def _announced(notify: Notify, what: Hashable) -> Iterator[None]:
    """Explain the wait if compiling takes long; numba keeps the result on disk."""
    if what in _COMPILED:  # a thread for the clock would take longer than a small training
        yield
        return
    timer = threading.Timer(2.0, notify, ("compiling the fused engine: once on this machine, about 15 seconds",))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    _COMPILED.add(what)
