"""T-fig3: error out of domain against S1, and error against context length, for GPT-2 and T's own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from iclab.engines import Training
from iclab.papers.nonlinear.settings import LARGEST_SUM, GPT2Paper
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.prompts.tasks import Ring, TaskSet
from iclab.study.charts import DASHED, DOTTED, INK, SPARE, Axis, Figure, Panel, Series, colour_of, reference, shades
from iclab.study.claims import Claim, Judgement, Point, every_above, every_below, every_within, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, listed, mean_text, paired_points, proportion, seed_points, values
from iclab.study.settings import Chosen, Different
from iclab.theory.contexts import guessed

SMALL = 0.01
"""The paper: the error out of domain is "< 0.01 when S1 ≥ 1 and deviates from 0 when S1 < 1"."""
UNSEEN = {"softmax-mlp": 0.005, "gpt2": SMALL}
"""The paper: in domain the error on unseen tasks goes to 0. Read as: below this for every seed. GPT-2, which no theorem
is about, has the margin that the paper gives out of domain."""
ATTENTION = 0.8
"""The paper: attention on examples with the query's pattern is 1 − Θ(M1^−C). Read as: above this, out of domain too."""
DOMAINS = {"in": "in domain, unseen tasks", "out": "out of domain"}
SHORT = {"softmax-mlp": "softmax + MLP", "gpt2": "GPT-2"}
GUESS = reference("pattern absent: a guess", DOTTED)


class ShiftSettings(GPT2Paper):
    """Settings of T-fig3."""

    models: Annotated[
        tuple[Literal["softmax-mlp", "gpt2"], ...],
        Field(min_length=1),
        Different,
        Chosen("the paper's figure shows GPT-2; its theorem is about the other", grid=True),
    ] = ("softmax-mlp", "gpt2")
    sums: Annotated[
        tuple[Annotated[float, Field(ge=-LARGEST_SUM, le=LARGEST_SUM)], ...],
        Field(min_length=1),
        Different,
        Chosen("S1 = a + b, from the smallest possible to the largest, 1.28", grid=True),
    ] = (-1.28, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.15, 1.28)
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("α', T Figure 3 b", grid=True),
    ] = (0.4, 0.6, 0.8)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different, Chosen("l_ts, T Figure 3 b", grid=True)
    ] = (2, 5, 10, 20, 40)
    more_tasks: Annotated[
        tuple[TaskSet, ...],
        Different,
        Chosen("other training tasks for the one-layer model, besides the paper's U = 1", grid=True),
    ] = (Ring(steps=2),)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and point", grid=True)] = 4_000

    def quick(self) -> Self:
        """Return the quick edition: fewer points and prompts; a sixteenth of GPT-2's training, without verdicts."""
        return (
            super()
            .quick()
            .replace(
                sums=tuple(s for s in self.sums if s in (-1.28, 0.0, 0.5, 1.0, 1.28)) or self.sums,
                lengths=tuple(n for n in self.lengths if n in (5, 20)) or self.lengths,
                test_fractions=tuple(sorted({min(self.test_fractions), max(self.test_fractions)})),
                test_prompts=min(self.test_prompts, 1_000),
                gpt2_steps=min(self.gpt2_steps, 100),
            )
        )


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
        "no example shows the query's pattern, and no error elsewhere. Means over seeds; bands run from the lowest to "
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
                for tasks in _more_tasks(settings):
                    ask(settings.replace(train_tasks=tasks).training(), columns, "error", prompts)
        return found

    def claims(self, settings: ShiftSettings) -> list[Claim]:
        """Both sides of S1 = 1, the price of a smaller α', every seed, and the attention."""
        claims: list[Claim] = []
        for model in settings.models:
            about = [
                *_sum_claims(settings, model),
                _unseen_claim(settings, model),
                _attention_claim(settings, model),
                *_length_claims(settings, model),
            ]
            about = [replace(claim, models=(model,)) for claim in about]
            claims += [if_trained(claim, settings) for claim in about] if model == "gpt2" else about
        return [*claims, _leak_claim(settings)] if "softmax-mlp" in settings.models else claims

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
            own = _own(settings, model)
            line(model, "", "in", "", usual, {**own, "panel": "unseen"})
            others = _more_tasks(settings) if model == "softmax-mlp" else []
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
        return Figure(panels, width=280, more=[GUESS])


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
        for more, colour in zip(_more_tasks(settings), cycle(SPARE), strict=False):
            curve(Series(f"{short} trained on {more}", colour), "error", more)
        curve(reference(f"vote by its attention, {tasks}"), "attended", tasks)
    return panel


