"""Derive every verdict of an export again from the raw Parquet files, with none of iclab's code.

    python program.py claims.json results/store

This file needs Python and pyarrow only. It has quantiles, intervals, fits and rules of its own, and checks the checksum
and the name of every cell it reads. What it proves, and what it does not, is in docs/audit.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

LEVELS = {
    "rows": "derived from raw rows",
    "chosen": "from raw rows that the judge chose by their values",
    "seeds": "from recorded numbers per seed",
    "points": "from recorded points: rule and margins only",
    "none": "not derived",
    "not run": "not run",
}
LABELS = {"holds": "verified", "in direction": "falsified", "fails": "falsified"}
LABELS |= {"undecided": "inconclusive", "not run": "not run"}
"""The label of every verdict. A claim that holds in direction only is false as stated."""
NEAR = 1e-9
"""How far a number may be from the exported one: relatively, or absolutely below 1e-3."""
Json = dict[str, Any]


@cache
def t_quantile(freedom: int, p: float) -> float:
    """Return the quantile of Student's t distribution for p > 1/2: by bisection of its finite sums."""

    def below(t: float) -> float:
        angle = math.atan(t / math.sqrt(freedom))
        odd, square = freedom % 2, math.cos(angle) ** 2
        term, found = math.cos(angle) if odd else 1.0, 0.0
        for k in range(1 + odd, freedom, 2):
            found += term
            term *= square * k / (k + 1)
        found *= math.sin(angle)
        return 0.5 + ((angle + found) / math.pi if odd else found / 2)

    low, high = 0.0, 1.0
    while below(high) < p:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return (low + high) / 2


def t_interval(values: list[float], confidence: float) -> tuple[float, float]:
    """Return Student's t interval for a mean; unbounded for fewer than two values."""
    n = len(values)
    if n < 2:
        return -math.inf, math.inf
    half = t_quantile(n - 1, 0.5 + confidence / 2) * statistics.stdev(values) / math.sqrt(n)
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def wilson_interval(successes: float, total: float, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval for a proportion."""
    if total == 0:
        return 0.0, 1.0
    z, p = statistics.NormalDist().inv_cdf(0.5 + confidence / 2), successes / total
    centre, scale = p + z * z / (2 * total), 1 + z * z / total
    half = z * math.sqrt(max(0.0, p * (1 - p)) / total + z * z / (4 * total * total))
    low, high = max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
    return 0.0 if successes == 0 else low, 1.0 if successes == total else high


def line(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """Return slope and straightness (R²) of the least-squares line."""
    slope, start = statistics.linear_regression(xs, ys)
    rest = [y - start - slope * x for x, y in zip(xs, ys, strict=True)]
    return slope, 1 - statistics.pvariance(rest) / statistics.pvariance(ys) if len(set(ys)) > 1 else 0.0


def interpolated(places: list[float], values: list[Any], i: int, level: float) -> float:
    """Return where the logarithm of the values meets a level between places i − 1 and i."""
    high, low = math.log((values[i - 1] or level) / level), math.log(max(values[i] / level, 0.1))
    return places[i - 1] + (places[i] - places[i - 1]) * high / (high - low)


def crossing(places: list[float], values: list[float | None], margin: float) -> float | None:
    """Return the place from which on values stay below a margin, or None."""
    i = len(values)
    while i and (value := values[i - 1]) is not None and value < margin:
        i -= 1
    if i == 0:
        return places[0]
    return None if i == len(values) or values[i - 1] is None else interpolated(places, values, i, margin)


def hitting_time(steps: list[float], losses: list[float | None], level: float) -> float | None:
    """Return the first step with a loss below a level, or None."""
    for i, loss in enumerate(losses):
        if loss is None or loss < level:
            return None if loss is None else interpolated(steps, losses, i, level) if i else steps[0]
    return None


def sure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is None where an operand is missing, or where it is not defined."""

    def checked(*operands: Any) -> Any:
        flat = [item for o in operands for item in (o if isinstance(o, list) else [o])]
        try:
            return None if None in flat else function(*operands)
        except (ValueError, ZeroDivisionError):  # such as the logarithm of 0, or the mean of nothing
            return None

    return checked


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": lambda *terms: math.fsum(terms),
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "negative": lambda a: -a,
    "absolute": abs,
    "log": math.log,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "mean": statistics.fmean,
    "total": math.fsum,
    "least": min,
    "most": max,
    "variance": statistics.pvariance,
    "slope": lambda xs, ys: line(xs, ys)[0],
    "straightness": lambda xs, ys: line(xs, ys)[1],
}
OPERATIONS = {name: sure(function) for name, function in ARITHMETIC.items()}
OPERATIONS |= {"list": lambda *items: [*items], "recorded": lambda value: value}
OPERATIONS |= {"crossing": crossing, "hitting_time": hitting_time}
OPERATIONS |= {"inner_crossing": lambda at, ys, y: None if None in ys or ys[0] < y else crossing(at, ys, y)}


