"""Settings of M-kernel: sets of training tasks as graphs, the trainings on them, and a slow one to watch the law in."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Self

import numpy as np
from pydantic import Field, field_validator

from iclab.engines import Recipe, Training, geometric
from iclab.models import Model
from iclab.papers.mamba.settings import MambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen
from iclab.theory.graph import TaskGraph
from iclab.theory.laws import graph_time
from iclab.theory.setting import MambaSetting

Which = tuple[int, str]
"""M1, and the name of a set of training tasks."""
NAMED = ("cycles", "star", "random")
PARTNERS = 3
"""Partners of every pattern in a random graph."""
DRAWN = 1
"""The seed of the random graph."""


@cache
def tasks_of(which: Which) -> str:
    """Return training tasks in the text form of `iclab.prompts.tasks`; other names than `NAMED` are one already.

    >>> tasks_of((6, "cycles"))
    '0-1,1-2,2-0,3-4,4-5,5-3'
    """
    relevant, name = which
    if name not in NAMED:
        return name
    pairs: list[tuple[int, int]] = []
    if name == "cycles":
        half = relevant // 2
        for first, last in ((0, half), (half, relevant)):
            pairs += [(j, j + 1 if j + 1 < last else first) for j in range(first, last)]
    elif name == "star":
        pairs = [(0, j) for j in range(1, relevant)]
    else:  # both orders of every edge, so that Condition 1 is met
        pairs = [pair for a, b in _random_edges(relevant) for pair in ((a, b), (b, a))]
    return ",".join(f"{a}-{b}" for a, b in pairs)


def _random_edges(relevant: int) -> list[tuple[int, int]]:
    """Draw a graph in which every node has three edges: three ends for each node, joined at random until it works."""
    ends, generator = np.repeat(np.arange(relevant), PARTNERS), np.random.default_rng(DRAWN)
    while True:
        joined = np.sort(generator.permutation(ends).reshape(-1, 2), axis=1)
        edges = sorted({(int(a), int(b)) for a, b in joined if a != b})
        if len(edges) == len(joined) and TaskGraph.of(edges, relevant).connected:
            return edges


@cache
def graph_of(which: Which) -> TaskGraph:
    """Return the graph of a set of training tasks."""
    relevant, _ = which
    return TaskGraph.of(Prompts(patterns={"relevant": relevant}, tasks=tasks_of(which)).tasks.pairs(relevant), relevant)


class KernelSettings(MambaPaper):
    """Settings of M-kernel."""

    graphs: Annotated[
        tuple[tuple[Annotated[int, Field(ge=3)], str], ...],
        Field(min_length=1),
        Chosen(
            "M1 and training tasks: rings (ring:1 is the paper's example for Condition 1), two separate cycles, a "
            "random graph with three partners for every pattern, a star (which does not meet Condition 1), and "
            "complete graphs (ring:3 of six patterns, all)",
            grid=True,
        ),
    ] = (
        *((6, "ring:1"), (8, "ring:1"), (12, "ring:1"), (6, "ring:2"), (12, "ring:3"), (6, "cycles"), (12, "cycles")),
        *((12, "random"), (6, "star"), (6, "ring:3"), (12, "all")),
    )
    models: Annotated[tuple[str, ...], Field(min_length=1), Chosen("one-layer models without softmax", grid=True)] = (
        "mamba",
        "linear",
    )
    train_outlier_fraction: Annotated[
        float,
        Field(ge=0, lt=1),
        Chosen("p_a: outliers slow the clock τ by 1 − p_a, and (A) has no other trace of them"),
    ] = 0.3
    slow_step_size: Annotated[
        float, Field(gt=0), Chosen("η of the slow training. (A) is a law for small steps: at 0.05, τ is 1 % behind it")
    ] = 0.05
    slow_batch_size: Annotated[
        int, Field(ge=1), Chosen("B of the slow training: (A) is a law about means", grid=True)
    ] = 512
    longest_time: Annotated[
        float, Field(gt=0), Chosen("predicted τ at which the slow training ends; the loss is below 0.5 by then")
    ] = 1.2
    watched_steps: Annotated[
        int, Field(ge=2), Chosen("steps after which the slow training is looked at", grid=True)
    ] = 10
    instead = {"relevant": "graphs", "train_tasks": "graphs", "test_tasks": "graphs"}

    @field_validator("graphs")
    @classmethod
    def _known(cls, graphs: tuple[Which, ...]) -> tuple[Which, ...]:
        for which in graphs:
            graph_of(which)  # refuses what is no set of tasks
        return graphs

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts."""
        fewer = {"test_prompts": min(self.test_prompts, 2_000), "slow_batch_size": min(self.slow_batch_size, 256)}
        return super().quick().replace(**fewer)

    def of(self, which: Which) -> MambaPaper:
        """Return the settings of paper M with these training tasks."""
        return self.as_kind(MambaPaper, relevant=which[0], train_tasks=tasks_of(which))

    def training(self, which: Which, name: str) -> Training:
        """Return the usual training of paper M on these tasks."""
        one = self.of(which)
        prompts = one.train_prompts(self.train_outlier_fraction)
        return Training(model=one.model(name), prompts=prompts, recipe=one.recipe(name), engine=self.engine)

    def slow_training(self, which: Which) -> Training:
        """Return a training in small steps, with a gate that starts at ½ for every example and stays there."""
        steps = max(4, round(self.longest_time / self.predicted_time(which, 1)))
        return Training(
            model=Model(name="mamba", options={"init_scale": self.init_scale, "gate_scale": 0.0}),
            prompts=self.of(which).train_prompts(self.train_outlier_fraction),
            recipe=Recipe(
                steps=steps,
                batch_size=self.slow_batch_size,
                step_size=self.slow_step_size,
                frozen=("gate",),
                snapshots=geometric(steps, self.watched_steps, first=4),
            ),
            engine=self.engine,
        )

    def predicted_time(self, which: Which, step: int) -> float:
        """Return τ of (A) after some steps of the slow training: nothing in it is fitted."""
        setting = MambaSetting(
            relevant=which[0],
            tasks=self.of(which).train_prompts(0.0).tasks.pairs(which[0]),
            train_length=self.context_length,
            train_outlier_fraction=self.train_outlier_fraction,
            relevant_norm=self.pattern_norm,
            step_size=self.slow_step_size,
        )
        return graph_time(setting, step)

    def clean_prompts(self, which: Which, distance: int) -> Prompts:
        """Return prompts without outliers, as in training but with all tasks of patterns this far apart."""
        apart = np.argwhere(graph_of(which).distances == distance)
        tasks = ",".join(f"{a}-{b}" for a, b in apart)
        return self.of(which).replace(train_tasks=tasks).train_prompts(0.0)
