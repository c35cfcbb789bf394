"""Deep models on the fused engine against the reference engine: every weight, every measurement, every option."""

import numpy as np
import pytest
import torch

from iclab.config import InputError
from iclab.engines import Recipe, Switch, Training, answers, check, faster_obstacle, train, weights
from iclab.engines.fused import lanes
from iclab.engines.fused.deep import step_kernels
from iclab.engines.fused.deep.answer_kernels import make_plan
from iclab.engines.fused.deep.frame import stays_in_span
from iclab.engines.fused.deep.learning import DeepSeed, make_shape
from iclab.engines.fused.matrix_kernels import multiply_flat
from iclab.probes import measure
from iclab.prompts import Mixture, Outliers, Patterns, Prompts, Stream
from iclab.prompts.prompt_kernels import draw

MODELS = ("deep-mamba", "deep-linear", "deep-softmax")
SMALL = {"dimension": 12, "relevant": 4, "irrelevant": 3, "outlier": 2}
VECTORS = np.random.default_rng(1).normal(size=(9, 12)) * np.linspace(0.5, 1.5, 9)[:, None]
OUTSIDE = (Mixture(weights=(1, 0), outside_norm=2.0), Mixture(weights=(0.5, 0.5), outside_norm=1.0))
STEPS = {"deep-mamba": 0.05, "deep-linear": 0.01, "deep-softmax": 0.1, "deep-hybrid": 0.05}

OPTIONS = {
    "as chosen": {},
    "one layer": {"layers": 1},
    "two layers, norm": {"layers": 2, "norm": "rms"},
    "no norm": {"norm": "none", "layers": 2},
    "no residual stream": {"residual": False, "norm": "rms"},
    "values": {"values": True, "norm": "rms"},
    "values, no residual stream": {"values": True, "residual": False, "norm": "rms", "layers": 4},
    "two heads": {"heads": 2, "norm": "rms"},
    "three heads, no residual stream": {"heads": 3, "residual": False, "norm": "rms"},
    "label only": {"stream": "label", "norm": "none"},
    "label only, norm, no residual stream": {"stream": "label", "residual": False, "norm": "rms"},
    "norm of scores": {"norm": "scores"},
    "norm of scores, label only": {"norm": "scores", "stream": "label"},
    "norm of scores, two heads": {"norm": "scores", "heads": 2, "residual": False},
    "label only, values": {"stream": "label", "values": True, "norm": "none"},
    "label only, two heads": {"stream": "label", "heads": 2, "norm": "rms"},
}
SEES = {f"sees {word}": {"sees": word, "norm": "rms"} for word in ("all", "past", "context")}
CASES = [
    *((model, name, {}) for model in MODELS for name in OPTIONS),
    *((model, name, {}) for model in MODELS[1:] for name in SEES),
    ("deep-linear", "no division by l", {"divide": False, "norm": "rms", "layers": 2}),
    ("deep-mamba", "gates by channel", {"gating": "channel"}),
    ("deep-mamba", "gates by channel, one layer, no norm", {"gating": "channel", "layers": 1, "norm": "none"}),
    ("deep-mamba", "gates by channel, values", {"gating": "channel", "values": True, "residual": False}),
    ("deep-mamba", "gates by channel, two heads", {"gating": "channel", "heads": 2}),
    ("deep-mamba", "gates by channel, norm of scores", {"gating": "channel", "norm": "scores", "values": True}),
    ("deep-mamba", "gates by channel, label only", {"gating": "channel", "stream": "label"}),
    ("deep-mamba", "gates by channel, values, label only", {"gating": "channel", "values": True, "stream": "label"}),
    ("deep-hybrid", "all kinds", {"layers": "mamba,softmax,linear", "norm": "own"}),
    ("deep-hybrid", "gates apart", {"layers": "linear,mamba,softmax,mamba", "norm": "own"}),
    ("deep-hybrid", "a gate after raw tokens", {"layers": "linear,mamba", "norm": "own"}),
    ("deep-hybrid", "no gate", {"layers": "softmax,linear"}),
    (
        "deep-hybrid",
        "values, no residual stream",
        {"layers": "softmax,mamba,linear", "values": True, "residual": False},
    ),
    ("deep-hybrid", "label only", {"layers": "linear,mamba,softmax", "norm": "own", "stream": "label"}),
    ("deep-hybrid", "two heads, no norm", {"layers": "linear,mamba", "heads": 2, "norm": "none"}),
]

