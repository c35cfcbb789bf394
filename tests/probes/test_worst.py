"""The worst labels and places of outliers, against all labellings and all placements, one after another."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import iclab
from iclab.engines import Recipe, Trained, Training, stacked_dictionary, train, weights
from iclab.models import MODELS
from iclab.probes import measure
from iclab.probes.worst import Recurrence
from iclab.prompts import Mixture, Outliers, Patterns, Prompts, Stream

pytestmark = pytest.mark.slow  # the first time, compiling takes long

SEEDS = (0, 3)
MIXED = (Mixture(weights=(0.7, -0.4), outside_norm=1.5), Mixture(weights=(0.2, 0.5)))
EITHER_ENGINE = pytest.mark.parametrize("engine", ["fused", "reference"])
EITHER_MODEL = pytest.mark.parametrize("model", ["mamba", "linear"])


def prompts_of(length, coherence=0.0, label_noise=0.0, **outliers):
    return Prompts(
        patterns=Patterns(dimension=9, relevant=3, irrelevant=2, outlier=2, coherence=coherence),
        context_length=length,
        label_noise=label_noise,
        outliers=Outliers(**{"fraction": 0.5, "scale": 1.5} | outliers),
    )


def at_random(model, engine, prompts, size=0.05):
    """Return seeds with random weights, also of the label: the same weights on either engine."""
    training = Training(model=model, prompts=prompts, recipe=Recipe(steps=0), engine="fused", dtype="float64")
    trained, random = train(training, SEEDS), np.random.default_rng(7)
    for name, weight in trained.snapshots[0].items():
        weight.copy_(torch.from_numpy((0.6 if name == "gate" else size) * random.standard_normal(weight.shape)))
    if engine == "fused":
        return trained
    whole = {0: {name: weight.clone() for name, weight in weights(trained).items()}}
    return Trained(training.replace(engine="reference"), SEEDS, whole, trained.diverged_at, trained.losses)


def margins(trained, probe, prompts, draw):
    """Return z·F of one prompt per seed, from its hinge loss."""
    rows = measure(trained, probe, prompts, 1, draw=draw)
    assert all(row["hinge"] > 0 for row in rows)  # else z·F is not known
    return np.array([1 - row["hinge"] for row in rows])


def one_by_one(trained, prompts, draw, places=False):
    """Return the smallest z·F of one prompt per seed: the model answers every labelling, at every placement."""
    batch = prompts.draw(SEEDS, Stream.TEST, step=draw, dtype=np.float64)
    dense = batch.dense(stacked_dictionary(trained.training, SEEDS, prompts))  # (S, 1, l + 1, d + 1)
    found = []
    for i in range(len(SEEDS)):
        module = MODELS[trained.training.model.label](dense.shape[-1]).double()
        module.load_state_dict({name: weight[i] for name, weight in weights(trained).items()})
        clean, outliers = (np.flatnonzero(batch.outlier[i, 0] == flag) for flag in (False, True))
        tried = []
        for where in combinations(range(batch.length), len(outliers)) if places else [tuple(outliers)]:
            order = np.empty(batch.length, dtype=np.int64)
            order[list(where)] = outliers
            order[[place for place in range(batch.length) if place not in where]] = clean
            labels = torch.tensor(list(product((-1.0, 1.0), repeat=len(outliers))), dtype=torch.float64)
            tokens = dense[i].repeat(len(labels), 1, 1)
            tokens[:, outliers, -1] = labels
            tried.append(tokens[:, [*order, batch.length]])
        with torch.no_grad():
            output = module(torch.cat(tried)).output[:, 0].numpy()
        found.append((batch.target[i, 0, 0] * output).min())
    return np.array(found)


@EITHER_MODEL
@EITHER_ENGINE
@pytest.mark.parametrize(
    "prompts",
    [
        prompts_of(1, fraction=0.8),
        prompts_of(5, coherence=0.3),
        prompts_of(8, patterns=MIXED, fraction=0.7),
        prompts_of(12, fraction=0.6),
        prompts_of(12, count=9, fraction=0.0, placement="closest"),
        prompts_of(8, label_noise=0.5, query=0.5, patterns=MIXED),
    ],
    ids=["one example", "five, coherent", "eight, mixtures", "twelve", "twelve, nine closest", "noise, query"],
)
def test_no_labelling_is_worse_and_one_is_as_bad(model, engine, prompts):
    trained = at_random(model, engine, prompts)
    for draw in range(3):
        expected = one_by_one(trained, prompts, draw)
        np.testing.assert_allclose(margins(trained, "worst", prompts, draw), expected, atol=1e-12)


@EITHER_MODEL
@EITHER_ENGINE
@pytest.mark.parametrize(
    "prompts",
    [
        prompts_of(2),
        prompts_of(6, coherence=0.3, placement="closest"),
        prompts_of(7, patterns=MIXED, fraction=0.4),
        prompts_of(7),
        prompts_of(6, label_noise=0.5, query=0.5),
    ],
    ids=["two", "six, coherent, closest", "seven, mixtures", "seven", "noise, query"],
)
def test_no_placement_is_worse_and_one_is_as_bad(model, engine, prompts):
    trained = at_random(model, engine, prompts)
    for draw in range(3):
        expected = one_by_one(trained, prompts, draw, places=True)
        np.testing.assert_allclose(margins(trained, "worst-placement", prompts, draw), expected, atol=1e-12)


numbers = st.floats(-2, 2, allow_subnormal=False)
tokens = st.tuples(st.booleans(), *[st.tuples(st.floats(0, 1), numbers)] * 2)


def recurrence_of(examples):
    """Make a recurrence of one prompt: outlier or not, and (decay, gain) under either label."""
    flags = [flag for flag, _, _ in examples]
    maps = np.array([[first, second if flag else first] for flag, first, second in examples])  # (l, 2, 2)
    decay, gain = maps.transpose(2, 1, 0)[:, :, None, None]  # (2, 1, 1, l)
    return Recurrence(decay, gain, np.ones((1, 1)), np.array(flags)[None, None])


def run_through(examples, order, choice):
    state = 0.0
    for i in order:
        decay, gain = examples[i][1 + (choice[i] if examples[i][0] else 0)]
        state = decay * state + gain
    return state


def _in_order(examples, order):
    """Whether clean examples keep their order, and outliers theirs."""
    kinds = [[i for i in order if examples[i][0] == flag] for flag in (False, True)]
    return all(kind == sorted(kind) for kind in kinds)


@given(st.lists(tokens, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_it_is_exact_for_any_recurrence(examples):
    """Any decays and gains, not just those of a model; at small sizes every possibility is tried."""
    made, places = recurrence_of(examples), range(len(examples))
    choices = list(product((0, 1), repeat=len(examples)))
    labels = min(run_through(examples, places, choice) for choice in choices)
    assert made.worst_labels()[0, 0] == pytest.approx(labels, abs=1e-12)
    kept = [order for order in permutations(places) if _in_order(examples, order)]
    both = min(run_through(examples, order, choice) for order in kept for choice in choices)
    assert made.worst_places()[0, 0] == pytest.approx(both, abs=1e-12)
    assert both <= labels + 1e-12


def test_outliers_keep_their_order_among_themselves():
    """The definition does not swap outliers: it would be worse to have the strong one last."""
    weak, strong = ((True, *[(0.5, gain)] * 2) for gain in (-0.1, -0.9))
    assert recurrence_of([weak, strong]).worst_places()[0, 0] == pytest.approx(-0.95)
    assert recurrence_of([strong, weak]).worst_places()[0, 0] == pytest.approx(-0.55)


def test_an_answer_that_is_nan_under_any_label_is_the_worst():
    for bad in (((np.nan, 0.0), (0.5, 0.1)), ((0.5, 0.1), (0.5, np.nan))):
        made = recurrence_of([(True, *bad), (False, (0.5, 1.0), (0.5, 1.0))])
        assert np.isnan([made.worst_labels(), made.worst_places()]).all()


@pytest.fixture(scope="module", params=["mamba", "linear"])
def run(request):
    training = Prompts(tasks="ring:3", outliers=Outliers(fraction=0.6))
    recipe = Recipe(steps=150, step_size=1.0 if request.param == "mamba" else 0.05)
    return iclab.train(request.param, training, recipe, seeds=SEEDS, dtype="float64")


def poisoned(**outliers):
    given = {"fraction": 0.6, "scale": 3.0, "patterns": "paper"} | outliers
    return Prompts(irrelevant_scale=1.5, outliers=Outliers(**given))


def on_reference(run):
    trained = run.trained
    whole = {step: weights(trained, step) for step in trained.snapshots}
    return Trained(
        trained.training.replace(engine="reference"), trained.seeds, whole, trained.diverged_at, trained.losses
    )


@pytest.mark.parametrize("placement", ["random", "closest"])
def test_it_is_worse_than_every_rule_prompt_by_prompt(run, placement):
    """The rules differ in the labels only: the prompts are the same."""
    worse = 0
    for draw in range(15):
        drawn = {rule: poisoned(labels=rule, placement=placement) for rule in ("flip", "random", "target")}
        worst, anywhere = (
            measure(run.trained, probe, drawn["flip"], 1, draw=draw) for probe in ("worst", "worst-placement")
        )
        for rule, prompts in drawn.items():
            assert measure(run.trained, "worst", prompts, 1, draw=draw) == worst  # the rule does not matter
            for i, row in enumerate(measure(run.trained, "error", prompts, 1, draw=draw)):
                assert anywhere[i]["hinge"] + 1e-9 >= worst[i]["hinge"] >= row["hinge"] - 1e-9
                assert anywhere[i]["error"] >= worst[i]["error"] >= row["error"]
                worse += rule == "flip" and worst[i]["hinge"] > row["hinge"] + 1e-9
    assert worse > 0  # flipping is not always the worst


@pytest.mark.parametrize("probe", ["worst", "worst-placement"])
@pytest.mark.parametrize(
    "prompts",
    [poisoned(), poisoned(fraction=0.0, count=13, placement="farthest"), poisoned(patterns="training", fraction=0.3)],
    ids=["half", "farthest", "training patterns"],
)
def test_both_engines_find_the_same(run, probe, prompts):
    ours, theirs = (measure(trained, probe, prompts, 300) for trained in (run.trained, on_reference(run)))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == {name: pytest.approx(value, abs=1e-9) for name, value in other.items()}
        assert mine["right"] + mine["wrong"] == mine["prompts"] == 300


def test_single_precision_is_near(run):
    single = run.training.replace(dtype="float32")
    snapshots = {t: {n: w.float() for n, w in found.items()} for t, found in run.trained.snapshots.items()}
    trained = Trained(single, run.seeds, snapshots, run.trained.diverged_at, run.trained.losses)
    for probe in ("worst", "worst-placement"):
        for mine, exact in zip(
            measure(trained, probe, poisoned(), 300), measure(run.trained, probe, poisoned(), 300), strict=True
        ):
            assert mine["error"] == pytest.approx(exact["error"], abs=0.005)
            assert mine["hinge"] == pytest.approx(exact["hinge"], abs=1e-4)


def test_limits(run):
    none = poisoned(fraction=0.0)
    for probe in ("worst", "worst-placement"):
        assert measure(run.trained, probe, none, 100) == measure(run.trained, "error", none, 100)
    only = poisoned(fraction=1.0)  # nothing to place
    labels, places = (measure(run.trained, probe, only, 100) for probe in ("worst", "worst-placement"))
    assert labels == places
    assert {row["error"] for row in labels} == {1.0}
    labels, places = (measure(run.trained, probe, poisoned(), 300) for probe in ("worst", "worst-placement"))
    if run.training.model.label == "linear":  # a sum has no order
        assert places == [{name: pytest.approx(value, abs=1e-12) for name, value in row.items()} for row in labels]
    else:
        assert all(a["hinge"] < b["hinge"] for a, b in zip(labels, places, strict=True))


def flipped(examples):
    return -examples.labels


def test_a_rule_of_ones_own_changes_nothing(run):
    ours, theirs = (measure(run.trained, "worst", poisoned(labels=rule), 100) for rule in ("flip", flipped))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == {name: pytest.approx(value, abs=1e-9) for name, value in other.items()}


def test_it_is_asked_for_by_name(run):
    for asked, probe in (
        ({"labels": "worst"}, "worst"),
        ({"labels": "worst", "placement": "worst"}, "worst-placement"),
    ):
        rows = run.measure(probe, poisoned(), count=200, at=0)
        assert run.error(poisoned(), **asked, count=200, at=0).per_seed == tuple(row["error"] for row in rows)
    with pytest.raises(iclab.InputError, match=r"labels = 'flip': must be 'worst' or not given"):
        run.error(poisoned(), labels="flip")
    with pytest.raises(iclab.InputError, match=r"placement = 'worst': needs labels = 'worst' too"):
        run.error(poisoned(), placement="worst")


class Turned(MODELS["mamba"]):
    """A subclass may compute something else, so nothing is known of it."""

    def forward(self, tokens):
        return -super().forward(tokens).output


@pytest.mark.parametrize("model", ["softmax", "deep-mamba", Turned])
def test_models_that_it_cannot_judge_are_refused(model):
    run = iclab.train(model, recipe=Recipe(steps=0), seeds=1)
    for placement in (None, "worst"):
        with pytest.raises(
            iclab.InputError, match=r"probe = worst: model .* is not one layer.*that are: mamba, linear"
        ):
            run.error(labels="worst", placement=placement)


def test_a_diverged_seed_has_a_row_of_nulls():
    run = iclab.train("linear", poisoned(), Recipe(steps=200, step_size=50.0), seeds=1)
    (row,) = run.measure("worst", count=10)
    assert row["diverged"]
    assert row["error"] is row["hinge"] is None


def test_the_command_line_prints_its_mean(cli, tmp_path):
    words = ("train", "--model", "mamba", "--steps", 5, "--seeds", 1, "--test-prompts", 50, "--outlier-fraction", 0.5)
    said = cli(*words, "--probe", "worst", "--probe", "worst-placement", "--store", tmp_path)
    assert said.code == 0, said.err
    assert "worst, as trained: " in said.out
    assert "worst-placement, as trained: " in said.out
    said = cli("train", "--model", "softmax", "--steps", 5, "--seeds", 1, "--probe", "worst", "--store", tmp_path)
    assert "probe = worst: model softmax is not one layer" in said.complaint
