"""When a seed stops before the last step: by a rule, or because a user's callback says so.

A seed that has stopped keeps its weights: they are its weights after every later step too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from iclab.config import Code, Config, InputError


class Stop(Config):
    """Early stopping, for each seed by itself, by its training loss averaged over the last ``window`` steps.

    Every step draws fresh prompts, so the training loss is also a test loss.

    Example:
        >>> Stop(loss=0.1, window=2).reached(np.array([1.0, 0.5, 0.2, 0.1, 0.0]))
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

    def reached(self, losses: NDArray[np.floating]) -> int | None:
        """Return how many steps were taken when the rule stops a seed with these losses; None if it goes on."""
        usable = np.asarray(losses, dtype=np.float64)
        if len(usable) < self.window:
            return None
        sums = np.cumsum(np.concatenate([[0.0], usable]))
        means = (sums[self.window :] - sums[: -self.window]) / self.window  # of steps i … i + window − 1
        ends = []
        if self.loss is not None and (low := np.flatnonzero(means <= self.loss)).size:
            ends.append(int(low[0]))
        if self.patience is not None:
            best = np.minimum.accumulate(means)
            since = np.arange(len(means)) - np.searchsorted(-best, -best, side="left")  # steps since the best
            if (late := np.flatnonzero(since >= self.patience)).size:
                ends.append(int(late[0]))
        return min(ends) + self.window if ends else None


@dataclass(frozen=True)
class StepDone:
    """What a callback sees after a step."""

    step: int
    """How many steps were taken."""
    seeds: tuple[int, ...]
    """The seeds that still train."""
    losses: NDArray[np.float64]
    """(seeds,) the loss of each on the batch of this step."""
    weights: Callable[[], dict[str, Tensor]]
    """Returns a copy of the weights after the step, (seeds, …) by name."""


@dataclass(frozen=True)
class Watch:
    """Decides after every step which seeds stop."""

    seeds: tuple[int, ...]
    stop: Stop | None
    callback: Code | None

    def ended(
        self, step: int, rows: Sequence[int], losses: NDArray[np.float64], weights: Callable[[], dict[str, Tensor]]
    ) -> list[int]:
        """Return those of ``rows`` that stop after iteration ``step``, given the losses (steps, seeds) so far."""
        rule = self.stop
        ended = [row for row in rows if rule and rule.reached(losses[: step + 1, row]) is not None]
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
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"{where}: raised {reason} after step {done.step}") from error
        try:
            stopping = set() if wanted is None else {int(seed) for seed in wanted}
        except (TypeError, ValueError):
            raise InputError(f"{where}: must return nothing, or a list of seeds to stop; returned {wanted!r}") from None
        if unknown := stopping - set(done.seeds):
            known = ", ".join(map(str, done.seeds))
            raise InputError(f"{where}: returned seed {min(unknown)}, which does not train; those that do: {known}")
        return stopping
