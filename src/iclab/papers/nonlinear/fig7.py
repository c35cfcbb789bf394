"""T-fig7: how many training tasks the one-layer Transformer needs, for several numbers of relevant patterns."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.prompts import Stream
from iclab.prompts.counters import words
from iclab.prompts.tasks import AllPairs, Listed, Pair, Ring
from iclab.study import style
from iclab.study.claims import Claim, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, mean_text, proportion
from iclab.study.settings import Chosen, Different, Disclosed

SMALL = 0.01
"""The paper: the error is "around 0" from M1 tasks on, and "significant" below. Read as: below this, and above it."""


class TaskSettings(NonlinearPaper):
    """T-fig7."""

    instead = {"relevant": "relevants", "train_tasks": "relevants and beyond"}

    relevant_fraction: Annotated[float, Field(gt=0, le=1), Disclosed("α, T A.2")] = 0.6
    relevants: Annotated[
        tuple[Annotated[int, Field(ge=3)], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "several M1, T Figure 7; which, only the figure shows. M2 is as large as room allows, at most 24", grid=True
        ),
    ] = (4, 6, 8)
    beyond: Annotated[
        tuple[int, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "numbers of training tasks, counted from M1: fewer leave out tasks of the ring, more add others", grid=True
        ),
    ] = (-3, -2, -1, 0, 2, 4)

    def quick(self) -> Self:
        """Return the quick edition: fewer patterns and fewer numbers of tasks."""
        fewer = tuple(n for n in self.beyond if n in (-1, 0)) or self.beyond
        return (
            super()
            .quick()
            .replace(relevants=self.relevants[:2], beyond=fewer, test_prompts=min(self.test_prompts, 2_000))
        )


def tasks(relevant: int, count: int) -> tuple[Pair, ...]:
    """Return ``count`` training tasks: those of the ring one after another, then others in an order drawn once."""
    ring = [(j, (j + 1) % relevant) for j in range(relevant)]
    others = [pair for pair in AllPairs().pairs(relevant) if pair not in Ring(steps=1).pairs(relevant)]
    order = np.argsort(words([relevant], Stream.TASKS, positions=len(others))[0, 0, :, 0], kind="stable")
    return tuple([*ring, *(others[i] for i in order)][:count])


class TrainingTasks(Experiment[TaskSettings]):
    """Error against the number of training tasks."""

    id = "T-fig7"
    title = "Error against the number of training tasks"
    paper = (
        "For any M1 the generalization error is significant as long as there are fewer than M1 training tasks, and "
        "reaches around 0 from M1 tasks on, if they cover all patterns and labels."
    )
    reading = (
        "The error on tasks that were not trained on, mean over seeds; bands run from the lowest to the highest seed. "
        "M1 tasks are one step round the ring; fewer leave out its last ones, so that some pattern never means +1, "
        "another never −1, and with two fewer one is in no task at all; more add others, drawn once at random, as the "
        "paper does: some patterns then mean +1 more "
        "often than others."
    )
    theorems = ("T-thm3.3",)
    settings = TaskSettings

    def conditions(self, settings: TaskSettings) -> list[Condition]:
        """A training for each M1 and number of tasks, tested on all other tasks."""
        found = []
        for relevant in settings.relevants:
            for count in _counts(settings, relevant):
                changed = settings.as_kind(
                    NonlinearPaper,
                    relevant=relevant,
                    irrelevant=min(settings.irrelevant, settings.dimension - relevant),
                    train_tasks=Listed(listed=tasks(relevant, count)),
                )
                found += in_groups(
                    settings,
                    {"relevant": relevant, "tasks": count},
                    changed.training(),
                    probe="error",
                    prompts=changed.prompts(tasks=changed.unseen()),
                    count=settings.test_prompts,
                )
        return found

    def claims(self, settings: TaskSettings) -> list[Claim]:
        """Significant below M1, around 0 from M1 on."""
        claims = []
        for relevant in settings.relevants:
            few = [n for n in _counts(settings, relevant) if n < relevant]
            enough = [n for n in _counts(settings, relevant) if n >= relevant]
            for name, counts, rule, sign in (("few", few, every_above, ">"), ("enough", enough, every_below, "<")):
                if counts:
                    words = "significant below M1 tasks" if name == "few" else "around 0 from M1 tasks on"
                    listed = ", ".join(map(str, counts))
                    cells = [(f"{count} tasks", {"relevant": relevant, "tasks": count}) for count in counts]
                    claims.append(
                        Claim(
                            f"T-fig7.{name}.{relevant}",
                            f"the generalization error is {words}",
                            f"mean error {sign} {SMALL} with {listed} training tasks, M1 = {relevant}",
                            judged(partial(error_points, seeds=settings.seeds, cells=cells), rule, SMALL),
                        )
                    )
        return claims

    def table(self, rows: list[Row], settings: TaskSettings) -> list[dict[str, Any]]:
        """A line a number of tasks."""
        lines = []
        for relevant in settings.relevants:
            for count in _counts(settings, relevant):
                p = proportion(rows, relevant=relevant, tasks=count)
                lines.append(
                    {
                        "M1": relevant,
                        "training tasks": count,
                        "of": relevant * (relevant - 1),
                        "error": "–" if p is None else p.short(),
                        "hinge loss": mean_text(rows, "hinge", relevant=relevant, tasks=count),
                    }
                )
        return lines

    def draw(self, rows: list[Row], settings: TaskSettings) -> Figure:
        """Draw one curve for each M1, against the number of tasks counted from M1."""
        with mpl.rc_context(style.RC):
            figure = Figure(figsize=(6.6, 4.0), layout="constrained")
            axes = figure.subplots()
            style.grid(axes)
            axes.axvline(0, color=style.FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
            for colour, relevant in zip(style.shades(len(settings.relevants)), settings.relevants, strict=True):
                counts = _counts(settings, relevant)
                found = [errors(rows, relevant=relevant, tasks=count) for count in counts]
                style.curve(axes, [count - relevant for count in counts], found, colour, f"M1 = {relevant}")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel("training tasks, counted from M1")
            axes.set_ylabel("error on unseen tasks")
            style.legend(axes)
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def _counts(settings: TaskSettings, relevant: int) -> list[int]:
    """The numbers of training tasks for one M1: at least one, and never all there are."""
    return [relevant + n for n in sorted(settings.beyond) if 1 <= relevant + n < relevant * (relevant - 1)]
