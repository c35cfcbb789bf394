"""The claims of M-review, with margins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from iclab.beyond.review_rows import SIGNATURES, WORDS, gate_ratios, where
from iclab.beyond.review_settings import ReviewSettings
from iclab.probes import Interval, Row
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
from iclab.study.fits import crossings
from iclab.study.rows import difference, error_points, errors, listed, paired_points
from iclab.theory.outliers import all_outliers

NEAR = 0.01
"""Errors that differ by less are alike: the error that the paper calls small."""
SLIGHT = 0.1
"""A cosine up to which patterns overlap slightly."""
LARGE = 0.1
FAILED = 0.05
"""A signature marks a failure if it adds more than this to the error; also the error whose crossing is a frontier."""
FACTOR = 3.0
"""A frontier is where theory has it if it is within this factor."""
LOST = "without a frontier"

Points = Callable[[list[Row]], list[Point] | None]


def claims(settings: ReviewSettings) -> list[Claim]:
    """Return the claims of all checks."""
    return [
        *_overlap(settings),
        *_dimensions(settings),
        *_depth(settings),
        *_magnitude(settings),
        *_direction(settings),
        *_length(settings),
        *_signatures(settings),
    ]


def _claim(name: str, words: str, predicate: str, judge: Judge, model: str = "mamba") -> Claim:
    return Claim(f"M-review.{name}", words, predicate, judge, models=(model,), ours=True)


def _orthogonal(rows: list[Row], fraction: float) -> BySeed:
    return errors(rows, **where("coherence", "mamba", f"α = {fraction:g}", 0.0))


def _overlap(settings: ReviewSettings) -> list[Claim]:
    slight = [c for c in settings.coherences if 0 < c <= SLIGHT]
    closed = [c for c in settings.coherences if c * settings.train_outlier_scale >= 1]
    alpha = f"at α = {listed(settings.fractions)}"

    def cells(cosines: Sequence[float]) -> list[tuple[str, dict[str, Any], float]]:
        return [
            (f"cosine {c:g}, α = {f:g}", where("coherence", "mamba", f"α = {f:g}", c), f)
            for c in cosines
            for f in settings.fractions
        ]

    def more(rows: list[Row]) -> list[Point] | None:
        pairs = [(name, errors(rows, **cell), _orthogonal(rows, f)) for name, cell, f in cells(slight)]
        return paired_points(pairs, settings.seeds)

    def large(rows: list[Row]) -> list[Point] | None:
        return error_points(rows, settings.seeds, [(name, cell) for name, cell, _ in cells(closed)]) or None

    return [
        _claim(
            "coherence",
            "the robustness of Mamba degrades gracefully as patterns begin to overlap",
            f"worst-case error at a cosine of {listed(slight)} − at 0 < {NEAR} {alpha}, on paired seeds",
            judged(more, every_below, NEAR),
        ),
        _claim(
            "coherence-closed",
            "the gate closes on clean examples too from a cosine of about 1/κ_a on, because these then carry as much "
            "of the outliers' direction",
            f"worst-case error > {LARGE} at a cosine of {listed(closed)} {alpha}",
            judged(large, every_above, LARGE),
        ),
    ]


def _dimensions(settings: ReviewSettings) -> list[Claim]:
    count = settings.relevant + settings.irrelevant + settings.outlier
    few, many = ([d for d in settings.dimensions if d < count], [d for d in settings.dimensions if d > 3 * count])

    def harmless(dimensions: Sequence[int]) -> Judge:
        def points(rows: list[Row]) -> list[Point] | None:
            pairs = []
            for d in dimensions:
                for f in settings.fractions:
                    cells = [where("dimension", "mamba", f"α = {f:g}", d, draw) for draw in range(settings.draws)]
                    drawn = [errors(rows, **cell) for cell in cells]
                    pairs.append((f"d = {d}, α = {f:g}", _mean(drawn), _orthogonal(rows, f)))
            return paired_points(pairs, settings.seeds)

        return judged(points, every_below, NEAR)

    random = f"worst-case error with random patterns, mean over {settings.draws} sets, − with orthogonal ones < {NEAR}"
    return [
        _claim(
            "dimension",
            "fewer dimensions than patterns do little harm",
            f"{random} at α = {listed(settings.fractions)} in d = {listed(few)}, on paired seeds",
            harmless(few),
        ),
        _claim(
            "dimension-wide",
            "random patterns do no harm in many more dimensions than patterns, where they are nearly orthogonal",
            f"the same in d = {listed(many)}",
            harmless(many),
        ),
    ]


def _mean(found: Sequence[BySeed]) -> BySeed:
    """Return the mean of several numbers per seed; None if any is missing."""
    seeds = set.intersection(*(set(by_seed) for by_seed in found)) if found else set()
    means: BySeed = {}
    for seed in sorted(seeds):
        values = [value for by_seed in found if (value := by_seed[seed]) is not None]
        means[seed] = sum(values) / len(values) if len(values) == len(found) else None
    return means


def _depth(settings: ReviewSettings) -> list[Claim]:
    found = []
    for stream in settings.streams:
        name = "" if stream == "full" else f"-{stream}"
        found += [
            _claim(
                f"depth{name}",
                f"a second layer of Mamba does not weaken the suppression of outliers ({stream} stream)",
                f"error of two layers − of one < {NEAR} at FQ, R and CQ under flipped labels, on paired seeds",
                judged(_second_layer(settings, stream), every_below, NEAR),
                "deep-mamba",
            ),
            _claim(
                f"depth-gates{name}",
                f"the gates' suppression compounds with depth ({stream} stream)",
                "the product over layers of outlier gate / clean gate, at distances 1 to 8, is smaller than in one "
                f"layer for {listed(d for d in settings.depths if d > 1)} layers, on paired seeds",
                judged(_compounds(settings, stream), every_below, 0.0),
                "deep-mamba",
            ),
        ]
    return found


def _second_layer(settings: ReviewSettings, stream: str) -> Points:
    def points(rows: list[Row]) -> list[Point] | None:
        two, one = (
            {p: errors(rows, **where("depth", "deep-mamba", f"{stream}, flip, {p}", k)) for p in ("FQ", "R", "CQ")}
            for k in (2, 1)
        )
        return paired_points([(place, two[place], one[place]) for place in two], settings.seeds)

    return points


def _compounds(settings: ReviewSettings, stream: str) -> Points:
    def more(depth: int) -> Points:
        def values(rows: list[Row]) -> BySeed:
            return difference(_product(rows, stream, depth), _product(rows, stream, 1))

        return mean_point(settings.seeds, values, f"{depth} layers")

    return together(*(more(depth) for depth in settings.depths if depth > 1))


def _product(rows: list[Row], stream: str, depth: int) -> BySeed:
    """Return each seed's product over layers of outlier gate / clean gate."""
    ratios = [gate_ratios(rows, stream, depth, layer) for layer in range(1, depth + 1)]
    found: BySeed = {}
    for seed in ratios[0]:
        values = [value for ratio in ratios if (value := ratio[seed]) is not None]
        found[seed] = math.prod(values) if len(values) == depth else None
    return found


