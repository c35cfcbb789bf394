"""T-lemB.7: how rows of W_O grow, (44) to (50), and how fast, over m."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, measured
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.lemmas import ByStep, LemmaSettings, active_steps, ask, early, follow, over_time, over_x
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.study.charts import DOTTED, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Direction, every_above, every_below, judged, together
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import NEAR, PowerLaw, bound_claim, exponent_claim, exponent_point
from iclab.study.rows import listed

CLOSE = 0.1
"""How far the exponent of m may be from iclab's."""
ROOT = reference("m^(−1/2), through the measured mean", DOTTED)


class HiddenGrowth(Experiment[LemmaSettings]):
    """Rows of W_O over training: lucky neurons and the others."""

    id = "T-lemB.7"
    title = "Growth of W_O, and its rate"
    paper = (
        "Lemma B.7: the part of a lucky row of W_O along (µ_a, ±q) grows by δ(β² + 1)(αη/2m)(1 + η²/m)^t a step (44), "
        "so at least in proportion to t (45), (47), and its length as √M1 of that (48); along irrelevant patterns by "
        "1/M2 of it (49); rows of other neurons by noise of order ηt √(log B/B)/m (50)."
    )
    reading = (
        "A: the part of W_O − W_O⁽⁰⁾ along (µ_a, ±q), mean over neurons, while the loss is above 0.5, M1 = 8; dashed, "
        "slope 1. B: the fastest growth of its logarithm per step against m; dashed, 1/m as in (44), dotted, m^(−1/2), "
        "as two layers that feed each other grow. C: ‖W_O − W_O⁽⁰⁾‖ over that part, after training; dashed, √M1. D: "
        "the root mean square part along irrelevant patterns over it, after a quarter of the training; dashed, 1/M2. "
        "Points are means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("T-lemB.7",)
    settings = LemmaSettings

    def conditions(self, settings: LemmaSettings) -> list[Condition]:
        """Return rows of W_O along trainings with every M1 and every m, and over M2."""
        found = [c for probe in ("hidden", "error") for c in follow(settings, probe)]
        for neurons in settings.neuron_values:
            own = settings.with_neurons(neurons)
            columns = {"part": "neurons", "graph": "complete", "x": neurons, "probe": "hidden"}
            found += ask(settings, columns, own, own.training(), at="every")
        return found + early(settings, "irrelevant", "irrelevant", settings.irrelevant_values, "hidden")

    def claims(self, settings: LemmaSettings) -> list[Claim]:
        """Claim each line of the lemma, and iclab's rate."""
        n = settings.seeds
        usual: dict[str, Any] = {"seeds": n, "fate": "diverged"}

        def exponents(curve: Any) -> Any:
            sources = [
                exponent_point(n, partial(curve, settings=settings, graph=g), NAMES[g], "diverged") for g in GRAPHS
            ]
            return together(*sources)

        grows, drifts = (exponents(partial(parts, lucky=lucky)) for lucky in (True, False))
        sizes = exponents(lengths)
        active = f"while the loss is above 0.5, both graphs, M1 = {settings.relevant}"
        where = f"fastest growth of log part per step, m = {listed(settings.neuron_values)}, all tasks"
        return [
            Claim(
                "T-lemB.7.linear",
                "lucky rows grow along (µ_a, ±q) at least in proportion to t (45), (47)",
                f"exponent of the step in their mean part > {1 - NEAR:g} {active}",
                judged(grows, every_above, 1 - NEAR),
                direction=Direction("above 0", judged(grows, every_above, 0.0)),
            ),
            exponent_claim(
                "T-lemB.7.rate", "they grow as (1 + η²/m)^t (44): a rate ∝ 1/m", rates, -1.0, where=where, **usual
            ),
            exponent_claim(
                "T-lemB.7.root",
                "W_O and W_V feed each other, so that the rate is ∝ m^(−1/2)",
                rates,
                -0.5,
                within=CLOSE,
                where=where,
                ours=True,
                **usual,
            ),
            Claim(
                "T-lemB.7.length",
                "rows of W_O are √M1 times as long as their part along each pattern (48)",
                f"exponent of M1 in ‖W_O − W_O⁽⁰⁾‖ / part > {0.5 - NEAR:g}, both graphs, after training, "
                f"M1 = {listed(settings.relevant_values)}",
                judged(sizes, every_above, 0.5 - NEAR),
                direction=Direction("above 0", judged(sizes, every_above, 0.0)),
            ),
            bound_claim(
                "T-lemB.7.irrelevant",
                "along irrelevant patterns they grow by 1/M2 of that (49)",
                apart,
                -1.0,
                where=f"root mean square part / part against M2 = {listed(settings.irrelevant_values)}, all tasks",
                **usual,
            ),
            Claim(
                "T-lemB.7.unlucky",
                "rows of other neurons grow by noise, at most in proportion to t (50)",
                f"exponent of the step in their mean part < {1 + NEAR:g} {active}",
                judged(drifts, every_below, 1 + NEAR),
            ),
        ]

    def table(self, rows: list[Row], settings: LemmaSettings) -> list[dict[str, Any]]:
        """Return one line per law."""
        found: list[tuple[str, str, str, dict[float, BySeed]]] = []
        for graph, name in NAMES.items():
            for lucky, which, claimed in ((True, "lucky", "1 or more"), (False, "others", "1 or less")):
                curve = parts(rows, settings, graph, lucky)
                found.append((f"part along (µ_a, ±q), {which}, {name}", "step", claimed, curve))
            found.append((f"length / part, {name}", "M1", "0.5 or more", lengths(rows, settings, graph)))
        found.append(("fastest growth of log part, all tasks", "m", "−1", rates(rows)))
        found.append(("irrelevant / part, all tasks", "M2", "−1 or less", apart(rows)))
        return [
            {"what": what, "against": symbol, "claimed": claimed} | fitted(PowerLaw(curve))
            for what, symbol, claimed, curve in found
        ]

    def chart(self, rows: list[Row], settings: LemmaSettings) -> Figure:
        """Draw growth over training, the rate over m, lengths over M1 and irrelevant parts over M2."""
        found = rates(rows)
        rate = _panel("B  rate", "neurons m", "growth of log part per step", {"complete": found}, -1.0)
        if line := [(x, v) for x, by_seed in found.items() for v in by_seed.values() if v]:
            level = math.exp(sum(math.log(v) + 0.5 * math.log(x) for x, v in line) / len(line))
            ends = [min(found), max(found)]
            rate.line(ROOT, ends, [level * x**-0.5 for x in ends])
        sizes = {graph: lengths(rows, settings, graph) for graph in GRAPHS}
        panels = [
            _time_panel(rows, settings),
            rate,
            _panel("C  length (48)", "patterns M1", "length / part", sizes, 0.5),
            _panel(
                "D  irrelevant (49)", "irrelevant patterns M2", "part / relevant part", {"complete": apart(rows)}, -1.0
            ),
        ]
        return Figure(panels, columns=2, width=330)


def parts(rows: list[Row], settings: LemmaSettings, graph: str, lucky: bool) -> dict[float, BySeed]:
    """Return the mean part along (µ_a, ±q) by kept step, while the loss is above 0.5."""
    found = over_time(rows, "along", graph, settings.relevant, "hidden", lucky=lucky)
    return {float(step): found[step] for step in active_steps(rows, graph, settings.relevant) if step in found}


def lengths(rows: list[Row], settings: LemmaSettings, graph: str) -> dict[float, BySeed]:
    """Return ‖W_O − W_O⁽⁰⁾‖ of lucky neurons over their part along (µ_a, ±q) after training, by M1."""
    found: dict[float, BySeed] = {}
    for relevant in settings.relevant_values:
        moved, along = (over_time(rows, name, graph, relevant, "hidden", lucky=True) for name in ("moved", "along"))
        if moved:
            step = max(moved)
            found[float(relevant)] = {
                seed: None if value is None or not along[step].get(seed) else value / (along[step][seed] or 1.0)
                for seed, value in moved[step].items()
            }
    return found


def apart(rows: list[Row]) -> dict[float, BySeed]:
    """Return the part along irrelevant patterns over that along relevant ones, by M2."""
    return over_x(
        rows, "irrelevant", lambda row: row["irrelevant"] / row["along"] if row["along"] else None, lucky=True
    )


def rates(rows: list[Row]) -> dict[float, BySeed]:
    """Return each seed's fastest growth of the logarithm of the part along (µ_a, ±q) per step, by m.

    The first tenth of the training is left out: there the part starts from 0, and any growth is fast.
    """
    curves: dict[float, ByStep] = {}
    for row in rows:
        if row["part"] == "neurons" and row["step"] is not None and (row["diverged"] or row["lucky"]):
            by_seed = curves.setdefault(float(row["x"]), {}).setdefault(row["step"], {})
            by_seed[row["seed"]] = None if row["diverged"] else row["along"]
    found: dict[float, BySeed] = {}
    for x, curve in sorted(curves.items()):
        steps = [step for step in sorted(curve) if step >= max(curve) / 10]
        found[x] = {seed: _fastest(steps, [curve[step].get(seed) for step in steps]) for seed in curve[max(curve)]}
    return found


def _fastest(steps: list[int], values: list[float | None]) -> float | None:
    if any(value is None for value in values):
        return None
    known = [(step, math.log(value)) for step, value in zip(steps, values, strict=True) if value and value > 0]
    slopes = [(b - a) / (t - s) for (s, a), (t, b) in pairwise(known)]
    return max(slopes, default=None)


def _look(graph: str, lucky: bool = True) -> Series:
    name = f"trained on {NAMES[graph]}" if lucky else f"{NAMES[graph]}, not lucky"
    return Series(name, COLOURS[graph], line=False, size=45.0, hollow=not lucky)


def _time_panel(rows: list[Row], settings: LemmaSettings) -> Panel:
    found = {(graph, lucky): parts(rows, settings, graph, lucky) for graph in GRAPHS for lucky in (True, False)}
    heights = [v for curve in found.values() for by_seed in curve.values() for v in by_seed.values() if v and v > 0]
    steps = [step for curve in found.values() for step in curve]
    x, y = log_axis("training step", steps, decades=True), log_axis("part along (µ_a, ±q)", heights, decades=True)
    panel = Panel(f"A  growth, M1 = {settings.relevant}", x=x, y=y, height=220)
    for (graph, lucky), curve in found.items():
        if lucky and graph == "complete":
            claimed_line(panel, curve, 1.0)
        measured(panel, _look(graph, lucky), curve)
    return panel


def _panel(title: str, symbol: str, what: str, found: dict[str, dict[float, BySeed]], power: float) -> Panel:
    heights = [v for by_x in found.values() for by_seed in by_x.values() for v in by_seed.values() if v and v > 0]
    values = sorted({x for by_x in found.values() for x in by_x})
    if heights and values:  # room for the claimed line
        reach = (max(values) / min(values)) ** (power / 2)
        middle = math.exp(sum(map(math.log, heights)) / len(heights))
        heights += [middle * reach, middle / reach]
    panel = Panel(title, x=log_axis(symbol, values), y=log_axis(what, heights, decades=True), height=220)
    for graph, by_x in found.items():
        claimed_line(panel, by_x, power)
        measured(panel, _look(graph), by_x)
    return panel