class Rows:
    """The raw rows of one experiment, by selection and seed."""

    def __init__(self, experiment: Json, rows: list[Json]) -> None:
        self.keys, self.series, self._selections = (experiment[name] for name in ("keys", "series", "selections"))
        self.by_name: dict[str, dict[int, Json]] = {}
        for row in rows:
            self.by_name.setdefault(self._name(row), {})[row["seed"]] = row
        self._names: dict[int, str] = {}

    def _name(self, row: Json) -> str:
        return json.dumps([[key, row[key]] for key in self.keys if key in row])

    def name(self, number: int) -> str:
        """Return the name of a selection."""
        if number not in self._names:
            self._names[number] = self._name(self._selections[number])
        return self._names[number]


def read_rows(experiment: Json, store: Path, problems: list[tuple[str, str]]) -> list[Json]:
    """Return the raw rows of an experiment, each with the columns of its condition."""
    return [
        {**condition["columns"], **row}
        for condition in experiment["conditions"]
        for row in read_cell(store, condition["cell"], experiment["cells"][condition["cell"]], problems)
        if row["seed"] < condition["seeds_below"]
    ]


def read_cell(store: Path, name: str, stated: Json, problems: list[tuple[str, str]]) -> list[Json]:
    """Return the rows of a cell, after a look at its checksum and at its name, which is a hash of its description."""
    folder = store / "measurement" / name
    entry, data = json.loads((folder / "entry.json").read_text("utf-8")), (folder / "rows.parquet").read_bytes()
    found = hashlib.sha256(data).hexdigest()
    for whose, sha256 in (("entry.json", entry["sha256"]["rows.parquet"]), ("the export", stated["sha256"])):
        if found != sha256:
            problems.append((f"cell {name}", f"rows.parquet has checksum {found[:12]}, {whose} says {sha256[:12]}"))
    meaning = {"fields": entry["cell"], "versions": entry.get("versions"), "kind": "MeasurementCell"}
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if entry.get("versions") and hashlib.sha256(text.encode()).hexdigest()[:20] != name:
        problems.append((f"cell {name}", "its description has another hash than its name"))
    return list(pq.ParquetFile(folder / "rows.parquet").read(use_threads=False).to_pylist())


class Evaluation:
    """Computes expressions over rows."""

    def __init__(self, rows: Rows, confidence: float) -> None:
        self.rows, self.confidence = rows, confidence
        self.found: dict[int, dict[int, Any]] = {}

    def value(self, expression: Any, seed: int | None = None) -> Any:
        """Return the value of an expression; None if a seed has none."""
        if not isinstance(expression, list):
            return expression
        operation, *operands = expression
        if operation == "row":
            number, column, *own = operands
            return self.read(number, column, own[0] if own else seed)
        if operation == "series":
            return [value for value in self.by_seed(operands[0]).values() if value is not None]
        values = [self.value(operand, seed) for operand in operands]
        if operation.startswith("over_seeds."):
            return t_interval(values[0], self.confidence)[operation.endswith("high")]
        if operation.startswith("wilson."):
            right, total = values[:2]
            unknown = right is None or total is None
            return None if unknown else wilson_interval(right, total, self.confidence)[operation.endswith("high")]
        return OPERATIONS[operation](*values)

    def read(self, number: int, column: str, seed: int | None) -> Any:
        """Return a number of the row that a selection has for a seed."""
        row = self.rows_of(number).get(seed)
        return row.get(column) if row else None

    def rows_of(self, number: int) -> dict[Any, Json]:
        """Return the rows of a selection, by seed."""
        return self.rows.by_name.get(self.rows.name(number), {})

    def by_seed(self, number: int) -> dict[int, Any]:
        """Return the value of a series by seed: of every seed that all its selections have."""
        if number not in self.found:
            series = self.rows.series[number]
            mine = [set(self.rows_of(selection)) for selection in within_expression("row", series["of"])]
            seeds = sorted(set.intersection(*mine)) if mine else series["seeds"]
            self.found[number] = {seed: self.value(series["of"], seed) for seed in seeds}
        return self.found[number]


