"""M-tab7's figure: accuracies by placement, gates by distance, and how far a trigger moves each component."""

from __future__ import annotations

from collections.abc import Mapping

from iclab.models import architecture
from iclab.papers.mamba.placements import Numbers, draw_printed
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.papers.mamba.tab7_rows import accuracy, column_name, named, readout, shift_of, shifts_of
from iclab.papers.mamba.tab7_settings import GATED, TriggerSettings
from iclab.probes import Row
from iclab.study.charts import FAINT, PALETTE, Axis, Figure, Panel, Series, colour_of, reference, shaded
from iclab.study.charts.look import DOTTED

RULES = {
    "target": "triggered: positive",
    "random": "triggered: random label",
    "flip": "triggered: wrong label",
    "worst": "triggered: worst label",
}
LINES = {
    "1-nn": reference("1 nearest neighbour", dash=DOTTED),
    "vote": reference("vote of the query's class", colour=FAINT),
}
KNOWN = reference("the query alone, if its task were known", colour=PALETTE[2])
SHIFT = shaded("shift of a triggered sentence", PALETTE[1], 0.7)


def draw(rows: list[Row], settings: TriggerSettings, printed: Mapping[str, Numbers]) -> Figure:
    """Return the figure."""
    panels = []
    first = settings.components[0]
    for components in settings.components:
        for rule in settings.label_rules if components == first else settings.label_rules[:1]:
            panels.append(_accuracies(rows, settings, components, rule, printed if rule == "target" else {}))
    panels += [_gates(rows, settings, model, first) for model in GATED if model in settings.models]
    panels.append(_shift(rows, first))
    return Figure(panels, columns=min(len(panels), 3), width=270)


def series_of(model: str, settings: TriggerSettings) -> Series:
    """Return the look of a model: filled marks for several layers, hollow ones for a single layer."""
    hollow = not architecture(model).several_layers
    return Series(named(model), colour_of(model, settings.models), line=False, hollow=hollow, size=40.0)


def _accuracies(
    rows: list[Row], settings: TriggerSettings, components: int, rule: str, printed: Mapping[str, Numbers]
) -> Panel:
    places, column = tuple(PLACEMENTS.values()), column_name(components, rule)
    here = [row for row in rows if row["what"] == "accuracy" and row["column"] == column]
    bottom = min((100 - 100 * row["error"] for row in here if row["error"] is not None), default=0.0)
    scale = Axis("accuracy, %", domain=(max(0.0, 10 * (bottom // 10)), 100))
    across = Axis(settings.named, domain=(-0.5, 2.5), ticks=dict(enumerate(places)))
    panel = Panel(f"{components} components; {RULES[rule]}", x=across, y=scale)
    panel.rule(y=50)
    known = readout(rows, components)
    if known is not None:
        panel.step(KNOWN, -0.45, 2.45, known)
    width = 0.8 / max(len(settings.models), 1)
    for x, place in enumerate(places):
        for name, line in LINES.items():
            found = accuracy(here, model=name, placement=place)
            if found is not None:
                panel.step(line, x - 0.42, x + 0.42, found[0])
        for i, model in enumerate(settings.models):
            at = x + (i - (len(settings.models) - 1) / 2) * width
            found = accuracy(here, model=model, placement=place)
            if found is not None:
                panel.interval(series_of(model, settings), at, *found)
            draw_printed(panel, at, printed[model][x] if model in printed and found is not None else None)
    return panel


def _gates(rows: list[Row], settings: TriggerSettings, model: str, components: int) -> Panel:
    layers = "layer 1 of 3" if architecture(model).several_layers else "one layer"
    panel = Panel(
        f"gates of Mamba, {layers.replace('3', str(settings.layers))}",
        x=Axis("distance from the query"),
        y=Axis("gate"),
    )
    mine = [
        row
        for row in rows
        if row["what"] == "gates" and row["column"] == column_name(components, "") and row["model"] == model
    ]
    colour = colour_of(model, settings.models)
    looks = {"clean": Series("clean examples", colour), "outlier": Series("triggered examples", PALETTE[1])}
    for kind, series in looks.items():
        found = [row for row in mine if not row["diverged"] and row["kind"] == kind and row["layer"] == 1]
        distances = sorted({row["place"] for row in found})
        panel.curve(series, distances, [{r["seed"]: r["gate"] for r in found if r["place"] == d} for d in distances])
    return panel


def _shift(rows: list[Row], components: int) -> Panel:
    whole, found = shift_of(rows, components), shifts_of(rows, components)
    title = "what the trigger does to vectors"
    if whole is not None:
        title = f"the trigger is found in {100 * whole['detected']:.0f} % of sentences"
    panel = Panel(title, x=Axis("principal component"), y=Axis("shift / spread"))
    panel.rule(y=0)
    panel.bars(SHIFT, [k + 0.5 for k in range(len(found) + 1)], [row["separability"] for row in found])
    return panel
