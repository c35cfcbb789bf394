"""T-fig6: how many iterations, and how long training prompts, T's Transformer needs as fewer examples matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.study import style
from iclab.study.claims import (
    BySeed,
    Claim,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import difference, errors, mean_text, proportion
from iclab.study.settings import Chosen, Different
from iclab.theory.contexts import length_for

SMALL = 0.01
"""The paper does not say when a model is trained. Read as: its error on unseen tasks is below this, to the end."""
LINEAR = 0.98
"""Linear is read as: R² of a straight line through a seed's points is above this. At 0.95 a square passes as well."""
FEWEST = 4
"""Of fewer α no line is called straight, and between fewer lengths none is called needed."""
NEVER = "diverged, or never came below it"
POWERS = {"2/3": 2 / 3, "1": 1.0}
TESTS = {"own": "tested on prompts of the same length", "long": "tested on long prompts"}


class NeedSettings(NonlinearPaper):
    """T-fig6."""

    instead = {"relevant_fraction": "fractions"}

    fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=3),
        Different,
        Chosen("α in training; the paper's values are in its figure alone", grid=True),
    ] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("l_tr tried, besides that of all other figures", grid=True),
    ] = (2, 4, 6, 8, 12, 16, 28)
    long: Annotated[int, Field(ge=1), Chosen("l_ts of long test prompts, which hide no pattern by chance")] = 40
    long_fraction: Annotated[
        float, Field(gt=0, le=1), Chosen("α' of long test prompts, the same for all: only the training differs")
    ] = 0.8
    steps: Annotated[int, Chosen("T, enough for the smallest α")] = 800
    watched: Annotated[int, Field(ge=1), Chosen("kept steps, between which a crossing is interpolated")] = 32
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and kept step", grid=True)] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: fewer α and prompts, and too few lengths to judge what they say."""
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
        """Every l_tr, in order."""
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
        "each α is a training of its own, all tested alike, on long prompts. (B) The error after training on prompts "
        "of each length, tested on prompts of the same length (solid) and on long ones (dashed). (C) The length from "
        "which on that error stays below 0.01, against 1/α, and the length at which a prompt lacks the query's pattern "
        "with probability 0.02, which no training can help. Means over seeds; bands run from the lowest to the highest."
    )
    theorems = ("T-thm3.3",)
    settings = NeedSettings

    def conditions(self, settings: NeedSettings) -> list[Condition]:
        """A training for each α and length; its error over training at the usual length, at the end at all."""
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
                "training prompts may not be shorter when tests are long: length needed, tested on the same length − "
                "tested on long prompts < 1 at every α, mean over seeds",
                judged(
                    together(*(over_seeds(_shorter, fraction=fraction) for fraction in settings.fractions)),
                    every_below,
                    1.0,
                ),
            ),
        ]

    def table(self, rows: list[Row], settings: NeedSettings) -> list[dict[str, Any]]:
        """A line an α and length."""
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
                line["iterations needed"] = _spread(list(needed.values()), len(needed))
                lines.append(line)
        return lines

    def draw(self, rows: list[Row], settings: NeedSettings) -> Figure:
        """Draw the three panels."""
        with mpl.rc_context(style.RC):
            figure = Figure(figsize=(12.0, 4.4), layout="constrained")
            left, middle, right = figure.subplots(1, 3)
            for panel in (left, middle, right):
                style.grid(panel)
            fractions = sorted(settings.fractions, reverse=True)
            xs = [fraction ** (-2 / 3) for fraction in fractions]
            needed = [needed_steps(rows, settings, fraction) for fraction in fractions]
            style.curve(left, xs, needed, style.COLOURS["softmax-mlp"], "needed", linestyle="none")
            means = [np.mean([v for v in found.values() if v is not None] or [np.nan]) for found in needed]
            good = np.isfinite(means)
            if good.sum() >= 2:
                for name, power in POWERS.items():
                    at = np.array(fractions) ** -power
                    slope, start = np.polyfit(at[good], np.array(means)[good], 1)
                    fine = np.linspace(min(fractions), max(fractions), 100)
                    left.plot(fine ** (-2 / 3), start + slope * fine**-power, linewidth=1.0,
                              color=style.INK if name == "2/3" else style.FAINT,
                              linestyle="solid" if name == "2/3" else "dashed",
                              label=f"linear in α^(−{name})")  # fmt: skip
            left.set_xlabel("α^(−2/3)")
            left.set_ylabel("iterations needed")
            left.set_ylim(bottom=0)
            left.set_title("A  iterations", fontweight="bold")
            style.legend(left, loc="upper left")
            lengths = settings.all_lengths()
            for fraction, colour in zip(fractions, style.shades(len(fractions)), strict=True):
                for test in TESTS:
                    where = {"fraction": fraction, "test": test, "step": settings.steps}
                    found = [errors(rows, **where, length=n) for n in lengths]
                    label, beside = (f"α = {fraction:g}", {}) if test == "own" else ("", style.BESIDE)
                    style.curve(middle, lengths, found, colour, label, **beside)
            middle.axhline(SMALL, **style.DASHED)
            middle.set_yscale("symlog", linthresh=SMALL)
            middle.set_ylim(0, 1)
            middle.set_xlabel("examples in a training prompt")
            middle.set_ylabel("error after training")
            middle.set_title("B  length of training prompts", fontweight="bold")
            style.legend(middle, fontsize=8)
            for test, colour in zip(TESTS, style.SERIES, strict=False):
                found = [needed_length(rows, settings, fraction, test) for fraction in fractions]
                style.curve(right, [1 / fraction for fraction in fractions], found, colour, TESTS[test])
            fine = np.linspace(min(fractions), max(fractions), 100)
            asked = [length_for(fraction, 2 * SMALL) for fraction in fine]  # where it lacks, half of the guesses err
            right.plot(1 / fine, asked, **style.DASHED, label="lacking the query's pattern: 0.02")
            right.set_xlabel("1/α")
            right.set_ylabel("examples in a training prompt")
            right.set_ylim(0, 1.4 * right.get_ylim()[1])
            right.set_title("C  length needed", fontweight="bold")
            style.legend(right, loc="upper left")
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def needed_steps(rows: list[Row], settings: NeedSettings, fraction: float) -> BySeed:
    """The step from which on a seed's error stays below the margin; None where it never does."""
    steps = settings.kept_steps()
    where = {"fraction": fraction, "length": settings.context_length, "test": "long"}
    return _crossings(steps, [errors(rows, **where, step=step) for step in steps])


