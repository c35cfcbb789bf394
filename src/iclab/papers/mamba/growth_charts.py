"""The panels of M-lem3."""

from __future__ import annotations

from iclab.papers.mamba.growth_settings import (
    NOISE,
    GrowthSettings,
    entry,
    kept_steps,
    of,
    over_time,
)
from iclab.papers.mamba.lemmas import draw_means, scaled
from iclab.probes import Row
from iclab.study.charts import DASH_DOT, DASHED, DOTTED, PALETTE, Axis, Panel, Series, reference

OWN = Series("a pattern with itself", "#0072B2", line=False)
MET = Series("patterns of a task, sign turned", "#D55E00", line=False)
UNMET = Series("patterns two tasks apart", "#009E73", line=False)
LAW = reference("(A), no free constant", dash=())
FIELD = reference("mean field (F), no free constant", DASH_DOT)
LINEAR = reference("linear growth, as (23)", DASHED)
SLOPES = {0.5: reference("∝ √t", DOTTED), 1.0: reference("∝ t", DASHED), -0.5: reference("∝ 1/√B", DOTTED)}
_STEPS = {1.0: "1", 10.0: "10", 100.0: "100"}


def _drawn(panel: Panel, rows: list[Row], own: GrowthSettings, which: list[tuple[Series, str, int]]) -> None:
    steps = kept_steps(rows)
    for series, kind, distance in which:
        sign = -1.0 if kind == "met" else 1.0
        if steps:
            law = [sign * own.init_scale * own.weight(step, distance) for step in steps]
            panel.line(LAW, steps, [max(value, 1e-9) for value in law])
        found: dict[float, dict[int, float | None]] = {
            step: scaled(entry(rows, "key", kind, step=step, distance=distance), sign) for step in steps
        }
        draw_means(panel, series, found, positive=True)


def _axes(title: str) -> Panel:
    return Panel(
        title,
        x=Axis("step", domain=(0.8, 600.0), scale="log", ticks=_STEPS),
        y=Axis("entry of W_B − W_B⁽⁰⁾", domain=(1e-7, 2.0), scale="log"),
    )


def own_over_time(rows: list[Row], settings: GrowthSettings, early: float) -> Panel:
    """Draw own and task entries of the first task graph."""
    graph = settings.graphs[0]
    own, here = settings.replace(tasks=graph), of(rows, "graph", str(graph))
    panel = _axes(f"A  tasks {graph}")
    steps = kept_steps(here)
    if steps:
        start = own.init_scale * own.weight(1, 0)
        panel.line(LINEAR, [steps[0], steps[-1]], [start * steps[0], start * steps[-1]])
    if steps and own.theory.graph.complete:
        _field(panel, own, steps)
    _drawn(panel, here, own, [(OWN, "own", 0), (MET, "met", 1)])
    return panel


def _field(panel: Panel, own: GrowthSettings, steps: list[int]) -> None:
    """Draw (F): own entries b (1 − 1/M1) + c/M1 − δ, and (b − c)/M1 for task entries with their sign turned."""
    curve, m = own.field(steps[-1], points=48), own.relevant
    kept = [i for i, step in enumerate(curve.steps) if step >= steps[0]]
    b, c = curve.numbers[:, 0], curve.numbers[:, 1]
    for entries in (b * (1 - 1 / m) + c / m - own.init_scale, (b - c) / m):
        panel.line(FIELD, [float(curve.steps[i]) for i in kept], [max(float(entries[i]), 1e-9) for i in kept])


def unmet_over_time(rows: list[Row], settings: GrowthSettings) -> Panel:
    """Draw own, task and further entries of the last task graph."""
    graph = settings.graphs[-1]
    own, here = settings.replace(tasks=graph), of(rows, "graph", str(graph))
    panel = _axes(f"B  tasks {graph}")
    _drawn(panel, here, own, [(OWN, "own", 0), (MET, "met", 1), (UNMET, "unmet", 2)])
    return panel


def _noise_series() -> dict[str, Series]:
    return {
        equation: Series(f"{equation} {_WORDS[equation]}", colour, line=False, hollow=True)
        for colour, equation in zip(PALETTE, NOISE, strict=True)
    }


_WORDS = {
    "(24)": "v* with µ",
    "(27)": "ν with µ",
    "(28)": "µ with ν",
    "(29)": "ν with itself",
    "(30)": "ν with another ν",
}


def noise_over_time(rows: list[Row], settings: GrowthSettings) -> Panel:
    """Draw root mean squares of the entries that are noise, of W_C, over steps."""
    here = of(rows, "graph", str(settings.graphs[0]))
    panel = Panel(
        "C  other entries of W_C",
        x=Axis("step", domain=(0.8, 600.0), scale="log", ticks=_STEPS),
        y=Axis("root mean square", domain=(1e-7, 1e-2), scale="log"),
    )
    panel.line(SLOPES[0.5], [1.0, 400.0], [3e-6, 3e-6 * 20])
    panel.line(SLOPES[1.0], [1.0, 400.0], [3e-6, 3e-6 * 400])
    for equation, series in _noise_series().items():
        draw_means(panel, series, over_time(here, "query", NOISE[equation], column="rms"), positive=True)
    return panel


def noise_over_batch(rows: list[Row], settings: GrowthSettings) -> Panel:
    """Draw root mean squares over the batch size."""
    ticks = {float(b): str(b) for b in (64, 256, 1024, 4096)}
    panel = Panel(
        f"D  other entries of W_C after {settings.short} steps",
        x=Axis("batch size B", domain=(50.0, 5000.0), scale="log", ticks=ticks),
        y=Axis("root mean square", domain=(1e-7, 1e-2), scale="log"),
    )
    panel.line(SLOPES[-0.5], [64.0, 4096.0], [1e-4, 1e-4 / 8])
    for equation, series in _noise_series().items():
        found = {b: entry(of(rows, "batch", b), "query", NOISE[equation], "rms") for b in settings.sweep("batch")}
        draw_means(panel, series, found, positive=True)
    return panel
