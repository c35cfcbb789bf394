"""T-fig6: how many iterations, and how long prompts, T's Transformer needs in training if fewer examples matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.study.charts import (
    DASHED,
    DOTTED,
    FAINT,
    INK,
    PALETTE,
    Axis,
    Figure,
    Panel,
    Series,
    colour_of,
    reference,
    shades,
)
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import FEWEST, crossings, exponent, fit_per_seed, spread, straight_line, straightness
from iclab.study.rows import difference, errors, mean_text, proportion
from iclab.study.settings import Chosen, Different
from iclab.theory.bayes import bayes_length
from iclab.theory.contexts import length_for

SMALL = 0.01
"""The paper does not say when a model is trained. Read as: its error on unseen tasks stays below this."""
LINEAR = 0.98
"""Linear is read as: R² of a straight line through a seed's points is above this. At 0.95 a square passes too."""
NEVER = "diverged or never came below it"
TESTS = {"own": "tested on prompts of the same length", "long": "tested on long prompts"}

ITERATIONS = Series("iterations needed", colour_of("softmax-mlp"), line=False)
LAWS = {2 / 3: reference("linear in α^(−2/3)", ()), 1.0: reference("linear in 1/α", DASHED, FAINT)}
"""Powers of α, and how the line in each is drawn."""
NEEDED = {"own": Series(TESTS["own"], PALETTE[0]), "long": Series(TESTS["long"], PALETTE[1], dash=DASHED)}
LACKING = reference("2 % of prompts lack the query's pattern", DOTTED)
BAYES = reference("the Bayes rule errs in 1 %", DASHED, FAINT)


class NeedSettings(NonlinearPaper):
    """Settings of T-fig6."""

    instead = {"relevant_fraction": "fractions"}

    fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=3),
        Different,
        Chosen("α in training; the paper's text does not give its values", grid=True),
    ] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("l_tr tried besides that of all other figures", grid=True),
    ] = (2, 4, 6, 8, 12, 16, 28)
    long: Annotated[int, Field(ge=1), Chosen("l_ts of long test prompts, which show every pattern")] = 40
    long_fraction: Annotated[
        float, Field(gt=0, le=1), Chosen("α' of long test prompts, the same for all trainings")
    ] = 0.8
    steps: Annotated[int, Chosen("T, enough for the smallest α")] = 800
    watched: Annotated[int, Field(ge=1), Chosen("kept steps; crossings are interpolated between them")] = 32
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and kept step", grid=True)] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: fewer α and prompts, and too few lengths to judge."""
        fewer = tuple(a for a in self.fractions if a in (0.4, 0.6, 0.8, 1.0))
        return (
            super()
            .quick()
            .replace(
                fractions=fewer if len(fewer) >= 3 else self.fractions,
                lengths=tuple(n for n in self.lengths if n == 6) or self.lengths,
                test_prompts=min(self.test_prompts, 400),
            )
        )

    def all_lengths(self) -> list[int]:
        """Return every l_tr, in order."""
        return sorted({*self.lengths, self.context_length})