def needed_length(rows: list[Row], settings: NeedSettings, fraction: float, test: str) -> BySeed:
    """The length from which on a seed's error after training stays below the margin; None where it never does."""
    lengths = settings.all_lengths()
    where = {"fraction": fraction, "test": test, "step": settings.steps}
    return _crossings(lengths, [errors(rows, **where, length=length) for length in lengths])


def _crossings(places: Sequence[int], found: list[BySeed]) -> BySeed:
    seeds = set.intersection(*map(set, found))
    return {seed: crossing(places, [by_seed[seed] for by_seed in found]) for seed in sorted(seeds)}


def crossing(places: Sequence[int], values: Sequence[float | None]) -> float | None:
    """Where values go below the margin for good, interpolated on a logarithmic scale; None if they do not.

    Errors fall about exponentially. An error of 0 is read as a tenth of the margin.
    """
    above = [i for i, value in enumerate(values) if value is None or value >= SMALL]
    if not above:
        return float(places[0])
    last = above[-1]
    if last + 1 == len(values):
        return None
    before, after = values[last], values[last + 1]
    if before is None or after is None:
        return None
    high, low = math.log(before / SMALL), math.log(max(after / SMALL, 0.1))
    return places[last] + (places[last + 1] - places[last]) * high / (high - low)


def straightness(xs: list[float], ys: list[float]) -> float:
    """R² of the straight line through the points; 0 where all are at one height."""
    slope, start = np.polyfit(xs, ys, 1)
    rest, total = np.var(np.array(ys) - start - slope * np.array(xs)), np.var(ys)
    return float(1.0 - rest / total) if total > 0 else 0.0


def _fits(rows: list[Row], settings: NeedSettings, power: float) -> BySeed:
    """Each seed's R² of needed iterations against α^−power; None where it diverged or some α never trained."""
    needed = {fraction: needed_steps(rows, settings, fraction) for fraction in settings.fractions}
    return _over_fractions(needed, lambda xs, ys: straightness([x**-power for x in xs], ys))


def _exponents(rows: list[Row], settings: NeedSettings) -> BySeed:
    """Each seed's exponent −d log(iterations) / d log(α)."""
    needed = {fraction: needed_steps(rows, settings, fraction) for fraction in settings.fractions}
    return _over_fractions(needed, lambda xs, ys: float(-np.polyfit(np.log(xs), np.log(ys), 1)[0]))


def _straighter(rows: list[Row], settings: NeedSettings) -> BySeed:
    """Each seed's R² against α^(−2/3) − R² against 1/α."""
    return difference(_fits(rows, settings, 2 / 3), _fits(rows, settings, 1.0))


def _shorter(rows: list[Row], settings: NeedSettings, fraction: float) -> BySeed:
    """By how much shorter training prompts may be when tests are long."""
    if len(settings.all_lengths()) < FEWEST:
        return {}
    own, long = (needed_length(rows, settings, fraction, test) for test in TESTS)
    return difference(own, long)


def _length_fits(rows: list[Row], settings: NeedSettings, test: str) -> BySeed:
    if len(settings.all_lengths()) < FEWEST:
        return {}
    needed = {fraction: needed_length(rows, settings, fraction, test) for fraction in settings.fractions}
    return _over_fractions(needed, lambda xs, ys: straightness([1 / x for x in xs], ys))


def _over_fractions(needed: dict[float, BySeed], fit: Callable[[list[float], list[float]], float]) -> BySeed:
    """Fit each seed's points; None where one of them is missing."""
    answer: BySeed = {}
    if len(needed) < FEWEST:
        return answer
    for seed in sorted(set.intersection(*map(set, needed.values()))):
        ys = [y for by_seed in needed.values() if (y := by_seed[seed]) is not None]
        answer[seed] = fit(list(needed), ys) if len(ys) == len(needed) else None
    return answer


def _spread(values: list[float | None], seeds: int) -> str:
    good = [value for value in values if value is not None]
    if not good:
        return "never" if seeds else ""
    missing = f", {seeds - len(good)} never" if len(good) < seeds else ""
    return f"{np.mean(good):.0f} ({min(good):.0f} to {max(good):.0f}{missing})"
