"""Drawn figures made interactive: what Matplotlib drew, told again to Plotly.

An experiment draws its figure once. This walks over what it drew (curves, bands, bars, marks, heat maps, notes) and
describes the same for the browser, where one can hover, zoom and switch curves off. Curves of one name are one entry
of the legend, in all panels together. A figure with anything else in it is refused (`CannotTellError`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.category import StrCategoryLocator
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator, NullLocator

from iclab.report.traces import (
    CannotTellError,
    Names,
    Trace,
    colour_of,
    dashes_of,
    explained,
    placed,
    stand_for,
    tell_apart,
    traces_of,
)

PIXELS = 84
"""For an inch of the drawn figure's height."""
GAP = 33
"""Pixels that a panel leaves to the heading of the one below it."""
LEAST = 900
"""How wide a heat map is at least: on a narrow screen one moves it sideways."""


@dataclass
class _Panel:
    """One pair of axes, and its name in the browser."""

    axes: Axes
    number: int
    over: _Panel | None = None
    """The panel it lies on, with another vertical scale."""

    @property
    def suffix(self) -> str:
        return "" if self.number == 1 else str(self.number)

    @property
    def x(self) -> str:
        return f"x{self.suffix}"

    @property
    def y(self) -> str:
        return f"y{self.suffix}"


def interactive(figure: Figure) -> dict[str, Any]:
    """Describe a drawn figure to Plotly: its traces, its layout, and a second layout for narrow screens."""
    panels = _panels(figure)
    if not panels:
        raise CannotTellError("no panel")
    names = Names.of(figure)
    traces: list[Trace] = []
    layout: dict[str, Any] = {"annotations": [], "shapes": [], "hovermode": "closest"}
    height = float(figure.get_size_inches()[1]) * PIXELS
    wide, narrow, lines = _places(panels, height)
    for panel in panels:
        across = _axis(panel.axes.xaxis, wide[panel.number][0], panel.y)
        up = _axis(panel.axes.yaxis, wide[panel.number][1], panel.x)
        if panel.axes.yaxis.get_label_position() == "right":
            up |= {"side": "right", "showgrid": False}
        if panel.over is not None:
            lower = layout[f"xaxis{panel.over.suffix}"]  # the one that is seen
            lower["title"] = across["title"] if across["title"]["text"] else lower["title"]
            across |= {"visible": False, "matches": panel.over.x}
            up |= {"overlaying": panel.over.y, "tickmode": up.get("tickmode", "auto")}
        layout[f"xaxis{panel.suffix}"], layout[f"yaxis{panel.suffix}"] = across, up
        if heading := _heading(panel.axes):
            place = {"xref": f"{panel.x} domain", "yref": f"{panel.y} domain", "x": 0, "y": 1}
            looks = {"xanchor": "left", "yanchor": "bottom", "showarrow": False, "text": f"<b>{heading}</b>"}
            layout["annotations"].append(place | looks)
        traces += [trace | {"xaxis": panel.x, "yaxis": panel.y} for trace in traces_of(panel.axes, names)]
        layout["shapes"] += [shape for line in panel.axes.lines if (shape := _rule(panel, line))]
        layout["annotations"] += [note for text in panel.axes.texts if (note := _note(panel, text))]
    stand_for(traces)
    traces += explained(figure, traces)
    tell_apart(traces, {panel.x: _heading(panel.axes) for panel in panels})
    domains = {}
    for panel in panels:
        domains[f"xaxis{panel.suffix}.domain"] = narrow[panel.number][0]
        domains[f"yaxis{panel.suffix}.domain"] = narrow[panel.number][1]
    return {
        "data": traces,
        "layout": layout | {"height": round(height)},
        "narrow": domains | {"height": max(300, 270 * lines) + 120},
        "least": LEAST if any(trace["type"] == "heatmap" for trace in traces) else 0,
    }


def _heading(axes: Axes) -> str:
    return axes.get_title("left") or axes.get_title("center")


def _panels(figure: Figure) -> list[_Panel]:
    panels: list[_Panel] = []
    for axes in sorted(figure.axes, key=lambda axes: axes.get_zorder()):  # of two on one place, the lower first
        if not axes.get_visible():
            continue
        under = next(
            (p for p in panels if p.axes in axes.get_shared_x_axes().get_siblings(axes) and _same(p, axes)), None
        )
        panels.append(_Panel(axes, len(panels) + 1, under))
    return panels


def _same(panel: _Panel, axes: Axes) -> bool:
    return np.allclose(panel.axes.get_position().bounds, axes.get_position().bounds)


Places = dict[int, tuple[list[float], list[float]]]


def _places(panels: list[_Panel], height: float) -> tuple[Places, Places, int]:
    """Where panels stand: as drawn, stretched to the whole width and height, and one below the other.

    Titles need more room in the browser than on paper: what does not stand at the left or the bottom gives way.
    """
    boxes = {panel.number: panel.axes.get_position() for panel in panels}
    left, right = min(b.x0 for b in boxes.values()), max(b.x1 for b in boxes.values())
    low, high = min(b.y0 for b in boxes.values()), max(b.y1 for b in boxes.values())
    twins = {panel.over.number for panel in panels if panel.over} | {p.number for p in panels if p.over}
    wide: Places = {}
    for number, box in boxes.items():
        x0, x1 = ((x - left) / (right - left) for x in (box.x0, box.x1))
        y0, y1 = ((y - low) / (high - low) for y in (box.y0, box.y1))
        x0 += 0.012 if x0 > 0.01 else 0.0
        x1 -= 0.045 if number in twins else 0.0
        y0 += GAP / height if y0 > 0.01 else 0.0
        wide[number] = ([round(x0, 4), round(x1, 4)], [round(y0, 4), round(y1, 4)])
    alone = sorted(
        (p for p in panels if p.over is None), key=lambda p: (-round(boxes[p.number].y1, 3), boxes[p.number].x0)
    )
    narrow: Places = {}
    for row, panel in enumerate(alone):
        top = 1 - row / len(alone)
        narrow[panel.number] = ([0.0, 1.0], [round(top - 0.74 / len(alone), 4), round(top, 4)])
    for panel in panels:
        if panel.over is not None:
            narrow[panel.number] = narrow[panel.over.number]
    return wide, narrow, len(alone)


