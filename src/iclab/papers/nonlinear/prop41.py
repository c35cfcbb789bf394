"""T-prop4.1: W_Q and W_K align with a token's pattern as far as exp(τL) does, L the Laplacian of the task graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import mean
from iclab.papers.nonlinear.alignment import AlignmentSettings
from iclab.papers.nonlinear.laws import GRAPHS, watched_training
from iclab.papers.nonlinear.prop41_chart import draw
from iclab.papers.nonlinear.prop41_rows import by_relevant, entry, fits, losses_by_step, predicted, share
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.nonlinear.thm33 import NAMES
from iclab.probes import Row
from iclab.study.charts import Figure
from iclab.study.claims import BySeed, Claim, Point, every_above, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import bound_claim, exponent_claim
from iclab.study.rows import listed

CLOSE = 0.05
"""How far a share of W p may be from that of exp(τL)."""
FORM = 0.95
"""R² above which exp(2τL) is called the form of W_KᵀW_Q, as in M-kernel."""
ACTIVE = 0.5
"""exp(τL) is derived while the hinge is active, so while the loss is above this."""
STILL = 0.1
"""W ν stays where it started. Read as: it moves by less than this part of its start."""


class Alignment(Experiment[AlignmentSettings]):
    """Parts of W p along the pattern of p, along others and along irrelevant ones."""

    id = "T-prop4.1"
    title = "W_Q and W_K follow δ exp(τL), and so do their parts along each pattern"
    paper = (
        "Proposition 4.1: the part of W_Q p and W_K p along p's own relevant pattern is Ω(√log M1) (17), those along "
        "other relevant patterns (18) and along irrelevant ones (19) are O(√log M1 (1/M1 + 1/M2))."
    )
    reading = (
        "M2 = M1 and m = M1² log M1. A: the part of W_Q µ_j along µ_j after training. B: the largest part along "
        "another relevant pattern, over the own one. C: the part of W_Q ν along ν over it. D: the share of W_Q p along "
        "p's pattern; dotted, that of exp(τL) with τ fitted to W_KᵀW_Q. E: the same over a training with "
        "M1 = 8; F: parts of W_Q µ_j by distance on the ring there. Points are means over seeds with 95 % intervals."
    )
    caption = "mean over seeds"
    theorems = ("T-prop4.1",)
    settings = AlignmentSettings

    def conditions(self, settings: AlignmentSettings) -> list[Condition]:
        """Return entries, kernels and shares after training over M1 and δ, and over one training per graph."""
        found: list[Condition] = []

        def ask(part: str, graph: str, x: float, own: NonlinearPaper, *, watched: int = 1) -> None:
            training = watched_training(own, watched)
            prompts = own.prompts(tasks=own.train_tasks)
            for probe in ("growth", "kernel", "alignment", *(("error",) if watched > 1 else ())):
                columns = {"part": part, "graph": graph, "x": x, "probe": probe}
                count = 1 if probe in ("growth", "kernel") else settings.test_prompts
                at = {"at": "every"} if watched > 1 else {}
                found.extend(in_groups(settings, columns, training, probe=probe, prompts=prompts, count=count, **at))

        for graph in GRAPHS:
            for relevant in settings.relevant_values:
                ask("relevant", graph, relevant, settings.large(graph, relevant))
            ask("watched", graph, settings.middle, settings.large(graph, settings.middle), watched=settings.watched)
        for scale in settings.scale_values:
            ask("scale", "complete", scale, settings.large("complete", settings.middle, init_scale=scale))
        return found

    def claims(self, settings: AlignmentSettings) -> list[Claim]:
        """Return (17) to (19) on either graph, and that exp(τL) predicts them."""
        return [
            *(claim for graph in GRAPHS for claim in _paper_claims(settings, graph)),
            *(claim for graph in GRAPHS for claim in _kernel_claims(settings, graph)),
            *_irrelevant_claims(settings),
        ]

    def table(self, rows: list[Row], settings: AlignmentSettings) -> list[dict[str, Any]]:
        """Return one line per graph and M1."""
        lines = []
        for graph, name in NAMES.items():
            for relevant in settings.relevant_values:
                line: dict[str, Any] = {"M1": relevant, "tasks": name}
                for title, number in (
                    ("own", lambda e: e.own),
                    ("other / own", lambda e: e.other / e.own),
                    ("irrelevant / own", lambda e: e.irrelevant / e.own),
                ):
                    line[title] = _text(mean(entry(rows, settings, "relevant", graph, relevant, number)))
                line["share"] = _text(mean(share(rows, "relevant", graph, relevant)))
                line["share of exp(τL)"] = _text(mean(predicted(rows, settings, "relevant", graph, relevant)))
                for i, title in enumerate(("τ", "R²")):
                    found = fits(rows, settings, "relevant", graph, relevant)
                    line[title] = _text(mean({s: fit and fit[i] for s, fit in found.items()}))
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: AlignmentSettings) -> Figure:
        """Draw parts against M1, the share measured and predicted, and one training."""
        return draw(rows, settings)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _paper_claims(settings: AlignmentSettings, graph: str) -> list[Claim]:
    name, values = NAMES[graph], listed(settings.relevant_values)
    curves = partial(by_relevant, settings=settings, graph=graph)
    usual: dict[str, Any] = {"seeds": settings.seeds, "fate": "diverged"}
    return [
        bound_claim(
            f"T-prop4.1.own.{graph}",
            "the part of W_Q p along its own pattern is Ω(√log M1) (17)",
            partial(curves, number=lambda e: e.own, logs=True),
            0.5,
            above=True,
            where=f"against log M1, M1 = {values}, trained on {name}",
            **usual,
        ),
        bound_claim(
            f"T-prop4.1.other.{graph}",
            "parts along other relevant patterns are smaller by 1/M1 + 1/M2 (18)",
            partial(curves, number=lambda e: e.other / e.own),
            -1.0,
            where=f"largest part / own part against M1 = M2 = {values}, trained on {name}",
            **usual,
        ),
    ]


def _kernel_claims(settings: AlignmentSettings, graph: str) -> list[Claim]:
    name = NAMES[graph]
    which: dict[str, Any] = {"settings": settings, "graph": graph}
    end = f"after training on {name}, M1 = {listed(settings.relevant_values)}"
    early = f"at every watched step with a loss above {ACTIVE}, {name}, M1 = {settings.middle}"
    return [
        Claim(
            f"T-prop4.1.share.{graph}",
            "the share of W_Q p along its pattern is that of exp(τL), L the Laplacian of the task graph",
            f"measured − predicted within ±{CLOSE} {early}, τ fitted to W_KᵀW_Q",
            judged(partial(_early_gaps, **which), every_within, -CLOSE, CLOSE),
            ours=True,
        ),
        Claim(
            f"T-prop4.1.share-end.{graph}",
            "so it is at the end of training, when the hinge has stopped it",
            f"measured − predicted within ±{CLOSE} {end}",
            judged(partial(_gaps, **which), every_within, -CLOSE, CLOSE),
            ours=True,
        ),
        Claim(
            f"T-prop4.1.form.{graph}",
            "W_KᵀW_Q/δ² is exp(2τL) after training",
            f"R² > {FORM} with τ fitted per seed, {end}",
            judged(partial(_straight, **which), every_above, FORM),
            ours=True,
        ),
    ]


def _irrelevant_claims(settings: AlignmentSettings) -> list[Claim]:
    values = listed(settings.relevant_values)
    return [
        bound_claim(
            "T-prop4.1.irrelevant",
            "parts along irrelevant patterns are smaller by 1/M1 + 1/M2 (19)",
            partial(by_relevant, settings=settings, graph="complete", number=lambda e: e.irrelevant / e.own),
            -1.0,
            seeds=settings.seeds,
            where=f"part of W_Q ν along ν / own part against M1 = M2 = {values}, all tasks",
            fate="diverged",
        ),
        Claim(
            "T-prop4.1.still",
            "W ν of an irrelevant pattern never moves",
            f"part of W_Q ν along ν / δβ within 1 ± {STILL} after training, both graphs, M1 = {values}",
            judged(partial(_stills, settings=settings), every_within, 1 - STILL, 1 + STILL),
            ours=True,
        ),
        exponent_claim(
            "T-prop4.1.scale",
            "so (19) is a matter of δ alone: its ratio to the own part is ∝ δ",
            partial(_by_scale, settings=settings),
            1.0,
            seeds=settings.seeds,
            where=f"part of W_Q ν along ν / own part against δ, all tasks, M1 = {settings.middle}",
            fate="diverged",
            ours=True,
        ),
    ]


def _by_scale(rows: list[Row], settings: AlignmentSettings) -> dict[float, BySeed]:
    return {
        x: entry(rows, settings, "scale", "complete", x, lambda e: e.irrelevant / e.own) for x in settings.scale_values
    }


def _stills(rows: list[Row], settings: AlignmentSettings) -> list[Point] | None:
    start = settings.init_scale * settings.pattern_norm
    named = {
        f"{NAMES[graph]}, M1 = {n}": entry(rows, settings, "relevant", graph, n, lambda e: e.irrelevant / start)
        for graph in GRAPHS
        for n in settings.relevant_values
    }
    return mean_points(settings.seeds, named)


def _minus(first: BySeed, second: BySeed) -> BySeed:
    return {s: None if a is None or second.get(s) is None else a - (second[s] or 0.0) for s, a in first.items()}


def _gaps(rows: list[Row], settings: AlignmentSettings, graph: str) -> list[Point] | None:
    named = {}
    for n in settings.relevant_values:
        named[f"M1 = {n}"] = _minus(share(rows, "relevant", graph, n), predicted(rows, settings, "relevant", graph, n))
    return mean_points(settings.seeds, named)


def _early_gaps(rows: list[Row], settings: AlignmentSettings, graph: str) -> list[Point] | None:
    named = {}
    for step, loss in losses_by_step(rows, settings, graph).items():
        if loss > ACTIVE:
            found = share(rows, "watched", graph, settings.middle, step)
            expected = predicted(rows, settings, "watched", graph, settings.middle, step)
            named[f"step {step}"] = _minus(found, expected)
    return mean_points(settings.seeds, named)


def _straight(rows: list[Row], settings: AlignmentSettings, graph: str) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for n in settings.relevant_values:
        found = fits(rows, settings, "relevant", graph, n)
        named[f"M1 = {n}"] = {seed: None if fit is None else fit[1] for seed, fit in found.items()}
    return mean_points(settings.seeds, named)
