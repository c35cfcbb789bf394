"""Numbers out of stored rows: errors in one cell of a table or one point of a figure, picked out by its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.experiments.claims import Point
from iclab.probes import Proportion, Row


def matching(rows: Sequence[Row], **where: Any) -> dict[int, Row]:
    """The rows with these values in their columns, by seed."""
    return {row["seed"]: row for row in rows if all(row[name] == value for name, value in where.items())}


def errors(rows: Sequence[Row], **where: Any) -> dict[int, float | None]:
    """Each seed's error; None where it diverged."""
    return {seed: row["error"] for seed, row in matching(rows, **where).items()}


def proportion(rows: Sequence[Row], **where: Any) -> Proportion | None:
    """The error over seeds; None if it was not measured."""
    found = matching(rows, **where).values()
    if not found:
        return None
    return Proportion.of([row["error"] for row in found], max(row["prompts"] or 0 for row in found))


def error_points(rows: Sequence[Row], seeds: int, cells: Sequence[tuple[str, dict[str, Any]]]) -> list[Point] | None:
    """One point for each named cell, to be judged; None if any seed's row is missing."""
    points = []
    for name, where in cells:
        p = proportion(rows, **where)
        if p is None or len(p.per_seed) < seeds:
            return None
        points.append(Point(p.mean, p.interval, name, p.diverged))
    return points
