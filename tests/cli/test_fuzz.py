"""Odd requests, thousands of them: each runs, or is refused in one line. ``ICLAB_FUZZ=500`` asks for fewer."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import iclab
from iclab.config import InputError
from iclab.lab import costs, needs

REQUESTS = int(os.environ.get("ICLAB_FUZZ", "10000"))
PARTS = 20
BASE: dict[str, Any] = {
    "prompts": {"patterns": {"dimension": 10, "relevant": 3, "irrelevant": 2, "outlier": 3}, "context_length": 5},
    "recipe": {"steps": 2, "batch_size": 4},
}
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e-300, 1e308),
    *(float("nan"), float("inf"), -float("inf"), "", " ", "α", "🤖" * 50, "\x00", "\n", "a\nb", "ring:2", "all", "1e5"),
    *("ring:-1", "ring:999999999999", "unseen:ring:1", "0-1,1-0", "nan", "mamba", "my.module:Thing", "os:system", ":"),
    *("../..", "/", "sgd", "adam", "geometric:3", "geometric:x", "flip", "closest", "fused", "reference", "float64"),
    *([], [[]], [1, 2], [0.1] * 3, {}, {"a": {"b": 1}}, {"": None}, {"name": "mamba"}, DEEP, [None], [[1, 2], [3]]),
]
KEYS = [
    *("model", "model.name", "model.options", "model.options.state_size", "model.options.init_scale", "seeds"),
    *("model.options.layers", "model.options.nothing", "test_prompts", "probes", "engine", "dtype", "basis_seed"),
    *("prompts", "prompts.patterns", "prompts.patterns.dimension", "prompts.patterns.relevant"),
    *("prompts.patterns.irrelevant", "prompts.patterns.outlier", "prompts.patterns.relevant_norm"),
    *("prompts.patterns.coherence", "prompts.patterns.draw", "prompts.patterns.vectors", "prompts.tasks"),
    *("prompts.context_length", "prompts.relevant_fraction", "prompts.relevant_count", "prompts.label_noise"),
    *("prompts.irrelevant_scale", "prompts.signal", "prompts.noise", "prompts.label_dimension", "prompts.balance"),
    *("prompts.outliers", "prompts.outliers.fraction", "prompts.outliers.count", "prompts.outliers.scale"),
    *("prompts.outliers.labels", "prompts.outliers.placement", "prompts.outliers.patterns", "prompts.levels"),
    *("recipe", "recipe.steps", "recipe.batch_size", "recipe.step_size", "recipe.loss", "recipe.optimizer"),
    *("recipe.optimizer_options", "recipe.clip", "recipe.warmup", "recipe.decay", "recipe.stop", "recipe.stop.loss"),
    *("recipe.callback", "recipe.switches", "recipe.snapshots", "recipe.frozen", "pruning", "pruning.rate"),
    *("test", "test.t", "test.t.context_length", "test.t.outliers.fraction", "test.t.tasks", "nothing", "", ".", "a.b"),
]
MODELS = ["mamba", "linear", "softmax", "deep-mamba", "softmax-mlp", "gpt2", "classical", "gla", "nothing", "x:Y"]


@pytest.fixture(autouse=True)
def short_work_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What would take longer than a second is refused here too."""
    check = needs.check

    def checked(schedule: Any, store: Path, seconds: Callable[[Any], float]) -> None:
        check(schedule, store, seconds)
        if sum(map(costs.expected({}), schedule.plan)) > 1.0:
            raise InputError("too long for a test")

    monkeypatch.setattr(needs, "check", checked)
    monkeypatch.chdir(tmp_path)


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        if not isinstance(tree.get(part), dict):
            tree[part] = {}
        tree = tree[part]
    tree[last] = value


def odd_changes(draw: random.Random) -> dict[str, Any]:
    return {key: draw.choice(ODD) for key in draw.sample(KEYS, draw.randint(1, 3))}


def on_the_command_line(draw: random.Random, cli: Callable[..., Any]) -> None:
    words = ["train", "--model", draw.choice(MODELS), "--seeds", 1, "--test-prompts", 5, "--store", "store"]
    small = {"dimension": 10, "relevant": 3, "irrelevant": 2, "context-length": 5, "steps": 2, "batch-size": 4}
    words += [word for flag, value in small.items() for word in (f"--{flag}", value)]
    for key, value in odd_changes(draw).items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--set", f"{key}={text}".replace("\x00", "")]
    said = cli(*words, "--json", "--workers", 1)
    told = (words, said)
    assert said.code in (0, 2), told
    assert "Traceback" not in said.err, told
    if said.code == 2:
        lines = [line for line in said.err.splitlines() if line.startswith("iclab: ") and "warning" not in line]
        assert len(lines) == 1, told
    else:
        assert said.json["measurements"], told


def in_python(draw: random.Random) -> None:
    description: dict[str, Any] = {"model": draw.choice(MODELS), "seeds": 1, **json.loads(json.dumps(BASE))}
    for key, value in odd_changes(draw).items():
        if key.partition(".")[0] in ("model", "prompts", "recipe", "seeds", "engine", "dtype", "basis_seed"):
            put(description, key, value)
    refused = ""
    try:
        run = iclab.train(description.pop("model"), description.pop("prompts"), **description, workers=1)
        run.error(count=5)
    except InputError as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1, (description, refused)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_each_request_runs_or_is_refused_in_one_line(part: int, cli: Callable[..., Any]):
    warnings.simplefilter("ignore")
    for number in range(part, REQUESTS, PARTS):
        draw = random.Random(number)
        try:
            in_python(draw) if number % 3 == 0 else on_the_command_line(draw, cli)
        except BaseException as error:
            error.add_note(f"request {number}")
            raise
