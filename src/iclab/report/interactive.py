"""Drawn figures made interactive: what Matplotlib drew, told again to Plotly.

An experiment draws its figure once. This walks over what it drew (curves, bands, bars, marks, heat maps, notes) and
describes the same for the browser, where one can hover, zoom and switch curves off. Curves of one name are one entry
of the legend, in all panels together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator, NullLocator

INK = "#222222"
"""The colour that themes change: that of `iclab.experiments.style`."""

PIXELS = 84
"""For an inch of the drawn figure's height."""

SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "D": "diamond",
    "x": "x",
    "*": "star",
}
SYMBOLS |= {"_": "line-ew-open", "|": "line-ns-open", "+": "cross-thin-open", "d": "diamond-tall", "P": "cross"}

Trace = dict[str, Any]


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


@dataclass
class _Names:
    """The legend: which look has which name."""

    by_look: dict[tuple[Any, ...], str] = field(default_factory=dict)
    by_colour: dict[str, set[str]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, figure: Figure) -> _Names:
        names = cls()
        for legend in [*figure.legends, *(a.get_legend() for a in figure.axes)]:
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True) if legend else ():
                if isinstance(handle, Line2D):
                    names.by_look.setdefault(_look(handle), text.get_text())
                    names.by_colour.setdefault(_colour(handle.get_color()), set()).add(text.get_text())
        return names

    def name(self, line: Line2D) -> str:
        """The name of a line: its own, or that of what looks the same in the legend."""
        label = str(line.get_label())
        if not label.startswith("_"):
            return label
        return self.by_look.get(_look(line), "") or (self.of_colour(_colour(line.get_color())) if _marked(line) else "")

    def of_colour(self, colour: str | None) -> str:
        """The only name that has a colour."""
        found = self.by_colour.get(colour or "", set())
        return next(iter(found)) if len(found) == 1 else ""

    def entry(self, name: str) -> dict[str, Any]:
        """Put a trace under its name; the first one stands in the legend."""
        if not name:
            return {"showlegend": False}
        first = name not in self.shown
        self.shown.add(name)
        return {"name": name, "legendgroup": name, "showlegend": first}


def interactive(figure: Figure) -> dict[str, Any]:
    """Describe a drawn figure to Plotly: its traces, its layout, and a second layout for narrow screens."""
    panels = _panels(figure)
    names = _Names.of(figure)
    traces: list[Trace] = []
    layout: dict[str, Any] = {"annotations": [], "shapes": [], "hovermode": "closest"}
    wide, narrow, lines = _places(panels)
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
        heading = panel.axes.get_title("left") or panel.axes.get_title("center")
        if heading:
            place = {"xref": f"{panel.x} domain", "yref": f"{panel.y} domain", "x": 0, "y": 1}
            looks = {"xanchor": "left", "yanchor": "bottom", "showarrow": False, "text": f"<b>{heading}</b>"}
            layout["annotations"].append(place | looks)
        traces += _traces(panel, names)
        layout["shapes"] += [shape for line in panel.axes.lines if (shape := _rule(panel, line))]
        layout["annotations"] += [note for text in panel.axes.texts if (note := _note(panel, text))]
    traces += _swatches(figure)
    _stand_for(traces)
    height = float(figure.get_size_inches()[1]) * PIXELS
    domains = {}
    for panel in panels:
        domains[f"xaxis{panel.suffix}.domain"] = narrow[panel.number][0]
        domains[f"yaxis{panel.suffix}.domain"] = narrow[panel.number][1]
    return {
        "data": traces,
        "layout": layout | {"height": round(height)},
        "narrow": domains | {"height": max(300, 270 * lines) + 120},
    }


def _swatches(figure: Figure) -> list[Trace]:
    """Colours that the legend explains but no curve has: empty traces, for the legend alone."""
    found = []
    for legend in figure.legends:
        for patch, name in _swatch_handles(legend):
            mark = {"color": _colour(patch.get_facecolor()), "symbol": "square", "size": 11}
            about = {"name": name, "showlegend": True, "hoverinfo": "skip"}
            found.append({"type": "scatter", "mode": "markers", "x": [None], "y": [None], "marker": mark} | about)
    return found


def _swatch_handles(legend: Any) -> list[tuple[Patch, str]]:
    pairs = zip(legend.legend_handles, legend.get_texts(), strict=True)
    return [(handle, text.get_text()) for handle, text in pairs if isinstance(handle, Patch)]


