"""``iclab train``: one training of a person's own, described by flags or a TOML file, run in the lab like any other."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.config import Config
from iclab.engines import Engine, Recipe, Trained, Training, warn_beyond_theory
from iclab.lab import MeasurementCell, Store, TrainingCell, run
from iclab.models import Model
from iclab.probes import Proportion, Pruning
from iclab.prompts import Prompts


class Request(Config):
    """What to train, and what to test it on."""

    model: Model
    prompts: Prompts = Prompts()
    recipe: Recipe = Recipe()
    test: dict[str, Prompts] = {}
    """Test distributions by name; none means the training prompts themselves."""
    seeds: Annotated[int, Field(ge=1)] = 8
    test_prompts: Annotated[int, Field(ge=1)] = 10_000
    probes: Annotated[tuple[str, ...], Field(min_length=1)] = ("error",)
    pruning: Pruning | None = None
    """Neurons taken out before measuring."""
    engine: Engine = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    basis_seed: Annotated[int | None, Field(ge=0, lt=2**32)] = None

    @classmethod
    def read(cls, data: dict[str, Any], changes: dict[str, Any]) -> Request:
        """Validate a file's data with changes such as ``{"prompts.outliers.scale": 2.0}`` on top.

        A test starts from the training prompts and changes what it names.
        """
        merged = _deep_copy(data)
        for key, value in changes.items():
            _put(merged, key.split("."), value)
        if "model" in merged and not isinstance(merged["model"], dict):
            merged["model"] = {"name": merged["model"]}
        tests = merged.pop("test", {})
        if isinstance(tests, dict):
            merged["test"] = {name: _overlay(merged.get("prompts", {}), test) for name, test in tests.items()}
        else:
            merged["test"] = tests
        request = cls.model_validate(merged)
        for name, prompts in {"prompts": request.prompts, **request.test}.items():
            told = prompts.outliers.model_fields_set
            if told and not told & {"fraction", "count"}:
                warnings.warn(f"{name}: outliers are described, but neither fraction nor count is given", stacklevel=2)
        return request

    def training(self) -> Training:
        """Return the training this asks for."""
        return Training(
            model=self.model,
            prompts=self.prompts,
            recipe=self.recipe,
            engine=self.engine,
            dtype=self.dtype,
            basis_seed=self.basis_seed,
        )


def carry_out(request: Request, store: Store, workers: int, save: Path | None) -> dict[str, Any]:
    """Train and measure what is missing from the store; return rows and summaries as plain data."""
    started = time.perf_counter()
    training = request.training()
    warn_beyond_theory(training)
    trainings = TrainingCell.groups(training, request.seeds)
    tests = request.test or {"as trained": request.prompts}
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
    run(
        [cell for listed in cells.values() for cell in listed],
        store,
        workers=workers,
        title=training.model.label,
    )
    measured = []
    for (name, probe), listed in cells.items():
        rows = [row for cell in listed for row in store.load_rows(cell) if row["seed"] < request.seeds]
        entry: dict[str, Any] = {"test": name, "probe": probe, "rows": rows}
        if probe in ("error", "vote", "attended"):
            p = Proportion.of([row.get("error") for row in rows], request.test_prompts)
            entry |= {
                "error": p.mean,
                "seed_interval": [p.seed_interval.low, p.seed_interval.high],
                "prompt_interval": [p.prompt_interval.low, p.prompt_interval.high],
                "diverged": p.diverged,
            }
        measured.append(entry)
    if save is not None:
        whole = Trained.join([store.load_training(cell) for cell in trainings])
        whole.select(tuple(range(request.seeds))).save(save)
    return {
        "model": training.model.label,
        "seeds": request.seeds,
        "seconds": round(time.perf_counter() - started, 3),
        "training": training.model_dump(mode="json"),
        "cells": [cell.hash for cell in trainings],
        "weights": None if save is None else str(save),
        "measurements": measured,
    }


def _deep_copy(value: Any) -> Any:
    return {key: _deep_copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {"name": below} if part == "model" and below is not None else {}
        tree = below
    tree[path[-1]] = value


def _overlay(base: Any, change: Any) -> Any:
    """Lay a test's changes over the training prompts; a count of outliers replaces a fraction, and the reverse."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    out = dict(base)
    for key, value in change.items():
        if key in ("count", "fraction"):
            out.pop("count", None)
            out.pop("fraction", None)
        out[key] = _overlay(base.get(key), value)
    return out
