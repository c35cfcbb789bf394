"""What the command line refuses, Python refuses in the same line, before anything is computed or written."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from api_helpers import BRIEF, SMALL, Net

import iclab
from iclab import Model, Outliers, Patterns, Prompts, Pruning, Recipe

_SPEC = importlib.util.spec_from_file_location("bad_input", Path(__file__).parents[1] / "cli" / "test_bad_input.py")
assert _SPEC is not None
assert _SPEC.loader is not None
CLI = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(CLI)

Ask = Callable[[], object]


def figure(**settings: Any) -> Ask:
    """Run the figure with other settings."""
    return lambda: iclab.run("M-fig2", **{"steps": 5, "test_prompts": 20, "seeds": 2, "store": "store"} | settings)


def train(model: Any = "linear", **how: Any) -> Ask:
    """Train with other arguments."""
    return lambda: iclab.train(model, **{"recipe": Recipe(steps=5), "seeds": 2, "store": "store"} | how)


def prompts(**fields: Any) -> Ask:
    return lambda: Prompts(**fields)


def outliers(**fields: Any) -> Ask:
    return lambda: Prompts(outliers=Outliers(**fields))


def recipe(**fields: Any) -> Ask:
    return lambda: Recipe(**fields)


def option(name: str = "linear", **options: Any) -> Ask:
    return lambda: Model(name=name, options=options)


def measured(probe: str = "error", **how: Any) -> Ask:
    """Measure a model that nobody has trained."""
    return lambda: iclab.train("linear", recipe=Recipe(steps=0), seeds=1).measure(probe, **how)


def described(**prompts: Any) -> Ask:
    """Train on prompts that are described by a dictionary."""
    return train(prompts=prompts)


TWINS: dict[str, Ask] = {
    "unknown setting": figure(nonsense=1),
    "unknown setting with a dash": figure(**{"test-prompts": 50}),
    "unknown setting with a dot": figure(**{"recipe.steps": 5}),
    "unknown setting in capitals": figure(Steps=5),
    "setting called self": figure(self=1),
    "unknown experiment": lambda: iclab.run("M-fig99"),
    "too many patterns": figure(dimension=10),
    "fraction above 1": figure(outlier_fractions=[0.2, 1.5]),
    "fraction below 0": figure(outlier_fractions=[-0.5]),
    "training fraction above 1": figure(train_outlier_fraction=2),
    "negative K": figure(train_irrelevant_scale=-1),
    "no context": figure(context_length=0),
    "unknown model in a figure": figure(models=["gru"]),
    "model without step size": figure(models=["gpt2"]),
    "users model without step size": figure(models=["my_mod:Good"]),
    "unknown rule in a figure": figure(label_rules=["invert"]),
    "count that is not whole": figure(counting="exact", context_length=7),
    "unknown balance": figure(balance="fair"),
    "tasks of a missing pattern": figure(train_tasks="ring:6"),
    "list without brackets": figure(models="mamba,linear"),
    "number for a list": figure(outlier_fractions=0.5),
    "text for a number": figure(steps="many"),
    "no seeds": figure(seeds=0),
    "no workers": figure(workers=0),
    "unknown key": prompts(nonsense=1),
    "misspelt key": prompts(taks="all"),
    "unknown key further down": train(prompts={"outliers": {"nonsense": 1}}),
    "unknown key with a dash": prompts(**{"context-length": 9}),
    "unknown test key": measured(prompts={"nonsense": 1}),
    "too many patterns to train": lambda: Patterns(dimension=18),
    "outlier fraction": outliers(fraction=1.01),
    "test outlier fraction": outliers(fraction=-0.1),
    "fraction and count": outliers(fraction=0.5, count=2),
    "more outliers than examples": outliers(count=21),
    "K below 0": prompts(irrelevant_scale=-0.5),
    "context length": prompts(context_length=0),
    "unknown model": train("gru"),
    "unknown label rule": outliers(labels="invert"),
    "unknown placement": outliers(placement="middle"),
    "unknown mixture": outliers(patterns="mine"),
    "unknown optimizer": recipe(optimizer="lbfgs"),
    "optimizer that is a list": recipe(optimizer=["adam"]),
    "unknown optimizer option": recipe(optimizer_options={"warmup": 3}),
    "contradicting optimizer options": recipe(optimizer_options={"foreach": True, "fused": True}),
    "step size of 0": recipe(step_size=0),
    "unknown loss": recipe(loss="hing"),
    "loss that does not exist": recipe(loss="no_such:loss"),
    "warm-up longer than the training": recipe(steps=5, warmup=6000),
    "early stopping that never stops": recipe(stop={"window": 3}),
    "snapshots by another name": recipe(snapshots="powers:3"),
    "unknown dtype": train(dtype="float16"),
    "unknown probe": measured("errors"),
    "unknown tasks": prompts(tasks="some"),
    "tasks that name a missing pattern": prompts(tasks=[(0, 1), (5, 6)]),
    "a task of one pattern": prompts(tasks=[(2, 2)]),
    "test tasks that name a missing pattern": prompts(tasks="0-9"),
    "no seeds to train": train(seeds=0),
    "no test prompts": measured(count=0),
    "no workers to train": train(workers=0),
    "unknown model option": option(depth=2),
    "model option of the wrong kind": option(init_scale="big"),
    "model option that is not whole": option(state_size=40.5),
    "model option that is not finite": option(init_scale=float("inf")),
    "model option out of range": option(state_size=0),
    "unknown form": option("mamba", form="fast"),
    "noise below 0": described(noise=-0.1),
    "signal of 0": prompts(signal=[0.0, 1.0]),
    "signal the wrong way round": prompts(signal=[0.9, 0.5]),
    "α above 1": prompts(relevant_fraction=1.2),
    "α' above 1": measured(prompts={"relevant_fraction": 1.2}),
    "mixtures of the wrong length": prompts(relevant_mixtures=[[0.5, 0.5]]),
    "more mixtures than patterns": prompts(relevant_mixtures=[[1.0] * 6] * 7),
    "pruning rate above 1": lambda: Pruning(rate=1.5),
    "pruning rate below 0": lambda: Pruning(rate=-0.5),
    "pruning a model without neurons": lambda: measured(pruning=Pruning(rate=0.5))(),
    "probe of weights that are not there": measured("neurons"),
    "rates outside 0 to 1": lambda: iclab.run("T-fig5", rates=[0.0, 1.1]),
    "τ below 0 in a figure": lambda: iclab.run("S-fig1", noises=[-1.0]),
    "training of a classical learner": train("classical"),
    "heads of GPT-2": option("gpt2", heads=7),
    "module that is not there": train("no_such_mod:Net"),
    "class that is not there": train("my_mod:Nothing"),
    "class with a slip in its name": train("my_mod:Goood"),
    "path for a module": train("./my_mod:Good"),
    "file for a module": train("my_mod.py:Good"),
    "module of a package on its own": train("inside:Net"),
    "module with a slip": train("slip:Net"),
    "module that fails": train("failing:Net"),
    "model that is a number": train("math:pi"),
    "model that is a function": train("my_mod:function"),
    "model with an argument left open": train("my_mod:Needy"),
    "model without parameters": train("my_mod:Bare"),
    "model of the wrong output shape": train("my_mod:Wide"),
    "model that returns nothing": train("my_mod:Mute"),
    "model of the wrong input width": train("my_mod:Narrow"),
    "model of the wrong input rank": train("my_mod:Flat"),
    "model that raises without a word": train("my_mod:Sulking"),
    "model of float16": train("my_mod:Half"),
    "model of whole numbers": train("my_mod:Whole"),
    "model without gradient": train("my_mod:Detached"),
    "model that cannot be built": train("my_mod:Unbuilt"),
    "model that cannot be measured": train("my_mod:Unmeasured"),
    "model for prompts of one length": lambda: iclab.compare(
        ["my_mod:OneLength"], over={"context_length": [20, 30]}, recipes=Recipe(steps=5), seeds=2, store="store"
    ),
    "rule that raises": lambda: train(prompts={"outliers": {"fraction": 0.5, "labels": "my_mod:raising"}})(),
    "test rule that raises": lambda: iclab.compare(
        ["linear"], test={"outliers": {"fraction": 0.5, "labels": "my_mod:raising"}}, seeds=2, store="store"
    ),
    "rule that is not there": outliers(labels="my_mod:nothing"),
    "store below a file": train(store="broken.toml/store"),
    "store that cannot be made": train(store="/proc/nowhere"),
    "file for a store": train(store="broken.toml"),
    "directory that is no store": train(store="."),
}
"""The same mistakes as on the command line, by their names there."""

SHELL_ONLY = {
    "setting without value",
    "unknown experiment to show",
    "no model",
    "missing file",
    "broken file",
    "file with an unknown key",
    "file with a wrong value",
}
"""Mistakes that only arguments of a shell and TOML files can have."""

OTHER_WORDS = {
    "misspelt key": ("taks: unknown key; did you mean tasks?",),
    "no seeds to train": ("seeds = 0", "at least 1"),
    "no test prompts": ("count = 0", "at least 1"),
    "unknown key further down": ("outliers.nonsense", "unknown key"),
    "unknown key with a dash": ("context-length", "unknown key"),
    "noise below 0": ("noise = -0.1", "greater than or equal to 0"),
    "pruning rate above 1": ("rate = 1.5", "less than or equal to 1"),
    "pruning rate below 0": ("rate = -0.5", "greater than or equal to 0"),
}
"""Where Python calls a field otherwise."""


@pytest.fixture
def place(tmp_path: Path, user_module: Callable[[str, str], None]) -> Path:
    """The working directory, with a person's files and modules."""
    for name, text in CLI.FILES.items():
        (tmp_path / name).write_text(text)
    for name, text in CLI.MODULES.items():
        user_module(name, text)
    return tmp_path


