"""M-fig2: error of Mamba and the linear Transformer against the fraction of outliers, for three label rules.

A fourth rule is iclab's: the exact worst labels of every prompt (`iclab.probes.worst`), because the paper's theorems
allow any labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import MambaPaper
from iclab.probes import Interval, Row, measuring_obstacle
from iclab.study.charts import (
    DASH_DOT,
    DASHED,
    DOTTED,
    FAINT,
    Axis,
    Figure,
    Panel,
    Series,
    name_of,
    reference,
    series_of,
    shaded,
)
from iclab.study.claims import Claim, Judge, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, listed, paired_points, proportion
from iclab.study.settings import Chosen, Disclosed
from iclab.theory.outliers import all_outliers, linear_outlier_bound, mamba_outlier_bound

Rule = Literal["flip", "target", "random", "worst"]
Fraction = Annotated[float, Field(ge=0, le=1)]

SMALL = 0.01
"""The paper: the error of Mamba is "smaller than 0.01"."""
CLOSE_TO = 0.8
"""The paper: "even when α is close to 0.8". Read as: at every α ≤ 0.8."""
LARGE = 0.1
"""The paper: the error of the linear Transformer "is large". Read as: above ten times the small error."""

BASELINES = {
    "plain vote": reference("a plain vote", DASH_DOT, FAINT),
    "untrained mamba": reference("Mamba before training", DASHED, "#56B4E9"),
}
"""Reference measurements beside the models, and how to draw them."""
BELIEVED = reference("only outliers, labels trusted: α^l")
GUESSED = reference("only outliers, guessed: α^l / 2", DOTTED)
CLAIMED = shaded(f"the paper: Mamba below {SMALL}", "#0072B2", 0.08)
COVERED = Series("Theorem 2 covers α below this", "#0072B2", mark="triangle-up", line=False, size=60.0)
NO_ERROR = Series("no error seen", FAINT, line=False, hollow=True)
TITLES = {
    "flip": "A  labels flipped",
    "target": "B  one target label",
    "random": "C  random labels",
    "worst": "D  worst labels, exact",
}
UNKNOWN = ("known only for one", "layer that sums the", "votes of examples")
"""What the panel of the worst labels says if a model has no curve there."""
DRAWN = {"worst": "flip"}
"""The labels that prompts are drawn with, if not those of the rule: the probe ``worst`` finds its own."""
PAPERS = ("flip", "target", "random")
"""The rules of the paper's figure."""
BELIEVING = ("flip", "worst")
"""The rules under which a learner that trusts the labels is wrong if every example is an outlier."""
ENOUGH = 2_000
"""Prompts per seed for reference measurements. No claim uses them."""

MISSING = f"not judged without α = {CLOSE_TO} and one above 0.5, at most 0.6"
"""Why a claim is not judged under settings of the user's own."""


