"""A cell's hash is over its meaning: all of it, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_helpers import DESCRIPTION, PROMPTS, RECIPE, TRAIN_PROMPTS, TRAINING, measurement
from pydantic import ValidationError

from iclab import prompts
from iclab.config import InputError
from iclab.engines import ENGINES
from iclab.engines.registry import FORMS
from iclab.lab import MeasurementCell, TrainingCell
from iclab.models import MODELS, Architecture, Model
from iclab.probes import PROBES
from iclab.prompts import PAPER_MIXTURES, Outliers, Patterns, Prompts, Ring

GROUP = Architecture.group_size
OPTIONS = f"{TRAINING}.model.options"

# What is written out, and what it is when nothing is said.
DEFAULTS = {
    "training.group": 0,
    f"{TRAINING}.dtype": "float32",
    f"{TRAINING}.device": "cpu",
    f"{TRAINING}.basis_seed": None,
    f"{OPTIONS}": {},
    f"{OPTIONS}.init_scale": 0.2,
    f"{OPTIONS}.state_size": None,
    f"{OPTIONS}.form": "closed",
    f"{RECIPE}.loss": "hinge",
    f"{RECIPE}.optimizer": "sgd",
    f"{RECIPE}.optimizer_options": {},
    f"{RECIPE}.clip": None,
    f"{RECIPE}.decay": "none",
    f"{RECIPE}.switches": [],
    f"{TRAIN_PROMPTS}.irrelevant_scale": 0.5,
    f"{TRAIN_PROMPTS}.balance": "independent",
    f"{TRAIN_PROMPTS}.outliers.labels": "random",
    f"{TRAIN_PROMPTS}.outliers.target": 1,
    f"{TRAIN_PROMPTS}.outliers.placement": "random",
    f"{TRAIN_PROMPTS}.outliers.patterns": "training",
    "prompts.outliers.count": None,
    "draw": 0,
}

# Two ways to write the same thing.
SAME = {
    "int for a float": ({f"{RECIPE}.step_size": 1}, {f"{RECIPE}.step_size": 1.0}),
    "int for a nested float": ({"prompts.outliers.scale": 6}, {"prompts.outliers.scale": 6.0}),
    "int for an optimiser's option": (
        {f"{RECIPE}.optimizer_options": {"momentum": 0}},
        {f"{RECIPE}.optimizer_options": {"momentum": 0.0}},
    ),
    "options in another order": (
        {f"{RECIPE}.optimizer_options": {"momentum": 0.9, "weight_decay": 0.1}},
        {f"{RECIPE}.optimizer_options": {"weight_decay": 0.1, "momentum": 0.9}},
    ),
    "int for a model's option": ({f"{OPTIONS}.init_scale": 1}, {f"{OPTIONS}.init_scale": 1.0}),
    "list for a tuple": ({f"{RECIPE}.snapshots": [1, 2]}, {f"{RECIPE}.snapshots": (1, 2)}),
    "tasks as text or object": ({"prompts.tasks": "ring:2"}, {"prompts.tasks": Ring(steps=2)}),
    "tasks as text or data": ({"prompts.tasks": "ring"}, {"prompts.tasks": {"kind": "ring"}}),
    "listed tasks": ({"prompts.tasks": "0-1,1-2"}, {"prompts.tasks": {"kind": "listed", "listed": [[0, 1], [1, 2]]}}),
    "mixtures by name": ({"prompts.outliers.patterns": "paper"}, {"prompts.outliers.patterns": PAPER_MIXTURES}),
    "prompts as object": ({"prompts": PROMPTS}, {"prompts": Prompts.model_validate(PROMPTS)}),
    "outliers as object": ({"prompts.outliers": {"count": 2}}, {"prompts.outliers": Outliers(count=2)}),
    "model by name": ({f"{TRAINING}.model": "mamba"}, {f"{TRAINING}.model": Model(name="mamba")}),
    "model as data": ({f"{TRAINING}.model": {"name": "linear"}}, {f"{TRAINING}.model": "linear"}),
}

# What decides a training, and what decides a measurement of it alone.
TRAINING_CHANGES = {
    "training.group": 1,
    f"{TRAINING}.dtype": "float64",
    f"{TRAINING}.device": "cuda",
    f"{TRAINING}.basis_seed": 0,
    f"{TRAINING}.model.name": "linear",
    f"{OPTIONS}.init_scale": 0.3,
    f"{OPTIONS}.state_size": 9,
    f"{OPTIONS}.form": "recurrence",
    f"{RECIPE}.batch_size": 5,
    f"{RECIPE}.step_size": 0.25,
    f"{RECIPE}.optimizer": "adam",
    f"{RECIPE}.optimizer_options": {"momentum": 0.9},
    f"{RECIPE}.clip": 1.0,
    f"{RECIPE}.decay": "linear",
    f"{RECIPE}.switches": [{"step": 1, "prompts": PROMPTS}],
    f"{RECIPE}.snapshots": (3,),
    f"{TRAIN_PROMPTS}.tasks": "ring:1",
    f"{TRAIN_PROMPTS}.context_length": 6,
    f"{TRAIN_PROMPTS}.irrelevant_scale": 0.6,
    f"{TRAIN_PROMPTS}.balance": "stratified",
    f"{TRAIN_PROMPTS}.outliers": {"count": 2},
    f"{TRAIN_PROMPTS}.outliers.fraction": 0.4,
    f"{TRAIN_PROMPTS}.outliers.scale": 3.0,
    f"{TRAIN_PROMPTS}.outliers.labels": "flip",
    f"{TRAIN_PROMPTS}.outliers.target": -1,
    f"{TRAIN_PROMPTS}.outliers.placement": "closest",
    f"{TRAIN_PROMPTS}.outliers.patterns": "paper",
    f"{TRAIN_PROMPTS}.outliers.query": 0.1,
    f"{TRAIN_PROMPTS}.label_noise": 0.1,
    f"{TRAIN_PROMPTS}.relevant_count": 2,
}
MEASUREMENT_CHANGES = {
    "probe": "gates",
    "count": 21,
    "at": 2,
    "draw": 1,
    "prompts.tasks": "all",
    "prompts.context_length": 4,
    "prompts.irrelevant_scale": 1.5,
    "prompts.balance": "stratified",
    "prompts.outliers.fraction": 0.7,
    "prompts.outliers.scale": 6.0,
    "prompts.outliers.labels": "target",
    "prompts.outliers.placement": "farthest",
    "prompts.outliers.patterns": [{"weights": (1, 0, 0)}],
    "prompts.outliers": {"count": 3},
    "prompts.outliers.query": 0.2,
    "prompts.label_noise": 0.2,
    "prompts.relevant_count": 3,
    "prompts.patterns.draw": 1,
    "prompts.patterns.relevant_norm": 1.0,
}
PATTERN_CHANGES = {
    "dimension": 11,
    "relevant": 4,
    "irrelevant": 3,
    "outlier": 2,
    "relevant_norm": 2.0,
    "irrelevant_norm": 2.0,
    "outlier_norm": 2.0,
    "coherence": 0.1,
    "draw": 1,
    "vectors": [[float(i == j) for j in range(10)] for i in range(8)],
}


def backwards(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: backwards(data[key]) for key in reversed(data)}
    return data


def test_field_order_changes_nothing():
    cell = MeasurementCell.model_validate(backwards(DESCRIPTION))
    assert list(backwards(DESCRIPTION)) != list(DESCRIPTION)
    assert (cell, cell.hash, cell.training.hash) == (measurement(), measurement().hash, measurement().training.hash)


@pytest.mark.parametrize("path", DEFAULTS)
def test_a_default_spelled_out_changes_nothing(path: str):
    assert measurement({path: DEFAULTS[path]}).hash == measurement().hash


def test_all_defaults_spelled_out_change_nothing():
    assert MeasurementCell.model_validate(measurement().model_dump()).hash == measurement().hash


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_two_spellings_of_one_meaning_have_one_hash(same: tuple[dict[str, Any], dict[str, Any]]):
    one, other = map(measurement, same)
    assert (one.hash, one.training.hash) == (other.hash, other.training.hash)


def test_the_last_step_is_the_default_however_the_training_is_given():
    data = {key: value for key, value in DESCRIPTION.items() if key != "at"}
    as_object = MeasurementCell(**data | {"training": TrainingCell.model_validate(data["training"])})
    assert as_object.at == 4
    assert MeasurementCell.model_validate(data) == as_object


@pytest.mark.parametrize("path", TRAINING_CHANGES)
def test_what_decides_a_training_is_in_both_hashes(path: str):
    cell = measurement({path: TRAINING_CHANGES[path]})
    assert cell.training.hash != measurement().training.hash
    assert cell.hash != measurement().hash


def test_steps_are_in_both_hashes():
    cell = measurement({f"{RECIPE}.steps": 5, "at": 5})
    assert cell.training.hash != measurement().training.hash
    assert cell.hash != measurement({f"{RECIPE}.steps": 5, "at": 0}).hash


@pytest.mark.parametrize("field", PATTERN_CHANGES)
def test_patterns_are_in_both_hashes(field: str):
    cell = measurement({f"{where}.patterns.{field}": PATTERN_CHANGES[field] for where in (TRAIN_PROMPTS, "prompts")})
    assert cell.training.hash != measurement().training.hash
    assert cell.hash != measurement().hash


def test_every_field_of_patterns_is_tried():
    assert set(PATTERN_CHANGES) | {"table"} == set(Patterns.model_fields)  # a table takes the place of all others


def test_the_name_of_a_table_is_in_both_hashes():
    def cell(key: str) -> MeasurementCell:
        table = {"key": key * 20, "name": "numbers", "dimension": 3}
        prompts = {"patterns": {"table": table}, "context_length": 2}
        training = {"training": {"model": {"name": "mamba"}, "prompts": prompts}}
        return MeasurementCell.model_validate({"training": training, "probe": "error", "prompts": prompts})

    assert cell("a").training.hash != cell("b").training.hash
    assert cell("a").hash != cell("b").hash


@pytest.mark.parametrize("path", MEASUREMENT_CHANGES)
def test_what_decides_a_measurement_retrains_nothing(path: str):
    cell = measurement({path: MEASUREMENT_CHANGES[path]})
    assert cell.hash != measurement().hash
    assert cell.training.hash == measurement().training.hash


def test_no_two_changes_share_a_hash():
    changes = [{path: value} for path, value in (TRAINING_CHANGES | MEASUREMENT_CHANGES).items()]
    assert len({measurement(change).hash for change in [{}, *changes]}) == len(changes) + 1


def raise_version(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """Raise the version of the prompts, or of one model, engine, form of the fused engine or probe."""
    if kind == "prompts":
        monkeypatch.setattr(prompts, "VERSION", prompts.VERSION + 1)
    elif kind == "model":
        monkeypatch.setattr(MODELS[name], "version", MODELS[name].version + 1)
    else:
        table = {"engine": ENGINES, "form": FORMS, "probe": PROBES}[kind]
        monkeypatch.setitem(table, name, table[name]._replace(version=table[name].version + 1))


ON_FUSED = {f"{TRAINING}.model": "mamba"}
ON_REFERENCE = {f"{TRAINING}.model": "softmax"}
ON_COMPACT = {f"{TRAINING}.model": "softmax-mlp", f"{TRAINING}.recipe.optimizer": "adam"}
GPT2 = {f"{TRAINING}.model": "gpt2"}
NOISY_TEST = {"prompts.noise": 0.5}  # which the fused engine leaves to the reference engine


@pytest.mark.parametrize(
    "kind, name, cell, changed",
    [
        ("prompts", "", ON_FUSED, "both"),
        ("model", "mamba", ON_FUSED, "both"),
        ("model", "gpt2", ON_FUSED, "none"),
        ("model", "gpt2", GPT2, "both"),
        ("model", "mamba", GPT2, "none"),
        ("form", "one-layer", ON_FUSED, "both"),
        ("engine", "reference", ON_FUSED, "none"),
        ("engine", "reference", ON_FUSED | NOISY_TEST, "measurement"),
        ("engine", "reference", ON_FUSED | {"probe": "tokens"}, "measurement"),
        ("engine", "reference", ON_FUSED | {"probe": "vote"}, "none"),
        ("engine", "reference", ON_FUSED | {"probe": "norms"}, "none"),
        ("engine", "reference", ON_REFERENCE, "both"),
        ("form", "one-layer", ON_REFERENCE, "none"),
        ("engine", "compact", ON_COMPACT, "both"),
        ("engine", "reference", ON_COMPACT, "both"),
        ("probe", "error", ON_FUSED, "measurement"),
        ("probe", "gates", ON_FUSED, "none"),
        ("probe", "gates", ON_FUSED | {"probe": "gates"}, "measurement"),
    ],
)
def test_a_new_version_changes_the_hashes_of_its_own_cells(
    kind: str, name: str, cell: dict[str, Any], changed: str, monkeypatch: pytest.MonkeyPatch
):
    found = measurement(cell)
    before = found.training.hash, found.hash
    raise_version(monkeypatch, kind, name)
    expected = {"none": (True, True), "measurement": (True, False), "both": (False, False)}[changed]
    assert (found.training.hash == before[0], found.hash == before[1]) == expected


@pytest.mark.parametrize("changes", [TRAINING_CHANGES, MEASUREMENT_CHANGES], ids=["training", "measurement"])
def test_json_keeps_equality_and_hash(changes: dict[str, Any]):
    for path, value in changes.items():
        cell = measurement({path: value})
        again = MeasurementCell.model_validate_json(cell.model_dump_json())
        assert (again, again.hash, again.training.hash) == (cell, cell.hash, cell.training.hash), path


small = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(1, 3),
        "draw": st.integers(0, 2),
        "prompts.outliers.scale": st.sampled_from([0, 0.0, 1, 1.0, 1.5]),
        "prompts.outliers.labels": st.sampled_from(["random", "flip"]),
        f"{RECIPE}.step_size": st.floats(1e-3, 10),
        f"{OPTIONS}.init_scale": st.floats(0.01, 1),
    },
)


@settings(max_examples=60, deadline=None)
@given(small, small)
def test_equal_cells_and_only_they_share_a_hash(one: dict[str, Any], other: dict[str, Any]):
    a, b = measurement(one), measurement(other)
    assert (a == b) == (a.hash == b.hash)
    again = MeasurementCell.model_validate_json(json.dumps(backwards(json.loads(a.model_dump_json()))))
    assert (again, again.hash) == (a, a.hash)


@pytest.mark.parametrize(
    "above",
    [
        "",
        "training.",
        f"{TRAINING}.",
        f"{TRAINING}.model.",
        f"{RECIPE}.",
        f"{TRAIN_PROMPTS}.",
        "prompts.patterns.",
        "prompts.outliers.",
    ],
)
def test_unknown_keys_are_refused_everywhere(above: str):
    with pytest.raises(ValidationError, match="extra_forbidden"):
        measurement({f"{above}nonsense": 1})


def test_unknown_model_options_are_refused():
    with pytest.raises(ValidationError, match=r"nonsense = 1: unknown option; known: state_size, init_scale"):
        measurement({f"{OPTIONS}.nonsense": 1})


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("path", [f"{RECIPE}.step_size", "prompts.outliers.scale", f"{OPTIONS}.init_scale"])
def test_numbers_that_are_not_finite_are_refused(path: str, value: float):
    with pytest.raises(ValidationError):
        measurement({path: value})


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"probe": "nope"}, "probe = 'nope': must be one of error, worst, worst-placement, worst-of-all, attention"),
        ({"at": 3}, "at = 3: weights are kept after steps 0, 2, 4"),
        ({"prompts.patterns.dimension": 11}, "prompts.patterns.dimension = 11: must be that of the training"),
        ({"probe": "growth", "prompts.patterns.draw": 1}, "prompts.patterns: must be those of the training"),
        ({"probe": "exact", "prompts.noise": 0.1}, "prompts.noise = 0.1: the probe exact knows only 0.0"),
        ({"count": 0}, "greater than or equal to 1"),
        ({"draw": -1}, "greater than or equal to 0"),
        ({"training.group": -1}, "greater than or equal to 0"),
    ],
)
def test_cells_that_make_no_sense_are_refused(changes: dict[str, Any], words: str):
    with pytest.raises(ValidationError, match=re.escape(words)):
        measurement(changes)


def test_cells_are_frozen():
    with pytest.raises(InputError, match=r"count: a description does not change; replace\(count=…\) returns"):
        measurement().count = 3


@pytest.mark.parametrize("seeds, expected", [(1, [0]), (GROUP, [0]), (GROUP + 1, [0, 1]), (3 * GROUP, [0, 1, 2])])
def test_groups_cover_the_seeds_and_no_more(seeds: int, expected: list[int]):
    training = measurement().training.training
    cells = TrainingCell.groups(training, seeds)
    assert [cell.group for cell in cells] == expected
    assert [seed for cell in cells for seed in cell.seeds][:seeds] == list(range(seeds))
    small = TrainingCell.groups(training.replace(model={"name": "classical"}, engine="auto"), seeds)  # of four
    assert [seed for cell in small for seed in cell.seeds][:seeds] == list(range(seeds))
    assert len(small) == -(-seeds // 4)


def test_the_size_of_a_group_is_in_both_hashes(monkeypatch: pytest.MonkeyPatch):
    cell = measurement(ON_FUSED)
    before = cell.training.hash, cell.hash
    monkeypatch.setattr(MODELS["mamba"], "group_size", 4)
    again = measurement(ON_FUSED)
    assert again.training.hash != before[0]
    assert again.hash != before[1]


def test_how_neurons_are_chosen_is_in_the_hash_of_pruned_measurements_alone(monkeypatch: pytest.MonkeyPatch):
    def hashes() -> tuple[str, str]:
        return measurement(ON_COMPACT).hash, measurement(ON_COMPACT | {"pruning": {"rate": 0.5}}).hash

    before = hashes()
    monkeypatch.setattr("iclab.lab.cells.PRUNING_VERSION", 2)
    after = hashes()
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)
