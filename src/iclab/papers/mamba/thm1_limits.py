"""Upper bounds in the conditions of M Theorem 1: how strong outliers may be (ii), and how long prompts may be (iii).

Sufficient conditions: inside them the theorem promises a small loss; outside it is silent. So (ii) is judged inside
its bound, and the bound of (iii), which the settings here leave behind, as a question of iclab's: is it needed?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from iclab.papers.mamba.thm1_settings import Theorem1Settings
from iclab.papers.mamba.times import LATE, last, mean_points
from iclab.papers.mamba.times_chart import mean, other_line
from iclab.probes import Row
from iclab.prompts.tasks import AllPairs
from iclab.study.claims import BySeed, Claim, Direction, Point, every_below, judged
from iclab.study.experiment import Condition, in_groups
from iclab.study.rows import difference, listed

ENDED = 2.0
"""Steps as a multiple of (E): the mean field is below a loss of 0.1 after about 1."""
STEEP = 10.0
"""η κ_a² of the smaller steps. At the paper's κ_a = 2 and the largest η, 1, it is 4."""
LONG = 3.3
"""Steps as a multiple of (E) for long prompts, about four times T to loss 0.5."""
MODERATE = 10.0
"""κ_a up to which (ii) still holds in direction: five times the paper's."""
RISE = 0.01
"""A loss that rises by less has not risen: ε."""
BATCH = 64
"""The largest B of trainings with strong outliers: small steps average over batches."""
FIXED, SCALED, START = "strong", "strong.scaled", "strong.start"
"""Parts: η the same for every κ_a; η κ_a² bounded; and w⁽⁰⁾ = 0 as well."""


def step_size(settings: Theorem1Settings, part: str, strength: float) -> float:
    """Return η at a κ_a: the same everywhere, or at most `STEEP` / κ_a²."""
    return settings.end_step if part == FIXED else min(settings.end_step, STEEP / strength**2)


def strong_values(settings: Theorem1Settings) -> dict[str, tuple[float, ...]]:
    """Return the κ_a of every part with strong outliers."""
    return {FIXED: settings.strong, SCALED: settings.strong_scaled, START: settings.strong_start}


def conditions(settings: Theorem1Settings) -> list[Condition]:
    """Return the loss after training with strong outliers, and on long prompts."""
    found: list[Condition] = []

    def add(part: str, own: Theorem1Settings, reach: float, x: float, by: float) -> None:
        training = own.replace(watched=2).training("mamba", reach)
        columns = {"part": part, "model": "mamba", "x": x, "by": by}
        how = {"probe": "error", "prompts": own.prompts(AllPairs()), "count": 2 * settings.test_prompts}
        found.extend(in_groups(settings, columns, training, **how))

    short = settings.replace(context_length=settings.strong_length, batch_size=min(settings.batch_size, BATCH))
    for part, strengths in strong_values(settings).items():
        for strength in strengths:
            changes: dict[str, Any] = {"step_sizes": {"mamba": step_size(settings, part, strength)}}
            if part == START:
                changes["gate_scale"] = 0.0
            add(part, short.replace(train_outlier_scale=strength, **changes), ENDED, strength, 0)
    for product in settings.weak_products:
        for length in settings.long_lengths:
            own = settings.hurried().replace(context_length=length, train_outlier_scale=product / settings.outlier_norm)
            add("long", own, LONG, length, product)
    return found


def largest_strength(settings: Theorem1Settings) -> float:
    """Return V β (1 − p_a) p_a⁻¹ ε⁻¹ at ε = 0.1, the bound of (ii) with constant 1."""
    return settings.outlier * settings.pattern_norm * settings.clean / (settings.train_outlier_fraction * LATE)


def long_losses(rows: Sequence[Row], product: float) -> dict[float, BySeed]:
    """Return the loss after training by l_tr, for one κ_a ‖v*‖."""
    return last([row for row in rows if row["by"] == product], "hinge", "long")


def rises(rows: Sequence[Row], settings: Theorem1Settings) -> dict[str, BySeed]:
    """Return by how much the loss rises from the shortest prompts to each longer one, on paired seeds."""
    found = {}
    for product in settings.weak_products:
        losses = long_losses(rows, product)
        first, *longer = sorted(settings.long_lengths)
        for length in longer:
            where = f"κ_a ‖v*‖ = {product:g}, l_tr = {length}"
            found[where] = difference(losses.get(length, {}), losses.get(first, {}))
    return found