class FigureSettings(MambaPaper):
    """Settings of M-fig2: fractions, label rules and models."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    label_rules: Annotated[tuple[Rule, ...], Field(min_length=1), Disclosed("panels A, B, C, M §4.1; D is iclab's")] = (
        "flip",
        "target",
        "random",
        "worst",
    )
    models: Annotated[tuple[str, ...], Field(min_length=1), Disclosed("M §4.1; others may be added")] = (
        "mamba",
        "linear",
    )
    outlier_fractions: Annotated[
        tuple[Fraction, ...],
        Field(min_length=1),
        Chosen("0 to 0.9, with 0.55, 0.75 and 0.85 because the curves bend there", grid=True),
    ] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)

    baselines: Annotated[
        bool, Chosen("whether to measure a plain vote and the untrained Mamba on the same prompts", grid=True)
    ] = True

    @property
    def up_to_close(self) -> list[float]:
        """The fractions at which the paper claims a small error of Mamba."""
        return [f for f in self.outlier_fractions if f <= CLOSE_TO]

    @property
    def above_half(self) -> list[float]:
        """The fractions at which the paper claims a large error of the linear model."""
        return [f for f in self.outlier_fractions if f > linear_outlier_bound()]

    @property
    def reaches_half(self) -> bool:
        """Whether the grid has an α close enough above 1/2 for claims about every α > 1/2."""
        return any(f <= linear_outlier_bound() + 0.1 for f in self.above_half)

    def quick(self) -> FigureSettings:
        """Return the quick edition: one group of seeds, fewer fractions."""
        coarse = (0.0, 0.2, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
        fewer = tuple(f for f in self.outlier_fractions if f in coarse) or self.outlier_fractions
        return super().quick().replace(outlier_fractions=fewer)


class OutlierFraction(Experiment[FigureSettings]):
    """Error against α, one panel per label rule."""

    id = "M-fig2"
    title = "Error against the fraction of outliers"
    paper = (
        "Under three forms of outliers, the classification error of Mamba is smaller than 0.01 even when α is close "
        "to 0.8. The error of linear Transformers is large as long as α > 1/2."
    )
    reading = (
        "Top: the error as the paper plots it. Bottom: the same on a logarithmic scale. Lines are means over seeds; "
        "bands span the lowest to the highest seed. Dashed: the share of prompts in which every example is an "
        "outlier; without the label rule, such prompts say nothing about their task. Thin: a plain vote of the "
        "examples with the query's pattern, and Mamba before training, on the same prompts. D is not in the paper: in "
        "every prompt, outliers show the labels that make z·F smallest, of all 2^k, which the theorems allow."
    )
    theorems = ("M-thm2", "M-thm4")
    settings = FigureSettings

    def conditions(self, settings: FigureSettings) -> list[Condition]:
        """Return one training per model and group of seeds, measured at every rule and fraction, and the references."""
        conditions: list[Condition] = []

        def measure(name: str, training: Training, probe: str, count: int, at: int | None = None) -> None:
            for rule in settings.label_rules:
                # Flipped labels are the worst for a vote, so that it needs no probe of its own.
                here = "worst" if (rule, probe) == ("worst", "error") else probe
                if len(settings.label_rules) > 1 and measuring_obstacle(training, here, None, count):
                    continue  # the figure says why: `UNKNOWN`
                for fraction in settings.outlier_fractions:
                    prompts = settings.test_prompts_with(labels=DRAWN.get(rule, rule), **settings.amount(fraction))
                    measurement = {"prompts": prompts, "probe": here, "count": count, "at": at}
                    conditions.extend(in_groups(settings, _where(name, rule, fraction), training, **measurement))

        few = min(settings.test_prompts, ENOUGH)
        for model in settings.models:
            training = _training(settings, model)
            measure(training.model.label, training, "error", settings.test_prompts)
            if settings.baselines and model == settings.models[0]:
                measure("plain vote", training, "vote", few)
            if settings.baselines and model == "mamba":
                measure("untrained mamba", training, "error", few, at=0)
        return conditions

    def claims(self, settings: FigureSettings) -> list[Claim]:
        """Return four claims per label rule; of the worst labels the paper's figure says nothing."""
        claims = []
        low, high = listed(settings.up_to_close), listed(settings.above_half)
        both = listed(f for f in settings.above_half if f <= CLOSE_TO)
        for rule in settings.label_rules:
            share = "α^l" if rule in BELIEVING else "α^l / 2"
            ours = rule not in PAPERS
            claims += [
                Claim(
                    f"M-fig2.mamba-small.{rule}",
                    f"Mamba's error < {SMALL} even when α is close to {CLOSE_TO}",
                    f"mean error < {SMALL} at α = {low}",
                    _below(settings, rule),
                    models=("mamba",),
                    ours=ours,
                ),
                Claim(
                    f"M-fig2.mamba-excess.{rule}",
                    f"Mamba's error is < {SMALL} above that of a learner that is right if any example is clean "
                    "and trusts the labels if none is",
                    f"mean error − {share} < {SMALL} at α = {low}",
                    _below(settings, rule, beyond_floor=True),
                    models=("mamba",),
                    ours=True,
                ),
                Claim(
                    f"M-fig2.linear-large.{rule}",
                    "the linear Transformer's error is large as long as α > 1/2",
                    f"mean error > {LARGE} at α = {high}",
                    _large(settings, rule),
                    models=("linear",),
                    ours=ours,
                ),
                Claim(
                    f"M-fig2.gap.{rule}",
                    "Mamba can tolerate more than 1/2 fraction of outliers, linear Transformers cannot",
                    f"linear − Mamba > {SMALL} on paired seeds at α = {both}",
                    _gap(settings, rule),
                    models=("mamba", "linear"),
                    ours=ours,
                ),
            ]
        return claims

    def table(self, rows: list[Row], settings: FigureSettings) -> list[dict[str, Any]]:
        """Return one line per rule and fraction: the error of each model with its interval, and the floor."""
        lines = []
        for rule in settings.label_rules:
            for fraction in settings.outlier_fractions:
                line: dict[str, Any] = {"labels": rule, "α": f"{fraction:g}"}
                for model in dict.fromkeys(row["model"] for row in rows):
                    p = proportion(rows, **_where(model, rule, fraction))
                    line[model] = "–" if p is None else p.short()
                line["floor"] = f"{floor(settings, rule, fraction):.4f}"
                mamba = proportion(rows, **_where("mamba", rule, fraction))
                if mamba is not None and mamba.mean is not None:
                    excess = round(mamba.mean - floor(settings, rule, fraction), 4)
                    line["mamba − floor"] = f"{excess:+.4f}".replace("-", "−") if excess else "0.0000"
                else:
                    line["mamba − floor"] = "–"
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: FigureSettings) -> Figure:
        """Draw one column per label rule: the error, and below it the same on a logarithmic scale."""
        rules = [rule for rule in settings.label_rules if any(row["outlier_labels"] == rule for row in rows)]
        panels = [_panel(rows, settings, rule, logarithmic) for logarithmic in (False, True) for rule in rules]
        return Figure(panels, columns=len(rules), width=250 if len(rules) < 4 else 205, more=[NO_ERROR])


