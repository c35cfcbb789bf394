"""The layers of a panel, from the bottom to the top: one Vega-Lite layer for each kind of mark that has data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.study.charts.look import ON_DARK, ON_LIGHT, PAPER, Series, Shading

Layer = dict[str, Any]
Channel = dict[str, Any]
Records = Sequence[dict[str, Any]]

FLAGS = ("faint", "hollow", "unseen")
"""Which layer of marks a record is in."""

SHOWN = {"filter": "indexof(hidden, datum.series) < 0"}
"""Readers of the page hide series by name: the parameter ``hidden`` lists them."""


class Looks:
    """Scales that give every series of a panel its colour, dashes, width, mark and size."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.series = series

    def by(self, attribute: str) -> Channel:
        """Map the names of series to one of their attributes."""
        names = [series.name for series in self.series]
        looks = [_as_range(getattr(series, attribute)) for series in self.series]
        scale = {"type": "ordinal", "domain": names, "range": looks}
        return {"field": "series", "type": "nominal", "sort": names, "scale": scale, "legend": None}


def _as_range(value: Any) -> Any:
    if isinstance(value, tuple):  # dashes; a solid line is one dash without a gap
        return list(value) or [1, 0]
    return symbol(value) if isinstance(value, str) else value


def symbol(mark: str) -> str:
    """Return Vega's symbol for a mark; its own cross is a plus sign, ours is an x."""
    return "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7" if mark == "cross" else mark or "circle"


def _layer(records: Records, mark: dict[str, Any], encoding: dict[str, Any], *, hides: bool = True) -> Layer:
    data = {"data": {"values": [_rounded(record) for record in records]}}
    return {**data, **({"transform": [SHOWN]} if hides else {}), "mark": mark, "encoding": encoding}


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    """Keep what is drawn, to six digits: more cannot be seen, and makes the page large."""
    drawn = {name: value for name, value in record.items() if value is not None and name not in FLAGS}
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in drawn.items()}


def rules(records: Records, x: Channel, y: Channel) -> list[Layer]:
    """Lines across the panel."""
    found = []
    for record in records:
        mark = {"type": "rule", "strokeDash": record["dash"], "color": record["ink"], "strokeWidth": 1}
        if record["x"] is not None:
            place = {"x": x, "y": {"value": 0}, "y2": {"value": "height"}}
        else:
            place = {"y": y, "x": {"value": 0}, "x2": {"value": "width"}}
        found.append(_layer([{"x": record["x"], "y": record["y"]}], mark, place, hides=False))
    return found


def bars(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Bars from 0 up."""
    if not records:
        return []
    look = {"color": looks.by("colour"), "fillOpacity": looks.by("shade")}
    place = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"datum": 0}}
    return [_layer(records, {"type": "rect"}, place | look)]


def cells(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Cells of a heat map, and the signs in them."""
    if not records:
        return []
    tips = [_tip("y", "claim"), _tip("x", "setting"), _tip("series", "verdict")]
    place: dict[str, Any] = {"x": x, "y": y, "tooltip": tips}
    sign = {"type": "text", "fontSize": 10, "fontWeight": "bold", "color": PAPER}
    return [
        _layer(records, {"type": "rect"}, place | {"color": looks.by("colour")}),
        _layer([r for r in records if r["mark"]], sign, place | {"text": {"field": "mark"}}),
    ]


def tiles(records: Records, shading: Shading, x: Channel, y: Channel) -> list[Layer]:
    """Cells of a map of numbers, each with its number where it was given one."""
    if not records:
        return []
    tips = [_tip("y", y["title"] or "y"), _tip("x", x["title"] or "x"), _tip("value", "value", number=True)]
    colour = {"field": "value", "type": "quantitative", "legend": None, "scale": shading.scale()}
    place: dict[str, Any] = {"x": x, "y": y, "tooltip": tips}
    ink = {"condition": {"test": shading.dark_test(), "value": ON_DARK}, "value": ON_LIGHT}
    text = {"type": "text", "fontSize": 9.5}
    return [
        _layer(records, {"type": "rect"}, place | {"color": colour}, hides=False),
        _layer([r for r in records if r["text"]], text, place | {"text": {"field": "text"}, "color": ink}, hides=False),
    ]


def patches(records: Records, shading: Shading, x: Channel, y: Channel) -> list[Layer]:
    """Rectangles of a map of numbers whose axes have numbers."""
    if not records:
        return []
    colour = {"field": "value", "type": "quantitative", "legend": None, "scale": shading.scale()}
    place = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}
    tips = {"tooltip": [_tip("value", "value", number=True)]}
    return [_layer(records, {"type": "rect", "clip": True}, place | tips | {"color": colour}, hides=False)]


