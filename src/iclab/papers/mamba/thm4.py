"""M-thm4: how many examples the linear Transformer needs as α nears 1/2, and what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from iclab.papers.mamba.thm4_chart import RULES, draw
from iclab.papers.mamba.thm4_rows import (
    BROKEN,
    breaking,
    misfit_gain,
    needed,
    power_curve,
    ratio,
    select,
    weight_of_others,
    where,
)
from iclab.papers.mamba.thm4_settings import EXPECTED, Thm4Settings
from iclab.probes import Row
from iclab.study.charts import Figure
from iclab.study.claims import (
    Claim,
    Direction,
    Judge,
    Judgement,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_claim, exponent_point, spread
from iclab.study.rows import error_points, listed
from iclab.theory.votes import length_claimed, vote_length

SQUARE, WITHIN = 2.0, 0.2
"""(15) as α nears 1/2: l* ∝ (½ − α)^−2."""
MORE = {0.3: 3.0, 0.4: 5.0, 0.45: 10.0}
"""P2, §3.1: "significantly more context". Read as: more than so many times Mamba's, by α."""
STUCK, LOST, HALF = 0.05, 0.9, 0.5


class Majority(Experiment[Thm4Settings]):
    """Lengths that the linear Transformer needs, by the fraction of outliers."""

    id = "M-thm4"
    title = "Theorem 4: how many examples the linear Transformer needs as α nears 1/2"
    paper = (
        "Theorem 4: α < 1/2, κ_a' ≤ Θ(V β p_a⁻¹ (1 − p_a) κ_a⁻¹ L⁻¹ l_tr ε⁻¹) and l_ts ≳ max{(1 − α)⁻¹, (½ − α)⁻² α} "
        "log M1 suffice, whatever the labels of the outliers. P2, §3.1: close to 1/2 the linear Transformer needs "
        "significantly more context than Mamba."
    )
    reading = (
        "l* is the smallest l_ts from which on the exact worst-case error is below ε. A: against (½ − α)⁻¹; dashed, "
        "with nothing fitted: a vote in which examples of the other pattern weigh ρ, as measured in W_BᵀW_C, by exact "
        "summation. B: three laws, each with the constant that fits best. C: with few prompts per batch the worst "
        "labels find noise that moves the majority, and no prompt is long enough. D: beyond 1/2 all depends on the "
        "label rule. E, F: outliers too strong for the noise in W_BᵀW_C. (79) prints (½ − α)² α in its exponent; "
        "Chernoff's bound gives (½ − α)²/α there, and (80) follows from that. Bands span the seeds."
    )
    caption = "mean over seeds, lowest and highest"
    theorems = ("M-thm4",)
    settings = Thm4Settings

    def conditions(self, settings: Thm4Settings) -> list[Condition]:
        """Return errors over lengths for both models, beyond 1/2, with few prompts per batch, and over strengths."""
        found: list[Condition] = []

        def measure(what: str, model: str, probe: str, batch: int, labels: str = "flip", **place: Any) -> None:
            place = {
                "fraction": 0.0,
                "length": settings.context_length,
                "strength": settings.test_outlier_scale,
            } | place
            cell = {"probe": probe, "prompts": settings.prompts(labels=labels, **place)}
            cell["count"] = 1 if probe == "kernel" else settings.test_prompts
            columns = where(what, model, batch, labels, **place)
            found.extend(in_groups(settings, columns, settings.training(model, batch), **cell))

        usual = settings.batch_size
        for fraction in settings.fractions:
            for length in settings.lengths(fraction):
                measure("length", "linear", "worst", usual, fraction=fraction, length=length)
        for fraction in settings.mamba_fractions:
            for length in settings.mamba_lengths:
                measure("length", "mamba", "worst", usual, fraction=fraction, length=length)
        for length in settings.long_lengths:
            measure("batch", "linear", "worst", settings.few, fraction=max(settings.fractions), length=length)
        for rule in RULES:
            for fraction in settings.beyond:
                for length in settings.beyond_lengths:
                    measure("beyond", "linear", "error", usual, rule, fraction=fraction, length=length)
        for batch in settings.batch_sizes:
            for strength in settings.strengths:
                place: dict[str, Any] = {"fraction": settings.strength_fraction, "length": settings.strength_length}
                measure("strength", "linear", "worst", batch, strength=strength, **place)
        measure("kernel", "linear", "kernel", usual)
        return found

    def claims(self, settings: Thm4Settings) -> list[Claim]:
        """Return the law of lengths, P2, what is beyond 1/2, and what strong outliers do."""
        return [*_lengths(settings), *_context(settings), *_beyond(settings), *_strength(settings)]

    def table(self, rows: list[Row], settings: Thm4Settings) -> list[dict[str, Any]]:
        """Return one line per α: l* of both models at each level, beside the vote and (15)."""
        rho = weight_of_others(rows)
        other = EXPECTED if rho is None else rho
        lines = []
        for fraction in settings.fractions:
            line = {"α": f"{fraction:g}"}
            for level in settings.levels:
                line[f"l*, ε = {level:g}"] = spread(needed(rows, settings, "linear", fraction, level)) or "–"
                line[f"vote, ρ = {other:.2f}, {level:g}"] = str(vote_length(fraction, level, other))
                mine = needed(rows, settings, "mamba", fraction, level) if fraction in settings.mamba_fractions else {}
                line[f"Mamba, {level:g}"] = spread(mine) or "–"
            line["(15), constant 1, no log"] = f"{length_claimed(fraction):.3g}"
            lines.append(line)
        laws = [PowerLaw(power_curve(rows, settings, level)).text() for level in settings.levels]
        lines.append(dict.fromkeys(lines[0], "") | {"α": "exponent, α ≥ 0.3"})
        for level, law in zip(settings.levels, laws, strict=True):
            lines[-1][f"l*, ε = {level:g}"] = law
        return lines

    def chart(self, rows: list[Row], settings: Thm4Settings) -> Figure:
        """Draw lengths, laws, label rules and strengths."""
        return draw(rows, settings)


