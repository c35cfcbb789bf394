"""S-thm1: how the steps to a small loss on the training tasks depend on λ*, τ, α, M and m."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, measured
from iclab.papers.nonlinear.laws import HALF, LATE, Sweep, watched_training
from iclab.papers.selectors.laws import FRACTION, GRAPH, NOISE, SIGNAL, SWEEPS, TOTAL, UNIFORM, WIDTH, SelectorTheorems
from iclab.probes import Row
from iclab.study.charts import DOTTED, PALETTE, Axis, Figure, Panel, Series, reference
from iclab.study.claims import (
    BySeed,
    Claim,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_claim, fit_per_seed, straight_line, straightness
from iclab.study.rows import error_points, listed

EVEN = 0.25
"""Θ((1 − τ M1)^(−1/2)): T (1 − τ M1)^(1/2) differs from its value at τ = 0 by less than this part."""
STRAIGHT = 0.95
"""Linear is read as: R² above this."""
NONE = 0.001
"""Zero error, read as: below this."""
LOOKS = {
    HALF: Series(f"T to loss {HALF:g}", PALETTE[0], line=False, size=45.0),
    LATE: Series(f"T to loss {LATE:g}", PALETTE[1], line=False, size=45.0, mark="diamond", hollow=True),
}
POLE = reference("(1 − τ M1)^(−1/2), from T at τ = 0", DOTTED)
LAW = "T = Θ(√M λ*⁻¹ η⁻¹ (1 − ε_m − τ M1)^(−1/2) (C − α⁻¹)⁻¹)"


class Theorem1(Experiment[SelectorTheorems]):
    """Steps until the loss on training tasks is small."""

    id = "S-thm1"
    title = "How long S's Transformer trains"
    paper = f"Theorem 1 (6): after {LAW} steps there is no error on the training tasks."
    reading = (
        "The first step with a hinge loss below 0.5, and below 0.1, on fresh prompts of the M1 training tasks, against "
        "one quantity of (6); dashed, the claimed slope. C: dotted, the pole at τ M1 = 1. F: m, which (52) has where "
        "(53) and (6) have M. M1 = 4, M2 = 12 and m = 800 meet S's conditions. Points are means over seeds with 95 % "
        "intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("S-thm1",)
    settings = SelectorTheorems

    def conditions(self, settings: SelectorTheorems) -> list[Condition]:
        """Return the loss along every training, and the error after the usual one."""
        found = [condition for sweep in SWEEPS for condition in sweep.conditions(settings, GRAPH)]
        own = settings.with_total(settings.relevant + settings.irrelevant)
        columns = {"part": "end", "graph": GRAPH, "x": 0.0}
        cell = {"probe": "error", "prompts": own.prompts(tasks=own.train_tasks), "count": 10 * settings.test_prompts}
        return found + in_groups(settings, columns, watched_training(own, settings.watched), **cell)

    def claims(self, settings: SelectorTheorems) -> list[Claim]:
        """Return every factor of (6), and the error."""
        where = [("training tasks", {"part": "end"})]
        slow = "never get there"
        points = partial(mean_point, settings.seeds, fate=slow)
        return [
            _power_claim(settings, SIGNAL, f"T ∝ λ*⁻¹: {LAW} (6)"),
            _power_claim(settings, UNIFORM, "so it is with λ uniform between λ* and 1, as S draws it"),
            Claim(
                "S-thm1.noise",
                "T ∝ (1 − ε_m − τ M1)^(−1/2), so noise of τ near 1/M1 takes ever longer (6)",
                f"T (1 − τ M1)^(1/2), over T at τ = 0, within 1 ± {EVEN} at every τ M1 < 1",
                judged(partial(_poles, settings=settings), every_within, 1 - EVEN, 1 + EVEN),
            ),
            Claim(
                "S-thm1.fraction",
                "T ∝ (C − α⁻¹)⁻¹ for a constant C (6)",
                f"R² > {STRAIGHT} of 1/T against 1/α, α = {listed(settings.fractions)}, and 1/T falls",
                judged(together(points(_straight), points(_falls)), every_above, STRAIGHT),
            ),
            _power_claim(settings, TOTAL, f"T ∝ √M: {LAW} (6)"),
            exponent_claim(
                "S-thm1.neurons",
                "it is m that T grows with: (52) gives η T = √a with a = m, and (53) writes √M",
                partial(WIDTH.times, graph=GRAPH),
                0.5,
                where=f"m at M = {settings.relevant + settings.irrelevant}",
                seeds=settings.seeds,
                fate=slow,
                ours=True,
            ),
            Claim(
                "S-thm1.error",
                "there is no error on the training tasks (Theorem 1)",
                f"mean error on training tasks < {NONE} after training",
                judged(partial(error_points, seeds=settings.seeds, cells=where), every_below, NONE),
            ),
        ]

    def table(self, rows: list[Row], settings: SelectorTheorems) -> list[dict[str, Any]]:
        """Return one line per sweep."""
        lines = []
        for sweep in SWEEPS:
            times = {x: found for x, found in sweep.times(rows, GRAPH).items() if x > 0}
            power = "–" if sweep is NOISE else f"{sweep.power:g}".replace("-", "−")
            line = {"T against": sweep.symbol + (f" ({sweep.held})" if sweep.held else ""), "claimed": power}
            lines.append(line | fitted(PowerLaw(times)))
        return lines

    def chart(self, rows: list[Row], settings: SelectorTheorems) -> Figure:
        """Draw every sweep."""
        panels = [_noise_panel(rows, settings) if s is NOISE else _panel(rows, settings, s) for s in SWEEPS]
        return Figure(panels, columns=3, width=250)


def _power_claim(settings: SelectorTheorems, sweep: Sweep, words: str) -> Claim:
    return exponent_claim(
        f"S-thm1.{sweep.name}",
        words,
        partial(sweep.times, graph=GRAPH),
        sweep.power,
        seeds=settings.seeds,
        where=f"{sweep.symbol}, T to loss {HALF:g}; {sweep.held}",
        ours=sweep.ours,
    )


def _rates(rows: list[Row]) -> dict[float, BySeed]:
    """Return 1/T by 1/α and seed."""
    times = FRACTION.times(rows, GRAPH)
    return {1 / x: {s: None if t is None else 1 / t for s, t in found.items()} for x, found in times.items()}


def _straight(rows: list[Row]) -> BySeed:
    return fit_per_seed(_rates(rows), straightness)


def _falls(rows: list[Row]) -> BySeed:
    """Return 1 where 1/T falls with 1/α, as (6) has it, and 0 elsewhere."""
    return fit_per_seed(_rates(rows), lambda xs, ys: float(straight_line(xs, ys)[0] < 0))


def _poles(rows: list[Row], settings: SelectorTheorems) -> list[Point] | None:
    times = NOISE.times(rows, GRAPH)
    start, named = times.get(0.0, {}), {}
    for x in (x for x in settings.noises if 0 < x < 1):
        ratio: BySeed = {}
        for seed, t in times.get(x, {}).items():
            first = start.get(seed)
            ratio[seed] = None if t is None or not first else t / first * (1 - x) ** 0.5
        named[f"τ M1 = {x:g}"] = ratio
    return mean_points(settings.seeds, named, "never get there")


def _panel(rows: list[Row], settings: SelectorTheorems, sweep: Sweep) -> Panel:
    found = {level: sweep.times(rows, GRAPH, level) for level in LOOKS}
    heights = [t for times in found.values() for by_seed in times.values() for t in by_seed.values() if t]
    x, y = log_axis(sweep.symbol, sweep.values(settings)), log_axis("steps T", heights, decades=True)
    panel = Panel(sweep.title, x=x, y=y, height=190)
    if sweep is not FRACTION:
        claimed_line(panel, found[HALF], sweep.power)
    for level, series in LOOKS.items():
        measured(panel, series, found[level])
    return panel


def _noise_panel(rows: list[Row], settings: SelectorTheorems) -> Panel:
    found = {level: NOISE.times(rows, GRAPH, level) for level in LOOKS}
    panel = Panel(NOISE.title, x=Axis("τ M1", ticks=(0, 1, 2, 3, 4)), y=Axis("steps T"), height=190)
    good = [t for t in found[HALF].get(0.0, {}).values() if t]
    if good:
        fine = [k / 50 for k in range(48)]
        panel.line(POLE, fine, [sum(good) / len(good) * (1 - x) ** -0.5 for x in fine])
    for level, series in LOOKS.items():
        measured(panel, series, found[level])
    return panel
