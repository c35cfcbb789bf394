"""Reading M-thm2's rows: errors beyond α^l by place, where curves cross, and how much outliers leak."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iclab.papers.mamba.thm2_settings import Place, Thm2Settings
from iclab.probes import Interval, Row
from iclab.probes.tracing import least, most
from iclab.study.claims import BySeed, Point
from iclab.study.fits import crossings
from iclab.study.rows import error_points, errors

CROSSED = 0.05
"""The error at which curves over κ_a' are compared."""


def of(settings: Thm2Settings, sweep: str, curve: str | None = None) -> list[Place]:
    """Return the places of one sweep, or of one of its curves."""
    return [p for p in settings.places() if p.sweep == sweep and curve in (None, p.curve)]


def select(rows: Sequence[Row], sweep: str, adversary: str) -> list[Row]:
    """Return the rows of one sweep under one adversary."""
    return [row for row in rows if row["sweep"] == sweep and row["adversary"] == adversary]


def by_seed(rows: Sequence[Row], place: Place, adversary: str = "labels") -> BySeed:
    """Return the error of each seed at a place."""
    return errors(rows, **place.where, adversary=adversary)


def beyond_floor(
    rows: Sequence[Row], seeds: int, places: Sequence[Place], adversary: str = "labels"
) -> list[Point] | None:
    """Make one point per place: the error minus α^l; None if the rows of any seed are missing."""
    cells = [(place.text, {**place.where, "adversary": adversary}) for place in places]
    points = error_points(rows, seeds, cells) if cells else None
    return points and [
        Point(
            None if p.value is None else p.value - place.floor,
            Interval(p.interval.low - place.floor, p.interval.high - place.floor),
            p.where,
            p.diverged,
        )
        for p, place in zip(points, places, strict=True)
    ]


def crossed(rows: Sequence[Row], settings: Thm2Settings, total: float) -> BySeed:
    """Return log(κ* Σλ/κ_a) of each seed: the strength from which on the error stays below `CROSSED`."""
    places = sorted(of(settings, "strength", f"{total:g}"), key=lambda place: place.x)
    mine = select(rows, "strength", "labels")
    return crossings([math.log(place.x) for place in places], [by_seed(mine, place) for place in places], CROSSED)


def spread_over_sums(rows: Sequence[Row], settings: Thm2Settings, *, restored: bool) -> BySeed:
    """Return the range over Σλ of log κ*, or of log(κ* Σλ) if ``restored``, for each seed."""
    found = {total: crossed(rows, settings, total) for total in settings.sums}
    answer: BySeed = {}
    for seed in set.intersection(*(set(by) for by in found.values())):
        logs = [
            None if (at := by[seed]) is None else at - (0.0 if restored else math.log(total))
            for total, by in found.items()
        ]
        good = [value for value in logs if value is not None]
        answer[seed] = most(good) - least(good) if len(good) == len(logs) else None
    return answer


def leaks(rows: Sequence[Row], place: Place) -> BySeed:
    """Return σ_out/σ_clean of each seed, from the gates of the example next to the query."""
    mine = [row for row in select(rows, place.sweep, "gates") if row["place"] == 1 or row["diverged"]]
    mine = [row for row in mine if row["curve"] == place.curve and row["x"] == place.x]
    found = {
        kind: {r["seed"]: r["gate"] for r in mine if r["kind"] == kind and r["gate"]} for kind in ("clean", "outlier")
    }
    lost: BySeed = {row["seed"]: None for row in mine if row["diverged"]}
    return lost | {s: found["outlier"][s] / found["clean"][s] for s in found["clean"] if s in found["outlier"]}


def mean_leak(rows: Sequence[Row], place: Place) -> float | None:
    """Return l_ts α σ_out/σ_clean, with the mean over seeds of the last; None if no seed has it."""
    good = [leak for leak in leaks(rows, place).values() if leak is not None]
    return place.length * place.fraction * sum(good) / len(good) if good else None