PROMPTS = {
    "mixtures outside the span": {"outliers": Outliers(fraction=0.5, patterns=OUTSIDE)},
    "outliers in the query, label noise": {"label_noise": 0.2, "outliers": Outliers(fraction=0.3, query=0.5)},
    "stratified, flipped, closest": {
        "balance": "stratified",
        "outliers": Outliers(count=3, labels="flip", placement="closest"),
    },
    "one example": {"context_length": 1},
    "patterns outside the task, signal, mixtures": {
        "relevant_fraction": 0.6,
        "signal": (0.5, 1.5),
        "relevant_mixtures": ((1, 0.5, 0, 0), (0, 0, 1, 0), (0, 0.3, 0, 1)),
        "irrelevant_mixtures": ((1, 0, 1),),
        "tasks": "all",
    },
    "thirty examples": {"context_length": 30, "outliers": Outliers(fraction=0.5)},
}
RECIPES = {
    "momentum": {"optimizer_options": {"momentum": 0.9}},
    "clipping, cosine, warm-up": {"clip": 0.01, "decay": "cosine", "warmup": 2},
    "adam": {"optimizer": "adam", "optimizer_options": {"betas": (0.8, 0.95), "weight_decay": 0.1}},
    "adamw": {"optimizer": "adamw", "optimizer_options": {"eps": 1e-4}},
    "linear loss": {"loss": "linear"},
    "squared loss": {"loss": "squared"},
    "logistic loss": {"loss": "logistic"},
    "frozen keys": {"frozen": ("key",), "clip": 0.01},
    "batch of one": {"batch_size": 1},
}


def pair(model, options=None, prompts=None, recipe=None, patterns=None, dtype="float64", seeds=(0, 5)):
    """Train the same on both engines."""
    settings = {"steps": 4, "batch_size": 37, "step_size": STEPS[model], "snapshots": (1,)} | (recipe or {})
    given = {"context_length": 6, "tasks": "ring:1", "outliers": Outliers(fraction=0.4, scale=2.0)} | (prompts or {})
    for engine in ("fused", "reference"):
        training = Training(
            model={"name": model, "options": {"norm": "rms"} | (options or {})},
            prompts=Prompts(patterns=Patterns(**(patterns or SMALL)), **given),
            recipe=Recipe(**settings),
            engine=engine,
            dtype=dtype,
        )
        yield train(training, seeds)


def assert_same(ours, theirs, atol=1e-9):
    """Compare all weights at all snapshots, relative to how far they moved, and the losses."""
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=atol, atol=atol)
    for step in theirs.snapshots:
        for name, expected in weights(theirs, step).items():
            size = max(1.0, float(expected.abs().max()))
            torch.testing.assert_close(weights(ours, step)[name], expected, atol=atol * size, rtol=0, msg=name)
    moved = [name for name, w in weights(theirs).items() if not torch.equal(w, weights(theirs, 0)[name])]
    assert moved or theirs.training.prompts.context_length == 1  # softmax of one example learns nothing


@pytest.mark.parametrize(("model", "name", "more"), CASES, ids=[f"{model}, {name}" for model, name, _ in CASES])
@pytest.mark.slow
def test_every_weight_is_the_references(model, name, more):
    options = more or OPTIONS.get(name) or SEES.get(name)
    assert_same(*pair(model, options))


@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.slow
def test_every_kind_of_prompts(model, prompts):
    assert_same(*pair(model, prompts=prompts))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.slow
def test_every_recipe(model, recipe):
    assert_same(*pair(model, recipe=recipe))


