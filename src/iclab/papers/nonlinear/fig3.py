"""T-fig3: error out of domain against S1, and error against context length, for GPT-2 and T's own model."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from iclab.engines import Training
from iclab.papers.nonlinear.fig3_claims import claims_of, leak_claim
from iclab.papers.nonlinear.fig3_settings import DOMAINS, SMALL, ShiftSettings, more_tasks, own_columns
from iclab.papers.nonlinear.settings import LARGEST_SUM
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import DASHED, DOTTED, INK, SPARE, Axis, Figure, Panel, Series, colour_of, reference, shades
from iclab.study.claims import Claim
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import errors, mean_text, proportion
from iclab.theory.bayes import bayes_error
from iclab.theory.contexts import guessed

SHORT = {"softmax-mlp": "softmax + MLP", "gpt2": "GPT-2"}
GUESS = reference("pattern absent: a guess", DOTTED)
BAYES = reference("Bayes rule", DASHED, width=1.2)
MIXTURES = 3
"""Patterns of T's prompts out of domain."""


class Shift(Experiment[ShiftSettings]):
    """Error out of domain, and how much context it takes."""

    id = "T-fig3"
    title = "Error out of domain, and against context length"
    paper = (
        "The error out of domain is below 0.01 when S1 ≥ 1 and deviates from 0 when S1 < 1; a longer testing context "
        "is needed when α' is smaller, in and out of domain. (The paper's figure shows GPT-2.)"
    )
    reading = (
        "Above, the one-layer Transformer (2), which the theorem is about; below, GPT-2, which the paper's figure "
        "shows. Left: the error on tasks of three mixtures of patterns, one with weights that sum to S1; dashed, the "
        "error of a vote weighted by the attention, without the MLP; one curve has more training tasks. Middle and "
        "right: the error against context length for several shares α' of examples that matter; dotted, a guess where "
        "no example shows the query's pattern, and no error elsewhere; thin dashes, the Bayes rule, which also uses "
        "examples of the task's other pattern. Means over seeds; bands run from the lowest to "
        "the highest seed."
    )
    theorems = ("T-thm3.3", "T-thm3.4", "T-cor4.3")
    settings = ShiftSettings

    def conditions(self, settings: ShiftSettings) -> list[Condition]:
        """One training per model, measured at every point of its panels."""
        blank = dict.fromkeys(("panel", "sum", "fraction", "length", "domain"))
        found = []

        def ask(training: Training, columns: dict[str, Any], probe: str, prompts: Prompts) -> None:
            tasks = str(training.prompts.tasks)
            where = {"model": training.model.label, "tasks": tasks, "probe": probe, **blank, **columns}
            found.extend(
                in_groups(settings, where, training, probe=probe, prompts=prompts, count=settings.test_prompts)
            )

        for name in settings.models:
            training = settings.training_of(name)
            for columns, probe, prompts in _tests(settings.of_model(name)):
                ask(training, columns, probe, prompts)
        if "softmax-mlp" in settings.models:
            for total in settings.sums:
                columns, prompts = {"panel": "sum", "sum": total, "domain": "out"}, settings.out_of_domain(total)
                ask(settings.training_of("softmax-mlp"), columns, "attended", prompts)
                for tasks in more_tasks(settings):
                    ask(settings.replace(train_tasks=tasks).training(), columns, "error", prompts)
        return found

    def claims(self, settings: ShiftSettings) -> list[Claim]:
        """Both sides of S1 = 1, the price of a smaller α', every seed, and the attention."""
        claims = [claim for model in settings.models for claim in claims_of(settings, model)]
        return [*claims, leak_claim(settings)] if "softmax-mlp" in settings.models else claims

    def table(self, rows: list[Row], settings: ShiftSettings) -> list[dict[str, Any]]:
        """One line per point."""
        lines = []

        def line(name: str, letter: str, domain: str, total: str, sizes: tuple[float, int], where: Row) -> None:
            p = proportion(rows, probe="error", **where)
            lines.append(
                {
                    "model": name,
                    "panel": letter,
                    "domain": domain,
                    "S1": total,
                    "α'": f"{sizes[0]:g}",
                    "length": sizes[1],
                    "error": "–" if p is None else p.short(),
                    "hinge loss": mean_text(rows, "hinge", probe="error", **where),
                }
            )

        usual = (settings.relevant_fraction, settings.context_length)
        for model in settings.models:
            own = own_columns(settings, model)
            line(model, "", "in", "", usual, {**own, "panel": "unseen"})
            others = more_tasks(settings) if model == "softmax-mlp" else []
            for name, columns in ((model, own), *((f"{model}, {t}", {**own, "tasks": t}) for t in others)):
                for total in settings.sums:
                    line(name, "a", "out", f"{total:g}", usual, {**columns, "panel": "sum", "sum": total})
            for domain in DOMAINS:
                text = f"{LARGEST_SUM:.2f}" if domain == "out" else ""
                for fraction in settings.test_fractions:
                    for length in settings.lengths:
                        where = {**own, "panel": "length", "domain": domain, "fraction": fraction, "length": length}
                        line(model, "b", domain, text, (fraction, length), where)
        return lines

    def chart(self, rows: list[Row], settings: ShiftSettings) -> Figure:
        """One row of three panels per model."""
        panels = []
        for model in settings.models:
            mine = [row for row in rows if row["model"] == model]
            panels.append(_sums_panel(mine, settings, model))
            panels += [_lengths_panel(mine, settings, model, domain) for domain in DOMAINS]
        return Figure(panels, width=280, more=[GUESS, BAYES])


