"""`iclab train`: flags, files, probes, users' own code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import iclab
from iclab.cli.training import Request

Cli = Callable[..., Any]
SMALL = ("--steps", 5, "--batch-size", 8, "--test-prompts", 20, "--seeds", 2, "--workers", 1)
TOML = """
    model = "mamba"
    seeds = 2
    test_prompts = 20
    [prompts]
    tasks = "ring:3"
    outliers = {fraction = 0.6, scale = 2.0}
    [recipe]
    steps = 5
    batch_size = 8
    step_size = 0.5
    [test.flipped]
    tasks = "all"
    outliers = {fraction = 0.7, scale = 6.0, labels = "flip", patterns = "paper"}
"""
SAME_AS_FLAGS = (
    *("--model", "mamba", "--tasks", "ring:3", "--outlier-fraction", 0.6, "--outlier-scale", 2, "--step-size", 0.5),
    *("--test-tasks", "all", "--test-outlier-fraction", 0.7, "--test-outlier-scale", 6),
    *("--test-outlier-labels", "flip", "--test-outlier-patterns", "paper"),
)


@pytest.fixture
def train(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return a function that runs ``iclab train`` in an empty directory and reads its JSON."""
    monkeypatch.chdir(tmp_path)

    def act(*words: object) -> dict[str, Any]:
        said = cli("train", *words, "--workers", 1, "--store", tmp_path / "store", "--json")
        assert said.code == 0, said.err
        return said.json

    return act


def test_train_by_flags(train: Cli):
    found = train(*SMALL, *SAME_AS_FLAGS)
    assert {"model", "seeds", "seconds", "training", "cells", "measurements", "weights"} <= found.keys()
    assert (found["model"], found["seeds"], found["weights"]) == ("mamba", 2, None)
    assert found["training"]["prompts"]["outliers"]["fraction"] == 0.6
    assert found["training"]["recipe"]["step_size"] == 0.5
    (measured,) = found["measurements"]
    assert [row["seed"] for row in measured["rows"]] == [0, 1]
    errors = [row["error"] for row in measured["rows"]]
    assert measured["error"] == pytest.approx(sum(errors) / 2)
    assert measured["seed_interval"][0] <= measured["error"] <= measured["seed_interval"][1]
    assert measured["prompt_interval"][0] <= measured["error"] <= measured["prompt_interval"][1]
    assert measured["diverged"] == 0


def test_a_file_says_the_same_as_flags(train: Cli, tmp_path: Path):
    (tmp_path / "mine.toml").write_text(TOML)
    by_file, by_flags = train("mine.toml"), train(*SMALL, *SAME_AS_FLAGS)
    assert by_file["cells"] == by_flags["cells"]
    assert by_file["training"] == by_flags["training"]
    (one,), (other,) = by_file["measurements"], by_flags["measurements"]
    assert (one["test"], other["test"]) == ("flipped", "test")
    assert one["rows"] == other["rows"]


def test_flags_win_over_the_file_and_set_over_both(train: Cli, tmp_path: Path):
    (tmp_path / "mine.toml").write_text(TOML)
    words = ("--model", "linear", "--seeds", 1, "--step-size", 0.25, "--set", "recipe.clip=1.5")
    found = train("mine.toml", *words, "--outlier-scale", 9, "--set", "prompts.outliers.scale=3.5")
    assert (found["model"], found["seeds"]) == ("linear", 1)
    recipe, prompts = found["training"]["recipe"], found["training"]["prompts"]
    assert (recipe["step_size"], recipe["clip"], recipe["steps"]) == (0.25, 1.5, 5)
    assert prompts["outliers"]["scale"] == 3.5
    assert prompts["tasks"] == "ring:3"


def test_a_test_changes_only_what_it_names(train: Cli):
    words = (*SMALL, "--model", "linear", "--tasks", "ring:2", "--outlier-fraction", 0.3)
    named = train(*words, "--test-outlier-fraction", 0.3)
    assert named["measurements"][0]["rows"] == train(*words)["measurements"][0]["rows"]
    counted = train(*words, "--test-outlier-count", 20, "--test-outlier-labels", "flip")
    assert counted["measurements"][0]["error"] > named["measurements"][0]["error"]


