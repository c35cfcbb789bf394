"""`iclab.compare`: several models on the same prompts, as curves with bands over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from iclab import lab
from iclab.api.asking import how_to_run, model_of, opened, prompts_of, recipe_of, seeds_of, training_of
from iclab.api.comparison import Comparison
from iclab.api.grids import STEP, Setting, grid, told
from iclab.config import InputError, check_whole, shown, unknown_key
from iclab.engines import EngineName, Recipe, warn_beyond_theory
from iclab.lab import MeasurementCell, Store, TrainingCell
from iclab.lab.events import Listener
from iclab.lab.executors import Executor
from iclab.models import Model
from iclab.probes import PROBES
from iclab.prompts import Prompts


def compare(
    models: Mapping[str, Any] | Iterable[Any],
    train: Prompts | None = None,
    test: Prompts | None = None,
    *,
    over: Mapping[str, Iterable[Any]] | None = None,
    recipes: Recipe | Mapping[str, Recipe] | None = None,
    seeds: int | Iterable[int] = 8,
    probe: str = "error",
    column: str | None = None,
    count: int = 10_000,
    engine: EngineName = "auto",
    dtype: Literal["float32", "float64"] = "float32",
    store: Store | Path | str | None = None,
    workers: int | None = None,
    progress: bool = False,
    on_progress: Listener | None = None,
    executor: Executor | None = None,
) -> Comparison:
    """Train several models and measure each of them at every point of a grid.

    Args:
        models: by name, each a built-in name, a `Model`, your own class, or a pair of one of these and its `Recipe`;
            or a list of models, which then have their own names.
        train: the training prompts.
        test: the test prompts; by default the training prompts.
        over: lists of values by key. A key is a path into the test prompts (``outliers.fraction``), the training
            prompts (``train.tasks``; ``train.patterns.…`` changes tests too) or the recipes (``recipe.batch_size``), or
            ``step``: how many steps of the training to measure after. Several keys make a grid: the first is the x
            axis of the chart, the others are panels.
        recipes: one for all models, or by name.
        seeds: how many, or a list, as for `train`; and so are the last seven arguments.
        probe: what to measure; ``iclab train --help`` lists the probes.
        column: the column of the probe's rows that is drawn; by default the error.
        count: test prompts per seed and point.

    Example:
        >>> fractions = {"outliers.fraction": [0.0, 0.4]}
        >>> compare(["mamba", "linear"], over=fractions, recipes=Recipe(steps=5), seeds=2, count=100)
        Comparison of error, 2 models, 2 seeds, over outliers.fraction
    """
    check_whole(count=count)
    entries, points, asked, drawn = _entries(models, recipes), grid(over), seeds_of(seeds), _column(probe, column)
    start = Setting(prompts_of(train, "train"), prompts_of(test, "test", default=prompts_of(train, "train")), Recipe())
    with opened(store) as place:
        how = _How(asked, probe, count, engine, dtype)
        conditions = list(_conditions(entries, points, start, how, place))
        lab.run(
            [cell for _, cell in conditions],
            place,
            title="comparison",
            **how_to_run(workers, progress, on_progress, executor),
        )
        rows = [{**about, **row} for about, cell in conditions for row in place.load_rows(cell) if row["seed"] in asked]
    keys = {key: tuple(dict.fromkeys(told(point[key]) for point in points)) for key in points[0]}
    return Comparison(rows, {name: model for name, (model, _) in entries.items()}, keys, probe, drawn, len(asked))


class _How(NamedTuple):
    """How every model is trained and measured."""

    seeds: tuple[int, ...]
    probe: str
    test_prompts: int
    engine: EngineName
    dtype: str


def _conditions(
    entries: Mapping[str, tuple[Model, Recipe]], points: list[dict[str, Any]], start: Setting, how: _How, store: Store
) -> Iterator[tuple[dict[str, Any], MeasurementCell]]:
    """Yield the measurements of every model at every point, and the columns that name their rows."""
    steps = {point[STEP] for point in points if STEP in point}
    groups: dict[str, list[TrainingCell]] = {}
    for name, (model, recipe) in entries.items():
        kept = recipe.replace(snapshots=(*recipe.snapshots, *steps)) if steps else recipe
        for point in points:
            setting = start._replace(recipe=kept).at_point(point)
            training = training_of(model, setting.train, setting.recipe, engine=how.engine, dtype=how.dtype)
            warn_beyond_theory(training)
            columns = {"model": name} | {key: told(value) for key, value in point.items()}
            measured: dict[str, Any] = {"probe": how.probe, "prompts": setting.test, "count": how.test_prompts}
            if training.digest() not in groups:
                groups[training.digest()] = TrainingCell.covering(training, how.seeds, store.has)
            for group in groups[training.digest()]:
                yield columns, MeasurementCell(training=group, at=setting.at, **measured)


def _entries(models: Any, recipes: Any) -> dict[str, tuple[Model, Recipe]]:
    """Return every model and its recipe by name."""
    if not isinstance(models, (Mapping, list, tuple)) or not models:
        raise InputError(f"models = {shown(models)}: must be models by name, such as {{'mine': Mine}}, or a list")
    given = dict(models) if isinstance(models, Mapping) else _named(models)
    own = dict(recipes) if isinstance(recipes, Mapping) else {}
    for name in own:
        if name not in given:
            raise InputError(unknown_key(str(name), given, "recipes."))
    shared = None if isinstance(recipes, Mapping) else recipes
    found = {}
    for name, entry in given.items():
        pair = entry if isinstance(entry, tuple) else (entry, None)
        if len(pair) != 2:
            raise InputError(f"models.{name} = {shown(entry)}: must be a model, or a model and its recipe")
        model, recipe = model_of(pair[0]), recipe_of(pair[1] or own.get(name, shared), f"recipes.{name}")
        found[str(name)] = (model, recipe)
    return found


def _named(models: Any) -> dict[str, Any]:
    """Name the models of a list after themselves."""
    names = [model_of(entry[0] if isinstance(entry, tuple) else entry).label for entry in models]
    if len(set(names)) < len(names):
        raise InputError(f"models = {', '.join(names)}: must have different names; give them by name")
    return dict(zip(names, models, strict=True))


def _column(probe: str, column: str | None) -> str | None:
    """Return the column to draw, None if there is no usual one; refuse unknown probes and columns."""
    if probe not in PROBES:
        raise InputError(f"probe = {shown(probe)}: must be one of {', '.join(PROBES)}")
    columns = PROBES[probe].columns
    if column is not None and column not in columns:
        raise InputError(unknown_key(str(column), columns, "column = "))
    usual = {"attention": "same"}.get(probe, "error")
    return column or (usual if usual in columns else None)
