"""M-lem3: how W_B and W_C grow between patterns, Lemma 3, (23) to (30)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

from iclab.papers.mamba.growth_charts import noise_over_batch, noise_over_time, own_over_time, unmet_over_time
from iclab.papers.mamba.growth_settings import (
    MATRICES,
    NOISE,
    GrowthSettings,
    Sweep,
    entry,
    kept_steps,
    of,
    over_time,
    printed_bound,
)
from iclab.papers.mamba.lemmas import mean_of, points_of, quotient, scaled
from iclab.probes import Row
from iclab.probes.tracing import log, most
from iclab.prompts.tasks import AllPairs
from iclab.study.charts import Figure
from iclab.study.claims import BySeed, Claim, every_above, every_below, every_within, judged, mean_point, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import Curves, PowerLaw, exponent_claim, exponent_point, fit_per_seed, straightness

NEAR = 0.1
"""How far a size may be from (A), and an exponent from iclab's."""
EARLY = 0.1
"""(A) with the gate at 1/2 is judged while it predicts E zF below this."""
FIRST = 20
"""(A) is continuous in time: entries of the second order are judged from this step on."""
STRAIGHT = 0.99
ROOM = 0.15
"""How far an exponent may be above a bound's."""


class Growth(Experiment[GrowthSettings]):
    """Every entry of W_B and W_C that Lemma 3 speaks of."""

    id = "M-lem3"
    title = "Growth of W_B and W_C between patterns"
    paper = (
        "Lemma 3: entries of W_B and W_C grow by at least η t (1 − p_a) β/M1 for a relevant pattern with itself (23), "
        "fall by as much between patterns of a training task (26), stay 0 between patterns that share none (25), and "
        "are noise of order t √(log B/B) otherwise (24), (27)–(30)."
    )
    reading = (
        "A, B: entries of W − W⁽⁰⁾ between directions of patterns, by distance in the task graph, over training; solid "
        "lines are δ (exp(τL) − I) with the gate at 1/2; the mean field (F) in A lets the gate and the hinge act too. "
        "Neither has a free constant. C, D: root mean squares of other entries, over steps and over the batch size. "
        "Marks are means over seeds with 95 % intervals."
    )
    caption = "mean ± half of the 95 % interval over seeds; exponents with R² and both halves of the range"
    theorems = ("M-lem3", "M-kernel")
    settings = GrowthSettings

    def conditions(self, settings: GrowthSettings) -> list[Condition]:
        """Return one training per task graph read at geometric steps, and the short ones."""
        found: list[Condition] = []
        for graph in settings.graphs:
            own = settings.replace(tasks=graph)
            training = own.training(own.half_time, kept=16)
            more: dict[str, Any] = {"probe": "growth", "prompts": training.prompts, "count": 1, "at": "every"}
            found += in_groups(settings, {"sweep": "graph", "value": str(graph)}, training, **more)
        for name in get_args(Sweep):
            for value, own in settings.sweep(name).items():
                training = own.training(settings.short)
                where = {"sweep": name, "value": value}
                found += in_groups(settings, where, training, probe="growth", prompts=training.prompts, count=1)
        return found

    def claims(self, settings: GrowthSettings) -> list[Claim]:
        """Claim each line of the lemma, and iclab's (A)."""
        return [*_own_claims(settings), *_pair_claims(settings), *_noise_claims(settings)]

    def table(self, rows: list[Row], settings: GrowthSettings) -> list[dict[str, Any]]:
        """Return one line per kind of entry: its size at the end, and exponents."""
        lines = []
        for graph in settings.graphs:
            own, here = settings.replace(tasks=graph), of(rows, "graph", str(graph))
            step = max(kept_steps(here), default=0)
            for kind, distance in (("own", 0), ("met", 1), ("unmet", 2)):
                moved = entry(here, "key", kind, step=step, distance=distance)
                if not own.theory.graph.complete or kind != "unmet":
                    law = own.init_scale * own.weight(step, distance) if step else math.nan
                    lines.append(_line(f"W_B, {kind}, {graph}", moved, f"{law:.3g} (A)", "", ""))
        here = of(rows, "graph", str(settings.graphs[0]))
        step = max(kept_steps(here), default=0)
        for equation, kind in NOISE.items():
            for matrix, name in MATRICES.items():
                moved = entry(here, matrix, kind, "rms", step=step)
                bound = f"{printed_bound(settings, equation, step):.2g} bound" if step else "–"
                time = PowerLaw(over_time(here, matrix, kind, settings.half_time / 4, "rms")).text()
                batch = PowerLaw(_sweep(settings, "batch", matrix, kind, "rms")(rows)).text()
                lines.append(_line(f"{name}, {kind} {equation}, rms", moved, bound, time, batch))
        return lines

    def chart(self, rows: list[Row], settings: GrowthSettings) -> Figure:
        """Draw entries over training for both graphs, and the noise."""
        panels = [
            own_over_time(rows, settings, EARLY),
            unmet_over_time(rows, settings),
            noise_over_time(rows, settings),
            noise_over_batch(rows, settings),
        ]
        return Figure(panels, columns=2, width=320)


