"""The traces of a drawn figure: its curves, bands, bars, marks and heat maps, as Plotly takes them, and their names.

What is drawn in another way is refused with `CannotTellError`, never left out: such a figure is shown as it was drawn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from iclab.study.style import INK

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


class CannotTellError(Exception):
    """A figure has something in it that is not known here."""


@dataclass
class Names:
    """The legend: which look has which name."""

    by_look: dict[tuple[Any, ...], str] = field(default_factory=dict)
    by_colour: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, figure: Figure) -> Names:
        """Read the legends of a figure."""
        names = cls()
        for legend in _legends(figure):
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
                if isinstance(handle, Line2D):
                    names.by_look.setdefault(_look(handle), text.get_text())
                    names.by_colour.setdefault(colour_of(handle.get_color()), set()).add(text.get_text())
        return names

    def name(self, line: Line2D) -> str:
        """The name of a line: its own, or that of what looks the same in the legend."""
        if label := _label(line):
            return label
        return self.by_look.get(_look(line), "") or (
            self.of_colour(colour_of(line.get_color())) if _marked(line) else ""
        )

    def of_colour(self, colour: str | None) -> str:
        """The only name that has a colour."""
        found = self.by_colour.get(colour or "", set())
        return next(iter(found)) if len(found) == 1 else ""

    @staticmethod
    def entry(name: str) -> dict[str, Any]:
        """Put a trace under its name; `stand_for` says later which one stands in the legend."""
        return {"name": name, "legendgroup": name, "showlegend": False} if name else {"showlegend": False}


def traces_of(axes: Axes, names: Names) -> list[Trace]:
    """Everything with numbers in one panel: what lies below comes first."""
    _check(axes)
    found: list[tuple[float, Trace]] = []
    named = {colour_of(line.get_color()): names.name(line) for line in axes.lines if names.name(line)}
    for image in axes.images:
        found.append((image.get_zorder(), _heat(image, axes)))
    for container in axes.containers:
        if isinstance(container, BarContainer):
            found.append((1.0, _bars(container) | names.entry(_label(container))))
    marks: dict[str, str] = {}
    for collection in axes.collections:
        trace = _collected(collection)
        if trace is not None:
            colour = trace.pop("colour", "")
            if label := _label(collection):
                marks[colour] = label
            trace |= names.entry(marks.get(colour) or named.get(colour) or names.of_colour(colour))
            found.append((collection.get_zorder(), trace))
    for line in axes.lines:
        if line.get_transform() == axes.transData and len(line.get_xdata()) and line.get_visible():  # type: ignore[arg-type]
            colour = colour_of(line.get_color())
            name = names.name(line) or (named.get(colour, "") if _marked(line) else "")
            if not _label(line):
                name = marks.get(colour, name)  # with the marks of its panel, rather than with a curve of another
            about_a_cell = (
                {"hoverinfo": "skip", "hovertemplate": None} if axes.images else {}
            )  # which tells more itself
            found.append((line.get_zorder(), _curve(line, name) | names.entry(name) | about_a_cell))
    return [trace for _, trace in sorted(found, key=lambda pair: pair[0])]


def _label(artist: Any) -> str:
    """The name it was given; Matplotlib's own begin with a line."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _check(axes: Axes) -> None:
    """Refuse a panel that has more in it than `traces_of` and `interactive` tell."""
    bars = [container for container in axes.containers if isinstance(container, BarContainer)]
    ways = (axes.transData, axes.get_xaxis_transform(), axes.get_yaxis_transform())
    strange = [
        *(patch for patch in axes.patches if not any(patch in container.patches for container in bars)),
        *(bar for bar in bars if bar.orientation == "horizontal"),
        *(c for c in axes.collections if not isinstance(c, (PathCollection, LineCollection, PolyCollection))),
        *(line for line in axes.lines if line.get_transform() not in ways),
        *(image for image in axes.images if np.asarray(image.get_array()).ndim != 2),
        *axes.tables,
        *axes.child_axes,
    ]
    if strange:
        raise CannotTellError(f"a {type(strange[0]).__name__} in {axes.get_title('left')!r}")
    if axes.xaxis.get_scale() == "symlog":
        raise CannotTellError("a symlog scale across")