class Need(Experiment[NeedSettings]):
    """What a smaller α costs."""

    id = "T-fig6"
    title = "Iterations and prompt length needed against α"
    paper = (
        "The required length of the training prompt is linear in 1/α, the required number of iterations in α^(−2/3)."
    )
    reading = (
        "(A) The step from which on the error on unseen tasks stays below 0.01, against α^(−2/3), with straight lines; "
        "each α has its own training, and all are tested on the same long prompts. (B) The error after training on "
        "prompts of each length, tested on prompts of the same length (solid) and on long ones (dashed). (C) The "
        "length from which on that error stays below 0.01, against 1/α; dotted, the length at which 2 % of prompts "
        "lack the query's pattern, which no training can help; grey dashes, the length at which the Bayes rule errs in "
        "1 %. Means over seeds; bands run from the lowest to the "
        "highest seed."
    )
    theorems = ("T-thm3.3",)
    settings = NeedSettings

    def conditions(self, settings: NeedSettings) -> list[Condition]:
        """One training per α and length; its error at every kept step at the usual length, else at the end."""
        found = []
        for fraction in settings.fractions:
            for length in settings.all_lengths():
                own = settings.as_kind(NonlinearPaper, relevant_fraction=fraction, context_length=length)
                if length != settings.context_length:
                    own = own.replace(watched=1)
                unseen = own.prompts(tasks=own.unseen())
                tests = {
                    "own": unseen,
                    "long": unseen.replace(context_length=settings.long, relevant_fraction=settings.long_fraction),
                }
                for step in own.kept_steps():
                    for test, prompts in tests.items():
                        if test == "own" and step < own.steps:
                            continue
                        found += in_groups(
                            settings,
                            {"fraction": fraction, "length": length, "test": test, "step": step},
                            own.training(),
                            probe="error",
                            prompts=prompts,
                            count=settings.test_prompts,
                            at=step,
                        )
        return found

    def claims(self, settings: NeedSettings) -> list[Claim]:
        """Straight lines, and the exponent that fits best."""

        def over_seeds(values: Callable[..., BySeed], **which: Any) -> Callable[[list[Row]], list[Point] | None]:
            most = 1.0 if values in (_fits, _length_fits) else math.inf  # R² is at most 1
            return mean_point(settings.seeds, partial(values, settings=settings, **which), fate=NEVER, most=most)

        return [
            Claim(
                "T-fig6.iterations",
                "the required number of iterations is linear in α^(−2/3)",
                f"R² > {LINEAR} of needed iterations against α^(−2/3), mean over seeds; other powers are as straight",
                judged(over_seeds(_fits, power=2 / 3), every_above, LINEAR),
            ),
            Claim(
                "T-fig6.exponent",
                "the required number of iterations grows as α^(−2/3)",
                "the exponent of a power law through the points is within 0.1 of 2/3, mean over seeds",
                judged(over_seeds(_exponents), every_within, 2 / 3 - 0.1, 2 / 3 + 0.1),
                direction=Direction("above 0", judged(over_seeds(_exponents), every_above, 0.0)),
            ),
            Claim(
                "T-fig6.straighter",
                "the required number of iterations is linear in α^(−2/3), rather than in 1/α",
                "R² against α^(−2/3) − R² against 1/α > 0, mean over seeds",
                judged(over_seeds(_straighter), every_above, 0.0),
                ours=True,
            ),
            Claim(
                "T-fig6.length",
                "the required length of the training prompt is linear in 1/α",
                f"R² > {LINEAR} against 1/α of the length from which on the error is below {SMALL}, mean over seeds; "
                f"{TESTS['own']}",
                judged(over_seeds(_length_fits, test="own"), every_above, LINEAR),
            ),
            Claim(
                "T-fig6.training-length",
                "it is the training prompt whose length is required",
                "length needed, tested on the same length − tested on long prompts < 1 at every α, mean over seeds: "
                "long tests do not allow shorter training prompts",
                judged(
                    together(*(over_seeds(_shorter, fraction=fraction) for fraction in settings.fractions)),
                    every_below,
                    1.0,
                ),
            ),
        ]

    def table(self, rows: list[Row], settings: NeedSettings) -> list[dict[str, Any]]:
        """One line per α and length."""
        lines = []
        for fraction in sorted(settings.fractions):
            for length in settings.all_lengths():
                where = {"fraction": fraction, "length": length, "step": settings.steps}
                line: dict[str, Any] = {"α": f"{fraction:g}", "l_tr": length}
                for test in TESTS:
                    p = proportion(rows, test=test, **where)
                    line[f"error, {test} length"] = "–" if p is None else p.short()
                line["hinge loss, long"] = mean_text(rows, "hinge", test="long", **where)
                needed = needed_steps(rows, settings, fraction) if length == settings.context_length else {}
                line["iterations needed"] = spread(needed)
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: NeedSettings) -> Figure:
        """Three panels: iterations needed, error by length of training prompts, length needed."""
        panels = [
            _iterations_panel(rows, settings),
            _errors_panel(rows, settings),
            _lengths_panel(rows, settings),
        ]
        return Figure(panels, width=290)


def _descending(settings: NeedSettings) -> list[float]:
    return sorted(settings.fractions, reverse=True)


def _iterations_panel(rows: list[Row], settings: NeedSettings) -> Panel:
    """Iterations needed against α^(−2/3), and straight lines in two powers of α through their means."""
    fractions = _descending(settings)
    panel = Panel("A  iterations", x=Axis("α^(−2/3)", zero=False), y=Axis("iterations needed"))
    needed = [needed_steps(rows, settings, fraction) for fraction in fractions]
    panel.curve(ITERATIONS, [fraction ** (-2 / 3) for fraction in fractions], needed)
    good = [[step for step in found.values() if step is not None] for found in needed]
    means = {fraction: sum(steps) / len(steps) for fraction, steps in zip(fractions, good, strict=True) if steps}
    if len(means) >= 2:
        fine = np.linspace(min(fractions), max(fractions), 100).tolist()
        for power, series in LAWS.items():
            slope, start = straight_line([fraction**-power for fraction in means], list(means.values()))
            panel.line(series, [a ** (-2 / 3) for a in fine], [start + slope * a**-power for a in fine])
    return panel


