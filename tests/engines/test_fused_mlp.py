"""Softmax attention with an MLP on the fused engine against the reference engine: same weights, same measurements."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.config import InputError
from iclab.engines import Recipe, Switch, Training, check, faster_obstacle, train, weights
from iclab.engines.fused.matrix_kernels import fill, multiply, padded, product, turn, zeros
from iclab.probes import Pruning, measure
from iclab.prompts import Patterns, Prompts

SMALL = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)
OBLIQUE = Patterns(vectors=np.random.default_rng(2).normal(size=(9, 9)), relevant=4, irrelevant=3, outlier=2)
T = {"patterns": SMALL, "relevant_fraction": 0.6, "label_dimension": 3, "label_norm": 2.0, "context_length": 7}
EXACT = {name: value for name, value in T.items() if name != "relevant_fraction"} | {"relevant_count": 4}
MIXED = ((0.9, 0.5, 0, 0), (0, 0.8, -0.4, 0.3), (0, 0, 1.2, 0.1))
OUTSIDE = ({"weights": (1, 0), "outside_norm": 2.0}, {"weights": (0.5, 0.5), "outside_norm": 1.0})

CASES = {
    "as in T": (T, {}),
    "labels of one number": ({"patterns": SMALL}, {}),
    "mixtures": (T | {"relevant_mixtures": MIXED, "irrelevant_mixtures": ((0.5, 0.5, 0.7), (1, 0, 0))}, {}),
    "flipped outliers, closest": (T | {"outliers": {"count": 3, "labels": "flip", "placement": "closest"}}, {}),
    "outliers outside the span, in the query too": (
        T | {"outliers": {"fraction": 0.4, "query": 0.5, "patterns": OUTSIDE}, "label_noise": 0.2},
        {},
    ),
    "S's signal, stratified": (T | {"signal": (0.5, 1.5), "balance": "stratified"}, {}),
    "S's noise": (T | {"signal": (0.5, 1.5), "noise": 0.7, "outliers": {"fraction": 0.3, "query": 0.3}}, {"steps": 15}),
    "noise from step 12 on": (T, {"switches": (Switch(step=12, prompts=Prompts(**T).replace(noise=0.5)),)}),
    "oblique patterns": (T | {"patterns": SMALL.replace(coherence=0.2)}, {}),
    "own vectors": (T | {"patterns": OBLIQUE}, {}),
    "exact share of relevant patterns": (EXACT, {}),
    "one example": (T | {"context_length": 1}, {}),
    "odd batch": (T, {"batch_size": 37, "steps": 10}),
    "momentum, clipping, decay": (T, {"optimizer_options": {"momentum": 0.9}, "clip": 0.1, "decay": "linear"}),
    "frozen keys and values, clipping": (T, {"frozen": ("key", "value"), "clip": 0.05}),
    "linear loss": (T, {"loss": "linear", "steps": 12}),
    "squared loss": (T, {"loss": "squared"}),
    "logistic loss, warm-up": (T, {"loss": "logistic", "warmup": 10, "decay": "cosine"}),
    "early stopping": (T, {"stop": {"loss": 0.999, "patience": 9, "window": 3}, "snapshots": (1, 10, 20)}),
    "switch": (T, {"switches": (Switch(step=12, prompts=Prompts(**T).replace(relevant_mixtures=MIXED)),)}),
}
OPTIONS = {"usual": {}, "small and odd": {"state_size": 5, "value_size": 11, "output": "root"}}


def trainings(case="as in T", dtype="float64", options=None, **more):
    prompts, recipe = CASES[case]
    model = {"name": "softmax-mlp", "options": {"neurons": 30, "init_scale": 0.3, **(options or {})}}
    steps = {"steps": 25, "batch_size": 16, "snapshots": (1,)} | recipe | more
    for engine in ("fused", "reference"):
        yield Training(model=model, prompts=Prompts(**prompts), recipe=Recipe(**steps), engine=engine, dtype=dtype)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.slow
def test_every_weight_is_the_references(case, options):
    ours, theirs = (train(t, (0, 5)) for t in trainings(case, options=OPTIONS[options]))
    assert set(weights(ours)) == set(weights(theirs))
    for step in theirs.snapshots:
        for name, expected in weights(theirs, step).items():
            torch.testing.assert_close(weights(ours, step)[name], expected, atol=1e-9, rtol=0, msg=f"{name} at {step}")
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-9)
    assert not torch.equal(weights(ours)["hidden"], weights(ours, 0)["hidden"])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 20)),
    kinds=st.tuples(st.integers(3, 6), st.integers(1, 5), st.integers(1, 3), st.integers(0, 6)),
    length=st.integers(1, 9),
    share=st.floats(0.1, 1),
    scale=st.floats(0.1, 1),
    noise=st.sampled_from([0.0, 0.5]),
)
@pytest.mark.slow
def test_one_step_of_any_shape_has_the_gradients_of_autograd(seed, sizes, kinds, length, share, scale, noise):
    relevant, irrelevant, outlier, more = kinds
    patterns = Patterns(dimension=sum(kinds), relevant=relevant, irrelevant=irrelevant, outlier=outlier)
    prompts = Prompts(
        patterns=patterns,
        context_length=length,
        relevant_fraction=share,
        signal=(share, 1.5),
        noise=noise,
        label_dimension=1 + more,
        label_norm=scale,
        outliers={"fraction": 0.3, "query": 0.3, "scale": scale},
    )
    neurons, state, value = sizes
    options = {"neurons": neurons, "state_size": state, "value_size": value, "init_scale": scale}
    recipe = Recipe(steps=1, batch_size=5, loss="linear")
    model, found = {"name": "softmax-mlp", "options": options}, []
    for engine in ("fused", "reference"):
        training = Training(model=model, prompts=prompts, recipe=recipe, engine=engine, dtype="float64")
        found.append(weights(train(training, (seed,))))
    for name, expected in found[1].items():
        torch.testing.assert_close(found[0][name], expected, atol=1e-9, rtol=1e-9, msg=name)


@pytest.mark.parametrize("probe", ["error", "attention", "attended", "parts", "alignment"])
def test_measurements_are_those_of_the_dense_weights(probe):
    ours, theirs = trainings(options={"state_size": 17, "value_size": 16})
    trained = train(ours, (0, 1))
    dense = replace(trained, training=theirs)
    tests = {
        "in domain": ours.prompts,
        "mixtures": ours.prompts.replace(relevant_mixtures=MIXED, irrelevant_scale=2.0, context_length=5),
        "signal": ours.prompts.replace(signal=(0.5, 1.5), label_noise=0.2),
        "outside": ours.prompts.replace(outliers={"fraction": 0.4, "query": 0.6, "patterns": OUTSIDE}),
        "noise": ours.prompts.replace(noise=1.5, outliers={"fraction": 0.4, "query": 0.6}),
        "other patterns": ours.prompts.replace(patterns=SMALL.replace(draw=3)),
    }
    for name, prompts in tests.items():
        rows = [measure(t, probe, prompts, 300, draw=2, at=1) for t in (trained, dense)]
        for mine, reference in zip(*rows, strict=True):
            assert mine == pytest.approx(reference, abs=1e-9), name
    assert rows[0] != measure(trained, probe, prompts, 300, draw=3, at=1)


def test_pruned_neurons_are_silent():
    ours, theirs = trainings(options={"output": "root"})
    trained = train(ours, (0, 1))
    for pruning in (Pruning(rate=0.5, order="largest"), Pruning(rate=1.0)):
        rows = [
            measure(t, "error", ours.prompts, 500, pruning=pruning)
            for t in (trained, replace(trained, training=theirs))
        ]
        assert rows[0] == [pytest.approx(row, abs=1e-9) for row in rows[1]]
        assert rows[0] != measure(trained, "error", ours.prompts, 500)
    assert {row["ties"] for row in rows[0]} == {500}


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_threads_and_company_change_no_bit(dtype):
    training = next(trainings(dtype=dtype))
    one = train(training, (0, 1, 2), threads=1)
    many = train(training, (0, 1, 2), threads=3)
    part = train(training, (2, 1))
    for name, w in one.snapshots[25].items():
        assert torch.equal(w, many.snapshots[25][name])
        assert torch.equal(one.select((2, 1)).snapshots[25][name], part.snapshots[25][name])
    for probe in ("error", "alignment", "parts"):
        rows = [measure(one, probe, training.prompts, 5_000, threads=threads) for threads in (1, 3)]
        assert rows[0] == rows[1]


@pytest.mark.slow
def test_single_precision_is_the_same_to_its_digits():
    ours, theirs = (train(training, (0, 5)) for training in trainings(dtype="float32"))
    assert weights(ours)["key"].dtype == torch.float32
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, atol=2e-5, rtol=1e-4)
    for probe in ("error", "attention", "attended", "parts", "alignment"):
        rows = [
            measure(t, probe, theirs.training.prompts, 300) for t in (ours, replace(ours, training=theirs.training))
        ]
        assert rows[0] == [pytest.approx(row, abs=1e-5) for row in rows[1]]


@pytest.mark.slow
def test_divergence_is_seen_at_the_same_step():
    ours, theirs = (train(training, (0, 1, 2, 3)) for training in trainings(step_size=1e6))
    assert ours.diverged.any()
    np.testing.assert_array_equal(ours.diverged_at, theirs.diverged_at)
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, rtol=1e-6, atol=0, equal_nan=True)
    rows = measure(ours, "error", ours.training.prompts, 20)
    assert [row["diverged"] for row in rows] == ours.diverged.tolist()


@pytest.mark.slow
def test_scores_that_overflow_reach_the_loss():
    """Attention to huge scores is 0 and 1, but a score that is no number must not pass as one."""
    for training in trainings(dtype="float32", options={"init_scale": 1e20}):
        assert train(training, (0, 1)).diverged_at.tolist() == [0, 0]
    large, _ = trainings(dtype="float32", options={"init_scale": 50.0}, steps=0, snapshots=())
    (row,) = measure(train(large, (0,)), "attention", large.prompts, 200)
    assert row["same"] + row["other"] == pytest.approx(1)
    assert row["same"] > 0.9  # some prompts have no such example


def test_which_trainings_it_takes():
    prompts = Prompts(**T)
    assert Training(model="softmax-mlp", prompts=prompts).engine == "fused"
    adam = Training(model="softmax-mlp", prompts=prompts, recipe=Recipe(optimizer="adam"))
    assert (adam.engine, "optimizer = adam" in faster_obstacle(adam)) == ("compact", True)
    decaying = Recipe(optimizer_options={"weight_decay": 0.1})
    with pytest.raises(ValueError, match=r"optimizer_options\.weight_decay: the fused engine knows only momentum"):
        Training(model="softmax-mlp", recipe=decaying, engine="fused")
    frozen = Training(model="softmax-mlp", prompts=prompts, recipe=Recipe(frozen=("signs",)), engine="fused")
    with pytest.raises(InputError, match=r"frozen = signs: is no parameter of this model; it has key, query, value"):
        check(frozen)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_small_matrices(dtype):
    rng = np.random.default_rng(0)
    for rows, depth, columns in ((16, 16, 16), (48, 32, 16), (16, 208, 64)):
        left, right, out = (
            rng.normal(size=size).astype(dtype) for size in ((rows, depth), (depth, columns), (rows, columns))
        )
        expected = left.astype(np.float64) @ right
        for turned, factor in ((False, left), (True, np.ascontiguousarray(left.T))):
            for add in (False, True):
                found = out.copy()
                multiply(found, factor, right, turned, add)
                np.testing.assert_allclose(found, expected + add * out, atol=1e-4 if dtype is np.float32 else 1e-12)
                multiply.py_func(found, factor, right, turned, False)  # the readable version
                np.testing.assert_allclose(found, expected, atol=1e-4 if dtype is np.float32 else 1e-12)
        turned = zeros((columns, rows), dtype)
        turn(turned, out)
        np.testing.assert_array_equal(turned, out.T)
    np.testing.assert_allclose(product(left, right, right.T), expected @ right.T, atol=1e-3)
    whole = fill([[1, 2, 3]], dtype)
    assert whole.shape == padded(1, 3) == (16, 16)
    assert whole.sum() == 6
    assert whole.ctypes.data % 64 == 0
