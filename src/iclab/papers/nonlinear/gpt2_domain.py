"""T-gpt2-domain: why GPT-2 errs out of domain: because of other patterns, of a larger K', or of how it was trained?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from iclab.engines import Training
from iclab.lab import MeasurementCell, TrainingCell
from iclab.papers.nonlinear.fig3_claims import if_trained
from iclab.papers.nonlinear.fig3_settings import SMALL
from iclab.papers.nonlinear.settings import LARGEST_SUM, GPT2Paper
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import DASHED, INK, PALETTE, Axis, Figure, Panel, Series
from iclab.study.claims import Claim, Point, every_above, every_below, every_within, judged, together
from iclab.study.experiment import Condition, Experiment
from iclab.study.rows import error_points, errors, paired_points, proportion, seed_points
from iclab.study.settings import Chosen, Different

USUAL, LARGER = "as in T-fig3", "trained with K = 5"
PATTERNS = {"in": "patterns of the training, unseen tasks", "out": f"mixtures of T §5, S1 = {LARGEST_SUM:.2f}"}
SERIES = {"in": Series(PATTERNS["in"], PALETTE[0]), "out": Series(PATTERNS["out"], PALETTE[1])}

VARIANTS: dict[str, dict[str, Any]] = {
    "logistic loss": {"recipe": {"loss": "logistic"}},
    "squared loss": {"recipe": {"loss": "squared"}},
    "no dropout": {"options": {"dropout": 0.0}},
    "20,000 steps": {"recipe": {"steps": 20_000, "batch_size": 16}},
    LARGER: {"prompts": {"irrelevant_scale": 5.0}},
}
"""One change of the training at a time."""


class DomainSettings(GPT2Paper):
    """Settings of T-gpt2-domain."""

    scales: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=2),
        Different,
        Chosen("K of the test prompts: from that of training, 0.5, to the paper's K' = 5", grid=True),
    ] = (0.5, 1.0, 2.0, 5.0)
    variants: Annotated[
        tuple[str, ...],
        Different,
        Chosen(
            "what the paper does not state about GPT-2's training: the loss, dropout, and how long. 20,000 steps take "
            "batches of 16, so that they see three times as many prompts. The last one is no reading of the paper: it "
            "asks whether a GPT-2 can learn to ignore large irrelevant patterns at all",
            grid=True,
        ),
    ] = tuple(VARIANTS)
    variant_seeds: Annotated[
        int, Field(ge=1), Chosen("per variant: a seed takes as long as one of T-fig3, or three times that", grid=True)
    ] = 1
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and point", grid=True)] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: the short training of T-fig3's, without verdicts, and no variants."""
        few = {"gpt2_steps": min(self.gpt2_steps, 100), "test_prompts": min(self.test_prompts, 500)}
        return super().quick().replace(**few, variants=(), scales=tuple(sorted({min(self.scales), max(self.scales)})))

    @model_validator(mode="after")
    def _known(self) -> DomainSettings:
        if strange := [name for name in self.variants if name not in VARIANTS]:
            raise ValueError(f"variants = {strange[0]}: must be one of {'; '.join(VARIANTS)}")
        return self

    def test(self, patterns: str, scale: float) -> Prompts:
        """Return test prompts: patterns in or out of domain, and K."""
        own = self.replace(train_tasks=self.gpt2_tasks, test_irrelevant_scale=scale)
        if patterns == "out":
            return own.out_of_domain(LARGEST_SUM)
        return own.prompts(tasks=own.unseen(), irrelevant_scale=scale)

    def variant(self, name: str) -> Training:
        """Return a training with one change."""
        training, changes = self.training_of("gpt2"), VARIANTS[name]
        options = {**training.model.options, **changes.get("options", {})}
        return training.replace(
            model=training.model.replace(options=options),
            prompts=training.prompts.replace(**changes.get("prompts", {})),
            recipe=training.recipe.replace(**changes.get("recipe", {})),
        )