def _axis(axis: Axis, domain: list[float], anchor: str) -> dict[str, Any]:
    low, high = axis.get_view_interval()
    logarithmic = axis.get_scale() == "log"
    ends = [float(np.log10(v)) if logarithmic else v for v in placed(axis, (low, high))]
    about: dict[str, Any] = {
        "domain": domain,
        "anchor": anchor,
        "range": ends,
        "title": {"text": axis.get_label().get_text(), "standoff": 6, "font": {"size": 12.5}},
        "zeroline": False,
    }
    if axis.get_scale() == "symlog":  # which the browser does not know: told in places and names of ticks
        inside = [float(t) for t in axis.get_majorticklocs() if min(low, high) <= t <= max(low, high)]
        about |= {"tickvals": placed(axis, inside), "ticktext": [f"{tick:g}" for tick in inside]}
    if logarithmic:
        about |= {"type": "log", "dtick": 1, "exponentformat": "power", "tickfont": {"size": 11}}
    locator = axis.get_major_locator()
    if isinstance(locator, (FixedLocator, NullLocator, StrCategoryLocator)):
        ticks = [float(tick) for tick in locator()]
        turned = {float(label.get_rotation()) for label in axis.get_ticklabels()}
        about |= {"tickvals": ticks, "ticktext": axis.get_major_formatter().format_ticks(ticks)}
        if len(turned) == 1 and turned != {0.0}:
            about |= {"tickangle": -turned.pop(), "tickfont": {"size": 10}}
    if not axis.get_tick_params().get("labelbottom" if isinstance(axis, XAxis) else "labelleft", True):
        about["showticklabels"] = bool(axis.get_tick_params().get("labelright", False))
    return about


def _rule(panel: _Panel, line: Line2D) -> dict[str, Any] | None:
    """A line across the whole panel: `axvline`, `axhline`."""
    look = {
        "type": "line",
        "layer": "below",
        "line": {"color": colour_of(line.get_color()), "width": 1, "dash": dashes_of(line)},
    }
    if line.get_transform() == panel.axes.get_xaxis_transform():
        x = float(np.asarray(line.get_xdata())[0])
        return look | {"xref": panel.x, "yref": f"{panel.y} domain", "x0": x, "x1": x, "y0": 0, "y1": 1}
    if line.get_transform() == panel.axes.get_yaxis_transform():
        (y,) = placed(panel.axes.yaxis, np.asarray(line.get_ydata())[:1])
        return look | {"xref": f"{panel.x} domain", "yref": panel.y, "x0": 0, "x1": 1, "y0": y, "y1": y}
    return None


def _coordinates(axes: Axes, text: Any) -> tuple[Any, Any]:
    """In what the place of a note is said, across and up: in data, or in shares of the panel."""
    if isinstance(text, Annotation):
        said = text.xycoords if isinstance(text.xycoords, tuple) else (text.xycoords, text.xycoords)
    else:
        ways = (
            (axes.transData, ("data", "data")),
            (axes.transAxes, ("axes fraction", "axes fraction")),
            (axes.get_xaxis_transform(), ("data", "axes fraction")),
            (axes.get_yaxis_transform(), ("axes fraction", "data")),
        )
        said = next((words for way, words in ways if way == text.get_transform()), ("elsewhere", "elsewhere"))
    if not {*said} <= {"data", "axes fraction"}:
        raise CannotTellError(f"the note {text.get_text()!r}, which stands on no axis")
    return said


def _note(panel: _Panel, text: Any) -> dict[str, Any] | None:
    """A note beside the curves, or an arrow."""
    place = text.xy if isinstance(text, Annotation) else text.get_position()
    across, up = _coordinates(panel.axes, text)
    note: dict[str, Any] = {"text": text.get_text(), "showarrow": False}
    scales = ((panel.axes.xaxis, across, panel.x, "x"), (panel.axes.yaxis, up, panel.y, "y"))
    for value, (axis, kind, name, key) in zip(place, scales, strict=True):
        data = kind == "data"
        note[f"{key}ref"] = name if data else f"{name} domain"
        note[key] = float(np.log10(value)) if data and axis.get_scale() == "log" else float(value)
        if data and axis.get_scale() == "symlog":
            (note[key],) = placed(axis, [value])
    if isinstance(text, Annotation) and text.arrow_patch is not None and not text.get_text():
        note |= {
            "showarrow": True,
            "ax": 0,
            "ay": 14,
            "arrowhead": 2,
            "arrowcolor": colour_of(text.arrow_patch.get_edgecolor()),
        }
        return note
    if not text.get_text():
        return None
    sides = {"left": "left", "right": "right", "center": "center"}
    heights = {"bottom": "bottom", "top": "top", "center": "middle", "baseline": "bottom", "center_baseline": "middle"}
    note |= {"xanchor": sides[text.get_ha()], "yanchor": heights[text.get_va()]}
    return note | {"font": {"color": colour_of(text.get_color()), "size": 11}}
