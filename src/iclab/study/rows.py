"""Select numbers from stored rows: the cell of a table or the point of a figure, given by values of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from iclab.probes import Interval, Proportion, Row, paired, wilson
from iclab.study.claims import PROMPTS, BySeed, Point


def matching(rows: Sequence[Row], **where: Any) -> dict[int, Row]:
    """Return the rows with these values in their columns, by seed."""
    for name, value in where.items():  # rows removed by an earlier column may lack a later one
        rows = [row for row in rows if row[name] == value]
    return {row["seed"]: row for row in rows}


def errors(rows: Sequence[Row], **where: Any) -> BySeed:
    """Return the error of each seed; None if the seed diverged."""
    return {seed: row["error"] for seed, row in matching(rows, **where).items()}


def proportion(rows: Sequence[Row], **where: Any) -> Proportion | None:
    """Return the error over seeds; None if it was not measured."""
    found = matching(rows, **where).values()
    if not found:
        return None
    return Proportion.of([row["error"] for row in found], max(row["prompts"] or 0 for row in found))


def lost(rows: Sequence[Row], **where: Any) -> BySeed:
    """Return the diverged seeds, with None as their number."""
    return {seed: None for seed, row in matching(rows, diverged=True, **where).items()}


def difference(first: BySeed, second: BySeed) -> BySeed:
    """Return first − second for the seeds in both."""
    found: BySeed = {}
    for seed, a in first.items():
        if seed in second:
            b = second[seed]
            found[seed] = None if a is None or b is None else a - b
    return found


def error_points(rows: Sequence[Row], seeds: int, cells: Sequence[tuple[str, dict[str, Any]]]) -> list[Point] | None:
    """Make one point per named cell, to be judged; None if the row of any seed is missing."""
    points = []
    for name, where in cells:
        p = proportion(rows, **where)
        if p is None or len(p.per_seed) < seeds:
            return None
        points.append(Point(p.mean, p.interval, name, p.diverged))
    return points


def seed_points(rows: Sequence[Row], seeds: int, **where: Any) -> list[Point] | None:
    """Make one point per seed, with an interval from its test prompts, for claims about every single seed."""
    found = matching(rows, **where)
    if len(found) < seeds:
        return None
    gone = sum(row["error"] is None for row in found.values())
    points = []
    for seed, row in found.items():
        lost = row["error"] is None
        interval = Interval(0.0, 1.0) if lost else wilson(row["prompts"] - row["right"], row["prompts"])
        points.append(Point(row["error"], interval, f"seed {seed}", gone, needs=PROMPTS))
    return points


def values(rows: Sequence[Row], column: str, **where: Any) -> BySeed:
    """Return the number of each seed in a column; None if the seed diverged."""
    return {seed: row[column] for seed, row in matching(rows, **where).items()}


def mean_text(rows: Sequence[Row], column: str, **where: Any) -> str:
    """Format the mean of a column over seeds, for a table; a dash if there is none."""
    good = [value for value in values(rows, column, **where).values() if value is not None]
    return f"{sum(good) / len(good):.4f}" if good else "–"


def listed(numbers: Iterable[float]) -> str:
    """Format numbers as a list with commas, for a predicate."""
    return ", ".join(f"{number:g}" for number in numbers)


def paired_points(pairs: Iterable[tuple[str, BySeed, BySeed]], seeds: int) -> list[Point] | None:
    """Make one point of first − second per named pair, on paired seeds; None without pairs or if a seed is missing."""
    points = []
    for where, first, second in pairs:
        if len(first) < seeds or first.keys() != second.keys():
            return None
        mean, interval, missing = paired(list(first.values()), [second[seed] for seed in first])
        points.append(Point(None if missing == len(first) else mean, interval, where, missing))
    return points or None