Values = Callable[[list[Row]], dict[int, float | None]]


def _means(
    settings: Thm4Settings, named: list[tuple[str, Values]], rule: Callable[..., Judgement], margin: float
) -> Judge:
    """Judge the means over seeds of several numbers."""
    fate = "never get there"
    return judged(together(*(mean_point(settings.seeds, v, name, fate) for name, v in named)), rule, margin)


def _lengths(settings: Thm4Settings) -> list[Claim]:
    curves = [
        exponent_point(settings.seeds, partial(power_curve, settings=settings, level=level), f"ε = {level:g}")
        for level in settings.levels
    ]
    points, levels = together(*curves), listed(settings.levels)

    def better(law: str, other: str, fractions: list[float]) -> Judge:
        named: list[tuple[str, Values]] = [
            (
                f"ε = {level:g}",
                partial(misfit_gain, settings=settings, level=level, fractions=fractions, law=law, other=other),
            )
            for level in settings.levels
        ]
        return _means(settings, named, every_above, 0.0)

    variance = "residual variance of log l*, constant free,"
    return [
        Claim(
            "M-thm4.length",
            "l_ts grows like (½ − α)⁻² as α nears 1/2 (15)",
            f"exponent of l* in (½ − α)⁻¹ over α = {listed(settings.near_half)}, within {SQUARE:g} ± {WITHIN}, "
            f"ε = {levels}",
            judged(points, every_within, SQUARE - WITHIN, SQUARE + WITHIN),
            models=("linear",),
            direction=Direction("above 0", judged(points, every_above, 0.0)),
        ),
        Claim(
            "M-thm4.factor",
            "with the factor α of (15)",
            f"{variance} of (15) is below that of (½ − α)⁻² over α = {listed(settings.small)}, ε = {levels}",
            better("printed", "plain", settings.small),
            models=("linear",),
        ),
        Claim(
            "M-thm4.chernoff",
            "Chernoff's rate of a majority, 1/[½ log 1/(4α(1 − α))], is a better law than (15)",
            f"{variance} is below that of (15) over α = {listed(settings.fractions)}, ε = {levels}",
            better("chernoff", "printed", list(settings.fractions)),
            models=("linear",),
            ours=True,
        ),
    ]