def _lengths_panel(rows: list[Row], settings: ShiftSettings, model: str, domain: str) -> Panel:
    title, fractions, lengths = f"{SHORT[model]}, {DOMAINS[domain]}", settings.test_fractions, settings.lengths
    panel = Panel(title, x=Axis("examples in a test prompt"), y=Axis("error"))
    fine = np.linspace(min(lengths), max(lengths), 61).tolist()
    for colour, fraction in zip(shades(len(fractions)), fractions, strict=True):
        series = Series(f"α' = {fraction:g}", colour)
        where = {"probe": "error", "panel": "length", "domain": domain, "fraction": fraction}
        panel.curve(series, lengths, [errors(rows, **where, length=length) for length in lengths])
        guess = series.beside(f"{series.name}, {GUESS.name}", DOTTED, legend=False)
        panel.line(guess, fine, [guessed(fraction, length) for length in fine])
    return panel


def _sum_claims(settings: ShiftSettings, model: str) -> list[Claim]:
    above, below = [s for s in settings.sums if s >= 1], [s for s in settings.sums if s < 1]
    return [
        Claim(
            f"T-fig3.ood-small.{model}",
            "the out-of-domain error is < 0.01 when S1 ≥ 1",
            f"mean error < {SMALL} at S1 = {listed(above)}",
            judged(_sums(settings, model, above), every_below, SMALL),
        ),
        Claim(
            f"T-fig3.ood-rises.{model}",
            "the out-of-domain error deviates from 0 when S1 < 1",
            f"mean error > {SMALL} at S1 = {listed(below)}",
            judged(_sums(settings, model, below), every_above, SMALL),
        ),
        Claim(
            f"T-fig3.ood-every-seed.{model}",
            "the out-of-domain error is < 0.01 when S1 ≥ 1",
            f"error < {SMALL} for every seed at S1 = {listed(above)}",
            judged(partial(_seed_by_seed, settings=settings, model=model, sums=above), every_below, SMALL),
        ),
    ]


def _unseen_claim(settings: ShiftSettings, model: str) -> Claim:
    errors_of = partial(seed_points, seeds=settings.seeds, model=model, panel="unseen", probe="error")
    return Claim(
        f"T-fig3.unseen.{model}",
        "in domain the trained model generalises to unseen tasks",
        f"error on unseen tasks < {UNSEEN[model]} for every seed, α' = {settings.relevant_fraction:g}",
        judged(errors_of, every_below, UNSEEN[model]),
    )


def _attention_claim(settings: ShiftSettings, model: str) -> Claim:
    attention = mean_point(settings.seeds, partial(_attention, settings=settings, model=model))
    return Claim(
        f"T-fig3.attention.{model}",
        "attention concentrates on examples with the query's pattern, out of domain too (Corollary 4.3, of the "
        "one-layer model)",
        f"attention on them > {ATTENTION}, mean over prompts and seeds, S1 = {LARGEST_SUM:.2f}, last layer",
        judged(attention, every_above, ATTENTION),
    )


def _length_claims(settings: ShiftSettings, model: str) -> list[Claim]:
    return [
        Claim(
            f"T-fig3.length.{domain}.{model}",
            f"a longer testing context is needed when α' is smaller ({name})",
            "error at the smallest α' − error at the largest > 0 at every length up to that of training, on paired "
            "seeds",
            judged(partial(_lengths, settings=settings, model=model, domain=domain), every_above, 0.0),
        )
        for domain, name in DOMAINS.items()
    ]


