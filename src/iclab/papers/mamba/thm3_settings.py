"""Settings and sweeps of M-thm3: both models against l_tr, the linear Transformer against M1, β and 1 − p_a."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from iclab.papers.mamba.thm1_settings import ENOUGH, Counts, Values
from iclab.papers.mamba.times import Sweep, TimesSettings
from iclab.study.settings import Chosen


class Theorem3Settings(TimesSettings):
    """Settings of M-thm3: the values of every sweep, for both models."""

    train_outlier_fraction: Annotated[
        float,
        Field(ge=0, lt=1),
        Chosen(
            "p_a. Outliers' random labels leave the linear model a loss that no scale removes: at l = 20 and p_a = 0.6 "
            "it is above 0.2. With few outliers ℓ = 0.5 is far above it"
        ),
    ] = 0.1
    start: Annotated[
        float,
        Field(gt=0, lt=1),
        Chosen(
            "δ²β² l (1 − p_a) of the linear model: δ moves with l, so that z·F starts equally small. With δ fixed the "
            "logarithm of (E) adds to the exponent, and long prompts start above ℓ"
        ),
    ] = 0.05
    length_values: Annotated[Counts, Chosen(f"l_tr: {ENOUGH}", grid=True)] = (10, 20, 40, 80, 160)
    relevant_values: Annotated[Counts, Chosen(f"M1: {ENOUGH}", grid=True)] = (4, 6, 8, 12, 16, 24, 32)
    norm_values: Annotated[Values, Chosen(f"β: {ENOUGH}", grid=True)] = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    clean_values: Annotated[Values, Chosen(f"1 − p_a at l = long_length: {ENOUGH}", grid=True)] = (
        0.125,
        0.2,
        0.3,
        0.45,
        0.7,
        1.0,
    )
    long_length: Annotated[
        int, Field(ge=1), Chosen("l of the sweep of 1 − p_a: long, so that ℓ = 0.5 can be reached with few clean ones")
    ] = 160
    strengths: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=2),
        Chosen("κ_a of both models, from none to ten times the paper's", grid=True),
    ] = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0)

    batch_values: Annotated[Counts, Chosen("B of Remark 4's comparison, each twice the last", grid=True)] = (
        *(1, 2, 4, 8, 16, 32, 64, 128, 256),
    )
    batch_strengths: Annotated[
        Values, Chosen("κ_a of the same: B_M exceeds B_T where outliers are weak", grid=True)
    ] = (0.25, 0.5, 1.0, 2.0)
    batch_fraction: Annotated[
        float, Field(ge=0, lt=1), Chosen("p_a of the same: the linear model's loss can still fall to 0.006")
    ] = 0.3
    batch_step: Annotated[
        float, Field(gt=0), Chosen("η of Mamba in the same: the largest that the theorem allows; smaller steps average")
    ] = 1.0
    strong: Annotated[Values, Chosen("κ_a of strong outliers, for both models", grid=True)] = (
        *(2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
    )
    strong_step: Annotated[float, Field(gt=0), Chosen("η of Mamba in the same, as in M-thm1")] = 0.16

    def quick(self) -> Self:
        """Return the quick edition: five values per exponent, fewer strengths."""
        few = {
            "relevant_values": (4, 6, 12, 24, 32),
            "norm_values": (1.0, 1.5, 3.0, 6.0, 8.0),
            "clean_values": (0.125, 0.2, 0.3, 0.45, 1.0),
            "strengths": (0.0, 0.1, 1.0, 2.0, 20.0),
            "batch_values": (1, 4, 16, 64, 256),
            "batch_strengths": (0.25, 2.0),
            "strong": (2.0, 10.0, 50.0, 200.0),
        }
        some = {name: tuple(x for x in getattr(self, name) if x in mine) for name, mine in few.items()}
        return super().quick().replace(**{name: mine or getattr(self, name) for name, mine in some.items()})

    def values(self, sweep: Sweep) -> tuple[float, ...]:
        """Return the values of x in a sweep."""
        return tuple(float(x) for x in getattr(self, f"{sweep.name.partition('.')[0]}_values"))

    def for_linear(self) -> Self:
        """Return the settings with the δ of the linear model: δ²β² l (1 − p_a) = start."""
        scale = (self.start / (self.context_length * self.clean)) ** 0.5 / self.pattern_norm
        return self.replace(init_scale=scale)

    @property
    def step_ratio(self) -> float:
        """η of Mamba over η of the linear model."""
        return self.step_sizes["mamba"] / self.step_sizes["linear"]


def _length(s: Theorem3Settings, x: float) -> TimesSettings:
    return s.replace(context_length=round(x))


def _linear_length(s: Theorem3Settings, x: float) -> TimesSettings:
    return s.replace(context_length=round(x)).for_linear()


def _fixed_length(s: Theorem3Settings, x: float) -> TimesSettings:
    """l with the δ that the linear model has at the usual l."""
    return s.replace(context_length=round(x), init_scale=s.for_linear().init_scale)


def _relevant(s: Theorem3Settings, x: float) -> TimesSettings:
    return s.replace(relevant=round(x)).for_linear()


def _norm(s: Theorem3Settings, x: float) -> TimesSettings:
    scale = s.train_outlier_scale * x / s.pattern_norm
    return s.replace(pattern_norm=x, train_outlier_scale=scale).for_linear()


def _clean(s: Theorem3Settings, x: float) -> TimesSettings:
    return s.replace(train_outlier_fraction=round(1 - x, 10), context_length=s.long_length).for_linear()


def _soon(x: float) -> float:
    """Steps as a multiple of (E), which holds for the linear model until ℓ = 0.5."""
    return 1.3


MAMBA = Sweep("length", "length l_tr", _length, 0, held="Mamba", reach=lambda x: 1.35)
LINEAR = Sweep(
    "length", "length l_tr", _linear_length, -1, "linear", reach=_soon, held="linear, δ²β² l (1 − p_a) fixed"
)
OTHERS = {
    sweep.name: sweep
    for sweep in (
        Sweep(
            "relevant",
            "relevant patterns M1",
            _relevant,
            1,
            "linear",
            reach=_soon,
            title="C  M1, linear",
            held="linear",
        ),
        Sweep(
            "norm",
            "norm β",
            _norm,
            -2,
            "linear",
            reach=_soon,
            title="D  β, linear",
            held="linear, δβ and κ_a ‖v*‖ / β fixed",
        ),
        Sweep(
            "clean",
            "clean share 1 − p_a",
            _clean,
            -1,
            "linear",
            reach=lambda x: 1.5,
            title="E  1 − p_a",
            held="linear, δ²β² l (1 − p_a) fixed",
        ),
    )
}
FIXED = Sweep("length.fixed", "length l_tr", _fixed_length, None, "linear", reach=lambda x: 1.5, held="linear, δ fixed")
"""A finding: what happens if δ does not move with l."""
