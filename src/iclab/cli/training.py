"""``iclab train``: a training described by flags or a TOML file, run like the cells of an experiment."""

from __future__ import annotations

import argparse
import time
import tomllib
import warnings
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.cli.parser import PROMPT_FLAGS, RECIPE_FLAGS
from iclab.cli.values import read_pairs, read_value
from iclab.config import Config, InputError
from iclab.engines import EngineName, Recipe, Trained, Training, warn_beyond_theory
from iclab.lab import MeasurementCell, Store, TrainingCell, run
from iclab.lab.executors import Executor
from iclab.lab.needs import check_count
from iclab.models import Model
from iclab.probes import Proportion, Pruning, Row
from iclab.prompts import INSTEAD, Prompts


class Request(Config):
    """What to train, and on what to test it."""

    model: Model
    prompts: Prompts = Prompts()
    recipe: Recipe = Recipe()
    test: dict[str, Prompts] = {}
    """Test prompts by name; by default the training prompts."""
    seeds: Annotated[int, Field(ge=1)] = 8
    test_prompts: Annotated[int, Field(ge=1)] = 10_000
    probes: Annotated[tuple[str, ...], Field(min_length=1)] = ("error",)
    pruning: Pruning | None = None
    """Neurons to remove before measuring."""
    engine: EngineName = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    basis_seed: Annotated[int | None, Field(ge=0, lt=2**32)] = None

    @classmethod
    def read(cls, data: dict[str, Any], changes: dict[str, Any]) -> Request:
        """Validate the data of a file with changes on top, such as ``{"prompts.outliers.scale": 2.0}``.

        A test has the training prompts, but for the keys it names.
        """
        merged = _deep_copy(data)
        for key, value in changes.items():
            _put(merged, key.split("."), value)
        if "model" in merged and not isinstance(merged["model"], dict):
            merged["model"] = {"name": merged["model"]}
        tests = merged.pop("test", {})
        if isinstance(tests, dict):
            for key in tests:
                if key in Prompts.model_fields:
                    raise InputError(f"test.{key}: a test has a name; write test.NAME.{key}, or a flag --test-…")
            merged["test"] = {name: _overlay(merged.get("prompts", {}), test) for name, test in tests.items()}
        else:
            merged["test"] = tests
        request = cls(**merged)
        for name, prompts in {"prompts": request.prompts, **request.test}.items():
            given = prompts.outliers.model_fields_set
            if given and not given & {"fraction", "count", "query"}:
                warnings.warn(f"{name}: outliers are described, but neither fraction nor count is given", stacklevel=2)
        return request

    def training(self) -> Training:
        """Return the description of the training."""
        return Training(
            model=self.model,
            prompts=self.prompts,
            recipe=self.recipe.suited(self.model.architecture.step_size),
            engine=self.engine,
            dtype=self.dtype,
            basis_seed=self.basis_seed,
        )


def read_request(options: argparse.Namespace) -> Request:
    """Return what the options of ``iclab train`` ask for: its file, then flags, then ``--set`` override each other."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    changes: dict[str, Any] = {
        name: given[name] for name in ("model", "seeds", "engine", "dtype", "test_prompts") if name in given
    }
    if "probe" in given:
        changes["probes"] = given["probe"]
    for flag, (key, _) in PROMPT_FLAGS.items():
        name = flag.replace("-", "_")
        if name in given:
            changes[f"prompts.{key}"] = read_value(given[name])
        if f"test_{name}" in given:
            changes[f"test.test.{key}"] = read_value(given[f"test_{name}"])
    for flag, (key, _) in RECIPE_FLAGS.items():
        if (name := flag.replace("-", "_")) in given:
            changes[f"recipe.{key}"] = read_value(given[name])
    file, model = _file_or_model(options.what)
    if model is not None:
        if "model" in changes:
            raise InputError(f"model: {model} and --model {changes['model']} are both given; leave one out")
        changes["model"] = model
    changes |= read_pairs(options.set)
    data = _read_toml(file) if file else {}
    if "model" not in data | changes:
        raise InputError(f"model: say which one, such as `iclab {options.command} mamba`")
    return Request.read(data, changes)


def _file_or_model(what: str | None) -> tuple[Path | None, str | None]:
    """Tell a TOML file from the name of a model: it ends in .toml, has a folder, or is there."""
    if what is None:
        return None, None
    path = Path(what)
    return (path, None) if path.suffix == ".toml" or len(path.parts) > 1 or path.is_file() else (None, what)


def train_and_measure(request: Request, store: Store, executor: Executor, save: Path | None) -> dict[str, Any]:
    """Train and measure what is missing from the store; return rows and summaries as plain data."""
    started = time.perf_counter()
    training = request.training()
    warn_beyond_theory(training)
    tests = request.test or {"as trained": request.prompts}
    groups = request.seeds / training.model.architecture.group_size
    check_count(groups * (1 + len(tests) * len(request.probes)), request.seeds)
    trainings = TrainingCell.groups(training, request.seeds)
    cells = {
        (name, probe): [
            MeasurementCell(
                training=cell, probe=probe, prompts=prompts, count=request.test_prompts, pruning=request.pruning
            )
            for cell in trainings
        ]
        for name, prompts in tests.items()
        for probe in request.probes
    }
    run(chain.from_iterable(cells.values()), store, executor=executor, title=training.model.label)
    measured = []
    for (name, probe), listed in cells.items():
        rows = [row for cell in listed for row in store.load_rows(cell) if row["seed"] < request.seeds]
        entry = {"test": name, "probe": probe, "rows": rows}
        measured.append(entry | (_summary(rows, request.test_prompts) if probe in SUMMARISED else {}))
    trained = None
    if save is not None or all(map(store.has, trainings)):  # finished measurements do not need them any more
        trained = Trained.join([store.load_training(cell) for cell in trainings]).select(tuple(range(request.seeds)))
    losses = trained.first_and_last_loss if trained else None
    if save is not None and trained is not None:
        trained.save(save)
    return {
        "model": training.model.label,
        "seeds": request.seeds,
        "seconds": round(time.perf_counter() - started, 3),
        "training": training.model_dump(mode="json"),
        "cells": [cell.hash for cell in trainings],
        "loss": None if not losses else dict(zip(("first", "last"), losses, strict=True)),
        "weights": None if save is None else str(save),
        "measurements": measured,
    }


SUMMARISED = ("error", "worst", "worst-placement", "vote", "attended")
"""Probes whose rows have an error, to be averaged over seeds."""


def _summary(rows: list[Row], prompts: int) -> dict[str, Any]:
    error = Proportion.of([row.get("error") for row in rows], prompts)
    return {
        "error": error.mean,
        "seed_interval": [error.seed_interval.low, error.seed_interval.high],
        "prompt_interval": [error.prompt_interval.low, error.prompt_interval.high],
        "diverged": error.diverged,
    }


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _deep_copy(value: Any) -> Any:
    return {key: _deep_copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a value in nested dictionaries; ``model.options.…`` works where the model is given by name only."""
    for part in path[:-1]:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {"name": below} if part == "model" and below is not None else {}
        tree = below
    tree[path[-1]] = value


def _overlay(base: Any, change: Any) -> Any:
    """Return the training prompts with the changes of a test; a count replaces a fraction or vice versa."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    replaced = {name for key in change for name in INSTEAD.get(key, ())}
    out = {key: value for key, value in base.items() if key not in replaced}
    return out | {key: _overlay(base.get(key), value) for key, value in change.items()}
