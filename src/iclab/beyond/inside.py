"""inside: a few prompts, example by example, in Mamba and a linear Transformer, before, during and after training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import MambaPaper
from iclab.probes import Row
from iclab.study.charts import INK, Axis, Figure, Panel, Series, colour_of, name_of, series_of
from iclab.study.claims import BySeed, Claim, Point, every_above, every_below, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.settings import Chosen, Different, Disclosed

OUTLIER = Series("outlier", INK, mark="cross", line=False, size=34.0)
SEED = 0
"""The seed with the shown prompts."""
SHARE = 0.1
"""M Corollary 2: gates are close to 0 on outliers. Read as: their share of all weight is below this."""


class InsideSettings(MambaPaper):
    """Settings of inside: prompts, models and training steps."""

    train_outlier_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("p_a, M §4.1")] = 0.6
    outlier_fraction: Annotated[
        float,
        Field(ge=0, le=1),
        Chosen("α of the shown prompts: more than half of the examples are outliers", grid=True),
    ] = 0.6
    outlier_labels: Annotated[
        Literal["random", "flip", "target"],
        Chosen("the hardest rule of M-fig2: outliers show the wrong label", grid=True),
    ] = "flip"
    models: Annotated[
        tuple[Literal["mamba", "linear"], ...], Field(min_length=1), Different, Disclosed("M §4.1", grid=True)
    ] = ("mamba", "linear")
    test_prompts: Annotated[int, Field(ge=1, le=100), Chosen("stored prompts per seed", grid=True)] = 12
    shown: Annotated[int, Field(ge=1, le=100), Chosen("the number of prompts on the page", grid=True)] = 6
    watched: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1),
        Different,
        Chosen("steps after which weights are stored, closer together at the start", grid=True),
    ] = (0, 5, 10, 20, 50, 100, 200, 500, 1000)

    def training(self, name: str) -> Training:
        """Return the training of M-fig2, with weights stored during training."""
        recipe = self.recipe(name).replace(snapshots=tuple(sorted(step for step in self.watched if step < self.steps)))
        prompts = self.train_prompts(self.train_outlier_fraction)
        return Training(model=self.model(name), prompts=prompts, recipe=recipe, engine=self.engine)

    @property
    def times(self) -> list[int]:
        """The shown steps, including the last one."""
        return sorted({step for step in self.watched if step < self.steps} | {self.steps})


class Inside(Experiment[InsideSettings]):
    """The votes of single examples."""

    id = "inside"
    title = "One prompt, example by example"
    paper = (
        "A one-layer Mamba is linear attention times a gate (M (3)). Attention selects examples with the query's "
        "pattern; the gate suppresses outliers and decays with distance. A linear Transformer is the same without the "
        "gate."
    )
    reading = (
        "The examples of a prompt from left to right; the rightmost is nearest to the query. Each example votes for "
        "the label it shows, with its attention times its gate. The sum of all votes is the answer. Outliers show the "
        "wrong label: compare their votes in Mamba, which has a gate, and in the linear Transformer, which has none."
    )
    caption = "the first prompts of seed 0 after training"
    theorems = ("M-cor1", "M-cor2")
    settings = InsideSettings

    def conditions(self, settings: InsideSettings) -> list[Condition]:
        """Return the same prompts at every stored step, for all models."""
        prompts = settings.test_prompts_with(
            labels=settings.outlier_labels, **settings.amount(settings.outlier_fraction)
        )
        return [
            condition
            for name in settings.models
            for step in settings.times
            for condition in in_groups(
                settings,
                {"model": name, "step": step},
                settings.training(name),
                probe="tokens",
                prompts=prompts,
                count=settings.test_prompts,
                at=step,
            )
        ]

    def claims(self, settings: InsideSettings) -> list[Claim]:
        """Claim that Mamba's gate suppresses outliers, and that they count in the linear Transformer."""
        shown = f"α = {settings.outlier_fraction:g}, labels {settings.outlier_labels}"
        rule = f"over all prompts of a seed, mean over seeds, {shown}"
        least = settings.outlier_fraction / 2

        def points(model: str) -> Callable[[list[Row]], list[Point] | None]:
            share = partial(_share, settings=settings, model=model)
            return mean_point(settings.seeds, share, fate="diverged or have no vote")

        tests = {
            "mamba": Claim(
                "inside.mamba.silenced",
                "Mamba suppresses outliers",
                f"share of outliers in Σ |vote| < {SHARE} after training; {rule}",
                judged(points("mamba"), every_below, SHARE),
                models=("mamba",),
                ours=True,
            ),
            "linear": Claim(
                "inside.linear.counted",
                "the linear Transformer weighs outliers like clean examples",
                f"share of outliers in Σ |vote| > {least:g}, half of their share in the prompt, after training; {rule}",
                judged(points("linear"), every_above, least),
                models=("linear",),
                ours=True,
            ),
        }
        return [tests[model] for model in settings.models]

    def table(self, rows: list[Row], settings: InsideSettings) -> list[dict[str, Any]]:
        """Return one line per prompt and model."""
        lines = []
        found = _shown(rows)
        for prompt in range(min(settings.shown, settings.test_prompts)):
            for model in settings.models:
                tokens = found.get((model, settings.steps, prompt))
                if not tokens:
                    continue
                right = tokens[0]["target"] * tokens[0]["output"] > 0
                votes = {flag: sum(t["vote"] for t in tokens if t["outlier"] is flag) for flag in (False, True)}
                lines.append(
                    {
                        "prompt": prompt + 1,
                        "model": name_of(model),
                        "query's label": f"{tokens[0]['target']:+.0f}",
                        "outliers": sum(t["outlier"] for t in tokens),
                        "votes of clean examples": f"{votes[False]:+.3f}",
                        "votes of outliers": f"{votes[True]:+.3f}",
                        "answer": f"{tokens[0]['output']:+.3f}",
                        "is": "right" if right else "wrong",
                    }
                )
        if not lines:
            lost = any(row["diverged"] for row in rows if row["seed"] == SEED and row["step"] == settings.steps)
            names = ("model", "query's label", "outliers", "votes of clean examples", "votes of outliers", "answer")
            lines = [{"prompt": "–"} | dict.fromkeys(names, "–") | {"is": "diverged" if lost else "not run"}]
        return lines

    def chart(self, rows: list[Row], settings: InsideSettings) -> Figure:
        """Draw the vote of each example of the first prompt after training."""
        panels = []
        for model in settings.models:
            tokens = _shown(rows).get((model, settings.steps, 0), [])
            panel = Panel(
                f"{name_of(model)}{_answered(tokens)}",
                x=Axis(
                    "example (rightmost: nearest to the query)",
                    domain=(0.5, settings.context_length + 0.5),
                    ticks=range(1, settings.context_length + 1),
                ),
                y=Axis("vote for the label"),
                height=150,
            )
            panel.rule(y=0)
            for token in tokens:
                panel.stem(series_of(model, line=False), token["place"], token["vote"])
            out = [token for token in tokens if token["outlier"]]
            panel.points(OUTLIER, [t["place"] for t in out], [t["vote"] for t in out])
            panels.append(panel)
        return Figure(panels, columns=1, width=680)

    def steps(self, rows: list[Row], settings: InsideSettings) -> dict[str, Any] | None:
        """Return the shown prompts at every stored step, for the page."""
        found = _shown(rows)
        names = [m for m in settings.models if all((m, step, 0) in found for step in settings.times)]
        if not names:
            return None
        prompts: list[dict[str, Any]] = []
        views: dict[str, list[list[dict[str, Any]]]] = {model: [] for model in names}
        for prompt in range(min(settings.shown, settings.test_prompts)):
            tokens = found[names[0], settings.times[0], prompt]
            wrong = sum(t["label"] != t["true_label"] for t in tokens)
            named = f"prompt {prompt + 1}: {sum(t['outlier'] for t in tokens)} outliers, {wrong} wrong labels"
            facts = ("same", "outlier", "label", "true_label")
            about = {"name": named, "target": tokens[0]["target"]}
            prompts.append(about | {"tokens": [{name: t[name] for name in facts} for t in tokens]})
            for model in names:
                views[model].append([_view(found[model, step, prompt]) for step in settings.times])
        models = [{"name": name_of(m), "colour": colour_of(m), "views": views[m]} for m in names]
        return {"prompts": prompts, "steps": settings.times, "models": models}


