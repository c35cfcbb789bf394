"""The engines: their versions, and which trainings each of them can run.

fused      families of models in dictionary coordinates, compiled by numba
compact    models that answer prompts in dictionary coordinates, trained by the loop of the reference engine
reference  any model, on dense prompts, in PyTorch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from iclab import prompts
from iclab.engines.scope import Scope

if TYPE_CHECKING:
    from iclab.engines.recipe import Recipe
    from iclab.engines.training import Training

_TRAINING = {"model", "prompts", "recipe", "engine", "dtype", "device", "basis_seed"}
_RECIPE = {
    *("steps", "batch_size", "step_size", "loss", "optimizer", "optimizer_options"),
    *("clip", "warmup", "decay", "stop", "callback", "switches", "snapshots", "frozen"),
}
_PATTERNS = {
    *("dimension", "relevant", "irrelevant", "outlier", "coherence"),
    *("relevant_norm", "irrelevant_norm", "outlier_norm", "draw", "vectors"),
}
_OUTLIERS = {"fraction", "count", "query", "scale", "together", "labels", "target", "placement", "patterns"}
_M_PROMPTS = {"patterns", "tasks", "context_length", "irrelevant_scale", "outliers", "balance", "label_noise"}
_ONE_LAYER = _M_PROMPTS | {"label_values"}
_T_PROMPTS = {
    *("relevant_fraction", "relevant_count", "relevant_mixtures", "irrelevant_mixtures"),
    *("label_dimension", "label_norm"),
}
_SHARED = {
    "Training": _TRAINING,
    "Recipe": _RECIPE,
    "Switch": {"step", "prompts"},
    "Patterns": _PATTERNS,
    "Outliers": _OUTLIERS,
    "Mixture": {"weights", "outside_norm"},
}

LEVELS = Scope("fused", {**_SHARED, "Prompts": _M_PROMPTS | {"levels"}}, functions=False)
FUSED = Scope("fused", {**_SHARED, "Prompts": _ONE_LAYER}, functions=False)
DEEP = Scope("fused", {**_SHARED, "Prompts": _M_PROMPTS | _T_PROMPTS | {"signal"}}, functions=False)
MLP = Scope("fused", {**_SHARED, "Prompts": _M_PROMPTS | _T_PROMPTS | {"signal", "noise"}}, functions=False)
COMPACT = Scope("compact", {**_SHARED, "Prompts": _ONE_LAYER | _T_PROMPTS | {"signal"}})  # noise is in no dictionary


ONE_LAYER_OPTIONS = ("state_size", "init_scale", "gate_scale")
"""The options of one-layer models that the fused engine knows, besides those that a model's gate has."""

_MARGINS = ("prompts", "right", "wrong", "ties", "nans", "hinge", "hinge_squares")
_SQUARES = ("prompts", "nans", "squares", "fourths", "products", "outputs", "targets", "inside")
_ATTENTION = ("prompts", "same", "other", "same_squares", "other_squares")
_PARTS = tuple(f"{part}_by_{name}" for name in ("source", "place") for part in ("feature", "label", "ahead"))
_GATES = ("clean_count", "clean", "outlier_count", "outlier", "rank_count", "rank")


OWN_WEIGHTS = "the model's own weights, seeds stacked in front"


class FusedForm(NamedTuple):
    """A family of models that the fused engine has kernels for."""

    module: str
    """The module in `iclab.engines.fused` that runs it."""
    version: int
    """Part of the hash of its cells. Raise it when the same description trains to other weights, beyond rounding."""
    scope: Scope
    """The fields of trainings and of test prompts that it knows."""
    obstacle: Callable[[Training], str]
    """Returns a further reason why it cannot run a training; empty if it can."""
    sums: Mapping[str, tuple[str, ...]]
    """The probes that it sums, and the rows of its kernel's sums, named as in `iclab.probes.answers`."""
    stores: str
    """What its snapshots hold."""


def _one_layer_obstacle(training: Training) -> str:
    model, recipe = training.model, training.recipe
    if missing := {"state_size", "init_scale"} - model.options.keys():
        return f"model {model.label} has no option {min(missing)}, which the fused engine needs"
    defaults = model.default_options
    known = ONE_LAYER_OPTIONS + model.architecture.fused_options
    for option, value in model.options.items():
        if option not in known and value != defaults.get(option):
            return f"model.options.{option} = {value}: the fused engine knows only the default, {defaults.get(option)}"
    if model.architecture.gate_form(model.options) is None:
        own = ", ".join(f"{option} = {model.options[option]}" for option in model.architecture.fused_options)
        return f"model {model.label} with {own} has no fused form"
    size, dimension = model.options["state_size"], training.prompts.patterns.dimension
    if size is not None and size < dimension:
        return f"state_size = {size}: must be at least the dimension, {dimension}, or weights do not start as δI"
    if recipe.optimizer != "sgd":
        return f"optimizer = {recipe.optimizer}: the fused engine knows only sgd; others leave the span of the patterns"
    return sgd_obstacle(recipe)


def _levels_obstacle(training: Training) -> str:
    if training.recipe.clip is not None and training.prompts.levels > 1:
        return f"clip = {training.recipe.clip}: the fused engine trains levels apart, and this is the norm of all"
    return _one_layer_obstacle(training)


def sgd_obstacle(recipe: Recipe) -> str:
    """Return what the fused engine does not know of SGD's options."""
    further = sorted(set(recipe.optimizer_options) - {"momentum"})
    return f"optimizer_options.{further[0]}: the fused engine knows only momentum" if further else ""


