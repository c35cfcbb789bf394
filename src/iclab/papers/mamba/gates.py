"""M-gates: which gates shut outliers out (M E.6, (187)–(199)).

E.6 writes Mamba-2, RetNet, gated retention and GLA as linear attention times a gate, and says that the analysis extends
to them. In (189), (192), (195) and (196) an example's gate depends on later tokens only, so that it cannot tell an
outlier from a clean example, whatever training does: docs/theory.md, 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.lab import MeasurementCell, TrainingCell
from iclab.papers.mamba.gates_chart import chart
from iclab.papers.mamba.gates_rows import HALF, chosen, ratio, text, times, where
from iclab.papers.mamba.gates_settings import GATES, TUNING_GROUP, GateSettings
from iclab.probes import Interval, Row, measuring_obstacle
from iclab.study.charts import Figure
from iclab.study.claims import (
    Claim,
    Direction,
    Judge,
    Judgement,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, listed, paired_points

SMALL = 0.01
"""The error that the paper calls small."""
SHUT, AJAR = 0.1, 0.9
"""Outliers are shut out if their gates are below this part of clean ones; in direction, if below the second."""
BLIND = 0.05
"""How far the ratio of gates may be from 1, for a gate that cannot tell outliers."""
BETTER = 0.1
"""In direction: by how much the error must be below that of linear attention, beyond α = 1/2."""
COURSE, TUNING = 500, 2_000
"""Prompts per seed for the loss along training, and for the choice of step sizes."""


class Gates(Experiment[GateSettings]):
    """Error against α, gates of outliers over those of clean examples, and steps to learn, for every gate."""

    id = "M-gates"
    title = "Which gates shut outliers out"
    paper = (
        "The analysis can be extended to other SSM and linear RNN architectures that are linear attention and a gate: "
        "Mamba-2, RetNet, gated retention, gated linear attention (E.6)."
    )
    reading = (
        "A, B: mean error over seeds with flipped labels; bands span the lowest to the highest seed; hollow diamonds: "
        "the exact worst labels, where they can be computed. A: gates that depend on later tokens or on none. B: gates "
        "that depend on the example itself. C: the mean gate of outliers over that of clean examples at the same "
        "distance from the query, at α = p_a. D: steps until the loss is 0.5; a "
        "sum of many examples is there before the first step. Every gate has the step size that one "
        "rule finds on other seeds."
    )
    caption = "means; flip and worst are errors with these labels, by α"
    theorems = ("M-thm1", "M-thm2")
    settings = GateSettings

    def conditions(self, settings: GateSettings) -> list[Condition]:
        """Return every gate under flipped and worst labels, its gates, its course, and the choice of its step size."""
        found: list[Condition] = []
        for name in settings.gates:
            training, count = settings.training(name), settings.test_prompts
            worst = not measuring_obstacle(training, "worst", None, count)
            for fraction in settings.outlier_fractions:
                prompts = settings.test_prompts_with(labels="flip", **settings.amount(fraction))
                for part, probe in (("flip", "error"), *([("worst", "worst")] if worst else [])):
                    columns = where(part, name, outlier_fraction=fraction)
                    found += in_groups(settings, columns, training, probe=probe, prompts=prompts, count=count)
            share = settings.train_outlier_fraction
            prompts = settings.test_prompts_with(labels="flip", **settings.amount(share))
            columns = where("gates", name, outlier_fraction=share)
            found += in_groups(settings, columns, training, probe="gates", prompts=prompts, count=count)
            few = {"count": min(COURSE, count), "at": "every"}
            found += in_groups(settings, where("course", name), training, **few)
        return found + (_tuning(settings) if settings.tuning else [])

    def claims(self, settings: GateSettings) -> list[Claim]:
        """Return for each gate whether it filters, and whether what Theorem 2 says of Mamba extends to it."""
        own = [name for name in settings.gates if name != "linear"]
        blind = [name for name in own if GATES[name].sees != "itself"]
        listed_gates = [name for name in settings.gates if GATES[name].in_paper]
        found = [_learns(settings, listed_gates), *(_filters(settings, name) for name in own)]
        found += [_extends(settings, name) for name in own if name != "mamba"]
        near = f"within {1 - BLIND:g} … {1 + BLIND:g} at distances 1 to {settings.places}"
        found.append(
            Claim(
                "M-gates.blind",
                "gates of later tokens are the same for outliers and clean examples (docs/theory.md, 8)",
                f"mean gate of outliers over that of clean examples {near}, for {', '.join(blind)}",
                judged(together(*(_ratios(settings, name) for name in blind)), every_within, 1 - BLIND, 1 + BLIND),
                ours=True,
            )
        )
        if settings.tuning:
            found.append(
                Claim(
                    "M-gates.tuned",
                    "every step size is the one that the rule finds",
                    f"gates whose step size is not the best of {listed(settings.step_size_grid)} on seeds apart: none",
                    lambda rows: _tuned(rows, settings),
                    ours=True,
                    counts=True,
                )
            )
        return found

    def table(self, rows: list[Row], settings: GateSettings) -> list[dict[str, Any]]:
        """Return one line per gate."""
        shown = [f for f in settings.outlier_fractions if f >= HALF]
        sees = {"itself": "the example", "later": "later tokens", "nothing": "nothing"}
        return [
            {"gate": GATES[name].label, "depends on": sees[GATES[name].sees], "η": f"{settings.step_sizes[name]:g}"}
            | {"gate ratio": text(ratio(rows, name, 1))}
            | {f"flip, {f:g}": text(errors(rows, **where("flip", name, f))) for f in shown}
            | {f"worst, {f:g}": text(errors(rows, **where("worst", name, f))) for f in shown}
            | {"steps": text(times(rows, name), "{:.0f}")}
            for name in settings.gates
        ]

    def chart(self, rows: list[Row], settings: GateSettings) -> Figure:
        """Draw both families of gates, the ratio of gates, and the steps to learn."""
        return chart(rows, settings)


def _tuning(settings: GateSettings) -> list[Condition]:
    """Return every gate at every step size of the grid, on seeds that no verdict uses."""
    found = []
    for name in settings.gates:
        for step_size in settings.step_size_grid:
            training = settings.training(name, step_size, kept=False)
            cell = TrainingCell(training=training, group=TUNING_GROUP)
            few = min(TUNING, settings.test_prompts)
            measured = MeasurementCell(training=cell, probe="error", prompts=training.prompts, count=few)
            found.append(Condition(where("tuning", name, step_size=step_size), measured, below=cell.seeds[-1] + 1))
    return found


def _tuned(rows: list[Row], settings: GateSettings) -> Judgement:
    """Count the gates whose step size is not the rule's."""
    best = {name: chosen(rows, settings, name) for name in settings.gates}
    if None in best.values():
        return Judgement("not run")
    other = [f"{name}: {size:g}" for name, size in best.items() if size != settings.step_sizes[name]]
    return Judgement("fails" if other else "holds", len(other), Interval(len(other), len(other)), ", ".join(other))


