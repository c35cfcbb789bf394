"""T-lemB.11: the fewest training tasks that meet Condition 3.2, and what happens with fewer."""

from __future__ import annotations

from functools import cache, partial
from itertools import combinations, permutations
from typing import Annotated, Any

from pydantic import Field

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import TheoremPaper, lasting
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.prompts.tasks import Listed
from iclab.study.charts import DASHED, PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Point, every_above, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import ROUNDING
from iclab.study.settings import Chosen, Different

LOSS = 0.1
"""A small loss: below this, as in T-thm3.3."""

Pair = tuple[int, int]


class FewestSettings(TheoremPaper):
    """Settings of T-lemB.11."""

    instead = {**TheoremPaper.instead, "relevant": "relevant_values", "irrelevant": "relevant_values"}
    step_size: Annotated[float, Chosen("η: the largest that the theorem allows; only the end of training counts")] = 1.0
    relevant_values: Annotated[
        tuple[Annotated[int, Field(ge=3, le=5)], ...],
        Field(min_length=1),
        Different,
        Chosen("M1, of which all sets of tasks can be tried", grid=True),
    ] = (4, 5)

    def quick(self) -> FewestSettings:
        """Return the quick edition; η stays."""
        return super().quick().replace(step_size=self.step_size)

    def with_tasks(self, relevant: int, tasks: int) -> NonlinearPaper:
        """Return the settings of a training on the first so many tasks of the ring."""
        own = self.large("ring", relevant)
        listed = tuple((j, (j + 1) % relevant) for j in range(tasks))
        return lasting(own.replace(train_tasks=Listed(listed=listed)), self.steps)


@cache
def fewest_tasks(relevant: int) -> int:
    """Return the fewest tasks that meet Condition 3.2, by trying all sets: every µ_j has either label in |T|/M1 ≥ 1.

    >>> [fewest_tasks(relevant) for relevant in (2, 3, 4, 5)]
    [2, 3, 4, 5]
    """
    every = list(permutations(range(relevant), 2))
    for size in range(1, len(every) + 1):
        if any(meets(tasks, relevant) for tasks in combinations(every, size)):
            return size
    raise AssertionError("all tasks together meet it")


def meets(tasks: tuple[Pair, ...], relevant: int) -> bool:
    """Return whether tasks meet Condition 3.2: every pattern has either label equally often, at least once.

    >>> meets(((0, 1), (1, 2), (2, 0)), 3), meets(((0, 1), (1, 0), (2, 0)), 3)
    (True, False)
    """
    share = max(1.0, len(tasks) / relevant)
    return all([task[side] for task in tasks].count(j) >= share for side in (0, 1) for j in range(relevant))


class FewestTasks(Experiment[FewestSettings]):
    """All sets of tasks, and trainings on few tasks."""

    id = "T-lemB.11"
    title = "The fewest training tasks"
    paper = "Lemma B.11: Condition 3.2 takes |T_tr| ≥ M1 training tasks."
    reading = (
        "The hinge loss over all tasks after training on the first k tasks of the ring, against k. Only at k = M1 is "
        "Condition 3.2 met, and no other set of fewer tasks meets it: all sets were tried. Points are means over seeds "
        "with 95 % intervals."
    )
    caption = "mean over seeds"
    theorems = ("T-lemB.11",)
    settings = FewestSettings

    def conditions(self, settings: FewestSettings) -> list[Condition]:
        """Return the loss over all tasks after training on 1 to M1 tasks of the ring."""
        found = []
        for relevant in settings.relevant_values:
            for tasks in range(1, relevant + 1):
                own = settings.with_tasks(relevant, tasks)
                columns = {"x": relevant, "tasks": tasks, "fewest": fewest_tasks(relevant)}
                cell = {"probe": "error", "prompts": own.prompts(), "count": settings.test_prompts}
                found += in_groups(settings, columns, own.training(), **cell)
        return found

    def claims(self, settings: FewestSettings) -> list[Claim]:
        """Claim the count, and what it is good for."""
        values = ", ".join(map(str, settings.relevant_values))
        return [
            Claim(
                "T-lemB.11.count",
                "Condition 3.2 takes at least M1 tasks (Lemma B.11)",
                f"the fewest tasks of all sets that meet it / M1 is 1, M1 = {values}",
                judged(partial(_counts, settings=settings), every_within, 1 - ROUNDING, 1 + ROUNDING),
            ),
            Claim(
                "T-lemB.11.enough",
                "with the M1 tasks of the ring, which meet it, the loss over all tasks is small",
                f"hinge loss < {LOSS}, M1 = {values}",
                judged(partial(_losses, settings=settings, fewer=0), every_below, LOSS),
                ours=True,
            ),
            Claim(
                "T-lemB.11.fewer",
                "with one task of the ring fewer it is not",
                f"hinge loss > {LOSS}, M1 = {values}",
                judged(partial(_losses, settings=settings, fewer=1), every_above, LOSS),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: FewestSettings) -> list[dict[str, Any]]:
        """Return one line per M1 and number of tasks."""
        lines = []
        for relevant in settings.relevant_values:
            for tasks in range(1, relevant + 1):
                loss, error = (mean(_number(rows, relevant, tasks, name)) for name in ("hinge", "error"))
                line: dict[str, Any] = {"M1": relevant, "fewest": fewest_tasks(relevant), "tasks": tasks}
                line |= {"hinge loss": "–" if loss is None else f"{loss:.3f}"}
                lines.append(line | {"error": "–" if error is None else f"{error:.3f}"})
        return lines

    def chart(self, rows: list[Row], settings: FewestSettings) -> Figure:
        """Draw the loss against the number of tasks."""
        most = max(settings.relevant_values)
        panel = Panel(
            "trained on the first tasks of the ring",
            x=Axis("training tasks", ticks=range(1, most + 1)),
            y=Axis("hinge loss over all tasks"),
            height=240,
        )
        panel.rule(y=LOSS, dash=DASHED)
        for relevant, colour in zip(settings.relevant_values, PALETTE, strict=False):
            found = {float(k): _number(rows, relevant, k, "hinge") for k in range(1, relevant + 1)}
            measured(panel, Series(f"M1 = {relevant}", colour, line=False, size=50.0), found)
        return Figure([panel], columns=1, width=420)


def _number(rows: list[Row], relevant: int, tasks: int, name: str) -> BySeed:
    mine = of(rows, x=relevant, tasks=tasks)
    return {row["seed"]: None if row["diverged"] else row[name] for row in mine}


def _counts(rows: list[Row], settings: FewestSettings) -> list[Point] | None:
    named = {
        f"M1 = {n}": {r["seed"]: None if r["diverged"] else r["fewest"] / n for r in of(rows, x=n, tasks=n)}
        for n in settings.relevant_values
    }
    return mean_points(settings.seeds, named)


def _losses(rows: list[Row], settings: FewestSettings, fewer: int) -> list[Point] | None:
    named = {f"M1 = {n}": _number(rows, n, n - fewer, "hinge") for n in settings.relevant_values}
    return mean_points(settings.seeds, named)
