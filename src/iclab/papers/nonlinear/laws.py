"""How long T's and S's Transformer trains: sweeps of one quantity at a time, and hitting times from stored rows.

T_ℓ is the first step after which the expected hinge loss on fresh prompts over all tasks is below ℓ. The loss stays at
1 for most of a training and then falls at once, so weights are kept in its later part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from iclab.engines import Training, geometric
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.prompts.tasks import AllPairs, Ring, TaskSet
from iclab.study.claims import BySeed
from iclab.study.experiment import Condition, in_groups
from iclab.study.fits import hitting_times
from iclab.study.settings import Chosen, Different

HALF, LATE = 0.5, 0.1
"""The two levels ℓ of the loss."""
GRAPHS: dict[str, TaskSet] = {"complete": AllPairs(), "ring": Ring(steps=1)}
"""Training tasks: all, and one step round the ring, the paper's example of Condition 3.2."""
EARLIEST = 4
"""The first kept step is this part of all steps."""
REACH = 1.7
"""Trainings take this many times the expected steps."""

Paper = TypeVar("Paper", bound=NonlinearPaper)
Values = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1), Different]
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different]


def theorem_neurons(relevant: int) -> int:
    """Return m = M1² log M1, T Theorem 3.3 (i) with constant 1.

    >>> theorem_neurons(6)
    65
    """
    return math.ceil(relevant**2 * math.log(relevant))


def expected_steps(own: NonlinearPaper) -> float:
    """Return about how many steps bring the loss to 0.5, by exponents measured once; it only says how long to train.

    At the paper's own values 0.5 is reached after about 350 steps.

    >>> 300 < expected_steps(NonlinearPaper()) < 400
    True
    """
    prompts = own.prompts()
    signal = sum(prompts.signal) / 2  # S's λ
    shape = (own.relevant_fraction / 0.8) ** -0.75 * (own.relevant / 8) ** 0.5 * (own.neurons / 200) ** 0.92
    scales = (own.pattern_norm / 3) ** -1.7 * (own.init_scale / 0.1) ** -1.15 * prompts.label_norm**-0.95
    return 360 / own.step_size * shape * scales / signal**2