def _line(name: str, moved: BySeed, law: str, time: str, batch: str) -> dict[str, Any]:
    return {"entry": name, "at the end": mean_of(moved), "law": law, "exponent in t": time, "exponent in B": batch}


def _sweep(settings: GrowthSettings, name: Sweep, matrix: str, kind: str, column: str = "mean") -> Curves:
    return lambda rows: {value: entry(of(rows, name, value), matrix, kind, column) for value in settings.sweep(name)}


def _early(rows: list[Row], own: GrowthSettings, first: int = 1) -> list[int]:
    """Return the kept steps at which (A) is judged."""
    return [step for step in kept_steps(rows, first=first) if own.output(step) < EARLY]


def _graphs(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, GrowthSettings, list[Row]]]:
    for graph in settings.graphs:
        yield str(graph), settings.replace(tasks=graph), of(rows, "graph", str(graph))


def _own_claims(settings: GrowthSettings) -> list[Claim]:
    n, base = settings.seeds, str(settings.graphs[0])

    def least(rows: list[Row]) -> dict[float, BySeed]:
        return over_time(of(rows, "graph", base), "key", "own")

    def straight(rows: list[Row]) -> BySeed:
        delta = settings.init_scale
        logs = {
            step: {seed: None if w is None else log(1 + most([w, 0.0]) / delta) for seed, w in found.items()}
            for step, found in least(rows).items()
        }
        return fit_per_seed(logs, straightness)

    own = {name: _sweep(settings, name, "key", "own") for name in get_args(Sweep)}
    return [
        Claim(
            "M-lem3.own",
            "(23): µ_jᵀ ΔW µ_j grows at least in proportion to t",
            f"exponent in t above 0.95 up to the step where (E) puts E zF at 1/2, tasks {base}",
            judged(exponent_point(n, least), every_above, 0.95),
        ),
        exponent_claim("M-lem3.own-relevant", "(23): ∝ 1/M1", own["relevant"], -1.0, seeds=n),
        exponent_claim(
            "M-lem3.own-clean",
            "(23): ∝ 1 − p_a",
            lambda rows: {1 - p: found for p, found in own["clean"](rows).items()},
            1.0,
            seeds=n,
            where="1 − p_a",
        ),
        exponent_claim(
            "M-lem3.own-norm",
            "µ_jᵀ ΔW µ_j ∝ δ β⁴ at first, where (23) prints β as a lower bound (δ fixed)",
            lambda rows: {beta: scaled(found, beta**2) for beta, found in own["norm"](rows).items()},
            4.0,
            seeds=n,
            within=NEAR,
            ours=True,
        ),
        Claim(
            "M-lem3.rate",
            "(A): entries of patterns with themselves are δ exp(τL), τ = η β² (1 − p_a) g t / (2 M1)",
            f"measured / (A) within {NEAR:g} of 1 at every kept step at which (A) has E zF below {EARLY:g}",
            judged(lambda rows: points_of(_rates(rows, settings), n), every_within, 1 - NEAR, 1 + NEAR),
            ours=True,
        ),
        Claim(
            "M-lem3.exponential",
            "the growth is exponential, not linear",
            f"R² of log(W_jj/δ) on t above {STRAIGHT:g} up to the step where (E) puts E zF at 1/2, tasks {base}",
            judged(mean_point(n, straight), every_above, STRAIGHT),
            ours=True,
        ),
    ]


def _pair_claims(settings: GrowthSettings) -> list[Claim]:
    n = settings.seeds

    def size(rows: list[Row]) -> dict[float, BySeed]:
        found = {}
        for value in settings.sweep("relevant"):
            met, same = (entry(of(rows, "relevant", value), "key", kind) for kind in ("met", "own"))
            found[value] = scaled(quotient(met, same), -1.0)
        return found

    within = (every_within, 1 - NEAR, 1 + NEAR)
    return [
        Claim(
            "M-lem3.met",
            "(26): entries between patterns of a training task fall",
            "their ratio to a pattern's own entry is below 0 at every kept step",
            judged(lambda rows: points_of(_falls(rows, settings), n), every_below, 0.0),
        ),
        exponent_claim(
            "M-lem3.met-size",
            "(26): they fall by as much as (23) grows, with a constant that does not depend on M1",
            size,
            0.0,
            seeds=n,
            where="|between| / own in M1, all tasks",
        ),
        Claim(
            "M-lem3.met-share",
            "(A): they fall by own / degree, the degree of the task graph being M1 − 1 for all tasks",
            f"between / own × (M1 − 1) within {NEAR:g} of −1 at every M1",
            judged(lambda rows: points_of(_shares(rows, settings), n), every_within, -1 - NEAR, -1 + NEAR),
            ours=True,
        ),
        Claim(
            "M-lem3.unmet",
            "(25): entries between patterns that share no training task stay 0",
            f"|entry at graph distance 2| below {NEAR:g} of a pattern's own, where (E) puts E zF at 1/2",
            judged(lambda rows: points_of(_apart(rows, settings), n), every_within, -NEAR, NEAR),
        ),
        Claim(
            "M-lem3.unmet-kernel",
            "(A): they grow as δ exp(τL) at graph distance 2, from the second step on",
            f"measured / (A) within {NEAR:g} of 1 from step {FIRST} on while (A) has E zF below {EARLY:g}",
            judged(lambda rows: points_of(_second(rows, settings), n), *within),
            ours=True,
        ),
    ]


