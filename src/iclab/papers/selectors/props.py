"""S-prop1 and S-cor1: which norms grow, with what, and how far attention concentrates; over M and over M1."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import Counts, watched_training
from iclab.papers.selectors.laws import SelectorTheorems
from iclab.papers.selectors.settings import SelectorPaper
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Direction, Point, every_below, every_within, judged, mean_point, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, bound_claim, exponent, exponent_point
from iclab.study.rows import listed
from iclab.study.settings import Chosen

STILL = 0.1
"""(8): irrelevant ones stay. Read as: they move by less than this."""
RATE = -0.7
"""(9): 1 − mass falls at a rate of O(1/T). Read as: its exponent in the step is below this while it falls."""
ORDER = -0.7
"""(12): 1 − Θ(1/M). Read as: the exponent of M in 1 − mass is below this."""
MATRICES = {"query": "W_Q", "key": "W_K"}
LOOKS = {
    "relevant": Series("‖W_Q µ‖", PALETTE[0], line=False, size=45.0),
    "irrelevant": Series("‖W_Q ν‖", PALETTE[1], line=False, size=45.0, hollow=True),
}
TESTS = {
    "in": Series("training tasks", PALETTE[0], line=False, size=45.0),
    "out": Series("out of domain, two mixtures", PALETTE[1], line=False, size=45.0, mark="diamond", hollow=True),
}


class NormSettings(SelectorTheorems):
    """Settings of S-prop1 and S-cor1."""

    total: Annotated[int, Field(ge=9), Chosen("M at which M1 varies: at least M1²")] = 64
    relevants: Annotated[Counts, Chosen("M1 at fixed M", grid=True)] = (3, 4, 5, 6, 8)

    def quick(self) -> Self:
        """Return the quick edition; B stays, since the last steps of coarser trainings scatter the norms."""
        return super().quick().replace(batch_size=self.batch_size)

    def with_relevant(self, relevant: int) -> SelectorPaper:
        """Return the settings of a training with M1 relevant patterns of M in all."""
        return self.at(relevant=relevant, irrelevant=self.total - relevant)


class Norms(Experiment[NormSettings]):
    """Norms after training against M and M1, and the attention while it grows."""

    id = "S-prop1"
    title = "Which norms S's Transformer promotes, and with what they grow"
    paper = (
        "Proposition 1: ‖W_Q µ‖ and ‖W_K µ‖ are at least Θ(√log M) (7), ‖W_Q ν‖ and ‖W_K ν‖ at most Θ(1) (8), and "
        "attention on the query's pattern goes to 1 − Θ(M^−C) at a rate of O(1/T) (9)."
    )
    reading = (
        "A: mean norms after training against log M at M1 = 4, where only M2 grows; B: against log M1 at M = 64. "
        "C: 1 − attention on the query's pattern over a training, which stops when no prompt has a loss. Points are "
        "means over seeds with 95 % intervals; lines in C are seeds."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("S-prop1",)
    settings = NormSettings

    def conditions(self, settings: NormSettings) -> list[Condition]:
        """Return norms over M and M1, and the attention along one training."""
        found = []
        sweeps = {
            "patterns": [(total, settings.with_total(total)) for total in settings.totals],
            "relevant": [(n, settings.with_relevant(n)) for n in settings.relevants],
        }
        for part, owns in sweeps.items():
            for x, own in owns:
                columns = {"part": part, "x": x}
                training = watched_training(own, settings.watched)
                found += in_groups(settings, columns, training, probe="norms", prompts=training.prompts, count=1)
        own = settings.with_total(settings.relevant + settings.irrelevant)
        training = watched_training(own, settings.watched)
        cell = {"probe": "attention", "prompts": training.prompts, "count": settings.test_prompts, "at": "every"}
        return found + in_groups(settings, {"part": "time", "x": 0}, training, **cell)

    def claims(self, settings: NormSettings) -> list[Claim]:
        """Return (7) to (9)."""
        usual: dict[str, Any] = {"seeds": settings.seeds, "fate": "diverged"}
        return [
            bound_claim(
                "S-prop1.patterns",
                "‖W_Q µ‖ ≥ Θ(√log M) (7)",
                partial(_by_log, part="patterns"),
                0.5,
                above=True,
                where=f"against log M at M1 = {settings.relevant}, M = {listed(settings.totals)}",
                **usual,
            ),
            bound_claim(
                "S-prop1.relevant",
                "it is M1 that moves it, as (59) has it: ‖W_Q µ‖ ≥ Θ(√log M1)",
                partial(_by_log, part="relevant"),
                0.5,
                above=True,
                where=f"against log M1 at M = {settings.total}, M1 = {listed(settings.relevants)}",
                ours=True,
                **usual,
            ),
            Claim(
                "S-prop1.irrelevant",
                "‖W_Q ν‖, ‖W_K ν‖ ≤ Θ(1): they stay where they started (8)",
                f"mean norm − δβ within ±{STILL} after training, M = {listed(settings.totals)}",
                judged(partial(_moved, settings=settings), every_within, -STILL, STILL),
            ),
            Claim(
                "S-prop1.rate",
                "attention on the query's pattern goes to 1 at a rate of O(1/T) (9)",
                f"exponent of the step in 1 − mass < −{-RATE:g}, while it falls from 0.9 of its start to 0.01",
                judged(mean_point(settings.seeds, _rates, fate="never fall"), every_below, RATE),
            ),
        ]

    def table(self, rows: list[Row], settings: NormSettings) -> list[dict[str, Any]]:
        """Return one line per sweep and kind of pattern."""
        lines = []
        for part, symbol in (("patterns", "log M"), ("relevant", "log M1")):
            for kind in LOOKS:
                line: dict[str, Any] = {"norm": LOOKS[kind].name, "against": symbol, "claimed": "0.5 or more"}
                line["claimed"] = "0.5 or more" if kind == "relevant" else "0"
                lines.append(line | fitted(PowerLaw(_by_log(rows, part, kind))))
        return lines

    def chart(self, rows: list[Row], settings: NormSettings) -> Figure:
        """Draw norms against M and M1, and the attention over time."""
        panels = [
            _norm_panel(rows, "A  M, at M1 = 4", "M = M1 + M2", "patterns", settings.totals),
            _norm_panel(rows, f"B  M1, at M = {settings.total}", "patterns M1", "relevant", settings.relevants),
            _time_panel(rows),
        ]
        return Figure(panels, columns=3, width=270)


def norms(rows: list[Row], part: str, kind: str, matrix: str = "query") -> dict[float, BySeed]:
    """Return each seed's mean norm by M or M1; None if it diverged."""
    found: dict[float, BySeed] = {}
    for row in of(rows, part=part):
        if row["diverged"] or (row["matrix"], row["kind"]) == (matrix, kind):
            found.setdefault(float(row["x"]), {})[row["seed"]] = None if row["diverged"] else row["length"]
    return dict(sorted(found.items()))


