"""`iclab predict` and `iclab.predict`: the same numbers, for people and for programs, and refusals of one line."""

import json
import math

import numpy
import pytest

import iclab
from iclab.catalog import find
from iclab.study.predicting import settings_of
from iclab.theory.conditions import conditions

FIG2 = (
    *("--tasks", "ring:3", "--outlier-fraction", 0.6, "--test-tasks", "all", "--test-outlier-fraction", 0.8),
    *("--test-outlier-scale", 6, "--test-outlier-patterns", "paper", "--test-irrelevant-scale", 1.5),
)
TRAIN = iclab.Prompts(tasks="ring:3", outliers=iclab.Outliers(fraction=0.6))
TEST = iclab.Prompts(irrelevant_scale=1.5, outliers=iclab.Outliers(fraction=0.8, scale=6.0, patterns="paper"))


def by_id(rows):
    return {row["id"]: row for row in rows}


def test_the_figure_of_the_paper(cli):
    told = cli("predict", "--model", "mamba", *FIG2, "--json").json
    found = by_id(told["conditions"])
    assert [id_ for id_, row in found.items() if not row["holds"]] == [
        "M-thm1 (i)",
        "M-thm2 (b) restored",
        "M-thm2 (c)",
    ]
    restored = found["M-thm2 (b) restored"]
    assert restored["right"] == pytest.approx(2 / 0.3)
    assert restored["slack"] == pytest.approx(0.9)
    assert (restored["left"], restored["relation"], restored["constant"]) == (6.0, "≥", None)
    assert found["M-thm1 (iii) lower"]["constant"] == 1
    assert found["M-thm1 (i)"]["where"] == "M Theorem 1"
    assert told["graph"]["complete"] is True
    assert told["setting"]["test_outlier_fraction"] == 0.8
    assert by_id(told["predictions"])["floor.flip"]["value"] == pytest.approx(0.8**20)


def test_python_says_the_same(cli):
    told = cli("predict", "--model", "mamba", *FIG2, "--json").json
    predicted = iclab.predict("mamba", TRAIN, test=TEST)
    mine = json.loads(json.dumps(predicted.as_data()))
    assert {**mine, "test": "test"} == told
    assert predicted.value("strength") == pytest.approx(6.667, abs=1e-3)
    assert [check.name for check in predicted.missed("M-thm2")] == ["(i)", "(b) restored", "(c)"]
    assert [check.name for check in predicted.missed("M-cor1")] == ["(i)"]
    text = str(predicted)
    assert "M Theorem 2" in text
    assert "NO  (b) restored" in text


def test_by_default_the_test_is_as_the_training():
    setting = iclab.predict("linear", TRAIN).setting
    assert setting.test_outlier_fraction == setting.train_outlier_fraction == 0.6
    assert setting.mixture_sums == (1.0,)


def test_people_get_a_table_by_theorem(cli):
    said = cli("predict", "--model", "mamba", "--tasks", "ring:1", "--outlier-fraction", 0.6)
    assert said.code == 0
    for words in (
        "M Theorem 1",
        "128 ≥ 46,052",
        "silent: M-thm1 (i)",
        "The graph of the 6 training tasks is not complete: 6 of 15 pairs",
        "steps by the theorem, Mamba",
        "M Condition 1",
    ):
        assert words in said.out, words
    assert "M Theorem 3" not in said.out
    linear = cli("predict", "--model", "linear", "--outlier-fraction", 0.3).out
    assert "M Theorem 3" in linear
    assert "M Theorem 1 " not in linear


def test_a_theorem_with_all_its_conditions_applies(cli):
    inside = ("--tasks", "all", "--outlier-fraction", 0.6, "--batch-size", 50_000)
    assert "applies" in cli("predict", "--model", "mamba", *inside).out
    larger = cli("predict", "--model", "mamba", "--outlier-fraction", 0.6, "--epsilon", 0.2, "--json").json
    assert by_id(larger["conditions"])["M-thm1 (i)"]["holds"]


def test_softmax_attention_has_the_theorems_of_t_and_s(cli):
    words = (
        "--model softmax-mlp --irrelevant 24 --outlier-pattern-count 0 --tasks ring:1 --label-dimension 30 "
        "--relevant-fraction 0.8 --steps 600"
    )
    found = by_id(cli("predict", *words.split(), "--json").json["conditions"])
    assert found["T-thm3.3 C.5"]["right"] == pytest.approx(24 * math.log(6))
    assert found["S-thm1 (35)"]["right"] == pytest.approx(4 * 36 * math.log(128 * 600))
    assert found["T-setting data"]["holds"]


def test_what_the_theorems_do_not_have_is_named(cli):
    words = "--model mamba --optimizer adam --relevant-fraction 0.5 --noise 0.1 --outlier-fraction 0.1"
    words += " --outlier-labels flip"
    row = by_id(cli("predict", *words.split(), "--json").json["conditions"])["M-setting Definitions 1, 2"]
    assert not row["holds"]
    assert row["left"] == 4
    for part in ("adam in place of plain SGD", "outside the task", "signal or noise", "without random labels"):
        assert part in row["remark"]
    deep = by_id(cli("predict", "--model", "deep-mamba", "--json").json["conditions"])["M-setting layers"]
    assert (deep["left"], deep["holds"]) == (3, False)


