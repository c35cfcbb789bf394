"""What architectures declare, and what users' classes get."""

import types
from pathlib import Path

import pytest
import torch
from torch import nn

import iclab
from iclab.engines import Recipe, Training, stacking_obstacle, train, weights
from iclab.engines.rehearsal import rehearse_answers, rehearse_training
from iclab.lab import TrainingCell
from iclab.models import MODELS, Architecture, DeepMamba, Mamba, Model, SoftmaxMLP, architecture, declared
from iclab.probes import measure
from iclab.prompts import Patterns, Prompts

SMALL = Prompts(patterns=Patterns(dimension=9, relevant=3, irrelevant=2, outlier=2), context_length=4)


def test_models_are_listed_in_a_sensible_order():
    assert list(MODELS)[:10] == [
        *("mamba", "linear", "softmax", "deep-mamba", "deep-linear", "deep-softmax", "deep-hybrid"),
        *("softmax-mlp", "gpt2", "classical"),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_page_of_models_has_every_one(name):
    assert f"`{name}`" in (Path(__file__).parents[2] / "docs" / "models.md").read_text()


@pytest.mark.parametrize("name", MODELS)
def test_every_built_in_model_declares_itself(name):
    kind = MODELS[name]
    assert kind.name == name
    assert kind.label
    assert kind.readable is not None
    assert (kind.step_size is None) == (name in ("gpt2", "classical"))
    assert kind.several_layers == name.startswith("deep-")
    assert Model(name=name).architecture is architecture(name) is kind


@pytest.fixture
def registry():
    """Forget the classes that a test defines."""
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def define(**declarations):
    """Define a class as a new file of the models folder would."""
    body = {"__module__": "iclab.models.mean", **declarations}
    return types.new_class("Mean", (Plain, Architecture), exec_body=lambda space: space.update(body))


def test_a_class_in_a_new_file_registers_itself(registry):
    kind = define(name="mean", label="mean of labels", list_order=35, group_size=2)
    assert list(MODELS)[:5] == ["mamba", "linear", "softmax", "mean", "deep-mamba"]
    assert Model(name="mean").architecture is kind
    assert len(TrainingCell(training=Training(model="mean", prompts=SMALL)).seeds) == 2
    run = iclab.train("mean", SMALL, Recipe(steps=2), seeds=3, workers=1)  # other processes do not know it
    assert run.error(count=20).mean is not None


def test_two_files_cannot_take_one_name(registry):
    with pytest.raises(TypeError, match=r"name = 'mamba': is taken by iclab\.models\.mamba\.Mamba"):
        define(name="mamba")


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.read = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.read(tokens[:, -1])


class Declared(Plain, Architecture):
    """A user's model that says what it can do."""

    label = "my model"
    colour = "#123456"
    group_size = 3
    version = 5
    step_size = 0.1
    readable = frozenset()

    @classmethod
    def longest_context(cls, options):
        return 6

    @classmethod
    def one_by_one(cls, options):
        return "it likes to be alone"

    def initialise(self, basis, seed):
        with torch.no_grad():
            self.read.weight.fill_(seed)


def test_a_plain_module_has_the_defaults():
    assert declared(Plain) is Architecture
    model = Model(name=Plain)
    assert model.architecture.group_size == 8
    assert model.architecture.fused_gate is None
    assert model.length_obstacle(10**6) == ""
    assert Training(model=model).engine == "reference"


def test_a_users_class_gets_what_built_in_models_get():
    training = Training(model=Declared, prompts=SMALL, recipe=Recipe(steps=0))
    assert architecture(f"{__name__}:Declared").label == "my model"
    assert TrainingCell(training=training, group=1).seeds == (3, 4, 5)
    assert "at most 6" in training.model.length_obstacle(7)
    assert stacking_obstacle(training) == "it likes to be alone"
    trained = train(training, (0, 2))
    torch.testing.assert_close(weights(trained)["read.weight"][:, 0, 0], torch.tensor([0.0, 2.0]))
    with pytest.raises(iclab.InputError, match="probe = norms: reads keys, which Declared does not have"):
        measure(trained, "norms", SMALL, 5)
    assert "Declared" not in MODELS


def test_a_users_version_is_part_of_the_hash(monkeypatch):
    cell = TrainingCell(training=Training(model=Declared, prompts=SMALL))
    before = cell.hash
    monkeypatch.setattr(Declared, "version", 6)
    assert cell.hash != before


def test_an_option_that_came_later_changes_no_hash_at_its_default(monkeypatch):
    plain = Model(name="deep-mamba")
    assert plain.options["stream"] == "full"
    before, other = plain.digest(), Model(name="deep-mamba", options={"stream": "label"})
    assert "stream" not in plain.model_dump()["options"]
    assert Model.model_validate(plain.model_dump()) == plain
    assert Model.model_validate(other.model_dump()) == other
    assert other.digest() != before
    assert Model(name="deep-mamba", options={"stream": "full"}).digest() == before
    monkeypatch.setattr(DeepMamba, "later_options", frozenset())
    assert Model(name="deep-mamba").digest() != before


class MyMamba(Mamba):
    def forward(self, tokens):
        return -super().forward(tokens).output


class MyMLP(SoftmaxMLP):
    def forward(self, tokens):
        return -super().forward(tokens).output


def test_a_subclass_does_not_inherit_the_fast_form_of_another_function():
    """The fused and the compact engine would train the parent's function in its place."""
    assert (MyMamba.fused_gate, MyMamba.name, MyMamba.label) == (None, "", "Mamba")
    assert not MyMLP.has_compact_form
    assert SoftmaxMLP.has_compact_form
    for model in (MyMamba, MyMLP):
        assert Training(model=model).engine == "reference"


class Twin(Mamba):
    fused_gate = "product"


def test_a_users_class_may_declare_a_fused_form():
    training = Training(model=Twin, prompts=SMALL, recipe=Recipe(steps=3, batch_size=8))
    assert training.engine == "fused"
    mine, built_in = train(training, (0,)), train(training.replace(model=Model(name="mamba")), (0,))
    torch.testing.assert_close(weights(mine)["key"], weights(built_in)["key"], atol=0, rtol=0)


class Keyless(Plain, Architecture):
    fused_gate = "none"


def test_a_fused_form_needs_its_options():
    with pytest.raises(ValueError, match="model Keyless has no option init_scale, which the fused engine needs"):
        Training(model=Keyless, engine="fused")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("gpt2", "classical")])
def test_seeds_of_built_in_models_are_stacked_in_training_and_in_evaluation(name):
    training = Training(model=name, prompts=SMALL, engine="reference")
    assert rehearse_training(training).obstacle == ""
    assert rehearse_answers(training, SMALL).obstacle == ""