def _leak_claim(settings: ShiftSettings) -> Claim:
    return Claim(
        "T-fig3.leak",
        "out of domain, errors come from attention on other patterns",
        f"error of the one-layer model − error of a vote weighted by its attention within ±{SMALL} at every S1 in "
        "[0, 1), where there are errors",
        judged(partial(_leaks, settings=settings), every_within, -SMALL, SMALL),
        models=("softmax-mlp",),
        ours=True,
    )


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


def if_trained(claim: Claim, settings: GPT2Paper) -> Claim:
    """Decide nothing about a GPT-2 with less than its whole training, as in the quick edition."""
    whole = GPT2Paper().gpt2_steps
    if settings.gpt2_steps >= whole:
        return claim

    def judge(rows: list[Row]) -> Judgement:
        found = claim.judge(rows)
        if found.verdict == "not run":
            return found
        where = f"{found.where}; " if found.where else ""
        return replace(found, verdict="undecided", where=f"{where}after {settings.gpt2_steps} of {whole} steps")

    return replace(claim, judge=judge)


def _sums(settings: ShiftSettings, model: str, sums: Sequence[float]) -> Callable[[list[Row]], list[Point] | None]:
    own = _own(settings, model)
    cells = [(f"S1 = {s:g}", {**own, "panel": "sum", "sum": s, "probe": "error"}) for s in sums]
    return partial(error_points, seeds=settings.seeds, cells=cells)


def _seed_by_seed(rows: list[Row], settings: ShiftSettings, model: str, sums: Sequence[float]) -> list[Point] | None:
    points: list[Point] = []
    for total in sums:
        found = seed_points(rows, settings.seeds, **_own(settings, model), panel="sum", sum=total, probe="error")
        if found is None:
            return None
        points += found
    return points


def _more_tasks(settings: ShiftSettings) -> list[str]:
    """Return the names of the other training tasks, without the usual ones."""
    return [name for name in map(str, settings.more_tasks) if name != str(settings.train_tasks)]


def _own(settings: ShiftSettings, model: str) -> dict[str, Any]:
    """Return the columns of a model trained on the paper's tasks."""
    return {"model": model, "tasks": str(settings.training_of(model).prompts.tasks)}


def _leaks(rows: list[Row], settings: ShiftSettings) -> list[Point] | None:
    """Return error of the one-layer model − error of a vote weighted by its attention, at every S1 in [0, 1)."""
    pairs = []
    for total in (s for s in settings.sums if 0 <= s < 1):
        where = {**_own(settings, "softmax-mlp"), "panel": "sum", "sum": total}
        model, vote = (errors(rows, **where, probe=probe) for probe in ("error", "attended"))
        pairs.append((f"S1 = {total:g}", model, vote))
    return paired_points(pairs, settings.seeds)


def _attention(rows: list[Row], settings: ShiftSettings, model: str) -> dict[int, float | None]:
    layer = settings.gpt2_layers if model == "gpt2" else 1
    lost = values(rows, "same", model=model, probe="attention", diverged=True)
    return values(rows, "same", model=model, probe="attention", layer=layer) | lost


def _lengths(rows: list[Row], settings: ShiftSettings, model: str, domain: str) -> list[Point] | None:
    """Return error at the smallest α' − error at the largest, at every length up to that of training."""
    if len(settings.test_fractions) < 2:
        return None
    pairs = []
    for length in (n for n in settings.lengths if n <= settings.context_length):  # longer prompts leave no errors
        where = {"model": model, "probe": "error", "panel": "length", "domain": domain, "length": length}
        small, large = (
            errors(rows, **where, fraction=fraction)
            for fraction in (min(settings.test_fractions), max(settings.test_fractions))
        )
        pairs.append((f"length {length}", small, large))
    return paired_points(pairs, settings.seeds)
