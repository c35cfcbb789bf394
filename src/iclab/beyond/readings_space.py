"""The settings that papers do not state, as a space of readings, and the readings that `iclab.beyond.readings` tries.

A reading has one value in every dimension. The first value of a dimension is iclab's own and changes nothing. Values
are changes of settings by key (`Settings.changed`). Dimensions of `TESTED` change only test prompts, so that readings
which differ in these alone share their trained models.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from iclab.papers.mamba.settings import DEEP_STEPS

Changes = Mapping[str, Any]
Space = Mapping[str, Mapping[str, Changes]]
Reading = Mapping[str, str]
"""A value by dimension, without dimensions that have iclab's own."""

TESTED = ("κ_a'", "K'", "counting", "labels")
OWN = "iclab's own"

GATED, SOFT, PLAIN = "deep-mamba", "deep-softmax", "deep-linear"
ALL = (GATED, SOFT, PLAIN)


def _option(option: str, value: Any, *models: str) -> Changes:
    return {f"architectures.{model}.{option}": value for model in models}


def _recipe(**fields: Any) -> Changes:
    return {f"recipes.{model}.{field}": value for model in ALL for field, value in fields.items()}


def _steps(factor: float, sizes: Mapping[str, float]) -> Changes:
    return {f"step_sizes.{model}": factor * size for model, size in sizes.items()}


DATA: Space = {
    "tasks": {"ring:3": {}, "ring:1": {"train_tasks": "ring:1"}, "all": {"train_tasks": "all"}},
    "‖v*‖": {"3": {}, "1": {"outlier_norm": 1.0}, "2": {"outlier_norm": 2.0}},
    "batches": {"independent": {}, "stratified": {"balance": "stratified"}},
    "κ_a'": {"6.67": {}, **{f"{k:g}": {"test_outlier_scale": k} for k in (2.0, 4.0, 5.0, 6.0, 8.0, 10.0)}},
    "K'": {"1.5": {}, "1.01": {"test_irrelevant_scale": 1.01}, "3": {"test_irrelevant_scale": 3.0}},
    "counting": {"bernoulli": {}, "exact": {"counting": "exact"}},
}
"""Settings of the data that paper M does not state, for one layer and for three."""

DEEP: Space = {
    "stream": {"full": {}, "label": _option("stream", "label", *ALL)},
    "norm": {
        "rms": {},
        "none": _option("norm", "none", GATED, SOFT),
        "scores": _option("norm", "scores", GATED, SOFT),
    },
    "linear's norm": {"none": {}, "rms": _option("norm", "rms", PLAIN), "scores": _option("norm", "scores", PLAIN)},
    "residual": {"yes": {}, "no": _option("residual", False, *ALL)},
    "gates": {"one": {}, "by channel": _option("gating", "channel", GATED)},
    "sees": {"all": {}, "past": _option("sees", "past", SOFT, PLAIN)},
    "optimiser": {
        "SGD": {},
        "SGD, clip 1": _recipe(clip=1.0),
        "Adam 0.003, clip 1": _recipe(clip=1.0, optimizer="adam", step_size=0.003),
    },
    "step sizes": {"× 1": {}, **{f"× {f:g}": _steps(f, DEEP_STEPS) for f in (0.5, 2.5, 5.0)}},
    "steps": {"500": {}, "1000": {"steps": 1000}},
    **DATA,
    "labels": {
        "random": {},
        "flip": {"outlier_labels": "flip"},
        "target": {"outlier_labels": "target"},
    },
}
"""And about its deep models, which it does not define."""

ONE_LAYER: Space = {
    "step sizes": {"× 1": {}, **{f"× {f:g}": _steps(f, {"mamba": 1.0, "linear": 0.05}) for f in (0.1, 0.3, 2.0)}},
    "steps": {"1000": {}, "250": {"steps": 250}, "4000": {"steps": 4000}},
    "batch": {"128": {}, "32": {"batch_size": 32}, "512": {"batch_size": 512}},
    **DATA,
}


def _values(key: str, own: str, *others: Any) -> Mapping[str, Changes]:
    return {own: {}, **{str(value): {key: value} for value in others}}


NONLINEAR: Space = {
    "δ": _values("init_scale", "0.1", 0.05, 0.15, 0.2),
    "m": _values("neurons", "200", 50, 100),
    "a": _values("output", "mean", "root"),
    "‖q‖": _values("label_norm", "1", 0.5, 2.0, 3.0),
    "batch": _values("batch_size", "128", 32),
    "steps": _values("steps", "600", 1200, 2400),
    "η": _values("step_size", "1", 0.5, 3.0),
}
SELECTORS: Space = {
    "δ": _values("init_scale", "0.09", 0.05, 0.07),
    "M1": _values("relevant", "6", 4),
    "M2": _values("irrelevant", "24", 12),
    "β": _values("pattern_norm", "3", 1.0, 2.0),
    "l": _values("context_length", "20", 10, 40),
    "α": _values("relevant_fraction", "0.8", 0.6, 1.0),
    "m": _values("neurons", "200", 50),
    "steps": _values("steps", "600", 1200),
    "η": _values("step_size", "1", 0.5, 3.0),
}


