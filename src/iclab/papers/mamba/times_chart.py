"""Panels and table lines of hitting-time sweeps: measured, claimed, and the mean field without a free constant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iclab.papers.mamba.times import HALF, LATE, Sweep, TimesSettings
from iclab.probes import Row, over_seeds
from iclab.study.charts import FAINT, PALETTE, Axis, Panel, Series, reference
from iclab.study.claims import BySeed
from iclab.study.fits import PowerLaw

CLAIMED = reference("claimed slope, through the measured mean")
MEAN_FIELD = reference("mean field (E), gate frozen, no free constant", (), FAINT, width=1.6)
FIELD = reference("mean field (F), free gate, no free constant", ())
FROZEN = Series("T to loss 0.5, gate frozen at w = 0", FAINT, line=False, hollow=True, size=45.0)


def level_series(model: str, colour: str = PALETTE[0]) -> dict[float, Series]:
    """Return how the hitting times of a model look, by level."""
    return {
        HALF: Series(f"{model}: T to loss {HALF:g}", colour, line=False, size=45.0),
        LATE: Series(f"{model}: T to loss {LATE:g}", colour, line=False, mark="diamond", hollow=True, size=45.0),
    }


def log_axis(title: str, values: Iterable[float], *, decades: bool = False) -> Axis:
    """Return a logarithmic axis that reaches a little past the values, with ticks at the values or at 1, 2, 5 …"""
    found = [value for value in values if value > 0 and math.isfinite(value)] or [1.0, 10.0]
    low, high = min(found) / 1.25, max(found) * 1.25
    if high / low < 8:  # so that a law without slope looks flat
        low, high = low / (8 * low / high) ** 0.5, high * (8 * low / high) ** 0.5
    ticks = sorted(set(found))
    if decades or len(ticks) > 7:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        each = (1,) if high / low > 300 else (1, 3) if high / low > 30 else (1, 2, 5)
        ticks = [k * 10.0**p for p in powers for k in each if low <= k * 10.0**p <= high]
    return Axis(title, domain=(low, high), scale="log", ticks={tick: f"{tick:g}" for tick in ticks})


def mean(by_seed: BySeed) -> float | None:
    """Return the mean over the seeds that have a number."""
    good = [value for value in by_seed.values() if value is not None]
    return sum(good) / len(good) if good else None


def measured(panel: Panel, series: Series, found: Mapping[float, BySeed]) -> None:
    """Draw the mean over seeds at each x, with its interval."""
    for x, by_seed in found.items():
        good = [value for value in by_seed.values() if value is not None]
        if good:
            middle, interval = sum(good) / len(good), over_seeds(good)
            low = max(interval.low, middle / 3) if math.isfinite(interval.low) else middle
            high = interval.high if math.isfinite(interval.high) else middle
            panel.interval(series, x, middle, low, high)


def claimed_line(panel: Panel, found: Mapping[float, BySeed], power: float) -> None:
    """Draw c x^power through the measured points, c their geometric mean."""
    points = {x: value for x, by_seed in found.items() if (value := mean(by_seed)) is not None and value > 0}
    if len(points) > 1:
        level = sum(math.log(value) - power * math.log(x) for x, value in points.items()) / len(points)
        ends = [min(points), max(points)]
        panel.line(CLAIMED, ends, [math.exp(level) * x**power for x in ends])


def sweep_panel(
    rows: Sequence[Row],
    settings: TimesSettings,
    sweep: Sweep,
    values: Sequence[float],
    looks: Mapping[float, Series],
    frozen: Sweep | None = None,
    fields: Sequence[Mapping[float, float]] = (),
) -> Panel:
    """Draw T against x, both logarithmic; ``fields`` are T by (F)."""
    found = {level: sweep.times(rows, level) for level in looks}
    twin = frozen.times(rows, HALF) if frozen else {}
    line = sweep.predicted(settings, values)
    heights = [value for times in (*found.values(), twin) for by_seed in times.values() for value in by_seed.values()]
    ys = [value for value in (*heights, *line.values(), *(t for field in fields for t in field.values())) if value]
    panel = Panel(sweep.title, x=log_axis(sweep.symbol, values), y=log_axis("steps T", ys, decades=True), height=200)
    panel.line(MEAN_FIELD, list(line), list(line.values()))
    for field in fields:
        panel.line(FIELD, list(field), list(field.values()))
    if sweep.power is not None:
        claimed_line(panel, found[HALF], sweep.power)
    if twin:
        measured(panel, FROZEN, twin)
    for level, series in looks.items():
        measured(panel, series, found[level])
    return panel


def fitted(law: PowerLaw) -> dict[str, str]:
    """Return the exponent with its interval, R² and the exponents of both halves of the range."""
    good = [value for value in law.exponent.values() if value is not None]
    if not good:
        never = "never" if law.exponent else "–"
        return {"exponent": never, "R²": "–", "lower half": "–", "upper half": "–"}
    interval = over_seeds(good)
    text = {"exponent": f"{sum(good) / len(good):.3f} [{interval.low:.3f}, {interval.high:.3f}]"}
    if len(good) < len(law.exponent):
        text["exponent"] += f", {len(law.exponent) - len(good)} seeds never"
    for name, by_seed in (("R²", law.straightness), ("lower half", law.lower), ("upper half", law.upper)):
        value = mean(by_seed)
        text[name] = "–" if value is None else f"{value:.3f}"
    return {name: value.replace("-", "−") for name, value in text.items()}


def sweep_line(
    rows: Sequence[Row], settings: TimesSettings, sweep: Sweep, values: Sequence[float], late: bool = True
) -> dict[str, Any]:
    """Return the table's line of a sweep: exponents measured, claimed and of the mean field."""
    field = PowerLaw({x: {0: time} for x, time in sweep.predicted(settings, values).items()}, fewest=3)
    predicted = mean(field.exponent)
    return {
        "T against": sweep.symbol + (f" ({sweep.held})" if sweep.held else ""),
        "claimed": "–" if sweep.power is None else f"{sweep.power:g}".replace("-", "−"),
        "mean field": "–" if predicted is None else f"{predicted:.2f}".replace("-", "−"),
        **fitted(PowerLaw(sweep.times(rows, HALF))),
        f"at loss {LATE:g}": fitted(PowerLaw(sweep.times(rows, LATE)))["exponent"] if late else "–",
    }


def other_line(what: str, claimed: str, found: str, settings_text: str = "–") -> dict[str, Any]:
    """Return a line of the same table for a finding that is no exponent of T."""
    rest = dict.fromkeys(("R²", "lower half", "upper half", f"at loss {LATE:g}"), "–")
    return {"T against": what, "claimed": claimed, "mean field": settings_text, "exponent": found, **rest}