def _errors_panel(rows: list[Row], settings: NeedSettings) -> Panel:
    """Error after training against the length of training prompts: one colour per α, dashed for long tests."""
    fractions, lengths = _descending(settings), settings.all_lengths()
    scale = Axis("error after training", domain=(0, 1), scale="symlog", linear_to=SMALL, ticks=(0, 0.01, 0.1, 1))
    panel = Panel("B  length of training prompts", x=Axis("examples in a training prompt"), y=scale)
    panel.rule(y=SMALL, dash=DASHED, ink=INK)
    for fraction, colour in zip(fractions, shades(len(fractions), ordered=True), strict=True):
        own = Series(f"α = {fraction:g}", colour)
        for test, series in (("long", own.beside(f"{own.name}, {TESTS['long']}", legend=False)), ("own", own)):
            where = {"fraction": fraction, "test": test, "step": settings.steps}
            found = [errors(rows, **where, length=length) for length in lengths]
            panel.curve(series, lengths, found, band=test == "own")
    return panel


def _lengths_panel(rows: list[Row], settings: NeedSettings) -> Panel:
    """Length needed against 1/α, for both tests, and the length that chance asks for."""
    fractions = _descending(settings)
    panel = Panel("C  length needed", x=Axis("1/α", zero=False), y=Axis("examples in a training prompt"))
    for test, series in NEEDED.items():
        found = [needed_length(rows, settings, fraction, test) for fraction in fractions]
        panel.curve(series, [1 / fraction for fraction in fractions], found)
    fine = np.linspace(min(fractions), max(fractions), 100).tolist()
    asked = [length_for(fraction, 2 * SMALL) for fraction in fine]  # half of the guesses are wrong
    panel.line(LACKING, [1 / fraction for fraction in fine], asked)
    some = fractions if max(fractions) < 1 else [f for f in fractions if f < 1]
    panel.line(BAYES, [1 / f for f in some], [bayes_length(settings.relevant, f, SMALL) for f in some], marks=False)
    return panel


def needed_steps(rows: list[Row], settings: NeedSettings, fraction: float) -> BySeed:
    """Return the step from which on each seed's error stays below the margin; None where it never does."""
    steps = settings.kept_steps()
    where = {"fraction": fraction, "length": settings.context_length, "test": "long"}
    return crossings(steps, [errors(rows, **where, step=step) for step in steps], SMALL)


def needed_length(rows: list[Row], settings: NeedSettings, fraction: float, test: str) -> BySeed:
    """Return the length from which on each seed's error stays below the margin; None where it never does."""
    lengths = settings.all_lengths()
    where = {"fraction": fraction, "test": test, "step": settings.steps}
    return crossings(lengths, [errors(rows, **where, length=length) for length in lengths], SMALL)


def _fits(rows: list[Row], settings: NeedSettings, power: float) -> BySeed:
    """Return each seed's R² of needed iterations against α^−power; None where some α never trained."""
    needed = {fraction: needed_steps(rows, settings, fraction) for fraction in settings.fractions}
    return fit_per_seed(needed, lambda xs, ys: straightness([x**-power for x in xs], ys))


def _exponents(rows: list[Row], settings: NeedSettings) -> BySeed:
    """Return each seed's exponent −d log(iterations) / d log(α)."""
    needed = {fraction: needed_steps(rows, settings, fraction) for fraction in settings.fractions}
    return fit_per_seed(needed, lambda xs, ys: -exponent(xs, ys))


def _straighter(rows: list[Row], settings: NeedSettings) -> BySeed:
    """Return each seed's R² against α^(−2/3) − R² against 1/α."""
    return difference(_fits(rows, settings, 2 / 3), _fits(rows, settings, 1.0))


def _shorter(rows: list[Row], settings: NeedSettings, fraction: float) -> BySeed:
    """Return by how much shorter each seed's training prompts may be if tests are long."""
    if len(settings.all_lengths()) < FEWEST:
        return {}
    own, long = (needed_length(rows, settings, fraction, test) for test in TESTS)
    return difference(own, long)


def _length_fits(rows: list[Row], settings: NeedSettings, test: str) -> BySeed:
    if len(settings.all_lengths()) < FEWEST:
        return {}
    needed = {fraction: needed_length(rows, settings, fraction, test) for fraction in settings.fractions}
    return fit_per_seed(needed, lambda xs, ys: straightness([1 / x for x in xs], ys))
