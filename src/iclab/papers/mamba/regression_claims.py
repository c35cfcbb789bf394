"""The claims of M-regression: E.8's equations, its picture, and what theory adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from iclab.papers.mamba.regression_settings import RIDGE, RegressionSettings
from iclab.probes import Row
from iclab.probes.tracing import exp
from iclab.study.claims import (
    BySeed,
    Claim,
    Judge,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.rows import difference, listed, lost, values
from iclab.theory.regression import best_inflow, gate_floor

SEEN = 0.3
"""α at which gates are looked at, as in M-fig4."""
SHUT, FLOOR, CLOSE = 0.1, 1.2, 0.2
"""An outlier's gate against a clean one's, an error against its floor, σ against the best σ."""
GENERALLY = 0.9
"""The paper: F is "generally" between −1 and 1. Read as: in nine of ten prompts."""


def equations(settings: RegressionSettings) -> list[Claim]:
    """Return the printed gradients beside those of autograd."""
    return [
        Claim(
            "M-regression.sign",
            "(204) is the gradient of w",
            "(204) as printed / the gradient of autograd within 1 ± 0.01, before and after training",
            judged(_slopes(settings, "gate"), every_within, 0.99, 1.01),
            models=("mamba",),
        ),
        Claim(
            "M-regression.sign-turned",
            "with (z − F) in place of (F − z), (204) is the gradient of w",
            "−(204) / the gradient of autograd within 1 ± 0.01, before and after training",
            judged(_slopes(settings, "gate", turned=True), every_within, 0.99, 1.01),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-regression.gradients",
            "(202) and (203) are the gradients of W_C and W_B",
            "as printed / the gradient of autograd within 1 ± 0.01, before and after training",
            judged(together(_slopes(settings, "query"), _slopes(settings, "key")), every_within, 0.99, 1.01),
            models=("mamba",),
        ),
    ]


def picture(settings: RegressionSettings) -> list[Claim]:
    """Return what E.8 says of training and of outliers."""
    most = _with_outliers(settings)
    return [
        Claim(
            "M-regression.between",
            "F is generally between −1 and 1 before convergence",
            f"share of training prompts with |F| < 1 above {GENERALLY:g} at every kept step whose mean squared error "
            f"is above {FLOOR:g} times the last",
            judged(_inside(settings), every_above, GENERALLY),
            models=("mamba",),
        ),
        Claim(
            "M-regression.gates",
            "random labels of outliers lead the gate to learn outlier patterns",
            f"gate of outliers / of clean examples at distance 1 < {SHUT:g}, at α = {SEEN:g}",
            judged(mean_point(settings.seeds, _shut), every_below, SHUT),
            models=("mamba",),
        ),
        Claim(
            "M-regression.robust",
            "the further analysis is almost the same as the classification problem: Mamba is robust, linear is not",
            f"mean squared error of Mamba − of linear < 0 on paired seeds at α = {listed(most)}, random labels",
            _paired(settings, "mamba", "linear", most, every_below),
            models=("mamba", "linear"),
        ),
    ]


def beyond(settings: RegressionSettings) -> list[Claim]:
    """Return what theory predicts, and the comparisons with softmax attention and ridge regression."""
    p_a, most = settings.train_outlier_fraction, _with_outliers(settings)
    best = best_inflow(p_a, settings.context_length)
    return [
        Claim(
            "M-regression.floor",
            "Mamba reaches the floor of a gate, trained and tested with the same share of outliers",
            f"mean squared error / floor of the best σ < {FLOOR:g} at α = p_a = {p_a:g}, random labels",
            judged(_to_floor(settings, p_a), every_below, FLOOR),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-regression.floor-clean",
            "Mamba reaches the floor of a gate on prompts without outliers too",
            f"mean squared error / floor of the best σ < {FLOOR:g} at α = 0",
            judged(_to_floor(settings, 0.0), every_below, FLOOR),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-regression.inflow",
            f"training finds the best σ of theory, {best:.3g} at p_a = {p_a:g}",
            f"σ of clean examples, from their mean logit, / the best σ within 1 ± {CLOSE:g}",
            judged(mean_point(settings.seeds, partial(_inflow, best=best)), every_within, 1 - CLOSE, 1 + CLOSE),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-regression.memory",
            "regression wants a longer memory than classification: lower gates of clean examples",
            f"gate of clean examples at distance 1, squared loss − hinge < 0 on paired seeds, α = {SEEN:g}",
            judged(mean_point(settings.seeds, _memory), every_below, 0.0),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-regression.softmax",
            "softmax attention has no such floor",
            f"mean squared error of softmax − of Mamba < 0 on paired seeds at α = {listed([0.0, *most])}, random",
            _paired(settings, "softmax", "mamba", [0.0, *most], every_below),
            models=("softmax", "mamba"),
            ours=True,
        ),
        Claim(
            "M-regression.ridge",
            "Mamba has learnt what ridge regression on the prompt cannot know: which examples are outliers",
            f"mean squared error of Mamba − of ridge < 0 on paired seeds at α = {p_a:g}, random labels",
            _paired(settings, "mamba", RIDGE, [p_a], every_below),
            models=("mamba",),
            ours=True,
        ),
    ]


def _with_outliers(settings: RegressionSettings) -> list[float]:
    return [f for f in settings.outlier_fractions if 0 < f <= settings.train_outlier_fraction]


def where(name: str, rule: str, fraction: float) -> dict[str, Any]:
    """Return the columns of one error."""
    return {"measured": "error", "model": name, "outlier_labels": rule, "outlier_fraction": fraction}


def floor(settings: RegressionSettings, fraction: float) -> float:
    """Return the floor of the best gate."""
    length = settings.context_length
    return gate_floor(fraction, length, best_inflow(fraction, length))


def _slopes(settings: RegressionSettings, weight: str, turned: bool = False) -> Callable[[list[Row]], Any]:
    def at(stage: str) -> Callable[[list[Row]], Any]:
        def found(rows: list[Row]) -> BySeed:
            here = {"measured": "gradients", "stage": stage}
            by_seed = values(rows, "slope", **here, weight=weight)
            return lost(rows, **here) | {s: -v if turned and v is not None else v for s, v in by_seed.items()}

        return mean_point(settings.seeds, found, f"{weight}, {stage} of training")

    return together(at("start"), at("end"))


def _inside(settings: RegressionSettings) -> Callable[[list[Row]], list[Point] | None]:
    """Make one point per kept step at which the error is still far from its last."""
    *steps, last = settings.training("mamba").recipe.kept

    def points(rows: list[Row]) -> list[Point] | None:
        ends = _mean(values(rows, "squares", measured="answers", step=last))
        found = []
        for step in steps:
            now = _mean(values(rows, "squares", measured="answers", step=step))
            if now is not None and ends is not None and now > FLOOR * ends:
                share = partial(values, column="inside", measured="answers", step=step)
                found.append(mean_point(settings.seeds, share, f"step {step}", most=1.0))
        return together(*found)(rows) if found else None

    return points


def _mean(by_seed: BySeed) -> float | None:
    good = [value for value in by_seed.values() if value is not None]
    return sum(good) / len(good) if good else None


def _at_one(rows: list[Row], loss: str, kind: str) -> BySeed:
    here = {"measured": "gates", "loss": loss}
    return lost(rows, **here) | values(rows, "gate", **here, kind=kind, place=1)


def _ratio(first: BySeed, second: BySeed) -> BySeed:
    found: BySeed = {}
    for seed, a in first.items():
        if seed in second:
            b = second[seed]
            found[seed] = None if a is None or not b else a / b
    return found


def _shut(rows: list[Row]) -> BySeed:
    return _ratio(_at_one(rows, "squared", "outlier"), _at_one(rows, "squared", "clean"))


def _memory(rows: list[Row]) -> BySeed:
    return difference(_at_one(rows, "squared", "clean"), _at_one(rows, "hinge", "clean"))


def _inflow(rows: list[Row], best: float) -> BySeed:
    logits = lost(rows, measured="logits") | values(rows, "mean", measured="logits", kind="clean", quantity="logit")
    return {seed: None if v is None else 1.0 / (1.0 + exp(-v)) / best for seed, v in logits.items()}


def _to_floor(settings: RegressionSettings, fraction: float) -> Callable[[list[Row]], Any]:
    def found(rows: list[Row]) -> BySeed:
        by_seed = values(rows, "squares", **where("mamba", "random", fraction))
        return {seed: None if v is None else v / floor(settings, fraction) for seed, v in by_seed.items()}

    return mean_point(settings.seeds, found, f"α = {fraction:g}")


def _paired(
    settings: RegressionSettings, first: str, second: str, fractions: Sequence[float], rule: Callable[..., Any]
) -> Judge:
    def at(fraction: float) -> Callable[[list[Row]], Any]:
        def found(rows: list[Row]) -> BySeed:
            both = (values(rows, "squares", **where(name, "random", fraction)) for name in (first, second))
            return difference(*both)

        return mean_point(settings.seeds, found, f"α = {fraction:g}")

    return judged(together(*(at(f) for f in fractions)), rule, 0.0)
