"""M-remark6: softmax attention, several heads and Mamba in one layer (M Remark 6, B.1).

Theorems 1 to 4 compare Mamba with linear attention of one head, "as the gating is the only difference". Remark 6 says
that other Transformers can be robust as well; B.1 tries several heads and softmax attention, in three layers. Here they
have one layer, like the models of the theorems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field

from iclab.engines import Training
from iclab.models import Model
from iclab.papers.mamba.settings import DEEP, DEEP_STEPS, MambaPaper
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, Axis, Figure, Panel, Series, colour_of, reference
from iclab.study.claims import Claim, Direction, Judge, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, listed, paired_points, proportion
from iclab.study.settings import Chosen, Different, Disclosed

HALF = 0.5
"""Theorem 4 speaks of α below this."""
CLOSE, LARGE = 0.05, 0.1
"""How far softmax's error may be above Mamba's, to be close; and in direction."""
EXACT = "worst labels"
FLIP = "flipped labels"
PROBES = {EXACT: "worst", FLIP: "error"}

Fraction = Annotated[float, Field(gt=0, lt=1)]


class Layer(NamedTuple):
    """One of the compared models: a layer, and the labels that it is tested with."""

    name: str
    training: Training
    labels: tuple[str, ...]


class Remark6Settings(MambaPaper):
    """Settings of M-remark6."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    heads: Annotated[
        tuple[Annotated[int, Field(ge=2)], ...],
        Field(min_length=1),
        Different,
        Chosen("heads of linear attention besides one; each must divide d = 30", grid=True),
    ] = (2, 3, 5)
    outlier_fractions: Annotated[
        tuple[Fraction, ...], Field(min_length=1), Different, Chosen("α on both sides of 1/2", grid=True)
    ] = (*(0.2, 0.4, 0.5, 0.6, 0.7, 0.8),)
    other_steps: Annotated[
        int, Field(ge=1), Chosen("T of softmax attention and several heads, which PyTorch trains", grid=True)
    ] = 1000
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 5_000

    def quick(self) -> Self:
        """Return the quick edition: two heads, fewer fractions and prompts, shorter trainings in PyTorch."""
        less = {"other_steps": min(self.other_steps, 200), "test_prompts": min(self.test_prompts, 2_000)}
        coarse = tuple(f for f in self.outlier_fractions if f in (0.2, 0.4, 0.6, 0.8)) or self.outlier_fractions
        return super().quick().replace(heads=self.heads[:1], outlier_fractions=coarse, **less)

    def layers(self) -> list[Layer]:
        """Return the models, from those of the theorems to those of B.1."""
        prompts = self.train_prompts(self.train_outlier_fraction)
        others = min(self.other_steps, self.steps)

        def of(name: str, labels: tuple[str, ...]) -> Layer:
            recipe = self.recipe(name) if EXACT in labels else self.recipe(name).replace(steps=others)
            model = self.model(name)
            return Layer(name, Training(model=model, prompts=prompts, recipe=recipe, engine=self.engine), labels)

        found = [of("mamba", (FLIP, EXACT)), of("linear", (FLIP, EXACT))]
        for heads in self.heads:
            options = DEEP["deep-linear"] | {"layers": 1, "heads": heads, "init_scale": self.init_scale}
            recipe = self.recipe("linear").replace(steps=others, step_size=DEEP_STEPS["deep-linear"])
            model = Model(name="deep-linear", options=options)
            training = Training(model=model, prompts=prompts, recipe=recipe, engine=self.engine)
            found.append(Layer(_heads(heads), training, (FLIP,)))
        return [*found, of("softmax", (FLIP,))]


def _heads(count: int) -> str:
    return f"linear, {count} heads"


