"""The figure of M-review: a panel or two per check."""

from __future__ import annotations

from iclab.beyond.phase_chart import KEY, LOST, strengths
from iclab.beyond.review_rows import SIGNATURES, WORDS, gate_ratios, where
from iclab.beyond.review_settings import ReviewSettings
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, INK, Axis, Figure, Panel, Series, series_of, shades
from iclab.study.claims import BySeed
from iclab.study.rows import errors

ERROR = Axis("error", domain=(0, 1), scale="symlog", linear_to=0.003, ticks=(0, 0.01, 0.1, 0.3, 1))
PLACES = {"FQ": "#0072B2", "R": "#E69F00", "CQ": "#CC79A7"}
DASHES: tuple[tuple[float, ...], ...] = ((), DASHED)
INSIDE = Series("inside its bound", "#0072B2", line=False, size=60.0)
OUTSIDE = Series("outside its bound", "#D55E00", line=False, size=60.0)


def draw(rows: list[Row], settings: ReviewSettings) -> Figure:
    """Draw nine panels."""
    phase = settings.phase()
    mapped = [
        row | {"map": "strength", "train_scale": row["x"], "test_scale": row["y"]}
        for row in rows
        if row["check"] == "magnitude"
    ]
    panels = [
        _curves(rows, settings, "coherence", "A  overlapping patterns", Axis("cosine between patterns")),
        _dimensions(rows, settings),
        _depth(rows, settings),
        _gates(rows, settings),
        strengths(mapped, phase, "mamba", settings.mamba_scales, "E  Mamba"),
        strengths(mapped, phase, "linear", settings.linear_scales, "F  linear Transformer"),
        _curves(
            rows, settings, "direction", "G  direction of test outliers", Axis("cosine with a training outlier", (0, 1))
        ),
        _lengths(rows, settings),
        _signatures(rows),
    ]
    return Figure(panels, columns=2, width=330, more=[*KEY, LOST], least=300)


def _named(model: str, curve: str, number: int) -> Series:
    """Return the look of one of a model's curves: solid, dashed, dotted."""
    look = series_of(model)
    name = f"{look.name}, {curve}"
    return Series(name, look.colour, ((), DASHED, DOTTED)[number % 3], mark=("circle", "diamond", "square")[number % 3])


def _curves(rows: list[Row], settings: ReviewSettings, check: str, title: str, x: Axis) -> Panel:
    panel = Panel(title, x=x, y=ERROR)
    mine = [row for row in rows if row["check"] == check]
    places = sorted({row["x"] for row in mine})
    for model in ("mamba", "linear"):
        for number, fraction in enumerate(settings.fractions):
            curve = f"α = {fraction:g}"
            found = [errors(mine, **where(check, model, curve, place)) for place in places]
            panel.curve(_named(model, curve, number), places, found)
    return panel


def _dimensions(rows: list[Row], settings: ReviewSettings) -> Panel:
    count = settings.relevant + settings.irrelevant + settings.outlier
    panel = Panel(
        f"B  {count} random patterns in d dimensions",
        x=Axis(
            "d",
            scale="log",
            domain=(min(settings.dimensions) / 1.1, max(settings.dimensions) * 1.1),
            ticks={d: str(d) for d in settings.dimensions},
        ),
        y=ERROR,
    )
    panel.rule(x=count, dash=DOTTED)
    mine = [row for row in rows if row["check"] == "dimension"]
    places = sorted({row["x"] for row in mine})
    for model in ("mamba", "linear"):
        for number, fraction in enumerate(settings.fractions):
            curve = f"α = {fraction:g}"
            found: list[BySeed] = [
                {
                    settings.draws * seed + draw: error
                    for draw in range(settings.draws)
                    for seed, error in errors(mine, **where("dimension", model, curve, place, draw)).items()
                }
                for place in places
            ]
            panel.curve(_named(model, curve, number), places, found)
    return panel


def _depth(rows: list[Row], settings: ReviewSettings) -> Panel:
    depths = list(settings.depths)
    x = Axis("layers", domain=(min(depths) - 0.3, max(depths) + 0.3), ticks=depths)
    panel = Panel("C  layers of Mamba, flipped labels at α = 0.5", x=x, y=ERROR)
    for stream, dash in zip(settings.streams, DASHES, strict=False):
        for place, colour in PLACES.items():
            curves = [errors(rows, **where("depth", "deep-mamba", f"{stream}, flip, {place}", k)) for k in depths]
            panel.curve(Series(f"{place}, {stream} stream", colour, dash), depths, curves, band=not dash)
    return panel


def _gates(rows: list[Row], settings: ReviewSettings) -> Panel:
    top = max(settings.depths)
    x = Axis("layer", domain=(0.7, top + 0.3), ticks=list(range(1, top + 1)))
    panel = Panel("D  gate of outliers / gate of clean examples", x=x, y=Axis("ratio", domain=(0, 1.2)))
    panel.rule(y=1.0, dash=DASHED)
    colours = shades(len(settings.depths), ordered=True)
    for stream, dash in zip(settings.streams, DASHES, strict=False):
        for depth, colour in zip(settings.depths, colours, strict=True):
            layers = list(range(1, depth + 1))
            found = [gate_ratios(rows, stream, depth, layer) for layer in layers]
            name = f"{depth} layer{'s' * (depth > 1)}, {stream}"
            panel.curve(Series(name, colour, dash, hollow=bool(dash)), layers, found, band=False)
    return panel


def _lengths(rows: list[Row], settings: ReviewSettings) -> Panel:
    lengths = list(settings.lengths)
    axis = Axis(
        "l_ts", scale="log", domain=(min(lengths) / 1.3, max(lengths) * 1.3), ticks={k: str(k) for k in lengths}
    )
    panel = Panel(f"H  length of prompts, trained at {settings.context_length}", x=axis, y=ERROR)
    panel.rule(x=settings.context_length, dash=DOTTED)
    names = [*(f"α = {f:g}" for f in settings.fractions), f"{settings.outlier_count} outliers"]
    for model in ("mamba", "linear"):
        for number, name in enumerate(names):
            found = [errors(rows, **where("length", model, name, k)) for k in lengths]
            panel.curve(_named(model, name, number), lengths, found)
    return panel


def _signatures(rows: list[Row]) -> Panel:
    names = list(reversed(SIGNATURES))
    panel = Panel(
        "I  failure signatures",
        x=ERROR,
        y=Axis(domain=(-0.6, len(names) - 0.4), ticks={i: WORDS[name] for i, name in enumerate(names)}),
    )
    mine = [row for row in rows if row["check"] == "signature"]
    for i, name in enumerate(names):
        for side, look in enumerate((INSIDE, OUTSIDE)):
            found = [row["error"] for row in mine if (row["curve"], row["x"]) == (name, side)]
            good, place = [error for error in found if error is not None], i + 0.12 - 0.24 * side
            if good:
                panel.points(look, good, [place] * len(good), faint=True)
                panel.points(look, [sum(good) / len(good)], [place])
    panel.rule(x=0.01, dash=DOTTED, ink=INK)
    return panel
