"""Panels of M-thm1 that show what conditions (i), (ii) and (iii) need, and where their upper bounds are."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.papers.mamba import thm1_conditions as parts
from iclab.papers.mamba import thm1_limits as limits
from iclab.papers.mamba.thm1_settings import Theorem1Settings
from iclab.papers.mamba.times import LATE, last
from iclab.papers.mamba.times_chart import log_axis, mean, measured
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, PALETTE, Axis, Panel, Series, reference, shades
from iclab.study.claims import BySeed

LOSS = Series("loss after training", PALETTE[0])
ROOT = reference("B^−½", DOTTED)
STRONG = {
    limits.FIXED: Series("strong outliers: the same η", PALETTE[1]),
    limits.SCALED: Series("η κ_a² ≤ 10", PALETTE[4], mark="diamond"),
    limits.START: Series("η κ_a² ≤ 10 and w⁽⁰⁾ = 0", PALETTE[2], mark="triangle-up"),
}
LEAST = 1e-4
"""Smaller losses are drawn here."""


def condition_panels(rows: Sequence[Row], settings: Theorem1Settings) -> list[Panel]:
    """Return a panel per condition."""
    needed = [_batches(rows, settings), _strengths(rows, settings), _lengths(rows, settings)]
    return [*needed, _strong(rows, settings), _long(rows, settings)]


def _batches(rows: Sequence[Row], settings: Theorem1Settings) -> Panel:
    losses = last(rows, "hinge", "batch")
    batches = [float(b) for b in settings.batch_values]
    panel = Panel(
        f"H  (i), η = {settings.batch_step:g}",
        x=log_axis("batch B", batches),
        y=Axis("loss after about 4 T", domain=(LEAST, 100), scale="log"),
        height=200,
    )
    panel.rule(y=parts.SMALL, dash=DOTTED)
    start = mean(losses.get(batches[0], {}))
    if start:
        panel.line(ROOT, [batches[0], batches[-1]], [start, start * (batches[0] / batches[-1]) ** 0.5])
    panel.curve(LOSS, list(losses), [_drawn(by_seed) for by_seed in losses.values()])
    return panel


def _strengths(rows: Sequence[Row], settings: Theorem1Settings) -> Panel:
    base = {"outlier": settings.outlier, "norm": settings.pattern_norm, "relevant": settings.relevant}
    panel = Panel(
        "I  (ii): strength needed",
        x=log_axis("V, β or M1, over its usual value", [0.25, 0.5, 1, 2, 4]),
        y=log_axis("κ_a* (gate ratio 1/2)", settings.strengths),
        height=200,
    )
    for (axis, symbol), colour, mark in zip(
        parts.AXES.items(), PALETTE[1:], ("circle", "triangle-up", "diamond"), strict=False
    ):
        needed = {value / base[axis]: by_seed for value, by_seed in parts.needed_strength(rows, axis).items()}
        measured(panel, Series(f"κ_a* against {symbol}", colour, line=False, mark=mark, size=45.0), needed)
        middle = [value for by_seed in needed.values() if (value := mean(by_seed))]
        if middle:
            power = parts.READINGS["mean field"][list(parts.AXES).index(axis)]
            geometric = 1.0
            for x, by_seed in needed.items():
                geometric *= ((mean(by_seed) or 1.0) / x**power) ** (1 / len(needed)) if mean(by_seed) else 1.0
            ends = [min(needed), max(needed)]
            panel.line(
                reference(f"slope of (C) in {symbol}", DASHED, colour), ends, [geometric * x**power for x in ends]
            )
    return panel


def _lengths(rows: Sequence[Row], settings: Theorem1Settings) -> Panel:
    clean = settings.clean
    places = [clean * length for length in settings.short_lengths]
    panel = Panel(
        "J  (iii): length needed",
        x=log_axis("clean examples l_tr (1 − p_a)", places, decades=True),
        y=Axis("loss after about 4 T", domain=(LEAST, 2), scale="log"),
        height=200,
    )
    panel.rule(y=LATE, dash=DOTTED)
    groups = parts.with_value(rows, "short")
    colours = shades(max(len(settings.short_relevant), 2), ordered=True)
    for (count, mine), colour in zip(groups.items(), colours, strict=False):
        losses = last(mine, "hinge", "short")
        xs = [clean * length for length in losses]
        panel.curve(Series(f"M1 = {count:g}", colour), xs, [_drawn(by_seed) for by_seed in losses.values()], band=False)
    return panel


def _strong(rows: Sequence[Row], settings: Theorem1Settings) -> Panel:
    """Draw the loss after training against κ_a."""
    values = [x for strengths in limits.strong_values(settings).values() for x in strengths]
    panel = Panel(
        "K  (ii): strong outliers",
        x=log_axis("κ_a", values),
        y=Axis("loss after 2 × (E) steps", domain=(1e-3, 10), scale="log"),
        height=200,
    )
    panel.rule(y=LATE, dash=DOTTED)
    for part, look in STRONG.items():
        losses = last(rows, "hinge", part)
        panel.curve(look, list(losses), [_drawn(by_seed) for by_seed in losses.values()], band=part == limits.FIXED)
    return panel


def _long(rows: Sequence[Row], settings: Theorem1Settings) -> Panel:
    """Draw the loss after training against l_tr, for weak outliers."""
    panel = Panel(
        "L  (iii): long prompts",
        x=log_axis("length l_tr", settings.long_lengths),
        y=Axis("loss after about 4 T", domain=(LEAST, 2), scale="log"),
        height=200,
    )
    panel.rule(y=LATE, dash=DOTTED)
    for product, colour, mark in zip(
        settings.weak_products, PALETTE[1:], ("circle", "triangle-up", "diamond"), strict=False
    ):
        losses = limits.long_losses(rows, product)
        look = Series(f"κ_a ‖v*‖ = {product:g}", colour, mark=mark, size=45.0)
        panel.curve(look, list(losses), [_drawn(by_seed) for by_seed in losses.values()], band=False)
    return panel


def _drawn(by_seed: BySeed) -> BySeed:
    return {seed: None if value is None else max(value, LEAST) for seed, value in by_seed.items()}