class OtherLayers(Experiment[Remark6Settings]):
    """Error against α, for one layer of each kind."""

    id = "M-remark6"
    title = "Softmax attention and several heads in one layer, against Mamba"
    paper = (
        "Mamba is compared with linear attention of one layer and one head, as the gating is the only difference; "
        "other Transformers can be robust (Remark 6). In three layers softmax attention is better than linear "
        "attention and close to Mamba (B.1)."
    )
    reading = (
        "Mean error over seeds against the fraction of outliers; bands span the lowest to the highest seed. Left: "
        "flipped labels, the rule that the proofs take as the worst. Right: the exact worst labels, which iclab can "
        "find for Mamba and for linear attention of one head."
    )
    theorems = ("M-thm2", "M-thm4")
    settings = Remark6Settings

    def conditions(self, settings: Remark6Settings) -> list[Condition]:
        """Return every layer under its label rules, at every α."""
        found: list[Condition] = []
        for layer in settings.layers():
            for labels in layer.labels:
                for fraction in settings.outlier_fractions:
                    prompts = settings.test_prompts_with(labels="flip", **settings.amount(fraction))
                    cell = {"probe": PROBES[labels], "prompts": prompts, "count": settings.test_prompts}
                    found += in_groups(settings, _where(layer.name, labels, fraction), layer.training, **cell)
        return found

    def claims(self, settings: Remark6Settings) -> list[Claim]:
        """Return what of the paper's picture depends on one head, and on linear attention."""
        many = [f for f in settings.outlier_fractions if f > HALF]
        grid = listed(settings.outlier_fractions)
        names = tuple(_heads(count) for count in settings.heads)
        heads = [(f"{name}, α = {f:g}", _where(name, FLIP, f)) for name in names for f in many]
        trained = min(settings.train_outlier_fraction, max(settings.outlier_fractions))
        known = [f for f in settings.outlier_fractions if f <= trained]
        return [
            Claim(
                "M-remark6.heads",
                "more heads do not carry one layer of linear attention beyond α = 1/2",
                f"mean error with flipped labels > {HALF:g} at α = {listed(many)}, {listed(settings.heads)} heads",
                judged(lambda rows: error_points(rows, settings.seeds, heads) if heads else None, every_above, HALF),
                ours=True,
            ),
            Claim(
                "M-remark6.softmax-linear",
                "softmax attention is better than linear attention, as in three layers (B.1)",
                f"error of softmax − of linear with one head < 0 on paired seeds at α = {grid}",
                _paired(settings, "softmax", "linear", settings.outlier_fractions, 0.0),
                ours=True,
            ),
            Claim(
                "M-remark6.softmax-mamba",
                "softmax attention is close to Mamba, as in three layers (B.1): it needs no gate",
                f"error of softmax − of Mamba < {CLOSE:g} on paired seeds at α = {listed(known)}, up to p_a",
                _paired(settings, "softmax", "mamba", known, CLOSE),
                ours=True,
                direction=Direction(f"< {LARGE:g}", _paired(settings, "softmax", "mamba", known, LARGE)),
            ),
        ]

    def table(self, rows: list[Row], settings: Remark6Settings) -> list[dict[str, Any]]:
        """Return one line per layer and label rule."""
        return [
            {"one layer of": layer.name, "labels": labels}
            | {f"α = {f:g}": _text(rows, _where(layer.name, labels, f)) for f in settings.outlier_fractions}
            for layer in settings.layers()
            for labels in layer.labels
        ]

    def chart(self, rows: list[Row], settings: Remark6Settings) -> Figure:
        """Draw one panel per label rule."""
        looks = _looks(settings)
        panels = []
        for title, labels in (("A  flipped labels", FLIP), ("B  worst labels, exact", EXACT)):
            panel = Panel(title, x=Axis("fraction of outliers α", domain=(0, 1)), y=Axis("error", domain=(0, 1)))
            panel.rule(x=HALF, dash=DOTTED)
            panel.line(P_A, [settings.train_outlier_fraction] * 2, [0.0, 1.0])
            for layer in (layer for layer in settings.layers() if labels in layer.labels):
                found = [errors(rows, **_where(layer.name, labels, f)) for f in settings.outlier_fractions]
                panel.curve(looks[layer.name], list(settings.outlier_fractions), found)
            panels.append(panel)
        return Figure(panels, columns=2, width=330)


P_A = reference("p_a, outliers in training", DASHED)


def _looks(settings: Remark6Settings) -> dict[str, Series]:
    looks = (("#E69F00", "diamond"), ("#CC79A7", "triangle-up"), ("#56B4E9", "triangle-down"))
    found = {}
    for i, count in enumerate(settings.heads):
        colour, mark = looks[i % len(looks)]
        found[_heads(count)] = Series(_heads(count), colour, mark=mark, hollow=True)
    single = {"mamba": "Mamba", "linear": "linear, one head", "softmax": "softmax"}
    return found | {name: Series(text, colour_of(name)) for name, text in single.items()}


def _where(name: str, labels: str, fraction: float) -> dict[str, Any]:
    return {"layer": name, "labels": labels, "outlier_fraction": fraction}


def _text(rows: list[Row], where: dict[str, Any]) -> str:
    found = proportion(rows, **where)
    return "–" if found is None else found.short()


def _paired(settings: Remark6Settings, first: str, second: str, fractions: Sequence[float], margin: float) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        pairs = [
            (f"α = {f:g}", errors(rows, **_where(first, FLIP, f)), errors(rows, **_where(second, FLIP, f)))
            for f in fractions
        ]
        return paired_points(pairs, settings.seeds)

    return judged(points, every_below, margin)