def _magnitude(settings: ReviewSettings) -> list[Claim]:
    phase, strongest = settings.phase(), max(settings.mamba_scales)
    working = [a for a in settings.train_scales if 0 < a <= settings.train_outlier_scale]
    allowed = {a: [b for b in settings.mamba_scales if b * settings.smallest_sum >= a] for a in working}
    least = {a: min(scales) for a, scales in allowed.items() if scales}
    compared = [a for a in working if a >= LARGE]
    frontier = f"where the worst-case error of Mamba falls below {FAILED} and stays there"
    within = f"is within a factor of {FACTOR:g} of it"

    def against(bound: float, tests: dict[float, float], name: str) -> Judge:
        """Judge the κ_a of the frontier, given the κ_a' of the test at each κ_a, divided by a bound."""

        def places(rows: list[Row]) -> BySeed:
            curve = [errors(rows, **where("magnitude", "mamba", "", a, b)) for a, b in tests.items()]
            found = _powers(crossings([math.log(a) for a in tests], curve, FAILED))
            return {seed: None if a is None else a / bound for seed, a in found.items()}

        return judged(mean_point(settings.seeds, places, name, LOST), every_within, 1 / FACTOR, FACTOR)

    def in_tests(a: float) -> Points:
        scales = [b for b in settings.mamba_scales if b > 0]

        def ratios(rows: list[Row]) -> BySeed:
            curve = [errors(rows, **where("magnitude", "mamba", "", a, b)) for b in scales]
            found = _powers(crossings([math.log(b) for b in scales], curve, FAILED))
            return {seed: None if b is None else b * settings.smallest_sum / a for seed, b in found.items()}

        return mean_point(settings.seeds, ratios, f"κ_a = {a:g}", LOST)

    return [
        _claim(
            "magnitude",
            f"V β⁻⁴ = {phase.printed:.2g} is where outliers of training become too weak, if tests have the least κ_a' "
            "that Theorem 2 allows",
            f"the κ_a {frontier}, at the least κ_a' ≥ κ_a/L of the map, {within}",
            against(phase.printed, least, "κ_a' ≥ κ_a/L"),
        ),
        _claim(
            "magnitude-strong",
            "it is so for strong test outliers too",
            f"the κ_a {frontier}, at κ_a' = {strongest:g}, {within}",
            against(phase.printed, dict.fromkeys(working, strongest), f"κ_a' = {strongest:g}"),
        ),
        _claim(
            "magnitude-c",
            f"iclab's (C), κ_a = {phase.learnt:.2g}, is that frontier",
            f"the κ_a {frontier}, at the least κ_a' ≥ κ_a/L of the map, {within}",
            against(phase.learnt, least, "κ_a' ≥ κ_a/L"),
        ),
        _claim(
            "magnitude-test",
            "κ_a' L = κ_a is where outliers in tests become too weak to be shut out",
            f"κ_a' L/κ_a {frontier} is within a factor of {FACTOR:g} of 1 at κ_a = {listed(compared)}",
            judged(together(*map(in_tests, compared)), every_within, 1 / FACTOR, FACTOR),
        ),
    ]