@pytest.mark.parametrize(
    "patterns",
    [
        SMALL | {"coherence": 0.2},
        SMALL | {"dimension": 60},
        {"vectors": VECTORS, "relevant": 4, "irrelevant": 3, "outlier": 2},
    ],
    ids=["oblique", "wide", "vectors"],
)
@pytest.mark.parametrize("options", [{}, {"values": True}, {"heads": 2}], ids=["plain", "values", "two heads"])
@pytest.mark.slow
def test_every_kind_of_patterns(patterns, options):
    assert_same(*pair("deep-mamba", options, patterns=patterns))


@pytest.mark.slow
def test_many_steps_with_few_prompts_inside_the_hinge():
    """Late in training most blocks have few active prompts, which are gathered and taken back together."""
    ours, theirs = pair("deep-softmax", recipe={"steps": 120, "step_size": 0.5}, prompts={"outliers": Outliers()})
    assert_same(ours, theirs, atol=1e-8)
    assert ours.losses[-1].max() < 0.3 * ours.losses[0].min()


@pytest.mark.slow
def test_early_stopping_switches_and_lengths_on_the_way():
    late = Prompts(patterns=Patterns(**SMALL), context_length=9, outliers=Outliers(fraction=0.5, patterns=OUTSIDE))
    recipe = {"steps": 12, "switches": (Switch(step=5, prompts=late),), "stop": {"loss": 0.99, "window": 2}}
    ours, theirs = pair("deep-mamba", recipe=recipe)
    assert_same(ours, theirs)
    np.testing.assert_array_equal(ours.stopped_at, theirs.stopped_at)


@pytest.mark.slow
def test_divergence_is_seen_at_the_same_step():
    ours, theirs = pair("deep-linear", {"norm": "none"}, recipe={"step_size": 5.0, "steps": 8})
    assert ours.diverged.all()
    np.testing.assert_array_equal(ours.diverged_at, theirs.diverged_at)
    assert weights(ours)["key"].isnan().all()


TESTS = {
    "clean": {},
    "mixtures outside the span": {"outliers": Outliers(fraction=0.5, patterns=OUTSIDE, scale=3.0)},
    "outside the span in the query": {"outliers": Outliers(fraction=0.5, query=0.8, patterns=OUTSIDE)},
    "longer, closest": {"context_length": 11, "outliers": Outliers(count=4, placement="closest", labels="flip")},
    "other patterns": {"patterns": Patterns(**SMALL, draw=3), "outliers": Outliers(fraction=0.3)},
}


@pytest.mark.parametrize("probe", ["error", "attention", "gates"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        *(
            (model, options)
            for model in MODELS
            for options in ({}, {"values": True}, {"heads": 2}, {"stream": "label"})
        ),
        ("deep-mamba", {"gating": "channel", "heads": 2}),
        ("deep-hybrid", {"layers": "linear,softmax,mamba", "norm": "own"}),
    ],
)
@pytest.mark.slow
def test_measurements_are_those_of_the_reference(model, options, probe):
    ours, theirs = pair(model, options)
    for name, changes in TESTS.items():
        test = Prompts(**({"patterns": Patterns(**SMALL), "context_length": 6} | changes))
        for mine, expected in zip(*(measure(t, probe, test, 70, draw=2) for t in (ours, theirs)), strict=True):
            assert mine.keys() == expected.keys()
            for key, value in expected.items():
                assert mine[key] == pytest.approx(value, abs=1e-9), (name, key)


@pytest.mark.parametrize(("layers", "planned"), [(1, False), (2, True), (3, True), (4, True), (5, False)])
@pytest.mark.slow
def test_linear_attention_answers_without_the_tokens_of_layers_in_between(layers, planned):
    """Products with sums of the first tokens are as good as the forward pass, in training and in measurements."""
    patterns, prompts = SMALL | {"relevant_norm": 0.8, "irrelevant_norm": 0.5}, {"context_length": 14}
    clean, recipe = {"outliers": Outliers()}, {"steps": 30, "step_size": 0.02}
    ours, theirs = pair("deep-linear", {"layers": layers, "norm": "none"}, prompts | clean, recipe, patterns)
    assert (len(make_plan(make_shape(ours.training, 9, 14))) > 0) == planned
    assert_same(ours, theirs)
    assert not ours.diverged.any()
    test = Prompts(patterns=Patterns(**patterns), **prompts, outliers=Outliers(fraction=0.5, patterns=OUTSIDE))
    for mine, expected in zip(*(measure(t, "error", test, 70) for t in (ours, theirs)), strict=True):
        assert mine == {key: pytest.approx(value, rel=1e-9, abs=1e-9) for key, value in expected.items()}