def test_every_probe_that_is_asked_for(train: Cli):
    words = (*SMALL, "--model", "mamba", "--outlier-fraction", 0.5, "--probe", "gates", "--probe", "attention")
    gates, attention = train(*words)["measurements"]
    assert (gates["probe"], attention["probe"]) == ("gates", "attention")
    assert {(row["seed"], row["kind"], row["place"]) for row in gates["rows"]} == {
        (seed, kind, place) for seed in (0, 1) for kind in ("clean", "outlier", "clean_rank") for place in range(1, 21)
    }
    assert all(0 <= row["gate"] <= 1 for row in gates["rows"] if row["gate"] is not None)
    assert [row["seed"] for row in attention["rows"]] == [0, 1]


def test_train_for_people(cli: Cli, tmp_path: Path):
    words = (
        "--store",
        tmp_path / "store",
        "--save",
        tmp_path / "mine.safetensors",
        "--probe",
        "error",
        "--probe",
        "gates",
    )
    said = cli("train", *SMALL, "--model", "mamba", *words)
    assert said.code == 0
    assert "mamba, 2 seeds" in said.out
    assert "error, as trained: " in said.out
    assert "n-th nearest clean" in said.out
    assert f"weights in {tmp_path / 'mine.safetensors'}" in said.out


@pytest.mark.slow
def test_saved_weights_can_be_loaded(train: Cli, tmp_path: Path):
    words = ("--model", "linear", "--step-size", 0.05, "--dtype", "float64")
    found = train(*SMALL, "--seeds", 9, *words, "--save", "mine.safetensors")
    run = iclab.load(tmp_path / "mine.safetensors")
    assert found["weights"] == "mine.safetensors"
    assert run.seeds == tuple(range(9))
    assert run.weights()["key"].dtype == torch.float64
    assert run.training.model_dump(mode="json") == found["training"]
    error = run.error(count=20)
    assert list(error.per_seed) == [row["error"] for row in found["measurements"][0]["rows"]]
    assert found["loss"] == {"first": run.losses[0].mean(), "last": pytest.approx(run.losses[-1].mean())}


def test_prompts_that_no_paper_has(train: Cli):
    words = (*SMALL, "--model", "linear")
    noisy = train(*words, "--test-label-noise", 1.0)
    assert noisy["measurements"][0]["error"] > 0.9  # every label is turned
    assert train(*words, "--test-outlier-query", 0.5, "--test-relevant-count", 4)["measurements"]
    words = (*SMALL, "--model", "mamba", "--steps", 30, "--probe", "attention")
    old, new = (train(*words, "--test-pattern-draw", draw) for draw in (0, 1))
    assert old["measurements"][0]["rows"][0]["same"] > 2 * new["measurements"][0]["rows"][0]["same"]
    assert old["cells"] == new["cells"]


def test_vectors_of_a_test_replace_norms_and_a_draw_replaces_vectors():
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 2.0]]
    data = {"model": "linear", "prompts": {"patterns": {"relevant": 2, "irrelevant": 1, "outlier": 0}}}
    normed = {"prompts.patterns.dimension": 3, "prompts.patterns.relevant_norm": 2.0}
    one = Request.read(data, normed | {"test.own.patterns.vectors": rows})
    assert one.test["own"].patterns.norms[0] == 1.0
    two = Request.read(data, {"prompts.patterns.vectors": rows, "test.new.patterns": {"draw": 1, "dimension": 3}})
    assert (two.prompts.patterns.dimension, two.test["new"].patterns.vectors) == (3, None)
    three = Request.read(data, normed | {"prompts.patterns.coherence": 0.1, "test.mine.patterns.draw": 2})
    assert (three.test["mine"].patterns.coherence, three.test["mine"].patterns.relevant_norm) == (0.1, 2.0)


@pytest.mark.parametrize("model", ["linear", "softmax"])
def test_a_step_size_beyond_the_precision_diverges_or_is_refused(model: str, cli: Cli, tmp_path: Path):
    words = ("--model", model, "--step-size", 1e39, "--store", tmp_path / "store", "--json")
    said = cli("train", *SMALL, *words)
    if said.code == 2:
        assert "step_size = 1e+39" in said.complaint
    else:
        assert [row["diverged"] for row in said.json["measurements"][0]["rows"]] == [True, True]


# Users' own code.

USERS = """
    import numpy as np
    import torch

    class Net(torch.nn.Module):
        def __init__(self, width, context_length, hidden=3):
            super().__init__()
            self.hide = torch.nn.Linear(width * (context_length + 1), hidden)
            self.read = torch.nn.Linear(hidden, 1)

        def forward(self, prompts):
            return self.read(torch.tanh(self.hide(prompts.flatten(1))))

    class Normed(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.read = torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1)

        def forward(self, prompts):
            return self.read(self.norm(prompts.mean(1))).squeeze(-1)

    class Dropping(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.drop, self.read = torch.nn.Dropout(0.5), torch.nn.Linear(width, 1)

        def forward(self, prompts):
            return self.read(self.drop(prompts.mean(1)))

    class Activated(torch.nn.Module):
        def __init__(self, width, activation=torch.nn.Tanh):
            super().__init__()
            self.act, self.read = activation(), torch.nn.Linear(width, 1)

        def forward(self, prompts):
            return self.read(self.act(prompts.mean(1)))

    def flip(examples):
        return -examples.labels

    def farthest(number, uniform):
        return np.arange(uniform.shape[-1]) < number[..., None]
"""