def test_several_tests_in_a_file(cli, tmp_path):
    (tmp_path / "it.toml").write_text(
        'model = "mamba"\n[prompts]\noutliers = {fraction = 0.6}\n'
        "[test.few]\noutliers = {fraction = 0.3}\n[test.many]\noutliers = {count = 18}\n"
    )
    told = cli("predict", tmp_path / "it.toml", "--json").json["tests"]
    assert [one["test"] for one in told] == ["few", "many"]
    assert [by_id(one["conditions"])["M-thm2 (c)"]["left"] for one in told] == [0.3, 0.9]
    assert [one["setting"]["exact_count"] for one in told] == [False, True]
    assert "test: many" in cli("predict", tmp_path / "it.toml").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model mamba --outlier-fraction 1", "train_outlier_fraction = 1.0: must be at least 0 and below 1"),
        ("--model mamba --outlier-count 20", "train_outlier_fraction = 1.0"),
        ("--model mamba --context-length 0", "context_length = 0"),
        ("--model mamba --epsilon 1", "epsilon = 1.0: must be above 0 and below 1"),
        ("--model mamba --epsilon -0.1", "epsilon = -0.1: must be above 0 and below 1"),
        ("--model mamba --epsilon small", "epsilon = small: must be a number above 0 and below 1"),
        ("--model mamba --tasks unseen:all", "no task is left"),
        ("--model mamba --tasks ,", "tasks = ','"),
        ("--model mamba --relevant 1", "relevant = 1"),
        ("--model softmax", "model = softmax: no theorem of the papers is about it; choose one of mamba"),
        ("--model mamba --set model.options.init_scale=0", "init_scale = 0.0: must be above 0"),
        ("", "model: say which one"),
        ("./mine:Net", "model = './mine:Net': must be a built-in name or your own as module:Class, not a path"),
    ],
)
def test_bad_arguments_get_one_line(cli, words, said):
    assert said in cli("predict", *words.split()).complaint


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: iclab.predict("mamba", iclab.Prompts(outliers={"fraction": 1.0})),
            "train_outlier_fraction = 1.0: must",
        ),
        (lambda: iclab.predict("mamba", epsilon=1.0), "epsilon = 1.0: must be above 0 and below 1"),
    ],
)
def test_bad_arguments_get_one_line_in_python(make, said):
    with pytest.raises(iclab.InputError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_in_python_too():
    with pytest.raises(iclab.InputError, match="statement = 'M-thm9': must be one of"):
        iclab.predict("mamba").missed("M-thm9")
    with pytest.raises(iclab.InputError, match="prediction = 'luck': must be one of"):
        iclab.predict("mamba").value("luck")
    other = iclab.Prompts(patterns=iclab.Patterns(relevant=5))
    with pytest.raises(iclab.InputError, match=r"test prompts\.patterns\.relevant = 5: must be that of the training"):
        iclab.predict("mamba", test=other)


def test_prompts_that_no_paper_has_are_named():
    square = iclab.Patterns(vectors=2.0 * numpy.eye(19), relevant=6, irrelevant=10, outlier=3)
    oblique = numpy.array(square.vectors) + 0.1
    cases = {
        "clean examples with wrong labels": {"label_noise": 0.1},
        "outliers in the query": {"outliers": iclab.Outliers(query=0.1)},
        "an exact number of examples with the task's patterns": {"relevant_count": 5},
        "test patterns that are not those of the training": {"patterns": iclab.Patterns(draw=1)},
    }
    for words, changes in cases.items():
        for model in ("mamba", "softmax-mlp"):
            assert words in iclab.predict(model, test=iclab.Prompts(**changes)).setting.departures
            assert words not in iclab.predict(model).setting.departures
    plain = iclab.predict("mamba", iclab.Prompts(patterns=square)).setting
    assert (plain.dimension, plain.relevant_norm, plain.outlier_norm, plain.departures) == (19, 2.0, 2.0, ())
    own = {"relevant": 6, "irrelevant": 10, "outlier": 3}
    tilted = iclab.predict("mamba", iclab.Prompts(patterns=iclab.Patterns(vectors=oblique, **own))).setting
    assert tilted.departures == ("patterns that are not orthogonal",)
    longer = iclab.Patterns(vectors=numpy.diag([2.0] * 6 + [3.0] * 13), **own)
    assert iclab.predict("mamba", iclab.Prompts(patterns=longer)).setting.departures == ("ν with another norm than µ",)
    counted = iclab.predict("softmax-mlp", iclab.Prompts(relevant_count=5)).setting
    assert counted.relevant_fraction == counted.test_relevant_fraction == 0.25


def test_a_users_class_with_the_name_of_a_covered_model_is_not_one(cli, user_module):
    user_module("mine", "import torch\n\n\nclass mamba(torch.nn.Linear):\n    pass\n")
    assert "no theorem" in cli("predict", "--model", "mine:mamba").complaint


def test_the_settings_of_an_experiment():
    """M-fig2 has one setting per model and fraction, whatever its label rules and seeds."""
    figure = find("M-fig2")
    usual = figure.settings().quick()
    found = settings_of(figure.conditions(usual))
    assert len(found) == len(usual.models) * len(usual.outlier_fractions)
    assert {s.model for s in found} == {"mamba", "linear"}
    above = [s for s in found if not next(c for c in conditions(s) if c.name == "(c)").holds]
    assert {s.test_outlier_fraction for s in above if s.model == "mamba"} == {
        f for f in usual.outlier_fractions if f >= 0.6
    }
    assert settings_of(find("T-fig4").conditions(find("T-fig4").settings().quick()))  # beside learners without theorems


def test_help_teaches(cli):
    said = cli("predict", "--help")
    assert said.code == 0
    for words in ("--epsilon", "--test-outlier-fraction", "Nothing is trained", "iclab predict mamba"):
        assert words in said.out
