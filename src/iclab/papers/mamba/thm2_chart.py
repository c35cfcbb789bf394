"""The figure of M-thm2: random settings, one sweep for each condition of Theorem 2, and the collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iclab.papers.mamba.thm2_rows import by_seed, mean_leak, of, select
from iclab.papers.mamba.thm2_settings import Place, Thm2Settings
from iclab.probes import Row
from iclab.study.charts import (
    DASHED,
    DOTTED,
    FAINT,
    INK,
    PALETTE,
    Axis,
    Figure,
    Panel,
    Series,
    reference,
    shades,
)
from iclab.study.rows import proportion

ERROR = {"scale": "symlog", "linear_to": 0.002, "domain": (-0.0006, 1.0), "ticks": (0, 0.01, 0.1, 0.3, 1)}
"""The scale of errors: linear near 0, so that no error can be shown."""

RANDOM = Series("worst labels, places at random", PALETTE[0])
WORST = Series("worst labels and places", PALETTE[1], mark="diamond", size=36.0)
PRINTED = Series("(b) as printed, κ_a' = κ_a", PALETTE[3], mark="cross", line=False, size=30.0)
SEEDS = Series("single seeds", FAINT, line=False, size=12.0)
DRAWN = Series("D: random λ with Σλ = L, mean over seeds", PALETTE[2], mark="triangle-up", line=False, size=22.0)
FLOOR = reference("α^l: no clean example", DASHED, INK)


def draw(rows: list[Row], settings: Thm2Settings) -> Figure:
    """Draw the figure."""
    panels = [
        _drawn(rows, settings),
        *(_strengths(rows, settings, restored=restored) for restored in (False, True)),
        _imbalances(rows, settings),
        _seeds(rows, settings, "outside", "E  (a): v' = Σλv + u", "‖u‖ / β"),
        _lengths(rows, settings),
        _short(rows, settings),
        _one(rows, settings),
        _leak(rows, settings),
    ]
    return Figure(panels, columns=3)


def _interval(panel: Panel, series: Series, x: float, rows: Sequence[Row], place: Place, adversary: str) -> None:
    """Draw the error of a place minus its α^l, with its interval."""
    p = proportion(rows, **place.where, adversary=adversary)
    if p is not None and p.mean is not None:
        low, mean, high = (max(value - place.floor, -0.0006) for value in (p.interval.low, p.mean, p.interval.high))
        panel.interval(series, x, mean, low, high)


def _drawn(rows: list[Row], settings: Thm2Settings) -> Panel:
    panel = Panel(
        f"A  {settings.draws} random settings inside Theorem 2",
        x=Axis(
            "clean examples, l_ts (1 − α) / log M1", scale="log", domain=(0.9, 50), ticks=_plain((1, 2, 5, 10, 20, 50))
        ),
        y=Axis("worst-case error − α^l", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(y=0.01, dash=DOTTED)
    kinds = (("printed", "labels", PRINTED), ("inside", "places", WORST), ("inside", "labels", RANDOM))
    for sweep, adversary, series in kinds:
        mine = select(rows, sweep, adversary)
        for place in of(settings, sweep):
            clean = place.length * (1 - place.fraction) / math.log(settings.relevant)
            _interval(panel, series, clean, mine, place, adversary)
    return panel


def _strengths(rows: list[Row], settings: Thm2Settings, *, restored: bool) -> Panel:
    title = "C  (b) restored: κ_a' Σλ" if restored else "B  (b) as printed: κ_a'"
    mine, scale = select(rows, "strength", "labels"), settings.train_outlier_scale
    places = of(settings, "strength")
    xs = [place.x * scale if restored else place.strength for place in places]
    panel = Panel(
        title,
        x=Axis("κ_a' Σλ" if restored else "κ_a'", scale="log", domain=(min(xs) * 0.9, max(xs) * 1.1), ticks=_ticks(xs)),
        y=Axis("worst-case error", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(x=scale, dash=DASHED)
    panel.note("κ_a", scale * 1.08, 0.62, colour=FAINT)
    panel.rule(y=0.01, dash=DOTTED)
    for colour, total in zip(shades(len(settings.sums), ordered=True), settings.sums, strict=True):
        curve = of(settings, "strength", f"{total:g}")
        own = [place.x * scale if restored else place.strength for place in curve]
        panel.curve(Series(f"Σλ = {total:g}", colour), own, [by_seed(mine, place) for place in curve])
    return panel


def _ticks(xs: Sequence[float]) -> dict[float, str]:
    return _plain([t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if min(xs) <= t <= max(xs)])


def _plain(ticks: Sequence[float]) -> dict[float, str]:
    """Name ticks by plain numbers: a logarithmic axis would write 1e+0."""
    return {float(tick): f"{tick:g}" for tick in ticks}


def _seeds(rows: list[Row], settings: Thm2Settings, sweep: str, title: str, name: str) -> Panel:
    """Draw the mean over seeds and every seed: what breaks depends on the seed's own gate."""
    places, mine = of(settings, sweep), select(rows, sweep, "labels")
    top = max((place.x for place in places), default=1.0)
    panel = Panel(
        title,
        x=Axis(name, scale="symlog", linear_to=1.0, domain=(-0.1, top * 1.2), ticks=tuple(place.x for place in places)),
        y=Axis("worst-case error", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(y=0.01, dash=DOTTED)
    for place in places:
        found = [error for error in by_seed(mine, place).values() if error is not None]
        panel.points(SEEDS, [place.x] * len(found), found, faint=True)
    panel.curve(RANDOM, [place.x for place in places], [by_seed(mine, place) for place in places], band=False)
    return panel


def _imbalances(rows: list[Row], settings: Thm2Settings) -> Panel:
    """Draw λ = (c, −c, L), and random λ at the c that puts them as far from the even mixture."""
    panel = _seeds(rows, settings, "imbalance", "D  (a): λ = (c, −c, L)", "c")
    mine = select(rows, "variation", "labels")
    for place in of(settings, "variation"):
        found = [error for error in by_seed(mine, place).values() if error is not None]
        if found:
            weights = place.mixtures[0].weights
            even = sum(weights) / len(weights)
            away = math.sqrt(sum((weight - even) ** 2 for weight in weights) / 2)
            panel.points(DRAWN, [away], [sum(found) / len(found)])
    return panel


def _lengths(rows: list[Row], settings: Thm2Settings) -> Panel:
    panel = Panel(
        "F  (c): longer prompts",
        x=Axis("l_ts", scale="log", domain=(8, 400), ticks=_plain(settings.lengths)),
        y=Axis("worst-case error − α^l", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(y=0.01, dash=DOTTED)
    for fraction in settings.length_fractions:
        last = settings.base_fraction * settings.context_length / fraction
        panel.rule(x=last, dash=DASHED)
        for adversary, series in (("places", WORST), ("labels", RANDOM)):
            curve, mine = of(settings, "length", f"{fraction:g}"), select(rows, "length", adversary)
            found = [
                {s: None if e is None else e - place.floor for s, e in by_seed(mine, place, adversary).items()}
                for place in curve
            ]
            panel.curve(series, [place.x for place in curve], found)
            end = [e for e in (found[-1].values() if found else ()) if e is not None]
            if adversary == "places" and end:
                above = fraction == max(settings.length_fractions)
                side = {"x": 250, "align": "right"} if above else {"x": 310, "align": "right"}
                panel.note(f"α = {fraction:g}", y=sum(end) / len(end) * (0.8 if above else 0.12), **side)  # type: ignore[arg-type]
    return panel


def _short(rows: list[Row], settings: Thm2Settings) -> Panel:
    panel = Panel(
        "G  (d): short prompts",
        x=Axis("l_ts", scale="log", domain=(0.9, 24), ticks=_plain(settings.short_lengths)),
        y=Axis("worst-case error", scale="log", domain=(1e-5, 1.2)),
    )
    mine = select(rows, "short", "labels")
    for fraction in settings.short_fractions:
        curve = of(settings, "short", f"{fraction:g}")
        panel.line(FLOOR, [place.x for place in curve], [max(place.floor, 1e-6) for place in curve])
        for place in curve:
            p = proportion(mine, **place.where, adversary="labels")
            if p is not None and p.mean:
                panel.interval(RANDOM, place.x, p.mean, max(p.interval.low, 1e-5), p.interval.high)
        at = max((k for k in settings.short_lengths if fraction**k > 2e-3), default=1)  # low enough not to meet others
        panel.note(f"α = {fraction:g}", at * 0.93, fraction**at * 0.4, align="right", colour=FAINT)
        panel.rule(x=math.log(settings.relevant) / (1 - fraction), dash=DOTTED)
    return panel


def _one(rows: list[Row], settings: Thm2Settings) -> Panel:
    places, mine = of(settings, "one"), select(rows, "one", "labels")
    panel = Panel(
        f"H  α near 1, l_ts = p_a l_tr = {places[0].length if places else 0}",
        x=Axis("fraction of outliers α", domain=(min(settings.near_one) - 0.02, 1.0)),
        y=Axis("worst-case error", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(y=0.01, dash=DOTTED)
    panel.line(FLOOR, [place.x for place in places], [place.floor for place in places])
    panel.curve(RANDOM, [place.x for place in places], [by_seed(mine, place) for place in places])
    return panel


def _leak(rows: list[Row], settings: Thm2Settings) -> Panel:
    """Draw the error at worst places of all settings against how much their outliers leak."""
    panel = Panel(
        "I  all settings at once",
        x=Axis("l_ts α σ_out / σ_clean", scale="log", domain=(3e-4, 40)),
        y=Axis("error at worst places − α^l", **ERROR),  # type: ignore[arg-type]
    )
    panel.rule(x=1.0, dash=DASHED)
    panel.rule(y=0.01, dash=DOTTED)
    names = {
        "inside": ("random settings", "circle"),
        "strength": ("sweep of κ_a'", "triangle-down"),
        "length": ("sweep of l_ts", "triangle-up"),
    }
    for (sweep, (name, mark)), colour in zip(names.items(), (PALETTE[2], PALETTE[4], INK), strict=True):
        mine = select(rows, sweep, "places")
        series = Series(f"I: {name}", colour, mark=mark, line=False, size=26.0)
        for place in of(settings, sweep):
            leak = mean_leak(rows, place)
            if leak is not None:
                _interval(panel, series, max(leak, 3e-4), mine, place, "places")
    return panel
