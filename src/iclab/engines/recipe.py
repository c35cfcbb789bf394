"""How a model is trained: M (4), (19) and Algorithm 1, with what other models need beside plain SGD."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from iclab.config import Code, Config, OutsideTheoremWarning
from iclab.models import Model
from iclab.prompts import Prompts, meets_condition_1

# Optimisers that treat every number for itself, so that stacking seeds does not couple them.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    name.lower(): getattr(torch.optim, name)
    for name in (
        "SGD",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Rprop",
    )
}


def _known(value: Any) -> Any:
    if not isinstance(value, str) or value not in OPTIMIZERS:
        raise ValueError(f"must be one of {', '.join(OPTIMIZERS)}")
    return value


class Switch(Config):
    """From ``step`` on, draw training prompts from another distribution."""

    step: Annotated[int, Field(ge=1)]
    prompts: Prompts


class Recipe(Config):
    """Loss, optimiser, and how many steps of how many fresh prompts.

    Example:
        >>> Recipe(step_size=0.05, steps=200).optimizer
        'sgd'
    """

    steps: Annotated[int, Field(ge=0)] = 1000
    """T, the number of iterations."""
    batch_size: Annotated[int, Field(ge=1)] = 128
    """B, fresh prompts an iteration."""
    step_size: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """η."""
    loss: Literal["hinge"] = "hinge"
    """max{0, 1 − z·F}, averaged over the batch: M (4)."""
    optimizer: Annotated[str, BeforeValidator(_known)] = "sgd"
    """A torch optimiser by name, in small letters."""
    optimizer_options: dict[str, float | bool | tuple[float, ...]] = {}
    """Its further arguments, such as ``momentum`` or ``weight_decay``."""
    clip: Annotated[float | None, Field(gt=0)] = None
    """Scale a seed's gradient down to at most this norm."""
    decay: Literal["none", "linear", "cosine"] = "none"
    """How η falls to 0 over the training."""
    switches: tuple[Switch, ...] = ()
    """A schedule of prompt distributions; the first one is given with the training itself."""
    snapshots: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Steps after which weights are kept, besides 0 and ``steps``, which always are."""

    @field_validator("optimizer_options")
    @classmethod
    def _without_defaults(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Leave out what torch would assume anyway, so that spelling it out changes nothing."""
        if "optimizer" not in info.data:
            return options
        defaults = inspect.signature(OPTIMIZERS[info.data["optimizer"]]).parameters
        return {k: v for k, v in options.items() if k not in defaults or defaults[k].default != v}

    @field_validator("snapshots")
    @classmethod
    def _in_order(cls, steps: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(steps)))

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        late = [s for s in (*self.snapshots, *(switch.step for switch in self.switches)) if s > self.steps]
        if late:
            raise ValueError(f"snapshots or switches = {late[0]}: must be at most steps = {self.steps}")
        order = [switch.step for switch in self.switches]
        if order != sorted(set(order)):
            raise ValueError(f"switches = {order}: the steps must increase")
        if self.optimizer_options:  # making an optimiser loads much of torch: only to check what needs checking
            try:
                OPTIMIZERS[self.optimizer]([torch.zeros(1)], lr=self.step_size, **self.optimizer_options)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"optimizer_options = {self.optimizer_options}: {error}") from None
        return self

    def rate(self, step: int) -> float:
        """Return the share of the step size that iteration ``step`` uses."""
        done = step / self.steps
        if self.decay == "linear":
            return 1.0 - done
        if self.decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * done))
        return 1.0

    @property
    def kept(self) -> tuple[int, ...]:
        """All steps after which weights are kept."""
        return tuple(sorted({0, *self.snapshots, self.steps}))


Engine = Literal["auto", "fused", "compact", "reference"]


