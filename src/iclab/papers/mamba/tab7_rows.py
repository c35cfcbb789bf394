"""M-tab7's rows: how cells are named, the lines of its table, and the prompts that the page shows."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from iclab.models import architecture
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.papers.mamba.tab7_settings import TriggerSettings
from iclab.probes import Row
from iclab.study.charts import colour_of, name_of
from iclab.study.claims import BySeed
from iclab.study.rows import proportion

BASELINES = ("1-nn", "vote", "readout")
SHOWN = ("deep-mamba", "mamba", "linear")
"""The models whose insides the page shows."""
SEED = 0
"""The seed whose prompts the page shows."""


def column_name(components: int, rule: str) -> str:
    """Return what a group of cells is called: its components, and the labels of triggered examples."""
    return f"{components} components" + (f", {rule}" if rule else "")


def named(model: str) -> str:
    """Return a model's name, with its depth."""
    words = {
        "1-nn": "1 nearest neighbour",
        "vote": "vote of the query's class",
        "readout": "the query alone, if its task were known",
    }
    if model in words:
        return words[model]
    return name_of(model) + ("" if architecture(model).several_layers else ", one layer")


def accuracy(rows: list[Row], **where: Any) -> tuple[float, float, float] | None:
    """Return the mean accuracy of a cell in percent, and its interval; None if it was not measured or diverged."""
    p = proportion([row for row in rows if row["what"] == "accuracy"], **where)
    if p is None or p.mean is None:
        return None
    return 100 - 100 * p.mean, 100 - 100 * p.interval.high, 100 - 100 * p.interval.low


def readout(rows: list[Row], components: int) -> float | None:
    """Return the accuracy of logistic regression on single sentences, in percent."""
    column = column_name(components, "")
    mine = [r for r in rows if r["what"] == "readout" and r["column"] == column and r["components"] is not None]
    whole = max(mine, key=lambda row: row["components"], default=None)
    return None if whole is None else 100 * whole["right"] / whole["vectors"]


def line_of(rows: list[Row], column: str, model: str) -> dict[str, str] | None:
    """Return the cells of one line of the table; None if nothing was measured."""
    components = int(column.split()[0])
    empty = {**dict.fromkeys(PLACEMENTS.values(), ""), "clean": "", "gates": ""}
    if model == "readout":
        whole = readout(rows, components)
        return None if whole is None else empty | {"clean": f"{whole:.2f}"}
    line = {}
    for place in (*PLACEMENTS.values(), "clean"):
        where = {"column": column_name(components, "") if place == "clean" else column, "model": model}
        found = accuracy(rows, placement=place, **where)
        line[place] = "" if found is None else f"{found[0]:.2f} [{found[1]:.1f}, {found[2]:.1f}]"
    if not any(line[place] for place in PLACEMENTS.values()):
        return None
    ratios = [value for value in gate_ratios(rows, components, model, 1).values() if value is not None]
    gates = f"{sum(ratios) / len(ratios):.2f}" if ratios else ""
    return empty | line | {"gates": gates}


def gate_ratios(rows: list[Row], components: int, model: str, layer: int) -> BySeed:
    """Return the mean gate of triggered examples over that of clean ones at the same distances, per seed."""
    sums: dict[int, dict[str, list[float]]] = {}
    found: BySeed = {}
    column = column_name(components, "")
    for row in rows:
        if row["what"] != "gates" or (row["column"], row["model"]) != (column, model):
            continue
        if row["diverged"]:
            found[row["seed"]] = None
        elif row["kind"] in ("clean", "outlier") and row["layer"] == layer and row["gate"] is not None:
            sums.setdefault(row["seed"], {"clean": [], "outlier": []})[row["kind"]].append(row["gate"])
    for seed, both in sums.items():
        found[seed] = sum(both["outlier"]) / sum(both["clean"]) if sum(both["clean"]) else None
    return found


def shift_lines(rows: list[Row], components: int) -> list[dict[str, Any]]:
    """Return what the trigger does to the vectors of tests, in one line."""
    whole = shift_of(rows, components)
    if whole is None:
        return []
    told = (
        f"the trigger moves a vector by {whole['size']:.2f} of its length; mean change / mean length "
        f"{whole['direction']:.2f}; cosine with the class difference {whole['towards_class']:+.2f}; a linear "
        f"classifier finds it in {100 * whole['detected']:.1f} %"
    )
    empty = {**dict.fromkeys(PLACEMENTS.values(), ""), "clean": "", "gates": ""}
    return [{"setting": column_name(components, ""), "model": told.replace("-0.00", "0.00"), **empty}]


def shift_of(rows: list[Row], components: int) -> Row | None:
    """Return the row about the trigger's shift in all components."""
    column = column_name(components, "")
    mine = (r for r in rows if r["what"] == "trigger" and r["column"] == column and r["seed"] == SEED)
    return next((row for row in mine if row["component"] == 0), None)


def shifts_of(rows: list[Row], components: int) -> list[Row]:
    """Return the rows about the trigger's shift in single components."""
    column = column_name(components, "")
    mine = [r for r in rows if r["what"] == "trigger" and r["column"] == column and r["seed"] == SEED]
    return [row for row in mine if row["component"]]


def pages(rows: list[Row], settings: TriggerSettings) -> dict[str, Any] | None:
    """Return a few prompts with their sentences for the page, and what models make of each example."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["what"] == "sentences" and row["seed"] == SEED and not row["diverged"]:
            found.setdefault((row["model"], row["prompt"]), []).append(row)
    names = [name for name in SHOWN if (name, 0) in found]
    if not names:
        return None
    prompts: list[dict[str, Any]] = []
    views: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in names}
    for number in range(settings.shown):
        tokens = _layers(found[names[0], number])[0]
        wrong = sum(row["label"] != row["true_label"] for row in tokens)
        title = f"prompt {number + 1}: {sum(row['outlier'] for row in tokens)} with the trigger, {wrong} wrong labels"
        facts = ("same", "outlier", "label", "true_label", "text")
        about = {"name": title, "target": tokens[0]["target"], "query": tokens[0]["query"], "mark": settings.trigger}
        prompts.append(about | {"tokens": [{name: row[name] for name in facts} for row in tokens]})
        for name in names:
            views[name].append([_view(_layers(found[name, number]))])
    deep = f", {settings.layers} layers"
    models = [
        {
            "name": named(name) + (deep if architecture(name).several_layers else ""),
            "colour": colour_of(name),
            "views": views[name],
        }
        for name in names
    ]
    return {"prompts": prompts, "steps": [settings.steps], "models": models}


def _layers(rows: list[Row]) -> list[list[Row]]:
    """Return the examples of a prompt by layer, the farthest from the query first."""
    ordered = sorted(rows, key=lambda row: (row["layer"], row["place"]))
    return [list(examples) for _, examples in groupby(ordered, key=lambda row: row["layer"])]


def _view(layers: list[list[Row]]) -> dict[str, Any]:
    """Return what a model makes of a prompt: the gates of each layer; of a single one, attention and votes too."""
    output = float(f"{layers[0][0]['output']:.5g}")
    if len(layers) > 1:
        return {"gates": [_numbers(layer, "gate") for layer in layers], "output": output}
    return {key: _numbers(layers[0], key) for key in ("attention", "gate", "vote")} | {"output": output}


def _numbers(rows: list[Row], key: str) -> list[float]:
    return [float(f"{row[key]:.5g}") for row in rows]
