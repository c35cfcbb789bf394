"""The mean field (F) under the trainings of M-thm1 and M-thm3: losses over time, and hitting times with a free gate.

In x = βb, βc, βω_e and κ_a ‖v*‖ ω_v, (F) depends on η and β only through the unit of time 1/(η β²), if δβ and
κ_a ‖v*‖ / β stay as they are. So one integration serves all of these trainings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from iclab.papers.mamba.times import Sweep, TimesSettings
from iclab.papers.mamba.times_chart import FIELD
from iclab.probes import Row
from iclab.study.charts import Axis, Panel, Series
from iclab.study.claims import BySeed
from iclab.theory.meanfield import Curve, predicted_curve
from iclab.theory.setting import MambaSetting, ring

POINTS = 48
"""Steps at which (F) is read."""
LEAST = 1e-3
"""Smaller losses are drawn here."""


@lru_cache(maxsize=256)
def _in_units(setting: MambaSetting, last: int, free_gate: bool) -> Curve:
    return predicted_curve(setting, last, points=POINTS, free_gate=free_gate)


def field(own: TimesSettings, model: str, steps: float, frozen: bool = False) -> Curve:
    """Return (F) over so many steps of a model's training, from w = 0."""
    beta = own.pattern_norm
    fast = 1 if model == "mamba" else own.context_length  # so that times are of order 1 for both models
    unit = fast * own.step_sizes[model] * beta**2
    setting = MambaSetting(
        model="mamba" if model == "mamba" else "linear",
        relevant=own.relevant,
        outlier=own.outlier,
        tasks=ring(own.relevant, own.relevant - 1),  # all of them
        train_length=own.context_length,
        train_outlier_fraction=own.train_outlier_fraction,
        relevant_norm=1.0,
        outlier_norm=1.0,
        train_outlier_scale=round(own.train_outlier_scale * own.outlier_norm / beta, 9),
        init_scale=round(own.init_scale * beta, 9),
        step_size=1 / fast,
    )
    curve = _in_units(setting, max(1, math.ceil(round(unit * steps, 6))), not frozen)
    return Curve(curve.steps / unit, curve.loss, curve.numbers)


def hitting_times(sweep: Sweep, settings: TimesSettings, values: Sequence[float], level: float) -> dict[float, float]:
    """Return T by (F) at every value where the training gets that far."""
    found = {}
    for x in values:
        own = sweep.at(settings, x)
        time = field(own, sweep.model, sweep.reach(x) * own.predicted(sweep.model), sweep.frozen).hitting_time(level)
        if not math.isnan(time):
            found[x] = time
    return found


def losses(rows: Sequence[Row], sweep: Sweep, x: float) -> dict[float, BySeed]:
    """Return the loss of each seed by step, of the training at one value of a sweep."""
    found: dict[float, BySeed] = {}
    for row in rows:
        if row["part"] == sweep.name and row["model"] == sweep.model and row["x"] == x and not row["diverged"]:
            found.setdefault(row["step"], {})[row["seed"]] = row["hinge"]
    return dict(sorted(found.items()))


def training_panel(
    title: str, rows: Sequence[Row], settings: TimesSettings, shown: Mapping[Series, tuple[Sweep, float]]
) -> Panel:
    """Draw losses on fresh prompts over (E)'s units of time, each with (F) of the same training under it."""
    panel = Panel(
        title,
        x=Axis("step / T by (E)", domain=(0, 1.75)),
        y=Axis("loss on fresh prompts", domain=(LEAST, 1.1), scale="log"),
        height=200,
    )
    for look, (sweep, x) in shown.items():
        own, found = sweep.at(settings, x), losses(rows, sweep, x)
        unit = own.predicted(sweep.model)
        if not found:
            continue
        curve = field(own, sweep.model, max(found), sweep.frozen)
        line = {t / unit: max(loss, LEAST) for t, loss in zip(curve.steps, curve.loss, strict=True) if t <= max(found)}
        panel.line(FIELD, list(line), list(line.values()))
        shown_losses = [{s: None if v is None else max(v, LEAST) for s, v in by.items()} for by in found.values()]
        panel.curve(look, [step / unit for step in found], shown_losses)
    return panel
