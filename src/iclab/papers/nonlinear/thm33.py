"""T-thm3.3: how long T's Transformer trains, how long prompts must be, and for which tasks M1 tasks suffice."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.laws import GRAPHS, HALF, LATE, Sweep, watched_training
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.nonlinear.thm33_settings import SWEEPS, Theorem33Settings
from iclab.probes import Row
from iclab.prompts.tasks import Listed
from iclab.study.charts import DASHED, PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import NEAR, PowerLaw, crossings, exponent_claim, exponent_point
from iclab.study.rows import listed
from iclab.theory.graph import TaskGraph

LOSS = 0.1
"""(11) says O(ε). Read as: below this."""
SMALL = 0.01
"""(9): with enough examples there is no error. Read as: below this."""
ENOUGH_LENGTH = 2.0
"""The constant of Ω(log M1/α) in (9), that of S (5)."""
NAMES = {"complete": "all tasks", "ring": "ring:1"}
COLOURS = dict(zip(NAMES, PALETTE, strict=False))
LOOKS = {
    (graph, level): Series(
        f"{name}: T to loss {level:g}",
        COLOURS[graph],
        line=False,
        size=45.0,
        mark="circle" if level == HALF else "diamond",
        hollow=level == LATE,
    )
    for graph, name in NAMES.items()
    for level in (HALF, LATE)
}
LAW = "T = Θ(η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1)"
WORDS = {
    "relevant-alone": "so it is at fixed m",
    "scale": "the proof has δ^(−2/3) too, (83)",
    "neurons": "the proof has m^(2/3) too, (82) with a = m",
    "irrelevant": "M2 does not matter",
}


class Theorem33(Experiment[Theorem33Settings]):
    """Steps until the loss is small, errors at an exact number of examples, losses on tasks that training lacks."""

    id = "T-thm3.3"
    title = "How long T's Transformer trains, and on how many tasks and examples"
    paper = (
        "Theorem 3.3: T = Θ(η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1) steps (10) bring the expected hinge loss over all tasks "
        "to O(ε) (11), if l_tr ≥ Ω(max{log M1/α, 1/(β²α)}), l_ts ≥ 1/α' (9) and training tasks, of which M1 suffice, "
        "meet Condition 3.2."
    )
    reading = (
        "A to H: the first step with a loss below 0.5, and below 0.1, on fresh prompts of all tasks, against one "
        "quantity, for two sets of training tasks; dashed, the claimed slope. In D, m = M1² log M1 as the theorem "
        "requires. I: the loss after training on one step round the ring, by the distance of a task's two patterns on "
        "it. J: the error by the number of examples that have the query's pattern, l_ts = 1/α'; (9) says that one is "
        "enough. K: the loss on long prompts after training on prompts of l_tr examples, all tasks, against "
        "l_tr α / log M1; (9) says that a constant is enough. Points are means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("T-thm3.3",)
    settings = Theorem33Settings

    def conditions(self, settings: Theorem33Settings) -> list[Condition]:
        """Return every sweep on both graphs, then losses by distance, then errors by the number of examples."""
        found = [c for sweep in SWEEPS for graph in sweep.graphs for c in sweep.conditions(settings, graph)]
        for relevant in settings.ring_relevant:
            own = settings.large("ring", relevant)
            for distance in _distances(own):
                columns = {"part": f"distance {distance}", "graph": "ring", "x": relevant}
                prompts = own.prompts(tasks=_apart(own, distance))
                count = 10 * settings.test_prompts
                found += in_groups(settings, columns, own.training(), probe="error", prompts=prompts, count=count)
        for graph in GRAPHS:
            own = settings.large(graph, settings.relevant)
            for fraction in settings.test_fractions:
                columns = {"part": "counted", "graph": graph, "x": fraction}
                prompts = own.prompts(relevant_fraction=fraction, context_length=_length(fraction))
                cell = {"probe": "counted", "prompts": prompts, "count": settings.counted_prompts}
                found += in_groups(settings, columns, own.training(), **cell)
        for fraction in settings.length_fractions:
            for length in settings.train_lengths:
                own = settings.trained_on(length, fraction)
                columns = {"part": f"length {length}", "graph": "complete", "x": fraction}
                prompts = own.prompts(context_length=settings.context_length)
                cell = {"probe": "error", "prompts": prompts, "count": settings.test_prompts}
                found += in_groups(settings, columns, watched_training(own, 1), **cell)
        return found

    def claims(self, settings: Theorem33Settings) -> list[Claim]:
        """Return the exponents of (10), what its proof has besides, the loss on unmet tasks, and (9)."""
        apart = [n for n in settings.ring_relevant if n >= 4]
        return [
            *(_exponent_claim(settings, sweep) for sweep in SWEEPS),
            Claim(
                "T-thm3.3.tasks",
                "M1 training tasks that meet Condition 3.2 suffice for all tasks (11)",
                f"hinge loss on tasks whose patterns are two edges apart on the ring < {LOSS}, M1 = {listed(apart)}",
                judged(partial(_two_apart, settings=settings, values=apart), every_below, LOSS),
            ),
            Claim(
                "T-thm3.3.examples",
                "l_ts ≥ 1/α' examples, of which α'/2 have the query's pattern, are enough (9)",
                f"error of prompts with exactly one such example < {SMALL} at l_ts = 1/α', both graphs, "
                f"α' = {listed(settings.test_fractions)}",
                judged(partial(_with_one, settings=settings), every_below, SMALL),
            ),
            *_length_claims(settings),
        ]

    def table(self, rows: list[Row], settings: Theorem33Settings) -> list[dict[str, Any]]:
        """Return one line per sweep and graph."""
        lines = []
        for sweep in SWEEPS:
            for graph in sweep.graphs:
                line: dict[str, Any] = {"T against": sweep.symbol + (f" ({sweep.held})" if sweep.held else "")}
                line |= {"training tasks": NAMES[graph], "claimed": f"{sweep.power:.3g}".replace("-", "−")}
                line |= fitted(PowerLaw(sweep.times(rows, graph)))
                line[f"at loss {LATE:g}"] = fitted(PowerLaw(sweep.times(rows, graph, LATE)))["exponent"]
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: Theorem33Settings) -> Figure:
        """Draw every sweep, losses by distance, and errors by the number of examples."""
        panels = [_sweep_panel(rows, settings, sweep) for sweep in SWEEPS]
        panels += [_distance_panel(rows, settings), _counted_panel(rows, settings), _length_panel(rows, settings)]
        return Figure(panels, columns=4, width=210)


def _exponent_claim(settings: Theorem33Settings, sweep: Sweep) -> Claim:
    """Judge one exponent on both graphs at once."""
    points = together(
        *(
            exponent_point(settings.seeds, partial(sweep.times, graph=graph), _where(graph, sweep))
            for graph in sweep.graphs
        )
    )
    power, direction = sweep.power, None
    if power:
        rule, words = (every_above, "above 0") if power > 0 else (every_below, "below 0")
        direction = Direction(words, judged(points, rule, 0.0))
    graphs = "all tasks" if sweep.ours else "both graphs"
    what = f"T to loss {HALF:g}" + (" / √log M1" if "√" in sweep.held else "")
    return Claim(
        f"T-thm3.3.{sweep.name}",
        WORDS.get(sweep.name, f"{LAW} (10)"),
        f"exponent of {sweep.symbol} in {what} within {NEAR:g} of {power:.3g}, {graphs}".replace("-", "−"),
        judged(points, every_within, power - NEAR, power + NEAR),
        direction=direction,
        ours=sweep.ours,
    )


def _length_claims(settings: Theorem33Settings) -> list[Claim]:
    """Claim l_tr of (9): that it suffices, and how the shortest one depends on α."""
    fractions = listed(settings.length_fractions)
    return [
        Claim(
            "T-thm3.3.train-length",
            "training prompts of l_tr ≥ Ω(log M1/α) examples are long enough (9)",
            f"hinge loss < {LOSS} on long prompts if l_tr ≥ {ENOUGH_LENGTH:g} log M1/α, all tasks, α = {fractions}",
            judged(partial(_long_enough, settings=settings), every_below, LOSS),
        ),
        exponent_claim(
            "T-thm3.3.shortest",
            "the shortest that will do is ∝ 1/α",
            partial(shortest, settings=settings),
            -1.0,
            seeds=settings.seeds,
            where=f"shortest l_tr with a loss below {LOSS}, α = {fractions}, all tasks",
            ours=True,
        ),
    ]


def _at_length(rows: list[Row], length: int, fraction: float) -> BySeed:
    mine = [row for row in rows if row["part"] == f"length {length}" and row["x"] == fraction]
    return {row["seed"]: None if row["diverged"] else row["hinge"] for row in mine}


def _long_enough(rows: list[Row], settings: Theorem33Settings) -> list[Point] | None:
    named = {
        f"α = {fraction:g}, l_tr = {length}": _at_length(rows, length, fraction)
        for fraction in settings.length_fractions
        for length in settings.train_lengths
        if length >= ENOUGH_LENGTH * math.log(settings.relevant) / fraction
    }
    return mean_points(settings.seeds, named)


def shortest(rows: list[Row], settings: Theorem33Settings) -> dict[float, BySeed]:
    """Return each seed's shortest l_tr from which on the loss on long prompts is small, by α; None if there is none."""
    lengths = sorted(settings.train_lengths)
    found = {f: crossings(lengths, [_at_length(rows, n, f) for n in lengths], LOSS) for f in settings.length_fractions}
    return {fraction: by_seed for fraction, by_seed in found.items() if by_seed}