class Part(NamedTuple):
    """Experiments whose paper leaves the same settings unstated."""

    experiments: tuple[str, ...]
    space: Space
    less: Mapping[str, Mapping[str, Any]] = {}
    """Changes of single experiments that leave out what only iclab's own claims need."""


ONE = {"columns": ("as chosen",)}
PARTS: dict[str, Part] = {
    "M, three layers": Part(
        ("M-tab1", "M-tab3", "M-tab4", "M-tab5", "M-cq-training", "M-fig3", "M-fig4", "M-fig5", "M-fig6"),
        DEEP,
        {"M-tab1": ONE, "M-tab3": {**ONE, "dimension": 30}, "M-tab4": {"dimension": 30}, "M-tab5": {"dimension": 30}},
    ),
    "M, one layer": Part(
        ("M-fig2",), ONE_LAYER, {"M-fig2": {"baselines": False, "label_rules": ("flip", "target", "random")}}
    ),
    "T": Part(("T-fig2", "T-fig3", "T-fig5"), NONLINEAR, {"T-fig3": {"models": ("softmax-mlp",), "more_tasks": ()}}),
    "S": Part(("S-fig1",), SELECTORS),
}
"""The searches. Experiments whose papers state everything, or that train other models, have none."""


FINALISTS: dict[str, tuple[dict[str, str], ...]] = {
    "M, three layers": (
        {"counting": "exact", "labels": "target"},
        {"norm": "scores", "‖v*‖": "2", "batches": "stratified", "K'": "1.01", "counting": "exact"},
        {"norm": "scores", "‖v*‖": "1", "batches": "stratified", "K'": "1.01", "counting": "exact"},
        {
            "stream": "label",
            "norm": "scores",
            "residual": "no",
            "‖v*‖": "1",
            "batches": "stratified",
            "counting": "exact",
            "labels": "target",
        },
        {"κ_a'": "6", "counting": "exact"},
    ),
    "M, one layer": ({"step sizes": "× 0.1", "batches": "stratified", "counting": "exact"}, {"counting": "exact"}),
}
"""Leaders of the search, and what they have in common; where iclab's own leads, there are none."""


def changes_of(part: str, reading: Reading) -> dict[str, Any]:
    """Return the changes of settings that make a reading."""
    space = PARTS[part].space
    return {key: value for dimension, name in reading.items() for key, value in space[dimension][name].items()}


def in_words(reading: Reading) -> str:
    """Return a reading as text."""
    return ", ".join(f"{dimension} {value}" for dimension, value in reading.items()) or OWN


def _drawn(rng: random.Random, space: Space, dimensions: list[str]) -> dict[str, str]:
    """Draw a value in each dimension: iclab's own in half of the cases, or any other."""
    found = {}
    for dimension in dimensions:
        own, *others = space[dimension]
        value = own if rng.random() < 0.5 else rng.choice(others)
        if value != own:
            found[dimension] = value
    return found


def drawn_readings(part: str, trainings: int, tests: int, seed: int = 0) -> list[Reading]:
    """Draw readings at random, as many tests for each training; iclab's own is the first."""
    space, rng = PARTS[part].space, random.Random(f"{part} {seed}")
    found: list[Reading] = [{}]
    tested = [dimension for dimension in space if dimension in TESTED]
    trained = [dimension for dimension in space if dimension not in TESTED]
    first: dict[str, str] = {}
    while len(found) < trainings * tests:
        for _ in range(tests - len(found) % tests):
            both = first | _drawn(rng, space, tested)
            reading = {dimension: both[dimension] for dimension in space if dimension in both}
            if reading not in found:
                found.append(reading)
        first = _drawn(rng, space, trained)
    return found[: trainings * tests]


def neighbours(part: str, reading: Reading) -> list[Reading]:
    """Return the readings that differ from one in a single dimension."""
    space = PARTS[part].space
    found: list[Reading] = []
    for dimension, values in space.items():
        own = next(iter(values))
        for value in values:
            if value != reading.get(dimension, own):
                other = {**reading, dimension: value}
                found.append({d: other[d] for d in space if d in other and other[d] != next(iter(space[d]))})
    return found
