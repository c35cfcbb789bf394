"""When a seed stops before the last step: by a rule, or because a user's callback says so.

A seed that has stopped keeps its weights: they are its weights after every later step too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from iclab.config import Code, Config, InputError, what_was_raised


class Stop(Config):
    """Early stopping, for each seed by itself, by its training loss averaged over the last ``window`` steps.

    Every step draws fresh prompts, so the training loss is also a test loss.

    Example:
        >>> Stop(loss=0.1, window=2).reached([1.0, 0.5, 0.2, 0.1, 0.0])
        5
    """

    loss: Annotated[float | None, Field(ge=0)] = None
    """Stop once the average is at most this."""
    patience: Annotated[int | None, Field(ge=1)] = None
    """Stop once this many steps have brought no smaller average."""
    window: Annotated[int, Field(ge=1)] = 20
    """How many steps to average over: the loss of one batch is noisy."""

    @model_validator(mode="after")
    def _says_when(self) -> Stop:
        if self.loss is None and self.patience is None:
            raise ValueError("stop: needs loss, the level to reach, or patience, the steps to wait for a smaller loss")
        return self

    def reached(self, losses: Iterable[float]) -> int | None:
        """Return how many steps were taken when the rule stops a seed with these losses; None if it goes on."""
        counting = Countdown(self)
        return next((step for step, loss in enumerate(losses, 1) if counting.ends_with(loss)), None)


class Countdown:
    """Follows the losses of one seed."""

    def __init__(self, rule: Stop) -> None:
        self._rule, self._recent = rule, deque[float](maxlen=rule.window)
        self._best, self._waited = math.inf, 0

    def ends_with(self, loss: float) -> bool:
        """Take the loss of one more step; return whether the seed stops after it."""
        self._recent.append(float(loss))
        if len(self._recent) < self._rule.window:
            return False
        mean = math.fsum(self._recent) / self._rule.window  # rounded once, so that equal losses have equal means
        self._waited = 0 if mean < self._best else self._waited + 1
        self._best = min(self._best, mean)
        reached = self._rule.loss is not None and mean <= self._rule.loss
        return reached or (self._rule.patience is not None and self._waited >= self._rule.patience)


@dataclass(frozen=True)
class StepDone:
    """What a callback sees after a step: ``step``, ``seeds``, ``losses``, and ``weights()``, which must be called.

    It returns nothing, or a list of seeds that stop here.
    """

    step: int
    """How many steps were taken."""
    seeds: tuple[int, ...]
    """The seeds that still train: those of one group, mostly of eight, even if you asked for fewer."""
    losses: NDArray[np.float64]
    """(seeds,) the loss of each on the batch of this step."""
    weights: Callable[[], dict[str, Tensor]]
    """Returns a copy of the weights after the step, (seeds, …) by name."""


class Watch:
    """Decides after every step which seeds stop."""

    def __init__(self, seeds: tuple[int, ...], stop: Stop | None, callback: Code | None) -> None:
        self.seeds, self.callback = seeds, callback
        self._countdowns = [Countdown(stop) for _ in seeds] if stop else []

    def ended(
        self, step: int, rows: Sequence[int], losses: NDArray[np.float64], weights: Callable[[], dict[str, Tensor]]
    ) -> list[int]:
        """Return those of ``rows`` that stop after iteration ``step``, given the losses (steps, seeds) so far."""
        ended = [row for row in rows if self._countdowns and self._countdowns[row].ends_with(losses[step, row])]
        if self.callback is None:
            return ended
        seeds = tuple(self.seeds[row] for row in rows)
        wanted = self._call(StepDone(step + 1, seeds, losses[step, list(rows)].copy(), weights))
        return sorted({*ended, *(row for row in rows if self.seeds[row] in wanted)})

    def _call(self, done: StepDone) -> set[int]:
        assert self.callback is not None
        where = f"recipe.callback = {self.callback.path}"
        try:
            wanted = self.callback.load()(done)
        except Exception as error:  # a user's function may raise anything
            raise InputError(f"{where}, step {done.step}: {what_was_raised(error)}") from error
        try:
            stopping = set() if wanted is None else {int(seed) for seed in wanted}
        except (TypeError, ValueError):
            raise InputError(f"{where}: must return nothing, or a list of seeds to stop; returned {wanted!r}") from None
        if unknown := stopping - set(done.seeds):
            known = ", ".join(map(str, done.seeds))
            raise InputError(f"{where}: returned seed {min(unknown)}, which does not train; those that do: {known}")
        return stopping
