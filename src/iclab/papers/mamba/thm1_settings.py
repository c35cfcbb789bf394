"""Settings and sweeps of M-thm1: what moves, what moves with it, and the exponents of M (9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field

from iclab.papers.mamba.times import Sweep, TimesSettings
from iclab.study.settings import Chosen, Different

Values = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1), Different]
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different]

ENOUGH = "five values or more, over a factor of 8 or more"


class Theorem1Settings(TimesSettings):
    """Settings of M-thm1: the values of every sweep."""

    step_values: Annotated[Values, Chosen(f"η: {ENOUGH}", grid=True)] = (0.01, 0.02, 0.04, 0.08, 0.16)
    relevant_values: Annotated[Counts, Chosen(f"M1: {ENOUGH}", grid=True)] = (4, 6, 8, 12, 16, 24, 32)
    clean_values: Annotated[
        Values, Chosen(f"1 − p_a: {ENOUGH}; l = 10 / (1 − p_a) is whole, so that 10 examples are clean", grid=True)
    ] = (0.1, 0.125, 0.2, 0.25, 0.4, 0.625, 1.0)
    norm_values: Annotated[Values, Chosen(f"β: {ENOUGH}", grid=True)] = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    length_values: Annotated[Counts, Chosen(f"l_tr: {ENOUGH}", grid=True)] = (10, 20, 40, 80, 160)
    scale_values: Annotated[Values, Chosen(f"δ: {ENOUGH}", grid=True)] = (0.01, 0.02, 0.05, 0.1, 0.2)
    more: Annotated[
        bool,
        Chosen("whether to sweep with the gate frozen at w = 0 too, as in (E), and with less held fixed", grid=True),
    ] = True

    end_step: Annotated[
        float, Field(gt=0), Chosen("η of conditions (ii) and (iii): they are about the end of training, not its time")
    ] = 0.16
    batch_values: Annotated[Counts, Chosen("B of condition (i), each four times the last", grid=True)] = (
        4,
        16,
        64,
        256,
        1024,
        4096,
    )
    batch_step: Annotated[
        float, Field(gt=0), Chosen("η of condition (i): the largest that the theorem allows. At 0.08, B = 4 is enough")
    ] = 1.0
    strengths: Annotated[
        Values, Chosen("κ_a of condition (ii), with ‖v*‖ = 3 fixed: the gate learns somewhere between them", grid=True)
    ] = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
    strength_outliers: Annotated[tuple[int, ...], Chosen("V of condition (ii)", grid=True)] = (1, 2, 4, 8)
    strength_norms: Annotated[Values, Chosen("β of condition (ii)", grid=True)] = (1.5, 2.0, 3.0, 4.5, 6.0)
    strength_relevant: Annotated[Counts, Chosen("M1 of condition (ii)", grid=True)] = (4, 8, 16, 32)
    short_lengths: Annotated[Counts, Chosen("l_tr of condition (iii)", grid=True)] = (1, 2, 3, 5, 8, 13, 20, 40, 90)
    short_relevant: Annotated[Counts, Chosen("M1 of condition (iii), from the least to the most", grid=True)] = (
        4,
        8,
        16,
        32,
    )
    ring_relevant: Annotated[
        Counts, Chosen("M1 of condition1: training tasks are one step round a ring, the paper's example", grid=True)
    ] = (6, 8, 12)

    strong: Annotated[
        Values, Chosen("κ_a of (ii)'s upper bound, which is 210 at ε = 0.1, with the η of the conditions", grid=True)
    ] = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
    strong_scaled: Annotated[
        Values, Chosen("κ_a with η κ_a² bounded, so that a step along an outlier is small", grid=True)
    ] = (10.0, 20.0, 50.0)
    strong_start: Annotated[Values, Chosen("κ_a with such steps from w⁽⁰⁾ = 0", grid=True)] = (10.0, 20.0, 50.0, 200.0)
    strong_length: Annotated[int, Field(ge=1), Chosen("l_tr of the same; small steps take long")] = 20
    weak_products: Annotated[
        Values, Chosen("κ_a ‖v*‖ of (iii)'s upper bound, which is low for weak outliers: 5 to 13 examples", grid=True)
    ] = (0.5, 1.0, 2.0)
    long_lengths: Annotated[Counts, Field(min_length=2), Chosen("l_tr far above it", grid=True)] = (
        40,
        80,
        160,
        320,
        640,
    )

    def quick(self) -> Self:
        """Return the quick edition: five values per exponent, no further sweeps, fewer values of the conditions."""
        return (
            super()
            .quick()
            .replace(
                relevant_values=_some(self.relevant_values, (4, 6, 12, 24, 32)),
                clean_values=_some(self.clean_values, (0.1, 0.2, 0.4, 0.625, 1.0)),
                norm_values=_some(self.norm_values, (1.0, 1.5, 3.0, 6.0, 8.0)),
                batch_values=_some(self.batch_values, (4, 16, 64, 256)),
                strengths=_some(self.strengths, (0.125, 0.25, 0.5, 1.0, 2.0)),
                strength_outliers=_some(self.strength_outliers, (1, 4, 8)),
                strength_norms=_some(self.strength_norms, (1.5, 3.0, 6.0)),
                strength_relevant=_some(self.strength_relevant, (4, 8, 16)),
                short_lengths=_some(self.short_lengths, (1, 2, 3, 5, 8, 20)),
                short_relevant=_some(self.short_relevant, (4, 16)),
                strong=_some(self.strong, (2.0, 10.0, 50.0, 200.0)),
                strong_scaled=_some(self.strong_scaled, (10.0, 50.0)),
                strong_start=_some(self.strong_start, (10.0, 50.0)),
                weak_products=_some(self.weak_products, (0.5, 2.0)),
                long_lengths=_some(self.long_lengths, (40, 320), fewest=2),
                more=False,
            )
        )

    def values(self, sweep: Sweep) -> tuple[float, ...]:
        """Return the values of x in a sweep."""
        field = sweep.name.partition(".")[0]
        names = {"eta": "step", "fixed": "clean" if "clean" in sweep.name else "norm"}
        return tuple(float(x) for x in getattr(self, f"{names.get(field, field)}_values"))

    def hurried(self) -> Self:
        """Return the settings with a larger η."""
        return self.replace(step_sizes=self.step_sizes | {"mamba": self.end_step})


def _some(values: tuple[float, ...], wanted: tuple[float, ...], fewest: int = 1) -> tuple[float, ...]:
    found = tuple(x for x in values if x in wanted)
    return found if len(found) >= fewest else values


def _eta(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(step_sizes=s.step_sizes | {"mamba": x})


def _relevant(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(relevant=round(x))


def _clean(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(train_outlier_fraction=round(1 - x, 10), context_length=round(10 / x))


def _clean_only(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(train_outlier_fraction=round(1 - x, 10))


def _norm(s: TimesSettings, x: float) -> TimesSettings:
    """β with δβ and κ_a ‖v*‖ / β as they are."""
    factor = x / s.pattern_norm
    return s.replace(
        pattern_norm=x, init_scale=s.init_scale / factor, train_outlier_scale=s.train_outlier_scale * factor
    )


def _norm_only(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(pattern_norm=x, train_outlier_scale=s.train_outlier_scale * x / s.pattern_norm)


def _length(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(context_length=round(x))


def _scale(s: TimesSettings, x: float) -> TimesSettings:
    return s.replace(init_scale=x)


def _with_outliers(x: float) -> float:
    """Steps as a multiple of (E): with many outliers the gate, which (E) freezes, saves more than half of them."""
    return 0.5 + 1.3 * x


def _wider(x: float) -> float:
    """Steps as a multiple of (E): the gate's start wᵀµ spreads as β, and with it the seeds' times."""
    return 1.1 + 0.25 * x


SWEEPS = {
    sweep.name: sweep
    for sweep in (
        Sweep("eta", "step size η", _eta, -1, title="A  η"),
        Sweep("relevant", "relevant patterns M1", _relevant, 1, reach=lambda x: 1.25 + 1.4 / x, title="B  M1"),
        Sweep(
            "clean",
            "clean share 1 − p_a",
            _clean,
            -1,
            reach=_with_outliers,
            title="C  1 − p_a",
            held="l (1 − p_a) = 10",
        ),
        Sweep("norm", "norm β", _norm, -2, reach=_wider, title="D  β", held="δβ and κ_a ‖v*‖ / β fixed"),
        Sweep("length", "length l_tr", _length, 0, reach=lambda x: 2.0, title="E  l_tr"),
        Sweep("scale", "initial scale δ", _scale, 0, reach=lambda x: 2.0, title="F  δ"),
    )
}
"""The judged sweeps. The exponents are those of (9), which has no l_tr and no δ."""
TWINS = {
    name: replace(sweep, name=f"{name}.frozen", frozen=True, reach=lambda x: 1.25, held="gate frozen")
    for name, sweep in SWEEPS.items()
}
FIXED = {
    "clean": Sweep("fixed.clean", "clean share 1 − p_a", _clean_only, reach=_with_outliers, held="l fixed"),
    "norm": Sweep("fixed.norm", "norm β", _norm_only, reach=_wider, held="δ fixed"),
}
"""Findings: what happens if less is held fixed."""