def _where(graph: str, sweep: Sweep) -> str:
    return f"{NAMES[graph]}; {sweep.held}" if sweep.held else NAMES[graph]


def _graph(own: NonlinearPaper) -> TaskGraph:
    return TaskGraph.of(own.train_tasks.pairs(own.relevant), own.relevant)


def _distances(own: NonlinearPaper) -> list[int]:
    return [int(d) for d in np.unique(_graph(own).distances) if d > 0]


def _apart(own: NonlinearPaper, distance: int) -> Listed:
    """Return all tasks of patterns this far apart."""
    return Listed(listed=tuple((int(a), int(b)) for a, b in np.argwhere(_graph(own).distances == distance)))


def _length(fraction: float) -> int:
    """Return the smallest l_ts that (9) allows."""
    return math.ceil(1 / fraction - 1e-9)


def _hinges(rows: list[Row], distance: int, relevant: int) -> BySeed:
    mine = [row for row in rows if row["part"] == f"distance {distance}" and row["x"] == relevant]
    return {row["seed"]: row["hinge"] for row in mine}


def _two_apart(rows: list[Row], settings: Theorem33Settings, values: list[int]) -> list[Point] | None:
    return mean_points(settings.seeds, {f"M1 = {n}": _hinges(rows, 2, n) for n in values})


