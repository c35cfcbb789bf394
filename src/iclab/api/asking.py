"""What users ask for: arguments of the Python interface, checked and turned into descriptions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

from iclab.config import InputError, shown
from iclab.engines import EngineName, Recipe, Training
from iclab.lab import Store
from iclab.lab.events import Listener
from iclab.lab.executors import Executor
from iclab.lab.needs import check_count, check_trial
from iclab.models import Architecture, Model
from iclab.prompts import Prompts


def training_of(
    model: Any,
    prompts: Prompts | None,
    recipe: Recipe | None,
    *,
    engine: EngineName = "auto",
    dtype: str = "float32",
    device: str = "cpu",
    basis_seed: int | None = None,
) -> Training:
    """Return the description of a training."""
    described: dict[str, Any] = {"engine": engine, "dtype": dtype, "device": device, "basis_seed": basis_seed}
    spec = model_of(model)
    suited = recipe_of(recipe).suited(spec.architecture.step_size)
    training = Training(model=spec, prompts=prompts_of(prompts), recipe=suited, **described)
    check_trial(training)
    return training


def model_of(model: Any) -> Model:
    """Return the description of a model that was given by name, as a class, or described."""
    return Training(model=model).model  # whose refusals say "model"


def prompts_of(prompts: Any, name: str = "prompts", default: Prompts | None = None) -> Prompts:
    """Return a distribution of prompts, by default the usual one."""
    if prompts is None:
        return default or Prompts()
    if isinstance(prompts, Mapping):
        return Prompts(**prompts)
    return _kind(name, prompts, Prompts)


def recipe_of(recipe: Any, name: str = "recipe") -> Recipe:
    """Return a recipe, by default the usual one."""
    if recipe is None:
        return Recipe()
    return Recipe(**recipe) if isinstance(recipe, Mapping) else _kind(name, recipe, Recipe)


def _kind(name: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        plain = type(value).__module__ == "builtins" or hasattr(value, "shape")
        given = shown(value) if plain else type(value).__name__
        raise InputError(f"{name} = {given}: must be an iclab.{kind.__name__}")
    return value


def seeds_of(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Return the seeds that were asked for, as a number or one by one."""
    allowed = "must be a whole number of at least 1, or a list of different seeds from 0 to 2³² − 1"
    if isinstance(seeds, Integral) and not isinstance(seeds, bool) and seeds < 2**32:
        check_count(int(seeds) / Architecture.group_size, int(seeds))
        asked: tuple[Any, ...] = tuple(range(int(seeds)))
    elif isinstance(seeds, Iterable) and not isinstance(seeds, (str, bytes)):
        asked = tuple(seeds)
    else:
        raise InputError(f"seeds = {shown(seeds)}: {allowed}")
    try:
        whole = [int(seed) for seed in asked if int(seed) == seed and not isinstance(seed, bool) and 0 <= seed < 2**32]
    except (TypeError, ValueError):
        whole = []
    if not asked or len(whole) < len(asked) or len(set(whole)) < len(whole):
        raise InputError(f"seeds = {shown(seeds)}: {allowed}")
    return tuple(whole)


def how_to_run(
    workers: int | None, progress: bool, on_progress: Listener | None, executor: Executor | None = None
) -> dict[str, Any]:
    """Return the arguments of `lab.run` that say how: by default on all cores, without a word."""
    if executor is not None and not (hasattr(executor, "schedule") and hasattr(executor, "execute")):
        raise InputError(f"executor = {shown(executor)}: must be an iclab.lab.RayExecutor or LocalExecutor")
    if executor is not None and workers is not None:
        raise InputError(f"workers = {workers!r}: is for the default executor; give it to the executor")
    if on_progress is not None and not callable(on_progress):
        raise InputError(f"on_progress = {shown(on_progress)}: must be a function of an event")
    listeners = [on_progress] if on_progress else []
    return {"workers": workers, "executor": executor, "quiet": not progress, "listeners": listeners}


@contextmanager
def opened(store: Store | Path | str | None) -> Iterator[Store]:
    """Open a store; without one, use a temporary one, of which nothing is left."""
    if store is None:
        with tempfile.TemporaryDirectory(prefix="iclab-") as folder:
            yield Store(folder)
    elif isinstance(store, Store):
        yield store
    elif isinstance(store, (str, Path)):
        yield Store(store)
    else:
        raise InputError(f"store = {shown(store)}: must be a path, a Store or None")
