"""sensitivity: what the claims would be if the settings that no paper states were others.

Each experiment is run again with one of its chosen settings changed (`Chosen.others`) and the others as they are; its
own claims are judged on what comes out. Which experiments is a setting; of what they are about nothing is known here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from pydantic import Field, model_validator

from iclab.catalog import find
from iclab.probes import Interval, Row
from iclab.study import style
from iclab.study.claims import Claim, Point, every_below, judged
from iclab.study.experiment import Condition, Experiment
from iclab.study.settings import Chosen, Different, Settings

MARKS = {"fails": "x", "undecided": "o"}
"""What a heat map shows in a cell for those who cannot tell its colours."""

AS_CHOSEN = "as chosen"


@dataclass(frozen=True)
class Variant:
    """An experiment with one setting changed; with none, it is as chosen."""

    part: str
    experiment: Experiment[Any]
    settings: Settings
    changed: str = AS_CHOSEN
    to: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """How its rows are known."""
        return {"experiment": self.part, "changed": self.changed, "to": self.to}

    @property
    def name(self) -> str:
        """For a tick of an axis."""
        return self.changed if self.changed == AS_CHOSEN else f"{self.changed} = {self.to}"

    @cached_property
    def conditions(self) -> list[Condition]:
        """What the experiment needs."""
        return self.experiment.conditions(self.settings)

    @property
    def models(self) -> tuple[str, ...]:
        """What it trains."""
        return tuple(sorted({condition.cell.training.training.model.label for condition in self.conditions}))

    def complete(self, rows: list[Row]) -> bool:
        """Whether its rows have every seed of every condition."""
        wanted = {tuple(condition.columns.items()) for condition in self.conditions}
        there = set()
        for names in {tuple(name for name, _ in columns) for columns in wanted}:
            there |= {(*((name, row.get(name)) for name in names), row["seed"]) for row in rows}
        return all((*columns, seed) in there for columns in wanted for seed in range(self.settings.seeds))

    def verdicts(self, rows: list[Row]) -> dict[str, str]:
        """Judge the experiment's own claims on its rows, by id."""
        return {claim.id: claim.judge(rows).verdict for claim in self.experiment.claims(self.settings)}


