"""The figure of M-thm4: needed lengths and their laws, label rules beyond 1/2, and too strong outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iclab.papers.mamba.thm4_rows import BROKEN, LAWS, breaking, needed, select, weight_of_others
from iclab.papers.mamba.thm4_settings import EXPECTED, Thm4Settings
from iclab.probes import Row
from iclab.study.charts import (
    DASH_DOT,
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
    series_of,
    shades,
)
from iclab.study.claims import BySeed
from iclab.study.rows import errors
from iclab.theory.votes import vote_error, vote_length

VOTE = reference("a vote with the model's ρ, exact", DASHED, INK)
LOOKS = {
    "printed": reference("(15), constant fitted", DASH_DOT, PALETTE[2]),
    "plain": reference("(½ − α)⁻², constant fitted", DOTTED, PALETTE[3]),
    "chernoff": reference("Chernoff's rate, constant fitted", (2.0, 1.5), PALETTE[4], width=1.6),
}
HALF = reference("∝ √B", DASHED, INK)
RULES = {"flip": PALETTE[1], "target": PALETTE[4], "random": PALETTE[2]}


def draw(rows: list[Row], settings: Thm4Settings) -> Figure:
    """Draw the figure."""
    other = weight_of_others(rows)
    rho = EXPECTED if other is None else other
    level = min(settings.levels)
    panels = [
        _lengths(rows, settings, rho),
        _laws(rows, settings, level),
        _curves(rows, settings, rho),
        _beyond(rows, settings),
        _strengths(rows, settings),
        _batches(rows, settings),
    ]
    return Figure(panels, columns=3)


def _plain(ticks: Sequence[float]) -> dict[float, str]:
    return {float(tick): f"{tick:g}" for tick in ticks}


def _mean(found: BySeed) -> float | None:
    good = [value for value in found.values() if value is not None]
    return float(np.mean(good)) if good else None


def _lengths(rows: list[Row], settings: Thm4Settings, rho: float) -> Panel:
    panel = Panel(
        "A  examples needed, l*",
        x=Axis("(½ − α)⁻¹", scale="log", domain=(2, 40), ticks=_plain((2, 3, 5, 10, 20, 33))),
        y=Axis("l*", scale="log", domain=(0.8, 4000)),
    )
    for level in settings.levels:
        strict = level == min(settings.levels)
        for model in ("linear", "mamba"):
            fractions = settings.fractions if model == "linear" else settings.mamba_fractions
            look = (
                series_of(model)
                if strict
                else series_of(model).beside(f"{series_of(model).name}, ε = {level:g}", (), mark="diamond", size=26.0)
            )
            found = [needed(rows, settings, model, f, level) for f in fractions]
            panel.curve(look, [1 / (0.5 - f) for f in fractions], found)
        xs = [1 / (0.5 - f) for f in settings.fractions]
        panel.line(VOTE, xs, [float(vote_length(f, level, rho)) for f in settings.fractions])
    return panel


def _laws(rows: list[Row], settings: Thm4Settings, level: float) -> Panel:
    """Draw l* against α on a logarithmic scale, with three laws, each with the constant that fits best."""
    panel = Panel(
        f"B  the same against α, ε = {level:g}",
        x=Axis("fraction of outliers α", domain=(0, 0.5)),
        y=Axis("l*", scale="log", domain=(0.8, 4000)),
    )
    found = {f: needed(rows, settings, "linear", f, level) for f in settings.fractions}
    means = {f: mean for f, by in found.items() if (mean := _mean(by)) is not None and mean > 0}
    for name, look in LOOKS.items():
        if means:
            shift = np.mean([math.log(length / LAWS[name](f)) for f, length in means.items()])
            grid = np.linspace(0.02, 0.475, 60)
            panel.line(look, grid.tolist(), [float(math.exp(shift) * LAWS[name](f)) for f in grid])
    panel.curve(series_of("linear"), list(found), list(found.values()))
    return panel


def _curves(rows: list[Row], settings: Thm4Settings, rho: float) -> Panel:
    panel = Panel(
        "C  worst-case error against l_ts",
        x=Axis("l_ts", scale="log", domain=(4, 6000), ticks=_plain((10, 100, 1000, 5000))),
        y=Axis("worst-case error", scale="log", domain=(5e-4, 0.9)),
    )
    mine = select(rows, "length", "linear")
    wanted = [f for f in (0.3, 0.4, 0.47) if f in settings.fractions]
    for fraction in wanted:
        lengths = settings.lengths(fraction)
        found = [errors(mine, fraction=fraction, length=length) for length in lengths]
        kept = [(length, by) for length, by in zip(lengths, found, strict=True) if any(by.values())]
        panel.curve(series_of("linear"), [float(k) for k, _ in kept], [_positive(by) for _, by in kept], band=False)
        panel.line(VOTE, lengths, [max(vote_error(fraction, length, rho), 5e-4) for length in lengths])
        panel.note(f"α = {fraction:g}", lengths[0] * 0.8, 0.5, colour=FAINT)
    few = Series(f"linear, B = {settings.few}, α = {max(settings.fractions):g}", PALETTE[3], mark="triangle-up")
    found = [errors(select(rows, "batch", "linear"), length=length) for length in settings.long_lengths]
    panel.curve(few, settings.long_lengths, [_positive(by) for by in found])
    return panel


def _positive(by_seed: BySeed) -> BySeed:
    return {seed: None if error is None else max(error, 5e-4) for seed, error in by_seed.items()}


def _beyond(rows: list[Row], settings: Thm4Settings) -> Panel:
    panel = Panel(
        "D  beyond ½: by label rule",
        x=Axis("l_ts", scale="log", domain=(8, 800), ticks=_plain(settings.beyond_lengths)),
        y=Axis("error", domain=(0, 1)),
    )
    panel.rule(y=0.5, dash=DOTTED)
    mine = select(rows, "beyond", "linear")
    for rule, colour in RULES.items():
        look = Series(f"labels: {rule}, α = {', '.join(f'{f:g}' for f in settings.beyond)}", colour)
        for fraction in settings.beyond:
            found = [errors(mine, labels=rule, fraction=fraction, length=k) for k in settings.beyond_lengths]
            panel.curve(look, settings.beyond_lengths, found, band=False)
    return panel


def _strengths(rows: list[Row], settings: Thm4Settings) -> Panel:
    panel = Panel(
        "E  (b): too strong outliers",
        x=Axis("κ_a'", scale="log", domain=(1.8, 360), ticks=_plain((2, 5, 10, 20, 50, 100, 200))),
        y=Axis("worst-case error", domain=(0, 1)),
    )
    panel.rule(y=BROKEN, dash=DOTTED)
    mine = select(rows, "strength", "linear")
    for batch, colour in zip(settings.batch_sizes, shades(len(settings.batch_sizes), ordered=True), strict=True):
        found = [errors(mine, batch=batch, strength=k) for k in settings.strengths]
        panel.curve(Series(f"B = {batch}", colour, mark=""), settings.strengths, found, band=False)
    return panel


def _batches(rows: list[Row], settings: Thm4Settings) -> Panel:
    panel = Panel(
        f"F  κ_a' at which the error is {BROKEN:g}",
        x=Axis("B", scale="log", domain=(12, 1400), ticks=_plain(settings.batch_sizes)),
        y=Axis("κ*", scale="log", domain=(4, 300), ticks=_plain((2, 5, 10, 20, 50, 100, 200))),
    )
    found = {batch: breaking(rows, settings, batch) for batch in settings.batch_sizes}
    means = {batch: mean for batch, by in found.items() if (mean := _mean(by)) is not None}
    if means:
        shift = np.mean([math.log(mean / batch**0.5) for batch, mean in means.items()])
        panel.line(HALF, list(means), [float(math.exp(shift) * batch**0.5) for batch in means])
    panel.curve(series_of("linear"), list(found), list(found.values()))
    return panel