def _by_log(rows: list[Row], part: str, kind: str = "relevant") -> dict[float, BySeed]:
    return {math.log(x): by_seed for x, by_seed in norms(rows, part, kind).items()}


def _moved(rows: list[Row], settings: NormSettings) -> list[Point] | None:
    start = settings.init_scale * settings.pattern_norm
    named: dict[str, BySeed] = {}
    for matrix, letter in MATRICES.items():
        for x in settings.totals:
            found = norms(rows, "patterns", "irrelevant", matrix).get(float(x), {})
            named[f"{letter}, M = {x}"] = {s: None if v is None else v - start for s, v in found.items()}
    return mean_points(settings.seeds, named)


def _deficits(rows: list[Row]) -> dict[int, dict[int, float] | None]:
    """Return each seed's 1 − mass by step; None if it diverged."""
    found: dict[int, dict[int, float] | None] = {}
    for row in of(rows, part="time"):
        if row["diverged"]:
            found[row["seed"]] = None
        elif (mine := found.setdefault(row["seed"], {})) is not None:
            mine[row["step"]] = 1 - row["same"]
    return found


def _rates(rows: list[Row]) -> BySeed:
    """Return each seed's exponent of the step in 1 − mass, while it falls; None where it does not."""
    answer: BySeed = {}
    for seed, curve in _deficits(rows).items():
        steps = [] if not curve else [s for s in sorted(curve) if s > 0 and 0.01 < curve[s] < 0.9 * curve[0]]
        answer[seed] = exponent(steps, [curve[s] for s in steps]) if curve and len(steps) > 1 else None
    return answer


def _norm_panel(rows: list[Row], title: str, symbol: str, part: str, values: tuple[int, ...]) -> Panel:
    panel = Panel(title, x=log_axis(symbol, values), y=Axis("mean norm"), height=200)
    for kind, series in LOOKS.items():
        measured(panel, series, norms(rows, part, kind))
    return panel


