"""The figure of M-kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.papers.mamba.kernel_rows import clean_errors, entries, mean_kernel, predicted_errors, slow_times
from iclab.papers.mamba.kernel_settings import KernelSettings, Which, graph_of
from iclab.probes import Row
from iclab.study.charts import DIVERGING, FAINT, INK, Axis, Figure, Panel, Series, reference
from iclab.theory.graph import mean_by_distance

Matrix = NDArray[np.float64]
PREDICTED = reference("predicted", colour=FAINT)
FORETOLD = Series("from exp(2τL) and one gate", INK, mark="cross", line=False, size=30.0)
COMPLETE = "#D55E00"
COLOURS = ("#0072B2", "#CC79A7", "#56B4E9", "#009E73", "#E69F00", "#000000")
MARKS = ("circle", "diamond", "triangle-up", "triangle-down")


def draw(rows: list[Row], settings: KernelSettings, active: float) -> Figure:
    """Draw six panels: kernels, entries, clock and clean errors of both models."""
    series = _series(settings.graphs)
    first = settings.graphs[0]
    measured = mean_kernel(rows, first, "mamba")
    panels = []
    if measured is not None:
        fit = graph_of(first).fit(measured)
        name = f"{first[1]}, {first[0]} patterns"
        panels = [
            _map(f"A  measured, {name}", measured),
            _map(f"B  exp(2τL), τ = {fit.time:.2f}", graph_of(first).kernel(fit.time)),
        ]
    panels.append(_entries(rows, settings, series))
    panels.append(_clock(rows, settings, series, active))
    for letter, model, title in (("E", "mamba", "Mamba"), ("F", "linear", "linear Transformer")):
        if model in settings.models:
            panels.append(_errors(rows, settings, series, model, f"{letter}  clean error, {title}"))
    return Figure(panels, columns=3)


def _series(graphs: tuple[Which, ...]) -> dict[Which, Series]:
    """Return a look for each graph: complete graphs are orange, other kinds have a colour each; marks tell M1."""
    kinds = list(dict.fromkeys(name for _, name in graphs))
    sizes = sorted({relevant for relevant, _ in graphs})
    looks = {}
    for which in graphs:
        graph = graph_of(which)
        colour = COMPLETE if graph.complete else COLOURS[kinds.index(which[1]) % len(COLOURS)]
        note = ", complete" if graph.complete else "" if graph.regular else ", against Condition 1"
        mark = MARKS[sizes.index(which[0]) % len(MARKS)]
        looks[which] = Series(f"{which[1]} of {which[0]}{note}", colour, mark=mark, line=False, size=40.0)
    return looks


def _map(title: str, kernel: Matrix) -> Panel:
    """Draw a kernel as a map of numbers; colours end at its largest entry."""
    names = [f"µ{j + 1}" for j in range(len(kernel))]
    top = float(np.abs(kernel).max())
    shading = DIVERGING.spanning(top)
    panel = Panel(title, x=Axis("example", names=names), y=Axis("query", names=names), shading=shading)
    for j, k in np.ndindex(*kernel.shape):
        panel.tile(names[k], names[j], float(kernel[j, k]), f"{kernel[j, k]:.1f}".replace("-", "−"))
    return panel


def _entries(rows: list[Row], settings: KernelSettings, series: dict[Which, Series]) -> Panel:
    """Draw entries by distance for the rings of one step."""
    ticks = {float(d): str(d) for d in range(9)}
    panel = Panel(
        "C  entries after training, ring:1", x=Axis("distance in the graph", ticks=ticks), y=Axis("W_BᵀW_C / δ²")
    )
    panel.rule(y=0.0)
    for which in (which for which in settings.graphs if which[1] == "ring:1"):
        by_seed = {s: by for s, by in entries(rows, which, "mamba").items() if by is not None}
        measured = mean_kernel(rows, which, "mamba")
        if measured is None:
            continue
        graph = graph_of(which)
        predicted = mean_by_distance(graph, graph.kernel(graph.fit(measured).time))
        law = series[which].beside(f"{series[which].name}: exp(2τL)", line=True, legend=False)
        panel.line(law, *_split(predicted))
        for distance in predicted:
            found = [by[distance] for by in by_seed.values()]
            panel.interval(series[which], distance, float(np.mean(found)), min(found), max(found))
    return panel


def _split(curve: dict[int, float]) -> tuple[list[float], list[float]]:
    return [float(d) for d in curve], list(curve.values())


def _clock(rows: list[Row], settings: KernelSettings, series: dict[Which, Series], active: float) -> Panel:
    """Draw the fitted τ against the predicted one."""
    top = settings.longest_time * 1.05
    panel = Panel(
        "D  the clock: τ fitted against τ predicted",
        x=Axis("η β² (1 − p_a) g t / (2 M1)", domain=(0, top)),
        y=Axis("τ fitted", domain=(0, top)),
    )
    panel.line(PREDICTED, [0, top], [0, top])
    for which in settings.graphs:
        for step, (loss, by_seed) in slow_times(rows, which).items():
            good = [time for time in by_seed.values() if time is not None]
            if good:
                place = [settings.predicted_time(which, step)]
                panel.points(series[which], place, [float(np.mean(good))], hollow=loss <= active)
    return panel


def _errors(rows: list[Row], settings: KernelSettings, series: dict[Which, Series], model: str, title: str) -> Panel:
    """Draw clean errors by distance; tasks without a path between their patterns stand at the right."""
    most = max(graph_of(which).distances.max() for which in settings.graphs)
    ticks = {float(d): str(d) for d in range(1, most + 1)} | {float(most + 1): "none"}
    panel = Panel(
        title,
        x=Axis("distance of the task's patterns", ticks=ticks, domain=(0.5, most + 1.5)),
        y=Axis("error without outliers"),
    )
    for place, which in enumerate(settings.graphs):
        shift = 0.5 * (place / max(len(settings.graphs) - 1, 1) - 0.5)
        for distance, p in clean_errors(rows, which, model).items():
            x = (distance if distance > 0 else most + 1) + shift
            panel.interval(series[which], x, p.mean or 0.0, p.interval.low, p.interval.high)
        if model == "mamba":
            for distance, error in predicted_errors(rows, which, settings.context_length).items():
                panel.points(FORETOLD, [(distance if distance > 0 else most + 1) + shift], [error])
    return panel