def _noise_claims(settings: GrowthSettings) -> list[Claim]:
    n = settings.seeds
    every = [(equation, kind, matrix, name) for equation, kind in NOISE.items() for matrix, name in MATRICES.items()]

    def times(equation: str, kind: str, matrix: str) -> Curves:
        last = settings.half_time / 4
        return lambda rows: over_time(of(rows, "graph", str(AllPairs())), matrix, kind, last, "rms")

    def bounds(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
        here = of(rows, "graph", str(AllPairs()))
        for equation, kind, matrix, name in every:
            for step in kept_steps(here):
                rms = entry(here, matrix, kind, "rms", step=step)
                yield f"{name} {equation}, step {step}", scaled(rms, 1 / printed_bound(settings, equation, step))

    def exponents(curves: dict[str, Curves]) -> Any:
        return together(*(exponent_point(n, curve, where, fewest=4) for where, curve in curves.items()))

    batch = {f"{name} {e}": _sweep(settings, "batch", m, kind, "rms") for e, kind, m, name in every}
    first_order = [found for found in every if found != ("(24)", NOISE["(24)"], "key", "W_B")]
    time = {f"{name} {e}": times(e, kind, m) for e, kind, m, name in first_order}
    sizes = {"(27)": -1.0, "(28)": -1.0, "(29)": -1.0, "(30)": -2.0}
    claims = [
        Claim(
            "M-lem3.noise-batch",
            "(24), (27)–(30): noise of order √(log B/B)",
            f"exponent of the root mean square in B within {ROOM:g} of −0.5, for each kind of entry and matrix",
            judged(exponents(batch), every_within, -0.5 - ROOM, -0.5 + ROOM),
        ),
        Claim(
            "M-lem3.noise-time",
            "(24), (27)–(30): noise of at most order t",
            f"exponent of the root mean square in t below {1 + ROOM:g} up to a quarter of the time when (E) puts E zF "
            "at 1/2; without W_B's (24), which is 0 at the first step, because no query has an outlier",
            judged(exponents(time), every_below, 1 + ROOM),
        ),
        Claim(
            "M-lem3.noise-bound",
            "(24), (27)–(30), printed with ≤ and no constant",
            "root mean square / bound below 1 at every kept step, for each kind of entry and matrix",
            judged(lambda rows: points_of(bounds(rows), n), every_below, 1.0),
        ),
    ]
    for equation, power in sizes.items():
        curves = {
            f"{name} {equation}": _sweep(settings, "irrelevant", m, NOISE[equation], "rms")
            for m, name in MATRICES.items()
        }
        claims.append(
            Claim(
                f"M-lem3.noise-irrelevant.{equation[1:-1]}",
                f"{equation}: at most of order M2^{power:g}".replace("-", "−"),
                f"exponent of the root mean square in M2 below {power + ROOM:g}, W_B and W_C".replace("-", "−"),
                judged(exponents(curves), every_below, power + ROOM),
            )
        )
    return claims


def _rates(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, BySeed]]:
    for graph, own, here in _graphs(rows, settings):
        for step in _early(here, own):
            for matrix, name in MATRICES.items():
                moved = entry(here, matrix, "own", step=step)
                yield f"{name}, {graph}, step {step}", scaled(moved, 1 / (own.init_scale * own.weight(step, 0)))


def _shares(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, BySeed]]:
    for value, own in settings.sweep("relevant").items():
        met, same = (entry(of(rows, "relevant", value), "key", kind) for kind in ("met", "own"))
        yield f"M1 = {value:g}", scaled(quotient(met, same), own.relevant - 1)


def _falls(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, BySeed]]:
    for graph, _, here in _graphs(rows, settings):
        for step in kept_steps(here):
            met, same = (entry(here, "key", kind, step=step) for kind in ("met", "own"))
            yield f"{graph}, step {step}", quotient(met, same)


def _apart(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, BySeed]]:
    for graph, own, here in _graphs(rows, settings):
        if not own.theory.graph.complete:
            step = max(kept_steps(here), default=0)
            unmet, same = entry(here, "key", "unmet", step=step, distance=2), entry(here, "key", "own", step=step)
            yield f"{graph}, step {step}", quotient(unmet, same)


def _second(rows: list[Row], settings: GrowthSettings) -> Iterator[tuple[str, BySeed]]:
    for graph, own, here in _graphs(rows, settings):
        if not own.theory.graph.complete:
            for step in _early(here, own, FIRST):
                unmet = entry(here, "key", "unmet", step=step, distance=2)
                yield f"{graph}, step {step}", scaled(unmet, 1 / (own.init_scale * own.weight(step, 2)))
