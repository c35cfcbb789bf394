"""T-fig7: how many training tasks the one-layer Transformer needs, for several numbers of relevant patterns."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.prompts import Stream
from iclab.prompts.counters import words
from iclab.prompts.tasks import AllPairs, Listed, Pair, Ring
from iclab.study.charts import DOTTED, Axis, Figure, Panel, Series, shades
from iclab.study.claims import Claim, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, mean_text, proportion
from iclab.study.settings import Chosen, Different, Disclosed

SMALL = 0.01
"""The paper: the error is "around 0" from M1 tasks on, "significant" with fewer. Read as: below this, above this."""


class TaskSettings(NonlinearPaper):
    """Settings of T-fig7."""

    instead = {"relevant": "relevants", "train_tasks": "relevants and beyond"}

    relevant_fraction: Annotated[float, Field(gt=0, le=1), Disclosed("α, T A.2")] = 0.6
    relevants: Annotated[
        tuple[Annotated[int, Field(ge=3)], ...],
        Field(min_length=1),
        Different,
        Chosen("several M1, T Figure 7; the text does not give them. M2 is as large as fits, at most 24", grid=True),
    ] = (4, 6, 8)
    beyond: Annotated[
        tuple[int, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "numbers of training tasks, counted from M1: fewer leave out tasks of the ring, more add others", grid=True
        ),
    ] = (-3, -2, -1, 0, 2, 4)

    samples: Annotated[
        int, Field(ge=1), Chosen("samples of tasks for every number of them; errors are averaged over these", grid=True)
    ] = 4

    def quick(self) -> Self:
        """Return the quick edition: fewer patterns, numbers of tasks and samples."""
        fewer = tuple(n for n in self.beyond if n in (-1, 0)) or self.beyond
        return (
            super()
            .quick()
            .replace(
                relevants=self.relevants[:2],
                beyond=fewer,
                samples=min(self.samples, 2),
                test_prompts=min(self.test_prompts, 2_000),
            )
        )


def tasks(relevant: int, count: int, sample: int = 0) -> tuple[Pair, ...]:
    """Sample ``count`` training tasks as T A.2 does: within the ring up to M1; beyond, all of it and others."""
    ring = [(j, (j + 1) % relevant) for j in range(relevant)]
    others = [pair for pair in AllPairs().pairs(relevant) if pair not in Ring(steps=1).pairs(relevant)]
    chance = words([relevant], Stream.TASKS, step=sample, positions=len(ring) + len(others))[0, 0, :, 0]
    order = [*np.argsort(chance[:relevant], kind="stable"), *relevant + np.argsort(chance[relevant:], kind="stable")]
    return tuple(sorted([*ring, *others][i] for i in order[:count]))


def _averaged(rows: list[Row], samples: int) -> list[Row]:
    """Return rows with each seed's error averaged over all samples of tasks; none of seeds that lack a sample."""
    found: dict[tuple[int, int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["relevant"], row["tasks"], row["seed"]), []).append(row)
    answer = []
    for mine in (mine for mine in found.values() if len(mine) == samples):
        gone = any(row["error"] is None for row in mine)
        means = {name: None if gone else sum(row[name] for row in mine) / samples for name in ("error", "hinge")}
        prompts = sum(row["prompts"] or 0 for row in mine)
        answer.append(mine[0] | means | {"prompts": prompts, "diverged": gone, "sample": None})
    return answer


