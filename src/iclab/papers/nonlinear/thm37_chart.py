"""T-thm3.7's figure."""

from __future__ import annotations

from iclab.papers.mamba.times_chart import claimed_line, log_axis, mean, measured
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.papers.nonlinear.thm37_rows import PruningTheoremSettings, by_seed, extra, fates, lengths, predicted_loss
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, INK, PALETTE, Axis, Figure, Panel, Series, reference

LITTLE = 0.05
"""(15) says O(ε + M1^(−1/2)) for the loss. Read as: it rises by less than this."""
SHRUNK = reference("if outputs shrink with L, nothing fitted", DOTTED)


def draw(rows: list[Row], settings: PruningTheoremSettings) -> Figure:
    """Draw lengths, losses after pruning, fates and errors."""
    panels = [
        _lengths_panel(rows, settings),
        _small_panel(rows, settings),
        _rates_panel(rows, settings),
        _fates_panel(rows, settings),
        _widths_panel(rows, settings),
        _extra_panel(rows, settings),
    ]
    return Figure(panels, columns=3, width=270)


def _lengths_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    x, y = log_axis("irrelevant patterns M2", settings.irrelevants), log_axis("mean length", (0.1, 3.0), decades=True)
    panel = Panel("A  rows of W_O W_V (14)", x=x, y=y, height=200)
    for graph, name in NAMES.items():
        for group, title in ((0, "in L"), (1, "outside L")):
            found = lengths(rows, graph, group)
            if group == 1:
                claimed_line(panel, found, -0.5)
            measured(panel, Series(f"{name}, {title}", COLOURS[graph], line=False, size=45.0, hollow=group == 1), found)
    return panel


def _small_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    panel = Panel(
        "B  without all outside L (15)",
        x=log_axis("patterns M1", settings.relevant_values),
        y=Axis("hinge loss", domain=(0, 0.06)),
        height=200,
    )
    panel.rule(y=LITTLE, dash=DASHED)
    for graph, name in NAMES.items():
        for part, title, hollow in (("pruned", "pruned", False), ("whole", "whole", True)):
            found = {n: by_seed(rows, "hinge", part=part, graph=graph, x=n) for n in settings.relevant_values}
            series = Series(f"{name}, {title}", COLOURS[graph], line=False, size=45.0, hollow=hollow, mark="diamond")
            measured(panel, series, {n: by_seed for n, by_seed in found.items() if by_seed})
    return panel


def _rates_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    panel = Panel("C  without a share R, all in L (16)", x=Axis("R"), y=Axis("hinge loss"), height=200)
    rates = (0.0, *settings.rates)
    for graph, name in NAMES.items():
        line = {rate: mean(predicted_loss(rows, graph, rate)) for rate in rates}
        known = {rate: value for rate, value in line.items() if value is not None}
        panel.line(SHRUNK, list(known), list(known.values()))
        found = {rate: by_seed(rows, "hinge", part="rates", graph=graph, x=rate) for rate in rates}
        measured(panel, Series(f"trained on {name}", COLOURS[graph], line=False, size=45.0), found)
    return panel


def _fates_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    axis = log_axis("patterns M1", settings.relevant_values)
    panel = Panel("D  neurons that end in L", x=axis, y=Axis("share", domain=(0, 1)), height=200)
    for lucky, title, colour in ((True, "lucky at the start", PALETTE[2]), (False, "not lucky", INK)):
        series = Series(f"{title} (ring:1)", colour, line=False, size=45.0, mark="triangle-up", hollow=not lucky)
        measured(panel, series, {n: fates(rows, "ring", n, lucky) for n in settings.relevant_values})
    return panel


def _widths_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    panel = Panel(
        f"E  errors, {settings.half:.0%} gone at random".replace("%", " %"),
        x=log_axis("neurons m", settings.widths),
        y=Axis("error"),
        height=200,
    )
    for graph, name in NAMES.items():
        for part, title, hollow in (("widths", "pruned", False), ("unpruned", "whole", True)):
            found = {float(n): by_seed(rows, "error", part=part, graph=graph, x=n) for n in settings.widths}
            series = Series(f"{name}, {title}", COLOURS[graph], line=False, size=45.0, hollow=hollow, mark="diamond")
            measured(panel, series, found)
    return panel


def _extra_panel(rows: list[Row], settings: PruningTheoremSettings) -> Panel:
    found = {graph: extra(rows, settings, graph) for graph in NAMES}
    heights = [v for by_x in found.values() for by_seed in by_x.values() for v in by_seed.values() if v and v > 0]
    x, y = log_axis("patterns M1", settings.relevant_values), log_axis("loss, few − all", heights, decades=True)
    panel = Panel("F  the term (α' M1)⁻¹ of (16)", x=x, y=y, height=200)
    for graph, by_x in found.items():
        claimed_line(panel, by_x, -1.0)
        measured(panel, Series(f"trained on {NAMES[graph]}", COLOURS[graph], line=False, size=45.0), by_x)
    return panel