def within_expression(kind: str, expression: Any) -> set[Any]:
    """Return the numbers of the selections (kind ``row``) or series in an expression, or its recorded values."""
    if not isinstance(expression, list):
        return set()
    found = {expression[1]} if expression[0] == kind else set()
    return found.union(*(within_expression(kind, part) for part in expression[1:]))


def is_chosen(expression: Any, inside: bool = False) -> bool:
    """Return whether an expression sums over a list of rows, each with its seed, and not over all seeds alike."""
    if not isinstance(expression, list):
        return False
    inside |= expression[0] in ("mean", "total", "over_seeds.low", "over_seeds.high")
    return (inside and expression[0] == "row" and len(expression) == 4) or any(is_chosen(p, inside) for p in expression)


def level_of(claim: Json, series: list[Json]) -> str:
    """Return how much of a claim is derived again."""
    mine = [claim["size"], *([claim["direction"]] if claim["verdict"] == "in direction" else [])]
    parts = [part for whole in mine for part in (whole, *whole["also"])]
    if claim["verdict"] == "not run":
        return "not run"
    if not all(part["rule"] and part["points"] for part in parts):
        return "none"
    derived = [how for part in parts for point in part["points"] for how in point["how"].values()]
    if None in derived:
        return "points"
    derived += [series[number]["of"] for how in derived for number in within_expression("series", how)]
    recorded = any(within_expression("recorded", how) for how in derived)
    return "seeds" if recorded else "chosen" if any(map(is_chosen, derived)) else "rows"


WORST_FIRST = ("fails", "not run", "undecided", "holds")
Points = list[Json]
Found = tuple[str, Json | None]
"""A verdict, and the point that decides it."""


def below(points: Points, margin: float) -> Found:
    """Judge whether all points are below a margin."""
    measured = [p for p in points if p["value"] is not None]
    if not measured:
        return ("undecided" if points else "not run"), None
    if failing := [p for p in measured if p["low"] > margin]:
        return "fails", max(failing, key=lambda p: float(p["low"]))
    certain = len(measured) == len(points) and all(p["high"] < margin and not p["lost"] for p in points)
    return "holds" if certain else "undecided", max(measured, key=lambda p: float(p["high"]))


def above(points: Points, margin: float) -> Found:
    """Judge whether all points are above a margin: mirrored, below."""
    verdict, worst = below([{**p, "low": -p["high"], "high": -p["low"], "point": p} for p in points], -margin)
    return verdict, worst and worst["point"]


def within(points: Points, low: float, high: float) -> Found:
    """Judge whether all points are between two margins; of two equal verdicts, the closer point decides."""

    def rank(found: Found) -> tuple[int, float]:
        verdict, p = found
        return WORST_FIRST.index(verdict), min(p["low"] - low, high - p["high"]) if p else 0.0

    return min(above(points, low), below(points, high), key=rank)


RULES: dict[str, Callable[..., Found]] = {"every_below": below, "every_above": above, "every_within": within}


