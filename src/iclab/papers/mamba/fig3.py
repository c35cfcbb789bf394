"""M-fig3: the attention of Mamba's first layer during training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from iclab.lab import MeasurementCell, TrainingCell
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.probes import Row
from iclab.probes.tracing import most
from iclab.study.charts import FAINT, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, every_above, judged, mean_point
from iclab.study.experiment import Condition, Experiment
from iclab.study.rows import difference, lost
from iclab.study.settings import Chosen

SERIES = {
    "same": Series("on examples with the query's pattern", "#0072B2"),
    "other": Series("on examples with another pattern", FAINT),
}


class AttentionSettings(DeepMambaPaper):
    """Settings of M-fig3 and M-fig5."""

    outlier_fraction: Annotated[
        float, Field(ge=0, le=1), Chosen("the paper states α only for M-fig4 and M-fig6; the same value is used here")
    ] = 0.3
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and kept step", grid=True)] = 1_000


class AttentionOverTraining(Experiment[AttentionSettings]):
    """Sums of attention scores in some layers."""

    layers: ClassVar[tuple[int, ...]]
    caption = "mean over seeds (lowest to highest)"
    theorems = ("M-cor1",)
    settings = AttentionSettings

    def conditions(self, settings: AttentionSettings) -> list[Condition]:
        """Return one training, measured at every kept step."""
        training = settings.training("deep-mamba")
        return [
            Condition(
                {"step": step},
                MeasurementCell(
                    training=cell,
                    probe="attention",
                    prompts=settings.placed("random"),
                    count=settings.test_prompts,
                    at=step,
                ),
            )
            for cell in TrainingCell.groups(training, settings.seeds)
            for step in training.recipe.kept
        ]

    def claims(self, settings: AttentionSettings) -> list[Claim]:
        """Claim for each layer that same ≫ other after training, and that the gap grows."""
        n, claims = settings.seeds, []
        for layer in self.layers:
            claims += [
                Claim(
                    f"{self.id}.same-larger.layer{layer}",
                    "the sum of attention on examples that share the query's pattern is significantly larger",
                    "same − 2 × max(other, 0) > 0 after training, mean over seeds",
                    judged(mean_point(n, partial(_excess, layer=layer, step=settings.steps)), every_above, 0.0),
                ),
                Claim(
                    f"{self.id}.gap-grows.layer{layer}",
                    "this gap increases during training",
                    "(same − other) after training − before > 0, on paired seeds",
                    judged(mean_point(n, partial(_growth, layer=layer, steps=settings.steps)), every_above, 0.0),
                ),
            ]
        return claims

    def table(self, rows: list[Row], settings: AttentionSettings) -> list[dict[str, Any]]:
        """Return one line per layer and kept step."""
        lines = []
        for layer in self.layers:
            for step in sorted({row["step"] for row in rows}):
                same, other = (_values(rows, layer, step, kind) for kind in ("same", "other"))
                lines.append({"layer": layer, "step": step, "same pattern": _text(same), "others": _text(other)})
        return lines

    def chart(self, rows: list[Row], settings: AttentionSettings) -> Figure:
        """Draw one panel per layer: both sums against the training step."""
        steps = sorted({row["step"] for row in rows})
        panels = []
        for layer in self.layers:
            panel = Panel(f"layer {layer}", x=Axis("training step"), y=Axis("sum of attention scores"))
            for kind, series in SERIES.items():
                panel.curve(series, steps, [_values(rows, layer, step, kind) for step in steps])
            panels.append(panel)
        return Figure(panels, columns=2, width=340)


class FirstLayer(AttentionOverTraining):
    """Layer 1."""

    id = "M-fig3"
    title = "Attention of Mamba's first layer during training"
    paper = (
        "The sum of attention scores on examples that share the query's pattern is significantly larger than on the "
        "others, and the gap increases during training (layer 1)."
    )
    reading = (
        "Sums of the scores p_iᵀW_BᵀW_C p_query over the examples of a test prompt, mean over seeds; bands span the "
        "lowest to the highest seed. Step 0 is the untrained model."
    )
    layers = (1,)


def _values(rows: list[Row], layer: int, step: int, kind: str) -> dict[int, float]:
    """Return the sum of each seed that did not diverge."""
    return {
        row["seed"]: row[kind]
        for row in rows
        if row["step"] == step and row["layer"] == layer and row[kind] is not None
    }


def _text(values: dict[int, float]) -> str:
    if not values:
        return "–"
    numbers = list(values.values())
    return f"{sum(numbers) / len(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"


def _excess(rows: list[Row], layer: int, step: int) -> BySeed:
    """Return same − 2 × max(other, 0) of each seed."""
    return _combined(rows, layer, step, lambda same, other: same - 2 * most([other, 0.0]))


def _growth(rows: list[Row], layer: int, steps: int) -> BySeed:
    """Return the growth of same − other of each seed."""
    after, before = (_combined(rows, layer, step, lambda same, other: same - other) for step in (steps, 0))
    return difference(after, before)


def _combined(rows: list[Row], layer: int, step: int, how: Callable[[float, float], float]) -> BySeed:
    same, other = (_values(rows, layer, step, kind) for kind in ("same", "other"))
    return lost(rows, step=step) | {seed: how(same[seed], other[seed]) for seed in same}
