"""How rows of M-review are named, and the failure signatures: a training and its test inside and outside each bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iclab.beyond.review_settings import ReviewSettings
from iclab.engines import Training
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.claims import BySeed

PLACES = PLACEMENTS
NEAR_PLACES = range(1, 9)
"""The distances from the query over which gates of outliers and of clean examples are compared, as in M-fig4."""

Made = tuple[Training, Prompts, str]
"""A training, its test prompts, and the probe."""


def where(check: str, model: str, curve: str, x: float, y: float = 0.0) -> dict[str, Any]:
    """Name the rows of one condition."""
    return {"check": check, "model": model, "curve": curve, "x": float(x), "y": float(y)}


def _fraction(settings: ReviewSettings, side: int) -> Made:
    bound = settings.train_outlier_fraction * settings.context_length / settings.long_length
    fraction = 4 * bound if side else bound / 2
    prompts = settings.tests(fraction=fraction).replace(context_length=settings.long_length)
    return settings.training("mamba"), prompts, "worst-placement"


def _adjacent(settings: ReviewSettings, side: int) -> Made:
    prompts = settings.tests(fraction=0.5, placement="closest" if side else "farthest")
    return settings.training("mamba"), prompts, "worst"


def _adjacent_deep(settings: ReviewSettings, side: int) -> Made:
    deep = settings.deep(3)
    return deep.training("deep-mamba"), deep.placed("closest" if side else "farthest"), "error"


def _iterations(settings: ReviewSettings, side: int) -> Made:
    steps = min(settings.few_steps, settings.steps) if side else settings.steps
    return settings.training("mamba", steps=steps), settings.tests(fraction=0.5), "worst"


def _strength(settings: ReviewSettings, side: int, outside: float) -> Made:
    scale = outside if side else settings.train_outlier_scale
    prompts = settings.tests(scale / settings.smallest_sum, fraction=0.5)  # the least that Theorem 2 (b) allows
    return settings.training("mamba", train_outlier_scale=scale), prompts, "worst"


def _weak(settings: ReviewSettings, side: int) -> Made:
    return _strength(settings, side, settings.weak_scale)


def _strong(settings: ReviewSettings, side: int) -> Made:
    return _strength(settings, side, settings.strong_scale)


SIGNATURES: dict[str, Callable[[ReviewSettings, int], Made]] = {
    "fraction": _fraction,
    "adjacent": _adjacent,
    "adjacent-deep": _adjacent_deep,
    "iterations": _iterations,
    "weak": _weak,
    "strong": _strong,
}
WORDS = {
    "fraction": "α beyond p_a l_tr/l_ts",
    "adjacent": "outliers next to the query",
    "adjacent-deep": "next to the query, 3 layers",
    "iterations": "too few iterations",
    "weak": "κ_a below V β⁻⁴",
    "strong": "κ_a above Θ(ε⁻¹)",
}


def gate_ratios(rows: list[Row], stream: str, depth: int, layer: int) -> BySeed:
    """Return each seed's gate of outliers divided by that of clean examples at the same distances, in one layer."""
    mine = [row for row in rows if (row["check"], row["curve"], row["x"]) == ("gates", stream, depth)]
    found: BySeed = {}
    for seed in dict.fromkeys(row["seed"] for row in mine):
        gates = {
            (row["kind"], row["place"]): row["gate"]
            for row in mine
            if row["seed"] == seed and row.get("layer") == layer and row.get("place") in NEAR_PLACES
        }
        pairs = [(gates.get(("outlier", k)), gates.get(("clean", k))) for k in NEAR_PLACES]
        shares = [a / b for a, b in pairs if a is not None and b]
        found[seed] = sum(shares) / len(shares) if len(shares) == len(NEAR_PLACES) else None
    return found