def _stand_for(traces: list[Trace]) -> None:
    """Let the plainest curve of each name stand for it in the legend, not one that is faint or small."""
    best: dict[str, Trace] = {}
    for trace in traces:
        if trace.get("showlegend") is not None and "line" in trace and trace.get("name") and trace["mode"] != "none":
            size = trace.get("marker", {}).get("size", 0)
            weight = (trace.get("opacity", 1.0), size)
            kept = best.get(trace["name"])
            if kept is None or weight > (kept.get("opacity", 1.0), kept.get("marker", {}).get("size", 0)):
                best[trace["name"]] = trace
    for trace in traces:
        if trace.get("name") in best:
            trace["showlegend"] = trace is best[trace["name"]]


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


def _places(panels: list[_Panel]) -> tuple[Places, Places, int]:
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
        y0 += 0.055 if y0 > 0.01 else 0.0
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
    ends = [float(np.log10(v)) if logarithmic else v for v in _placed(axis, (low, high))]
    about: dict[str, Any] = {
        "domain": domain,
        "anchor": anchor,
        "range": ends,
        "title": {"text": axis.get_label().get_text(), "standoff": 6, "font": {"size": 12.5}},
        "zeroline": False,
    }
    if axis.get_scale() == "symlog":  # which the browser does not know: told in places and names of ticks
        inside = [float(t) for t in axis.get_majorticklocs() if min(low, high) <= t <= max(low, high)]
        about |= {"tickvals": _placed(axis, inside), "ticktext": [f"{tick:g}" for tick in inside]}
    if logarithmic:
        about |= {"type": "log", "dtick": 1, "exponentformat": "power", "tickfont": {"size": 11}}
    locator = axis.get_major_locator()
    if isinstance(locator, (FixedLocator, NullLocator)):
        ticks = [float(tick) for tick in locator()]
        turned = {float(label.get_rotation()) for label in axis.get_ticklabels()}
        about |= {"tickvals": ticks, "ticktext": axis.get_major_formatter().format_ticks(ticks)}
        about |= {"tickangle": -turned.pop()} if len(turned) == 1 and turned != {0.0} else {}
    if not axis.get_tick_params().get("labelbottom" if isinstance(axis, XAxis) else "labelleft", True):
        about["showticklabels"] = bool(axis.get_tick_params().get("labelright", False))
    return about


def _placed(axis: Axis, values: Any) -> list[float]:
    """Where values stand on an axis that the browser takes for linear or logarithmic."""
    given = np.asarray(values, dtype=float)
    if axis.get_scale() not in ("linear", "log", "symlog"):
        raise NotImplementedError(f"a scale that the report cannot draw: {axis.get_scale()}")
    placed = axis.get_transform().transform(given) if axis.get_scale() == "symlog" else given
    return [float(value) for value in placed]


def _traces(panel: _Panel, names: _Names) -> list[Trace]:
    """Everything with numbers in one panel: what lies below comes first."""
    axes = panel.axes
    found: list[tuple[float, Trace]] = []
    named = {_colour(line.get_color()): names.name(line) for line in axes.lines if names.name(line)}
    for image in axes.images:
        found.append((image.get_zorder(), _heat(image, axes)))
    for container in axes.containers:
        if isinstance(container, BarContainer):
            found.append((1.0, _bars(container)))
    for collection in axes.collections:
        trace = _collected(collection)
        if trace is not None:
            colour = trace.pop("colour", None)
            group = named.get(colour) or names.of_colour(colour)
            trace |= names.entry("") | ({"legendgroup": group, "name": group} if group else {})
            found.append((collection.get_zorder(), trace))
    for line in axes.lines:
        if line.get_transform() == axes.transData and len(line.get_xdata()) and line.get_visible():  # type: ignore[arg-type]
            name = names.name(line) or (named.get(_colour(line.get_color()), "") if _marked(line) else "")
            curve = _curve(line) | names.entry(name)
            if name and "hovertemplate" in curve:
                curve["hovertemplate"] = curve["hovertemplate"].replace(
                    "<extra></extra>", "<extra>%{fullData.name}</extra>"
                )
            found.append((line.get_zorder(), curve))
    ordered = sorted(found, key=lambda pair: pair[0])
    return [trace | {"xaxis": panel.x, "yaxis": panel.y} for _, trace in ordered]


