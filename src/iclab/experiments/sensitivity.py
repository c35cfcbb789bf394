"""sensitivity: what the claims would be if the settings that no paper states were others.

Each experiment is run again with one of its chosen settings changed (`Chosen.others`) and the others as they are; its
own claims are judged on what comes out. Nothing here knows what the experiments are about.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from pydantic import Field

from iclab.experiments import style
from iclab.experiments.claims import Claim, Point, every_below, judged
from iclab.experiments.experiment import Condition, Experiment, find
from iclab.experiments.settings import Chosen, Different, Settings
from iclab.probes import Interval, Row

VERDICTS = {"holds": "#009E73", "undecided": "#E8D27A", "fails": "#D55E00", "not run": "#D9D9D9"}
"""Their colours, in the order of a heat map's numbers."""

AS_CHOSEN = "as chosen"


class SensitivitySettings(Settings):
    """Which experiments are run again."""

    of: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Chosen("those whose claims a training of seconds decides", grid=True),
    ] = ("M-fig2", "T-fig2", "T-fig3", "T-fig5", "T-fig7")
    less: Annotated[
        dict[str, dict[str, Any]],
        Chosen("what is left out of an experiment here: yardsticks, and GPT-2, which takes too long", grid=True),
    ] = {"M-fig2": {"yardsticks": False}, "T-fig3": {"models": ("softmax-mlp",), "more_tasks": ()}}
    seeds: Annotated[int, Field(ge=1), Chosen("one group: the question is which way a verdict falls", grid=True)] = 8
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and condition", grid=True)] = 2_000

    def quick(self) -> SensitivitySettings:
        """Return the quick edition: one experiment of each of the two larger papers, fewer prompts."""
        fewer = tuple(id_ for id_ in self.of if id_ in ("M-fig2", "T-fig3")) or self.of
        return self.changed(of=fewer, seeds=min(self.seeds, 8), test_prompts=min(self.test_prompts, 1_000))


@dataclass(frozen=True)
class Variant:
    """An experiment with one setting changed; with none, it is as chosen."""

    experiment: Experiment[Any]
    settings: Settings
    changed: str = AS_CHOSEN
    to: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """How its rows are known."""
        return {"experiment": self.experiment.id, "changed": self.changed, "to": self.to}

    @property
    def name(self) -> str:
        """For a tick of an axis."""
        return self.changed if self.changed == AS_CHOSEN else f"{self.changed} = {self.to}"

    def verdicts(self, rows: list[Row]) -> dict[str, str]:
        """Judge the experiment's own claims, by id."""
        mine = [row for row in rows if all(row[name] == value for name, value in self.columns.items())]
        claims = self.experiment.claims(self.settings)
        return {claim.id: claim.judge(mine).verdict if mine else "not run" for claim in claims}


def variants(id_: str, settings: SensitivitySettings) -> list[Variant]:
    """Return an experiment as chosen, and with each setting that no paper states changed in turn."""
    experiment = find(id_)
    base = experiment.settings().quick().changed(**settings.less.get(experiment.id, {}))
    base = base.changed(seeds=settings.seeds, test_prompts=settings.test_prompts, engine=settings.engine)
    found = [Variant(experiment, base)]
    for name, mark in experiment.settings.provenance().items():
        if isinstance(mark, Chosen) and name not in base.instead:
            usual = getattr(base, name)
            for other in mark.others:
                found.append(Variant(experiment, base.changed(**{name: other}), name, _told(other, usual)))
    return found


