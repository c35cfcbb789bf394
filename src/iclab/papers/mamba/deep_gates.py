"""M-deep-gates: do the gates of three layers shut outliers out if nothing divides the outliers away before?"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from iclab.engines import Recipe, Training
from iclab.papers.mamba.fig4 import SMALL, ratios
from iclab.papers.mamba.placements import ahead, at_least, draw_printed
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper, Options
from iclab.probes import Row
from iclab.probes.tracing import least
from iclab.study.charts import DASHED, INK, PALETTE, PRINTED, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Direction, all_of, every_below, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import proportion
from iclab.study.settings import Chosen, Different, Disclosed

DESIGNS: dict[str, Options] = {
    "norm": {},
    "label only": {"stream": "label", "norm": "none"},
    "label only, QK": {"stream": "label", "norm": "scores"},
    "QK": {"norm": "scores"},
    "no norm": {"norm": "none"},
    "channels": {"gating": "channel"},
    "channels, no norm": {"gating": "channel", "norm": "none"},
}
"""Options of deep-mamba besides those of M-tab1."""
MARKS = ("circle", "square", "triangle-up")
PLACE = {
    place: Series(f"{place}, outliers {where}", colour, mark=mark, line=False, size=40.0)
    for (place, where), colour, mark in zip(
        (("FQ", "farthest"), ("R", "anywhere"), ("CQ", "closest")), PALETTE[:3], MARKS, strict=True
    )
}
LAYER = {
    layer: Series(f"layer {layer}", colour, mark=mark, line=False, size=40.0)
    for layer, colour, mark in zip((1, 2, 3), PALETTE[2:], MARKS, strict=True)
}
NUMBERS = {"FQ": 99.73, "R": 99.67, "CQ": 82.73}
LOWEST = 0.003
"""Where the chart of ratios ends; smaller ones are drawn there."""
HIGH = {"FQ": 0.99, "R": 0.98}
"""As in M-tab1."""


class DesignSettings(DeepMambaPaper):
    """Settings of M-deep-gates."""

    designs: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "blocks that a paper may mean without saying so: a norm before each layer, as in M-tab1; layers that write "
            "only the label, so that every gate reads the examples themselves; a norm for keys and queries alone (QK); "
            "no norm; one gate per channel, as (90) has them",
            grid=True,
        ),
    ] = tuple(DESIGNS)
    gate_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("α of M-fig4 and M-fig6, M §4.2")] = 0.3
    near: Annotated[int, Field(ge=4), Chosen("the largest distance in the claims about gates, as in M-fig4")] = 8
    steps: Annotated[int, Chosen("the same for all designs")] = 600
    step_sizes: Annotated[
        dict[str, float], Chosen("the same for all designs; 0.02, as in M-tab1, with no other verdict for the first")
    ] = {"deep-mamba": 0.05}
    clip: Annotated[
        float, Field(gt=0), Chosen("the largest length of a gradient: without it, designs without a norm diverge")
    ] = 1.0
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    @model_validator(mode="after")
    def _known(self) -> DesignSettings:
        if strange := [design for design in self.designs if design not in DESIGNS]:
            raise ValueError(f"designs = {strange[0]}: must be one of {'; '.join(DESIGNS)}")
        return self

    def training_of(self, design: str) -> Training:
        """Return the training of one design."""
        base = self.training("deep-mamba")
        return base.replace(model=base.model.replace(options={**base.model.options, **DESIGNS[design]}))

    def recipe(self, name: str) -> Recipe:
        """Return the recipe: plain SGD with clipping, the last weights alone."""
        return super().recipe(name).replace(clip=self.clip, snapshots=())

    def quick(self) -> Self:
        """Return the quick edition: the designs that decide."""
        fewer = tuple(d for d in self.designs if d in ("norm", "label only", "QK", "no norm")) or self.designs
        return super().quick().replace(designs=fewer)


class DeepGates(Experiment[DesignSettings]):
    """Three layers of Mamba in several designs."""

    id = "M-deep-gates"
    title = "Gates and accuracy of three layers of Mamba by the design of a layer"
    paper = (
        "M-fig4: the gates of outliers are very small in the first layer. M-tab1: 99.73 (FQ), 99.67 (R), 82.73 % (CQ). "
        "The paper does not define its deep model; with a norm before each layer, as in M-tab1, outliers are divided "
        "by their length before a gate sees them."
    )
    reading = (
        "Above: accuracy by design, mean over seeds with its interval; diamonds are the paper's numbers. Below: gate "
        "of an outlier divided by the gate of a clean example at the same distance, by layer, mean over distances; "
        "below the dashed line, outliers are shut out; faint marks are single seeds. All designs are trained alike. "
        "QK: keys and queries read normed tokens, gates and values the tokens themselves."
    )
    caption = "accuracy in % and ratio of gates, mean and 95 % interval"
    theorems = ("M-cor2",)
    settings = DesignSettings

    def conditions(self, settings: DesignSettings) -> list[Condition]:
        """Return each design at the three placements, and its gates."""
        found: list[Condition] = []
        for design in settings.designs:
            training = settings.training_of(design)
            for place, name in PLACEMENTS.items():
                where = {"model": design, "stage": "trained", "placement": name}
                found += in_groups(settings, where, training, prompts=settings.placed(place))
            where = {"model": design, "stage": "trained", "placement": "gates"}
            prompts = settings.placed("random", settings.gate_fraction)
            found += in_groups(settings, where, training, probe="gates", prompts=prompts)
        return found

    def claims(self, settings: DesignSettings) -> list[Claim]:
        """Ask of each design whether M-fig4's gates and M-tab1's numbers are there."""
        return [claim for design in settings.designs for claim in _design_claims(settings, design)]

    def table(self, rows: list[Row], settings: DesignSettings) -> list[dict[str, Any]]:
        """Return one line per design."""
        lines = []
        for design in settings.designs:
            line = {"design": design}
            for place in PLACE:
                p = proportion(_errors(rows), model=design, placement=place)
                line[place] = "–" if p is None or p.mean is None else f"{100 - 100 * p.mean:.1f}"
            for layer in LAYER:
                found = [r for r in _ratios(rows, settings, design, layer).values() if r is not None]
                line[f"gates, layer {layer}"] = f"{np.mean(found):.3f}" if found else "–"
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: DesignSettings) -> Figure:
        """Draw accuracy and ratios of gates by design."""
        ticks = {float(place): design for place, design in enumerate(settings.designs)}
        ends = (-0.5, len(ticks) - 0.5)
        left = Panel("accuracy at α = 0.5", x=Axis(ticks=ticks, domain=ends), y=Axis("accuracy, %", domain=(48, 102)))
        gates = Axis("outlier gate / clean gate", domain=(LOWEST, 3), scale="log", ticks=(0.01, 0.1, 1))
        right = Panel(f"gates at α = {settings.gate_fraction:g}", x=Axis(ticks=ticks, domain=ends), y=gates)
        for place, design in enumerate(settings.designs):
            for k, (name, series) in enumerate(PLACE.items()):
                at, p = place + 0.22 * (k - 1), proportion(_errors(rows), model=design, placement=name)
                draw_printed(left, at, NUMBERS[name], PRINTED)
                if p is not None and p.mean is not None:
                    low, high = (100 - 100 * end for end in (p.interval.high, p.interval.low))
                    left.interval(series, at, 100 - 100 * p.mean, low, high)
            for layer, series in LAYER.items():
                found = [r for r in _ratios(rows, settings, design, layer).values() if r is not None]
                at = place + 0.22 * (layer - 2)
                right.points(series, [at] * len(found), [max(ratio, LOWEST) for ratio in found], faint=True)
                if found:
                    right.points(series, [at], [float(np.mean(found))])
        right.rule(y=SMALL, dash=DASHED, ink=INK)
        return Figure([left, right], columns=1, width=max(300, 100 * len(ticks)))


def _errors(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["placement"] != "gates"]


def _ratios(rows: list[Row], settings: DesignSettings, design: str, layer: int) -> BySeed:
    """Return outlier gate / clean gate of each seed."""
    mine = [{**row, "stage": design} for row in rows if row["placement"] == "gates" and row["model"] == design]
    return ratios(mine, layer, design, settings.near)


def _smallest(rows: list[Row], settings: DesignSettings, design: str) -> BySeed:
    """Return the smallest ratio of the layers of each seed; None if it diverged."""
    by_layer = [_ratios(rows, settings, design, layer) for layer in LAYER]
    seeds = set.intersection(*(set(found) for found in by_layer))
    answer: BySeed = {}
    for seed in sorted(seeds):
        good = [ratio for found in by_layer if (ratio := found[seed]) is not None]
        answer[seed] = least(good) if len(good) == len(by_layer) else None
    return answer


def _design_claims(settings: DesignSettings, design: str) -> list[Claim]:
    n, name = settings.seeds, design.replace(", ", "-").replace(" ", "-")

    def cell(place: str) -> dict[str, str]:
        return {"model": design, "stage": "trained", "placement": place}

    def drop(margin: float) -> Any:
        judge = ahead(n, margin, [(cell(place), cell("CQ")) for place in HIGH])
        return lambda rows: judge(_errors(rows))

    def high(rows: list[Row]) -> Any:
        return all_of(*(at_least(n, margin, [cell(place)]) for place, margin in HIGH.items()))(_errors(rows))

    known: dict[str, Any] = {"models": ("deep-mamba",), "ours": True}
    shut = partial(_ratios, settings=settings, design=design, layer=1)
    smallest = partial(_smallest, settings=settings, design=design)
    return [
        Claim(
            f"M-deep-gates.shut.{name}",
            f"M-fig4's gates: those of outliers are very small in the first layer; design: {design}",
            f"outlier gate / clean gate < {SMALL} in layer 1, mean over distances 1 to {settings.near}, over seeds",
            judged(mean_point(n, shut), every_below, SMALL),
            **known,
        ),
        Claim(
            f"M-deep-gates.some-layer.{name}",
            f"some layer shuts outliers out, not always the first; design: {design}",
            f"the smallest of the three layers' ratios < {SMALL}, over seeds",
            judged(mean_point(n, smallest), every_below, SMALL),
            **known,
        ),
        Claim(
            f"M-deep-gates.accurate.{name}",
            f"M-tab1's 99.73 and 99.67 % at FQ and R; design: {design}",
            "accuracy > 0.99 at FQ and > 0.98 at R",
            high,
            **known,
        ),
        Claim(
            f"M-deep-gates.drop.{name}",
            f"M-tab1's drop to 82.73 % at CQ; design: {design}",
            "accuracy at CQ more than 0.08 below FQ and R, on paired seeds",
            drop(0.08),
            direction=Direction("below FQ and R", drop(0.0)),
            **known,
        ),
    ]