@pytest.mark.parametrize(
    ("layers", "planned"), [("linear,linear", True), ("linear,mamba", False), ("linear,softmax", False)]
)
def test_a_hybrid_that_begins_with_linear_attention_needs_its_tokens(layers, planned):
    training = Training(model={"name": "deep-hybrid", "options": {"layers": layers}})
    assert (len(make_plan(make_shape(training, 9, 14))) > 0) == planned


@pytest.mark.slow
def test_answers_and_weights_are_the_models_own():
    ours, theirs = pair("deep-mamba")
    found, expected = (next(answers(t, t.training.prompts, 8)) for t in (ours, theirs))
    torch.testing.assert_close(found[1].output, expected[1].output, atol=1e-9, rtol=0)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.slow
def test_single_precision_stays_near_double(model):
    single, double = (next(pair(model, dtype=dtype, recipe={"steps": 20})) for dtype in ("float32", "float64"))
    for name, expected in weights(double).items():
        torch.testing.assert_close(weights(single)[name].double(), expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_a_hybrid_of_equal_layers_trains_as_the_deep_model(model):
    layers = ",".join([model.removeprefix("deep-")] * 2)
    options = {"deep-hybrid": {"layers": layers}, model: {"layers": 2}}
    recipe, prompts = Recipe(steps=5, batch_size=40, step_size=0.05), Prompts(outliers=Outliers(fraction=0.4))
    trainings = [Training(model={"name": n, "options": o}, prompts=prompts, recipe=recipe) for n, o in options.items()]
    assert {training.engine for training in trainings} == {"fused"}
    ours, theirs = (train(training, (0, 1)).snapshots[5] for training in trainings)
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


def test_threads_and_company_change_no_bit():
    recipe = Recipe(steps=6, batch_size=40, step_size=0.1)
    training = Training(model="deep-softmax", prompts=Prompts(outliers=Outliers(fraction=0.4)), recipe=recipe)
    assert training.engine == "fused"
    one = train(training, (0, 1, 2), threads=1)
    for part in (train(training, (0, 1, 2), threads=3), train(training, (2,))):
        for name, w in part.snapshots[6].items():
            assert torch.equal(w, one.select(part.seeds).snapshots[6][name])
    rows = [measure(one, "error", training.prompts, 1_100, threads=threads) for threads in (1, 3)]
    assert rows[0] == rows[1]


def test_the_span_is_enough_for_one_head_and_sgd():
    """And then the dimension costs nothing: the kernels see as many coordinates as there are patterns."""
    for options, optimizer, small in (({}, "sgd", True), ({"heads": 2}, "sgd", False), ({}, "adam", False)):
        training = Training(
            model={"name": "deep-mamba", "options": options},
            prompts=Prompts(patterns=Patterns(dimension=40)),
            recipe=Recipe(steps=0, optimizer=optimizer),
        )
        assert stays_in_span(training) == small
        seed = DeepSeed(training, 0, training.prompts.patterns.basis(0))
        assert seed.shape.channels == (20 if small else 41)


@pytest.mark.parametrize(
    ("model", "changes", "reason"),
    [
        ({"name": "deep-mamba", "options": {"form": "recurrence"}}, {}, "form = recurrence"),
        ("deep-linear", {"recipe": Recipe(optimizer="rmsprop")}, "optimizer = rmsprop"),
        ("deep-linear", {"recipe": Recipe(optimizer_options={"nesterov": True, "momentum": 0.5})}, "nesterov"),
        ("deep-linear", {"recipe": Recipe(optimizer="adam", optimizer_options={"amsgrad": True})}, "amsgrad"),
        ("deep-softmax", {"device": "cuda"}, "device = cuda"),
    ],
)
def test_what_it_cannot_do_falls_back_with_a_reason(model, changes, reason):
    training = Training(model=model, **changes)
    assert training.engine == "reference"
    assert reason in faster_obstacle(training)


def test_freezing_what_a_model_has_not_is_refused_in_one_line():
    training = Training(model="deep-linear", recipe=Recipe(steps=1, frozen=("gate",)))
    with pytest.raises(InputError, match="frozen = gate: is no parameter of this model; it has key, query"):
        check(training)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "terms"), [(1, 1, 1), (1, 4, 3), (2, 4, 3), (3, 5, 7), (5, 9, 2)])