class Sensitivity(Experiment[SensitivitySettings]):
    """Verdicts over other values of what was chosen."""

    id = "sensitivity"
    title = "How much the claims depend on what the papers do not say"
    paper = (
        "No paper asks this. Each leaves settings unstated (step size, batch, iterations, widths, norms, scales), and "
        "a reader cannot know whether its claims need the ones that were used."
    )
    reading = (
        "A column is one setting changed to another value, all others as iclab chose them; a row is a claim; the "
        "colour is its verdict. The first column is as chosen. A row of one colour depends on none of these settings. "
        "All are run in the quick edition's conditions; three layers, GPT-2 and paper S are left out."
    )
    caption = "claims by verdict, and which verdicts differ from the ones as chosen"
    settings = SensitivitySettings

    def conditions(self, settings: SensitivitySettings) -> list[Condition]:
        """Every cell of every variant."""
        return [
            Condition({**condition.columns, **variant.columns}, condition.cell)
            for id_ in settings.of
            for variant in variants(id_, settings)
            for condition in variant.experiment.conditions(variant.settings)
        ]

    def claims(self, settings: SensitivitySettings) -> list[Claim]:
        """For each experiment: its verdicts stay."""
        return [
            Claim(
                f"sensitivity.{id_}",
                "(iclab's question) do the claims depend on settings that the paper does not state?",
                f"no claim of {id_} that holds as chosen fails with another value of one such setting, nor the other "
                "way round: fewer than one turns",
                judged(lambda rows, id_=id_: _turned(rows, id_, settings), every_below, 0.5),  # type: ignore[misc]
            )
            for id_ in settings.of
        ]

    def table(self, rows: list[Row], settings: SensitivitySettings) -> list[dict[str, Any]]:
        """A line a variant."""
        lines = []
        for id_ in settings.of:
            usual: dict[str, str] = {}
            for variant in variants(id_, settings):
                found = variant.verdicts(rows)
                usual = usual or found
                counts = Counter(found.values())
                other = [f"{claim.partition('.')[2]} {v}" for claim, v in found.items() if v != usual[claim]]
                line = {"experiment": id_, "setting": variant.changed, "value": variant.to}
                lines.append(line | {v: counts[v] for v in VERDICTS} | {"differs": ", ".join(other) or "–"})
        return lines

    def draw(self, rows: list[Row], settings: SensitivitySettings) -> Figure:
        """Draw a heat map for each experiment."""
        with mpl.rc_context(style.RC):
            tests = {id_: variants(id_, settings) for id_ in settings.of}
            claims = {id_: len(tests[id_][0].experiment.claims(tests[id_][0].settings)) for id_ in settings.of}
            tall = [3.2 + 0.25 * many for many in claims.values()]  # labels below, a line a claim
            widest = max(map(len, tests.values()))
            figure = Figure(figsize=(3.6 + 0.27 * widest, sum(tall) + 0.6), layout="constrained")
            panels = figure.subplots(len(tests), 1, squeeze=False, height_ratios=tall)
            for (id_, mine), panel in zip(tests.items(), panels[:, 0], strict=True):
                _heat(panel, rows, mine)
                panel.set_title(f"{id_}  {find(id_).title}", fontweight="bold")
            handles = [Patch(color=colour, label=verdict) for verdict, colour in VERDICTS.items()]
            figure.legend(handles=handles, loc="outside lower center", ncols=4)
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def _heat(axes: Axes, rows: list[Row], mine: list[Variant]) -> None:
    found = [variant.verdicts(rows) for variant in mine]
    claims = list(found[0])
    order = list(VERDICTS)
    numbers = np.array([[order.index(verdicts[claim]) for verdicts in found] for claim in claims])
    axes.imshow(numbers, cmap=ListedColormap(list(VERDICTS.values())), vmin=0, vmax=len(order) - 1, aspect="auto")
    axes.set_xticks(range(len(mine)), [variant.name for variant in mine], rotation=90, fontsize=8)
    axes.set_yticks(range(len(claims)), [claim.partition(".")[2] for claim in claims], fontsize=8)
    axes.tick_params(length=0)
    axes.set_xticks([x - 0.5 for x in range(1, len(mine))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(claims))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)


def _turned(rows: list[Row], id_: str, settings: SensitivitySettings) -> list[Point] | None:
    """How many claims turn from one side to the other, a point for each variant."""
    tests = variants(id_, settings)
    usual = tests[0].verdicts(rows)
    decided = [claim for claim, verdict in usual.items() if verdict in ("holds", "fails")]
    if not decided or "not run" in usual.values():  # nothing that could turn, or not all that could
        return None
    points = []
    for variant in tests[1:]:
        now = variant.verdicts(rows)
        if any(now[claim] == "not run" for claim in decided):
            return None
        many = sum({usual[claim], now[claim]} == {"holds", "fails"} for claim in decided)
        points.append(Point(float(many), Interval(many, many), variant.name))
    return points or None


def _told(value: Any, usual: Any) -> str:
    """A value in words; of a table only what differs."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner:g}" for key, inner in value.items() if inner != usual.get(key))
    return f"{value:g}" if isinstance(value, float) else str(value)
