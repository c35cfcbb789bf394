"""T-lemB.5: how W_Q and W_K grow between patterns, (27) to (34)."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import MATRICES, of
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.lemmas import (
    ByStep,
    LemmaSettings,
    active_steps,
    combined,
    follow,
    last,
    over_time,
    ratio,
    summed,
)
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.probes.tracing import most
from iclab.study.charts import Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Direction, Point, every_above, every_below, judged, together
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import NEAR, PowerLaw, exponent_point
from iclab.study.rows import listed

GONE = 0.1
"""(28): e^(−Θ((ηt/M1)²)). Read as: below this part, at the end, of what it was at the first kept step."""
BOUND = reference("(η/M1) Σ ζγδβ⁴, mean over lucky neurons")


class QueryGrowth(Experiment[LemmaSettings]):
    """Entries of W_Q and W_K over training, and the bound of the lemma."""

    id = "T-lemB.5"
    title = "Growth of W_Q and W_K between patterns"
    paper = (
        "Lemma B.5: W_Q and W_K grow by at least (η/M1) Σ_t ζ_t γ_t δ β⁴ along a relevant pattern itself (27), (31); "
        "along a pattern of the same task by e^(−Θ((ηt/M1)²)) times as much (28), (32), along others by 1/M1 "
        "(29), (33), along irrelevant ones by 1/M2 (30), (34). ζ is the input of a lucky neuron, γ the attention off "
        "the query's pattern."
    )
    reading = (
        "A: µ_jᵀ ΔW_Q µ_j over a training with M1 = 8, and the bound with measured ζ and γ, means over lucky neurons "
        "and prompts. B: the part along a pattern of the same task, over the own one. C: the largest part along a "
        "pattern that shares no task, over the own one, after training on the ring; D: along irrelevant patterns, root "
        "mean square. Dashed, the claimed slope. Points are means over seeds with 95 % intervals."
    )
    caption = "mean over seeds; exponents with 95 % interval"
    theorems = ("T-lemB.5",)
    settings = LemmaSettings

    def conditions(self, settings: LemmaSettings) -> list[Condition]:
        """Return entries, neurons and the loss along trainings with every M1, on both graphs."""
        return [c for probe in ("growth", "luck", "error") for c in follow(settings, probe)]

    def claims(self, settings: LemmaSettings) -> list[Claim]:
        """Claim each line of the lemma, for W_Q and W_K at once."""
        n, values = settings.seeds, f"M1 = {listed(settings.relevant_values)}"
        every = [(matrix, letter, graph) for matrix, letter in MATRICES.items() for graph in GRAPHS]

        def exponents(curve: Any, graphs: tuple[str, ...] = tuple(GRAPHS)) -> Any:
            found = [
                exponent_point(n, partial(curve, settings=settings, graph=g, matrix=m), f"{w}, {NAMES[g]}", "diverged")
                for m, w, g in every
                if g in graphs
            ]
            return together(*found)

        time, sizes = exponents(_over_time), exponents(_over_relevant)
        unmet, apart = exponents(_unmet, ("ring",)), exponents(_apart)
        left = partial(_left, settings=settings)
        return [
            Claim(
                "T-lemB.5.own",
                "µ_jᵀ ΔW µ_j ≳ (η/M1) Σ_t ζ_t γ_t δ β⁴, whatever the number of steps (27), (31)",
                f"exponent of the step in own part / bound > −{NEAR:g}, loss above 0.5, M1 = {settings.relevant}",
                judged(time, every_above, -NEAR),
            ),
            Claim(
                "T-lemB.5.relevant",
                "so it is whatever M1 (27), (31)",
                f"exponent of M1 in own part / bound after training > −{NEAR:g}, {values}",
                judged(sizes, every_above, -NEAR),
            ),
            Claim(
                "T-lemB.5.met",
                "the part along a pattern of the same task is e^(−Θ((ηt/M1)²)) of it (28), (32)",
                f"|part| / own part after training / the same at the first kept step < {GONE}, {values}",
                judged(left, every_below, GONE),
                direction=Direction("below 1", judged(left, every_below, 1.0)),
            ),
            Claim(
                "T-lemB.5.unmet",
                "along patterns that share no task it is 1/M1 of it (29), (33)",
                f"exponent of M1 in largest |part| / own part < −{1 - NEAR:g} after training on ring:1, {values}",
                judged(unmet, every_below, NEAR - 1),
                direction=Direction("below 0", judged(unmet, every_below, 0.0)),
            ),
            Claim(
                "T-lemB.5.irrelevant",
                "along irrelevant patterns it is 1/M2 of it (30), (34)",
                f"exponent of M2 = M1 in root mean square part / own part < −{1 - NEAR:g} after training, {values}",
                judged(apart, every_below, NEAR - 1),
                direction=Direction("below 0", judged(apart, every_below, 0.0)),
            ),
        ]

    def table(self, rows: list[Row], settings: LemmaSettings) -> list[dict[str, Any]]:
        """Return one line per matrix and graph."""
        lines = []
        for matrix, letter in MATRICES.items():
            for graph, name in NAMES.items():
                where: dict[str, Any] = {"settings": settings, "graph": graph, "matrix": matrix}
                line: dict[str, Any] = {"matrix": letter, "trained on": name}
                line["own / bound, in t"] = fitted(PowerLaw(_over_time(rows, **where)))["exponent"]
                line["in M1"] = fitted(PowerLaw(_over_relevant(rows, **where)))["exponent"]
                shares = [last(ratio(*_pair(rows, graph, n, matrix, "met"))) for n in settings.relevant_values]
                line["same task / own"] = ", ".join(_text(mean(found)) for found in shares)
                line["no task / own, in M1"] = fitted(PowerLaw(_unmet(rows, **where)))["exponent"]
                line["irrelevant / own, in M1"] = fitted(PowerLaw(_apart(rows, **where)))["exponent"]
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: LemmaSettings) -> Figure:
        """Draw the growth and its bound, and the other parts."""
        panels = [_own_panel(rows, settings), _met_panel(rows, settings)]
        panels.append(_size_panel(rows, settings, "C  no task in common, ring:1", _unmet, ("ring",)))
        panels.append(_size_panel(rows, settings, "D  irrelevant", _apart, tuple(GRAPHS)))
        return Figure(panels, columns=2, width=330)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def _entry(rows: list[Row], graph: str, relevant: int, matrix: str, kind: str, column: str = "mean") -> ByStep:
    return over_time(rows, column, graph, relevant, "growth", matrix=matrix, kind=kind)


def _pair(rows: list[Row], graph: str, relevant: int, matrix: str, kind: str) -> tuple[ByStep, ByStep]:
    return _entry(rows, graph, relevant, matrix, kind), _entry(rows, graph, relevant, matrix, "own")


def bound(rows: list[Row], settings: LemmaSettings, graph: str, relevant: int) -> ByStep:
    """Return (η/M1) Σ_t ζ_t γ_t δ β⁴ with the mean ζ of lucky neurons and the mean γ, by kept step."""
    own = settings.large(graph, relevant)
    factor = own.step_size * own.init_scale * own.pattern_norm**4 / relevant
    zeta, gamma = (over_time(rows, name, graph, relevant, "luck") for name in ("activation", "missed"))
    return summed(combined(lambda z, g: factor * z * g, zeta, gamma))


def _ratio(rows: list[Row], settings: LemmaSettings, graph: str, relevant: int, matrix: str) -> ByStep:
    own = _entry(rows, graph, relevant, matrix, "own")
    grown = combined(lambda w: settings.pattern_norm**2 * w, own)
    return ratio(grown, bound(rows, settings, graph, relevant))


def _over_time(rows: list[Row], settings: LemmaSettings, graph: str, matrix: str) -> dict[float, BySeed]:
    found = _ratio(rows, settings, graph, settings.relevant, matrix)
    steps = active_steps(rows, graph, settings.relevant)
    return {float(step): found[step] for step in steps if step in found}


def _ends(settings: LemmaSettings, number: Any) -> dict[float, BySeed]:
    found = {float(n): last(number(n)) for n in settings.relevant_values}
    return {n: by_seed for n, by_seed in found.items() if by_seed}


def _over_relevant(rows: list[Row], settings: LemmaSettings, graph: str, matrix: str) -> dict[float, BySeed]:
    return _ends(settings, lambda n: _ratio(rows, settings, graph, n, matrix))


def _unmet(rows: list[Row], settings: LemmaSettings, graph: str, matrix: str) -> dict[float, BySeed]:
    def largest(relevant: int) -> ByStep:
        mine = of(rows, part="relevant", graph=graph, x=relevant, probe="growth")
        distances = sorted({row["distance"] for row in mine if row["kind"] == "unmet"} - {None})
        where = {"matrix": matrix, "kind": "unmet"}
        curves = [over_time(rows, "mean", graph, relevant, "growth", distance=d, **where) for d in distances]
        top = combined(lambda *parts: most(map(abs, parts)), *curves)
        return ratio(top, _entry(rows, graph, relevant, matrix, "own"))

    return _ends(settings, largest)


def _apart(rows: list[Row], settings: LemmaSettings, graph: str, matrix: str) -> dict[float, BySeed]:
    def size(relevant: int) -> ByStep:
        rms = _entry(rows, graph, relevant, matrix, "irrelevant relevant", "rms")
        return ratio(rms, _entry(rows, graph, relevant, matrix, "own"))

    return _ends(settings, size)


def _left(rows: list[Row], settings: LemmaSettings) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for matrix, letter in MATRICES.items():
        for graph, name in NAMES.items():
            for n in settings.relevant_values:
                shares = ratio(*_pair(rows, graph, n, matrix, "met"))
                steps = [step for step in shares if step > 0]
                first, end = (shares[step] for step in (steps[0], steps[-1])) if steps else ({}, {})
                found: BySeed = {}
                for seed, value in end.items():
                    before = first.get(seed)
                    found[seed] = None if value is None or not before else value / before
                named[f"{letter}, {name}, M1 = {n}"] = found
    return mean_points(settings.seeds, named)


def _look(graph: str) -> Series:
    return Series(f"trained on {NAMES[graph]}", COLOURS[graph], line=False, size=45.0)


def _own_panel(rows: list[Row], settings: LemmaSettings) -> Panel:
    n, square = settings.relevant, settings.pattern_norm**2
    found = {graph: combined(lambda w: square * w, _entry(rows, graph, n, "query", "own")) for graph in GRAPHS}
    bounds = {graph: bound(rows, settings, graph, n) for graph in GRAPHS}
    positive = {
        key: {step: m for step, by_seed in curve.items() if step > 0 and (m := mean(by_seed)) is not None and m > 0}
        for key, curve in [
            *((("own", g), c) for g, c in found.items()),
            *((("bound", g), c) for g, c in bounds.items()),
        ]
    }
    steps = [step for curve in positive.values() for step in curve]
    heights = [value for curve in positive.values() for value in curve.values()]
    x, y = log_axis("training step", steps, decades=True), log_axis("µ_jᵀ ΔW_Q µ_j", heights, decades=True)
    panel = Panel(f"A  growth, M1 = {n}", x=x, y=y, height=220)
    for graph in GRAPHS:
        line = positive["bound", graph]
        panel.line(BOUND, list(line), list(line.values()))
        measured(panel, _look(graph), {s: found[graph][s] for s in positive["own", graph]})
    return panel


def _met_panel(rows: list[Row], settings: LemmaSettings) -> Panel:
    n = settings.relevant
    panel = Panel("B  same task", x=Axis("training step"), y=Axis("|part| / own part", domain=(0, 0.7)), height=220)
    for graph in GRAPHS:
        shares = combined(lambda a, b: abs(a) / b if b else None, *_pair(rows, graph, n, "query", "met"))
        measured(panel, _look(graph), {step: by_seed for step, by_seed in shares.items() if step > 0})
    return panel


def _size_panel(rows: list[Row], settings: LemmaSettings, title: str, curve: Any, graphs: tuple[str, ...]) -> Panel:
    found = {graph: curve(rows, settings, graph, "query") for graph in graphs}
    heights = [v for by_x in found.values() for by_seed in by_x.values() for v in by_seed.values() if v]
    x = log_axis("patterns M1", settings.relevant_values)
    panel = Panel(title, x=x, y=log_axis("part / own part", heights, decades=True), height=220)
    for graph in graphs:
        claimed_line(panel, found[graph], -1.0)
        measured(panel, _look(graph), found[graph])
    return panel
