"""Reading M-thm4's rows: needed lengths by α and seed, laws for them, and strengths that break the linear model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iclab.papers.mamba.thm4_settings import Thm4Settings
from iclab.probes import Row
from iclab.probes.tracing import exp, log, variance
from iclab.study.claims import BySeed
from iclab.study.fits import crossings
from iclab.study.rows import errors
from iclab.theory.votes import chernoff_rate, length_claimed

BROKEN = 0.1
"""The error at which a strength counts as too large."""
LAWS: dict[str, Callable[[float], float]] = {
    "printed": length_claimed,
    "plain": lambda fraction: (0.5 - fraction) ** -2,
    "chernoff": lambda fraction: 1 / chernoff_rate(fraction),
}
"""l* up to a constant, by α: (15), (15) without its factor α, and the rate of a majority."""


def where(what: str, model: str, batch: int, labels: str, **place: Any) -> dict[str, Any]:
    """Return the columns of one condition."""
    return {"what": what, "model": model, "batch": batch, "labels": labels, **place}


def select(rows: Sequence[Row], what: str, model: str) -> list[Row]:
    """Return the rows of one part of the experiment."""
    return [row for row in rows if row["what"] == what and row["model"] == model]


def needed(rows: Sequence[Row], settings: Thm4Settings, model: str, fraction: float, level: float) -> BySeed:
    """Return l* of each seed: the length from which on the worst-case error stays below a level."""
    lengths = settings.lengths(fraction) if model == "linear" else settings.mamba_lengths
    mine = [row for row in select(rows, "length", model) if row["fraction"] == fraction]
    return crossings(lengths, [errors(mine, length=length) for length in lengths], level)


def power_curve(rows: Sequence[Row], settings: Thm4Settings, level: float) -> Mapping[float, BySeed]:
    """Return l* of the linear model by (½ − α)⁻¹, over α ≥ 0.3."""
    return {1 / (0.5 - f): needed(rows, settings, "linear", f, level) for f in settings.near_half}


def misfit(lengths: Mapping[float, float], law: str) -> float:
    """Return the variance of log l* − log law over α: how far the law is off with its best constant."""
    return variance([log(length) - math.log(LAWS[law](f)) for f, length in lengths.items()])


def misfit_gain(
    rows: Sequence[Row], settings: Thm4Settings, level: float, fractions: Sequence[float], law: str, other: str
) -> BySeed:
    """Return by how much the residual variance of ``other`` exceeds that of ``law``, for each seed."""
    found = {f: needed(rows, settings, "linear", f, level) for f in fractions}
    answer: BySeed = {}
    for seed in set.intersection(*(set(by) for by in found.values())) if found else ():
        lengths = {f: length for f, by in found.items() if (length := by[seed]) is not None and length > 0}
        whole = len(lengths) == len(found)
        answer[seed] = misfit(lengths, other) - misfit(lengths, law) if whole else None
    return answer


def ratio(rows: Sequence[Row], settings: Thm4Settings, fraction: float, level: float) -> BySeed:
    """Return l* of the linear model over that of Mamba, for each seed."""
    linear, mamba = (needed(rows, settings, model, fraction, level) for model in ("linear", "mamba"))
    found: BySeed = {}
    for seed in linear.keys() & mamba.keys():
        a, b = linear[seed], mamba[seed]
        found[seed] = None if a is None or b is None else a / b
    return found


def breaking(rows: Sequence[Row], settings: Thm4Settings, batch: int) -> BySeed:
    """Return κ* of each seed: the strength up to which the worst-case error stays below `BROKEN`."""
    mine = [row for row in select(rows, "strength", "linear") if row["batch"] == batch]
    down = sorted(settings.strengths, reverse=True)
    found = crossings([math.log(k) for k in down], [errors(mine, strength=k) for k in down], BROKEN)
    return {seed: None if at is None else exp(at) for seed, at in found.items()}


def weight_of_others(rows: Sequence[Row]) -> float | None:
    """Return ρ, the mean weight of examples with the other pattern over that of the query's; None if unknown."""
    mine = [row for row in select(rows, "kernel", "linear") if row.get("entry") is not None]
    own = [row["entry"] for row in mine if row["pattern"] == row["query_pattern"]]
    other = [row["entry"] for row in mine if row["pattern"] != row["query_pattern"]]
    if not own or not other or np.mean(own) <= 0:
        return None
    return round(float(np.clip(-np.mean(other) / np.mean(own), 0.0, 1.0)), 2)
