"""Settings of M-regression: those of M-fig2, with real labels and the squared loss."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.papers.mamba.settings import MambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different, Disclosed

Fraction = Annotated[float, Field(ge=0, lt=1)]
RIDGE = "ridge"


class RegressionSettings(MambaPaper):
    """Settings of M-regression."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    outlier_fractions: Annotated[
        tuple[Fraction, ...], Field(min_length=1), Different, Chosen("α of the curves", grid=True)
    ] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    label_rules: Annotated[
        tuple[Literal["random", "flip"], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "numbers that outliers show: random as in E.8; −r beside it, the counterpart of M-fig2's flip", grid=True
        ),
    ] = ("random", "flip")
    ridge_strength: Annotated[
        float,
        Field(gt=0),
        Chosen("α of ridge regression: the best on training prompts. 0.11 at 1, 0.083 at 10, 0.10 at 33, 0.14 at 100"),
    ] = 10.0
    softmax_steps: Annotated[int, Field(ge=1), Chosen("T of softmax attention, which PyTorch trains", grid=True)] = 1000
    watched: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Chosen("steps after which Mamba's answers are looked at", grid=True)
    ] = (10, 20, 30, 50, 100, 300)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 5_000

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer fractions and prompts, a shorter training of softmax."""
        fewer = tuple(f for f in self.outlier_fractions if f in (0.0, 0.2, 0.4, 0.6, 0.8)) or self.outlier_fractions
        less = {"softmax_steps": min(self.softmax_steps, 300), "test_prompts": min(self.test_prompts, 2_000)}
        return super().quick().replace(outlier_fractions=fewer, **less)

    def training(self, name: str) -> Training:
        """Return the training of a model on real labels."""
        prompts = self.train_prompts(self.train_outlier_fraction).replace(label_values="real")
        if name == RIDGE:
            model = Model(name="classical", options={"learner": "ridge", "penalty": 1.0 / self.ridge_strength})
            return Training(model=model, prompts=prompts, recipe=Recipe(steps=0), engine=self.engine)
        recipe = self.recipe(name).replace(loss="squared")
        if name == "softmax":
            recipe = recipe.replace(steps=min(self.steps, self.softmax_steps))
        if name == "mamba":
            recipe = recipe.replace(snapshots=tuple(sorted({step for step in self.watched if step < recipe.steps})))
        return Training(model=self.model(name), prompts=prompts, recipe=recipe, engine=self.engine)

    def classifying(self) -> Training:
        """Return Mamba's training on signs, that of M-fig2."""
        prompts = self.train_prompts(self.train_outlier_fraction)
        return Training(model=self.model("mamba"), prompts=prompts, recipe=self.recipe("mamba"), engine=self.engine)

    def tested(self, rule: str, fraction: float) -> Prompts:
        """Return test prompts with real labels."""
        return self.test_prompts_with(labels=rule, **self.amount(fraction)).replace(label_values="real")
