"""M-fig4: gates of Mamba's first layer by distance from the query, for clean examples and outliers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from iclab.engines import Training
from iclab.lab import MeasurementCell, TrainingCell
from iclab.models import Model
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.probes import Row
from iclab.probes.tracing import log, mean
from iclab.study.charts import Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Judge, every_above, every_below, judged, mean_point
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import slope, straightness
from iclab.study.rows import difference, lost
from iclab.study.settings import Chosen, Disclosed

SERIES = {
    "clean": Series("clean examples", "#009E73"),
    "outlier": Series("outliers", "#D55E00"),
}
HALVING = reference("halving")
STAGES = {
    "untrained": "untrained",
    "trained": "trained",
    "closest": "second half on CQ",
    "one layer": "one layer, no norm",
    "one layer, norm": "one layer, norm",
}
"""Measured models and their headings. Models of one layer are trained as in M-fig2, except for p_a."""
SMALL = 0.1
"""The paper: gates of outliers are "very small". Read as: below a tenth of the gates of clean examples
at the same distance."""
Profile = list[float]
"""Gates of one seed, nearest example first."""
STRAIGHT = 0.95
"""The paper: clean gates show "an approximately exponential decay". Read as: R² of their logarithms above this."""


class GateSettings(DeepMambaPaper):
    """Settings of M-fig4 and M-fig6."""

    outlier_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("α, M §4.2")] = 0.3
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed", grid=True)] = 2_000
    near: Annotated[
        int, Field(ge=4), Chosen("the largest distance in the claims: beyond it, both kinds of gates are below 0.001")
    ] = 8

    @model_validator(mode="after")
    def _within_the_prompt(self) -> GateSettings:
        if self.near > self.context_length:
            raise ValueError(f"near = {self.near}: must be at most context_length = {self.context_length}")
        return self


class GatesByDistance(Experiment[GateSettings]):
    """Gates of some layers, by distance from the query."""

    layers: ClassVar[tuple[int, ...]]
    caption = "mean gate over seeds"
    theorems = ("M-cor2",)
    settings = GateSettings

    def conditions(self, settings: GateSettings) -> list[Condition]:
        """Return Mamba of M-tab1 (untrained, trained), Mamba of M-cq-training and two models of one layer."""
        plain, one = settings.training("deep-mamba"), settings.one_layer()
        alone = Training(
            model=one.model("mamba"),
            prompts=one.train_prompts(settings.train_outlier_fraction),
            recipe=one.recipe("mamba"),
            engine=settings.engine,
        )
        normed = Model(name="deep-mamba", options={"layers": 1, "norm": "rms", "init_scale": settings.init_scale})
        stages: dict[str, tuple[Training, int | None]] = {
            "untrained": (plain, 0),
            "trained": (plain, None),
            "closest": (settings.replace(cq_training=True).training("deep-mamba"), None),
        }
        if 1 in self.layers:
            stages["one layer"] = (alone, None)
            stages["one layer, norm"] = (alone.replace(model=normed, engine="auto"), None)
        return [
            Condition(
                {"stage": stage},
                MeasurementCell(
                    training=cell,
                    probe="gates",
                    prompts=settings.placed("random"),
                    count=settings.test_prompts,
                    at=at,
                ),
            )
            for stage, (training, at) in stages.items()
            for cell in TrainingCell.groups(training, settings.seeds)
        ]

    def claims(self, settings: GateSettings) -> list[Claim]:
        """Claim small gates of outliers and exponential decay for clean examples, and ask what training adds."""
        claims = [claim for layer in self.layers for claim in self._layer_claims(settings, layer)]
        if 1 in self.layers:
            for name, stage, norm in (("", "one layer", "without"), (".norm", "one layer, norm", "with")):
                statement = f"the same in a Mamba of one layer, {norm} a norm"
                claims.append(
                    self._small_claim(settings, f"one-layer{name}", 1, stage, statement, models=("mamba",), ours=True)
                )
        return claims

    def _small_claim(
        self, settings: GateSettings, name: str, layer: int, stage: str, statement: str, **more: Any
    ) -> Claim:
        """Claim that gates of outliers are small in one layer of one model."""
        of_layer = partial(ratios, layer=layer, stage=stage, near=settings.near)
        return Claim(
            f"{self.id}.outlier-small.{name}",
            statement,
            f"outlier gate / clean gate < {SMALL}, mean over distances 1 to {settings.near}, over seeds",
            judged(mean_point(settings.seeds, of_layer), every_below, SMALL),
            **{"models": ("deep-mamba",)} | more,
        )

    def _layer_claims(self, settings: GateSettings, layer: int) -> list[Claim]:
        def above(margin: float, values: Callable[..., BySeed], **more: Any) -> Judge:
            of_layer = partial(values, layer=layer, near=settings.near, **more)
            return judged(mean_point(settings.seeds, of_layer), every_above, margin)

        mamba = ("deep-mamba",)
        return [
            self._small_claim(
                settings,
                f"layer{layer}",
                layer,
                "trained",
                "the gates of outliers are very small, those of clean examples relatively large",
            ),
            self._small_claim(
                settings, f"layer{layer}.cq-training", layer, "closest", "the same after training on CQ", ours=True
            ),
            Claim(
                f"{self.id}.training-shuts.layer{layer}",
                "training lowers the gates of outliers",
                "ratio of outlier to clean gates: untrained − trained > 0, on paired seeds",
                above(0.0, _shut),
                models=mamba,
                ours=True,
            ),
            Claim(
                f"{self.id}.decay.layer{layer}",
                "clean gates decay approximately exponentially with the distance from the query (this is true of any "
                "gate, trained or not, if examples are independent)",
                f"R² of log gate against distance > {STRAIGHT}, over distances 1 to {settings.near}, over seeds",
                above(STRAIGHT, _straight, stage="trained"),
                models=mamba,
            ),
            Claim(
                f"{self.id}.half-life.layer{layer}",
                "Corollary 2: the gate of the j-th nearest clean example is at least of the order 2^−(j−1)",
                f"mean ratio of the gates of clean examples j + 1 and j > 0.5, for j < {settings.near}, over seeds",
                above(0.5, _fading, stage="trained"),
                models=mamba,
            ),
        ]

    def table(self, rows: list[Row], settings: GateSettings) -> list[dict[str, Any]]:
        """Return one line per layer and distance: clean and outlier gates of every stage."""
        lines = []
        for layer in self.layers:
            for place in range(1, settings.near + 1):
                line: dict[str, Any] = {"layer": layer, "distance": place}
                for stage in dict.fromkeys(row["stage"] for row in rows):
                    for kind in ("clean", "outlier"):
                        values = [profile[place - 1] for profile in _profiles(rows, layer, stage, kind).values()]
                        good = [value for value in values if np.isfinite(value)]
                        line[f"{stage}: {kind}"] = f"{np.mean(good):.4f}" if good else "–"
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: GateSettings) -> Figure:
        """Draw one row of panels per layer, one panel per stage, on a logarithmic scale."""
        stages = list(dict.fromkeys(row["stage"] for row in rows))
        panels = [_panel(rows, layer, stage, settings) for layer in self.layers for stage in stages]
        return Figure(panels, columns=len(stages) if len(stages) <= 3 else 3, width=260)


class FirstLayerGates(GatesByDistance):
    """Layer 1."""

    id = "M-fig4"
    title = "Gates of Mamba's first layer by distance from the query"
    paper = (
        "With α = 0.3 the gates of outliers are very small, while those of clean examples are relatively large and "
        "decay approximately exponentially with the distance from the query (layer 1)."
    )
    reading = (
        "Mean over seeds of the gate G of the label's channel at the query; bands span the lowest to the highest seed. "
        "Dashed: halving with every step, which σ(0) = 1/2 gives before training. Right: one layer trained as in "
        "M-fig2, without and with a norm; everything else is the same."
    )
    layers = (1,)


def _profiles(rows: list[Row], layer: int, stage: str, kind: str) -> dict[int, list[float]]:
    """Return the gates of each seed, nearest example first; NaN if there was no such example."""
    found: dict[int, dict[int, float]] = {}
    for row in rows:
        if (row["stage"], row["layer"], row["kind"]) == (stage, layer, kind):
            found.setdefault(row["seed"], {})[row["place"]] = np.nan if row["gate"] is None else row["gate"]
    return {seed: [places[p] for p in sorted(places)] for seed, places in found.items()}


def _each(rows: list[Row], layer: int, stage: str, kinds: Sequence[str], how: Callable[..., float]) -> BySeed:
    """Compute one number per seed from its profiles; None if it diverged. Seeds without such examples are missing."""
    found = lost(rows, stage=stage)
    profiles = [_profiles(rows, layer, stage, kind) for kind in kinds]
    for seed in profiles[0]:
        value = how(*(profile[seed] for profile in profiles))
        if np.isfinite(value):
            found[seed] = value
    return found


def ratios(rows: list[Row], layer: int, stage: str, near: int) -> BySeed:
    """Return outlier gate / clean gate of each seed, mean over distances."""

    def how(clean: Profile, outlier: Profile) -> float:
        return mean([a / b if b else math.nan for a, b in zip(outlier[:near], clean[:near], strict=True)])

    return _each(rows, layer, stage, ("clean", "outlier"), how)


def _shut(rows: list[Row], layer: int, near: int) -> BySeed:
    """Return how much the ratio of each seed falls in training."""
    before, after = (ratios(rows, layer, stage, near) for stage in ("untrained", "trained"))
    return difference(before, after)


def _straight(rows: list[Row], layer: int, stage: str, near: int) -> BySeed:
    """Return R² of log gate against distance of each seed; 0 if gates grow with distance."""

    def how(clean: Profile) -> float:
        if not all(gate > 0 for gate in clean[:near]):  # or NaN
            return math.nan
        logs = [log(gate) for gate in clean[:near]]
        return straightness(range(near), logs) if slope(range(near), logs) < 0 else 0.0

    return _each(rows, layer, stage, ("clean",), how)


def _fading(rows: list[Row], layer: int, stage: str, near: int) -> BySeed:
    """Return the geometric mean of gate ratios from one clean example to the next, for each seed."""

    def how(ranked: Profile) -> float:
        return (ranked[near - 1] / ranked[0]) ** (1 / (near - 1)) if ranked[0] else math.nan

    return _each(rows, layer, stage, ("clean_rank",), how)


def _panel(rows: list[Row], layer: int, stage: str, settings: GateSettings) -> Panel:
    length = settings.context_length
    panel = Panel(
        f"layer {layer}: {STAGES[stage]}",
        x=Axis("distance from the query", domain=(0.5, length + 0.5)),
        y=Axis("gate", domain=(1e-6, 1.0), scale="log"),
    )
    for kind, series in SERIES.items():
        profiles = _profiles(rows, layer, stage, kind)
        places = range(1, 1 + max(map(len, profiles.values()), default=0))
        gates = [
            {seed: max(profile[p - 1], 1e-6) for seed, profile in profiles.items() if np.isfinite(profile[p - 1])}
            for p in places
        ]
        panel.curve(series, list(places), gates)
    halves = np.arange(1, length + 1)
    panel.line(HALVING, halves.tolist(), (0.25 * 0.5 ** (halves - 1.0)).tolist())
    return panel
