"""T-lemB.6: along which rows of W_O the gradient moves W_V, (35) to (43)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.lemmas import (
    ByStep,
    LemmaSettings,
    active_steps,
    ask,
    early,
    follow,
    over_time,
    over_x,
)
from iclab.papers.nonlinear.thm33 import NAMES
from iclab.probes import Row, over_seeds
from iclab.probes.tracing import most
from iclab.study.charts import PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Direction, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import NEAR, PowerLaw, bound_claim, exponent_point
from iclab.study.rows import listed

NEARLY = 0.95
"""(36): −V_i > 0 for every lucky neuron. Read as: for more than this share."""
FATE = "diverged or have the other sign"


class Law(NamedTuple):
    """How −V_i moves with one quantity."""

    symbol: str
    power: float
    title: str
    what: str


LAWS = {
    "relevant": Law("patterns M1", 0.0, "B  lucky, against M1", "−V_i m / (1 − γ)"),
    "norm": Law("norm β", 2.0, "C  lucky, against β", "−V_i m / (1 − γ)"),
    "batch": Law("prompts B", -0.5, "D  others, against B", "|V_i| m"),
    "irrelevant": Law("irrelevant patterns M2", -1.0, "E  irrelevant, against M2", "|V'_i| / |V_i|"),
}
SIDES = {
    "right": Series("lucky, label of their sign", PALETTE[0], line=False, size=45.0),
    "wrong": Series("lucky, the other label", PALETTE[1], line=False, size=45.0, mark="diamond"),
    "unlucky": Series("others, mean size", PALETTE[2], line=False, size=45.0, hollow=True),
}
LOOKS = {
    "relevant": SIDES["right"],
    "norm": SIDES["right"],
    "batch": SIDES["unlucky"],
    "irrelevant": Series("irrelevant / relevant patterns", PALETTE[3], line=False, size=45.0, mark="triangle-up"),
}


class ValueGrowth(Experiment[LemmaSettings]):
    """−V_i: how much of every row of W_O a step adds to W_V p."""

    id = "T-lemB.6"
    title = "Along which neurons W_V grows"
    paper = (
        "Lemma B.6: a step adds −Σ_i V_i W_O(i,·) to W_V p (35). For a token (µ_j, q), −V_i ≳ β² (1 − γ)/m if i is "
        "lucky and a_i > 0 (36), V_i has the other sign and at least 1/(β² + 1) of the size if it is lucky and a_i < 0 "
        "(37), and |V_i| ≲ √(log B/B)/m for all others (38); |V_i| is 1/M2 of that for (ν_k, 0) (43)."
    )
    reading = (
        "−V_i m, from fresh prompts and the weights of a training. A: over a training on all tasks with M1 = 8. B: "
        "the largest of a training, against M1. C to E: after a quarter of the training; in D, "
        "the gradient of B prompts. Dashed, the claimed slope. Points are means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("T-lemB.6",)
    settings = LemmaSettings

    def conditions(self, settings: LemmaSettings) -> list[Condition]:
        """Return gradients along trainings with every M1, and over β, M2 and the number of prompts."""
        found = [c for probe in ("luck", "error") for c in follow(settings, probe)]
        found += early(settings, "norm", "pattern_norm", settings.norm_values, "luck")
        found += early(settings, "irrelevant", "irrelevant", settings.irrelevant_values, "luck")
        own = settings.large("complete", settings.relevant)
        training = own.training()
        kept = training.recipe.kept
        for batch in settings.batches:
            columns = {"part": "batch", "graph": "complete", "x": batch, "probe": "luck"}
            found += ask(settings, columns, own, training, at=kept[len(kept) // 4], count=batch)
        return found

    def claims(self, settings: LemmaSettings) -> list[Claim]:
        """Claim each line of the lemma."""
        n = settings.seeds
        usual: dict[str, Any] = {"seeds": n, "fate": FATE}
        while_active = f"at every kept step with a loss above 0.5, both graphs, M1 = {listed(settings.relevant_values)}"
        signs, opposite = (partial(_steps, settings=settings, number=name) for name in ("right_share", "opposite"))
        least = 1 / (settings.pattern_norm**2 + 1)
        points = exponent_point(n, partial(curve, name="relevant", settings=settings), "all tasks", FATE)
        return [
            Claim(
                "T-lemB.6.sign",
                "−V_i > 0 for lucky neurons, for tokens with the label of their sign (36), (39)",
                f"share of neurons and patterns > {NEARLY} {while_active}",
                judged(signs, every_above, NEARLY),
                direction=Direction("above 0.5", judged(signs, every_above, 0.5)),
            ),
            Claim(
                "T-lemB.6.relevant",
                "−V_i ≳ β² (1 − γ)/m, whatever M1 (36), (39)",
                f"exponent of M1 in the largest −V_i m / (1 − γ) of a training > −{NEAR:g}, all tasks",
                judged(points, every_above, -NEAR),
            ),
            bound_claim(
                "T-lemB.6.norm",
                "−V_i ≳ β² (1 − γ)/m (36), (39)",
                partial(curve, name="norm", settings=settings),
                2.0,
                above=True,
                where=f"−V_i m / (1 − γ) against β = {listed(settings.norm_values)}, all tasks",
                **usual,
            ),
            Claim(
                "T-lemB.6.opposite",
                "for tokens with the other label, −V_i is below 0, by 1/(β² + 1) of that or more (37), (40)",
                f"mean −V_i, other label / own label < −{least:g} {while_active}",
                judged(opposite, every_below, -least),
                direction=Direction("below 0", judged(opposite, every_below, 0.0)),
            ),
            bound_claim(
                "T-lemB.6.unlucky",
                "|V_i| ≲ √(log B/B)/m for neurons that are not lucky: it is noise (38), (41)",
                partial(curve, name="batch", settings=settings),
                -0.5,
                where=f"mean |V_i| against B = {listed(settings.batches)}, all tasks, M1 = {settings.relevant}",
                **usual,
            ),
            bound_claim(
                "T-lemB.6.irrelevant",
                "for irrelevant patterns |V_i| is 1/M2 of that (43)",
                partial(curve, name="irrelevant", settings=settings),
                -1.0,
                where=f"mean |V_i| for (ν_k, 0) / for (µ_j, q) against M2 = {listed(settings.irrelevant_values)}",
                **usual,
            ),
        ]

    def table(self, rows: list[Row], settings: LemmaSettings) -> list[dict[str, Any]]:
        """Return one line per law."""
        lines = []
        for name, law in LAWS.items():
            line: dict[str, Any] = {"what": law.what, "against": law.symbol}
            line["claimed"] = f"{law.power:g}".replace("-", "−")
            lines.append(line | fitted(PowerLaw(curve(rows, name, settings))))
        return lines

    def chart(self, rows: list[Row], settings: LemmaSettings) -> Figure:
        """Draw −V_i over a training, and every law."""
        panels = [_time_panel(rows, settings), *(_law_panel(rows, settings, name) for name in LAWS)]
        return Figure(panels, columns=3, width=270)


def _saturated(row: Row) -> float:
    return float(row["right"] / (1 - row["missed"]))


def _largest(rows: list[Row], graph: str, relevant: int) -> BySeed:
    """Return each seed's largest −V_i m / (1 − γ) over a training; None if it diverged."""
    right, missed = (over_time(rows, name, graph, relevant, "luck") for name in ("right", "missed"))
    found: BySeed = {}
    for step, by_seed in right.items():
        for seed, value in by_seed.items():
            gamma, before = missed[step].get(seed), found.get(seed, 0.0)
            lost = value is None or gamma is None or before is None
            found[seed] = None if lost else most([before or 0.0, (value or 0.0) / (1 - (gamma or 0.0))])
    return found