class Domain(Experiment[DomainSettings]):
    """GPT-2 in and out of domain, pattern by pattern and K by K."""

    id = "T-gpt2-domain"
    title = "Why GPT-2 errs out of domain"
    paper = (
        "T-fig3 shows GPT-2 with an error below 0.01 out of domain, where patterns are mixtures of the training's and "
        "K' = 5 is ten times as large as in training."
    )
    reading = (
        "Left: the error of T-fig3's GPT-2 against the strength K of irrelevant patterns in test prompts, for the "
        "training's patterns (unseen tasks) and for the mixtures of T §5. Means over seeds; bands run from the lowest "
        "to the highest seed. Right: other trainings, one change at a time, in the two corners: training's patterns at "
        "the training's K (circles) and mixtures at K' = 5 (triangles); a mark per seed."
    )
    settings = DomainSettings

    def conditions(self, settings: DomainSettings) -> list[Condition]:
        """T-fig3's training on all patterns and scales, and each variant in the four corners."""
        found: list[Condition] = []

        def ask(name: str, cells: list[TrainingCell], patterns: str, scale: float) -> None:
            where = {"training": name, "patterns": patterns, "scale": scale}
            test = settings.test(patterns, scale)
            count = settings.test_prompts
            found.extend(
                Condition(where, MeasurementCell(training=cell, probe="error", prompts=test, count=count))
                for cell in cells
            )

        usual = TrainingCell.groups(settings.training_of("gpt2"), settings.seeds)
        for patterns in PATTERNS:
            for scale in settings.scales:
                ask(USUAL, usual, patterns, scale)
        for name in settings.variants:
            cells = _first_seeds(settings.variant(name), settings.variant_seeds)
            for patterns in PATTERNS:
                for scale in _ends(settings):
                    ask(name, cells, patterns, scale)
        return found

    def claims(self, settings: DomainSettings) -> list[Claim]:
        """Is it K' alone? Does another training change it?"""
        low, high = _ends(settings)
        usual = [
            _claim(
                "patterns",
                "other patterns alone do no harm: GPT-2's error is small on the mixtures at the training's K",
                f"mean error < {SMALL} on the mixtures at K = {low:g}",
                judged(_points(settings, "out", low), every_below, SMALL),
            ),
            _claim(
                "scale",
                "K' alone does harm: on the training's own patterns the error at K' is not small",
                f"mean error > {SMALL} on unseen tasks of the training's patterns at K = {high:g}",
                judged(_points(settings, "in", high), every_above, SMALL),
            ),
            _claim(
                "alone",
                "it is K' alone: at K' it does not matter whether the patterns are mixtures",
                f"error on the mixtures − error on the training's patterns within ±{SMALL} at K = {high:g}, on paired "
                "seeds",
                judged(partial(_difference, settings=settings), every_within, -SMALL, SMALL),
            ),
        ]
        return [if_trained(claim, settings) for claim in usual] + [
            if_trained(_variant_claim(settings, name), settings) for name in settings.variants
        ]

    def table(self, rows: list[Row], settings: DomainSettings) -> list[dict[str, Any]]:
        """One line per training, kind of patterns and K."""
        lines = []
        for name in (USUAL, *settings.variants):
            for patterns in PATTERNS:
                line = {"training": name, "patterns": PATTERNS[patterns]}
                for scale in settings.scales:
                    p = proportion(rows, training=name, patterns=patterns, scale=scale)
                    line[f"K = {scale:g}"] = "–" if p is None else p.short()
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: DomainSettings) -> Figure:
        """Draw the error against K, and the corners of every training."""
        axis = Axis("error", domain=(0, 0.6), scale="symlog", linear_to=SMALL, ticks=(0, 0.01, 0.1, 0.5))
        left = Panel(USUAL, x=Axis("K of the test prompts", domain=(0, max(settings.scales) * 1.05)), y=axis)
        for patterns, series in SERIES.items():
            curve = [errors(rows, training=USUAL, patterns=patterns, scale=scale) for scale in settings.scales]
            left.curve(series, settings.scales, curve)
        left.rule(y=SMALL, dash=DASHED, ink=INK)
        others = [_corners(rows, settings, axis)] if settings.variants else []
        return Figure([left, *others], columns=2, width=420)