def _curve(line: Line2D, name: str) -> Trace:
    marked, drawn = _marked(line), line.get_linestyle() not in ("None", "", " ")
    colour = colour_of(line.get_color())
    trace: Trace = {
        "type": "scatter",
        "mode": "+".join(part for part, on in (("lines", drawn), ("markers", marked)) if on) or "none",
        "x": _numbers(line.get_xdata(orig=False)),
        "y": _numbers(placed(line.axes.yaxis, line.get_ydata(orig=False)) if line.axes else line.get_ydata()),
        "customdata": _numbers(line.get_ydata(orig=False)),
        "line": {"color": colour, "width": float(line.get_linewidth()) * 1.2, "dash": dashes_of(line)},
        "hovertemplate": "%{x:.4~g}: %{customdata:.4~g}<extra>" + ("%{fullData.name}" if name else "") + "</extra>",
    }
    if line.get_alpha() is not None:
        trace["opacity"] = float(line.get_alpha())  # type: ignore[arg-type]
    if marked:
        face, edge = line.get_markerfacecolor(), line.get_markeredgecolor()
        trace["marker"] = {
            "symbol": SYMBOLS.get(str(line.get_marker()), "circle"),
            "size": float(line.get_markersize()) * 1.4,
            "color": colour_of(face),
            "line": {"color": colour_of(edge), "width": 1.2 if colour_of(face) != colour_of(edge) else 0},
        }
    if not marked and len(trace["x"]) == 2:  # a guide, not a measurement
        trace["hoverinfo"] = "skip"
        trace.pop("hovertemplate")
    return trace


def _collected(collection: Collection) -> Trace | None:
    """Bands, bundles of lines, and marks."""
    if isinstance(collection, PathCollection):
        places = np.ma.filled(collection.get_offsets(), np.nan)
        colours = [colour_of(c) for c in np.atleast_2d(collection.get_facecolor())] or ["#888888"]
        return {
            "type": "scatter",
            "mode": "markers",
            "x": _numbers(places[:, 0]),
            "y": _numbers(placed(_axes(collection).yaxis, places[:, 1])),
            "customdata": _numbers(places[:, 1]),
            "marker": {
                "color": colours if len(colours) == len(places) else colours[0],
                "size": 6,
                "opacity": _alpha(collection),
            },
            "colour": colours[0],
            "hovertemplate": "%{x:.4~g}, %{customdata:.4~g}<extra></extra>",
        }
    if isinstance(collection, LineCollection):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for segment in collection.get_segments():
            xs += [*_numbers(segment[:, 0]), None]
            ys += [*_numbers(placed(_axes(collection).yaxis, segment[:, 1])), None]
        colours = [colour_of(c) for c in collection.get_colors()] or ["#888888"]
        width = float(np.atleast_1d(collection.get_linewidth())[0])
        style: Any = collection.get_linestyle()
        dashes = style[0][1]  # in points
        dash = ",".join(f"{1.4 * length:g}px" for length in dashes) if dashes else "solid"
        look = {"color": colours[0], "width": width * 1.2, "dash": dash}
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
        gap = np.full((1, 2), np.nan)
        pieces = [part for path in collection.get_paths() for part in (np.asarray(path.vertices), gap)]
        corners = np.concatenate(pieces[:-1])
        red, green, blue, alpha = faces[0]
        fill = f"rgba({round(255 * red)},{round(255 * green)},{round(255 * blue)},{alpha:.3g})"
        return {
            "type": "scatter",
            "mode": "none",
            "fill": "toself",
            "fillcolor": fill,
            "x": _numbers(corners[:, 0]),
            "y": _numbers(placed(_axes(collection).yaxis, corners[:, 1])),
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
            "color": colour_of(colour),
            "opacity": float(to_rgba(colour)[3]),
        },
        "hovertemplate": "%{x:.4~g}: %{y:.4~g}<extra></extra>",
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
    meanings = {colour_of(patch.get_facecolor()): name for patch, name in patches}

    def meant(value: float) -> str:
        return meanings.get(colour_of(image.to_rgba(value)), f"{value:.4g}")

    across, down = _ticks(axes.xaxis), _ticks(axes.yaxis)
    if (len(across), len(down)) != (wide, high):  # ticks that are not names of cells
        across, down = [""] * wide, [""] * high
    return {
        "type": "heatmap",
        "x": _numbers(left + (np.arange(wide) + 0.5) * (right - left) / wide),
        "y": _numbers(rows if image.origin == "lower" else rows[::-1]),
        "z": [_numbers(row) for row in values],
        "zmin": float(low),
        "zmax": float(most),
        "colorscale": [[float(s), to_hex(image.get_cmap()(s))] for s in steps],
        "showscale": False,
        "showlegend": False,
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "text",
        "text": [
            ["<br>".join(filter(None, (row, column, f"<b>{meant(value)}</b>"))) for column, value in cells]
            for row, line in zip(down, values, strict=True)
            for cells in (zip(across, line, strict=True),)
        ],
    }