def _by_count(rows: list[Row], graph: str, fraction: float, count: int) -> BySeed:
    """Return each seed's error on prompts with so many examples of the query's pattern; None if it diverged."""
    mine = [r for r in rows if r["part"] == "counted" and r["graph"] == graph and r["x"] == fraction]
    return {r["seed"]: r["error"] for r in mine if r["diverged"] or r["same_examples"] == count}


def _with_one(rows: list[Row], settings: Theorem33Settings) -> list[Point] | None:
    named = {
        f"{name}, α' = {fraction:g}": _by_count(rows, graph, fraction, 1)
        for graph, name in NAMES.items()
        for fraction in settings.test_fractions
    }
    return mean_points(settings.seeds, named)


def _sweep_panel(rows: list[Row], settings: Theorem33Settings, sweep: Sweep) -> Panel:
    values = sweep.values(settings)
    found = {key: sweep.times(rows, *key) for key in LOOKS if key[0] in sweep.graphs}
    heights = [t for times in found.values() for by_seed in times.values() for t in by_seed.values() if t]
    middle = math.exp(sum(map(math.log, heights)) / len(heights)) if heights else 1.0
    ends = [(x / math.sqrt(min(values) * max(values))) ** sweep.power * middle for x in (min(values), max(values))]
    what = "T / √log M1" if "√" in sweep.held else "steps T"
    x, y = log_axis(sweep.symbol, values), log_axis(what, [*heights, *ends], decades=True)
    panel = Panel(sweep.title, x=x, y=y, height=180)
    for graph in sweep.graphs:
        claimed_line(panel, found[graph, HALF], sweep.power)
    for key in found:
        measured(panel, LOOKS[key], found[key])
    return panel


def _distance_panel(rows: list[Row], settings: Theorem33Settings) -> Panel:
    values = settings.ring_relevant
    axis = log_axis("patterns M1", values)
    panel = Panel("I  loss by distance, ring:1", x=axis, y=Axis("hinge loss", domain=(0, 0.12)), height=180)
    panel.rule(y=LOSS, dash=DASHED)
    for distance, colour in zip((1, 2, 3), PALETTE[2:], strict=False):
        found = {n: _hinges(rows, distance, n) for n in values}
        known = [n for n in values if found[n]]
        panel.curve(Series(f"distance {distance}", colour), known, [found[n] for n in known])
    return panel


def _counted_panel(rows: list[Row], settings: Theorem33Settings) -> Panel:
    counts = [0, 1, 2, 3]
    axis = Axis("examples with the query's pattern", ticks=counts)
    panel = Panel("J  errors, l_ts = 1/α'", x=axis, y=Axis("error"), height=180)
    for graph, name in NAMES.items():
        means = []
        for count in counts:
            found = [mean(_by_count(rows, graph, f, count)) for f in settings.test_fractions]
            good = [value for value in found if value is not None]
            means.append(sum(good) / len(good) if good else None)
        known = [(c, m) for c, m in zip(counts, means, strict=True) if m is not None]
        series = Series(f"{name}, mean over α'", COLOURS[graph])
        panel.line(series, [c for c, _ in known], [m for _, m in known])
    return panel


def _length_panel(rows: list[Row], settings: Theorem33Settings) -> Panel:
    scale = math.log(settings.relevant)
    places = [n * f / scale for n in settings.train_lengths for f in settings.length_fractions]
    x = log_axis("l_tr α / log M1", places, decades=True)
    panel = Panel("K  loss by l_tr (9)", x=x, y=Axis("hinge loss", domain=(0, 1.05)), height=180)
    panel.rule(y=LOSS, dash=DASHED)
    panel.rule(x=ENOUGH_LENGTH, dash=DASHED)
    for fraction, colour in zip(settings.length_fractions, PALETTE, strict=False):
        found = {n: _at_length(rows, n, fraction) for n in settings.train_lengths}
        known = {n: value for n, by_seed in found.items() if (value := mean(by_seed)) is not None}
        series = Series(f"α = {fraction:g}, all tasks", colour, mark="diamond")
        panel.line(series, [n * fraction / scale for n in known], list(known.values()))
    return panel