def _corners(rows: list[Row], settings: DomainSettings, axis: Axis) -> Panel:
    """Draw every training in domain at the smallest K, and out of domain at the largest."""
    names, (low, high) = [USUAL, *settings.variants], _ends(settings)
    ticks = {float(place): _short(name) for place, name in enumerate(names)}
    panel = Panel("other trainings", x=Axis(ticks=ticks, domain=(-0.5, len(names) - 0.5)), y=axis)
    for patterns, scale, mark, shift in (("in", low, "circle", -0.15), ("out", high, "triangle-up", 0.15)):
        name = f"{'in' if patterns == 'in' else 'out of'} domain, K = {scale:g}"
        series = replace(SERIES[patterns], name=name, mark=mark, line=False, size=45.0)
        for place, training in enumerate(names):
            found = errors(rows, training=training, patterns=patterns, scale=scale).values()
            good = [error for error in found if error is not None]
            panel.points(series, [place + shift] * len(good), good)
    panel.rule(y=SMALL, dash=DASHED, ink=INK)
    return panel


def _short(name: str) -> str:
    return name.replace("as in ", "").replace("trained with ", "").replace(" loss", "")


def _first_seeds(training: Training, seeds: int) -> list[TrainingCell]:
    """Return the cells of seeds 0 … seeds − 1 and of no others: GPT-2 trains seed by seed."""
    groups = TrainingCell.groups(training, seeds)
    own = [tuple(seed for seed in group.seeds if seed < seeds) for group in groups]
    return [g if g.seeds == mine else g.replace(only=mine) for g, mine in zip(groups, own, strict=True)]


def _ends(settings: DomainSettings) -> tuple[float, float]:
    """Return the training's K, or the smallest tested, and the largest."""
    return min(settings.scales), max(settings.scales)


def _claim(name: str, question: str, predicate: str, judge: Any) -> Claim:
    return Claim(f"T-gpt2-domain.{name}", question, predicate, judge, models=("gpt2",), ours=True)


def _variant_claim(settings: DomainSettings, name: str) -> Claim:
    low, high = _ends(settings)
    cells = [("in", high if name == LARGER else low), ("out", high)]
    places = " and ".join(f"{'mixtures' if kind == 'out' else 'unseen tasks'} at K = {k:g}" for kind, k in cells)
    points = together(
        *(
            partial(seed_points, seeds=settings.variant_seeds, training=name, patterns=kind, scale=k)
            for kind, k in cells
        )
    )
    return _claim(
        f"variant.{name.replace(',', '').replace(' = ', '').replace(' ', '-')}",
        f"with {name}, GPT-2's errors are small in and out of domain",
        f"error < {SMALL} for every seed on {places}",
        judged(points, every_below, SMALL),
    )


def _points(settings: DomainSettings, patterns: str, scale: float) -> Callable[[list[Row]], list[Point] | None]:
    where = {"training": USUAL, "patterns": patterns, "scale": scale}
    return partial(error_points, seeds=settings.seeds, cells=[(f"{PATTERNS[patterns]}, K = {scale:g}", where)])


def _difference(rows: list[Row], settings: DomainSettings) -> list[Point] | None:
    """Return what mixtures add to the error at the largest K."""
    high = _ends(settings)[1]
    out, inside = (errors(rows, training=USUAL, patterns=patterns, scale=high) for patterns in ("out", "in"))
    return paired_points([(f"K = {high:g}", out, inside)], settings.seeds)
