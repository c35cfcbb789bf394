"""T-lemB.9 and T-lemB.10: how many neurons are lucky at the start, and whether they stay active."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import fitted, log_axis, mean, measured
from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import GRAPHS, theorem_neurons
from iclab.papers.nonlinear.lemmas import LemmaSettings, ask, follow, last, over_time
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.study.charts import DOTTED, PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Point,
    every_above,
    every_within,
    judged,
    together,
)
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import NEAR, PowerLaw, exponent_point
from iclab.study.rows import listed

EIGHTH, CLOSE = 0.125, 0.02
"""The share of neurons with a_i > 0 and two products above 0, and how far a measured one may be from it."""
ENOUGH = 10
"""m is this many times M1² log M1 in T-lemB.9: nothing is trained, and shares of few neurons scatter."""
NEARLY = 0.99
"""(59) to (62): active. Read as: a share above this."""
SHARES = {
    "positive": Series("|W_n| / m, for a prompt", PALETTE[0], line=False, size=45.0),
    "negative": Series("|U_n| / m, for a prompt", PALETTE[1], line=False, size=45.0, mark="diamond", hollow=True),
    "named": Series("lucky for the mean prompt of a task", PALETTE[2], line=False, size=45.0),
    "ever": Series("lucky for one of the prompts", PALETTE[3], line=False, size=45.0, mark="triangle-up"),
}


class LuckyShare(Experiment[LemmaSettings]):
    """Shares of lucky neurons before training."""

    id = "T-lemB.9"
    title = "How many neurons are lucky at the start"
    paper = "Lemma B.9: |W_n|, |U_n| ≥ Ω(m) (57), so |W|, |U| ≥ Ω(m) (58), with W_n and U_n of (52), (53)."
    reading = (
        "Shares of all neurons before training against M1, M2 = M1 and m = 10 M1² log M1: those that (52) and (53) "
        "name for a single prompt, for the mean prompt of one task or more, and for one or more of the prompts that "
        "were drawn, the last two with the label of their sign. Dotted, 1/8. Points are means over seeds with 95 % "
        "intervals, trained on ring:1."
    )
    caption = "mean over seeds; exponents with 95 % interval"
    theorems = ("T-lemB.9",)
    settings = LemmaSettings

    def conditions(self, settings: LemmaSettings) -> list[Condition]:
        """Return lucky neurons before training, for every M1 and graph."""
        found = []
        for graph in GRAPHS:
            for relevant in settings.relevant_values:
                neurons = ENOUGH * theorem_neurons(relevant)
                own = settings.large(graph, relevant, neurons=neurons).replace(steps=0)
                for probe in ("luck", "lucky"):
                    columns = {"part": "relevant", "graph": graph, "x": relevant, "probe": probe}
                    found += ask(settings, columns, own, own.training())
        return found

    def claims(self, settings: LemmaSettings) -> list[Claim]:
        """Claim both lines of the lemma, and the shares themselves."""
        where = f"both graphs, M1 = {listed(settings.relevant_values)}"

        def exponents(names: tuple[str, ...]) -> Any:
            sources = [
                exponent_point(
                    settings.seeds, partial(shares, name=n, graph=g), f"{SHARES[n].name}, {NAMES[g]}", "diverged"
                )
                for n in names
                for g in GRAPHS
            ]
            return together(*sources)

        return [
            Claim(
                "T-lemB.9.prompt",
                "a constant share of neurons is lucky for a prompt, |W_n|, |U_n| ≥ Ω(m) (57)",
                f"exponent of M1 in either share of m > −{NEAR:g}, {where}",
                judged(exponents(("positive", "negative")), every_above, -NEAR),
            ),
            Claim(
                "T-lemB.9.all",
                "so it is for all prompts together, |W|, |U| ≥ Ω(m) (58)",
                f"exponent of M1 in the share lucky for the mean prompt of one task or more > −{NEAR:g}, {where}",
                judged(exponents(("named",)), every_above, -NEAR),
            ),
            Claim(
                "T-lemB.9.eighth",
                "signs of a_i, O_1·V_1 and O_2·V_2 are independent, so that each of W_n and U_n is m/8",
                f"share of m within {CLOSE} of {EIGHTH}, {where}",
                judged(partial(_eighths, settings=settings), every_within, EIGHTH - CLOSE, EIGHTH + CLOSE),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: LemmaSettings) -> list[dict[str, Any]]:
        """Return one line per share and graph."""
        lines = []
        for name, series in SHARES.items():
            for graph, tasks in NAMES.items():
                found = shares(rows, name, graph)
                line: dict[str, Any] = {"share": series.name, "training tasks": tasks}
                line["by M1"] = ", ".join("–" if (m := mean(v)) is None else f"{m:.3f}" for v in found.values())
                lines.append(line | fitted(PowerLaw(found)))
        return lines

    def chart(self, rows: list[Row], settings: LemmaSettings) -> Figure:
        """Draw every share against M1."""
        x = log_axis("patterns M1", settings.relevant_values)
        panel = Panel("before training", x=x, y=Axis("share of all neurons", domain=(0, 1)), height=240)
        panel.rule(y=EIGHTH, dash=DOTTED)
        for name, series in SHARES.items():
            measured(panel, series, shares(rows, name, "ring"))
        return Figure([panel], columns=1, width=420)


def shares(rows: list[Row], name: str, graph: str) -> dict[float, BySeed]:
    """Return one share of lucky neurons by M1 and seed; None if the seed diverged."""
    found: dict[float, BySeed] = {}
    for row in of(rows, part="relevant", graph=graph, probe="lucky" if name == "named" else "luck"):
        by_seed = found.setdefault(float(row["x"]), {})
        if row["diverged"]:
            by_seed[row["seed"]] = None
        elif name != "named":
            by_seed[row["seed"]] = row[name]
        else:  # two rows: lucky ones and the others
            mine = of(rows, part="relevant", graph=graph, x=row["x"], probe="lucky", seed=row["seed"])
            total = sum(other["neurons"] for other in mine)
            by_seed[row["seed"]] = sum(other["neurons"] for other in mine if other["lucky"]) / total
    return dict(sorted(found.items()))


def _eighths(rows: list[Row], settings: LemmaSettings) -> list[Point] | None:
    named = {
        f"{SHARES[name].name}, {tasks}, M1 = {n}": shares(rows, name, graph).get(float(n), {})
        for name in ("positive", "negative")
        for graph, tasks in NAMES.items()
        for n in settings.relevant_values
    }
    return mean_points(settings.seeds, named)


class StayingLucky(Experiment[LemmaSettings]):
    """Shares of lucky neurons that are active, over training."""

    id = "T-lemB.10"
    title = "Do lucky neurons stay active?"
    paper = (
        "Lemma B.10: at every step, neurons of W_n are active for prompt n if its label is +1 (59), and those of U_n "
        "if it is −1 (60); after Θ(1) steps, neurons of W are active for every prompt with the label +1 (61), and "
        "those of U for every one with −1 (62)."
    )
    reading = (
        "A: of all pairs of a prompt and a neuron that is lucky for it, with the label of its sign, the share that is "
        "active, over a training with M1 = 8. B: the share of all prompts with the label of a lucky neuron's sign for "
        "which it is active. C: both after training, against M1. Points are means over seeds with 95 % intervals."
    )
    caption = "mean over seeds, after training"
    theorems = ("T-lemB.10",)
    settings = LemmaSettings

    def conditions(self, settings: LemmaSettings) -> list[Condition]:
        """Return neurons along trainings with every M1, on both graphs."""
        return follow(settings, "luck")

    def claims(self, settings: LemmaSettings) -> list[Claim]:
        """Claim both parts of the lemma."""
        where = f"both graphs, M1 = {listed(settings.relevant_values)}"
        still = partial(_active, settings=settings)
        return [
            Claim(
                "T-lemB.10.same",
                "neurons that are lucky for a prompt stay active for it (59), (60)",
                f"share of pairs > {NEARLY} at every kept step, {where}",
                judged(still, every_above, NEARLY),
                direction=Direction("above 0.5", judged(still, every_above, 0.5)),
            ),
            Claim(
                "T-lemB.10.every",
                "lucky neurons are active for every prompt with the label of their sign after Θ(1) steps (61), (62)",
                f"share of pairs > {NEARLY} after training, {where}",
                judged(partial(_ended, settings=settings), every_above, NEARLY),
                direction=Direction(
                    "it has grown",
                    judged(partial(_grown, settings=settings), every_above, 0.0),
                ),
            ),
        ]

    def table(self, rows: list[Row], settings: LemmaSettings) -> list[dict[str, Any]]:
        """Return one line per graph and M1."""
        lines = []
        for graph, tasks in NAMES.items():
            for n in settings.relevant_values:
                line: dict[str, Any] = {"training tasks": tasks, "M1": n}
                for name, title in (("still", "for their prompts"), ("every", "for every prompt")):
                    value = mean(last(over_time(rows, name, graph, n, "luck")))
                    line[f"active {title}"] = "–" if value is None else f"{value:.3f}"
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: LemmaSettings) -> Figure:
        """Draw both shares over a training, and after training against M1."""
        n, share = settings.relevant, Axis("share active", domain=(0.4, 1))
        panels = []
        for title, name in (("A  for their prompts", "still"), ("B  for every prompt", "every")):
            panel = Panel(f"{title}, M1 = {n}", x=Axis("training step"), y=share, height=220)
            for graph in GRAPHS:
                found = over_time(rows, name, graph, n, "luck")
                measured(panel, _look(graph), {float(step): by_seed for step, by_seed in found.items()})
            panels.append(panel)
        third = Panel("C  after training", x=log_axis("patterns M1", settings.relevant_values), y=share, height=220)
        for graph in GRAPHS:
            for name in ("still", "every"):
                ends = {float(k): last(over_time(rows, name, graph, k, "luck")) for k in settings.relevant_values}
                measured(third, _look(graph, name == "every"), ends)
        return Figure([*panels, third], columns=3, width=270)


def _look(graph: str, every: bool = False) -> Series:
    name = f"{NAMES[graph]}, every prompt" if every else f"trained on {NAMES[graph]}"
    return Series(name, COLOURS[graph], line=False, size=45.0, hollow=every)


def _active(rows: list[Row], settings: LemmaSettings) -> list[Point] | None:
    named = {
        f"{tasks}, M1 = {n}, step {step}": by_seed
        for graph, tasks in NAMES.items()
        for n in settings.relevant_values
        for step, by_seed in over_time(rows, "still", graph, n, "luck").items()
    }
    complete = len({key.rpartition(",")[0] for key in named}) == len(NAMES) * len(settings.relevant_values)
    return mean_points(settings.seeds, named) if complete else None


def _ended(rows: list[Row], settings: LemmaSettings) -> list[Point] | None:
    named = {
        f"{tasks}, M1 = {n}": last(over_time(rows, "every", graph, n, "luck"))
        for graph, tasks in NAMES.items()
        for n in settings.relevant_values
    }
    return mean_points(settings.seeds, named)


def _grown(rows: list[Row], settings: LemmaSettings) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for graph, tasks in NAMES.items():
        for n in settings.relevant_values:
            found = over_time(rows, "every", graph, n, "luck")
            first, end = (found[min(found)], found[max(found)]) if found else ({}, {})
            named[f"{tasks}, M1 = {n}"] = {
                s: None if v is None or first.get(s) is None else v - (first[s] or 0.0) for s, v in end.items()
            }
    return mean_points(settings.seeds, named)
