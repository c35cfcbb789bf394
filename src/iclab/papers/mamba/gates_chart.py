"""The figure of M-gates."""

from __future__ import annotations

from iclab.papers.mamba.gates_rows import HALF, means, of, ratio, times, where
from iclab.papers.mamba.gates_settings import GATES, GateSettings
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, INK, Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed
from iclab.study.rows import errors

P_A = reference("p_a, outliers in training", DASHED)
WORST = Series("worst labels, exact", INK, mark="diamond", line=False, hollow=True, size=34.0)
LEAST = 3e-4
"""Ratios of gates below this are drawn there."""


def chart(rows: list[Row], settings: GateSettings) -> Figure:
    """Draw both families of gates, the ratio of gates, and the steps to learn."""
    later = [name for name in settings.gates if GATES[name].sees != "itself"]
    itself = [name for name in settings.gates if GATES[name].sees == "itself"]
    panels = [
        _errors(rows, settings, "A  gates of later tokens, or of none", later),
        _errors(rows, settings, "B  gates of the example itself", itself),
        _ratios(rows, settings),
        _times(rows, settings),
    ]
    return Figure(panels, columns=2, width=330)


def look(name: str) -> Series:
    """Return how a gate is drawn."""
    colour, mark = GATES[name].look
    dash = DOTTED if name in ("gla-rows", "retnet-fixed") else ()
    return Series(GATES[name].label, colour, dash=dash, mark=mark, hollow=name == "gla-rows")


def _errors(rows: list[Row], settings: GateSettings, title: str, names: list[str]) -> Panel:
    small = Axis("error", domain=(0, 1), scale="symlog", linear_to=0.01, ticks=(0, 0.01, 0.03, 0.1, 0.3, 1))
    y = Axis("error", domain=(0, 1)) if title.startswith("A") else small
    panel = Panel(title, x=Axis("fraction of outliers α", domain=(-0.02, 0.9)), y=y)
    panel.rule(x=HALF, dash=DOTTED)
    panel.line(P_A, [settings.train_outlier_fraction] * 2, [0.0, 1.0])
    fractions = list(settings.outlier_fractions)
    for name in names:
        found = [errors(rows, **where("flip", name, f)) for f in fractions] if of(rows, "flip", name) else []
        if found:
            panel.curve(look(name), fractions, found)
        for fraction in fractions:
            good = means(errors(rows, **where("worst", name, fraction)))
            if good:
                panel.points(WORST, [fraction], [sum(good) / len(good)])
    return panel


def _names(settings: GateSettings) -> Axis:
    places = {float(-i): GATES[name].label for i, name in enumerate(settings.gates)}
    return Axis(domain=(0.6 - len(places), 0.6), ticks=places)


def _by_name(panel: Panel, name: str, place: int, found: BySeed, least: float) -> None:
    """Draw the mean of one gate, and its seeds as faint marks."""
    good = [max(value, least) for value in means(found)]
    if good:
        panel.points(look(name), good, [float(-place)] * len(good), faint=True)
        panel.points(look(name), [max(sum(means(found)) / len(good), least)], [float(-place)])


def _ratios(rows: list[Row], settings: GateSettings) -> Panel:
    ticks = {0.001: "0.001", 0.01: "0.01", 0.1: "0.1", 1.0: "1"}
    x = Axis("gate of outliers ÷ gate of clean examples, distance 1", domain=(LEAST, 2.0), scale="log", ticks=ticks)
    panel = Panel("C  which gates shut outliers out", x=x, y=_names(settings), height=270)
    panel.rule(x=1.0, dash=DOTTED)
    panel.rule(x=0.1, dash=DASHED)
    for i, name in enumerate(settings.gates):
        _by_name(panel, name, i, ratio(rows, name, 1), LEAST)
    return panel


def _times(rows: list[Row], settings: GateSettings) -> Panel:
    ticks = {1.0: "1", 10.0: "10", 100.0: "100", 1000.0: "1,000"}
    x = Axis("steps until the loss is 0.5", domain=(1.0, 1000.0), scale="log", ticks=ticks)
    panel = Panel("D  steps to learn, each with its own step size", x=x, y=_names(settings), height=270)
    for i, name in enumerate(settings.gates):
        _by_name(panel, name, i, times(rows, name), 1.0)
    return panel
