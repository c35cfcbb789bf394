"""M-fig4 and M-fig6: the gates of Mamba's three layers by distance from the query, for clean examples and outliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from iclab.engines import Training
from iclab.experiments import style
from iclab.experiments.claims import Claim, Judgement, Point, every_above, every_below
from iclab.experiments.experiment import Condition, Experiment
from iclab.experiments.settings import Chosen, DeepMambaPaper, Disclosed
from iclab.lab import MeasurementCell, TrainingCell, groups
from iclab.probes import Row, over_seeds

CLEAN, OUTLIER = "#009E73", "#D55E00"
STAGES = {
    "untrained": "untrained",
    "trained": "trained",
    "closest": "second half on CQ",
    "one layer": "one layer, no norm",
}
"""What is measured, and its heading; one layer, as in M-fig2 but for p_a, has gates in layer 1 only."""
SMALL = 0.1
"""The paper: gates of outliers are "very small". Read as: below a tenth of a clean example's at the same distance."""
STRAIGHT = 0.95
"""The paper: clean gates show "an approximately exponential decay". Read as: R² of their logarithms above this."""


class GateSettings(DeepMambaPaper):
    """M-fig4 and M-fig6."""

    outlier_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("α, M §4.2")] = 0.3
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed")] = 2_000
    near: Annotated[
        int, Field(ge=2, le=20), Chosen("distances the claims look at: farther away both kinds fade below 0.001")
    ] = 8


class GatesByDistance(Experiment[GateSettings]):
    """Gates of some layers."""

    layers: ClassVar[tuple[int, ...]]
    caption = "mean gate over seeds"
    settings = GateSettings

    def conditions(self, settings: GateSettings) -> list[Condition]:
        """The trained and the untrained Mamba of M-tab1, the one of M-cq-training, and one of one layer."""
        plain, one = settings.training("deep-mamba"), settings.one_layer()
        alone = Training(
            model=one.model("mamba"),
            prompts=one.train_prompts(settings.train_outlier_fraction),
            recipe=one.recipe("mamba"),
            engine=settings.engine,
        )
        stages: dict[str, tuple[Training, int | None]] = {
            "untrained": (plain, 0),
            "trained": (plain, None),
            "closest": (settings.changed(cq_training=True).training("deep-mamba"), None),
        }
        if 1 in self.layers:
            stages["one layer"] = (alone, None)
        return [
            Condition(
                {"stage": stage},
                MeasurementCell(
                    training=TrainingCell(training=training, group=group),
                    probe="gates",
                    prompts=settings.placed("random"),
                    count=settings.test_prompts,
                    at=at,
                ),
            )
            for stage, (training, at) in stages.items()
            for group in groups(settings.seeds)
        ]

    def claims(self, settings: GateSettings) -> list[Claim]:
        """Outliers shut out, clean examples fading exponentially; and how much of it training brings."""
        near = f"distances 1 to {settings.near}"
        claims = []
        for layer in self.layers:
            claims += [
                Claim(
                    f"{self.id}.outlier-small.layer{layer}",
                    "the gates of outliers are very small, those of clean examples relatively large",
                    f"outlier gate / clean gate < {SMALL}, mean over {near}, over seeds",
                    _judge(
                        settings, partial(_ratios, layer=layer, stage="trained", near=settings.near), SMALL, every_below
                    ),
                ),
                Claim(
                    f"{self.id}.outlier-small.layer{layer}.cq-training",
                    "(iclab's) the same after training on CQ",
                    f"outlier gate / clean gate < {SMALL}, mean over {near}, over seeds",
                    _judge(
                        settings, partial(_ratios, layer=layer, stage="closest", near=settings.near), SMALL, every_below
                    ),
                ),
                Claim(
                    f"{self.id}.training-shuts.layer{layer}",
                    "(iclab's yardstick) the untrained model does not do it already",
                    "ratio of outlier to clean gates: untrained − trained > 0, on paired seeds",
                    _judge(settings, partial(_shut, layer=layer, near=settings.near), 0.0, every_above),
                ),
                Claim(
                    f"{self.id}.decay.layer{layer}",
                    "clean gates decay approximately exponentially with the distance from the query",
                    f"R² of log gate against distance > {STRAIGHT}, over {near}, over seeds",
                    _judge(
                        settings,
                        partial(_straight, layer=layer, stage="trained", near=settings.near),
                        STRAIGHT,
                        every_above,
                    ),
                ),
            ]
        if 1 in self.layers:
            claims.append(
                Claim(
                    f"{self.id}.outlier-small.one-layer",
                    "(iclab's) the same in a Mamba of one layer, which has no norm",
                    f"outlier gate / clean gate < {SMALL}, mean over {near}, over seeds",
                    _judge(
                        settings,
                        partial(_ratios, layer=1, stage="one layer", near=settings.near),
                        SMALL,
                        every_below,
                    ),
                )
            )
        return claims

    def table(self, rows: list[Row], settings: GateSettings) -> list[dict[str, Any]]:
        """A line a layer and distance: clean and outlier gates, untrained and trained."""
        lines = []
        for layer in self.layers:
            for place in range(1, settings.near + 1):
                line: dict[str, Any] = {"layer": layer, "distance": place}
                for stage in dict.fromkeys(row["stage"] for row in rows):
                    for kind in ("clean", "outlier"):
                        values = [profile[place - 1] for profile in _profiles(rows, layer, stage, kind).values()]
                        line[f"{stage}: {kind}"] = f"{np.nanmean(values):.4f}" if values else "–"
                lines.append(line)
        return lines

    def draw(self, rows: list[Row], settings: GateSettings) -> Figure:
        """Draw a row a layer, a panel a stage, on a logarithmic scale."""
        with mpl.rc_context(style.RC):
            stages = list(dict.fromkeys(row["stage"] for row in rows))
            figure = Figure(figsize=(3.2 * len(stages), 2.7 * len(self.layers) + 1.3), layout="constrained")
            axes = figure.subplots(len(self.layers), len(stages), sharex=True, sharey=True, squeeze=False)
            for down, layer in enumerate(self.layers):
                for across, stage in enumerate(stages):
                    _panel(axes[down][across], rows, layer, stage)
                    if down == 0:
                        axes[down][across].set_title(STAGES[stage], fontweight="bold")
                axes[down][0].set_ylabel(f"layer {layer}: gate")
            for panel in axes[-1]:
                panel.set_xlabel("distance from the query")
            figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
            style.title(figure, self.id, self.title, rows, settings)
            return figure


