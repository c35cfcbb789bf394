"""What T's lemmas B.5 to B.10 share: trainings followed from the first step, and numbers read from their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.times_chart import mean
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import GRAPHS, HALF, Counts, TheoremPaper, Values, some, watched_training
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.nonlinear.thm33_settings import Theorem33Settings
from iclab.probes import Row
from iclab.study.claims import BySeed
from iclab.study.experiment import Condition, in_groups
from iclab.study.settings import Chosen

ByStep = dict[int, BySeed]
NORMS, IRRELEVANTS = (Theorem33Settings.model_fields[name].default for name in ("norm_values", "irrelevant_values"))
OF_WEIGHTS = ("growth", "hidden")
"""Probes that need no prompts."""


class LemmaSettings(TheoremPaper):
    """Settings of the lemmas; where T-thm3.3 has the same trainings, they are shared."""

    instead = {**TheoremPaper.instead, "neurons": "neuron_values, and m = M1² log M1 elsewhere"}
    relevant_values: Annotated[Counts, Chosen("M1, with M2 = M1 and m = M1² log M1", grid=True)] = (4, 5, 6, 8, 12)
    neuron_values: Annotated[Counts, Chosen("m, of the rate of W_O: a factor of 8", grid=True)] = (
        *(100, 170, 280),
        *(480, 800),
    )
    norm_values: Annotated[Values, Chosen("β, those of T-thm3.3", grid=True)] = NORMS
    irrelevant_values: Annotated[Counts, Chosen("M2, those of T-thm3.3", grid=True)] = IRRELEVANTS
    batches: Annotated[Counts, Chosen("prompts per gradient in (38)", grid=True)] = (16, 64, 256, 1024, 4096)
    closely: Annotated[int, Field(ge=2), Chosen("kept steps of trainings whose fastest growth is read", grid=True)] = 48
    followed: Annotated[
        int, Field(ge=1), Chosen("prompts per seed and kept step on which neurons are followed", grid=True)
    ] = 100

    def quick(self) -> Self:
        """Return the quick edition: fewer values, as T-thm3.3's."""
        few = {"norm_values": some(self.norm_values, (1.0, 2.0, 3.0, 4.5, 8.0))}
        return super().quick().replace(**few)

    def with_neurons(self, neurons: int) -> NonlinearPaper:
        """Return the settings of a training with m neurons, followed closely."""
        return self.at("complete", neurons=neurons).replace(watched=self.closely)


def follow(settings: LemmaSettings, probe: str, graphs: tuple[str, ...] = tuple(GRAPHS)) -> list[Condition]:
    """Return what a probe sees after every kept step, for every M1 and graph."""
    found = []
    for graph in graphs:
        for relevant in settings.relevant_values:
            own = settings.large(graph, relevant)
            columns = {"part": "relevant", "graph": graph, "x": relevant, "probe": probe}
            found += ask(settings, columns, own, own.training(), at="every")
    return found


def early(settings: LemmaSettings, part: str, name: str, values: tuple[float, ...], probe: str) -> list[Condition]:
    """Return what a probe sees after a quarter of T-thm3.3's trainings, while every prompt has a loss, over a field."""
    found = []
    for x in values:
        own = settings.at("complete", **{name: x})
        training = watched_training(own, settings.watched)
        columns = {"part": part, "graph": "complete", "x": x, "probe": probe}
        found += ask(settings, columns, own, training, at=training.recipe.kept[min(1, len(training.recipe.kept) - 1)])
    return found


def ask(
    settings: LemmaSettings, columns: dict[str, Any], own: NonlinearPaper, training: Training, **cell: Any
) -> list[Condition]:
    """Return one condition per group of seeds, on prompts of the training tasks."""
    probe = columns["probe"]
    count = 1 if probe in OF_WEIGHTS else settings.followed if probe == "luck" else settings.test_prompts
    usual = {"probe": probe, "prompts": own.prompts(tasks=own.train_tasks), "count": count}
    return in_groups(settings, columns, training, **usual | cell)


def over_time(rows: list[Row], column: str, graph: str, relevant: float, probe: str, **where: Any) -> ByStep:
    """Return each seed's number by kept step; None after it diverged."""
    found: ByStep = {}
    for row in of(rows, part="relevant", graph=graph, x=relevant, probe=probe):
        if row["step"] is not None and (row["diverged"] or all(row[name] == value for name, value in where.items())):
            found.setdefault(row["step"], {})[row["seed"]] = None if row["diverged"] else row[column]
    return dict(sorted(found.items()))


def over_x(rows: list[Row], part: str, number: Callable[[Row], float | None], **where: Any) -> dict[float, BySeed]:
    """Return each seed's number of a row by what moves; None if it diverged."""
    found: dict[float, BySeed] = {}
    for row in of(rows, part=part):
        if row["diverged"] or all(row[name] == value for name, value in where.items()):
            found.setdefault(float(row["x"]), {})[row["seed"]] = None if row["diverged"] else number(row)
    return dict(sorted(found.items()))


def active_steps(rows: list[Row], graph: str, relevant: float) -> list[int]:
    """Return the kept steps, without the first, at which the mean loss is above 0.5."""
    losses = over_time(rows, "hinge", graph, relevant, "error")
    return [step for step, found in losses.items() if step > 0 and (mean(found) or 0.0) > HALF]


def combined(number: Callable[..., float | None], *found: ByStep) -> ByStep:
    """Return a number of each seed from its numbers in several curves, at the steps that all of them have."""
    answer: ByStep = {}
    for step in sorted(set.intersection(*map(set, found))) if found else []:
        answer[step] = {}
        for seed in set.intersection(*(set(curve[step]) for curve in found)):
            values = [curve[step][seed] for curve in found]
            answer[step][seed] = None if any(v is None for v in values) else number(*values)
    return answer


def ratio(first: ByStep, second: ByStep) -> ByStep:
    """Return first / second."""
    return combined(lambda a, b: a / b if b else None, first, second)


def last(found: ByStep) -> BySeed:
    """Return the numbers at the last step."""
    return found[max(found)] if found else {}


def summed(found: ByStep) -> ByStep:
    """Return Σ over all steps up to each kept one, by the trapezoid rule between them."""
    answer: ByStep = {}
    before: tuple[int, BySeed] | None = None
    for step, now in found.items():
        if before is None:
            answer[step] = {seed: None if v is None else 0.0 for seed, v in now.items()}
        else:
            width, earlier = step - before[0], before[1]
            answer[step] = {}
            for seed, value in now.items():
                a, total = earlier.get(seed), answer[before[0]].get(seed)
                lost = value is None or a is None or total is None
                answer[step][seed] = None if lost else (total or 0.0) + width * ((a or 0.0) + (value or 0.0)) / 2
        before = step, now
    return answer
