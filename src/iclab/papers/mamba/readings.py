"""M-readings: the two claims of M-fig2 under other readings of what the paper does not state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import RESTORED, MambaPaper
from iclab.probes import Row
from iclab.probes.tracing import least, most
from iclab.study.charts import Axis, Figure, Panel, Series, shades
from iclab.study.claims import BySeed, Claim, Judge, Point, every_above, every_below, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, paired_points, proportion
from iclab.study.settings import Chosen, Disclosed

RULES = ("flip", "target", "random")
SMALL, LARGE = 0.01, 0.1
"""As in M-fig2: "smaller than 0.01", and "large", read as ten times that."""
BEYOND, BELOW, CLOSE = 0.55, 0.75, 0.8
"""α just above 1/2, and two readings of "close to 0.8"."""
MEASURED = {"mamba": (0.0, BELOW, CLOSE), "linear": (BEYOND,)}
"""Where each model's claim is about; without outliers there is only one label rule."""
DRAW = 1
"""Other test prompts than those of M-fig2."""

STATE = "ring:3, m = l + 1"
"""Trained on ring:3 with the state size that the paper names below (2)."""

Counting = Literal["bernoulli", "exact"]


class ReadingsSettings(MambaPaper):
    """Settings of M-readings."""

    train_outlier_fraction: Annotated[float, Field(ge=0, lt=1), Disclosed("p_a, M §4.1")] = 0.6
    task_sets: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Chosen("training tasks: the paper's smallest example, two and three steps round the ring, all", grid=True),
    ] = ("ring:1", "ring:2", "ring:3", "all")
    scales: Annotated[
        tuple[float, ...],
        Field(min_length=1),
        Chosen("κ_a': a little less than κ_a/L; and κ_a/L, as in M-fig2, from where on (61) speaks", grid=True),
    ] = (6.0, RESTORED)
    countings: Annotated[
        tuple[Counting, ...],
        Field(min_length=1),
        Chosen("α as a probability, as in M (7), and as an exact share", grid=True),
    ] = ("bernoulli", "exact")
    state_lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Chosen("shorter prompts, with which m = l + 1 leaves a state of few rows", grid=True),
    ] = (5, 10)
    instead = {"train_tasks": "task_sets", "test_outlier_scale": "scales", "counting": "countings"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts, one state of l + 1 rows."""
        return super().quick().replace(test_prompts=min(self.test_prompts, 4_000), state_lengths=())


class Readings(Experiment[ReadingsSettings]):
    """Small for Mamba, large for the linear Transformer: under which reading are both true?"""

    id = "M-readings"
    title = "M-fig2's two claims under other readings of what the paper leaves open"
    paper = (
        "§4.1: Mamba's error is smaller than 0.01 even when α is close to 0.8; the linear Transformer's is large as "
        "long as α > 1/2."
    )
    reading = (
        "A: Mamba's error with flipped labels. With one or two steps round the ring it errs without any outlier "
        "(M-kernel); with a complete task graph it errs only on prompts without a clean example, of which exact counts "
        "have none. B: the linear Transformer's error just above α = 1/2, by label rule. No set of tasks gives both "
        "claims under all three rules: where Mamba's error is small, so is the linear model's under random labels."
    )
    theorems = ("M-thm2", "M-thm4")
    settings = ReadingsSettings

    def conditions(self, settings: ReadingsSettings) -> list[Condition]:
        """Return both models on every set of tasks, tested at every scale, counting, rule and fraction."""
        found: list[Condition] = []
        for tasks, model in product(settings.task_sets, ("mamba", "linear")):
            one = settings.as_kind(MambaPaper, train_tasks=tasks)
            training = Training(
                model=one.model(model),
                prompts=one.train_prompts(settings.train_outlier_fraction),
                recipe=one.recipe(model),
                engine=settings.engine,
            )
            for scale, counting, rule in product(settings.scales, settings.countings, RULES):
                test = one.replace(test_outlier_scale=scale, counting=counting)
                for fraction in MEASURED[model] if rule == "flip" else MEASURED[model][-2:]:
                    prompts = test.test_prompts_with(labels=rule, **test.amount(fraction))
                    columns = where(model, tasks, scale, counting, rule, fraction)
                    cell = {"probe": "error", "prompts": prompts, "count": settings.test_prompts, "draw": DRAW}
                    found += in_groups(settings, columns, training, **cell)
        return found + _small_state(settings)

    def claims(self, settings: ReadingsSettings) -> list[Claim]:
        """Return each reading of the two claims, and whether any set of tasks gives both."""
        n, scale, tasks = settings.seeds, settings.scales[-1], "ring:3"
        claims = []
        for name, fraction, counting in (
            ("mamba-below", BELOW, "bernoulli"),
            ("mamba-close", CLOSE, "bernoulli"),
            ("mamba-close-exact", CLOSE, "exact"),
        ):
            cells = [(f"labels: {rule}", where("mamba", tasks, scale, counting, rule, fraction)) for rule in RULES]
            share = "exactly" if counting == "exact" else "with probability"
            claims.append(
                Claim(
                    f"M-readings.{name}",
                    f"Mamba's error < {SMALL} at α close to {CLOSE}, read as: outliers {share} {fraction}",
                    f"mean error < {SMALL} under every label rule, {tasks}, κ_a' = {scale:.3g}",
                    _errors(n, cells, every_below, SMALL),
                    models=("mamba",),
                    ours=True,
                )
            )
        for tasks in ("ring:1", "ring:3"):
            cells = [(f"labels: {r}", where("linear", tasks, scale, "bernoulli", r, BEYOND)) for r in RULES]
            claims.append(
                Claim(
                    f"M-readings.linear-large.{tasks}",
                    f"the linear Transformer's error is large for α > 1/2, trained on {tasks}",
                    f"mean error > {LARGE} at α = {BEYOND} under every label rule, κ_a' = {scale:.3g}",
                    _errors(n, cells, every_above, LARGE),
                    models=("linear",),
                    ours=True,
                )
            )
        best = " and ".join((f"Mamba's error / {SMALL} at α = {BELOW}", f"{LARGE} / the linear error at {BEYOND}"))
        return [
            *claims,
            *_state_claims(settings),
            Claim(
                "M-readings.both",
                "some set of training tasks gives both claims",
                f"the larger of {best}, worst label rule, least over task sets, < 1",
                judged(mean_point(n, lambda rows: _both(rows, settings)), every_below, 1.0),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: ReadingsSettings) -> list[dict[str, Any]]:
        """Return one line per set of tasks, scale and counting."""
        lines = []
        every = [*product(settings.task_sets, settings.scales, settings.countings)]
        for tasks, scale, counting in [*every, (STATE, settings.scales[-1], "bernoulli")]:
            line = {"tasks": tasks, "κ_a'": f"{scale:.3g}", "α is": counting}

            def text(model: str, rule: str, fraction: float, at: tuple[str, float, Counting]) -> str:
                p = proportion(rows, **where(model, *at, rule, fraction))
                return "–" if p is None or p.mean is None else f"{p.mean:.4f}"

            for fraction in (0.0, BELOW, CLOSE):
                line[f"Mamba, flip, α = {fraction:g}"] = text("mamba", "flip", fraction, (tasks, scale, counting))
            for rule in RULES:
                line[f"linear, {rule}, α = {BEYOND}"] = text("linear", rule, BEYOND, (tasks, scale, counting))
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: ReadingsSettings) -> Figure:
        """Draw the errors of the two claims by set of training tasks."""
        scale = settings.scales[-1]
        ticks = {float(i): tasks for i, tasks in enumerate(settings.task_sets)}
        ends = (-0.5, len(ticks) - 0.5)
        panels = []
        first, words = settings.countings[0], {"bernoulli": "as a probability", "exact": "as an exact share"}
        mamba = [("no outliers", "flip", 0.0, first)]
        mamba += [(f"α = {f:g} {words[c]}", "flip", f, c) for f in (BELOW, CLOSE) for c in settings.countings]
        linear = [(f"labels: {rule}", rule, BEYOND, first) for rule in RULES]
        for model, title, margin, curves in (
            ("mamba", "A  Mamba, flipped labels", SMALL, mamba),
            ("linear", f"B  linear Transformer, α = {BEYOND}", LARGE, linear),
        ):
            panel = Panel(
                title,
                x=Axis("training tasks", ticks=ticks, domain=ends),
                y=Axis("error", scale="symlog", linear_to=0.002, domain=(0, 1), ticks=(0, 0.001, 0.01, 0.1, 1)),
            )
            panel.rule(y=margin, dash=(5.0, 3.0))
            for (name, rule, fraction, counting), colour in zip(curves, shades(len(curves)), strict=True):
                series = Series(name, colour, line=False, size=45.0)
                for place, tasks in enumerate(settings.task_sets):
                    p = proportion(rows, **where(model, tasks, scale, counting, rule, fraction))
                    if p is not None and p.mean is not None:
                        x = place + 0.12 * (curves.index((name, rule, fraction, counting)) - (len(curves) - 1) / 2)
                        panel.interval(series, x, p.mean, p.interval.low, p.interval.high)
            panels.append(panel)
        return Figure(panels, columns=2, width=400)


def _small_state(settings: ReadingsSettings) -> list[Condition]:
    """Return Mamba with a state of l + 1 rows, trained on ring:3; for other lengths, with its whole state too."""
    scale, found = settings.scales[-1], list[Condition]()
    for length in (settings.context_length, *settings.state_lengths):
        usual = length == settings.context_length
        own = settings.as_kind(MambaPaper, train_tasks="ring:3", test_outlier_scale=scale, context_length=length)
        whole = own.model("mamba")
        smaller = whole.replace(options={**whole.options, "state_size": length + 1})
        for model, rows_ in ((smaller, "l + 1"), *(() if usual else ((whole, "d"),))):
            training = Training(
                model=model,
                prompts=own.train_prompts(settings.train_outlier_fraction),
                recipe=own.recipe("mamba"),
                engine=settings.engine,
            )
            for fraction in (0.0, BELOW):
                tasks = STATE if usual else state_of(rows_, length)
                columns = where("mamba", tasks, scale, "bernoulli", "flip", fraction)
                test = own.test_prompts_with(labels="flip", fraction=fraction)
                cell = {"probe": "error", "prompts": test, "count": settings.test_prompts, "draw": DRAW}
                found += in_groups(settings, columns, training, **cell)
    return found


def _state_claims(settings: ReadingsSettings) -> list[Claim]:
    n, scale, lengths = settings.seeds, settings.scales[-1], settings.state_lengths
    cells = [(f"α = {f:g}", where("mamba", STATE, scale, "bernoulli", "flip", f)) for f in (0.0, BELOW)]
    known: dict[str, Any] = {"models": ("mamba",), "ours": True}
    usual = Claim(
        "M-readings.state",
        "the state has m = l + 1 rows, as below (2), fewer than the d + 1 of a token",
        f"Mamba's mean error < {SMALL} at α = 0 and {BELOW}, flipped labels, ring:3, m = "
        f"{settings.context_length + 1}, κ_a' = {scale:.3g}",
        _errors(n, cells, every_below, SMALL),
        **known,
    )
    short = Claim(
        "M-readings.state-short",
        "nor does m = l + 1 do harm with shorter prompts, whose state then has few rows",
        f"error with m = l + 1 − error with m = d < {SMALL} at l = {' and '.join(map(str, lengths))}, α = 0 and "
        f"{BELOW}, flipped labels, on paired seeds",
        judged(lambda rows: _state_cost(rows, settings), every_below, SMALL),
        **known,
    )
    return [usual, short] if lengths else [usual]


def state_of(rows: str, length: int) -> str:
    """Return the name of a training with prompts of another length and a state of so many rows."""
    return f"ring:3, l = {length}, m = {rows}"


def _state_cost(rows: list[Row], settings: ReadingsSettings) -> list[Point] | None:
    """Return what a state of l + 1 rows adds to the error, on paired seeds, for every other length."""
    pairs = []
    for length in settings.state_lengths:
        for fraction in (0.0, BELOW):
            small, whole = (
                errors(rows, **where("mamba", state_of(m, length), settings.scales[-1], "bernoulli", "flip", fraction))
                for m in ("l + 1", "d")
            )
            pairs.append((f"l = {length}, α = {fraction:g}", small, whole))
    return paired_points(pairs, settings.seeds)


def where(model: str, tasks: str, scale: float, counting: str, rule: str, fraction: float) -> dict[str, Any]:
    """Return the columns of one measurement."""
    return {
        "model": model,
        "tasks": tasks,
        "outlier_scale": scale,
        "counting": counting,
        "outlier_labels": rule,
        "outlier_fraction": fraction,
    }


def _errors(seeds: int, cells: list[tuple[str, dict[str, Any]]], rule: Callable[..., Any], margin: float) -> Judge:
    return judged(lambda rows: error_points(rows, seeds, cells), rule, margin)


def _both(rows: list[Row], settings: ReadingsSettings) -> BySeed:
    """Return, per seed, how far the best set of tasks is from both claims: below 1, both hold."""
    scale, found = settings.scales[-1], []
    for tasks in settings.task_sets:
        worst: list[BySeed] = []
        for rule in RULES:
            mamba = errors(rows, **where("mamba", tasks, scale, "bernoulli", rule, BELOW))
            linear = errors(rows, **where("linear", tasks, scale, "bernoulli", rule, BEYOND))
            worst += [
                {seed: None if error is None else error / SMALL for seed, error in mamba.items()},
                {seed: None if error is None else LARGE / most([error, 1e-9]) for seed, error in linear.items()},
            ]
        found.append(_join(most, worst))
    return _join(least, found)


def _join(choose: Callable[[list[float]], float], parts: list[BySeed]) -> BySeed:
    """Combine the numbers of each seed that all parts have; None where one of them is."""
    seeds = set.intersection(*(set(part) for part in parts))
    joined: BySeed = {}
    for seed in sorted(seeds):
        numbers = [value for part in parts if (value := part[seed]) is not None]
        joined[seed] = choose(numbers) if len(numbers) == len(parts) else None
    return joined
