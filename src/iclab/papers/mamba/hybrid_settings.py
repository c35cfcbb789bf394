"""Settings of M-hybrid: orders of layers, norms, and the step size of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Annotated, Literal, Self

from pydantic import Field

from iclab.config import InputError
from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.models.deep_hybrid import LAYERS, layer_names
from iclab.papers.mamba.hybrid_tuning import RULE
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different

NormName = Literal["own", "rms"]
LETTERS = {name[0]: name for name in LAYERS}
USUAL = 0.2
"""The step size of all orders that the tables below do not name."""


def orders(depths: Iterable[int]) -> list[str]:
    """Return every order of layers, such as ``mamba,softmax``.

    >>> orders([1])
    ['mamba', 'linear', 'softmax']
    """
    return [",".join(order) for depth in depths for order in product(LAYERS, repeat=depth)]


def _table(others: dict[float, str]) -> dict[str, float]:
    """Return the step size of every order of two and three layers, given those that are not usual by their letters."""
    found = dict.fromkeys(orders((2, 3)), USUAL)
    for size, listed in others.items():
        found |= {",".join(LETTERS[letter] for letter in order): size for order in listed.split()}
    return found


STEP_SIZES: dict[NormName, dict[str, float]] = {
    "own": _table(
        {0.01: "mll sll", 0.02: "mml", 0.05: "ml mlm mls msl ssl", 0.1: "lml lll lsl sml slm sls"},
    ),
    "rms": _table({}),
}
"""What `hybrid_tuning` found."""


class HybridSettings(DeepMambaPaper):
    """Settings of M-hybrid."""

    depths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different, Chosen("numbers of layers", grid=True)
    ] = (2, 3)
    norms: Annotated[
        tuple[NormName, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "own: a norm before layers of Mamba and softmax and none before linear attention, as in M-tab1; rms: one "
            "before every layer",
            grid=True,
        ),
    ] = ("own", "rms")
    order_steps: Annotated[dict[NormName, dict[str, float]], Chosen(RULE)] = STEP_SIZES

    instead = {
        "layers": "depths",
        "architectures": "norms",
        "step_sizes": "order_steps",
        "outlier_labels": "none: both rules are measured",
        "cq_training": "none: outliers stand anywhere in training",
    }

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts, each kind of layer with its own norm."""
        kept = tuple(norm for norm in self.norms if norm == "own") or self.norms
        return super().quick().replace(norms=kept, test_prompts=min(self.test_prompts, 500))

    def training_of(self, order: str, norm: NormName) -> Training:
        """Return the training of one order of layers."""
        layer_names(order)
        options = {"layers": order, "norm": norm, "init_scale": self.init_scale}
        size = self.order_steps.get(norm, {}).get(order)
        if size is None:
            raise InputError(f"order_steps.{norm}: has none for {order}; add one, such as 0.05")
        recipe: Recipe = self.recipe_of("deep-hybrid", steps=self.steps, batch_size=self.batch_size, step_size=size)
        prompts = self.train_prompts(self.train_outlier_fraction)
        return Training(
            model=Model(name="deep-hybrid", options=options), prompts=prompts, recipe=recipe, engine=self.engine
        )

    def placed_with(self, labels: str, placement: str) -> Prompts:
        """Return test prompts with a label rule and a placement of outliers."""
        return self.as_kind(DeepMambaPaper, outlier_labels=labels).placed(placement)