class Training(Config):
    """Everything that decides a training run but the seed."""

    model: Model
    prompts: Prompts = Prompts()
    recipe: Recipe = Recipe()
    engine: Engine = "auto"
    """``auto`` becomes ``fused`` or ``compact`` where those engines apply, else ``reference``."""
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    """``cuda`` runs the reference engine on a GPU; it has not been tried on one."""
    basis_seed: Annotated[int | None, Field(ge=0, lt=2**32)] = None
    """The rotation of the patterns; by default every training seed has its own."""

    @model_validator(mode="before")
    @classmethod
    def _model_by_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and not isinstance(data.get("model"), (Model, dict)):
            return {**data, "model": {"name": data.get("model")}}
        return data

    @model_validator(mode="after")
    def _one_basis(self) -> Training:
        for switch in self.recipe.switches:
            if self.prompts.fits(switch.prompts):
                raise ValueError(
                    f"switches at step {switch.step}: must use the patterns and labels of the first prompts"
                )
        return self

    @model_validator(mode="after")
    def _settle_engine(self) -> Training:
        obstacles = {"fused": fused_obstacle(self), "compact": compact_obstacle(self)}
        if obstacle := obstacles.get(self.engine):
            raise ValueError(f"engine = {self.engine}: does not apply: {obstacle}; use auto or reference")
        if self.engine == "auto":  # settled here, so that the hash knows the engine that really runs
            applies = [name for name, obstacle in obstacles.items() if not obstacle]
            object.__setattr__(self, "engine", applies[0] if applies else "reference")
        return self

    def prompts_at(self, step: int) -> Prompts:
        """Return the distribution that iteration ``step`` draws from."""
        current = self.prompts
        for switch in self.recipe.switches:
            if step >= switch.step:
                current = switch.prompts
        return current


def warn_beyond_theory(training: Training) -> None:
    """Warn where no theorem of the papers speaks of the training tasks: they do not meet Condition 1."""
    patterns = training.prompts.patterns
    if not meets_condition_1(training.prompts.tasks.pairs(patterns.relevant), patterns.relevant):
        warnings.warn(
            f"tasks = {training.prompts.tasks}: do not meet Condition 1 (every relevant pattern +1, and −1, equally "
            "often), which the theorems ask of training tasks",
            OutsideTheoremWarning,
            stacklevel=3,
        )


def undrawable(prompts: Prompts) -> str:
    """Say why the fused engine cannot draw these prompts; an empty text if it can."""
    if prompts.label_dimension is not None:
        return f"label_dimension = {prompts.label_dimension}: it knows labels of one number"
    for name in ("relevant_fraction", "relevant_mixtures", "irrelevant_mixtures", "signal", "noise"):
        if getattr(prompts, name) != Prompts.model_fields[name].default:
            return f"{name} = {getattr(prompts, name)}: it knows prompts of M alone"
    for name in ("labels", "placement"):
        rule = getattr(prompts.outliers, name)
        if isinstance(rule, Code):
            return f"outliers.{name} = {rule.path} is a user's function"
    return ""


def fused_obstacle(training: Training) -> str:
    """Say why a training cannot run on the fused engine; an empty text if it can."""
    model, recipe, dimension = training.model, training.recipe, training.prompts.patterns.dimension
    if not model.gating:
        return f"model {model.label} has no fused form"
    if model.options.get("form") == "recurrence":
        return "form = recurrence asks for the literal recurrence"
    size = model.options["state_size"]
    if size is not None and size < dimension:
        return f"state_size = {size} is below the dimension {dimension}: weights do not start as δI"
    if recipe.optimizer != "sgd":
        return f"optimizer {recipe.optimizer} leaves the patterns' span"
    if further := sorted(set(recipe.optimizer_options) - {"momentum"}):
        return f"optimizer_options.{further[0]} has no fused form"
    if training.device != "cpu":
        return f"device = {training.device}: it runs on the CPU"
    phases = (training.prompts, *(switch.prompts for switch in recipe.switches))
    return next(filter(None, map(undrawable, phases)), "")


def faster_obstacle(training: Training) -> str:
    """Say why a training cannot run on the faster engine that its model was written for, if it was for one."""
    return compact_obstacle(training) if training.model.compact else fused_obstacle(training)


def compact_obstacle(training: Training) -> str:
    """Say why a training cannot run on the compact engine; an empty text if it can."""
    if not training.model.compact:
        return f"model {training.model.label} has no compact form"
    if training.device != "cpu":
        return f"device = {training.device}: it runs on the CPU"
    phases = (training.prompts, *(switch.prompts for switch in training.recipe.switches))
    noise = next((phase.noise for phase in phases if phase.noise), 0.0)
    return f"noise = {noise}: is in no dictionary" if noise else ""
