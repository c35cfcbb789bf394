"""M-worst: the error under flipped labels against the exact worst case over labels and places of the outliers.

Definition 2 lets the labels of outliers be any function. The proofs of Theorems 2 and 4 then take flipped labels: they
"can change the model output the most" (below (61) and (78)). `iclab.probes.worst` finds the labels that really do.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import RESTORED, MambaPaper
from iclab.probes import Row
from iclab.study.charts import DASHED, FAINT, INK, Axis, Figure, Panel, Series, name_of, series_of
from iclab.study.claims import BySeed, Claim, Judge, Point, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import difference, error_points, errors, listed, paired_points, proportion
from iclab.study.settings import Chosen, Different, Disclosed
from iclab.theory.outliers import mamba_outlier_bound

NEAR = 0.01
"""Errors that differ by less are alike: the error that the paper calls small."""
SMALLEST_SUM = 0.3
"""L: the smallest Σλ of the paper's three test outliers, M §4."""

Fraction = Annotated[float, Field(ge=0, le=1)]


class Adversary(NamedTuple):
    """Who chooses the labels and places of outliers."""

    probe: str
    labels: str
    placement: str
    look: Series


ADVERSARIES = {
    "random labels": Adversary("error", "random", "random", Series("random labels", FAINT, mark="", width=1.3)),
    "worst labels": Adversary("worst", "flip", "random", Series("worst labels, exact", "#CC79A7", mark="")),
    "worst labels and places": Adversary(
        "worst-placement", "flip", "closest", Series("worst labels and places, exact", "#009E73", mark="")
    ),
    "worst labels, closest": Adversary(
        "worst",
        "flip",
        "closest",
        Series("worst labels, outliers closest to the query", "#E69F00", DASHED, mark="", width=1.3),
    ),
    "flipped labels": Adversary(
        "error", "flip", "random", Series("flipped labels", INK, line=False, hollow=True, size=34.0)
    ),
    "flipped labels, closest": Adversary(
        "error",
        "flip",
        "closest",
        Series("flipped labels, outliers closest", INK, mark="diamond", line=False, hollow=True, size=40.0),
    ),
}
"""In the order in which they are drawn. The labels that prompts are drawn with do not matter to the worst case. Its
places are found for prompts drawn with the outliers closest to the query, so that these two differ in nothing else."""
IN_WORDS = (
    *("random labels", "flipped labels", "worst labels"),
    *("flipped labels, closest", "worst labels, closest", "worst labels and places"),
)
"""In the order of the table."""
ANYWHERE = tuple(name for name, adversary in ADVERSARIES.items() if adversary.placement == "random")
"""For a model without a gate: places do not change a sum."""