@pytest.mark.parametrize("name", ["Net", "Normed", "Dropping", "Activated"])
def test_a_users_model_trains(name: str, train: Cli, user_module: Callable[[str, str], None]):
    user_module("my_mod", USERS)
    found = train(
        *SMALL, "--model", f"my_mod:{name}", "--optimizer", "adam", "--step-size", 0.01, "--save", "w.safetensors"
    )
    assert found["model"] == name
    assert [row["diverged"] for row in found["measurements"][0]["rows"]] == [False, False]
    run = iclab.load("w.safetensors")
    assert all((run.weights(0)[n] != w).any() for n, w in run.weights().items() if "read" in n)
    assert list(run.error(count=20).per_seed) == [row["error"] for row in found["measurements"][0]["rows"]]


@pytest.mark.parametrize("name, stacked", [("Net", True), ("Normed", False), ("Dropping", False)])
def test_it_is_said_when_seeds_cannot_be_stacked(
    name: str, stacked: bool, cli: Cli, tmp_path: Path, user_module: Callable[[str, str], None]
):
    user_module("my_mod", USERS)
    said = cli("train", *SMALL, "--model", f"my_mod:{name}", "--store", tmp_path / "store", "--json")
    assert ("seeds run one after another" in said.err) is not stacked
    assert said.json["model"] == name


def test_a_users_model_takes_options(train: Cli, user_module: Callable[[str, str], None]):
    user_module("my_mod", USERS)
    found = train(*SMALL, "--model", "my_mod:Net", "--set", "model.options.hidden=7", "--save", "w.safetensors")
    assert found["training"]["model"]["options"] == {"hidden": 7}
    assert iclab.load("w.safetensors").weights()["hide.bias"].shape == (2, 7)


def test_an_edited_model_is_trained_again(train: Cli, user_module: Callable[[str, str], None]):
    def cells(text: str) -> list[str]:
        user_module("my_mod", text)
        return train(*SMALL, "--model", "my_mod:Net")["cells"]

    first, edited = cells(USERS), cells(USERS.replace("torch.tanh", "torch.relu"))
    assert first == cells(USERS) != edited


def test_users_rules_do_what_the_same_built_in_ones_do(train: Cli, user_module: Callable[[str, str], None]):
    user_module("my_mod", USERS)
    words = (*SMALL, "--model", "linear", "--test-outlier-fraction", 0.6, "--test-outlier-scale", 6)
    mine = train(*words, "--test-outlier-labels", "my_mod:flip", "--test-placement", "my_mod:farthest")
    ours = train(*words, "--test-outlier-labels", "flip", "--test-placement", "farthest")
    for my_row, our_row in zip(mine["measurements"][0]["rows"], ours["measurements"][0]["rows"], strict=True):
        assert my_row == pytest.approx(our_row, rel=1e-5)  # another engine may round otherwise


def test_label_vectors_are_refused_by_models_that_know_numbers(cli: Cli, tmp_path: Path):
    for model in ("mamba", "linear", "deep-linear"):
        said = cli("train", "--model", model, "--label-dimension", 5, "--steps", 2, "--store", tmp_path)
        assert said.code == 2
        assert f"model = {model}: takes labels of one number, these have 5; use softmax-mlp" in said.err


def test_a_model_can_be_named_without_a_flag(cli):
    said = cli("train", "linear", "--steps", 2, "--seeds", 2, "--test-prompts", 50, "--json")
    assert (said.code, said.json["model"]) == (0, "linear")
    assert cli("predict", "linear", "--json").code == 0


def test_a_model_named_twice_is_refused(cli):
    said = cli("train", "linear", "--model", "mamba")
    assert (said.code, said.err) == (2, "iclab: model: linear and --model mamba are both given; leave one out\n")


def test_a_missing_file_is_not_taken_for_a_model(cli, tmp_path):
    assert "missing.toml: cannot be read" in cli("train", "missing.toml").err
    assert "other: cannot be read" in cli("train", tmp_path / "other").err
