"""Numbers of M-gates from stored rows: ratios of gates, hitting times, the step size that the rule chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iclab.papers.mamba.gates_settings import GateSettings
from iclab.probes import Row
from iclab.study.claims import BySeed
from iclab.study.fits import hitting_times

HALF = 0.5
"""The loss whose hitting time is read, and the α beyond which linear attention fails."""


def where(
    part: str, model: str, outlier_fraction: float | None = None, step_size: float | None = None
) -> dict[str, Any]:
    """Return the columns that name a condition."""
    return {"part": part, "model": model, "outlier_fraction": outlier_fraction, "step_size": step_size}


def of(rows: list[Row], part: str, model: str) -> list[Row]:
    """Return the rows of one part of a gate's measurements."""
    return [row for row in rows if row["part"] == part and row["model"] == model]


def ratio(rows: list[Row], model: str, place: int) -> BySeed:
    """Return the mean gate of outliers over that of clean examples at a distance from the query, by seed."""
    mine = of(rows, "gates", model)
    found: BySeed = {row["seed"]: None for row in mine if row["diverged"]}
    here = [row for row in mine if row.get("place") == place]
    kinds = ({row["seed"]: row["gate"] for row in here if row["kind"] == kind} for kind in ("outlier", "clean"))
    outliers, clean = kinds
    for seed in outliers.keys() & clean.keys():
        above, below = outliers[seed], clean[seed]
        found[seed] = above / below if above is not None and below else None
    return dict(sorted(found.items()))


def times(rows: list[Row], model: str) -> BySeed:
    """Return the steps until the loss on prompts like those of the training is below `HALF`, by seed."""
    mine = [row for row in of(rows, "course", model) if row.get("step") is not None]
    steps = sorted({row["step"] for row in mine})
    losses: list[BySeed] = [{row["seed"]: row["hinge"] for row in mine if row["step"] == step} for step in steps]
    return hitting_times(steps, losses, HALF) if steps else {}


def losses_by_step_size(rows: list[Row], model: str) -> dict[float, float | None]:
    """Return the mean loss over the tuning seeds by step size; None if a seed diverged."""
    found: dict[float, list[float | None]] = {}
    for row in of(rows, "tuning", model):
        found.setdefault(row["step_size"], []).append(row["hinge"])
    return {
        size: None if any(loss is None for loss in losses) else sum(losses) / len(losses)  # type: ignore[arg-type]
        for size, losses in found.items()
    }


def chosen(rows: list[Row], settings: GateSettings, model: str) -> float | None:
    """Return the step size that the rule chooses; None if not all were tried, or every one has a diverged seed."""
    losses = losses_by_step_size(rows, model)
    good = {size: loss for size, loss in losses.items() if loss is not None}
    if losses.keys() != set(settings.step_size_grid) or not good:
        return None
    return min(good, key=lambda size: good[size])


def means(by_seed: BySeed) -> list[float]:
    """Return the numbers of the seeds that have one."""
    return [value for value in by_seed.values() if value is not None]


def text(by_seed: BySeed, form: str | Callable[[float], str] = "{:.4f}") -> str:
    """Format the mean over seeds; a dash if there is none."""
    good = means(by_seed)
    write = form.format if isinstance(form, str) else form
    return write(sum(good) / len(good)) if good else "–"
