"""T-cor4.3: how far attention concentrates on the query's pattern as M1 grows."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import AlignmentSettings, graph_of, of, predicted_deficit, times
from iclab.papers.nonlinear.laws import GRAPHS, watched_training
from iclab.papers.nonlinear.settings import LARGEST_SUM, NonlinearPaper
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import DOTTED, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Direction, Point, every_below, every_within, judged, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_point
from iclab.study.rows import listed

ANY = -1.0
"""(20): 1 − Θ(M1^−C) for any constant C > 1. Read as: an exponent of M1 below this."""
PROOF = -0.7
"""(78) and (92) give 1/M1. Read as: an exponent below this."""
FACTOR = 1.5
"""How far the measured 1 − mass may be from what exp(2τL) predicts: this factor."""
TESTS = {"met": "training tasks", "unmet": "unseen tasks", "out": "out of domain, S1 = 1.28"}
TAILED = ("met", "unmet")
"""Of which the 99th percentile over prompts is measured too."""
FEWEST_OUT = 6
"""T's mixtures out of domain take six patterns."""
PREDICTED = reference("training tasks, from exp(2τL)", DOTTED)


class Concentration(Experiment[AlignmentSettings]):
    """Attention off the query's pattern, against M1."""

    id = "T-cor4.3"
    title = "Attention on the query's pattern against the number of patterns"
    paper = "Corollary 4.3 (20): attention on examples with the query's pattern is at least 1 − Θ(M1^−C) for any C > 1."
    reading = (
        "1 − attention on the query's pattern after training, against M1, with M2 = M1 and m = M1² log M1; dashed, "
        "M1^−1. Left, trained on all tasks; right, on one step round the ring. Dotted: what follows from scores "
        "δ²β² exp(2τL) in long prompts, τ fitted to the weights. Training goes on well beyond a loss of 0, which stops "
        "it. Crosses: the 99th percentile over prompts. Points are means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("T-cor4.3",)
    settings = AlignmentSettings

    def conditions(self, settings: AlignmentSettings) -> list[Condition]:
        """Return the attention on three kinds of prompts, and the kernel, after training."""
        found = []
        for graph in GRAPHS:
            for relevant in settings.relevant_values:
                own = settings.large(graph, relevant)
                columns = {"graph": graph, "x": relevant}
                training = watched_training(own, 1)
                for test, prompts in _tests(own).items():
                    where = columns | {"test": test}
                    cell = {"probe": "attention", "prompts": prompts, "count": settings.test_prompts}
                    found += in_groups(settings, where, training, **cell)
                    if test in TAILED:
                        where = columns | {"test": f"{test} tail"}
                        tail = {"probe": "tail", "prompts": prompts, "count": settings.tail_prompts}
                        found += in_groups(settings, where, training, **tail)
                where = columns | {"test": "kernel"}
                found += in_groups(settings, where, training, probe="kernel", prompts=training.prompts, count=1)
        return found

    def claims(self, settings: AlignmentSettings) -> list[Claim]:
        """Return the exponent that the corollary claims, the one that its proof gives, and what exp(2τL) predicts."""
        where = f"M1 = {listed(settings.relevant_values)}"
        in_domain, out = _points(settings, ("met", "unmet")), _points(settings, ("out",))
        tails = _points(settings, tuple(f"{test} tail" for test in TAILED))
        falls = Direction("below 0", judged(in_domain, every_below, 0.0))
        return [
            Claim(
                "T-cor4.3.mass",
                "attention on the query's pattern is 1 − Θ(M1^−C) for any C > 1 (20)",
                f"exponent of M1 in 1 − mass < −{-ANY:g}, in domain, met and unmet tasks, both graphs, {where}",
                judged(in_domain, every_below, ANY),
                direction=falls,
            ),
            Claim(
                "T-cor4.3.proof",
                "its proof gives 1 − Θ(1/M1) ((78), (92))",
                f"exponent of M1 in 1 − mass < −{-PROOF:g}, in domain, met and unmet tasks, both graphs, {where}",
                judged(in_domain, every_below, PROOF),
                direction=falls,
            ),
            Claim(
                "T-cor4.3.tail",
                "so it is for all but one prompt in a hundred (20)",
                f"exponent of M1 in the 99th percentile of 1 − mass < −{-ANY:g}, in domain, both graphs, {where}",
                judged(tails, every_below, ANY),
                direction=Direction("below 0", judged(tails, every_below, 0.0)),
            ),
            Claim(
                "T-cor4.3.out",
                "so it is out of domain (20)",
                f"exponent of M1 in 1 − mass < −{-ANY:g}, S1 = {LARGEST_SUM:.2f}, both graphs, M1 ≥ {FEWEST_OUT}",
                judged(out, every_below, ANY),
                direction=Direction("below 0", judged(out, every_below, 0.0)),
            ),
            Claim(
                "T-cor4.3.kernel",
                "1 − mass on training tasks follows from scores δ²β² exp(2τL)",
                f"predicted / measured between 1/{FACTOR:g} and {FACTOR:g} at every M1, trained on all tasks",
                judged(partial(_ratios, settings=settings), every_within, 1 / FACTOR, FACTOR),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: AlignmentSettings) -> list[dict[str, Any]]:
        """Return one line per graph and kind of prompts."""
        lines = []
        for graph, name in NAMES.items():
            for test, tested in TESTS.items():
                found = deficits(rows, settings, graph, test)
                ends = [mean(found[x]) for x in (min(found), max(found))] if found else []
                line: dict[str, Any] = {"trained on": name, "tested on": tested, "claimed": "below −1"}
                line["1 − mass, fewest and most M1"] = ", ".join("–" if e is None else f"{e:.4f}" for e in ends)
                line |= fitted(PowerLaw(found))
                line["99th percentile"] = fitted(PowerLaw(deficits(rows, settings, graph, f"{test} tail")))["exponent"]
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: AlignmentSettings) -> Figure:
        """Draw 1 − mass against M1, one panel per graph."""
        return Figure([_panel(rows, settings, graph) for graph in GRAPHS], columns=2, width=360)


def _tests(own: NonlinearPaper) -> dict[str, Prompts]:
    tests = {"met": own.prompts(tasks=own.train_tasks)}
    if len(tests["met"].pairs) < own.relevant * (own.relevant - 1):
        tests["unmet"] = own.prompts(tasks=own.unseen())
    if own.relevant >= FEWEST_OUT:
        tests["out"] = own.out_of_domain(LARGEST_SUM).replace(irrelevant_scale=own.train_irrelevant_scale)
    return tests


def deficits(rows: list[Row], settings: AlignmentSettings, graph: str, test: str) -> dict[float, BySeed]:
    """Return each seed's 1 − attention on the query's pattern, by M1: the mean, or of a tail the 99th percentile."""
    found = {}
    for relevant in settings.relevant_values:
        if mine := of(rows, graph=graph, x=relevant, test=test):
            found[float(relevant)] = {r["seed"]: None if r["diverged"] else _missed(r) for r in mine}
    return found


def _missed(row: Row) -> float:
    return float(row["missed_99"] if row["test"].endswith("tail") else 1 - row["same"])


def _points(settings: AlignmentSettings, tests: tuple[str, ...]) -> Any:
    """Make one point per graph and kind of prompts: the exponent of M1."""
    sources = []
    for graph, name in NAMES.items():
        for test in tests:
            if graph == "complete" and test.startswith("unmet"):
                continue
            curves = partial(deficits, settings=settings, graph=graph, test=test)
            fewest = 4 if test == "out" else 5
            sources.append(
                exponent_point(
                    settings.seeds,
                    curves,
                    f"trained on {name}, {TESTS[test.removesuffix(' tail')]}",
                    "diverged",
                    fewest,
                )
            )
    return together(*sources)


def _predicted(rows: list[Row], settings: AlignmentSettings, graph: str, relevant: int) -> BySeed:
    own, shape = settings.large(graph, relevant), graph_of(graph, relevant)
    found = times(of(rows, graph=graph, x=relevant, test="kernel"), shape)
    return {seed: None if fit is None else predicted_deficit(shape, fit[0], own) for seed, fit in found.items()}


def _ratios(rows: list[Row], settings: AlignmentSettings) -> list[Point] | None:
    """Return predicted / measured 1 − mass, trained on all tasks; on the ring the form is only an approximation."""
    named: dict[str, BySeed] = {}
    found = deficits(rows, settings, "complete", "met")
    for relevant in settings.relevant_values:
        expected = _predicted(rows, settings, "complete", relevant)
        ratio: BySeed = {}
        for seed, value in found.get(float(relevant), {}).items():
            other = expected.get(seed)
            ratio[seed] = None if not value or other is None else other / value
        named[f"M1 = {relevant}"] = ratio
    return mean_points(settings.seeds, named)


def _panel(rows: list[Row], settings: AlignmentSettings, graph: str) -> Panel:
    tests = (*TESTS, *(f"{test} tail" for test in TAILED))
    found = {test: deficits(rows, settings, graph, test) for test in tests}
    heights = [v for by_x in found.values() for by_seed in by_x.values() for v in by_seed.values() if v]
    x, y = log_axis("patterns M1", settings.relevant_values), log_axis("1 − attention", heights, decades=True)
    panel = Panel(f"trained on {NAMES[graph]}", x=x, y=y, height=250)
    line = {n: mean(_predicted(rows, settings, graph, n)) for n in settings.relevant_values}
    known = {n: value for n, value in line.items() if value}
    panel.line(PREDICTED, list(known), list(known.values()))
    claimed_line(panel, found["met"], ANY)
    looks = (("met", "circle", False), ("unmet", "diamond", True), ("out", "triangle-up", True))
    colours = {"met": COLOURS["complete"], "unmet": COLOURS["ring"], "out": "#009E73"}
    for test, mark, hollow in looks:
        series = Series(TESTS[test], colours[test], line=False, size=50.0, mark=mark, hollow=hollow)
        measured(panel, series, found[test])
        if test in TAILED:
            tail = Series(f"{TESTS[test]}, 99th percentile", colours[test], line=False, size=50.0, mark="cross")
            measured(panel, tail, found[f"{test} tail"])
    return panel