def curve(rows: list[Row], name: str, settings: LemmaSettings) -> dict[float, BySeed]:
    """Return what one law is about, by x and seed."""
    if name == "relevant":
        found = {float(n): _largest(rows, "complete", n) for n in settings.relevant_values}
        return {n: by_seed for n, by_seed in found.items() if by_seed}
    if name == "norm":
        return over_x(rows, "norm", _saturated)
    if name == "batch":
        return over_x(rows, "batch", lambda row: row["unlucky"])
    return over_x(rows, "irrelevant", lambda row: row["irrelevant"] / abs(row["right"]) if row["right"] else None)


def _at_step(rows: list[Row], number: str, graph: str, relevant: int) -> ByStep:
    if number != "opposite":
        return over_time(rows, number, graph, relevant, "luck")
    right, wrong = (over_time(rows, name, graph, relevant, "luck") for name in ("right", "wrong"))
    return {
        step: {
            seed: None if value is None or not right[step].get(seed) else value / (right[step][seed] or 1.0)
            for seed, value in found.items()
        }
        for step, found in wrong.items()
    }


def _steps(rows: list[Row], settings: LemmaSettings, number: str) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for graph in GRAPHS:
        for relevant in settings.relevant_values:
            steps = active_steps(rows, graph, relevant)
            found = _at_step(rows, number, graph, relevant)
            if not steps or not all(step in found for step in steps):
                return None
            named |= {f"{NAMES[graph]}, M1 = {relevant}, step {step}": found[step] for step in steps}
    return mean_points(settings.seeds, named, FATE)


def _time_panel(rows: list[Row], settings: LemmaSettings) -> Panel:
    n = settings.relevant
    panel = Panel(f"A  a training, M1 = {n}", x=Axis("training step"), y=Axis("−V_i m"), height=200)
    panel.rule(y=0.0)
    for name, series in SIDES.items():
        measured(panel, series, {float(s): v for s, v in over_time(rows, name, "complete", n, "luck").items()})
    return panel


def _law_panel(rows: list[Row], settings: LemmaSettings, name: str) -> Panel:
    law, found = LAWS[name], curve(rows, name, settings)
    heights = _heights(found, law.power)
    panel = Panel(law.title, x=log_axis(law.symbol, found), y=log_axis(law.what, heights, decades=True), height=200)
    claimed_line(panel, found, law.power)
    measured(panel, LOOKS[name], found)
    return panel


def _heights(found: Mapping[float, BySeed], power: float) -> list[float]:
    """Return what the axis must show: the measured intervals, and the claimed line at both ends."""
    means = {x: value for x, by_seed in found.items() if (value := mean(by_seed)) is not None and value > 0}
    if not means:
        return []
    level = sum(math.log(value) - power * math.log(x) for x, value in means.items()) / len(means)
    lows = [
        max(over_seeds([v for v in found[x].values() if v is not None]).low, value / 3) for x, value in means.items()
    ]
    return [*means.values(), *lows, *(math.exp(level) * x**power for x in (min(means), max(means)))]