class WorstSettings(MambaPaper):
    """Settings of M-worst: strengths and fractions of outliers."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    outlier_scales: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "κ_a': the least that Theorem 2 (b) allows as printed, κ_a = 2; and κ_a/L, as in M-fig2, the least under "
            "which (61) is what the paper says it is",
            grid=True,
        ),
    ] = (2.0, RESTORED)
    outlier_fractions: Annotated[
        tuple[Fraction, ...],
        Field(min_length=1),
        Different,
        Chosen("from few outliers to nearly nothing else", grid=True),
    ] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("per seed and condition: errors are compared on the same prompts", grid=True)
    ] = 5_000

    instead = {"test_outlier_scale": "outlier_scales"}

    def quick(self) -> WorstSettings:
        """Return the quick edition: one group of seeds, fewer fractions and prompts."""
        coarse = (0.2, 0.4, 0.5, 0.6, 0.8)
        fewer = tuple(f for f in self.outlier_fractions if f in coarse) or self.outlier_fractions
        return super().quick().replace(outlier_fractions=fewer, test_prompts=min(self.test_prompts, 2_000))


class WorstCase(Experiment[WorstSettings]):
    """Error against α for each adversary, by model and strength of the outliers."""

    id = "M-worst"
    title = "Flipped labels against the exact worst case"
    paper = (
        "Labels of outliers may be arbitrary (Definition 2). Flipping the labels of examples with outliers can change "
        "the model output the most (below (61) and (78))."
    )
    reading = (
        "Lines: means over seeds; bands span the lowest to the highest seed. The worst case is exact: prompt by "
        "prompt, the smallest z·F of all 2^k labels of its k outliers and, in green, of all their places too (outliers "
        "keep their order, and so do the other examples). Bottom: what the exact worst labels add to flipped ones, on "
        "the same prompts."
    )
    theorems = ("M-thm2", "M-thm4")
    settings = WorstSettings

    def conditions(self, settings: WorstSettings) -> list[Condition]:
        """Return both models under each adversary, at every strength and fraction."""
        found = []
        for model in ("mamba", "linear"):
            training = Training(
                model=settings.model(model),
                prompts=settings.train_prompts(settings.train_outlier_fraction),
                recipe=settings.recipe(model),
                engine=settings.engine,
            )
            for name in _adversaries(model):
                adversary = ADVERSARIES[name]
                for scale in settings.outlier_scales:
                    at_scale = settings.as_kind(MambaPaper, test_outlier_scale=scale)
                    for fraction in settings.outlier_fractions:
                        prompts = at_scale.test_prompts_with(
                            labels=adversary.labels, placement=adversary.placement, **settings.amount(fraction)
                        )
                        measurement = {"probe": adversary.probe, "prompts": prompts, "count": settings.test_prompts}
                        found += in_groups(settings, _where(model, name, scale, fraction), training, **measurement)
        return found

    def claims(self, settings: WorstSettings) -> list[Claim]:
        """Claim that flipping is the worst rule and CQ the worst placement, up to a small difference."""
        grid = f"at κ_a' = {listed(settings.outlier_scales)}, α = {listed(settings.outlier_fractions)}"
        bound = mamba_outlier_bound(settings.train_outlier_fraction, settings.context_length, settings.context_length)
        return [
            Claim(
                "M-worst.flip",
                "flipping the labels of outliers can change Mamba's output the most (below (61))",
                f"error with worst labels − with flipped labels < {NEAR} on paired seeds {grid}",
                _alike(settings, "mamba", "worst labels", "flipped labels"),
                models=("mamba",),
            ),
            Claim(
                "M-worst.flip-linear",
                "the same for the linear Transformer (below (78))",
                f"error with worst labels − with flipped labels < {NEAR} on paired seeds {grid}",
                _alike(settings, "linear", "worst labels", "flipped labels"),
                models=("linear",),
                ours=True,
            ),
            Claim(
                "M-worst.closest",
                "no place is worse for Mamba than closest to the query",
                f"error with worst labels and places − with worst labels at CQ < {NEAR} on paired seeds {grid}",
                _alike(settings, "mamba", "worst labels and places", "worst labels, closest"),
                models=("mamba",),
                ours=True,
            ),
            Claim(
                "M-worst.inside",
                f"for α < p_a l_tr/l_ts = {bound:g} and κ_a' ≥ κ_a/L, no labels and no places harm Mamba",
                f"mean error with worst labels and places < {NEAR} there",
                _inside(settings, bound),
                models=("mamba",),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: WorstSettings) -> list[dict[str, Any]]:
        """Return one line per model, strength and fraction: the error under each adversary."""
        return [
            {"model": name_of(model), "κ_a'": f"{scale:g}", "α": f"{fraction:g}"}
            | {name: _text(rows, _where(model, name, scale, fraction)) for name in IN_WORDS}
            for model in ("mamba", "linear")
            for scale in settings.outlier_scales
            for fraction in settings.outlier_fractions
        ]

    def chart(self, rows: list[Row], settings: WorstSettings) -> Figure:
        """Draw one column per strength: Mamba, the linear model, and what the worst labels add to flipped ones."""
        scales = [scale for scale in settings.outlier_scales if any(row["outlier_scale"] == scale for row in rows)]
        panels = [_errors(rows, model, scale) for model in ("mamba", "linear") for scale in scales]
        added = {(model, scale): _added(rows, model, scale) for model in ("mamba", "linear") for scale in scales}
        most = max((d for curve in added.values() for at in curve for d in at.values() if d is not None), default=0.0)
        for scale in scales:
            panel = Panel(
                f"worst − flipped labels, κ_a' = {scale:g}",
                x=Axis("fraction of outliers α", domain=(0, 1)),
                y=Axis("difference of errors", domain=(0, max(1.1 * most, 2 * NEAR))),
                height=150,
            )
            panel.rule(y=NEAR, dash=DASHED)
            for model in ("mamba", "linear"):
                panel.curve(series_of(model), _fractions(rows), added[model, scale])
            panels.append(panel)
        return Figure(panels, columns=len(scales))


def _adversaries(model: str) -> tuple[str, ...]:
    return tuple(ADVERSARIES) if model == "mamba" else ANYWHERE


def _where(model: str, adversary: str, scale: float, fraction: float) -> dict[str, Any]:
    return {"model": model, "adversary": adversary, "outlier_scale": scale, "outlier_fraction": fraction}


def _text(rows: list[Row], where: dict[str, Any]) -> str:
    found = proportion(rows, **where)
    return "–" if found is None else found.short()


def _alike(settings: WorstSettings, model: str, worse: str, milder: str) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        pairs = []
        for scale in settings.outlier_scales:
            for fraction in settings.outlier_fractions:
                first, second = (errors(rows, **_where(model, name, scale, fraction)) for name in (worse, milder))
                pairs.append((f"κ_a' = {scale:g}, α = {fraction:g}", first, second))
        return paired_points(pairs, settings.seeds)

    return judged(points, every_below, NEAR)


def _inside(settings: WorstSettings, bound: float) -> Judge:
    cells = [
        (f"κ_a' = {scale:g}, α = {fraction:g}", _where("mamba", "worst labels and places", scale, fraction))
        for scale in settings.outlier_scales
        for fraction in settings.outlier_fractions
        if scale * SMALLEST_SUM >= settings.train_outlier_scale and fraction < bound
    ]

    def points(rows: list[Row]) -> list[Point] | None:
        return error_points(rows, settings.seeds, cells) if cells else None

    return judged(points, every_below, NEAR)


def _fractions(rows: list[Row]) -> list[float]:
    return sorted({row["outlier_fraction"] for row in rows})


def _errors(rows: list[Row], model: str, scale: float) -> Panel:
    fractions = _fractions(rows)
    small = Axis("error", domain=(0, 1), scale="symlog", linear_to=0.003, ticks=(0, 0.01, 0.1, 0.3, 1))
    panel = Panel(
        f"{name_of(model)}, κ_a' = {scale:g}",
        x=Axis("fraction of outliers α", domain=(0, 1)),
        y=small if model == "mamba" else Axis("error", domain=(0, 1)),
        height=190,
    )
    for name in _adversaries(model):
        found = [errors(rows, **_where(model, name, scale, fraction)) for fraction in fractions]
        look = ADVERSARIES[name].look
        panel.curve(look, fractions, found, band=look.line and not look.dash)
    return panel


def _added(rows: list[Row], model: str, scale: float) -> list[BySeed]:
    """Return what the worst labels add to the error with flipped labels, by fraction and seed; never below 0."""
    return [
        difference(
            *(errors(rows, **_where(model, name, scale, fraction)) for name in ("worst labels", "flipped labels"))
        )
        for fraction in _fractions(rows)
    ]