def _sums_panel(rows: list[Row], settings: ShiftSettings, model: str) -> Panel:
    sums, short = sorted(settings.sums), SHORT[model]
    panel = Panel(
        f"{short}, {DOMAINS['out']}",
        x=Axis("S1, sum of the first mixture's weights", zero=False),
        y=Axis("error", domain=(0, 1), scale="symlog", linear_to=SMALL, ticks=(0, 0.01, 0.1, 1)),
    )
    panel.rule(x=1.0, dash=DOTTED)
    panel.rule(y=SMALL, dash=DASHED, ink=INK)
    panel.note("paper: < 0.01", sums[0], SMALL * 1.1)

    def curve(series: Series, probe: str, tasks: str) -> None:
        where = {"panel": "sum", "probe": probe, "tasks": tasks}
        panel.curve(series, sums, [errors(rows, **where, sum=s) for s in sums], band=probe == "error")

    tasks = str(settings.training_of(model).prompts.tasks)
    curve(Series(f"{short} trained on {tasks}", colour_of(model)), "error", tasks)
    if model == "softmax-mlp":
        for more, colour in zip(more_tasks(settings), cycle(SPARE), strict=False):
            curve(Series(f"{short} trained on {more}", colour), "error", more)
        curve(reference(f"vote by its attention, {tasks}"), "attended", tasks)
    return panel


def _lengths_panel(rows: list[Row], settings: ShiftSettings, model: str, domain: str) -> Panel:
    title, fractions, lengths = f"{SHORT[model]}, {DOMAINS[domain]}", settings.test_fractions, settings.lengths
    patterns = settings.relevant if domain == "in" else MIXTURES
    panel = Panel(title, x=Axis("examples in a test prompt"), y=Axis("error"))
    fine = np.linspace(min(lengths), max(lengths), 61).tolist()
    for colour, fraction in zip(shades(len(fractions)), fractions, strict=True):
        series = Series(f"α' = {fraction:g}", colour)
        where = {"probe": "error", "panel": "length", "domain": domain, "fraction": fraction}
        panel.curve(series, lengths, [errors(rows, **where, length=length) for length in lengths])
        guess = series.beside(f"{series.name}, {GUESS.name}", DOTTED, legend=False)
        panel.line(guess, fine, [guessed(fraction, length) for length in fine])
        best = series.beside(f"{series.name}, {BAYES.name}", DASHED, legend=False, width=1.2)
        whole = sorted({round(length) for length in fine})
        panel.line(best, whole, [bayes_error(patterns, fraction, length) for length in whole], marks=False)
    return panel


def _tests(settings: ShiftSettings) -> list[tuple[dict[str, Any], str, Prompts]]:
    """Return columns, probe and prompts of every measurement of one model."""
    tests: list[tuple[dict[str, Any], str, Prompts]] = [
        ({"panel": "unseen", "domain": "in"}, "error", settings.prompts(tasks=settings.unseen())),
        ({"panel": "inside", "domain": "out"}, "attention", settings.out_of_domain(LARGEST_SUM)),
    ]
    for total in settings.sums:
        tests.append(({"panel": "sum", "sum": total, "domain": "out"}, "error", settings.out_of_domain(total)))
    for fraction in settings.test_fractions:
        for length in settings.lengths:
            sizes: dict[str, Any] = {"relevant_fraction": fraction, "context_length": length}
            where = {"panel": "length", "fraction": fraction, "length": length}
            tests.append(({**where, "domain": "in"}, "error", settings.prompts(tasks=settings.unseen(), **sizes)))
            tests.append(({**where, "domain": "out"}, "error", settings.out_of_domain(LARGEST_SUM, **sizes)))
    return tests
