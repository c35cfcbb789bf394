"""A panel: one pair of axes with curves, bands, bars, marks and notes, declared as data and drawn by Vega-Lite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from iclab.study.charts import layers
from iclab.study.charts.look import DIVERGING, FAINT, INK, Series, Shading

Record = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """A title and a scale."""

    title: str = ""
    domain: tuple[float, float] | None = None
    """The ends; by default those of the data, and 0."""
    scale: Literal["linear", "log", "symlog"] = "linear"
    linear_to: float = 0.01
    """Up to where a symlog scale is about linear."""
    zero: bool = True
    """Whether 0 is shown, if no domain is given."""
    ticks: Sequence[float] | Mapping[float, str] | None = None
    """Where ticks stand, with their names if they have any."""
    names: Sequence[str] | None = None
    """The categories of an axis that has no numbers."""

    def channel(self, name: Literal["x", "y"]) -> dict[str, Any]:
        """Return Vega-Lite's description of this axis."""
        axis: dict[str, Any] = {"grid": name == "y" and self.names is None}
        channel: dict[str, Any] = {"field": name, "title": self.title or None, "axis": axis}
        if self.names is not None:
            axis |= {"domain": False, "ticks": False, "labelLimit": 320, "labelAngle": -90 if name == "x" else 0}
            return channel | {"type": "nominal", "sort": None, "scale": {"domain": list(self.names), "padding": 0.04}}
        axis["labelFlush"] = False  # or the first and last label move inwards, over their neighbours
        if self.ticks is not None:
            axis["values"] = list(self.ticks)
        if isinstance(self.ticks, Mapping):
            named = {f"{place:g}".replace("-", "−"): text for place, text in self.ticks.items()}  # as Vega writes minus
            axis["labelExpr"] = f"({json.dumps(named)})[format(datum.value, '~g')]"
        elif self.scale == "symlog":
            axis["format"] = "~g"
        elif self.scale == "log":
            ticks = {"values": _decades(*self.domain)} if self.domain else {"tickCount": 6}
            axis |= {"format": ".0e"} if self.ticks else {"format": ".0e"} | ticks
        scale: dict[str, Any] = {"type": self.scale}
        if self.scale == "symlog":
            scale["constant"] = self.linear_to
        if self.domain is not None:
            scale |= {"domain": list(self.domain), "nice": False}
        elif self.scale == "linear":
            scale["zero"] = self.zero
        return channel | {"type": "quantitative", "scale": scale}


