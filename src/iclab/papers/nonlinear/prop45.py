"""T-prop4.5: how well neurons in L align with the mean pattern as M2 grows, and with ±q as M1 grows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

from iclab.papers.mamba.times_chart import claimed_line, fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import GRAPHS, watched_training
from iclab.papers.nonlinear.neurons import groups_of
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.papers.nonlinear.thm37_rows import PruningTheoremSettings
from iclab.probes import Row
from iclab.study.charts import Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, Direction, every_below, judged, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_point
from iclab.study.rows import listed

ORDER = -0.7
"""1 − cos ≤ Θ(1)/M2 and Θ(1)/M1. Read as: an exponent below this."""
NONE_LEFT = "diverged or have none"


class Angle(NamedTuple):
    """One of the two statements."""

    sweep: str
    """What moves: ``irrelevant`` (M2) or ``relevant`` (M1)."""
    column: str
    """The angle in rows of the probe ``neurons``."""
    symbol: str
    words: str


ANGLES = {
    "feature": Angle("irrelevant", "feature_angle", "M2", "1 − cos to the mean pattern ≤ Θ(1)/M2 (21)"),
    "label": Angle("relevant", "label_angle", "M1", "1 − cos to q or −q by their sign ≤ Θ(1)/M1 (22)"),
}


class Neurons(Experiment[PruningTheoremSettings]):
    """Angles of large neurons."""

    id = "T-prop4.5"
    title = "Angles of large neurons to the mean pattern and to ±q"
    paper = (
        "Proposition 4.5: for neurons in L, the cosine of a row of W_O W_V to the mean pattern is at least 1 − Θ(1)/M2 "
        "(21), and to q or −q, by its sign, at least 1 − Θ(1)/M1 (22)."
    )
    reading = (
        "Mean 1 − cos over neurons in L after training (filled), and over the others (hollow), which point the other "
        "way. Left, the feature part against M2 at M1 = 8; right, the label part against M1 = M2. Dashed, the claimed "
        "slope. Means over seeds with 95 % intervals."
    )
    caption = "exponents: mean over seeds and 95 % interval"
    theorems = ("T-prop4.5",)
    settings = PruningTheoremSettings

    def conditions(self, settings: PruningTheoremSettings) -> list[Condition]:
        """Return all neurons after training, over M2 and over M1, on both graphs."""
        found = []
        for graph in GRAPHS:
            owns = [
                ("irrelevant", n, settings.large(graph, settings.relevant, irrelevant=n)) for n in settings.irrelevants
            ]
            owns += [("relevant", n, settings.large(graph, n)) for n in settings.relevant_values]
            for sweep, x, own in owns:
                columns = {"sweep": sweep, "graph": graph, "x": x}
                training = watched_training(own, 1)
                found += in_groups(settings, columns, training, probe="neurons", prompts=training.prompts, count=1)
        return found

    def claims(self, settings: PruningTheoremSettings) -> list[Claim]:
        """Return (21) and (22)."""
        claims = []
        for name, angle in ANGLES.items():
            points = together(
                *(
                    exponent_point(
                        settings.seeds, partial(apart, name=name, graph=graph), tasks, "diverged or have none"
                    )
                    for graph, tasks in NAMES.items()
                )
            )
            values = settings.irrelevants if angle.sweep == "irrelevant" else settings.relevant_values
            claims.append(
                Claim(
                    f"T-prop4.5.{name}",
                    f"neurons in L: {angle.words}",
                    f"exponent of {angle.symbol} in mean 1 − cos < −{-ORDER:g}, both graphs, {listed(values)}",
                    judged(points, every_below, ORDER),
                    direction=Direction("below 0", judged(points, every_below, 0.0)),
                )
            )
        return claims

    def table(self, rows: list[Row], settings: PruningTheoremSettings) -> list[dict[str, Any]]:
        """Return one line per angle and graph."""
        lines = []
        for name, angle in ANGLES.items():
            for graph, tasks in NAMES.items():
                found = apart(rows, name, graph)
                ends = [mean(found[x]) for x in (min(found), max(found))] if found else []
                line: dict[str, Any] = {"1 − cos of": name, "against": angle.symbol, "trained on": tasks}
                line["first, last"] = ", ".join("–" if e is None else f"{e:.4f}" for e in ends)
                lines.append(line | fitted(PowerLaw(found)))
        return lines

    def chart(self, rows: list[Row], settings: PruningTheoremSettings) -> Figure:
        """Draw 1 − cos against M2 and M1."""
        panels = []
        for name, angle in ANGLES.items():
            values = settings.irrelevants if angle.sweep == "irrelevant" else settings.relevant_values
            y = log_axis("mean 1 − cos", (1e-4, 2.0), decades=True)
            panel = Panel(f"{name} part", x=log_axis(angle.symbol, values), y=y, height=240)
            for graph, tasks in NAMES.items():
                claimed_line(panel, apart(rows, name, graph), -1.0)
                for group, title in ((0, "in L"), (1, "others")):
                    series = Series(f"{tasks}, {title}", COLOURS[graph], line=False, size=45.0, hollow=group == 1)
                    measured(panel, series, apart(rows, name, graph, group))
            panels.append(panel)
        return Figure(panels, columns=2, width=330)


def apart(rows: list[Row], name: str, graph: str, group: int = 0) -> dict[float, BySeed]:
    """Return each seed's mean 1 − cos over the neurons in L (0) or outside it (1), by what moves; None without any."""
    angle = ANGLES[name]
    found: dict[float, dict[int, list[Row]]] = {}
    for row in of(rows, sweep=angle.sweep, graph=graph):
        mine = found.setdefault(float(row["x"]), {}).setdefault(row["seed"], [])
        mine.extend([] if row["diverged"] else [row])
    answer: dict[float, BySeed] = {}
    for x, by_seed in sorted(found.items()):
        answer[x] = {}
        for seed, neurons in by_seed.items():
            some = [1 - math.cos(math.radians(neuron[angle.column])) for neuron in groups_of(neurons)[group]]
            answer[x][seed] = sum(some) / len(some) if some else None
    return answer