def points_again(part: Json, evaluation: Evaluation) -> Points:
    """Return the points of a claim's size or direction, computed again where they can be."""
    found = []
    for point in part["points"]:
        new = dict(point)
        for end, open_end in (("value", None), ("low", -math.inf), ("high", math.inf)):
            how = point["how"][end]
            new[end] = evaluation.value(how) if how is not None else open_end if point[end] is None else point[end]
        if len(series := within_expression("series", point["how"]["value"])) == 1:
            new["lost"] = sum(value is None for value in evaluation.by_seed(series.pop()).values())
        found.append(new)
    return found


def judge(claim: Json, again: Callable[[Json], Points]) -> Found:
    """Return verdict and deciding point of a claim; ``again`` computes the points of a size or direction."""

    def judged(part: Json) -> Found:
        """Judge one predicate, or several that must all hold."""
        parts = [part, *part["also"]]
        return min((RULES[p["rule"]](again(p), *p["margins"]) for p in parts), key=lambda f: WORST_FIRST.index(f[0]))

    size, weaker = claim["size"], claim["direction"]
    if not size["rule"]:
        return claim["verdict"], None
    verdict, worst = judged(size)
    if size["withheld"]:
        return "undecided", worst
    if verdict == "fails" and weaker and judged(weaker)[0] == "holds":
        verdict = "in direction"
    return verdict, worst


def same(a: float | None, b: float | None) -> bool:
    """Return whether two numbers are the same but for rounding; infinity counts as no number."""
    if a is None or b is None or not math.isfinite(a) or not math.isfinite(b):
        return (a is None or not math.isfinite(a)) and (b is None or not math.isfinite(b))
    return abs(a - b) <= NEAR * max(abs(a), abs(b), 1e-3)


def check(claim: Json, rows: Rows) -> list[str]:
    """Return what disagrees with a claim, as lines."""
    evaluation, lines = Evaluation(rows, claim["confidence"]), []
    verdict, worst = judge(claim, lambda part: points_again(part, evaluation))
    if verdict != claim["verdict"]:
        lines.append(f"verdict is {claim['verdict']}, derived again {verdict}")
    if claim["label"] != LABELS[claim["verdict"]]:
        lines.append(f"label is {claim['label']}, that of {claim['verdict']} is {LABELS[claim['verdict']]}")
    named = (("measured", "value"), ("low", "low"), ("high", "high"))
    pairs = [(name, claim[name], worst[end]) for name, end in named] if worst else []
    for part in (claim["size"], *claim["size"]["also"]):
        for old, new in zip(part["points"], points_again(part, evaluation), strict=True):
            where = f" of {old['where']}" if old["where"] else ""
            pairs += [(f"{end}{where}", old[end], new[end]) for end in ("value", "low", "high", "lost")]
    lines += [f"{what} is {old}, derived again {new}" for what, old, new in pairs if not same(old, new)]
    for number, found in evaluation.found.items():
        good, used = [seed for seed in found if found[seed] is not None], rows.series[number]["seeds"]
        if good != sorted(used):
            lines.append(f"uses seeds {used}; those with a number are {good}")
    return lines


def audit(document: Json, store: Path) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return disagreements as pairs of a name and a line, and the level of every claim."""
    problems, levels = list[tuple[str, str]](), dict[str, str]()
    for experiment in document["experiments"]:
        rows = Rows(experiment, read_rows(experiment, store, problems))
        for claim in experiment["claims"]:
            levels[claim["id"]] = level_of(claim, rows.series)
            problems += [(claim["id"], text) for text in check(claim, rows)]
    return list(dict.fromkeys(problems)), levels


def main(arguments: list[str]) -> int:
    """Audit an export against a store; return 1 if something disagrees."""
    if len(arguments) != 2:
        print((__doc__ or "").split("\n\n")[1], file=sys.stderr)
        return 2
    problems, levels = audit(json.loads(Path(arguments[0]).read_text("utf-8")), Path(arguments[1]))
    for name, text in problems:
        print(f"{name}: {text}")
    counts = Counter(levels.values())
    told = ", ".join(f"{counts[level]} {words}" for level, words in LEVELS.items() if counts[level])
    print(f"{len(levels)} claims: {told}; disagreements: {len(problems)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