def claims(settings: Theorem1Settings) -> list[Claim]:
    """Return what (ii) promises for strong outliers, iclab's reading of why it breaks, and whether (iii) is needed."""

    def losses(part: str, strengths: Sequence[float]) -> Any:
        return partial(_losses, settings=settings, part=part, strengths=strengths)

    fixed, scaled, start = strong_values(settings).values()
    most, shortest = largest_strength(settings), min(settings.long_lengths)
    moderate = [x for x in fixed if x <= MODERATE]
    return [
        Claim(
            "M-thm1.strong",
            "(ii): κ_a up to V β (1 − p_a) p_a⁻¹ ε⁻¹ does no harm, with any η ≤ 1",
            f"loss < {LATE:g} after {ENDED:g} × (E) steps at κ_a = {listed(fixed)} (the bound is {most:g} at ε = "
            f"{LATE:g}), η = {settings.end_step:g}",
            judged(losses(FIXED, fixed), every_below, LATE),
            direction=Direction(f"at κ_a ≤ {MODERATE:g}", judged(losses(FIXED, moderate), every_below, LATE)),
        ),
        Claim(
            "M-thm1.strong-scaled",
            "strong outliers ask for smaller steps, not for a bound on κ_a",
            f"loss < {LATE:g} after {ENDED:g} × (E) steps at κ_a = {listed(scaled)} with η κ_a² ≤ {STEEP:g}",
            judged(losses(SCALED, scaled), every_below, LATE),
            ours=True,
        ),
        Claim(
            "M-thm1.strong-start",
            "and for a gate that does not start open to them: w⁽⁰⁾ᵀv* is random, and κ_a multiplies it",
            f"loss < {LATE:g} after {ENDED:g} × (E) steps at κ_a = {listed(start)} with η κ_a² ≤ {STEEP:g}, w⁽⁰⁾ = 0",
            judged(losses(START, start), every_below, LATE),
            ours=True,
        ),
        Claim(
            "M-thm1.long",
            "the upper bound p_a⁻¹ poly(M1^κ_a) of (iii) is not needed: longer prompts do not raise the loss",
            f"loss at l_tr = {listed(sorted(settings.long_lengths)[1:])} minus that at {shortest} < {RISE:g}, paired "
            f"seeds, at κ_a ‖v*‖ = {listed(settings.weak_products)}, where M1^κ_a/p_a is at most "
            f"{_bound(settings, max(settings.weak_products)):.0f}",
            judged(lambda rows: mean_points(settings.seeds, rises(rows, settings)), every_below, RISE),
            ours=True,
        ),
    ]


def _bound(settings: Theorem1Settings, product: float) -> float:
    """Return M1^κ_a / p_a, the bound of (iii) with poly(x) = x."""
    return float(settings.relevant ** (product / settings.outlier_norm) / settings.train_outlier_fraction)


def _losses(
    rows: Sequence[Row], settings: Theorem1Settings, part: str, strengths: Sequence[float]
) -> list[Point] | None:
    found: Mapping[float, BySeed] = last(rows, "hinge", part)
    return mean_points(settings.seeds, {f"κ_a = {x:g}": found.get(x, {}) for x in strengths})


def lines(rows: Sequence[Row], settings: Theorem1Settings) -> list[dict[str, Any]]:
    """Return the table's lines: losses with strong outliers, with the number of diverged seeds, and on long prompts."""
    found = []
    for part, strengths in strong_values(settings).items():
        losses = last(rows, "hinge", part)
        for x in strengths:
            name = f"loss at κ_a = {x:g}, η = {step_size(settings, part, x):g}" + (
                ", w⁽⁰⁾ = 0" if part == START else ""
            )
            found.append(other_line(name, f"< {LATE:g}", _loss(losses.get(x, {}))))
    for product in settings.weak_products:
        losses = long_losses(rows, product)
        for length in settings.long_lengths:
            name = f"loss at κ_a ‖v*‖ = {product:g}, l_tr = {length}"
            found.append(other_line(name, "–", _loss(losses.get(length, {}))))
    return found


def _loss(by_seed: BySeed) -> str:
    middle, lost = mean(by_seed), sum(value is None for value in by_seed.values())
    text = "–" if middle is None else f"{middle:.4f}"
    return f"{text}, {lost} diverged" if lost else text
