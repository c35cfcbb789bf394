"""S-thm2: non-negative mixtures of patterns, and prompts of 2/α' examples."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from iclab.papers.mamba.times_chart import mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import watched_training
from iclab.papers.selectors.laws import SelectorTheorems
from iclab.probes import Row
from iclab.study.charts import PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Point, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, listed
from iclab.study.settings import Chosen, Different

NONE = 0.001
"""Zero error, read as: below this."""
DRAWN = 7
"""The seed of the random mixtures."""
COUNTS = (0, 1, 2, 3)

Mixtures = tuple[tuple[float, ...], ...]


class MixtureSettings(SelectorTheorems):
    """Settings of S-thm2."""

    mixtures: Annotated[int, Field(ge=1), Chosen("random sets of mixtures for every M1'", grid=True)] = 12
    numbers: Annotated[
        tuple[Annotated[int, Field(ge=2)], ...],
        Field(min_length=1),
        Different,
        Chosen("M1' ≤ M1 = 4; orthogonal mixtures without negative weights have no pattern in common", grid=True),
    ] = (2, 3)
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1), Different, Chosen("α' of l_ts", grid=True)
    ] = (0.2, 0.4)
    angles: Annotated[
        tuple[Annotated[float, Field(ge=0, lt=90)], ...],
        Field(min_length=1),
        Different,
        Chosen("degrees by which ν' lean towards µ", grid=True),
    ] = (0.0, 15.0, 30.0, 45.0, 60.0, 75.0)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    def quick(self) -> Self:
        """Return the quick edition: fewer mixtures and prompts."""
        quick = super().quick().replace(mixtures=min(self.mixtures, 6), test_prompts=500)
        return quick.replace(batch_size=self.batch_size)


def drawn(relevant: int, number: int, which: int) -> Mixtures:
    """Draw ``number`` orthogonal mixtures without negative weights: every pattern is in one of them, or in none.

    >>> [sum(k * k for k in mixture) for mixture in drawn(4, 2, 0)] == [1.0, 1.0]
    True
    """
    generator = np.random.default_rng([DRAWN, relevant, number, which])
    while True:
        owner = generator.integers(-1, number, size=relevant)
        if set(range(number)) <= set(owner.tolist()):
            break
    rows = []
    for one in range(number):
        weights = np.where(owner == one, generator.uniform(0.2, 1.0, size=relevant), 0.0)
        rows.append(tuple(float(w) for w in weights / math.sqrt((weights**2).sum())))
    return tuple(rows)


def leaning(relevant: int, irrelevant: int, angle: float) -> Mixtures:
    """Return ν'_k = ν_k cos θ + µ_j sin θ as weights of all patterns, j = k mod M1.

    >>> [round(weight, 3) for weight in leaning(2, 3, 30.0)[2]]
    [0.5, 0.0, 0.0, 0.0, 0.866]
    """
    along, aside = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    rows = np.zeros((irrelevant, relevant + irrelevant))
    for k in range(irrelevant):
        rows[k, k % relevant], rows[k, relevant + k] = along, aside
    return tuple(tuple(map(float, row)) for row in rows)


class Mixed(Experiment[MixtureSettings]):
    """Errors on mixtures of patterns, and by the number of examples with the query's pattern."""

    id = "S-thm2"
    title = "Mixtures of patterns without negative weights, and short prompts"
    paper = (
        "Theorem 2: if test patterns are mixtures of the training patterns without negative weights, M1' ≤ M1, and "
        "l_ts ≥ 2/α', there is no error out of domain."
    )
    reading = (
        "A: the error on random mixtures after training on M1 = 4 patterns, one point per set of mixtures, against the "
        "mean sum of weights of its patterns, with prompts of 40 examples. Orthogonal mixtures without negative "
        "weights share no pattern, so the sum is at least 1. B: the error at l_ts = 2/α' by the number of examples "
        "with the query's pattern; the theorem counts on one. C: the error if irrelevant test patterns are "
        "ν cos θ + µ sin θ, in domain otherwise. Means over seeds with 95 % intervals."
    )
    caption = "mean over seeds"
    theorems = ("S-thm2",)
    settings = MixtureSettings

    def conditions(self, settings: MixtureSettings) -> list[Condition]:
        """Return the error on every set of mixtures, and by the number of examples."""
        own = settings.with_total(settings.relevant + settings.irrelevant)
        training, found = watched_training(own, settings.watched), []
        for number in settings.numbers:
            for which in range(settings.mixtures):
                shares = {"relevant_fraction": 1.0} if number == 2 else {}
                prompts = own.prompts(relevant_mixtures=drawn(own.relevant, number, which), **shares)
                columns = {"part": "mixtures", "x": number, "which": which}
                cell = {"probe": "error", "prompts": prompts, "count": settings.test_prompts}
                found += in_groups(settings, columns, training, **cell)
        for fraction in settings.test_fractions:
            length = math.ceil(2 / fraction - 1e-9)
            sizes = {"relevant_fraction": fraction, "context_length": length}
            prompts = own.prompts(relevant_mixtures=drawn(own.relevant, 3, 0), **sizes)
            columns = {"part": "counted", "x": fraction, "which": 0}
            cell = {"probe": "counted", "prompts": prompts, "count": 4 * settings.test_prompts}
            found += in_groups(settings, columns, training, **cell)
        for angle in settings.angles:
            prompts = own.prompts(irrelevant_mixtures=leaning(own.relevant, own.irrelevant, angle))
            columns = {"part": "leaning", "x": angle, "which": 0}
            cell = {"probe": "error", "prompts": prompts, "count": settings.test_prompts}
            found += in_groups(settings, columns, training, **cell)
        return found

    def claims(self, settings: MixtureSettings) -> list[Claim]:
        """Return both halves of the theorem."""
        numbers = listed(settings.numbers)
        leans: list[tuple[str, Row]] = [(f"{a:g} degrees", {"part": "leaning", "x": a}) for a in settings.angles]
        return [
            Claim(
                "S-thm2.mixtures",
                "no error on mixtures without negative weights (Theorem 2)",
                f"mean error < {NONE} on each of {settings.mixtures} random sets for M1' = {numbers}",
                judged(partial(_mixtures, settings=settings), every_below, NONE),
            ),
            Claim(
                "S-thm2.length",
                "l_ts ≥ 2/α' examples are enough (Theorem 2)",
                f"error of prompts with exactly one example of the query's pattern < {NONE} at l_ts = 2/α', "
                f"α' = {listed(settings.test_fractions)}",
                judged(partial(_with_one, settings=settings), every_below, NONE),
            ),
            Claim(
                "S-thm2.leaning",
                "irrelevant test patterns may be any outside the span of µ, so they may lean towards µ (Theorem 2)",
                f"mean error < {NONE} if ν' lean towards µ by {listed(settings.angles)} degrees",
                judged(partial(error_points, seeds=settings.seeds, cells=leans), every_below, NONE),
            ),
        ]

    def table(self, rows: list[Row], settings: MixtureSettings) -> list[dict[str, Any]]:
        """Return one line per M1' and α'."""
        lines = []
        for number in settings.numbers:
            found = [mean(_error(rows, number, which)) for which in range(settings.mixtures)]
            good = [value for value in found if value is not None]
            worst = f"{max(good):.4f}" if good else "–"
            lines.append({"test": f"M1' = {number}, worst of {settings.mixtures} mixtures", "error": worst})
        for fraction in settings.test_fractions:
            for count in COUNTS:
                value = mean(_counted(rows, fraction, count))
                test = f"l_ts = 2/α', α' = {fraction:g}, {count} examples of the query's pattern"
                lines.append({"test": test, "error": "–" if value is None else f"{value:.4f}"})
        for angle in settings.angles:
            value = mean(_leaning(rows, angle))
            test = f"ν' lean towards µ by {angle:g} degrees"
            lines.append({"test": test, "error": "–" if value is None else f"{value:.4f}"})
        return lines

    def chart(self, rows: list[Row], settings: MixtureSettings) -> Figure:
        """Draw errors against the smallest sum of weights, and by the number of examples."""
        scale = Axis("error", domain=(0, 1), scale="symlog", linear_to=NONE, ticks=(0, 0.001, 0.01, 0.1, 1))
        first = Panel("A  random mixtures", x=Axis("mean sum of weights", domain=(1.0, 1.5)), y=scale, height=220)
        first.rule(y=NONE)
        for number, colour in zip(settings.numbers, PALETTE, strict=False):
            series = Series(f"M1' = {number}", colour, line=False, size=45.0)
            for which in range(settings.mixtures):
                total = sum(map(sum, drawn(settings.relevant, number, which))) / number
                measured(first, series, {total: _error(rows, number, which)})
        second = Panel("B  l_ts = 2/α'", x=Axis("examples with the query's pattern", ticks=COUNTS), y=scale, height=220)
        second.rule(y=NONE)
        for fraction, colour in zip(settings.test_fractions, PALETTE[2:], strict=False):
            found = {count: _counted(rows, fraction, count) for count in COUNTS}
            known = {count: by_seed for count, by_seed in found.items() if by_seed}
            second.curve(Series(f"α' = {fraction:g}", colour), list(known), list(known.values()))
        third = Panel("C  ν' that lean towards µ", x=Axis("degrees", ticks=settings.angles), y=scale, height=220)
        third.rule(y=NONE)
        series = Series("training tasks and all others", PALETTE[4], line=False, size=45.0)
        measured(third, series, {angle: _leaning(rows, angle) for angle in settings.angles})
        return Figure([first, second, third], columns=3, width=290)


def _error(rows: list[Row], number: int, which: int) -> BySeed:
    return {row["seed"]: row["error"] for row in of(rows, part="mixtures", x=number, which=which)}


def _counted(rows: list[Row], fraction: float, count: int) -> BySeed:
    mine = of(rows, part="counted", x=fraction)
    return {r["seed"]: r["error"] for r in mine if r["diverged"] or r["same_examples"] == count}


def _leaning(rows: list[Row], angle: float) -> BySeed:
    return {row["seed"]: row["error"] for row in of(rows, part="leaning", x=angle)}


def _mixtures(rows: list[Row], settings: MixtureSettings) -> list[Point] | None:
    cells = [
        (f"M1' = {number}, set {which}", {"part": "mixtures", "x": number, "which": which})
        for number in settings.numbers
        for which in range(settings.mixtures)
    ]
    return error_points(rows, settings.seeds, cells)


def _with_one(rows: list[Row], settings: MixtureSettings) -> list[Point] | None:
    mine = [row for row in of(rows, part="counted") if row["diverged"] or row["same_examples"] == 1]
    cells: list[tuple[str, Row]] = [(f"α' = {f:g}", {"part": "counted", "x": f}) for f in settings.test_fractions]
    return error_points(mine, settings.seeds, cells)