def _shown(rows: list[Row]) -> dict[tuple[str, int, int], list[Row]]:
    """Return the examples of the shown seed by model, step and prompt, farthest from the query first."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        if row["seed"] == SEED and not row["diverged"]:
            found.setdefault((row["model"], row["step"], row["prompt"]), []).append(row)
    return {key: sorted(tokens, key=lambda row: row["place"]) for key, tokens in found.items()}


def _view(tokens: list[Row]) -> dict[str, Any]:
    lists = {name: [float(f"{t[name]:.5g}") for t in tokens] for name in ("attention", "gate", "vote")}
    return {**lists, "output": float(f"{tokens[0]['output']:.5g}")}


def _answered(tokens: list[Row]) -> str:
    if not tokens:
        return ""
    answer, target = tokens[0]["output"], tokens[0]["target"]
    return f": {answer:+.2f}, {'right' if answer * target > 0 else 'wrong'}".replace("-", "−")


def _share(rows: list[Row], settings: InsideSettings, model: str) -> BySeed:
    """Return the share of outliers in Σ |vote| after training, per seed; None if it diverged or has no votes."""
    found: BySeed = {}
    sums: dict[int, list[float]] = {}
    for row in rows:
        if row["model"] == model and row["step"] == settings.steps:
            if row["diverged"]:
                found[row["seed"]] = None
                continue
            total = sums.setdefault(row["seed"], [0.0, 0.0])
            total[0] += abs(row["vote"]) * row["outlier"]
            total[1] += abs(row["vote"])
    return found | {seed: part / whole if whole else None for seed, (part, whole) in sums.items()}