ADAM = frozenset({"betas", "eps", "weight_decay"})
"""The options of Adam and AdamW that the fused engine knows."""


def _deep_obstacle(training: Training) -> str:
    options, recipe = training.model.options, training.recipe
    if options.get("form", "parallel") != "parallel":
        return f"model.options.form = {options['form']}: the fused engine knows only the default, parallel"
    if recipe.optimizer not in ("sgd", "adam", "adamw"):
        return f"optimizer = {recipe.optimizer}: the fused engine knows sgd, adam and adamw for deep models"
    if recipe.optimizer == "sgd":
        return sgd_obstacle(recipe)
    further = sorted(set(recipe.optimizer_options) - ADAM)
    return f"optimizer_options.{further[0]}: the fused engine knows only {', '.join(sorted(ADAM))}" if further else ""


def _mlp_obstacle(training: Training) -> str:
    recipe = training.recipe
    if recipe.optimizer != "sgd":
        return f"optimizer = {recipe.optimizer}: the fused engine knows only sgd; others leave the span of the patterns"
    return sgd_obstacle(recipe)


FORMS: dict[str, FusedForm] = {
    "one-layer": FusedForm(
        module="one_layer",
        version=1,
        scope=FUSED,
        obstacle=_one_layer_obstacle,
        sums={
            "error": _MARGINS,
            "squares": _SQUARES,
            "worst": _MARGINS,
            "worst-placement": _MARGINS,
            "attention": _ATTENTION,
            "gates": _GATES,
        },
        stores="coordinates in the patterns' frame, see docs/fused.md; iclab.load(…).weights() makes the matrices",
    ),
    "levels": FusedForm(
        module="levels",
        version=1,
        scope=LEVELS,
        obstacle=_levels_obstacle,
        sums={"error": _MARGINS, "levels": _MARGINS, "worst": _MARGINS, "attention": _ATTENTION, "gates": _GATES},
        stores="coordinates in the frame of each level's patterns; iclab.load(…).weights() makes the matrices",
    ),
    "deep": FusedForm(
        module="deep",
        version=1,
        scope=DEEP,
        obstacle=_deep_obstacle,
        sums={"error": _MARGINS, "attention": _ATTENTION, "gates": _GATES},
        stores=OWN_WEIGHTS,
    ),
    "softmax-mlp": FusedForm(
        module="mlp",
        version=1,
        scope=MLP,
        obstacle=_mlp_obstacle,
        sums={
            "error": _MARGINS,
            "attended": _MARGINS,
            "attention": _ATTENTION,
            "parts": ("pairs", *_PARTS),
            "alignment": ("prompts", "length", "along"),
        },
        stores=OWN_WEIGHTS,
    ),
}
"""The forms of the fused engine by the name that an architecture declares as ``fused_form``."""


def fused_form(training: Training) -> FusedForm:
    """Return the form of the fused engine that a training runs on."""
    return FORMS[training.model.architecture.fused_form or ""]


def _fused_obstacle(training: Training) -> str:
    if training.model.architecture.fused_form is None:
        return f"model {training.model.label} has no fused form"
    form = fused_form(training)
    return form.obstacle(training) or _device_obstacle(training) or form.scope.obstacle(training)


def _compact_obstacle(training: Training) -> str:
    if not training.model.architecture.has_compact_form:
        return f"model {training.model.label} has no compact form"
    return _device_obstacle(training) or COMPACT.obstacle(training)


def _device_obstacle(training: Training) -> str:
    return "" if training.device == "cpu" else f"device = {training.device}: must be cpu"


class Engine(NamedTuple):
    """One way to train a model."""

    version: int
    """As for `FusedForm`; each form of the fused engine has its own instead."""
    obstacle: Callable[[Training], str]
    """Returns the reason why it cannot run a training; empty if it can."""
    built_on: tuple[str, ...] = ()
    """Other engines whose code it runs, so that their versions count too."""
    separate_seeds: bool = False
    """Whether it trains every seed by itself, in threads. Then results never depend on which seeds run together."""


ENGINES: dict[str, Engine] = {
    "fused": Engine(version=0, obstacle=_fused_obstacle, separate_seeds=True),
    "compact": Engine(version=1, obstacle=_compact_obstacle, built_on=("reference",)),
    "reference": Engine(version=1, obstacle=lambda training: ""),
}
"""The engines by name, the fastest first: ``auto`` takes the first that applies."""


USERS_MODULES = 2
"""The version of what engines do with users' own modules only: 2 leaves parameters without ``requires_grad`` alone."""


def versions(training: Training) -> dict[str, int]:
    """Return the versions of all code that decides the weights of a training: part of the hash of its cells."""
    names = (training.engine, *ENGINES[training.engine].built_on)
    engines = {name: ENGINES[name].version for name in names}
    if training.engine == "fused":
        engines = {"fused": fused_form(training).version}
    users = {"users_modules": USERS_MODULES} if training.model.is_users else {}
    return {"prompts": prompts.VERSION, "model": training.model.architecture.version, **engines, **users}


def stores(training: Training) -> str:
    """Say what the snapshots of a training hold."""
    return fused_form(training).stores if training.engine == "fused" else OWN_WEIGHTS


def faster_obstacle(training: Training) -> str:
    """Return the reason why a training cannot run on the faster engine its model was written for; empty if it can."""
    kind = training.model.architecture
    faster = "compact" if kind.has_compact_form and kind.fused_form is None else "fused"
    return ENGINES[faster].obstacle(training)
