"""Prompts that cannot be drawn or measured are refused in one line, before anything is computed or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import iclab

Cli = Callable[..., Any]
LINEAR = ("train", "--model", "linear", "--steps", 5, "--test-prompts", 20, "--seeds", 2, "--workers", 1)


def key(text: str) -> tuple[object, ...]:
    """Train with another key of the description."""
    return (*LINEAR, "--set", text)


def vectors(rows: object) -> tuple[object, ...]:
    """Train on vectors: two relevant ones and an irrelevant one."""
    counts = ("--relevant", 2, "--irrelevant", 1, "--outlier-pattern-count", 0)
    return (*LINEAR, *counts, "--set", f"prompts.patterns.vectors={rows}")


# What is asked for, and words of the refusal: the field and its value, and what is allowed.
REFUSED: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "label noise above 1": ((*LINEAR, "--label-noise", 1.5), ("label_noise = 1.5", "less than or equal to 1")),
    "label noise in tests": ((*LINEAR, "--test-label-noise", -1), ("label_noise = -1", "greater than or equal to 0")),
    "outliers in the query": ((*LINEAR, "--outlier-query", 2), ("outliers.query = 2", "less than or equal to 1")),
    "outliers in the query without a pattern": (
        (*LINEAR, "--outlier-query", 0.5, "--outlier-pattern-count", 0),
        ("patterns.outlier = 0", "at least one"),
    ),
    "α and a count": (
        (*LINEAR, "--relevant-fraction", 0.5, "--relevant-count", 3),
        ("relevant_count = 3", "either relevant_fraction or relevant_count"),
    ),
    "more relevant examples than examples": ((*LINEAR, "--relevant-count", 21), ("relevant_count = 21", "at most")),
    "pattern draw below 0": ((*LINEAR, "--pattern-draw", -1), ("draw = -1", "greater than or equal to 0")),
    "test patterns of another number": ((*LINEAR, "--test-relevant", 4), ("relevant = 4", "6, unless draw")),
    "test patterns of another dimension": (
        key("test.mine.patterns.dimension=31"),
        ("prompts.patterns.dimension = 31", "that of the training prompts, 30"),
    ),
    "growth along other patterns": (
        (*LINEAR, "--probe", "growth", "--test-pattern-draw", 1),
        ("prompts.patterns", "must be those of the training", "growth"),
    ),
    "vectors without counts": (key("prompts.patterns.vectors=[[1,0],[0,1]]"), ("vectors", "say how many")),
    "vectors of the wrong number": (vectors([[1, 0], [0, 1]]), ("vectors = 2 rows", "2 + 1 + 0 = 3")),
    "vectors of different lengths": (vectors([[1, 0], [0, 1], [1]]), ("vectors = rows of different lengths",)),
    "vectors that are no table": (vectors([1, 2, 3]), ("vectors = int64 of shape (3,)", "(patterns, dimension)")),
    "vectors with NaN": (vectors("[[1,0],[0,1],[nan,1]]"), ("vectors = nan", "row 2", "finite and not 0")),
    "vectors with infinity": (vectors("[[1,0],[-inf,1],[1,1]]"), ("vectors = inf", "row 1", "finite and not 0")),
    "a vector of zeros": (vectors([[1, 0], [0, 0], [0, 1]]), ("vectors = 0.0", "row 1", "finite and not 0")),
    "vectors of another dimension": (
        (*vectors([[1, 0], [0, 1], [1, 1]]), "--dimension", 3),
        ("vectors = rows of 2 numbers", "dimension = 3"),
    ),
    "vectors with a norm": (
        (*vectors([[1, 0], [0, 1], [1, 1]]), "--set", "prompts.patterns.relevant_norm=2.0"),
        ("relevant_norm = 2.0", "used as they are"),
    ),
}


ROWS = [[1, 0], [0, 1], [1, 1]]
COUNTS = {"relevant": 2, "irrelevant": 1, "outlier": 0}


def measured_on(probe: str = "error", **patterns: Any) -> list[Any]:
    """Measure a model that nobody has trained on other patterns."""
    prompts = iclab.Prompts(patterns=patterns)
    return iclab.train("linear", recipe=iclab.Recipe(steps=0), seeds=1).measure(probe, prompts, count=10)


def patterns(**fields: Any) -> Callable[[], object]:
    return lambda: iclab.Patterns(**COUNTS | fields)


def prompts(**fields: Any) -> Callable[[], object]:
    return lambda: iclab.Prompts(**fields)


# The same from Python.
TWINS: dict[str, Callable[[], object]] = {
    "label noise above 1": prompts(label_noise=1.5),
    "label noise in tests": prompts(label_noise=-1),
    "outliers in the query": prompts(outliers={"query": 2}),
    "outliers in the query without a pattern": prompts(outliers={"query": 0.5}, patterns={"outlier": 0}),
    "α and a count": prompts(relevant_fraction=0.5, relevant_count=3),
    "more relevant examples than examples": prompts(relevant_count=21),
    "pattern draw below 0": lambda: iclab.Patterns(draw=-1),
    "test patterns of another number": lambda: measured_on(relevant=4),
    "test patterns of another dimension": lambda: measured_on(dimension=31),
    "growth along other patterns": lambda: measured_on("growth", draw=1),
    "vectors without counts": lambda: iclab.Patterns(vectors=ROWS),
    "vectors of the wrong number": patterns(vectors=ROWS[:2]),
    "vectors of different lengths": patterns(vectors=[*ROWS[:2], [1]]),
    "vectors that are no table": patterns(vectors=[1, 2, 3]),
    "vectors with NaN": patterns(vectors=torch.tensor([[1, 0], [0, 1], [torch.nan, 1]])),
    "vectors with infinity": patterns(vectors=np.array([[1, 0], [-np.inf, 1], [1, 1]])),
    "a vector of zeros": patterns(vectors=np.array([[1, 0], [0, 0], [0, 1]])),
    "vectors of another dimension": patterns(vectors=ROWS, dimension=3),
    "vectors with a norm": patterns(vectors=ROWS, relevant_norm=2.0),
}


def test_every_refusal_has_its_twin():
    assert TWINS.keys() == REFUSED.keys()


@pytest.mark.parametrize("name", TWINS)
def test_python_refuses_in_the_same_line(name: str):
    with pytest.raises(iclab.InputError) as caught:
        TWINS[name]()
    assert "\n" not in str(caught.value)
    for word in REFUSED[name][1]:
        assert word in str(caught.value)


@pytest.mark.parametrize("words, expected", REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line_before_anything_is_written(
    words: tuple[object, ...], expected: tuple[str, ...], cli: Cli, tmp_path: Path
):
    complaint = cli(*words, "--store", tmp_path / "store").complaint
    for word in expected:
        assert word in complaint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [[[1, 0], [0, 1], [1, 1]], [[1, 0, 0], [0, 1, 0], [2, 0, 0]]])
def test_dependent_vectors_run_with_one_warning(rows: list[list[int]], cli: Cli, tmp_path: Path):
    said = cli(*vectors(rows), "--test-label-noise", 0.1, "--store", tmp_path / "s", "--json", show_warnings=True)
    assert said.code == 0, said.err
    (line,) = [line for line in said.err.splitlines() if "warning" in line]
    assert line.startswith("iclab: warning: vectors: the 3 patterns are linearly dependent; no theorem covers them")
    assert said.json["training"]["prompts"]["patterns"]["vectors"] == rows
