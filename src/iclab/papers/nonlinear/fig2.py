"""T-fig2: what happens inside T's Transformer while it trains: keys and queries, attention, neurons."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Self

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from iclab.papers.nonlinear.neurons import by_seed, groups_of, large_share
from iclab.papers.nonlinear.settings import LARGEST_SUM, NonlinearPaper
from iclab.probes import LARGE, Row
from iclab.study import style
from iclab.study.claims import BySeed, Claim, every_above, every_below, every_within, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import difference, lost, mean_text, values
from iclab.study.settings import Chosen

CLOSE = 0.9
"""The paper: the part along the pattern "is close to" the whole norm. Read as: at least this share of it."""
ATTENTION = 0.8
"""Corollary 4.3: 1 − Θ(M1^−C). Read as: above this."""
ANGLE = 10.0
"""Proposition 4.5: cosines of 1 − Θ(1/M2) and 1 − Θ(1/M1). Read as: on average within this many degrees."""
NAMES = {"query": "W_Q p_query", "key": "W_K p_i"}
ATTENDED = {"same": "the query's pattern", "other": "other patterns"}
DOMAINS = {"out": "out of domain", "in": "in domain"}


class MechanismSettings(NonlinearPaper):
    """T-fig2."""

    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and step", grid=True)] = 2_000
    shown: Annotated[
        int, Field(ge=1), Chosen("neurons of each sign drawn as lines: the first ones of seed 0; the paper draws 5")
    ] = 5

    def quick(self) -> Self:
        """Return the quick edition: fewer prompts."""
        return super().quick().replace(test_prompts=min(self.test_prompts, 500))

    @property
    def small(self) -> float:
        """Theorem 3.7: rows of W_O W_V outside L are no longer than 1/√M2."""
        return 1.0 / math.sqrt(self.irrelevant)


class Mechanism(Experiment[MechanismSettings]):
    """Alignment, attention and neurons over training."""

    id = "T-fig2"
    title = "What the one-layer Transformer learns"
    paper = (
        "Norms of W_Q p and W_K p grow and come to lie along p's own relevant pattern; attention concentrates on "
        "examples with the query's pattern; neurons turn to the mean pattern and to ±q, but for some of them."
    )
    reading = (
        "Out of domain with S1 = 1.28, as in the paper. (A) Mean length of W_Q p_query and W_K p_i, and its part along "
        "the pattern of p. (B) Attention on examples with the query's pattern. (C), (D) Each dot is a neuron after "
        "training: the length of its row of W_O W_V, in the features and in the label, against the angle to the mean "
        "pattern and to q or −q by its sign. Lines are the ways of single neurons, from where they started."
    )
    theorems = ("T-prop4.1", "T-cor4.3", "T-prop4.5")
    settings = MechanismSettings

    def conditions(self, settings: MechanismSettings) -> list[Condition]:
        """Three probes of one training, after every kept step."""
        found = []
        prompts = {"out": settings.out_of_domain(LARGEST_SUM), "in": settings.prompts(tasks=settings.unseen())}
        for step in settings.kept_steps():
            for probe, domain in (("alignment", "out"), ("alignment", "in"), ("attention", "out"), ("neurons", "out")):
                count = 1 if probe == "neurons" else settings.test_prompts
                where = {"probe": probe, "domain": domain, "step": step}
                measurement = {"probe": probe, "prompts": prompts[domain], "count": count, "at": step}
                found += in_groups(settings, where, settings.training(), **measurement)
        return found

    def claims(self, settings: MechanismSettings) -> list[Claim]:
        """Growth, alignment, attention, angles."""
        seeds, end = settings.seeds, settings.steps
        claims = []
        for matrix, name in NAMES.items():
            claims += [
                Claim(
                    f"T-fig2.grows.{matrix}",
                    f"the part of {name} along its pattern grows in training (Proposition 4.1)",
                    "at the end − at the start > 0, mean over prompts, paired by seed",
                    judged(mean_point(seeds, partial(_growth, end=end, matrix=matrix)), every_above, 0.0),
                ),
                *(
                    Claim(
                        f"T-fig2.aligned.{matrix}.{domain}",
                        f"the part of {name} along its pattern is close to its whole norm",
                        f"mean part / mean norm > {CLOSE} at the end, {where}",
                        judged(
                            mean_point(seeds, partial(_share, end=end, matrix=matrix, domain=domain)),
                            every_above,
                            CLOSE,
                        ),
                    )
                    for domain, where in DOMAINS.items()
                ),
            ]
        claims.append(
            Claim(
                "T-fig2.attention",
                "attention concentrates on examples with the query's pattern (Corollary 4.3)",
                f"attention on them > {ATTENTION} at the end, out of domain",
                judged(
                    mean_point(seeds, lambda rows: values(rows, "same", probe="attention", step=end)),
                    every_above,
                    ATTENTION,
                ),
            )
        )
        for part, name in (("feature", "the mean pattern"), ("label", "q or −q by its sign")):
            claims.append(
                Claim(
                    f"T-fig2.neurons.{part}",
                    f"neurons align with {name} (Proposition 4.5)",
                    f"mean angle < {ANGLE:g}° over the large neurons, at the end",
                    judged(
                        mean_point(seeds, partial(_angle, settings=settings, part=part), fate="diverged or have none"),
                        every_below,
                        ANGLE,
                    ),
                )
            )
        claims += [
            Claim(
                "T-fig2.large",
                "a constant fraction of neurons is large, ‖r‖ ≥ Ω(1) (Theorem 3.7)",
                f"between 50 % and 99 % of the rows of W_O W_V have a length of {LARGE:g} or more (constant 1)",
                judged(mean_point(seeds, partial(large_share, step=end)), every_within, 0.5, 0.99),
            ),
            Claim(
                "T-fig2.small",
                "the other neurons are no longer than 1/√M2 (Theorem 3.7)",
                f"mean length of the others < 1/√M2 = {settings.small:.3f}, with constant 1",
                judged(
                    mean_point(seeds, partial(_small_length, settings=settings), fate="diverged or have none"),
                    every_below,
                    settings.small,
                ),
            ),
        ]
        return claims

    def table(self, rows: list[Row], settings: MechanismSettings) -> list[dict[str, Any]]:
        """A line a step."""
        lines = []
        for step in settings.kept_steps():
            line: dict[str, Any] = {"step": step}
            for matrix, name in NAMES.items():
                where = {"probe": "alignment", "domain": "out", "step": step, "matrix": matrix}
                line[f"‖{name}‖"] = mean_text(rows, "length", **where)
                line[f"{name}, along"] = mean_text(rows, "along", **where)
            line["attention"] = mean_text(rows, "same", probe="attention", step=step)
            for part, name in (("feature", "angle to mean µ"), ("label", "angle to ±q")):
                good = [a for a in _angle(rows, settings, part, step).values() if a is not None]
                line[f"{name}, large neurons"] = f"{sum(good) / len(good):.1f}°" if good else "–"
            lines.append(line)
        return lines

    def draw(self, rows: list[Row], settings: MechanismSettings) -> Figure:
        """Draw the four panels."""
        with mpl.rc_context(style.RC):
            figure = Figure(figsize=(9.4, 7.2), layout="constrained")
            (a, b), (c, d) = figure.subplots(2, 2)
            steps = settings.kept_steps()
            for panel in (a, b, c, d):
                style.grid(panel)
            for (matrix, name), colour in zip(NAMES.items(), style.SERIES, strict=False):
                for column, label in (("length", f"‖{name}‖"), ("along", f"{name}, along its pattern")):
                    where = {"probe": "alignment", "domain": "out", "matrix": matrix}
                    found = [values(rows, column, **where, step=step) for step in steps]
                    style.curve(a, steps, found, colour, label, **style.BESIDE if column == "length" else {})
            a.set_title("A  keys and queries", fontweight="bold")
            a.set_ylabel("mean length")
            for (column, name), colour in zip(ATTENDED.items(), style.SERIES, strict=False):
                found = [values(rows, column, probe="attention", step=step) for step in steps]
                style.curve(b, steps, found, colour, f"examples with {name}")
            b.set_ylim(0, 1)
            b.set_title("B  attention", fontweight="bold")
            for panel, place in ((a, "upper left"), (b, "upper left")):
                panel.set_xlabel("training step")
                style.legend(panel, loc=place)
            a.set_ylim(0, 1.5 * a.get_ylim()[1])
            _draw_neurons(c, rows, settings, "feature", "C  neurons, feature part", "angle to the mean pattern (°)")
            _draw_neurons(d, rows, settings, "label", "D  neurons, label part", "angle to q (a > 0) or −q (a < 0) (°)")
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def _draw_neurons(axes: Axes, rows: list[Row], settings: MechanismSettings, part: str, title: str, label: str) -> None:
    neurons = [row for row in rows if row["probe"] == "neurons" and row["neuron"] is not None]
    angle, length = f"{part}_angle", f"{part}_length"
    for sign, colour, name in ((1.0, style.SERIES[0], "a > 0"), (-1.0, style.SERIES[1], "a < 0")):
        mine = [row for row in neurons if row["sign"] == sign]
        ends = [row for row in mine if row["step"] == settings.steps]
        axes.scatter(
            [row[angle] for row in ends],
            [row[length] for row in ends],
            s=4,
            color=colour,
            alpha=0.25,
            linewidth=0,
            label=name if ends else None,
        )
        first = sorted({row["neuron"] for row in mine if row["seed"] == 0})[: settings.shown]
        for neuron in first:
            way = sorted((r for r in mine if r["seed"] == 0 and r["neuron"] == neuron), key=lambda r: r["step"])
            axes.plot([r[angle] for r in way], [r[length] for r in way], color=colour, linewidth=0.9)
            axes.plot(way[-1][angle], way[-1][length], color=colour, marker="o", markersize=4.5)
    axes.set_xlim(0, 180)
    axes.set_xticks([0, 30, 60, 90, 120, 150, 180])
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontweight="bold")
    axes.set_xlabel(label)
    axes.set_ylabel("length")
    style.legend(axes, markerscale=2.5)


def _growth(rows: list[Row], end: int, matrix: str) -> BySeed:
    where = {"probe": "alignment", "domain": "out"}
    last, first = (values(rows, "along", **where, step=step, matrix=matrix) for step in (end, 0))
    return difference(last | lost(rows, **where, step=end), first)


def _share(rows: list[Row], end: int, matrix: str, domain: str) -> BySeed:
    where = {"probe": "alignment", "domain": domain, "step": end}
    along, length = (values(rows, column, **where, matrix=matrix) for column in ("along", "length"))
    good: BySeed = {seed: a / (length[seed] or math.nan) for seed, a in along.items() if a is not None}
    return good | lost(rows, **where)


def _angle(rows: list[Row], settings: MechanismSettings, part: str, step: int | None = None) -> BySeed:
    """Each seed's mean angle over its large neurons; None where it diverged."""
    found: BySeed = {}
    for seed, neurons in by_seed(rows, settings.steps if step is None else step).items():
        large, _ = groups_of(neurons)
        found[seed] = sum(row[f"{part}_angle"] for row in large) / len(large) if large else None
    return found


def _small_length(rows: list[Row], settings: MechanismSettings) -> BySeed:
    """Each seed's mean length of the other rows; None where it diverged or has none."""
    found: BySeed = {}
    for seed, neurons in by_seed(rows, settings.steps).items():
        _, small = groups_of(neurons)
        found[seed] = sum(row["length"] for row in small) / len(small) if small else None
    return found