def refusal(ask: Ask) -> str:
    with pytest.raises(iclab.InputError) as caught:
        ask()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_every_refusal_of_the_command_line_has_its_twin():
    assert TWINS.keys() | SHELL_ONLY == CLI.REFUSED.keys()


@pytest.mark.parametrize("name", TWINS)
def test_refused_as_on_the_command_line(name: str, place: Path, contents: Callable[[Path], Any]):
    before = contents(place)
    said = refusal(TWINS[name])
    for word in OTHER_WORDS.get(name, CLI.REFUSED[name][1]):
        assert word in said
    assert contents(place) == before


def compare(*models: Any, **how: Any) -> Ask:
    return lambda: iclab.compare(*models or (["linear"],), **{"train": SMALL, "recipes": BRIEF, "seeds": 1} | how)


PYTHONS: dict[str, tuple[Ask, str]] = {
    "misspelt key further down": (
        prompts(outliers={"fractoin": 0.5}),
        "outliers.fractoin: unknown key; did you mean outliers.fraction?",
    ),
    "misspelt key to replace": (lambda: SMALL.replace(contex_length=3), "did you mean context_length"),
    "seeds that are no whole number": (train(seeds=2.5), "seeds = 2.5: must be a whole number of at least 1"),
    "seeds that are a text": (train(seeds="8"), "seeds = '8': must be a whole number"),
    "seeds with a fraction among them": (train(seeds=[0, 1.5]), "seeds = [0, 1.5]: must be"),
    "seeds twice": (
        train(seeds=[1, 1]),
        "seeds = [1, 1]: must be a whole number of at least 1, or a list of different",
    ),
    "seeds below 0": (train(seeds=[-1]), "seeds = [-1]: must be"),
    "array as prompts": (
        train(prompts=np.zeros((3, 4))),
        "prompts = ndarray of shape (3, 4): must be an iclab.Prompts",
    ),
    "recipe as prompts": (train(prompts=BRIEF), "prompts = Recipe: must be an iclab.Prompts"),
    "prompts as recipe": (train(recipe=SMALL), "recipe = Prompts: must be an iclab.Recipe"),
    "array as tasks": (prompts(tasks=np.zeros((2, 2))), "tasks = ndarray of shape (2, 2): must be 'all', 'ring:U'"),
    "number as tasks": (prompts(tasks=3), "tasks = 3: must be 'all', 'ring:U'"),
    "triple as a task": (prompts(tasks=[(0, 1, 2)]), "tasks = [(0, 1, 2)]: must be 'all', 'ring:U'"),
    "module in place of its class": (
        train(Net(5)),
        "model.name = Net: must be the class, not a module that is built already",
    ),
    "number as model": (train(3), "model.name = 3: must be one of mamba, linear, softmax"),
    "number as store": (train(store=3), "store = 3: must be a path, a Store or None"),
    "number as listener": (train(on_progress=3), "on_progress = 3: must be a function"),
    "workers that are a text": (train(workers="2"), "workers = '2': must be at least 1"),
    "array to test on": (measured(prompts=np.zeros(3)), "prompts = ndarray of shape (3,): must be an iclab.Prompts"),
    "prompts of another dimension": (
        measured(prompts=SMALL),
        f"prompts.patterns.dimension = {SMALL.patterns.dimension}: must be that of the training prompts, 30",
    ),
    "count with a fraction": (measured(count=2.5), "count = 2.5: must be a whole number of at least 1"),
    "experiment that is a number": (lambda: iclab.run(3), "experiment = 3: must be an id, such as 'M-fig2'"),
    "model without a keyword": (
        lambda: iclab.Model("mamba"),  # type: ignore[call-arg]
        "Model: takes keywords only; write Model(name='mamba')",
    ),
    "misspelt setting": (figure(stepz=3), "stepz: unknown key; did you mean steps"),
    "unknown model to compare": (compare(["gru"]), "model.name = 'gru': must be one of mamba"),
    "no models": (compare([]), "models = []: must be models by name"),
    "one model that is not in a list": (compare("linear"), "models = 'linear': must be models by name"),
    "two models of one name": (compare(["linear", "linear"]), "must have different names"),
    "model with two recipes": (compare({"a": ("linear", BRIEF, BRIEF)}), "must be a model, or a model and its recipe"),
    "recipe of nobody": (compare(["linear"], recipes={"liner": BRIEF}), "recipes.liner: unknown key; did you mean"),
    "recipe that is a number": (compare(["linear"], recipes=3), "recipes.linear = 3: must be an iclab.Recipe"),
    "misspelt path": (
        compare(over={"outlier.fraction": [0.5]}),
        "outlier.fraction: unknown key; did you mean outliers.fraction",
    ),
    "path without its start": (compare(over={"fraction": [0.5]}), "fraction: unknown key; did you mean"),
    "one value to vary": (compare(over={"outliers.fraction": 0.5}), "over.outliers.fraction = 0.5: must be a list"),
    "no values to vary": (compare(over={"outliers.fraction": []}), "one or more values of different names"),
    "a value twice": (
        compare(over={"outliers.fraction": [0.5, 0.5]}),
        "one or more values of different names",
    ),
    "a value out of range": (compare(over={"outliers.fraction": [2.0]}), "fraction = 2.0: input should be less than"),
    "steps after the last": (compare(over={"step": [5]}), "snapshots or switches = 5: must be at most steps = 4"),
    "a list to vary": (compare(over=["fraction"]), "over = ['fraction']: must be lists of values by key"),
    "array to train on": (compare(train=np.zeros(3)), "train = ndarray of shape (3,): must be an iclab.Prompts"),
    "misspelt probe": (compare(probe="eror"), "probe = 'eror': must be one of error"),
    "misspelt column": (compare(column="eror"), "column = eror: unknown key; did you mean column = error?"),
}
"""Mistakes of Python's own, and the whole line or its beginning."""


@pytest.mark.parametrize("ask, words", PYTHONS.values(), ids=PYTHONS)
def test_mistakes_of_pythons_own_are_refused_in_one_line(
    ask: Ask, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert words in refusal(ask)
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_pairs_is_a_set_of_tasks():
    assert str(Prompts(tasks=[(0, 1), (1, 0)]).tasks) == "0-1,1-0"
    assert torch.is_tensor(iclab.train("linear", {"tasks": "ring:2"}, Recipe(steps=0), seeds=1).weights()["key"])