def _curve(line: Line2D) -> Trace:
    marked, drawn = _marked(line), line.get_linestyle() not in ("None", "", " ")
    colour = _colour(line.get_color())
    trace: Trace = {
        "type": "scatter",
        "mode": "+".join(part for part, on in (("lines", drawn), ("markers", marked)) if on) or "none",
        "x": _numbers(line.get_xdata()),
        "y": _numbers(_placed(_axes(line).yaxis, line.get_ydata())),
        "customdata": _numbers(line.get_ydata()),
        "line": {"color": colour, "width": float(line.get_linewidth()) * 1.2, "dash": _dashes(line)},
        "hovertemplate": "%{x:.4~g}: %{customdata:.4~g}<extra></extra>",
    }
    if line.get_alpha() is not None:
        trace["opacity"] = float(line.get_alpha())  # type: ignore[arg-type]
    if marked:
        face, edge = line.get_markerfacecolor(), line.get_markeredgecolor()
        trace["marker"] = {
            "symbol": SYMBOLS.get(str(line.get_marker()), "circle"),
            "size": float(line.get_markersize()) * 1.4,
            "color": _colour(face),
            "line": {"color": _colour(edge), "width": 1.2 if _colour(face) != _colour(edge) else 0},
        }
    if not marked and len(trace["x"]) == 2:  # a guide, not a measurement
        trace["hoverinfo"] = "skip"
        trace.pop("hovertemplate")
    return trace


def _collected(collection: Collection) -> Trace | None:
    """Bands, bundles of lines, and marks."""
    if isinstance(collection, PathCollection):
        places = np.ma.filled(collection.get_offsets(), np.nan)
        colours = [_colour(c) for c in np.atleast_2d(collection.get_facecolor())] or ["#888888"]
        return {
            "type": "scatter",
            "mode": "markers",
            "x": _numbers(places[:, 0]),
            "y": _numbers(_placed(_axes(collection).yaxis, places[:, 1])),
            "marker": {
                "color": colours if len(colours) == len(places) else colours[0],
                "size": 6,
                "opacity": _alpha(collection),
            },
            "colour": colours[0],
            "hovertemplate": "%{x:.4~g}, %{y:.4~g}<extra></extra>",
        }
    if isinstance(collection, LineCollection):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for segment in collection.get_segments():
            xs += [*_numbers(segment[:, 0]), None]
            ys += [*_numbers(_placed(_axes(collection).yaxis, segment[:, 1])), None]
        colours = [_colour(c) for c in collection.get_colors()] or ["#888888"]
        width = float(np.atleast_1d(collection.get_linewidth())[0])
        look = {"color": colours[0], "width": width * 1.2}
        return {
            "type": "scatter",
            "mode": "lines",
            "x": xs,
            "y": ys,
            "line": look,
            "colour": colours[0],
            "hoverinfo": "skip",
        }
    faces = np.atleast_2d(collection.get_facecolor())
    if isinstance(collection, PolyCollection) and collection.get_paths() and faces.size:
        corners = np.concatenate([path.vertices for path in collection.get_paths()])
        red, green, blue, alpha = faces[0]
        fill = f"rgba({round(255 * red)},{round(255 * green)},{round(255 * blue)},{alpha:.3g})"
        return {
            "type": "scatter",
            "mode": "none",
            "fill": "toself",
            "fillcolor": fill,
            "x": _numbers(corners[:, 0]),
            "y": _numbers(_placed(_axes(collection).yaxis, corners[:, 1])),
            "hoverinfo": "skip",
            "colour": to_hex((red, green, blue)),
        }
    return None


def _bars(container: BarContainer) -> Trace:
    bars = container.patches
    colour = bars[0].get_facecolor() if bars else "#888888"
    return {
        "type": "bar",
        "x": [float(b.get_x() + b.get_width() / 2) for b in bars],
        "y": [float(b.get_height()) for b in bars],
        "width": [float(b.get_width()) for b in bars],
        "base": [float(b.get_y()) for b in bars],
        "marker": {
            "color": _colour(colour),
            "opacity": float(to_rgba(colour)[3]),
        },
        "hovertemplate": "%{x:.4~g}: %{y:.4~g}<extra></extra>",
        "showlegend": False,
    }


def _heat(image: Any, axes: Axes) -> Trace:
    """A heat map; where rows and columns are named, so is every cell."""
    left, right, bottom, top = image.get_extent()
    values: Any = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
    high, wide = values.shape
    rows = bottom + (np.arange(high) + 0.5) * (top - bottom) / high
    steps = np.linspace(0, 1, 11)
    low, most = image.get_clim()
    patches = [handle for legend in image.get_figure().legends for handle in _swatch_handles(legend)]
    meanings = {_colour(patch.get_facecolor()): name for patch, name in patches}
    return {
        "type": "heatmap",
        "x": _numbers(left + (np.arange(wide) + 0.5) * (right - left) / wide),
        "y": _numbers(rows if image.origin == "lower" else rows[::-1]),
        "z": [_numbers(row) for row in values],
        "zmin": float(low),
        "zmax": float(most),
        "colorscale": [[float(s), to_hex(image.get_cmap()(s))] for s in steps],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "text",
        "text": [
            [
                f"{row}<br>{column}<br><b>{meanings.get(_colour(image.to_rgba(value)), '')}</b>"
                for column, value in zip(_ticks(axes.xaxis), line, strict=False)
            ]
            for row, line in zip(_ticks(axes.yaxis), values, strict=False)
        ],
    }


