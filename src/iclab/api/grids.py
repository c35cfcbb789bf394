"""What `iclab.compare` varies: dotted paths into test prompts, training prompts and recipes, and the grid of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from iclab.config import Config, InputError, shown, unknown_key
from iclab.engines import Recipe
from iclab.prompts import INSTEAD, Outliers, Patterns, Prompts

STEP = "step"
"""The key that varies how many steps were trained when a model is measured."""


class Setting(NamedTuple):
    """One point of a grid, for one model."""

    train: Prompts
    test: Prompts
    recipe: Recipe
    at: int | None = None
    """The step to measure after; None for the last."""

    def at_point(self, point: Mapping[str, Any]) -> Setting:
        """Return the setting with the values of a point put in."""
        found = self
        for key, value in point.items():
            owner, _, rest = key.partition(".")
            if key == STEP:
                found = found._replace(at=value)
            elif owner == "recipe":
                found = found._replace(recipe=_put(found.recipe, rest, value))
            elif owner == "train":
                found = found._replace(train=_put(found.train, rest, value))
                if rest.partition(".")[0] == "patterns":  # tests have the patterns of the training
                    found = found._replace(test=_put(found.test, rest, value))
            else:
                found = found._replace(test=_put(found.test, key, value))
        return found


def grid(over: Mapping[str, Iterable[Any]] | None) -> list[dict[str, Any]]:
    """Return every point of a grid: the values by key. Refuse unknown keys, and values that are no list."""
    known = [*_paths(Prompts), *(f"train.{path}" for path in _paths(Prompts)), *_recipe_paths(), STEP]
    listed: dict[str, list[Any]] = {}
    if not isinstance(over, (Mapping, type(None))):
        raise InputError(f"over = {shown(over)}: must be lists of values by key, such as outliers.fraction")
    for key, values in (over or {}).items():
        if key not in known:
            raise InputError(unknown_key(str(key), known))
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
            raise InputError(f"over.{key} = {shown(values)}: must be a list of values")
        listed[key] = values.tolist() if hasattr(values, "tolist") else list(values)
        different = {told(value) for value in listed[key]}
        if not listed[key] or len(different) < len(listed[key]):
            raise InputError(f"over.{key} = {shown(listed[key])}: must be one or more values of different names")
    return [dict(zip(listed, values, strict=True)) for values in product(*listed.values())]


def _recipe_paths() -> list[str]:
    fixed = ("switches", "snapshots")  # `step` keeps the snapshots it needs
    return [f"recipe.{name}" for name in Recipe.model_fields if name not in fixed]


def _paths(kind: type[Config]) -> list[str]:
    """Return the dotted paths of all fields."""
    parts: dict[str, type[Config]] = {"outliers": Outliers, "patterns": Patterns} if kind is Prompts else {}
    return [
        path
        for name in kind.model_fields
        for path in (name, *(f"{name}.{below}" for below in (_paths(parts[name]) if name in parts else ())))
    ]


def _put(config: Any, path: str, value: Any) -> Any:
    """Return a description with the value at a dotted path changed."""
    name, _, rest = path.partition(".")
    if rest:
        return config.replace(**{name: _put(getattr(config, name), rest, value)})
    fields = type(config).model_fields
    others = {other: fields[other].get_default() for other in INSTEAD.get(name, ()) if other in fields}
    return config.replace(**others | {name: value})


def told(value: Any) -> Any:
    """Return a value as rows hold it: a number or a text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__name__", None) or str(value)