class FirstLayerGates(GatesByDistance):
    """Layer 1."""

    id = "M-fig4"
    title = "Gates of Mamba's first layer by distance from the query"
    paper = (
        "With α = 0.3 the gates of outliers are very small, while those of clean examples are relatively large and "
        "decay approximately exponentially with the distance from the query (layer 1)."
    )
    reading = (
        "Mean gate G of the label's channel, seen from the query, over seeds; bands run from the lowest to the highest "
        "seed. Dashed, halving with every step: σ(0) = 1/2 gives that before any training. Right, one layer as in "
        "M-fig2: there no norm makes outliers small, and the gate learns to."
    )
    layers = (1,)


class LaterGates(GatesByDistance):
    """Layers 2 and 3."""

    id = "M-fig6"
    title = "Gates of Mamba's second and third layer by distance from the query"
    paper = "As in M-fig4, in layers 2 and 3."
    reading = "As M-fig4. These layers read tokens that earlier ones have mixed, outliers with clean examples."
    layers = (2, 3)


def _profiles(rows: list[Row], layer: int, stage: str, kind: str) -> dict[int, list[float]]:
    """Each seed's gates, nearest example first; NaN where there was none."""
    found: dict[int, dict[int, float]] = {}
    for row in rows:
        if (row["stage"], row["layer"], row["kind"]) == (stage, layer, kind):
            found.setdefault(row["seed"], {})[row["place"]] = np.nan if row["gate"] is None else row["gate"]
    return {seed: [places[p] for p in sorted(places)] for seed, places in found.items()}


def _ratios(rows: list[Row], layer: int, stage: str, near: int) -> dict[int, float]:
    """Each seed's mean outlier gate divided by its mean clean gate, distance by distance."""
    clean, outlier = (_profiles(rows, layer, stage, kind) for kind in ("clean", "outlier"))
    return {s: float(np.nanmean(np.divide(outlier[s][:near], clean[s][:near]))) for s in clean}


def _shut(rows: list[Row], layer: int, near: int) -> dict[int, float]:
    before, after = (_ratios(rows, layer, stage, near) for stage in ("untrained", "trained"))
    return {seed: before[seed] - after[seed] for seed in after if seed in before}


def _straight(rows: list[Row], layer: int, stage: str, near: int) -> dict[int, float]:
    """Each seed's R² of log gate against distance; 0 where gates grow with distance."""
    found = {}
    for seed, profile in _profiles(rows, layer, stage, "clean").items():
        logs, distance = np.log(profile[:near]), np.arange(1, near + 1)
        correlation = float(np.corrcoef(distance, logs)[0, 1])
        found[seed] = correlation**2 if correlation < 0 else 0.0
    return found


def _judge(
    settings: GateSettings,
    values: Callable[[list[Row]], dict[int, float]],
    margin: float,
    rule: Callable[[Sequence[Point], float], Judgement],
) -> Callable[[list[Row]], Judgement]:
    """Judge the mean over seeds of one number a seed."""

    def judge(rows: list[Row]) -> Judgement:
        stages = {row["stage"] for row in rows}
        measured = [{row["seed"] for row in rows if row["stage"] == stage} for stage in stages]
        if not {"untrained", "trained", "closest"} <= stages or min(map(len, measured)) < settings.seeds:
            return Judgement("not run")
        found = list(values(rows).values())
        mean = sum(found) / len(found) if found else None
        return rule([Point(mean, over_seeds(found or [0.0]), "", settings.seeds - len(found))], margin)

    return judge


def _panel(axes: Axes, rows: list[Row], layer: int, stage: str) -> None:
    style.grid(axes)
    for kind, colour in (("clean", CLEAN), ("outlier", OUTLIER)):
        profiles = np.array(list(_profiles(rows, layer, stage, kind).values()))  # (seeds, l)
        if not len(profiles):
            continue
        distance = np.arange(1, profiles.shape[1] + 1)
        axes.fill_between(distance, profiles.min(0), profiles.max(0), color=colour, alpha=0.2, linewidth=0)
        label = f"{kind} examples"
        axes.plot(distance, profiles.mean(0), color=colour, marker="o", markersize=3.2, linewidth=1.4, label=label)
    halves = np.arange(1, 21)
    axes.plot(
        halves, 0.25 * 0.5 ** (halves - 1), color=style.INK, linewidth=0.9, linestyle=(0, (4, 2)), label="halving"
    )
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 1.0)
    axes.set_xlim(0.5, 20.5)
    axes.set_xticks([1, 5, 10, 15, 20])
