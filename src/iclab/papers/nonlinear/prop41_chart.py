"""T-prop4.1's figure."""

from __future__ import annotations

from math import fsum

from iclab.papers.mamba.times_chart import claimed_line, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import AlignmentSettings, entries, graph_of, of
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.prop41_rows import Number, by_relevant, fits, losses_by_step, own_of, predicted, share
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.study.charts import DOTTED, PALETTE, Axis, Figure, Panel, Series, reference

PREDICTED = reference("from exp(τL)", DOTTED)


def draw(rows: list[Row], settings: AlignmentSettings) -> Figure:
    """Draw parts against M1, the share measured and predicted, and one training."""
    ratios = {"B  other patterns (18)": lambda e: e.other / e.own, "C  irrelevant (19)": lambda e: e.irrelevant / e.own}
    panels = [
        _part_panel(rows, settings, "A  own part (17)", "part along µ_j", lambda e: e.own),
        *(_part_panel(rows, settings, title, "part / own part", number, -1.0) for title, number in ratios.items()),
        _share_panel(rows, settings),
        _watched_panel(rows, settings),
        _distance_panel(rows, settings),
    ]
    return Figure(panels, columns=3, width=270)


def _look(graph: str) -> Series:
    return Series(f"trained on {NAMES[graph]}", COLOURS[graph], line=False, size=45.0)


def _part_panel(
    rows: list[Row], settings: AlignmentSettings, title: str, what: str, number: Number, power: float = 0.0
) -> Panel:
    found = {graph: by_relevant(rows, settings, graph, number) for graph in GRAPHS}
    each = {g: [v for by_seed in by_x.values() for v in by_seed.values() if v] for g, by_x in found.items()}
    reach = (max(settings.relevant_values) / min(settings.relevant_values)) ** (power / 2)  # of a claimed line
    ends = [fsum(values) / len(values) * by for values in each.values() if values for by in (reach, 1 / reach)]
    heights = [*ends, *(v for values in each.values() for v in values)]
    x, y = log_axis("patterns M1", settings.relevant_values), log_axis(what, heights, decades=True)
    panel = Panel(title, x=x, y=y, height=190)
    for graph, by_x in found.items():
        if power:
            claimed_line(panel, by_x, power)
        measured(panel, _look(graph), by_x)
    return panel


def _share_panel(rows: list[Row], settings: AlignmentSettings) -> Panel:
    values = settings.relevant_values
    panel = Panel(
        "D  share along the own pattern",
        x=log_axis("patterns M1", values),
        y=Axis("part / norm of W_Q p", domain=(0.6, 1.0)),
        height=190,
    )
    for graph in GRAPHS:
        line = {n: mean(predicted(rows, settings, "relevant", graph, n)) for n in values}
        known = {n: value for n, value in line.items() if value is not None}
        panel.line(PREDICTED, list(known), list(known.values()))
        measured(panel, _look(graph), {n: share(rows, "relevant", graph, n) for n in values})
    return panel


def _watched_panel(rows: list[Row], settings: AlignmentSettings) -> Panel:
    axis = Axis("part / norm of W_Q p", domain=(0.6, 1.0))
    panel = Panel(f"E  a training, M1 = {settings.middle}", x=Axis("training step"), y=axis, height=190)
    for graph in GRAPHS:
        steps = list(losses_by_step(rows, settings, graph))
        where = ("watched", graph, settings.middle)
        line = {step: mean(predicted(rows, settings, *where, step)) for step in steps}
        known = {step: value for step, value in line.items() if value is not None}
        panel.line(PREDICTED, list(known), list(known.values()))
        measured(panel, _look(graph), {step: share(rows, *where, step) for step in steps})
    return panel


def _distance_panel(rows: list[Row], settings: AlignmentSettings) -> Panel:
    n, graph = settings.middle, "ring"
    shape, found_fits = graph_of(graph, n), fits(rows, settings, "relevant", graph, n)
    panel = Panel(
        f"F  W_Q µ_j by distance, ring:1, M1 = {n}",
        x=Axis("distance on the ring", ticks=range(n // 2 + 1)),
        y=Axis("part along"),
        height=190,
    )
    time = mean({seed: fit and fit[0] for seed, fit in found_fits.items()})
    if time is not None:
        moved = settings.init_scale * settings.pattern_norm * shape.kernel(time / 2)
        distances = sorted({int(d) for d in shape.distances[0]})
        panel.line(PREDICTED, distances, [float(moved[0][shape.distances[0] == d].mean()) for d in distances])
    own = own_of(settings, "relevant", graph, n)
    found = entries(of(rows, part="relevant", graph=graph, x=n, probe="growth"), own, "query")
    good = [e for e in found.values() if e is not None]
    series = Series("mean over seeds", PALETTE[2], line=False, size=45.0)
    if good:
        panel.points(series, [0], [sum(e.own for e in good) / len(good)])
        for d in good[0].by_distance:
            panel.points(series, [d], [sum(e.by_distance[d] for e in good) / len(good)])
    panel.rule(y=0.0)
    return panel