def bands(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Shaded ranges."""
    if not records:
        return []
    encoding = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "detail": {"field": "part"}}
    look = {"color": looks.by("colour"), "fillOpacity": looks.by("shade")}
    return [_layer(records, {"type": "area", "opacity": 1, "clip": True}, encoding | look)]


def lines(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Curves, their points joined in the order they were given."""
    if not records:
        return []
    look = {"color": looks.by("colour"), "strokeDash": looks.by("dash"), "strokeWidth": looks.by("width")}
    order = {"detail": {"field": "part"}, "order": {"field": "order", "type": "quantitative"}}
    return [_layer(records, {"type": "line", "clip": True}, {"x": x, "y": y, **look, **order})]


def ranges(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Intervals and stems, as vertical lines."""
    if not records:
        return []
    encoding = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": looks.by("colour")}
    return [_layer(records, {"type": "rule", "strokeWidth": 2.2}, encoding)]


def points(records: Records, looks: Looks, x: Channel, y: Channel) -> list[Layer]:
    """Marks: faint ones behind, hollow ones empty, and unseen ones to hover over where a curve has no marks."""
    marked = {series.name: bool(series.mark) for series in looks.series}
    groups: dict[str, list[dict[str, Any]]] = {"unseen": [], "faint": [], "full": [], "hollow": []}
    for record in records:
        full = "hollow" if record["hollow"] else "full"
        unseen = record.get("unseen") or not marked[record["series"]]
        groups["unseen" if unseen else "faint" if record["faint"] else full].append(record)
    styles: dict[str, dict[str, Any]] = {
        "unseen": {"opacity": 0},
        "faint": {"opacity": 0.3, "strokeWidth": 0},
        "full": {"opacity": 1, "strokeWidth": 1.3},
        "hollow": {"opacity": 1, "strokeWidth": 1.3, "fill": PAPER},
    }
    found = []
    for name, mine in groups.items():
        if mine:
            look = {"stroke": looks.by("colour"), "shape": looks.by("mark"), "size": looks.by("size")}
            if name != "hollow":
                look["fill"] = looks.by("colour")
            encoding = {"x": x, "y": y, **look, "tooltip": _tips(mine, x, y)}
            found.append(_layer(mine, {"type": "point"} | styles[name], encoding))
    return found


def _tips(records: Records, x: Channel, y: Channel) -> list[Channel]:
    tips = [
        _tip("series", "curve"),
        _tip("x", x["title"] or "x", number=True),
        _tip("y", y["title"] or "y", number=True),
    ]
    if any(record.get("low") is not None for record in records):
        tips += [_tip("low", "from", number=True), _tip("high", "to", number=True)]
    return tips


def _tip(field: str, title: str, *, number: bool = False) -> Channel:
    kind = {"type": "quantitative", "format": ".4~g"} if number else {"type": "nominal"}
    return {"field": field, "title": title, **kind}


def notes(records: Records, x: Channel, y: Channel) -> list[Layer]:
    """A few words at a place."""
    found = []
    for r in records:
        mark = {"type": "text", "align": r["align"], "color": r["colour"], "baseline": "bottom"}
        found.append(_layer([r], mark, {"x": x, "y": y, "text": {"field": "text"}}, hides=False))
    return found
