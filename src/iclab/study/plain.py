"""The table and the chart of an experiment that has none of its own, made from the columns of its conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.config import InputError
from iclab.probes import PROBES, Row
from iclab.study.charts.figure import Figure
from iclab.study.charts.look import Series, shades
from iclab.study.charts.models import colour_of, full_name_of
from iclab.study.charts.panel import Axis, Panel
from iclab.study.claims import number
from iclab.study.rows import proportion

KEYS = ("layer", "kind", "place", "matrix", "level", "weight", "sign", "step", "prompt", "first", "second")
"""Columns of probes that name what was measured."""
ASIDE = ("seed", "diverged", "prompts", "right", "wrong", "ties", "nans", "examples", "neuron")
"""Columns of probes that are no result by themselves."""
MODEL = "model"
"""The column whose values have a name and a colour of their own in every chart."""
SEVERAL = 4
"""Numbers in a line of the table, if the error is not among them."""


def plain_table(rows: Sequence[Row], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return one line per combination of the columns, with the means of what was measured."""
    names, numbers = _names(rows, columns), _numbers(rows, columns)
    lines = []
    for group, inside in _grouped(rows, names).items():
        line = {name: "–" if value is None else _text(value) for name, value in zip(names, group, strict=True)}
        if any("error" in row for row in rows):
            found = proportion([row for row in inside if "error" in row])
            line["error"] = "–" if found is None else found.short()
        else:
            line |= {name: _mean(inside, name) for name in numbers[:SEVERAL]}
        lines.append(line)
    return lines


def plain_chart(rows: Sequence[Row], columns: Sequence[str]) -> Figure:
    """Draw the first measured number against the first column of numbers, with a curve for every other combination."""
    names, numbers = _names(rows, columns), _numbers(rows, columns)
    y = "error" if any("error" in row for row in rows) else numbers[0] if numbers else "nothing was measured"
    found = [name for name in names if _is_number(rows, name)]
    x = found[0] if found else None
    others = [name for name in names if name != x]
    groups = _grouped(rows, others)
    looks = zip(_looks(others, list(groups)), groups.values(), strict=True)
    curves = {title: (colour, inside) for (title, colour), inside in looks}
    if x is None:
        return _bare({title: inside for title, (_, inside) in curves.items()}, y)
    panel = Panel(x=Axis(x, zero=False), y=Axis(y))
    for title, (colour, inside) in curves.items():
        points = {place[0]: _by_seed(here, y) for place, here in _grouped(inside, [x]).items() if place[0] is not None}
        places = sorted(points)
        panel.curve(Series(title or y, colour, legend=bool(title)), places, [points[place] for place in places])
    return Figure([panel], width=420)


def _bare(groups: dict[str, list[Row]], y: str) -> Figure:
    """Draw a mark per group, from the lowest to the highest seed, where there is no number to draw against."""
    panel = Panel(x=Axis(ticks=dict(enumerate(groups)), domain=(-0.5, max(len(groups), 1) - 0.5)), y=Axis(y))
    for place, inside in enumerate(groups.values()):
        good = [value for value in _by_seed(inside, y).values() if value is not None]
        if good:
            series = Series(y, shades(1)[0], line=False, legend=False)
            panel.interval(series, place, sum(good) / len(good), min(good), max(good))
    return Figure([panel], width=max(420, 110 * len(groups)))


def _title(names: Sequence[str], group: Sequence[Any]) -> str:
    """Name a curve after the columns it stands for; text speaks for itself, a number needs its column's name."""
    pairs = [(name, value) for name, value in zip(names, group, strict=True) if value is not None]
    return ", ".join(value if isinstance(value, str) else f"{name} {_text(value)}" for name, value in pairs)


def _looks(names: Sequence[str], groups: Sequence[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """Return the name and the colour of every curve: those of models in all charts, if they tell the curves apart."""
    titles, colours = [_title(names, group) for group in groups], shades(len(groups))
    models = [value for group in groups for name, value in zip(names, group, strict=True) if name == MODEL]
    try:
        known = {model: full_name_of(model) for model in models}
        own = [colour_of(model, models) for model in models]
    except (InputError, TypeError):  # no models: numbers, or text with a colon
        return list(zip(titles, colours, strict=True))
    named = [_title(names, [known.get(value, value) for value in group]) for group in groups]
    titles, colours = (new if len(set(new)) == len(groups) else old for new, old in ((named, titles), (own, colours)))
    return list(zip(titles, colours, strict=True))


def _by_seed(rows: Sequence[Row], y: str) -> dict[int, float | None]:
    return {row["seed"]: row.get(y) for row in rows}


def _names(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return the columns that name a row: those of the conditions, and those of the probe."""
    measured = [name for name in KEYS if name not in columns and any(row.get(name) is not None for row in rows)]
    return [*columns, *measured]


def _numbers(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return the measured columns, in the order of their probe."""
    found = dict.fromkeys(name for row in rows for name in row)
    known = [name for probe in PROBES.values() for name in probe.columns]
    aside = {*columns, *KEYS, *ASIDE}
    return [
        name
        for name in dict.fromkeys([*known, *found])
        if name in found and name not in aside and _is_number(rows, name)
    ]


def _is_number(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return found


def _mean(rows: Sequence[Row], name: str) -> str:
    values = [row[name] for row in rows if row.get(name) is not None]
    return f"{number(sum(values) / len(values))} ({number(min(values))} to {number(max(values))})" if values else "–"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
