"""Charts as data: declared once, drawn on the page and in SVG, PNG and PDF files by Vega-Lite.

An experiment makes a `Figure` of `Panel`s. A panel has two `Axis` and methods for what is drawn between them; each
takes a `Series` first, which is a name in the legend with a colour, a line and a mark.
"""

from iclab.study.charts.figure import Chart, Figure, draw
from iclab.study.charts.look import (
    DASH_DOT,
    DASHED,
    DIVERGING,
    DOTTED,
    ERRORS,
    FAINT,
    INK,
    OWN,
    PALETTE,
    PRINTED,
    SPARE,
    VERDICTS,
    Series,
    Shading,
    reference,
    shaded,
    shades,
)
from iclab.study.charts.models import colour_of, full_name_of, name_of, series_of
from iclab.study.charts.panel import Axis, Panel

__all__ = [
    "DASHED",
    "DASH_DOT",
    "DIVERGING",
    "DOTTED",
    "ERRORS",
    "FAINT",
    "INK",
    "OWN",
    "PALETTE",
    "PRINTED",
    "SPARE",
    "VERDICTS",
    "Axis",
    "Chart",
    "Figure",
    "Panel",
    "Series",
    "Shading",
    "colour_of",
    "draw",
    "full_name_of",
    "name_of",
    "reference",
    "series_of",
    "shaded",
    "shades",
]
