"""M-regression: real labels and the squared loss (M E.8, (202) to (204)).

A prompt's task gives each of its two patterns a number, uniform on (−1, 1); outliers show random numbers, "one option"
of E.8. Nothing else changes: the data, the models and the step sizes are those of M-fig2.
"""

from __future__ import annotations

from typing import Any

from iclab.papers.mamba.regression_claims import SEEN, beyond, equations, floor, picture, where
from iclab.papers.mamba.regression_settings import RIDGE, RegressionSettings
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, Axis, Figure, Panel, Series, colour_of, reference, series_of
from iclab.study.claims import BySeed, Claim
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import values
from iclab.theory.regression import VARIANCE, linear_floor

MODELS = ("mamba", "linear", "softmax")


class Regression(Experiment[RegressionSettings]):
    """Mean squared error against α."""

    id = "M-regression"
    title = "Real labels and the squared loss"
    paper = (
        "E.8: the analysis can be extended to regression with the squared loss, whose gradients are (202), (203) and "
        "(204). F is generally between −1 and 1 before convergence. Random labels of outliers cancel out in the "
        "gradient, so that the gate learns outlier patterns; the rest is almost as for classification."
    )
    reading = (
        "A, B: the mean of (F − z)² over seeds; bands span the lowest to the highest seed. The floor is what the best "
        "gate, σ for all clean examples and 0 for outliers, can reach: Mamba and linear attention add up examples, and "
        "their number differs from prompt to prompt. Softmax attention divides by it. Linear attention is off at small "
        "α because its scale suits the counts of training; the table has errors with the best scale too. Ridge "
        "regression is fitted to each prompt's own examples. C: gates of clean examples and outliers by distance from "
        "the query, for Mamba trained on real labels and on signs: regression wants a longer memory."
    )
    settings = RegressionSettings

    def conditions(self, settings: RegressionSettings) -> list[Condition]:
        """Return errors of all models, gates of Mamba under both losses, its answers in training and its gradients."""
        found: list[Condition] = []
        for name in (*MODELS, RIDGE):
            training = settings.training(name)
            for rule in settings.label_rules:
                for fraction in settings.outlier_fractions:
                    prompts = settings.tested(rule, fraction)
                    cell = {"probe": "squares", "prompts": prompts, "count": settings.test_prompts}
                    found += in_groups(settings, where(name, rule, fraction), training, **cell)
        mamba = settings.training("mamba")
        seen = settings.test_prompts_with(labels="random", **settings.amount(SEEN))
        few = min(settings.test_prompts, 1_000)
        for loss, training, prompts in (
            ("squared", mamba, settings.tested("random", SEEN)),
            ("hinge", settings.classifying(), seen),
        ):
            found += in_groups(
                settings, {"measured": "gates", "loss": loss}, training, probe="gates", prompts=prompts, count=few
            )
        logits = {"probe": "logits", "prompts": mamba.prompts, "count": min(few, 500)}
        found += in_groups(settings, {"measured": "logits"}, mamba, **logits)
        answers = {"probe": "squares", "prompts": mamba.prompts, "count": few, "at": "every"}
        found += in_groups(settings, {"measured": "answers"}, mamba, **answers)
        for stage, at in (("start", 0), ("end", None)):
            gradients = {"probe": "gradients", "prompts": mamba.prompts, "count": min(few, 256), "at": at}
            found += in_groups(settings, {"measured": "gradients", "stage": stage}, mamba, **gradients)
        return found

    def claims(self, settings: RegressionSettings) -> list[Claim]:
        """Return E.8's equations and its picture, and what theory adds."""
        return [*equations(settings), *picture(settings), *beyond(settings)]

    def table(self, rows: list[Row], settings: RegressionSettings) -> list[dict[str, Any]]:
        """Return one line per label rule and fraction, with floors."""
        lines = []
        for rule in settings.label_rules:
            for fraction in settings.outlier_fractions:
                line: dict[str, Any] = {"labels": rule, "α": f"{fraction:g}"}
                for name in (*MODELS, RIDGE):
                    line[name] = _text(values(rows, "squares", **where(name, rule, fraction)))
                for name in ("mamba", "linear"):
                    line[f"{name}, rescaled"] = _text(values(rows, "rescaled", **where(name, rule, fraction)))
                line["floor of a gate"] = f"{floor(settings, fraction):.4f}"
                line["floor of linear"] = f"{linear_floor(fraction, settings.context_length):.4f}"
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: RegressionSettings) -> Figure:
        """Draw one panel per label rule, and the gates."""
        titles = {"random": "outliers show random numbers", "flip": "outliers show −r"}
        panels = [
            _panel(rows, settings, rule, f"{a}  {titles[rule]}")
            for a, rule in zip("AB", settings.label_rules, strict=False)
        ]
        return Figure([*panels, _gates(rows, "ABC"[len(panels)])], columns=3, width=270)


FLOOR_LINE = reference("floor of the best gate", DASHED)
ZERO_LINE = reference("the answer 0", DOTTED)
LOOKS = {RIDGE: Series("ridge regression on the prompt", "#E69F00", mark="diamond", hollow=True)}
GATES = {
    ("squared", "clean"): Series("gates on real labels: clean", colour_of("mamba")),
    ("squared", "outlier"): Series("gates on real labels: outliers", colour_of("mamba"), hollow=True),
    ("hinge", "clean"): Series("gates on signs: clean", "#56B4E9", mark="square"),
    ("hinge", "outlier"): Series("gates on signs: outliers", "#56B4E9", mark="square", hollow=True),
}


def _panel(rows: list[Row], settings: RegressionSettings, rule: str, title: str) -> Panel:
    fractions = list(settings.outlier_fractions)
    panel = Panel(
        title,
        x=Axis("fraction of outliers α", domain=(-0.02, 0.82)),
        y=Axis("mean squared error", domain=(1e-5, 2.0), scale="log"),
    )
    panel.line(ZERO_LINE, [0.0, 0.8], [VARIANCE] * 2, marks=False)
    panel.line(FLOOR_LINE, fractions, [floor(settings, f) for f in fractions], marks=False)
    for name in (*MODELS, RIDGE):
        found = [values(rows, "squares", **where(name, rule, f)) for f in fractions]
        shown = [{s: None if v is None else max(v, 1e-5) for s, v in by_seed.items()} for by_seed in found]
        panel.curve(LOOKS.get(name) or series_of(name), fractions, shown)
    return panel


def _gates(rows: list[Row], letter: str) -> Panel:
    panel = Panel(
        f"{letter}  Mamba's gates, α = {SEEN:g}",
        x=Axis("distance from the query", domain=(0, 20.5)),
        y=Axis("gate", domain=(1e-6, 1.0), scale="log"),
    )
    places = sorted({row["place"] for row in rows if row["measured"] == "gates" and row["place"] is not None})
    for (loss, kind), series in GATES.items():
        found = [values(rows, "gate", measured="gates", loss=loss, kind=kind, place=place) for place in places]
        panel.curve(series, places, [{s: v and max(v, 1e-6) for s, v in by_seed.items()} for by_seed in found])
    return panel


def _text(by_seed: BySeed) -> str:
    good = [value for value in by_seed.values() if value is not None]
    return f"{sum(good) / len(good):.4f}" if good else "–"
