"""Conditions (i) to (iii) of M Theorem 1, and Condition 1: what is trained, and what is judged.

(i) is about the batch, (ii) about the strength of outliers, (iii) about the length of prompts. They suffice, says the
theorem; so a claim here fails only if what is needed grows faster than what the theorem asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from iclab.papers.mamba.thm1_settings import Theorem1Settings
from iclab.papers.mamba.times import LATE, last, mean_points, ratio
from iclab.probes import Row
from iclab.probes.tracing import exp, most
from iclab.prompts.tasks import AllPairs, Ring
from iclab.study.claims import BySeed, Claim, Direction, Point, every_below, every_within, judged, mean_point
from iclab.study.experiment import Condition, in_groups
from iclab.study.fits import NEAR, PowerLaw, inner_crossing
from iclab.study.rows import error_points, listed

SMALL = 0.01
"""ε."""
CLOSED = 0.5
"""The gate has learnt about outliers if it lets through less than this share of what it lets through of clean ones."""
LONG = 3.3
"""Steps as a multiple of (E), about four times T to loss 0.5."""
GATED = 2.5
"""The same for condition (ii), about three times."""
AXES = {"outlier": "V", "norm": "β", "relevant": "M1"}
READINGS = {"printed": (1.0, -4.0, 0.0), "proof": (1.0, 4.0, 0.0), "mean field": (0.5, 1.0, -0.5)}
"""Exponents of V, β and M1 in the κ_a that condition (ii) needs: printed; as (168) and (170) give it; iclab's (C)."""


def conditions(settings: Theorem1Settings) -> list[Condition]:
    """Return the measurements of all four conditions, after training."""
    quickly = settings.hurried()
    found: list[Condition] = []
    few = 4 * settings.test_prompts

    def add(part: str, own: Theorem1Settings, x: float, by: float, **how: Any) -> None:
        training = own.replace(watched=2).training("mamba", how.pop("reach", LONG))
        columns = {"part": part, "model": "mamba", "x": x, "by": by}
        measurement = {"probe": "error", "count": few, "prompts": own.prompts(AllPairs())} | how
        found.extend(in_groups(settings, columns, training, **measurement))

    for count in settings.ring_relevant:
        add("ring", quickly.replace(relevant=count, train_tasks=Ring(steps=1)), count, 0)
    for batch in settings.batch_values:
        own = settings.replace(batch_size=min(batch, _most(settings)), step_sizes={"mamba": settings.batch_step})
        add("batch", own, batch, 0)
    for count in settings.short_relevant:
        for length in settings.short_lengths:
            add("short", quickly.replace(relevant=count, context_length=length), length, count)
    for axis, value, own in _strength_settings(settings):
        for strength in settings.strengths:
            gate = {"probe": "logits", "count": min(settings.test_prompts, 50), "reach": GATED}
            add(f"strength.{axis}", own.replace(train_outlier_scale=strength), strength, value, **gate)
    return found


def _most(settings: Theorem1Settings) -> int:
    """Return the largest batch; a test at a very small size lowers it together with ``batch_size``."""
    return max(settings.batch_values) if settings.batch_size >= 16 else settings.batch_size


def _strength_settings(settings: Theorem1Settings) -> list[tuple[str, float, Theorem1Settings]]:
    """Return the settings of condition (ii): one of V, β and M1 moves, δβ is fixed, the gate starts at 1/2."""
    start = settings.hurried().replace(gate_scale=0.0)
    product = start.init_scale * start.pattern_norm
    return [
        *(("outlier", count, start.replace(outlier=count)) for count in settings.strength_outliers),
        *(("norm", x, start.replace(pattern_norm=x, init_scale=product / x)) for x in settings.strength_norms),
        *(("relevant", count, start.replace(relevant=count)) for count in settings.strength_relevant),
    ]


# What the rows say.


def with_value(rows: Sequence[Row], part: str) -> dict[float, list[Row]]:
    """Return the rows of a part, by the value of V, β or M1."""
    found: dict[float, list[Row]] = {}
    for row in rows:
        if row["part"] == part:
            found.setdefault(row["by"], []).append(row)
    return dict(sorted(found.items()))


def needed_strength(rows: Sequence[Row], axis: str) -> dict[float, BySeed]:
    """Return the least κ_a of each seed at which outliers' gates are half of clean ones' or less, by V, β or M1."""
    found = {}
    for value, mine in with_value(rows, f"strength.{axis}").items():
        part = f"strength.{axis}"
        gates = [last(mine, "mean", part, kind=kind, quantity="gate") for kind in ("outlier", "clean")]
        found[value] = _crossings(ratio(gates[0], gates[1]), CLOSED)
    return found


def needed_length(rows: Sequence[Row]) -> dict[float, BySeed]:
    """Return the least l_tr of each seed from which on the loss stays below 0.1, by M1."""
    parts = with_value(rows, "short")
    return {count: _crossings(last(mine, "hinge", "short"), LATE) for count, mine in parts.items()}


def _crossings(found: Mapping[float, BySeed], margin: float) -> BySeed:
    """Interpolate where each seed's values stay below a margin, on a logarithmic axis; None if they start below."""
    places = [math.log(x) for x in found]
    answer: BySeed = {}
    for seed in set.intersection(*(set(by_seed) for by_seed in found.values())) if found else ():
        values = [by_seed[seed] for by_seed in found.values()]
        place = inner_crossing(places, values, margin)
        answer[seed] = None if place is None else exp(place)
    return answer


# What is claimed.


