"""Recipes of single models: another optimiser for one model of an experiment, or a refusal in one line."""

import json

import pytest

from iclab.catalog import find
from iclab.config import Code, InputError
from iclab.study.edition import Edition
from iclab.study.records import records_of

MINE = """
import torch

class Mine(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = torch.nn.Linear(width, 1)

    def forward(self, tokens):
        return self.map(tokens).mean((1, 2))
"""


def recipes(id_, pairs):
    """Return the recipes of an experiment's trainings by the names of their models."""
    experiment = find(id_)
    edition = Edition(experiment, experiment.settings().quick().changed(pairs))
    trainings = [cell.training.training for cell in edition.cells]
    return {training.model.label: training.recipe for training in trainings}


@pytest.mark.parametrize("name", ["Mine", "mine:Mine"])
def test_a_model_has_its_own_optimiser_and_the_others_keep_theirs(user_module, name):
    user_module("mine", MINE)
    asked = {"models": ["mamba", "mine:Mine"], f"recipes.{name}.optimizer": "adam", f"recipes.{name}.step_size": 0.01}
    found = recipes("M-fig2", asked)
    assert (found["Mine"].optimizer, found["Mine"].step_size, found["Mine"].steps) == ("adam", 0.01, 1000)
    assert found["mamba"] == recipes("M-fig2", {})["mamba"]


def test_another_optimiser_needs_no_step_size(user_module):
    user_module("mine", MINE)
    found = recipes("M-fig2", {"models": ["mamba", "mine:Mine"], "recipes.Mine.optimizer": "adam"})
    assert found["Mine"].step_size == 0.001  # torch's
    with pytest.raises(InputError, match=r"^step_sizes: has none for mine:Mine; .*recipes.mine:Mine.optimizer=adam$"):
        recipes("M-fig2", {"models": ["mamba", "mine:Mine"]})


def test_a_whole_recipe_can_be_given_at_once():
    found = recipes("M-fig2", {"recipes.mamba": {"optimizer": "adam", "steps": 30}})
    assert (found["mamba"].optimizer, found["mamba"].steps, found["linear"].steps) == ("adam", 30, 1000)


def test_options_of_an_optimiser_can_be_given():
    found = recipes("M-fig2", {"recipes.linear.optimizer_options": {"momentum": 0.9}})
    assert found["linear"].optimizer_options == {"momentum": 0.9}


def test_deep_models_and_those_of_paper_t_take_recipes_too():
    assert recipes("M-tab1", {"recipes.deep-mamba.clip": 1.0})["deep-mamba"].clip == 1.0
    found = recipes("T-fig3", {"recipes.gpt2.decay": "cosine", "recipes.softmax-mlp.step_size": 0.5})
    assert (found["gpt2"].decay, found["gpt2"].optimizer, found["softmax-mlp"].step_size) == ("cosine", "adamw", 0.5)


def test_entries_of_other_tables_can_be_changed_one_by_one():
    settings = (
        find("M-tab1").settings().changed({"architectures.deep-mamba.norm": "none", "step_sizes.deep-mamba": 0.1})
    )
    usual = find("M-tab1").settings()
    assert settings.architectures["deep-mamba"] == usual.architectures["deep-mamba"] | {"norm": "none"}
    assert settings.step_sizes == usual.step_sizes | {"deep-mamba": 0.1}


@pytest.mark.parametrize(
    ("id_", "pairs", "words"),
    [
        ("M-fig2", {"recipes.mamba.optimizer": "adm"}, ("recipes.mamba.optimizer = 'adm'", "sgd, adam")),
        (
            "M-fig2",
            {"recipes.mamba.optimiser": "adam"},
            ("recipes.mamba.optimiser: unknown key", "mean recipes.mamba.optimizer"),
        ),
        ("M-fig2", {"recipes.mambo.step_size": 1.0}, ("recipes = mambo", "its models are mamba, linear")),
        ("M-fig2", {"recipes.mamba.step_size": -1.0}, ("recipes.mamba.step_size = -1.0", "greater than 0")),
        ("M-fig2", {"recipes.softmax.step_size": 1.0}, ("recipes = softmax", "mamba, linear")),
        (
            "M-tab1",
            {"recipes.deep-mamba.snapshots": [3]},
            ("recipes.deep-mamba", "sets the recipe of deep-mamba itself"),
        ),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(id_, pairs, words):
    with pytest.raises(InputError) as caught:
        recipes(id_, pairs)
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert word in str(caught.value)


def test_a_function_in_a_recipe_is_remembered_if_it_can_be_imported(user_module):
    user_module("mine", "def loss(outputs, labels):\n    return (outputs - labels) ** 2\n")
    experiment, wanted = find("M-fig2"), {"linear": {"loss": Code.of("mine:loss").load()}}
    edition = Edition(experiment, experiment.settings(recipes=wanted))
    (record,) = records_of([edition])
    assert json.loads(json.dumps(record)) == record
    assert [*record["code"]] == ["mine:loss"]
    again = Edition(experiment, experiment.settings.model_validate(record["settings"]))
    assert [cell.hash for cell in again.cells] == [cell.hash for cell in edition.cells]
    unnamed = {"linear": {"loss": lambda outputs, labels: (outputs - labels) ** 2}}
    assert records_of([Edition(experiment, experiment.settings(recipes=unnamed))]) == []