class TrainingTasks(Experiment[TaskSettings]):
    """Error against the number of training tasks."""

    id = "T-fig7"
    title = "Error against the number of training tasks"
    paper = (
        "For any M1 the generalization error is significant with fewer than M1 training tasks, and around 0 from M1 "
        "tasks on, if they cover all patterns and labels."
    )
    reading = (
        "The error on tasks that training did not show: means over seeds; bands run from the lowest to the highest "
        "seed, each the mean over several samples of training tasks, drawn as in the paper. M1 tasks are one step "
        "round the ring. Fewer are a sample of these: then some pattern never means +1, another never −1. More add a "
        "sample of all others: then some patterns mean +1 more often than others."
    )
    theorems = ("T-thm3.3",)
    settings = TaskSettings

    def conditions(self, settings: TaskSettings) -> list[Condition]:
        """One training per M1, number of tasks and sample of them, tested on all other tasks."""
        found = []
        for relevant, sample in ((m, s) for m in settings.relevants for s in range(settings.samples)):
            for count in _counts(settings, relevant):
                changed = settings.as_kind(
                    NonlinearPaper,
                    relevant=relevant,
                    irrelevant=min(settings.irrelevant, settings.dimension - relevant),
                    train_tasks=Listed(listed=tasks(relevant, count, sample)),
                )
                found += in_groups(
                    settings,
                    {"relevant": relevant, "tasks": count, "sample": sample},
                    changed.training(),
                    probe="error",
                    prompts=changed.prompts(tasks=changed.unseen()),
                    count=settings.test_prompts,
                )
        return found

    def claims(self, settings: TaskSettings) -> list[Claim]:
        """Significant below M1 tasks, around 0 from M1 tasks on."""
        claims = []
        for relevant in settings.relevants:
            few = [n for n in _counts(settings, relevant) if n < relevant]
            enough = [n for n in _counts(settings, relevant) if n >= relevant]
            for name, counts, rule, sign in (("few", few, every_above, ">"), ("enough", enough, every_below, "<")):
                if counts:
                    said = "significant with fewer than M1 tasks" if name == "few" else "around 0 from M1 tasks on"
                    listed = ", ".join(map(str, counts))
                    cells = [(f"{count} tasks", {"relevant": relevant, "tasks": count}) for count in counts]
                    claims.append(
                        Claim(
                            f"T-fig7.{name}.{relevant}",
                            f"the generalization error is {said}",
                            f"mean error {sign} {SMALL} with {listed} training tasks, {settings.samples} samples of "
                            f"each number, M1 = {relevant}",
                            judged(partial(_points, settings=settings, cells=cells), rule, SMALL),
                        )
                    )
        return claims

    def table(self, rows: list[Row], settings: TaskSettings) -> list[dict[str, Any]]:
        """One line per M1 and number of tasks."""
        lines, rows = [], _averaged(rows, settings.samples)
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

    def chart(self, rows: list[Row], settings: TaskSettings) -> Figure:
        """One curve per M1, against the number of tasks counted from M1."""
        rows = _averaged(rows, settings.samples)
        counts = {relevant: _counts(settings, relevant) for relevant in settings.relevants}
        panel = Panel(
            x=Axis(
                "training tasks, counted from M1",
                domain=(min(settings.beyond) - 0.15, max(settings.beyond) + 0.15),
                ticks={n: f"{n:+d}".replace("-", "−") if n else "M1" for n in settings.beyond},
            ),
            y=Axis("error on unseen tasks"),
            height=260,
        )
        panel.rule(x=0, dash=DOTTED)
        for colour, (relevant, mine) in zip(shades(len(counts)), counts.items(), strict=True):
            found = [errors(rows, relevant=relevant, tasks=count) for count in mine]
            panel.curve(Series(f"M1 = {relevant}", colour), [count - relevant for count in mine], found)
        return Figure([panel], columns=1, width=440)


def _points(rows: list[Row], settings: TaskSettings, cells: list[tuple[str, dict[str, Any]]]) -> list[Point] | None:
    return error_points(_averaged(rows, settings.samples), settings.seeds, cells)


def _counts(settings: TaskSettings, relevant: int) -> list[int]:
    """Return the numbers of training tasks for one M1: at least one, and never all."""
    return [relevant + n for n in sorted(settings.beyond) if 1 <= relevant + n < relevant * (relevant - 1)]