def _ratios(settings: GateSettings, name: str) -> Any:
    """Return a source of points: the ratio of gates at every distance."""

    def at(place: int) -> Any:
        return mean_point(settings.seeds, lambda rows: ratio(rows, name, place), f"{name}, distance {place}")

    return together(*(at(place) for place in range(1, settings.places + 1)))


def _filters(settings: GateSettings, name: str) -> Claim:
    points = _ratios(settings, name)
    far = f"at distances 1 to {settings.places}, α = {settings.train_outlier_fraction:g}"
    return Claim(
        f"M-gates.filters.{name}",
        f"the gate of {GATES[name].label} shuts outliers out",
        f"mean gate of outliers < {SHUT:g} of that of clean examples {far}",
        judged(points, every_below, SHUT),
        models=(GATES[name].model,),
        ours=True,
        direction=Direction(f"< {AJAR:g}", judged(points, every_below, AJAR)),
    )


def _extends(settings: GateSettings, name: str) -> Claim:
    inside = [f for f in settings.outlier_fractions if f <= settings.train_outlier_fraction]
    beyond = [f for f in inside if f >= HALF]
    gate = GATES[name]
    return Claim(
        f"M-gates.extends.{name}",
        f"the analysis can be extended to {gate.label}: robust up to α = p_a, as Theorem 2 says of Mamba",
        f"mean error with flipped labels < {SMALL:g} at α = {listed(inside)}",
        judged(_errors(settings, [name], inside), every_below, SMALL),
        models=(gate.model,),
        ours=not gate.in_paper,
        direction=Direction(
            f"more than {BETTER:g} below linear attention at α = {listed(beyond)}", _better(settings, name, beyond)
        ),
    )


def _learns(settings: GateSettings, names: Sequence[str]) -> Claim:
    clean = [f for f in settings.outlier_fractions if f == 0]
    return Claim(
        "M-gates.learns",
        "the analysis can be extended to these gates: trained with outliers, they answer clean prompts",
        f"mean error < {SMALL:g} at α = 0, for {', '.join(names)}",
        judged(_errors(settings, names, clean), every_below, SMALL),
    )


def _errors(settings: GateSettings, names: Sequence[str], fractions: Sequence[float]) -> Any:
    cells = [(f"{name}, α = {f:g}", where("flip", name, f)) for name in names for f in fractions]
    return lambda rows: error_points(rows, settings.seeds, cells) if cells else None


def _better(settings: GateSettings, name: str, fractions: Sequence[float]) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        pairs = [
            (f"α = {f:g}", errors(rows, **where("flip", "linear", f)), errors(rows, **where("flip", name, f)))
            for f in fractions
        ]
        return paired_points(pairs, settings.seeds)

    return judged(points, every_above, BETTER)