def _decades(low: float, high: float) -> list[float]:
    return [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


class Panel:
    """Collects what is drawn between two axes. Methods take a `Series` first, and return nothing.

    Example:
        >>> panel = Panel("A", x=Axis("step"), y=Axis("error"))
        >>> panel.curve(Series("Mamba", "#0072B2"), [0, 100], [{0: 0.5, 1: 0.4}, {0: 0.1, 1: None}])
        >>> [series.name for series in panel.series]
        ['Mamba']
    """

    def __init__(
        self,
        title: str = "",
        *,
        x: Axis,
        y: Axis,
        height: int = 220,
        behind: Panel | None = None,
        shading: Shading = DIVERGING,
    ) -> None:
        self.title, self.x, self.y, self.height, self.shading = title, x, y, height, shading
        self.behind = behind
        """Another panel in the same place, drawn first, with a vertical axis of its own on the right."""
        self._series: dict[str, Series] = {}
        self._lines: list[Record] = []
        self._bands: list[Record] = []
        self._points: list[Record] = []
        self._bars: list[Record] = []
        self._ranges: list[Record] = []
        self._cells: list[Record] = []
        self._tiles: list[Record] = []
        self._patches: list[Record] = []
        self._rules: list[Record] = []
        self._notes: list[Record] = []
        self._curves = 0

    @property
    def series(self) -> list[Series]:
        """Everything the legend may name, in the order it was drawn."""
        return list(((self.behind._series if self.behind else {}) | self._series).values())

    # What can be drawn.

    def curve(
        self, series: Series, xs: Sequence[float], by_seed: Sequence[Mapping[int, float | None]], *, band: bool = True
    ) -> None:
        """Draw means over seeds, with a band from the lowest to the highest seed; skip points without any seed.

        Without any point there is no curve, and no name in the legend.
        """
        found = []
        for x, values in zip(xs, by_seed, strict=True):
            good = [value for value in values.values() if value is not None]
            if good:
                found.append((x, sum(good) / len(good), min(good), max(good)))
        if band and len(found) > 1:
            self.band(series, [f[0] for f in found], [f[2] for f in found], [f[3] for f in found])
        self._add(series, [{"x": x, "y": mean, "low": low, "high": high} for x, mean, low, high in found])

    def line(self, series: Series, xs: Sequence[float], ys: Sequence[float], *, marks: bool = True) -> None:
        """Draw given numbers as one curve, with or without the marks of its series."""
        self._add(series, [{"x": x, "y": y} for x, y in zip(xs, ys, strict=True)], marks)

    def band(self, series: Series, xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
        """Shade between two curves."""
        self._know(series)
        self._bands += [
            {"series": series.name, "part": self._curves, "x": x, "low": a, "high": b}
            for x, a, b in zip(xs, low, high, strict=True)
        ]

    def points(
        self,
        series: Series,
        xs: Sequence[float],
        ys: Sequence[float],
        *,
        faint: bool = False,
        hollow: bool | None = None,
    ) -> None:
        """Draw marks alone; faint ones stay behind the others, hollow ones are empty inside."""
        self._know(series)
        look = {"series": series.name, "faint": faint, "hollow": series.hollow if hollow is None else hollow}
        self._points += [look | {"x": x, "y": y} for x, y in zip(xs, ys, strict=True)]

    def interval(self, series: Series, x: float, y: float, low: float, high: float) -> None:
        """Draw a mean with its interval as a vertical line."""
        self._ranges.append({"series": series.name, "x": x, "low": low, "high": high})
        self.points(series, [x], [y])
        self._points[-1] |= {"low": low, "high": high}

    def step(self, series: Series, left: float, right: float, y: float) -> None:
        """Draw a short horizontal line."""
        self._add(series, [{"x": left, "y": y}, {"x": right, "y": y}])

    def stem(self, series: Series, x: float, y: float) -> None:
        """Draw a vertical line from 0 to a mark."""
        self._ranges.append({"series": series.name, "x": x, "low": 0.0, "high": y})
        self.points(series, [x], [y])

    def bars(self, series: Series, edges: Sequence[float], heights: Sequence[float]) -> None:
        """Draw bars between neighbouring edges."""
        self._know(series)
        for (left, right), height in zip(pairwise(edges), heights, strict=True):
            self._bars.append({"series": series.name, "x": left, "x2": right, "y": height})

    def cell(self, series: Series, x: str, y: str, mark: str = "") -> None:
        """Fill one cell of a heat map whose axes have names, with a sign for those who cannot tell its colour."""
        self._know(series)
        self._cells.append({"series": series.name, "x": x, "y": y, "mark": mark})

    def tile(self, x: str, y: str, value: float, text: str = "") -> None:
        """Fill one cell of a map of numbers, whose axes have names; ``shading`` says which colour a number has."""
        self._tiles.append({"x": x, "y": y, "value": value, "text": text})

    def patch(self, across: tuple[float, float], up: tuple[float, float], value: float) -> None:
        """Fill a rectangle of a map of numbers whose axes have numbers, so that curves can be drawn over it."""
        self._patches.append({"x": across[0], "x2": across[1], "y": up[0], "y2": up[1], "value": value})

    def rule(
        self, *, x: float | None = None, y: float | None = None, dash: Sequence[float] = (), ink: str = FAINT
    ) -> None:
        """Draw a line across the whole panel."""
        self._rules.append({"x": x, "y": y, "dash": list(dash), "ink": ink})

    def note(self, text: str, x: float, y: float, *, align: str = "left", colour: str = INK) -> None:
        """Write a few words at a place of the panel."""
        self._notes.append({"text": text, "x": x, "y": y, "align": align, "colour": colour})

    def _know(self, series: Series) -> None:
        known = self._series.setdefault(series.name, series)
        if known != series:
            raise ValueError(f"series = {series.name!r}: has two looks in the panel {self.title!r}")

    def _add(self, series: Series, found: list[Record], marks: bool = True) -> None:
        """Add one curve: its line, and a mark for each point (an unseen one, to hover over, where it has none)."""
        if found:
            self._know(series)
        if series.line and len(found) > 1:
            part = {"series": series.name, "part": self._curves}
            self._lines += [part | {"x": f["x"], "y": f["y"], "order": i} for i, f in enumerate(found)]
        self._curves += 1
        look = {"series": series.name, "faint": False, "hollow": series.hollow}
        if not marks:
            look["unseen"] = True
        self._points += [f | look for f in found]

    # How it is drawn.

    def spec(self, width: int) -> dict[str, Any]:
        """Return the panel as Vega-Lite."""
        looks = layers.Looks(self.series)
        spec: dict[str, Any] = {"width": width, "height": self.height, "layer": self._layers(looks)}
        if self.behind is not None:
            spec["layer"] = [{"layer": self.behind._layers(looks, right=True)}, {"layer": spec["layer"]}]
            spec["resolve"] = {"scale": {"y": "independent"}}
        return spec | ({"title": {"text": self.title, "anchor": "start", "frame": "group"}} if self.title else {})

    def _layers(self, looks: layers.Looks, right: bool = False) -> list[dict[str, Any]]:
        x, y = self.x.channel("x"), self.y.channel("y")
        if right:
            y["axis"] |= {"orient": "right", "grid": False}
        found = [
            *layers.rules(self._rules, x, y),
            *layers.bars(self._bars, looks, x, y),
            *layers.cells(self._cells, looks, x, y),
            *layers.tiles(self._tiles, self.shading, x, y),
            *layers.patches(self._patches, self.shading, x, y),
            *layers.bands(self._bands, looks, x, y),
            *layers.lines(self._lines, looks, x, y),
            *layers.ranges(self._ranges, looks, x, y),
            *layers.points(self._points, looks, x, y),
            *layers.notes(self._notes, x, y),
        ]
        empty = {"data": {"values": []}, "mark": "point", "encoding": {"x": x, "y": y}}
        return found or [empty]