class SensitivitySettings(Settings):
    """Which experiments are run again."""

    of: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Chosen("the main experiments of each paper; after a colon, the only model of one that is run", grid=True),
    ] = ("M-fig2", "M-tab1", "T-fig2", "T-fig3:softmax-mlp", "T-fig3:gpt2", "T-fig5", "T-fig7", "S-fig1")
    less: Annotated[
        dict[str, dict[str, Any]],
        Chosen(
            "what differs from the quick edition: yardsticks and further models are left out; GPT-2 trains in full",
            grid=True,
        ),
    ] = {
        "M-fig2": {"yardsticks": False},
        "M-tab1": {"models": ("deep-mamba", "deep-linear")},
        "T-fig3:softmax-mlp": {"more_tasks": ()},
        "T-fig3:gpt2": {"gpt2_steps": 1_600},
    }
    seeds: Annotated[int, Field(ge=1), Chosen("one group: the question is which way a verdict falls", grid=True)] = 8
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and condition", grid=True)] = 2_000

    def quick(self) -> SensitivitySettings:
        """Return the quick edition: one experiment of each of the two larger papers, fewer prompts."""
        fewer = tuple(part for part in self.of if part in ("M-fig2", "T-fig3:softmax-mlp")) or self.of
        return self.replace(of=fewer, seeds=min(self.seeds, 8), test_prompts=min(self.test_prompts, 1_000))

    @model_validator(mode="after")
    def _known(self) -> SensitivitySettings:
        for part in self.of:
            find(part.partition(":")[0])
        if strange := set(self.less) - {*self.of, *type(self).model_fields["less"].default}:
            raise ValueError(f"less = {', '.join(sorted(strange))}: must be one of {', '.join(self.of)}")
        return self

    @cached_property
    def variants(self) -> dict[str, list[Variant]]:
        """Each experiment as chosen, and with each setting that no paper states changed in turn."""
        return {part: self._variants(part) for part in self.of}

    def _variants(self, part: str) -> list[Variant]:
        id_, _, model = part.partition(":")
        experiment = find(id_)
        usual = experiment.settings().quick()
        usual = usual.replace(**({"models": (model,)} if model else {}), **self.less.get(part, {}))
        usual = usual.replace(seeds=self.seeds, test_prompts=self.test_prompts, engine=self.engine)
        first = Variant(part, experiment, usual)
        cells = [condition.cell for condition in first.conditions]
        found = [first]
        for name, mark in experiment.settings.provenance().items():
            if isinstance(mark, Chosen) and name not in usual.instead:
                for other in mark.others:
                    told = _told(other, getattr(usual, name))
                    variant = Variant(part, experiment, usual.replace(**{name: other}), name, told)
                    if [condition.cell for condition in variant.conditions] != cells:  # else it is another model's
                        found.append(variant)
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
        "colour is its verdict, with a cross where it fails and a dot where it is undecided. The first column is as "
        "chosen. A row of one colour depends on none of these settings. Experiments are as in the quick edition, "
        "but GPT-2 trains in full. A claim that this leaves out has no row, and a setting that changes nothing of "
        "what is run no column."
    )
    caption = "claims by verdict, and which verdicts differ from the ones as chosen"
    settings = SensitivitySettings

    def conditions(self, settings: SensitivitySettings) -> list[Condition]:
        """Every cell of every variant."""
        return [
            Condition({**condition.columns, **variant.columns}, condition.cell)
            for variants in settings.variants.values()
            for variant in variants
            for condition in variant.conditions
        ]

    def claims(self, settings: SensitivitySettings) -> list[Claim]:
        """For each experiment: its verdicts stay."""
        return [
            Claim(
                f"sensitivity.{part}",
                f"the claims of {part} do not depend on settings that the paper does not state",
                "with every other value of one such setting, no claim turns from holds to fails or back; the number is "
                "how many do, and up to how many may, where some become undecided",
                judged(partial(_turned, settings=settings, part=part), every_below, 0.5),
                models=variants[0].models,
                ours=True,
                counts=True,
            )
            for part, variants in settings.variants.items()
        ]

    def table(self, rows: list[Row], settings: SensitivitySettings) -> list[dict[str, Any]]:
        """A line a variant."""
        lines = []
        for part, variants in settings.variants.items():
            verdicts = _verdicts(rows, variants)
            for variant, found in zip(variants, verdicts, strict=True):
                counts = Counter(found.values())
                other = [f"{claim.partition('.')[2]} {v}" for claim, v in found.items() if v != verdicts[0][claim]]
                line = {"experiment": part, "setting": variant.changed, "value": variant.to}
                lines.append(line | {v: counts[v] for v in style.VERDICTS} | {"differs": ", ".join(other) or "–"})
        return lines

    def draw(self, rows: list[Row], settings: SensitivitySettings) -> Figure:
        """Draw a heat map for each experiment."""
        with mpl.rc_context(style.RC):
            tests = settings.variants
            verdicts = {part: _verdicts(rows, variants) for part, variants in tests.items()}
            tall = [3.2 + 0.25 * len(verdicts[part][0]) for part in tests]  # labels below, a line a claim
            widest = max(map(len, tests.values()))
            figure = Figure(figsize=(3.6 + 0.27 * widest, sum(tall) + 0.6), layout="constrained")
            panels = figure.subplots(len(tests), 1, squeeze=False, height_ratios=tall)
            for (part, variants), panel in zip(tests.items(), panels[:, 0], strict=True):
                _heat(panel, [variant.name for variant in variants], verdicts[part])
                panel.set_title(f"{part}  {variants[0].experiment.title}", fontweight="bold")
            handles = [Patch(color=colour, label=verdict) for verdict, colour in style.VERDICTS.items()]
            figure.legend(handles=handles, loc="outside lower center", ncols=4)
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def _by_variant(rows: list[Row], variants: list[Variant]) -> list[list[Row]]:
    """Each variant's own rows."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["experiment"], row["changed"], row["to"]].append(row)
    return [found[tuple(variant.columns.values())] for variant in variants]


def _verdicts(rows: list[Row], variants: list[Variant]) -> list[dict[str, str]]:
    """Verdicts by claim, a table for each variant; without claims about what is left out of all of them."""
    found = [variant.verdicts(mine) for variant, mine in zip(variants, _by_variant(rows, variants), strict=True)]
    asked = [claim for claim in found[0] if any(verdicts[claim] != "not run" for verdicts in found)] or list(found[0])
    return [{claim: verdicts[claim] for claim in asked} for verdicts in found]


def _heat(axes: Axes, names: list[str], verdicts: list[dict[str, str]]) -> None:
    claims, order = list(verdicts[0]), list(style.VERDICTS)
    numbers = np.array([[order.index(found[claim]) for found in verdicts] for claim in claims])
    axes.imshow(numbers, cmap=ListedColormap(list(style.VERDICTS.values())), vmin=0, vmax=len(order) - 1, aspect="auto")
    for verdict, mark in MARKS.items():
        ys, xs = np.nonzero(numbers == order.index(verdict))
        axes.plot(xs, ys, linestyle="none", marker=mark, markersize=3.5, color="white" if mark == "x" else "#333333")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
    axes.set_yticks(range(len(claims)), [claim.partition(".")[2] for claim in claims], fontsize=8)
    axes.tick_params(length=0)
    axes.set_xticks([x - 0.5 for x in range(1, len(names))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(claims))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)


def _turned(rows: list[Row], settings: SensitivitySettings, part: str) -> list[Point] | None:
    """How many claims turn from one side to the other, a point for each variant; None of what is not all there.

    One that becomes undecided, as it must where seeds diverge, may have turned: the interval reaches so far.
    """
    if not rows:
        return None
    variants = settings.variants[part]
    mine = _by_variant(rows, variants)
    if not all(variant.complete(own) for variant, own in zip(variants, mine, strict=True)):
        return None
    usual, *others = _verdicts(rows, variants)
    decided = [claim for claim, verdict in usual.items() if verdict in ("holds", "fails")]
    points = []
    for variant, now in zip(variants[1:], others, strict=True):
        turned = sum({usual[claim], now[claim]} == {"holds", "fails"} for claim in decided)
        unsure = sum(now[claim] in ("undecided", "not run") for claim in decided)
        points.append(Point(float(turned), Interval(turned, turned + unsure), variant.name))
    return points if decided else None


def _told(value: Any, usual: Any) -> str:
    """A value in words; of a table only what differs."""
    if isinstance(value, dict):
        return ", ".join(
            f"{key} {_told(inner, usual.get(key))}" for key, inner in value.items() if inner != usual.get(key)
        )
    return f"{value:g}" if isinstance(value, float) else str(value)
