"""Settings of M-tab7: prompts of eight sentences, a trigger in some of them, and the models that read them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from iclab.config import InputError
from iclab.engines import Recipe, Training
from iclab.models import Model, architecture
from iclab.papers.mamba.settings import DEEP, Options
from iclab.papers.mamba.text import TextSettings
from iclab.prompts import Outliers, Patterns, Prompts
from iclab.study.settings import Chosen, Different, Disclosed
from iclab.text import TRIGGER, Sentences
from iclab.text.sources import SplitName

Rule = Literal["target", "random", "flip", "worst"]
ONE_LAYER = ("mamba", "linear", "softmax")
GATED = ("deep-mamba", "mamba")
WORST = ("mamba", "linear")
"""Models whose exact worst case is known."""
STEP_SIZES = {
    **{"deep-mamba": 0.1, "deep-linear": 0.1, "deep-softmax": 0.1},
    **{"mamba": 1.0, "linear": 0.02, "softmax": 0.3},
}


class TriggerSettings(TextSettings):
    """Settings of M-tab7."""

    trigger: Annotated[
        str,
        Field(min_length=1),
        Disclosed("M B.2: James Bond. Others to try: cf (a rare word), 'I watched this in Paris', '! ? !'"),
    ] = TRIGGER
    context_length: Annotated[int, Field(ge=1), Disclosed("M B.2: 8 examples and a query")] = 8
    train_outlier_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("p_a, M B.2")] = 0.25
    outlier_fraction: Annotated[float, Field(ge=0, le=1), Disclosed("α, M B.2")] = 0.75
    layers: Annotated[int, Field(ge=1), Disclosed("M B.2")] = 3
    heads: Annotated[int, Field(ge=1), Disclosed("M B.2")] = 2
    components: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "how many principal components a token has; the paper does not say. The ten of M-tab6 hardly hold the "
            "trigger: with SST-2 and MiniLM, a linear classifier finds it in 74 % of the sentences, and in 94 % with 50"
        ),
    ] = (50, 10)
    pattern_norm: Annotated[float, Field(gt=0), Chosen("β, the mean norm of clean training vectors; as in M §4")] = 3.0
    versions: Annotated[
        int, Field(ge=1, le=16), Chosen("how many places of the trigger are encoded for each sentence", grid=True)
    ] = 1
    train_labels: Annotated[
        Literal["random", "target", "flip"],
        Chosen("labels of triggered examples in training; the paper does not say. Random, as in Definition 1"),
    ] = "random"
    label_rules: Annotated[
        tuple[Rule, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "labels of triggered examples in tests; the paper does not say for this table. Target is its Example 1: "
            "always positive. Worst is the exact worst case, which is known for one layer of Mamba and of linear",
            grid=True,
        ),
    ] = ("target", "random", "flip", "worst")
    models: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Disclosed("M B.2 has the first two; softmax attention and one layer are here for comparison", grid=True),
    ] = ("deep-mamba", "deep-linear", "deep-softmax", "mamba", "linear", "softmax")
    architectures: Annotated[dict[str, Options], Chosen("those of M-tab1, which gives the reasons")] = DEEP
    init_scale: Annotated[float, Disclosed("δ, M §4")] = 0.2
    batch_size: Annotated[int, Field(ge=1), Chosen("B, as in M-tab1")] = 128
    steps: Annotated[
        int,
        Field(ge=1),
        Chosen("T: as in M-tab1. One layer of Mamba falls from 68 to 65 % at FQ with 1,000 larger steps"),
    ] = 500
    step_sizes: Annotated[
        dict[str, float],
        Chosen(
            "plain SGD, tried with SST-2 and MiniLM on its dev sentences, 8 seeds, accuracy at FQ / R / CQ in %, "
            "target labels, 50 components. One layer of Mamba: 68.0 / 65.0 / 60.5 at 1, 65.2 / 62.3 / 59.0 at 3 with "
            "1,000 steps; three layers 64.1 / 63.8 / 61.6 at 0.1, 66.5 / 61.6 / 55.8 at 0.02, where gates "
            "of triggered examples are still more than half of clean ones. Linear 60.9 / 60.4 / 60.5"
        ),
    ] = STEP_SIZES
    seeds: Annotated[
        int,
        Field(ge=1),
        Chosen("one group of eight: six models, two numbers of components in a few minutes", grid=True),
    ] = 8
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("per seed and condition; models answer the same prompts", grid=True)
    ] = 1_000
    shown: Annotated[
        int, Field(ge=1, le=50), Chosen("how many prompts the page shows with their sentences", grid=True)
    ] = 6

    evidence = (
        "Numbers of step_sizes are from single trainings, 1,000 prompts per seed, on sentences that tests do not use."
    )

    def quick(self) -> Self:
        """Return the quick edition: two models of each depth, two label rules, one number of components."""
        rules = tuple(rule for rule in self.label_rules if rule in ("target", "flip")) or self.label_rules
        models = tuple(name for name in self.models if "softmax" not in name) or self.models
        fewer: dict[str, Any] = {"label_rules": rules, "models": models, "components": self.components[:1]}
        counts = {"test_prompts": min(self.test_prompts, 500), "steps": min(self.steps, 300)}
        return super().quick().replace(**fewer, **counts)

    def tables_of(self, components: int) -> Sentences:
        """Return the sentences as vectors with so many principal components."""
        return self.sentences(
            components=components, norm=self.pattern_norm, trigger=self.trigger, versions=self.versions
        )

    def prompts(self, components: int, split: SplitName, fraction: float, **outliers: Any) -> Prompts:
        """Return prompts over a split; there are two tasks, labels as they are and swapped."""
        return Prompts(
            patterns=Patterns(table=self.tables_of(components).table(split)),
            context_length=self.context_length,
            outliers=Outliers(fraction=fraction, **outliers),
        )

    def model(self, name: str) -> Model:
        """Return a model of one layer or of several."""
        if ":" in name:
            return Model(name=name)
        if not architecture(name).several_layers:
            return Model(name=name, options={"init_scale": self.init_scale})
        if name not in self.architectures:
            raise InputError(f"architectures = {', '.join(self.architectures)}: has none for {name}; add one")
        shape = {"layers": self.layers, "heads": self.heads, "init_scale": self.init_scale}
        return Model(name=name, options={**shape, **self.architectures[name]})

    def training(self, name: str, components: int) -> Training:
        """Return the training of one model."""
        size = self.step_size_of(name, self.step_sizes.get(name) or architecture(name).step_size)
        prompts = self.prompts(components, "train", self.train_outlier_fraction, labels=self.train_labels)
        recipe = self.recipe_of(name, steps=self.steps, batch_size=self.batch_size, step_size=size)
        return Training(model=self.model(name), prompts=prompts, recipe=recipe, engine=self.engine)

    def learner(self, components: int, learner: str) -> Training:
        """Return a classical learner, which is fitted to the examples of each prompt."""
        model = Model(name="classical", options={"learner": learner, "cosine": True})
        prompts = self.prompts(components, "train", self.train_outlier_fraction, labels=self.train_labels)
        return Training(model=model, prompts=prompts, recipe=Recipe(steps=0))
