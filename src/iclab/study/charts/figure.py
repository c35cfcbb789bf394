"""A figure: panels in a grid, a legend and a heading; and the files that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from iclab.config import InputError
from iclab.study.charts.layers import symbol
from iclab.study.charts.look import CONFIG, PAPER, Series
from iclab.study.charts.painter import KINDS, files_of, svg_of
from iclab.study.charts.panel import Panel

AXIS = 62
"""Pixels that a panel's vertical axis takes."""


@dataclass(frozen=True, repr=False)
class Figure:
    """Panels, declared once: page, SVG, PNG and PDF are all made of it.

    Vega-Lite is written here as plain data, without Altair, which copies all data each time two charts are put
    together: six panels took it three seconds instead of a tenth of one.
    """

    panels: Sequence[Panel]
    columns: int = 3
    """Panels side by side; on a narrow screen they stand one below the other."""
    width: int = 250
    """The width of a panel in a file. The page gives it the room there is."""
    heading: tuple[str, ...] = ()
    """The title, and the lines below it."""
    more: Sequence[Series] = ()
    """What the legend names besides the panels' own series."""
    least: int = 0
    """The least width of a panel on the page: a heat map scrolls rather than shrinks."""

    @property
    def legend(self) -> list[Series]:
        """What the legend names, each once."""
        every = {series.name: series for panel in self.panels for series in panel.series}
        every |= {series.name: series for series in self.more}
        return [series for series in every.values() if series.legend]

    def page(self) -> dict[str, Any]:
        """Return what the page needs to draw it: the panels, and the legend it draws itself."""
        legend = [asdict(series) for series in self.legend]
        return {"spec": _whole(self._grid()), "legend": legend, "columns": self.columns, "least": self.least}

    def to_dict(self) -> dict[str, Any]:
        """Return the whole figure as Vega-Lite, with legend and heading."""
        across = min(self.columns, len(self.panels)) * (self.width + AXIS)
        parts = [self._grid(), *([_legend(self.legend, across)] if self.legend else [])]
        spec = {"vconcat": parts, "spacing": 18, "padding": 12, "config": CONFIG}
        if self.heading:
            title, *below = self.heading
            spec["title"] = {"text": title, "subtitle": below, "fontSize": 13.5, "subtitlePadding": 4, "offset": 14}
        return _whole(spec)

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file whose name ends in .svg, .png or .pdf; return its path."""
        path, kind = Path(path), Path(path).suffix.removeprefix(".").lower()
        if kind not in KINDS:
            raise InputError(f"path = {path}: must end in {', '.join(f'.{known}' for known in KINDS)}")
        try:
            path.write_bytes(draw(self)[kind])
        except OSError as error:
            raise InputError(f"path = {path}: cannot be written ({error.strerror})") from None
        return path

    def svg(self) -> str:
        """Return the figure as SVG."""
        return svg_of(self.to_dict())

    def _repr_mimebundle_(self, **which: Any) -> dict[str, Any]:
        """Show the figure in a notebook: drawn there by Vega-Lite, or as SVG."""
        older = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json"}  # notebooks know this one
        return {
            "application/vnd.vegalite.v5+json": self.to_dict() | older,
            "image/svg+xml": self.svg(),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        heading = self.heading[0] if self.heading else ", ".join(filter(None, (p.title for p in self.panels)))
        return f"Figure({heading or f'{len(self.panels)} panels'})"

    def _grid(self) -> dict[str, Any]:
        panels = [panel.spec(self.width) for panel in self.panels]
        return {"concat": panels, "columns": self.columns, "spacing": 24, **_APART}


class Chart(Protocol):
    """Anything that Vega-Lite can draw: a `Figure`, or an Altair chart."""

    def to_dict(self) -> dict[str, Any]:
        """Return the chart as Vega-Lite."""
        ...


def draw(chart: Chart) -> dict[str, bytes]:
    """Draw a chart as files of every kind."""
    return files_of(chart.to_dict())


_LOOKS = ("color", "fill", "stroke", "shape", "size", "strokeDash", "strokeWidth", "fillOpacity")
_APART = {"resolve": {"scale": dict.fromkeys(_LOOKS, "independent")}}
"""Every panel has scales of its own: looks are given by the names of its series."""


def _whole(spec: dict[str, Any]) -> dict[str, Any]:
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    return {"$schema": schema, "params": [{"name": "hidden", "value": []}], **_APART, **spec}


def _legend(legend: Sequence[Series], across: int) -> dict[str, Any]:
    """Draw the legend of a file: a sample and a name for each series, in columns."""
    longest = max(len(series.name) for series in legend)
    columns = max(1, min(len(legend), across // (56 + round(6.4 * longest))))
    step, line = across / columns, 19
    layers = []
    for i, series in enumerate(legend):
        left, y = step * (i % columns), {"value": line * (i // columns) + line / 2}
        if series.line:
            rule = {
                "type": "rule",
                "color": series.colour,
                "strokeWidth": series.width,
                "strokeDash": list(series.dash),
            }
            layers.append({"mark": rule, "encoding": {"x": {"value": left}, "x2": {"value": left + 26}, "y": y}})
        if series.mark:
            point = {
                "type": "point",
                "shape": symbol(series.mark),
                "stroke": series.colour,
                "size": max(series.size, 30.0),
            }
            point |= {"fill": PAPER if series.hollow else series.colour, "opacity": 1, "strokeWidth": 1.3}
            point |= {"fillOpacity": series.shade, "strokeOpacity": series.shade} if series.area else {}
            layers.append({"mark": point, "encoding": {"x": {"value": left + 13}, "y": y}})
        text = {"type": "text", "text": series.name, "align": "left", "baseline": "middle", "fontSize": 11}
        layers.append({"mark": text, "encoding": {"x": {"value": left + 34}, "y": y}})
    size = {"width": across, "height": line * -(-len(legend) // columns)}
    return {"data": {"values": [{}]}, "layer": layers, **size}
