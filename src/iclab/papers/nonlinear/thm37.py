"""T-thm3.7: two groups of neurons, what pruning either costs, and which neurons grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import fitted, mean
from iclab.papers.nonlinear.laws import GRAPHS, watched_training
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.nonlinear.thm33 import NAMES
from iclab.papers.nonlinear.thm37_chart import LITTLE, draw
from iclab.papers.nonlinear.thm37_rows import (
    PruningTheoremSettings,
    by_seed,
    extra,
    fates,
    lengths,
    neurons_of,
    predicted_loss,
    rise,
    widest_gap,
)
from iclab.probes import LARGE, Pruning, Row
from iclab.study.charts import Figure
from iclab.study.claims import BySeed, Claim, Direction, Point, every_above, every_below, every_within, judged, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import NEAR, PowerLaw, bound_claim, exponent_point
from iclab.study.rows import listed

GAP = 0.25
"""Two groups: the widest gap between lengths of rows, in logarithms, takes more than this part of their whole range."""
EVEN = 0.25
"""(16): the loss rises as R. Read as: (rise / R) differs from its mean by less than this part."""
CLOSE = 0.05
"""How far a loss may be from the predicted one."""
NEARLY = 0.95
"""Lucky neurons end in L, others do not. Read as: more than this share of them, less than 1 − it."""
MUCH = 0.01
"""Errors: clearly more."""


class PruningTheorem(Experiment[PruningTheoremSettings]):
    """Lengths of rows of W_O W_V, losses after pruning, and neurons that were lucky at the start."""

    id = "T-thm3.7"
    title = "Two groups of neurons, and what it costs to prune either"
    paper = (
        "Theorem 3.7: rows of W_O W_V in L, a constant share, have a length of Ω(1), the others ≤ O(1/√M2) (14); "
        "pruning the others leaves a loss of O(ε + M1^(−1/2)) (15); a share R of L costs Ω(R + (α' M1)⁻¹) (16). "
        "By (52), (53) and Lemma B.10, L are the neurons that are lucky at the start."
    )
    reading = (
        "A: mean length of rows of W_O W_V in L (filled) and outside it (hollow) against M2; dashed, M2^(−1/2). B: the "
        "hinge loss after pruning all neurons outside L, and before, against M1. C: the hinge loss after pruning a "
        "share R of all neurons at random within L; dotted, the loss if every output shrinks by the share of L that is "
        "gone. D: the share of neurons that end in L, of those that (52), (53) name before training and of the others. "
        "E: the error after pruning half of all neurons at random, against m. F: what few examples that matter, "
        "α' = 0.2, add to the loss of α' = 1 after pruning R = 0.05 in L, against M1, prompts of 20 examples; dashed, "
        "1/M1. Means over seeds with 95 % intervals."
    )
    caption = "mean over seeds"
    theorems = ("T-thm3.7",)
    settings = PruningTheoremSettings

    def conditions(self, settings: PruningTheoremSettings) -> list[Condition]:
        """Return lengths over M2, losses over M1 and R, fates of neurons, and errors over m, on both graphs."""
        found: list[Condition] = []

        def ask(part: str, graph: str, x: float, own: NonlinearPaper, probe: str, **cell: Any) -> None:
            columns = {"part": part, "graph": graph, "x": x}
            count = 1 if probe in ("neurons", "lucky") else settings.test_prompts
            cell = {"probe": probe, "prompts": own.prompts(), "count": count} | cell
            found.extend(in_groups(settings, columns, watched_training(own, 1), **cell))

        for graph in GRAPHS:
            base = settings.large(graph, settings.relevant)
            for count in settings.irrelevants:
                ask("lengths", graph, count, settings.large(graph, settings.relevant, irrelevant=count), "neurons")
            for relevant in settings.relevant_values:
                own = settings.large(graph, relevant)
                ask("whole", graph, relevant, own, "error")
                ask("pruned", graph, relevant, own, "error", pruning=Pruning(rate=1.0, among="small", order="random"))
                ask("lucky", graph, relevant, own, "lucky")
                for fraction in settings.test_fractions:
                    prompts = own.prompts(relevant_fraction=fraction, context_length=settings.test_length)
                    pruning = Pruning(rate=min(settings.rates), among="large", order="random")
                    part = f"fraction {fraction:g}"
                    ask(part, graph, relevant, own, "error", prompts=prompts, pruning=pruning)
            ask("neurons", graph, 0.0, base, "neurons")
            ask("shrunk", graph, 0.0, base, "shrunk")
            for rate in (0.0, *settings.rates):
                pruning = Pruning(rate=rate, among="large", order="random")
                ask("rates", graph, rate, base, "error", pruning=pruning)
            for neurons in settings.widths:
                own = settings.large(graph, settings.relevant, neurons=neurons)
                ask("widths", graph, neurons, own, "error", pruning=Pruning(rate=settings.half, order="random"))
                ask("unpruned", graph, neurons, own, "error")
        return found

    def claims(self, settings: PruningTheoremSettings) -> list[Claim]:
        """Return (14) to (16), which neurons are in L, and what iclab adds."""
        return [*_length_claims(settings), *_loss_claims(settings), *_fate_claims(settings)]

    def table(self, rows: list[Row], settings: PruningTheoremSettings) -> list[dict[str, Any]]:
        """Return one line per graph."""
        lines = []
        for graph, name in NAMES.items():
            line: dict[str, Any] = {"trained on": name}
            for title, which in (("in L", 0), ("outside L", 1)):
                line[f"length {title}, exponent in M2"] = fitted(PowerLaw(lengths(rows, graph, which)))["exponent"]
            for kind, title in ((True, "lucky"), (False, "others")):
                shares = [mean(fates(rows, graph, n, kind)) for n in settings.relevant_values]
                line[f"in L, {title}"] = ", ".join("–" if s is None else f"{s:.2f}" for s in shares)
            rises = [mean(rise(rows, graph, rate)) for rate in settings.rates]
            line["rise / R"] = ", ".join(
                "–" if r is None else f"{r / x:.2f}" for r, x in zip(rises, settings.rates, strict=True)
            )
            line["few examples, exponent in M1"] = fitted(PowerLaw(extra(rows, settings, graph)))["exponent"]
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: PruningTheoremSettings) -> Figure:
        """Draw lengths, losses after pruning, fates and errors."""
        return draw(rows, settings)


def _gaps(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for graph, name in NAMES.items():
        for count in settings.irrelevants:
            found = neurons_of(rows, part="lengths", graph=graph, x=count)
            gaps: BySeed = {s: widest_gap([n["length"] for n in mine]) if mine else None for s, mine in found.items()}
            named[f"{name}, M2 = {count}"] = gaps
    return mean_points(settings.seeds, named)


def _length_claims(settings: PruningTheoremSettings) -> list[Claim]:
    where = f"M2 = {listed(settings.irrelevants)}"
    return [
        bound_claim(
            "T-thm3.7.norms",
            "rows of W_O W_V outside L are no longer than O(1/√M2) (14)",
            partial(lengths, graph="ring", group=1),
            -0.5,
            seeds=settings.seeds,
            where=f"mean length, {where}, ring:1",
            fate="diverged or have none",
        ),
        Claim(
            "T-thm3.7.gap",
            "a clear gap in length lies between the two groups of (14)",
            f"the widest gap between log lengths > {GAP} of their range, both graphs, {where}",
            judged(partial(_gaps, settings=settings), every_above, GAP),
            ours=True,
        ),
    ]


def _loss_claims(settings: PruningTheoremSettings) -> list[Claim]:
    rates, (few, many) = listed(settings.rates), settings.test_fractions
    extras = together(
        *(
            exponent_point(settings.seeds, partial(extra, settings=settings, graph=graph), name, "diverged")
            for graph, name in NAMES.items()
        )
    )
    return [
        Claim(
            "T-thm3.7.small",
            "pruning all neurons outside L leaves a loss of O(ε + M1^(−1/2)) (15)",
            f"hinge loss − unpruned < {LITTLE}, both graphs, M1 = {listed(settings.relevant_values)}",
            judged(partial(_small, settings=settings), every_below, LITTLE),
        ),
        Claim(
            "T-thm3.7.linear",
            "pruning a share R of L costs a loss of Ω(R) (16), so in proportion to R",
            f"(rise / R) / its mean over R within 1 ± {EVEN}, R = {rates}, both graphs",
            judged(partial(_proportions, settings=settings), every_within, 1 - EVEN, 1 + EVEN),
            direction=Direction(
                "the loss rises at every R", judged(partial(_rises, settings=settings), every_above, 0.0)
            ),
        ),
        Claim(
            "T-thm3.7.examples",
            "pruning costs (α' M1)⁻¹ besides (16)",
            f"exponent of M1 in the loss at α' = {few:g} − that at {many:g} within {NEAR:g} of −1, "
            f"R = {min(settings.rates):g}, l_ts = {settings.test_length}, both graphs",
            judged(extras, every_within, -1 - NEAR, -1 + NEAR),
            direction=Direction("below 0", judged(extras, every_below, 0.0)),
        ),
        Claim(
            "T-thm3.7.shrink",
            "every output shrinks by the share of L that is gone (129), and this gives the loss, with nothing fitted",
            f"hinge loss − that of outputs times 1 − R m/|L| within ±{CLOSE}, R = {rates}, both graphs",
            judged(partial(_shrinks, settings=settings), every_within, -CLOSE, CLOSE),
            ours=True,
        ),
        Claim(
            "T-thm3.7.errors",
            "random pruning changes answers where there are few neurons, since the two signs fall out of balance",
            f"error without half of all neurons − error with all > {MUCH} at m = {min(settings.widths)}, both graphs",
            judged(partial(_widths, settings=settings), every_above, MUCH),
            ours=True,
        ),
    ]


def _fate_claims(settings: PruningTheoremSettings) -> list[Claim]:
    where = f"both graphs, M1 = {listed(settings.relevant_values)}"
    return [
        Claim(
            "T-thm3.7.lucky",
            "neurons that are lucky at the start, (52) and (53), grow and form L (Lemma B.10)",
            f"more than {NEARLY} of them end with a length of {LARGE:g} or more, {where}",
            judged(partial(_fates, settings=settings, lucky=True), every_above, NEARLY),
        ),
        Claim(
            "T-thm3.7.unlucky",
            "the others do not: L = W ∪ U",
            f"less than {1 - NEARLY:.2g} of them end with a length of {LARGE:g} or more, {where}",
            judged(partial(_fates, settings=settings, lucky=False), every_below, 1 - NEARLY),
        ),
    ]


def _everywhere(settings: PruningTheoremSettings, values: Any, number: Callable[[str, Any], BySeed]) -> Any:
    named = {f"{NAMES[graph]}, {x:g}": number(graph, x) for graph in GRAPHS for x in values}
    return mean_points(settings.seeds, named)


def _small(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    def number(graph: str, relevant: int) -> BySeed:
        after, before = (by_seed(rows, "hinge", part=part, graph=graph, x=relevant) for part in ("pruned", "whole"))
        return {s: None if v is None or before.get(s) is None else v - (before[s] or 0.0) for s, v in after.items()}

    return _everywhere(settings, settings.relevant_values, number)


def _proportions(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    def number(graph: str, rate: float) -> BySeed:
        slopes: dict[int, list[float | None]] = {}
        for x in settings.rates:
            for seed, value in rise(rows, graph, x).items():
                slopes.setdefault(seed, []).append(None if value is None else value / x)
        found: BySeed = {}
        for seed, value in rise(rows, graph, rate).items():
            good = [slope for slope in slopes[seed] if slope is not None]
            middle = sum(good) / len(good) if good else 0.0
            found[seed] = None if value is None or not middle else value / rate / middle
        return found

    return _everywhere(settings, settings.rates, number)


def _rises(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    return _everywhere(settings, settings.rates, lambda graph, rate: rise(rows, graph, rate))


def _shrinks(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    def number(graph: str, rate: float) -> BySeed:
        expected = predicted_loss(rows, graph, rate)
        found = by_seed(rows, "hinge", part="rates", graph=graph, x=rate)
        return {s: None if v is None or expected.get(s) is None else v - (expected[s] or 0.0) for s, v in found.items()}

    return _everywhere(settings, settings.rates, number)


def _widths(rows: list[Row], settings: PruningTheoremSettings) -> list[Point] | None:
    def number(graph: str, width: int) -> BySeed:
        parts = ("widths", "unpruned")
        few, whole = (by_seed(rows, "error", part=part, graph=graph, x=width) for part in parts)
        return {s: None if v is None or whole.get(s) is None else v - (whole[s] or 0.0) for s, v in few.items()}

    return _everywhere(settings, (min(settings.widths),), number)


def _fates(rows: list[Row], settings: PruningTheoremSettings, lucky: bool) -> list[Point] | None:
    return _everywhere(settings, settings.relevant_values, lambda graph, n: fates(rows, graph, n, lucky))