def _ticks(axis: Axis) -> list[str]:
    locator = axis.get_major_locator()
    return list(axis.get_major_formatter().format_ticks([float(tick) for tick in locator()]))


def explained(figure: Figure, traces: list[Trace]) -> list[Trace]:
    """What the legends explain and no named trace is: empty traces, for the legend alone."""
    taken, found = {trace.get("name") for trace in traces if "line" in trace}, []
    groups = {trace.get("legendgroup") for trace in traces}
    for legend in _legends(figure):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            name = text.get_text()
            if name not in taken:
                taken.add(name)
                about = {"name": name, "showlegend": True, "hoverinfo": "skip", "x": [None], "y": [None]}
                group = {"legendgroup": name} if name in groups else {}  # marks and bars that have no line
                found.append({"type": "scatter"} | _sample(handle) | about | group)
    return found


def _sample(handle: Any) -> Trace:
    """What a handle of a legend looks like."""
    if isinstance(handle, Line2D):
        curve = _curve(handle, "")
        return {name: curve[name] for name in ("mode", "line", "marker") if name in curve}
    symbol = "square" if isinstance(handle, Patch) else "circle"
    colour = colour_of(np.atleast_2d(handle.get_facecolor())[0])
    return {"mode": "markers", "marker": {"color": colour, "symbol": symbol, "size": 11 if symbol == "square" else 7}}


def _legends(figure: Figure) -> list[Legend]:
    return [legend for legend in (*figure.legends, *(axes.get_legend() for axes in figure.axes)) if legend]


def _swatch_handles(legend: Any) -> list[tuple[Patch, str]]:
    pairs = zip(legend.legend_handles, legend.get_texts(), strict=True)
    return [(handle, text.get_text()) for handle, text in pairs if isinstance(handle, Patch)]


def stand_for(traces: list[Trace]) -> None:
    """Let the plainest curve of each name stand for it in the legend, not one that is faint or small."""
    best: dict[str, Trace] = {}
    for trace in traces:
        if "line" in trace and "name" in trace:
            kept = best.setdefault(trace["name"], trace)
            best[trace["name"]] = max(kept, trace, key=_weight)
    for trace in best.values():
        trace["showlegend"] = True


def tell_apart(traces: list[Trace], headings: dict[str, str]) -> None:
    """Where two entries of the legend look the same, say of each in which panel it is, if panels have letters."""
    shown = [trace for trace in traces if trace["showlegend"] and "xaxis" in trace]
    if len({_seen(trace) for trace in shown}) == len(shown):
        return
    for entry in shown:
        group = [trace for trace in traces if trace.get("legendgroup") == entry["name"]]
        letter = re.match(r"[A-Z](?=  )", headings[entry["xaxis"]])
        if letter and len({trace["xaxis"] for trace in group}) == 1:
            for trace in group:
                trace["name"] = trace["legendgroup"] = f"{letter[0]}: {trace['name']}"


def _seen(trace: Trace) -> tuple[Any, ...]:
    mark = trace.get("marker", {}).get("symbol")
    return trace["line"]["color"], "lines" in trace["mode"] and trace["line"]["dash"], mark


def _weight(trace: Trace) -> tuple[bool, float, float]:
    return "lines" in trace["mode"], trace.get("opacity", 1.0), trace.get("marker", {}).get("size", 0.0)


def _look(line: Line2D) -> tuple[Any, ...]:
    """What one sees of a line, by which the legend knows it."""
    drawn = line.get_linestyle() not in ("None", "", " ")
    marker = str(line.get_marker()) if _marked(line) else ""
    hollow = bool(marker) and colour_of(line.get_markerfacecolor()) != colour_of(line.get_color())
    return colour_of(line.get_color()), dashes_of(line) if drawn else "none", marker, hollow


def _marked(line: Line2D) -> bool:
    return line.get_marker() not in ("", "None", None)


def dashes_of(line: Line2D) -> str:
    """How a line is dashed, in pixels."""
    if not line.is_dashed():
        return "solid"
    dashes = line._unscaled_dash_pattern[1]  # type: ignore[attr-defined]  # which Matplotlib tells in no other way
    return ",".join(f"{2 * d:g}px" for d in dashes) if dashes else "dash"


def colour_of(colour: Any) -> str:
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


def placed(axis: Axis, values: Any) -> list[float]:
    """Where values stand on an axis that the browser takes for linear or logarithmic."""
    given = np.asarray(values, dtype=float)
    if axis.get_scale() not in ("linear", "log", "symlog"):
        raise CannotTellError(f"a {axis.get_scale()} scale")
    placed = axis.get_transform().transform(given) if axis.get_scale() == "symlog" else given
    return [float(value) for value in placed]
