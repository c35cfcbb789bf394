"""The modules that docs/score.md invites people to copy: they pass the checks, and have a card."""

import importlib
import sys
from pathlib import Path

import pytest

import iclab
from iclab.score.suite import suite
from iclab.testing import check_model, checks

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = {"lstm": "LSTM", "hf_mamba": "HFMamba", "hf_mamba2": "HFMamba2", "hf_gpt2": "HFGPT2"}
HUGGING_FACE = [name for name in EXAMPLES if name.startswith("hf_")]
QUICK = suite("quick")
KEYS = ("clean", "flip/0.4", "length/5", "classes")
SMOKE = QUICK.replace(
    seeds=(0, 1),
    steps=3,
    test_prompts=5,
    step_sizes={"sgd": (0.03,), "adam": (0.01,)},
    parts=tuple(
        part.replace(trials=tuple(trial for trial in part.trials if trial.key in KEYS))
        for part in QUICK.parts
        if any(trial.key in KEYS for trial in part.trials)
    ),
)


@pytest.fixture
def example(monkeypatch):
    """Import an example as someone in its folder would; what it needs may be missing."""

    def load(name):
        if name in HUGGING_FACE:
            pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
        monkeypatch.syspath_prepend(str(FOLDER))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return getattr(importlib.import_module(name), EXAMPLES[name])

    return load


def test_every_example_is_listed_here_and_in_the_docs():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)
    page = (FOLDER.parent / "docs/score.md").read_text("utf-8")
    for name, kind in EXAMPLES.items():
        assert f"examples/{name}.py" in page
        assert f"iclab score {name}:{kind} --quick" in (FOLDER / f"{name}.py").read_text("utf-8")


@pytest.mark.slow
def test_an_lstm_passes_all_checks_and_has_a_card(example):
    model = example("lstm")
    assert set(check_model(model).skipped) == {"stacked"}
    card = iclab.score(model, of=SMOKE, workers=1)
    assert not card.failed
    assert all(len(card[key].per_seed) == 2 for key in KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_a_hugging_face_model_keeps_the_contract(name, example):
    model, known = example(name), dict(checks())
    for check in ("shape", "batch", "prefix"):
        known[check](model)


@pytest.mark.nightly
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_a_hugging_face_model_passes_all_checks_and_has_a_card(name, example):
    model = example(name)
    assert set(check_model(model).skipped) == {"recurrent"}
    card = iclab.score(model, of=SMOKE, workers=1)
    assert all(len(card[key].per_seed) == 2 for key in KEYS)
