"""Recipes of single models in an experiment: another optimiser, step size or schedule for one of its models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from iclab.config import Code, InputError, unknown_key
from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.study.settings import Chosen, Settings


def _with_code(value: Any) -> Any:
    """Return a value of a recipe with functions, such as a loss, as `Code`, which can be written to a file."""
    if isinstance(value, dict):
        return {key: _with_code(inner) for key, inner in value.items()}
    return Code.of(value) if callable(value) else value


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    return {"path": value.path, "source": value.source} if isinstance(value, Code) else value


class RecipeSettings(Settings):
    """Settings of experiments whose models may have recipes of their own."""

    recipes: Annotated[
        dict[str, dict[str, Annotated[Any, BeforeValidator(_with_code), PlainSerializer(_written)]]],
        Chosen(
            "changes of the recipe for single models, such as --set recipes.my_module:Mine.optimizer=adam; the papers' "
            "models need none"
        ),
    ] = {}

    def recipe_of(self, name: str, **usual: Any) -> Recipe:
        """Return the usual recipe of a model, with the changes for it: by its name, or by its class without the path.

        Example:
            >>> RecipeSettings(recipes={"Mine": {"optimizer": "adam"}}).recipe_of("my_module:Mine", steps=5).optimizer
            'adam'
        """
        own = self.own_recipe(name)
        if not own:
            return Recipe(**usual)
        try:
            return Recipe(**usual | own)
        except InputError as error:
            raise InputError(f"recipes.{name}.{error}") from None

    def step_size_of(self, name: str, usual: float | None) -> float:
        """Return a model's step size: its recipe's own, torch's for other optimisers than SGD, else the ``usual`` one.

        Example:
            >>> RecipeSettings(recipes={"Mine": {"optimizer": "adam"}}).step_size_of("my_module:Mine", None)
            0.001
        """
        own = self.own_recipe(name)
        if usual is None and "step_size" not in own and own.get("optimizer", "sgd") == "sgd":
            give = f"--set recipes.{name}.step_size=0.1, or another optimiser, --set recipes.{name}.optimizer=adam"
            raise InputError(f"step_sizes: has none for {name}; give one for SGD, such as {give}")
        try:
            return Recipe(**own).suited(usual).step_size
        except InputError as error:
            raise InputError(f"recipes.{name}.{error}") from None

    def own_recipe(self, name: str) -> dict[str, Any]:
        """Return the changes for one model; empty if there are none."""
        found: dict[str, Any] = {}
        for key in (name.rpartition(":")[2], name):  # the whole name has the last word
            found |= self.recipes.get(key, {})
        for field in found:
            if field not in Recipe.model_fields:
                raise InputError(unknown_key(field, Recipe.model_fields, f"recipes.{name}."))
        return found


def check_recipes(settings: Settings, trainings: Iterable[Training]) -> None:
    """Refuse recipes that are not followed: those of other models, and those that an experiment sets itself."""
    if not isinstance(settings, RecipeSettings) or not settings.recipes:
        return
    listed = list(trainings)
    for key, changes in settings.recipes.items():
        mine = [training for training in listed if key in (training.model.label, _name(training.model))]
        if not mine:
            known = ", ".join(dict.fromkeys(_name(training.model) for training in listed))
            raise InputError(f"recipes = {key}: no model of this experiment; its models are {known}")
        if not all(training.recipe.replace(**changes) == training.recipe for training in mine):
            raise InputError(f"recipes.{key} = {changes}: this experiment sets the recipe of {key} itself")


def _name(model: Model) -> str:
    return model.name if isinstance(model.name, str) else model.name.path