def floor(settings: FigureSettings, rule: str, fraction: float) -> float:
    """Return the error of a learner that is right if any example is clean and trusts the labels if none is."""
    hopeless = all_outliers(fraction, settings.context_length, settings.counting == "exact")
    return hopeless if rule in BELIEVING else hopeless / 2


def _training(settings: FigureSettings, model: str) -> Training:
    return Training(
        model=settings.model(model),
        prompts=settings.train_prompts(settings.train_outlier_fraction),
        recipe=settings.recipe(model),
        engine=settings.engine,
    )


def _where(model: str, rule: str, fraction: float) -> dict[str, Any]:
    return {"model": model, "outlier_labels": rule, "outlier_fraction": fraction}


def _beyond(
    rows: list[Row],
    settings: FigureSettings,
    model: str,
    rule: str,
    fractions: list[float],
    less: Callable[[float], float],
) -> list[Point] | None:
    """Make one point per fraction, minus ``less(fraction)``; None if the rows of any seed are missing."""
    points = error_points(rows, settings.seeds, [(f"α = {f:g}", _where(model, rule, f)) for f in fractions])
    return points and [
        Point(
            None if p.value is None else p.value - less(f),
            Interval(p.interval.low - less(f), p.interval.high - less(f)),
            p.where,
            p.diverged,
        )
        for p, f in zip(points, fractions, strict=True)
    ]


def _below(settings: FigureSettings, rule: str, beyond_floor: bool = False) -> Judge:
    def less(fraction: float) -> float:
        return floor(settings, rule, fraction) if beyond_floor else 0.0

    def points(rows: list[Row]) -> list[Point] | str | None:
        if CLOSE_TO not in settings.outlier_fractions:
            return MISSING
        return _beyond(rows, settings, "mamba", rule, settings.up_to_close, less)

    return judged(points, every_below, SMALL)