def claims(settings: Theorem1Settings) -> list[Claim]:
    """Return the claims about the conditions."""
    growth = partial(_length_growth, settings=settings)
    rings = listed(settings.ring_relevant)
    cells = [(f"M1 = {count}", {"part": "ring", "x": count}) for count in settings.ring_relevant]
    found = [
        Claim(
            "M-thm1.condition1",
            "training tasks that meet Condition 1 suffice for all tasks (10), Remark 1",
            f"error over all tasks < {SMALL} after about 4 T with ring:1, at M1 = {rings}",
            judged(lambda rows: error_points(rows, settings.seeds, cells), every_below, SMALL),
        ),
        Claim(
            "M-thm1.batch",
            "(i): B ≳ ε⁻² log ε⁻¹ samples per step suffice for a loss of ε",
            f"four times the batch at least halves the loss, or leaves it below {SMALL}: loss(4B) − max({SMALL}, "
            f"loss(B) / 2) < 0 at every B, η = {settings.batch_step:g}, about 4 T",
            judged(partial(_batch_points, settings=settings), every_below, 0.0),
            direction=Direction(
                "loss of the largest batch < of the smallest", judged(_larger(settings), every_below, 0)
            ),
        ),
        Claim(
            "M-thm1.length",
            "(iii): l_tr ≳ (1 − p_a)⁻¹ log M1 suffices (8)",
            f"l* (1 − p_a) / log M1 is no larger at M1 = {max(settings.short_relevant)} than at "
            f"{min(settings.short_relevant)}, l* the least length with loss < {LATE}; paired seeds",
            judged(mean_point(settings.seeds, growth, fate="have no l*"), every_below, 0.0),
        ),
    ]
    return found + _strength_claims(settings)


def _strength_claims(settings: Theorem1Settings) -> list[Claim]:
    words = "κ_a* ∝ V^{:g} β^{:g} M1^{:g}"
    learnt = f"κ_a*: outliers' gates are {CLOSED} of clean ones' after about 3 T; ‖v*‖ fixed, gates start at 1/2"
    faster = f"no exponent of κ_a* is more than {NEAR} above these; {learnt}"
    near = f"every exponent of κ_a* is within {NEAR} of these; {learnt}"

    def law(reading: str) -> str:
        return words.format(*READINGS[reading]).replace("-", "−")

    def points(reading: str) -> Callable[[list[Row]], list[Point] | None]:
        return partial(_strength_points, settings=settings, reading=READINGS[reading])

    return [
        Claim(
            "M-thm1.strength",
            f"(ii): κ_a ≳ V β⁻⁴ suffices: {law('printed')} or less",
            faster,
            judged(points("printed"), every_below, NEAR),
        ),
        Claim(
            "M-thm1.strength-proof",
            f"the proof's (168) and (170) ask for κ_a ≳ V β⁴: {law('proof')} or less",
            faster,
            judged(points("proof"), every_below, NEAR),
            ours=True,
        ),
        Claim(
            "M-thm1.strength-mean-field",
            f"mean field (C): {law('mean field')}",
            near,
            judged(points("mean field"), every_within, -NEAR, NEAR),
            ours=True,
        ),
    ]


def _strength_points(rows: list[Row], settings: Theorem1Settings, reading: Sequence[float]) -> list[Point] | None:
    """Make one point per axis: the measured exponent minus that of a reading."""
    found: dict[str, BySeed] = {}
    for (axis, symbol), power in zip(AXES.items(), reading, strict=True):
        exponents = PowerLaw(needed_strength(rows, axis), fewest=3).exponent
        where = f"exponent of {symbol}, minus {power:g}".replace("-", "−")
        found[where] = {seed: None if value is None else value - power for seed, value in exponents.items()}
    return mean_points(settings.seeds, found, "have no κ_a*")


def _batch_points(rows: list[Row], settings: Theorem1Settings) -> list[Point] | None:
    losses = last(rows, "hinge", "batch")
    found: dict[str, BySeed] = {}
    for small, large in pairwise(settings.batch_values):
        excess: BySeed = {}
        for seed, before in losses.get(small, {}).items():
            if seed in losses.get(large, {}):
                after = losses[large][seed]
                excess[seed] = None if before is None or after is None else after - most([SMALL, before / 2])
        found[f"B = {small} to {large}"] = excess
    return mean_points(settings.seeds, found)


def _larger(settings: Theorem1Settings) -> Callable[[list[Row]], list[Point] | None]:
    def change(rows: list[Row]) -> BySeed:
        losses = last(rows, "hinge", "batch")
        ends = losses.get(max(settings.batch_values), {}), losses.get(min(settings.batch_values), {})
        found: BySeed = {}
        for seed in (seed for seed in ends[0] if seed in ends[1]):
            a, b = ends[0][seed], ends[1][seed]
            found[seed] = None if a is None or b is None else a - b
        return found

    return mean_point(settings.seeds, change)


def _length_growth(rows: list[Row], settings: Theorem1Settings) -> BySeed:
    """Return each seed's l* (1 − p_a) / log M1 at the largest M1 minus that at the smallest."""
    needed = needed_length(rows)
    least, most = min(settings.short_relevant), max(settings.short_relevant)
    found: BySeed = {}
    for seed in (seed for seed in needed.get(least, {}) if seed in needed.get(most, {}) and least < most):
        a, b = needed[least][seed], needed[most][seed]
        found[seed] = None if a is None or b is None else settings.clean * (b / math.log(most) - a / math.log(least))
    return found
