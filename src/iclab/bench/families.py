"""What `iclab bench` measures: one family of models after the other, each at the setting of its paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from iclab.bench.counts import Counts, deep, one_layer, transformer
from iclab.config import InputError
from iclab.engines import Training
from iclab.papers.mamba.fig2 import FigureSettings
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.prompts import Prompts


class Steps(NamedTuple):
    """Steps of a timed run of slow loops, which cost the same at every step of a training."""

    loop: int
    jax: int
    reference: int


class Family(NamedTuple):
    """Models that share their kernels, with the training to time."""

    name: str
    training: Training
    """The training, with the recipe's own number of steps; its engine is the one without fused kernels."""
    steps: Steps
    counts: Callable[[Training], Counts]
    tests: Prompts | None = None
    """Prompts on which probes are timed too."""

    def on(self, engine: str, **recipe: Any) -> Training:
        """Return the training on an engine, with changes of its recipe."""
        return self.training.replace(engine=engine, recipe=self.training.recipe.replace(**recipe))

    def obstacle(self) -> str:
        """Say why the fused engine does not take the training; '' if it does."""
        try:
            self.on("fused")
        except (InputError, ValueError) as error:
            return str(error).splitlines()[0]
        return ""


def families() -> tuple[Family, ...]:
    """Return all families."""
    figure, tables, nonlinear = FigureSettings(), DeepMambaPaper(), NonlinearPaper()
    prompts = figure.train_prompts(figure.train_outlier_fraction)
    shallow = {
        m: Training(model=figure.model(m), prompts=prompts, recipe=figure.recipe(m)) for m in ("mamba", "linear")
    }
    stacked = {m: tables.training(m) for m in ("deep-mamba", "deep-linear", "deep-softmax")}
    tests = nonlinear.prompts(tasks=nonlinear.unseen())
    return (
        *(Family(m, _on("reference", t), Steps(200, 100, 60), one_layer) for m, t in shallow.items()),
        *(Family(m, _on("reference", t), Steps(40, 10, 20), deep) for m, t in stacked.items()),
        Family("softmax-mlp", _on("compact", nonlinear.training()), Steps(100, 40, 60), transformer, tests),
    )


def _on(engine: str, training: Training) -> Training:
    return training.replace(engine=engine, recipe=training.recipe.replace(snapshots=()))
