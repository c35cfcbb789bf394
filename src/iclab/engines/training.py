"""A training: a model, the prompts it sees, a recipe, and the engine that runs it."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from iclab.config import Config, OutsideTheoremWarning
from iclab.engines.recipe import Recipe
from iclab.engines.registry import ENGINES
from iclab.models import MODELS, Model
from iclab.prompts import Prompts, meets_condition_1

EngineName = Literal["auto", "fused", "compact", "reference"]


class Training(Config):
    """Everything that decides a training except the seed."""

    model: Model
    prompts: Prompts = Prompts()
    recipe: Recipe = Recipe()
    engine: EngineName = "auto"
    """``auto`` becomes the fastest engine that applies."""
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    """``cuda`` runs the reference engine on a GPU; nobody has tested this yet."""
    basis_seed: Annotated[int | None, Field(ge=0, lt=2**32)] = None
    """The seed of the rotation of the patterns; by default each training seed has its own rotation."""

    @model_validator(mode="before")
    @classmethod
    def _model_by_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and not isinstance(data.get("model"), (Model, dict)):
            return {**data, "model": {"name": data.get("model")}}
        return data

    @model_validator(mode="after")
    def _one_basis(self) -> Training:
        for switch in self.recipe.switches:
            if switch.prompts.patterns != self.prompts.patterns or self.prompts.fits(switch.prompts):
                raise ValueError(
                    f"switches at step {switch.step}: must use the patterns and labels of the first prompts"
                )
        return self

    @model_validator(mode="after")
    def _fits_labels(self) -> Training:
        loss, levels, model = self.recipe.loss, self.prompts.levels, self.model
        if self.prompts.label_values == "real" and isinstance(loss, str) and loss != "squared" and self.recipe.steps:
            raise ValueError(f"recipe.loss = {loss}: is for labels of ±1; real labels need squared, or one of your own")
        if levels > 1 and not model.takes_levels:
            known = ", ".join(name for name, made in MODELS.items() if made.takes_levels)
            raise ValueError(
                f"prompts.levels = {levels}: {model.label} answers one level; models for several: {known}, and classes "
                "of yours that declare takes_levels = True"
            )
        return self

    @model_validator(mode="after")
    def _settle_engine(self) -> Training:
        if self.engine == "auto":  # settled here, so that the hash holds the engine that runs
            applies = next(name for name, engine in ENGINES.items() if not engine.obstacle(self))
            object.__setattr__(self, "engine", applies)
        elif obstacle := ENGINES[self.engine].obstacle(self):
            raise ValueError(f"engine = {self.engine}: does not apply: {obstacle}; use auto or reference")
        return self

    @cached_property
    def _rehearsals(self) -> dict[Any, Any]:
        """What `iclab.engines.rehearsal` found out about the model; no part of the description."""
        return {}

    @property
    def phases(self) -> tuple[Prompts, ...]:
        """The prompt distributions it trains on, in order."""
        return (self.prompts, *(switch.prompts for switch in self.recipe.switches))

    def prompts_at(self, step: int) -> Prompts:
        """Return the distribution that iteration ``step`` draws from."""
        current = self.prompts
        for switch in self.recipe.switches:
            if step >= switch.step:
                current = switch.prompts
        return current


def warn_beyond_theory(training: Training) -> None:
    """Warn if no theorem of the papers covers the training tasks, because they do not meet Condition 1."""
    patterns = training.prompts.patterns
    if not meets_condition_1(training.prompts.tasks.pairs(patterns.relevant), patterns.relevant):
        warnings.warn(
            f"tasks = {training.prompts.tasks}: do not meet Condition 1 (every relevant pattern +1, and −1, equally "
            "often), which the theorems require of training tasks",
            OutsideTheoremWarning,
            stacklevel=3,
        )