def test_matrix_products_per_lane(rows, columns, terms, dtype):
    rng = np.random.default_rng(rows)
    left, right = rng.normal(size=(rows, terms, 16)).astype(dtype), rng.normal(size=(terms, columns, 16)).astype(dtype)
    before = rng.normal(size=(rows, columns, 16)).astype(dtype)
    grids = lanes.Grid(0, columns, 1), lanes.Grid(0, terms, 1), lanes.Grid(0, columns, 1)
    for add in (False, True):
        out = before.ravel().copy()
        places = (out, grids[0], left.ravel(), grids[1], right.ravel(), grids[2])
        lanes.combine(*places, rows, columns, terms, add)
        expected = np.einsum("ikb,kjb->ijb", left, right) + add * before
        np.testing.assert_allclose(out.reshape(before.shape), expected, rtol=1e-4, atol=1e-4)
        matrix = rng.normal(size=(columns, terms)).astype(dtype)
        out = before.ravel().copy()
        lanes.multiply(out, 0, matrix.ravel(), 0, terms, left.ravel(), 0, rows, columns, add)
        expected = np.einsum("jk,ikb->ijb", matrix, left) + add * before
        np.testing.assert_allclose(out.reshape(before.shape), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "terms"), [(1, 1, 1), (3, 15, 2), (4, 16, 3), (5, 20, 7), (9, 37, 4)])
def test_products_of_flat_matrices(rows, columns, terms, dtype):
    """Also with the left one turned, and between other numbers, which are left alone."""
    rng = np.random.default_rng(columns)
    left, right = rng.normal(size=(terms, rows)).astype(dtype), rng.normal(size=(terms, columns)).astype(dtype)
    before = rng.normal(size=rows * columns + 9).astype(dtype)
    out, grids = before.copy(), (lanes.Grid(5, columns, 1), lanes.Grid(0, 1, rows), lanes.Grid(0, columns, 1))
    multiply_flat(out, grids[0], left.ravel(), grids[1], right.ravel(), grids[2], rows, columns, terms, dtype(0.5))
    np.testing.assert_allclose(out[5:-4].reshape(rows, columns), 0.5 * left.T @ right, rtol=1e-4, atol=1e-4)
    assert (np.delete(out, np.s_[5:-4]) == np.delete(before, np.s_[5:-4])).all()


def test_prompts_in_coordinates_are_the_dense_ones():
    """A norm and an inner product know nothing of the frame: lengths of tokens are those of the reference."""
    training = Training(model="deep-mamba", prompts=Prompts(outliers=Outliers(fraction=0.5, patterns="paper")))
    seed = DeepSeed(training, 3, training.prompts.patterns.basis(3))
    draw(seed.drawing, seed.block, 3, int(Stream.TRAIN), 7, 32)
    step_kernels.fill_prompts(seed.block, seed.rows, seed.shape.channels, seed.present.prompt)
    found = seed.present.prompt.reshape(21, -1, 16).transpose(2, 0, 1)
    batch = training.prompts.draw([3], Stream.TRAIN, step=7, first=32, count=16)
    dictionary = torch.from_numpy(training.prompts.dictionary(training.prompts.patterns.basis(3)))
    dense = batch.dense(dictionary[None].float())[0].numpy()
    np.testing.assert_allclose(np.einsum("bic,bjc->bij", found, found), dense @ dense.swapaxes(1, 2), atol=1e-3)
