"""phase-diagram: where Mamba and the linear Transformer fail, over strengths, fractions and lengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from iclab.beyond.phase_chart import draw
from iclab.beyond.phase_settings import PhaseSettings
from iclab.engines import Training
from iclab.probes import Interval, Row
from iclab.probes.tracing import exp
from iclab.study.charts import Figure
from iclab.study.claims import BySeed, Claim, Judge, Judgement, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import crossings, exponent_claim
from iclab.study.rows import error_points, errors, listed, proportion
from iclab.theory.outliers import all_outliers, mamba_outlier_bound

SMALL, LARGE, HALF = 0.01, 0.1, 0.5
CROSSED = 0.05
"""The error whose crossing is the frontier over κ_a'."""
FAR = 3.0
"""A κ_a this many times below (C) should be too small, if (C) is the frontier."""
STEEP = 10.0
"""η κ_a² up to which steps along an outlier are small enough; at the paper's κ_a = 2 and η = 1 it is 4."""
WORKING = (0.1, 2.0)
"""The κ_a over which the frontier κ_a' ∝ κ_a is fitted."""
PROBES = {"labels": "worst", "places": "worst-placement"}


class PhaseDiagram(Experiment[PhaseSettings]):
    """Maps of the exact worst-case error."""

    id = "phase-diagram"
    title = "Where Mamba and the linear Transformer fail"
    paper = (
        "Theorem 1 (ii): V β⁻⁴ ≲ κ_a ≲ V β (1 − p_a) p_a⁻¹ ε⁻¹. Theorem 2: κ_a' ≥ κ_a, by its proof κ_a' L ≥ κ_a, and "
        "α < min(1, p_a l_tr/l_ts). Theorem 4: α < 1/2."
    )
    reading = (
        "Colours are the exact worst-case error over all labels of the outliers, mean over seeds; κ_a = 0 and κ_a' = 0 "
        "stand at the left and at the bottom. A, B: strengths of outliers in training and in tests. C, D, E: fractions "
        "of outliers and prompt lengths, at κ_a = 2 and κ_a' L = κ_a. Lines are the frontiers that theory names."
    )
    caption = "mean and 95 % interval of the worst-case error"
    theorems = ("M-thm1", "M-thm2", "M-thm4")
    settings = PhaseSettings

    def conditions(self, settings: PhaseSettings) -> list[Condition]:
        """Return both models at all strengths, Mamba with a smaller step size, and both over fractions and lengths."""
        found: list[Condition] = []

        def measure(map_: str, training: Training, adversary: str = "labels", **place: Any) -> None:
            cell = {"probe": PROBES[adversary]}
            scale, fraction, length = place["test_scale"], place["fraction"], int(place["length"])
            count = settings.test_prompts if adversary == "labels" else max(1, settings.test_prompts // 4)
            where = _where(map_, training.model.label, adversary, **place)
            prompts = settings.prompts(scale, fraction, length)
            found.extend(in_groups(settings, where, training, prompts=prompts, count=count, **cell))

        here: dict[str, Any] = {"fraction": settings.outlier_fraction, "length": float(settings.context_length)}
        for model, scales in (("mamba", settings.mamba_scales), ("linear", settings.linear_scales)):
            for trained in settings.train_scales:
                training = settings.training(model, trained)
                for tested in scales:
                    measure("strength", training, train_scale=trained, test_scale=tested, **here)
        for trained in settings.slow_scales:
            training = settings.training("mamba", trained, settings.slow_step_size)
            for tested in settings.slow_test_scales:
                measure("slow", training, train_scale=trained, test_scale=tested, **here)
        usual = {"train_scale": settings.usual_scale, "test_scale": settings.length_scale}
        for model, adversary in (("mamba", "labels"), ("mamba", "places"), ("linear", "labels")):
            training = settings.training(model, settings.usual_scale)
            for fraction in settings.fractions:
                for length in settings.lengths:
                    measure("length", training, adversary, fraction=fraction, length=float(length), **usual)
        return found

    def claims(self, settings: PhaseSettings) -> list[Claim]:
        """Return which frontier is right."""
        return [*_strengths(settings), *_learning(settings), *_lengths(settings)]

    def table(self, rows: list[Row], settings: PhaseSettings) -> list[dict[str, Any]]:
        """Return one line per cell of a map."""
        lines = []
        for condition in {tuple(c.columns.items()): c for c in self.conditions(settings)}.values():
            where = dict(condition.columns)
            p = proportion(rows, **where)
            line = {"map": where["map"], "model": where["model"], "adversary": where["adversary"]}
            line |= {"κ_a": f"{where['train_scale']:g}", "κ_a'": f"{where['test_scale']:g}"}
            line |= {"α": f"{where['fraction']:g}", "l_ts": f"{where['length']:g}"}
            lines.append(line | {"error": "–" if p is None else p.short()})
        return lines

    def chart(self, rows: list[Row], settings: PhaseSettings) -> Figure:
        """Draw five maps."""
        return draw(rows, settings)


def _where(map_: str, model: str, adversary: str, **place: Any) -> dict[str, Any]:
    return {"map": map_, "model": model, "adversary": adversary, **place}


def _at(settings: PhaseSettings, map_: str, trained: float, tested: float) -> dict[str, Any]:
    place = {"fraction": settings.outlier_fraction, "length": float(settings.context_length)}
    return _where(map_, "mamba", "labels", train_scale=trained, test_scale=tested, **place)


Pairs = list[tuple[float, float]]


def _cells(settings: PhaseSettings, map_: str, pairs: Pairs, rule: Callable[..., Judgement], margin: float) -> Judge:
    """Judge Mamba's error at pairs of κ_a and κ_a'."""
    cells = [(f"κ_a = {a:g}, κ_a' = {b:g}", _at(settings, map_, a, b)) for a, b in pairs]

    def points(rows: list[Row]) -> list[Point] | None:
        mine = [row for row in rows if row["map"] == map_]
        return error_points(mine, settings.seeds, cells) if cells else None

    return judged(points, rule, margin)


def _frontier(rows: list[Row], settings: PhaseSettings) -> dict[float, BySeed]:
    """Return the κ_a' from which on Mamba's error stays below `CROSSED`, by κ_a and seed."""
    mine = [row for row in rows if row["map"] == "strength" and row["model"] == "mamba"]
    places = [scale for scale in settings.mamba_scales if scale > 0]
    found = {}
    for a in (a for a in settings.train_scales if WORKING[0] <= a <= WORKING[1]):
        curve = [errors(mine, train_scale=a, test_scale=b) for b in places]
        logs = crossings([math.log(b) for b in places], curve, CROSSED)
        found[a] = {seed: None if at is None else exp(at) for seed, at in logs.items()}
    return found


def _strengths(settings: PhaseSettings) -> list[Claim]:
    floor, grid = all_outliers(settings.outlier_fraction, settings.context_length), settings.mamba_scales
    small = SMALL + floor
    strong = [(a, b) for a in settings.train_scales for b in grid if a and b * settings.smallest_sum >= a]
    inside = [(a, b) for a, b in strong if a >= settings.printed]
    few = [a for a in settings.slow_scales if settings.slow_step_size * a**2 <= STEEP]
    slow = [(a, b) for a in few for b in settings.slow_test_scales if b * settings.smallest_sum >= a]

    below = f"worst-case error of Mamba < {SMALL} + α^l at α = {settings.outlier_fraction:g}"
    known: dict[str, Any] = {"models": ("mamba",), "ours": True}
    return [
        Claim(
            "phase-diagram.inside",
            "κ_a ≥ V β⁻⁴ and κ_a' ≥ κ_a/L suffice (Theorems 1 and 2, (b) restored), up to κ_a ≈ V β (1 − p_a)/(p_a ε)",
            f"{below} at every such κ_a ≥ {settings.printed:.2g} and κ_a' of the map",
            _cells(settings, "strength", inside, every_below, small),
            models=("mamba",),
        ),
        Claim(
            "phase-diagram.moderate",
            f"so they do up to the paper's own κ_a = {settings.usual_scale:g}",
            f"{below} at those with κ_a ≤ {settings.usual_scale:g}",
            _cells(settings, "strength", [p for p in inside if p[0] <= settings.usual_scale], every_below, small),
            **known,
        ),
        Claim(
            "phase-diagram.step",
            "larger κ_a fail because the steps are too large for them, not because of the theorem's upper bound",
            f"{below} at κ_a = {listed(few)} with η = {settings.slow_step_size:g}, so that η κ_a² ≤ {STEEP:g}, "
            "and κ_a' ≥ κ_a/L",
            _cells(settings, "slow", slow, every_below, small),
            **known,
        ),
    ]


def _learning(settings: PhaseSettings) -> list[Claim]:
    """Return the claims about what the gate learns, and from which κ_a on."""
    grid = settings.mamba_scales
    weak = [(a, b) for a in settings.train_scales for b in grid if 0 < a <= settings.learnt / FAR and b > 0]
    none = [(0.0, b) for b in grid]
    known: dict[str, Any] = {"models": ("mamba",), "ours": True}
    return [
        Claim(
            "phase-diagram.learnt",
            "(C) is where the gate begins to know outliers",
            f"worst-case error of Mamba > {LARGE} at every κ_a > 0 up to a third of (C)'s, {settings.learnt / FAR:.2g},"
            " and every κ_a' > 0",
            _cells(settings, "strength", weak, every_above, LARGE),
            **known,
        ),
        Claim(
            "phase-diagram.none",
            "nothing is learnt about outliers that training does not show",
            f"worst-case error of Mamba > {LARGE} at κ_a = 0 and every κ_a'",
            _cells(settings, "strength", none, every_above, LARGE),
            **known,
        ),
        exponent_claim(
            "phase-diagram.restored",
            f"the frontier over κ_a', where the worst-case error of Mamba is {CROSSED}, is proportional to κ_a, "
            f"for κ_a from {WORKING[0]:g} to {WORKING[1]:g}",
            partial(_frontier, settings=settings),
            1.0,
            seeds=settings.seeds,
            **known,
        ),
    ]


def _beyond(settings: PhaseSettings, adversary: str) -> Judge:
    """Judge Mamba's error minus α^l everywhere beyond p_a l_tr/l_ts."""
    usual = {"train_scale": settings.usual_scale, "test_scale": settings.length_scale}
    places = [
        (fraction, length)
        for fraction in settings.fractions
        for length in settings.lengths
        if fraction >= mamba_outlier_bound(settings.train_outlier_fraction, settings.context_length, length)
    ]

    def points(rows: list[Row]) -> list[Point] | None:
        cells = [
            (
                f"α = {f:g}, l_ts = {k}",
                _where("length", "mamba", adversary, fraction=f, length=float(k), **usual),
            )
            for f, k in places
        ]
        found = error_points([row for row in rows if row["map"] == "length"], settings.seeds, cells) or None
        return found and [
            Point(
                None if p.value is None else p.value - all_outliers(f, k),
                Interval(p.interval.low - all_outliers(f, k), p.interval.high - all_outliers(f, k)),
                p.where,
                p.diverged,
            )
            for p, (f, k) in zip(found, places, strict=True)
        ]

    return judged(points, every_below, SMALL)


def _lengths(settings: PhaseSettings) -> list[Claim]:
    usual = {"train_scale": settings.usual_scale, "test_scale": settings.length_scale}

    def linear(rows: list[Row]) -> list[Point] | None:
        cells = [
            (f"α = {f:g}, l_ts = {k}", _where("length", "linear", "labels", fraction=f, length=float(k), **usual))
            for f in settings.fractions
            if f > HALF
            for k in settings.lengths
        ]
        return error_points([row for row in rows if row["map"] == "length"], settings.seeds, cells) or None

    return [
        Claim(
            "phase-diagram.bound",
            "p_a l_tr/l_ts is no frontier if outliers stand anywhere",
            f"worst-case error of Mamba − α^l < {SMALL} everywhere beyond it",
            _beyond(settings, "labels"),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "phase-diagram.bound-places",
            "nor with the worst places",
            f"the same < {SMALL} with the worst places",
            _beyond(settings, "places"),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "phase-diagram.half",
            "1/2 is the frontier of the linear Transformer under the worst labels",
            f"worst-case error of the linear Transformer > {HALF} at every α > 1/2 and l_ts",
            judged(linear, every_above, HALF),
            models=("linear",),
            ours=True,
        ),
    ]