def _context(settings: Thm4Settings) -> list[Claim]:
    level = min(settings.levels)

    def over(margins: bool) -> Judge:
        named: list[tuple[str, Values]] = []
        for fraction in (f for f in settings.mamba_fractions if f in MORE and f in settings.fractions):

            def scaled(rows: list[Row], fraction: float = fraction) -> dict[int, float | None]:
                found = ratio(rows, settings, fraction, level)
                return {s: r and r / (MORE[fraction] if margins else 1.0) for s, r in found.items()}

            named.append((f"α = {fraction:g}", scaled))
        return _means(settings, named, every_above, 1.0)

    times = ", ".join(f"{more:g} at α = {fraction:g}" for fraction, more in MORE.items())
    return [
        Claim(
            "M-thm4.context",
            "near 1/2 the linear Transformer needs significantly more context than Mamba (P2, §3.1)",
            f"l* of linear / l* of Mamba, over {times}, > 1, at ε = {level:g}",
            over(margins=True),
            models=("linear", "mamba"),
            direction=Direction("l* of linear / l* of Mamba > 1", over(margins=False)),
        )
    ]


def _beyond(settings: Thm4Settings) -> list[Claim]:
    batch, far, strength = settings.batch_size, max(settings.beyond_lengths), settings.test_outlier_scale

    def errors_at(rule: str, lengths: tuple[int, ...], judge: Callable[..., Judgement], margin: float) -> Judge:
        def points(rows: list[Row]) -> list[Point] | None:
            cells = [
                (
                    f"α = {fraction:g}, l_ts = {length}",
                    where("beyond", "linear", batch, rule, fraction=fraction, length=length, strength=strength),
                )
                for fraction in settings.beyond
                for length in lengths
            ]
            return error_points(select(rows, "beyond", "linear"), settings.seeds, cells) or None

        return judged(points, judge, margin)

    def stuck(rows: list[Row]) -> list[Point] | None:
        place = {"fraction": max(settings.fractions), "length": max(settings.long_lengths), "strength": strength}
        cells = [(f"l_ts = {place['length']}", where("batch", "linear", settings.few, "flip", **place))]
        return error_points(select(rows, "batch", "linear"), settings.seeds, cells)

    grid = f"α = {listed(settings.beyond)}"
    every = f"l_ts = {listed(settings.beyond_lengths)}"
    known = {"models": ("linear",), "ours": True}
    claims = [
        Claim(
            "M-thm4.batch",
            f"with B = {settings.few} the frontier lies below 1/2: worst labels find noise that no length averages out",
            f"worst-case error > {STUCK} at α = {max(settings.fractions):g}, l_ts = {max(settings.long_lengths)}",
            judged(stuck, every_above, STUCK),
            **known,  # type: ignore[arg-type]
        ),
        Claim(
            "M-thm4.beyond.flip",
            "beyond 1/2 flipped labels win, the more the longer the prompt",
            f"error > {LOST} at {grid}, l_ts = {far}",
            errors_at("flip", (far,), every_above, LOST),
            **known,  # type: ignore[arg-type]
        ),
    ]
    for rule in ("target", "random"):
        claims.append(
            Claim(
                f"M-thm4.beyond.{rule}",
                f"beyond 1/2 {rule} labels never do: 1/2 is a bound for the worst labels only",
                f"error < {HALF} at {grid}, {every}",
                errors_at(rule, settings.beyond_lengths, every_below, HALF),
                **known,  # type: ignore[arg-type]
            )
        )
    return claims


def _strength(settings: Thm4Settings) -> list[Claim]:
    return [
        exponent_claim(
            "M-thm4.strength",
            f"(b): too strong outliers are those that the noise of order B^−½ in W_BᵀW_C (24) turns: the κ_a' at which "
            f"the worst-case error is {BROKEN:g} grows like √B",
            lambda rows: {float(batch): breaking(rows, settings, batch) for batch in settings.batch_sizes},
            0.5,
            seeds=settings.seeds,
            models=("linear",),
            ours=True,
        )
    ]