class TheoremPaper(NonlinearPaper):
    """The setting that every sweep over T's theorems departs from: inside their conditions, unlike T's own figures."""

    evidence = ""
    relevant: Annotated[int, Chosen("M1, from which a sweep can go both ways")] = 8
    irrelevant: Annotated[int, Chosen("M2 = M1: T §3.2 has M2 ≤ O(M1)")] = 8
    context_length: Annotated[int, Chosen("l: C.5 needs max(M1, M2) log M1, which is 17 here and 60 at M1 = 20")] = 80
    attention_size: Annotated[int, Chosen("m_a = m_b > d_X + d_Y, T §2.1")] = 61
    step_size: Annotated[float, Chosen("η: T of several hundred steps, so that a law can be read from them")] = 0.5
    batch_size: Annotated[
        int, Field(ge=1), Chosen("B. Hitting times at 64 and 256 differ by 2 %, less than those of seeds")
    ] = 64
    steps: Annotated[
        int, Field(ge=0), Chosen("the most steps of any training; each takes 1.7 times what it is expected to need")
    ] = 30_000
    watched: Annotated[int, Field(ge=2), Chosen("kept steps per training, at equal ratios", grid=True)] = 32
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and kept step", grid=True)] = 1_000
    instead = {"train_tasks": "nothing: both graphs are trained"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, shorter prompts, smaller batches, η twice as large."""
        few = {"batch_size": min(self.batch_size, 32), "watched": min(self.watched, 20)}
        few["context_length"] = min(self.context_length, 40)
        return super().quick().replace(step_size=2 * self.step_size, test_prompts=min(self.test_prompts, 300), **few)

    def at(self, graph: str, **changes: Any) -> NonlinearPaper:
        """Return the settings of one training, in as many dimensions as its patterns take, and its expected length."""
        own = self.as_kind(NonlinearPaper, train_tasks=GRAPHS[graph], **changes)
        return lasting(own, self.steps)

    def large(self, graph: str, relevant: int, **changes: Any) -> NonlinearPaper:
        """Return the settings of a training with M1 patterns, M2 = M1 and m = M1² log M1, as the theorem has it."""
        sizes = {"relevant": relevant, "irrelevant": relevant, "neurons": theorem_neurons(relevant)}
        return self.at(graph, **sizes | changes)


def some(values: tuple[Any, ...], few: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values that are among a few, or all of a user's own."""
    found = tuple(value for value in values if value in few)
    return found if len(found) == len(few) else values


def lasting(own: Paper, most: int, reach: float = REACH) -> Paper:
    """Return settings with the steps that a training is expected to need, and room for all patterns."""
    dimension = max(own.dimension, own.relevant + own.irrelevant)
    room = dimension + own.label_dimension + 1
    own = own.replace(dimension=dimension, attention_size=max(own.attention_size, room))
    return own.replace(steps=min(most, math.ceil(reach * expected_steps(own))))


def watched_training(own: NonlinearPaper, watched: int) -> Training:
    """Return a training that keeps its weights in its later part, at equal ratios."""
    training, steps = own.training(), own.steps
    kept = geometric(steps, watched, max(1, steps // EARLIEST)) if steps and watched > 1 else ()
    return training.replace(recipe=training.recipe.replace(snapshots=kept))


@dataclass(frozen=True)
class Sweep:
    """One quantity x that moves, and what must move with it."""

    name: str
    """The name of the part in rows and claim ids."""
    symbol: str
    """x in the paper's letters."""
    at: Callable[[Any, str, float], NonlinearPaper]
    """Returns the settings with x at a value, given those of the experiment and the name of a graph."""
    field: str
    """The field of the settings that has the values."""
    power: float
    """The exponent of x in T that the paper claims."""
    title: str = ""
    held: str = ""
    """What is held fixed, or moves too."""
    besides: Callable[[float], float] = lambda x: 1.0
    """A further factor of T, such as √log M1: T is divided by it before the fit."""
    ours: bool = False
    seen: bool = False
    """Whether the loss is that on training tasks, as in S, instead of on all."""

    @property
    def graphs(self) -> tuple[str, ...]:
        """The graphs it is trained on: both for what the paper claims."""
        return ("complete",) if self.ours else tuple(GRAPHS)

    def values(self, settings: Any) -> tuple[float, ...]:
        """Return all x."""
        return tuple(getattr(settings, self.field))

    def columns(self, graph: str, x: float) -> dict[str, Any]:
        """Return the columns that name its rows."""
        return {"part": self.name, "graph": graph, "x": x}

    def conditions(self, settings: Any, graph: str) -> list[Condition]:
        """Return the loss after every kept step, at every value."""
        found = []
        for x in self.values(settings):
            own = self.at(settings, graph, x)
            found += in_groups(
                settings,
                self.columns(graph, x),
                watched_training(own, settings.watched),
                probe="error",
                prompts=own.prompts(tasks=own.train_tasks) if self.seen else own.prompts(),
                count=settings.test_prompts,
                at="every",
            )
        return found

    def times(self, rows: Sequence[Row], graph: str, level: float = HALF) -> dict[float, BySeed]:
        """Return T_ℓ of each seed by x, divided by the further factor; None if it diverged or never got below ℓ."""
        losses: dict[float, dict[int, BySeed]] = defaultdict(lambda: defaultdict(dict))
        gone: dict[float, BySeed] = defaultdict(dict)
        for row in rows:
            if row["part"] == self.name and row["graph"] == graph:
                if row["diverged"]:
                    gone[row["x"]][row["seed"]] = None
                else:
                    losses[row["x"]][row["step"]][row["seed"]] = row["hinge"]
        times: dict[float, BySeed] = {}
        for x in sorted({*losses, *gone}):
            steps = sorted(losses[x])
            found = hitting_times(steps, [losses[x][step] for step in steps], level)
            times[x] = {s: None if t is None else t / self.besides(x) for s, t in found.items()} | gone[x]
        return times