def _powers(logs: BySeed) -> BySeed:
    return {seed: None if log is None else exp(log) for seed, log in logs.items()}


def _small(settings: ReviewSettings, cells: Sequence[tuple[str, dict[str, Any], float]]) -> Points:
    """Make points of error − floor for named cells."""

    def points(rows: list[Row]) -> list[Point] | None:
        found = error_points(rows, settings.seeds, [(name, columns) for name, columns, _ in cells])
        return found and [
            Point(
                None if p.value is None else p.value - floor,
                Interval(p.interval.low - floor, p.interval.high - floor),
                p.where,
                p.diverged,
            )
            for p, (_, _, floor) in zip(found, cells, strict=True)
        ]

    return points


def _direction(settings: ReviewSettings) -> list[Claim]:
    def cells(cosines: Sequence[float]) -> list[tuple[str, dict[str, Any], float]]:
        return [
            (
                f"cosine {c:g}, α = {f:g}",
                where("direction", "mamba", f"α = {f:g}", c),
                all_outliers(f, settings.context_length),
            )
            for c in cosines
            for f in settings.fractions
        ]

    shared = [c for c in settings.cosines if c >= settings.smallest_sum]
    return [
        _claim(
            "orthogonal",
            "the gate shuts out test outliers that are orthogonal to all training outliers",
            f"worst-case error − α^l < {NEAR} at a cosine of 0, α = {listed(settings.fractions)}",
            judged(_small(settings, cells([0.0])), every_below, NEAR),
        ),
        _claim(
            "orthogonal-share",
            "it does so from a cosine of L on, at κ_a' = κ_a/L",
            f"worst-case error − α^l < {NEAR} at cosines of {listed(shared)}, α = {listed(settings.fractions)}",
            judged(_small(settings, cells(shared)), every_below, NEAR),
        ),
    ]


def _length(settings: ReviewSettings) -> list[Claim]:
    fixed = f"{settings.outlier_count} outliers"
    shares = [
        (f"l_ts = {k}, α = {f:g}", where("length", "mamba", f"α = {f:g}", k), all_outliers(f, k))
        for f in settings.fractions
        for k in settings.lengths
    ]
    counts = [
        (f"l_ts = {k}", where("length", "mamba", fixed, k), float(k == settings.outlier_count))
        for k in settings.lengths
        if k >= settings.outlier_count
    ]
    span = f"l_ts from {min(settings.lengths)} to {max(settings.lengths)}, trained at {settings.context_length}"
    return [
        _claim(
            "length",
            "Mamba stays robust on shorter and longer prompts than those of its training, at a fixed share of outliers",
            f"worst-case error − α^l < {NEAR} at α = {listed(settings.fractions)}, {span}",
            judged(_small(settings, shares), every_below, NEAR),
        ),
        _claim(
            "length-count",
            "and with a fixed number of outliers",
            f"worst-case error < {NEAR} with {fixed}, {span}",
            judged(_small(settings, counts), every_below, NEAR),
        ),
    ]


def _signatures(settings: ReviewSettings) -> list[Claim]:
    def judge(name: str, model: str) -> Judge:
        def points(rows: list[Row]) -> list[Point] | None:
            outside, inside = (errors(rows, **where("signature", model, name, side)) for side in (1, 0))
            return paired_points([("outside − inside", outside, inside)], settings.seeds)

        return judged(points, every_above, FAILED)

    deep = {"adjacent-deep": "deep-mamba"}
    return [
        _claim(
            f"signatures.{name}",
            f"{WORDS[name]}: Mamba fails",
            f"error outside the bound − inside > {FAILED}, on paired seeds",
            judge(name, deep.get(name, "mamba")),
            deep.get(name, "mamba"),
        )
        for name in SIGNATURES
    ]