def _time_panel(rows: list[Row]) -> Panel:
    panel = Panel(
        "C  attention over training",
        x=Axis("training step"),
        y=Axis("1 − attention", domain=(1e-3, 1), scale="log"),
        height=200,
    )
    series = Series("seeds", PALETTE[2], width=1.2)
    for curve in _deficits(rows).values():
        steps = [s for s in sorted(curve or {}) if curve and curve[s] > 0]
        if curve and steps:
            panel.line(series, steps, [curve[s] for s in steps], marks=False)
    return panel


class Concentration(Experiment[NormSettings]):
    """Attention off the query's pattern, against M."""

    id = "S-cor1"
    title = "Attention on the query's pattern against the number of all patterns"
    paper = (
        "Corollary 1 (12): attention on examples with the query's pattern is at least 1 − Θ(1/M), out of domain too."
    )
    reading = (
        "1 − attention on the query's pattern after training against M = M1 + M2 at M1 = 4; dashed, M^−1. Out of "
        "domain, two patterns are sums of two each. Points are means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("S-cor1",)
    settings = NormSettings

    def conditions(self, settings: NormSettings) -> list[Condition]:
        """Return the attention after training, in and out of domain."""
        found = []
        for total in settings.totals:
            own = settings.with_total(total)
            training = watched_training(own, settings.watched)
            for test, prompts in (("in", training.prompts), ("out", two_mixtures(own))):
                columns = {"x": total, "test": test}
                cell = {"probe": "attention", "prompts": prompts, "count": settings.test_prompts}
                found += in_groups(settings, columns, training, **cell)
        return found

    def claims(self, settings: NormSettings) -> list[Claim]:
        """Return the order in M."""
        points = together(
            *(
                exponent_point(settings.seeds, partial(deficits, test=test), series.name, "diverged")
                for test, series in TESTS.items()
            )
        )
        return [
            Claim(
                "S-cor1.mass",
                "attention on the query's pattern is at least 1 − Θ(1/M) (12)",
                f"exponent of M in 1 − mass < −{-ORDER:g}, in and out of domain, M = {listed(settings.totals)}",
                judged(points, every_below, ORDER),
                direction=Direction("below 0", judged(points, every_below, 0.0)),
            )
        ]

    def table(self, rows: list[Row], settings: NormSettings) -> list[dict[str, Any]]:
        """Return one line per kind of prompts."""
        lines = []
        for test, series in TESTS.items():
            found = deficits(rows, test)
            ends = [mean(found[x]) for x in (min(found), max(found))] if found else []
            line: dict[str, Any] = {"tested on": series.name, "claimed": "−1 or below"}
            line["1 − mass, fewest and most M"] = ", ".join("–" if e is None else f"{e:.4f}" for e in ends)
            lines.append(line | fitted(PowerLaw(found)))
        return lines

    def chart(self, rows: list[Row], settings: NormSettings) -> Figure:
        """Draw 1 − mass against M."""
        found = {test: deficits(rows, test) for test in TESTS}
        heights = [v for by_x in found.values() for by_seed in by_x.values() for v in by_seed.values() if v]
        x, y = log_axis("M = M1 + M2", settings.totals), log_axis("1 − attention", heights, decades=True)
        panel = Panel("after training", x=x, y=y, height=240)
        for test, series in TESTS.items():
            claimed_line(panel, found[test], -1.0)
            measured(panel, series, found[test])
        return Figure([panel], columns=1, width=420)


def two_mixtures(own: SelectorPaper) -> Prompts:
    """Return prompts with two patterns out of domain: sums of the first and of the last half of the relevant ones."""
    half = own.relevant // 2
    first = (half**-0.5,) * half + (0.0,) * (own.relevant - half)
    last = (0.0,) * half + ((own.relevant - half) ** -0.5,) * (own.relevant - half)
    return own.prompts(relevant_mixtures=(first, last), relevant_fraction=1.0)


def deficits(rows: list[Row], test: str) -> dict[float, BySeed]:
    """Return each seed's 1 − attention on the query's pattern, by M; None if it diverged."""
    found: dict[float, BySeed] = {}
    for row in of(rows, test=test):
        found.setdefault(float(row["x"]), {})[row["seed"]] = None if row["diverged"] else 1 - row["same"]
    return dict(sorted(found.items()))