def _ticks(axis: Axis) -> list[str]:
    locator = axis.get_major_locator()
    return list(axis.get_major_formatter().format_ticks([float(tick) for tick in locator()]))


def _rule(panel: _Panel, line: Line2D) -> dict[str, Any] | None:
    """A line across the whole panel: `axvline`, `axhline`."""
    look = {
        "type": "line",
        "layer": "below",
        "line": {"color": _colour(line.get_color()), "width": 1, "dash": _dashes(line)},
    }
    if line.get_transform() == panel.axes.get_xaxis_transform():
        x = float(np.asarray(line.get_xdata())[0])
        return look | {"xref": panel.x, "yref": f"{panel.y} domain", "x0": x, "x1": x, "y0": 0, "y1": 1}
    if line.get_transform() == panel.axes.get_yaxis_transform():
        (y,) = _placed(panel.axes.yaxis, np.asarray(line.get_ydata())[:1])
        return look | {"xref": f"{panel.x} domain", "yref": panel.y, "x0": 0, "x1": 1, "y0": y, "y1": y}
    return None


def _note(panel: _Panel, text: Any) -> dict[str, Any] | None:
    """A note beside the curves, or an arrow."""
    place = text.xy if isinstance(text, Annotation) else text.get_position()
    coordinates = text.xycoords if isinstance(text, Annotation) else "data"
    across, up = coordinates if isinstance(coordinates, tuple) else (coordinates, coordinates)
    note: dict[str, Any] = {"text": text.get_text(), "showarrow": False}
    scales = ((panel.axes.xaxis, across, panel.x, "x"), (panel.axes.yaxis, up, panel.y, "y"))
    for value, (axis, kind, name, key) in zip(place, scales, strict=True):
        data = kind == "data"
        note[f"{key}ref"] = name if data else f"{name} domain"
        note[key] = float(np.log10(value)) if data and axis.get_scale() == "log" else float(value)
        if data and axis.get_scale() == "symlog":
            (note[key],) = _placed(axis, [value])
    if isinstance(text, Annotation) and text.arrow_patch is not None and not text.get_text():
        note |= {
            "showarrow": True,
            "ax": 0,
            "ay": 14,
            "arrowhead": 2,
            "arrowcolor": _colour(text.arrow_patch.get_edgecolor()),
        }
        return note
    if not text.get_text():
        return None
    sides = {"left": "left", "right": "right", "center": "center"}
    heights = {"bottom": "bottom", "top": "top", "center": "middle", "baseline": "bottom", "center_baseline": "middle"}
    note |= {"xanchor": sides[text.get_ha()], "yanchor": heights[text.get_va()]}
    return note | {"font": {"color": _colour(text.get_color()), "size": 11}}


def _look(line: Line2D) -> tuple[Any, ...]:
    """What one sees of a line, by which the legend knows it."""
    drawn = line.get_linestyle() not in ("None", "", " ")
    marker = str(line.get_marker()) if _marked(line) else ""
    hollow = bool(marker) and _colour(line.get_markerfacecolor()) != _colour(line.get_color())
    return _colour(line.get_color()), _dashes(line) if drawn else "none", marker, hollow


def _marked(line: Line2D) -> bool:
    return line.get_marker() not in ("", "None", None)


def _dashes(line: Line2D) -> str:
    if not line.is_dashed():
        return "solid"
    dashes = line._unscaled_dash_pattern[1]  # type: ignore[attr-defined]  # which Matplotlib tells in no other way
    return ",".join(f"{2 * d:g}px" for d in dashes) if dashes else "dash"


def _colour(colour: Any) -> str:
    """A colour as the browser takes it; plain black becomes the ink that themes change."""
    if isinstance(colour, str) and colour == "none":
        return "rgba(0,0,0,0)"
    found = to_hex(to_rgba(colour))
    return INK if found == "#000000" else found


def _axes(artist: Any) -> Axes:
    return artist.axes


def _alpha(collection: Collection) -> float:
    alpha = collection.get_alpha()
    return float(alpha) if isinstance(alpha, (int, float)) else 1.0


def _numbers(values: Any) -> list[float | None]:
    """Numbers as JSON takes them, to six digits; a gap where there is none."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]