def _large(settings: FigureSettings, rule: str) -> Judge:
    def points(rows: list[Row]) -> list[Point] | str | None:
        cells = [(f"α = {f:g}", _where("linear", rule, f)) for f in settings.above_half]
        return error_points(rows, settings.seeds, cells) if settings.reaches_half else MISSING

    return judged(points, every_above, LARGE)


def _gap(settings: FigureSettings, rule: str) -> Judge:
    def points(rows: list[Row]) -> list[Point] | str | None:
        if not settings.reaches_half or CLOSE_TO not in settings.outlier_fractions:
            return MISSING
        pairs = []
        for fraction in (f for f in settings.above_half if f <= CLOSE_TO):
            linear, mamba = (errors(rows, **_where(model, rule, fraction)) for model in ("linear", "mamba"))
            pairs.append((f"α = {fraction:g}", linear, mamba))
        return paired_points(pairs, settings.seeds)

    return judged(points, every_above, SMALL)


def _panel(rows: list[Row], settings: FigureSettings, rule: Rule, logarithmic: bool) -> Panel:
    fractions = sorted({row["outlier_fraction"] for row in rows})
    least = 0.3 / settings.test_prompts / settings.seeds  # less than one error in all prompts
    panel = Panel(
        TITLES[rule],
        x=Axis("fraction of outliers α", domain=(-0.02, max(0.92, max(fractions) + 0.02))),
        y=Axis("error, logarithmic", domain=(least, 1.5), scale="log") if logarithmic else Axis("error", domain=(0, 1)),
    )
    panel.rule(x=0.5, dash=DOTTED)
    if rule in PAPERS:
        panel.band(CLAIMED, [0.0, CLOSE_TO], [least, least], [SMALL, SMALL])
    bound = mamba_outlier_bound(settings.train_outlier_fraction, settings.context_length, settings.context_length)
    panel.points(COVERED, [bound], [least if logarithmic else 0.0])
    if settings.counting == "bernoulli":  # exact counts always leave a clean example
        hopeless = [max(all_outliers(f, settings.context_length, False), least / 10) for f in fractions]
        panel.line(BELIEVED, fractions, hopeless)
        panel.line(GUESSED, fractions, [max(h / 2, least / 10) for h in hopeless])
    for name, series in BASELINES.items():
        found = [errors(rows, **_where(name, rule, f)) for f in fractions]
        if logarithmic:  # a logarithmic scale cannot show 0
            found = [by_seed if any(by_seed.values()) else {} for by_seed in found]
        if any(found):
            panel.curve(series, fractions, found, band=False)
    models = [model for model in dict.fromkeys(row["model"] for row in rows) if model not in BASELINES]
    for model in models:
        lost = {row["seed"] for row in rows if row["model"] == model and row["diverged"]}
        note = f" ({len(lost)} seeds diverged)" if lost else ""
        series = series_of(model, models, name=name_of(model) + note)
        found = [errors(rows, **_where(model, rule, f)) for f in fractions]
        if logarithmic:
            unseen = [f for f, by_seed in zip(fractions, found, strict=True) if by_seed and not any(by_seed.values())]
            found = [{s: None if e is None else max(e, least) for s, e in by_seed.items()} for by_seed in found]
            panel.curve(series, fractions, found)
            panel.points(series, unseen, [least] * len(unseen), hollow=True)
        else:
            panel.curve(series, fractions, found)
    trainings = (_training(settings, model) for model in settings.models)
    lacking = rule == "worst" and any(measuring_obstacle(t, rule, None, settings.test_prompts) for t in trainings)
    for line, text in enumerate(UNKNOWN if lacking and not logarithmic else ()):
        panel.note(text, 0.0, 0.94 - 0.07 * line)
    return panel
