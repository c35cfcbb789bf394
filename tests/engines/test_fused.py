"""The fused engine against the reference engine: same prompts, same weights, same verdicts."""

import warnings

import numpy as np
import pytest
import torch

from iclab.config import InputError, OutsideTheoremWarning
from iclab.engines import Recipe, Switch, Training, answers, check, faster_obstacle, train, weights
from iclab.probes import measure
from iclab.prompts import Mixture, Outliers, Patterns, Prompts, Stream
from iclab.prompts.exponential import exponential

SMALL = {"dimension": 12, "relevant": 4, "irrelevant": 3, "outlier": 2}
KINDS = {"relevant": 4, "irrelevant": 3, "outlier": 2}
VECTORS = np.random.default_rng(1).normal(size=(9, 12)) * np.linspace(0.5, 1.5, 9)[:, None]
ONLY_U = (Mixture(weights=(1, 0, 0), outside_norm=2.0), Mixture(weights=(0.5, 0.5, 0), outside_norm=1.0))

CASES = {
    "as M-fig2": ({}, {"tasks": "ring:3", "outliers": {"fraction": 0.6}}, {}),
    "no outliers": (SMALL, {}, {}),
    "flipped, exact, closest": (SMALL, {"outliers": {"count": 7, "labels": "flip", "placement": "closest"}}, {}),
    "target, farthest, odd batch": (
        SMALL,
        {"outliers": {"fraction": 0.3, "labels": "target", "target": -1, "placement": "farthest"}},
        {"batch_size": 37},
    ),
    "oblique patterns": ({"coherence": 0.2}, {"outliers": {"fraction": 0.5}}, {}),
    "oblique, weak outliers": (SMALL | {"coherence": -0.05, "outlier_norm": 1.0}, {"outliers": {"fraction": 0.5}}, {}),
    "training on mixtures": ({}, {"outliers": {"fraction": 0.5, "patterns": "paper"}}, {}),
    "training on u outside the span": ({}, {"outliers": {"fraction": 0.5, "patterns": ONLY_U}}, {}),
    "stratified, large κ_a": (SMALL, {"balance": "stratified", "outliers": {"fraction": 0.5, "scale": 8.0}}, {}),
    "one example": (SMALL, {"context_length": 1}, {}),
    "500 examples": (SMALL, {"context_length": 500, "outliers": {"fraction": 0.5}}, {"steps": 20, "batch_size": 8}),
    # Nothing can be learnt from this one, and weights wander off: rounding grows with them.
    "batch of one, only outliers": (SMALL, {"outliers": {"fraction": 1.0}}, {"batch_size": 1, "steps": 30}),
    "momentum, clipping, decay": (
        SMALL,
        {"outliers": {"fraction": 0.5}},
        {"optimizer_options": {"momentum": 0.9}, "clip": 0.5, "decay": "cosine"},
    ),
    "linear loss": (SMALL, {"outliers": {"fraction": 0.5}}, {"loss": "linear", "steps": 12}),
    "squared loss": (SMALL, {"outliers": {"fraction": 0.5}}, {"loss": "squared", "steps": 40}),
    "logistic loss, warm-up": (
        SMALL,
        {"outliers": {"fraction": 0.5}},
        {"loss": "logistic", "steps": 40, "warmup": 10, "decay": "cosine"},
    ),
    "early stopping": (
        SMALL,
        {"outliers": {"fraction": 0.3}},
        {"stop": {"loss": 0.6, "patience": 60, "window": 5}, "snapshots": (1, 10, 100)},
    ),
    "frozen keys, clipping": (SMALL, {"outliers": {"fraction": 0.5}}, {"frozen": ("key",), "clip": 0.05}),
    "label noise, outliers in the query": (
        SMALL,
        {"label_noise": 0.2, "outliers": {"fraction": 0.3, "query": 0.5, "scale": 1.0}},
        {},
    ),
    "outliers in the query only, u outside the span": ({}, {"outliers": {"query": 0.7, "patterns": ONLY_U}}, {}),
    "oblique vectors": ({"vectors": VECTORS} | KINDS, {"outliers": {"fraction": 0.5, "query": 0.2}}, {}),
    "more patterns than dimensions": ({"vectors": VECTORS[:, :6]} | KINDS, {"outliers": {"fraction": 0.5}}, {}),
    "dependent vectors, u outside the span": (
        {"vectors": VECTORS * ([1] * 6 + [0] * 6)} | KINDS,
        {"outliers": {"fraction": 0.5, "patterns": ({"weights": (1, 0.5), "outside_norm": 1.0},)}},
        {},
    ),
    "wide": ({"dimension": 100}, {"outliers": {"fraction": 0.5}}, {}),
}


@pytest.fixture(autouse=True)
def _dependent_vectors_are_meant():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "vectors: .* linearly dependent", OutsideTheoremWarning)
        yield


def trainings(model, case="as M-fig2", dtype="float64", **more):
    patterns, prompts, recipe = CASES[case]
    steps = recipe.get("steps", 200)
    settings = {
        "steps": steps,
        "batch_size": 32,
        "step_size": 0.5 if model == "mamba" else 0.02,
        "snapshots": tuple(t for t in (1, 10) if t < steps),
    }
    for engine in ("fused", "reference"):
        yield Training(
            model=model,
            prompts=Prompts(patterns=Patterns(**patterns), **prompts),
            recipe=Recipe(**(settings | recipe | more)),
            dtype=dtype,
            engine=engine,
        )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", ["mamba", "linear"])
@pytest.mark.slow
def test_every_weight_is_the_references(model, case):
    ours, theirs = (train(t, (0, 5)) for t in trainings(model, case))
    for step in theirs.snapshots:
        for name, expected in weights(theirs, step).items():
            torch.testing.assert_close(weights(ours, step)[name], expected, atol=1e-9, rtol=0, msg=f"{name} at {step}")
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-9)
    moved = not torch.equal(weights(ours)["query"], weights(ours, 0)["query"])
    assert moved == bool(ours.losses.any())  # 500 linear examples begin with no loss at all


@pytest.mark.slow
def test_a_gate_that_starts_at_half_and_stays_there():
    options = {"init_scale": 0.1, "gate_scale": 0.0}
    prompts = Prompts(patterns=Patterns(**SMALL, outlier_norm=1.0), outliers={"fraction": 0.5})
    found = []
    for engine in ("fused", "reference"):
        model = {"name": "mamba", "options": options}
        recipe = Recipe(steps=30, frozen=("gate",), optimizer_options={"momentum": 0.5})
        training = Training(model=model, prompts=prompts, recipe=recipe, engine=engine, dtype="float64")
        found.append(weights(train(training, (3,))))
        assert not found[-1]["gate"].any()
    torch.testing.assert_close(found[0]["key"], found[1]["key"], atol=1e-9, rtol=0)
    assert (found[0]["key"] - found[1]["key"].mean()).abs().max() > 0.1


@pytest.mark.parametrize(("model", "engine"), [("linear", "fused"), ("linear", "reference")])
def test_freezing_what_a_model_has_not_is_refused_in_one_line(model, engine):
    training = Training(model=model, recipe=Recipe(steps=1, frozen=("gate",)), engine=engine)
    with pytest.raises(InputError, match=r"frozen = gate: is no parameter of this model; it has .*key"):
        check(training)


@pytest.mark.parametrize("model", ["mamba", "linear"])
@pytest.mark.slow
def test_single_precision_agrees_until_a_prompt_comes_near_the_kink(model):
    """Beyond that, one engine may count a prompt that the other does not: until then weights agree to 2e-4."""
    ours, theirs = (train(t, (0,)) for t in trainings(model, dtype="float32", steps=60, snapshots=tuple(range(60))))
    exact = train(next(trainings(model, steps=60, snapshots=tuple(range(60)))), (0,))
    safe = 60
    for step in range(60):
        at = Training(**dict(exact.training) | {"recipe": exact.training.recipe})
        near = [
            np.abs(1 - batch.target * answer.output.numpy()).min()
            for batch, answer in answers(exact, at.prompts, 32, at=step, stream=Stream.TRAIN, step=step)
        ]
        if min(near) < 1e-5:
            safe = step
            break
    assert safe >= 10
    for step in range(safe):
        for name, expected in weights(theirs, step).items():
            torch.testing.assert_close(weights(ours, step)[name], expected, atol=2e-4, rtol=2e-4)


@pytest.mark.slow
def test_switching_prompts_and_frames_along_the_way():
    late = Prompts(outliers=Outliers(fraction=0.5, placement="closest", patterns=ONLY_U))
    ours, theirs = (
        train(t, (0, 1)) for t in trainings("mamba", steps=40, snapshots=(), switches=(Switch(step=20, prompts=late),))
    )
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, atol=1e-9, rtol=0)


@pytest.mark.slow
def test_divergence_is_seen_at_the_same_step():
    ours, theirs = (train(t, (0, 1, 2)) for t in trainings("linear", step_size=5.0))
    assert ours.diverged.all()
    np.testing.assert_array_equal(ours.diverged_at, theirs.diverged_at)
    assert weights(ours)["key"].isnan().all()


@pytest.mark.slow
def test_at_zero_loss_nothing_moves():
    """Both engines skip the update when no prompt is inside the hinge; the weights then stay to the last bit."""
    for training in trainings("mamba", "no outliers", steps=300, snapshots=tuple(range(280, 300))):
        trained = train(training, (0,))
        quiet = [step for step in range(280, 300) if trained.losses[step, 0] == 0]
        assert quiet
        for step in quiet:
            after = weights(trained, step + 1)
            assert all(torch.equal(w, after[name]) for name, w in weights(trained, step).items())


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_threads_and_company_change_no_bit(dtype):
    training = next(trainings("mamba", dtype=dtype))
    seeds = (0, 1, 2, 3, 4)
    one = train(training, seeds, threads=1)
    for threads in (2, 5):
        many = train(training, seeds, threads=threads)
        assert all(torch.equal(w, many.snapshots[200][name]) for name, w in one.snapshots[200].items())
    for group in ((3,), (4, 1)):
        part = train(training, group)
        for name, w in one.select(group).snapshots[200].items():
            assert torch.equal(w, part.snapshots[200][name])
    rows = [measure(one, "error", training.prompts, 9_000, threads=threads) for threads in (1, 3)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "outliers",
    [
        Outliers(),
        Outliers(fraction=0.6, labels="flip", patterns="paper", scale=6.0),
        Outliers(fraction=0.5, patterns=ONLY_U),
        Outliers(count=4, labels="target", placement="closest"),
        Outliers(fraction=0.5, query=0.8, patterns=ONLY_U),
    ],
    ids=["clean", "paper mixtures", "u outside the span", "exact and closest", "u in the query"],
)
@pytest.mark.parametrize("probe", ["error", "attention", "gates"])
@pytest.mark.parametrize("model", ["mamba", "linear"])
@pytest.mark.slow
def test_measurements_are_those_of_the_dense_weights(model, probe, outliers):
    ours = train(next(trainings(model)), (0, 1))
    theirs = train(list(trainings(model))[1], (0, 1))
    test = Prompts(irrelevant_scale=1.5, outliers=outliers, context_length=7)
    for mine, reference in zip(*(measure(t, probe, test, 700, draw=2) for t in (ours, theirs)), strict=True):
        assert mine.keys() == reference.keys()
        for name, value in reference.items():
            assert mine[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.slow
def test_state_space_larger_than_the_input_changes_nothing():
    patterns, prompts, _ = CASES["no outliers"]
    description = Prompts(patterns=Patterns(**patterns), **prompts)
    recipe = Recipe(steps=20, batch_size=16, step_size=0.5)
    wide = {"name": "mamba", "options": {"state_size": 17}}
    ours, theirs = (
        train(Training(model=wide, prompts=description, recipe=recipe, dtype="float64", engine=engine), (0,))
        for engine in ("fused", "reference")
    )
    assert weights(ours)["key"].shape == (1, 17, 13)
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, atol=1e-9, rtol=0)


def any_rule(examples):
    return -examples.labels


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "softmax"}, "model softmax has no fused form"),
        ({"model": {"name": "mamba", "options": {"form": "recurrence"}}}, "model.options.form = recurrence"),
        ({"model": {"name": "mamba", "options": {"state_size": 5}}}, "state_size = 5"),
        ({"recipe": Recipe(optimizer="adam")}, "optimizer = adam"),
        ({"recipe": Recipe(optimizer_options={"weight_decay": 0.1})}, "weight_decay"),
        ({"prompts": Prompts(outliers=Outliers(fraction=0.5, labels=any_rule))}, "any_rule"),
        (
            {"recipe": Recipe(switches=(Switch(step=9, prompts=Prompts(outliers=Outliers(labels=any_rule))),))},
            "any_rule",
        ),
        ({"device": "cuda"}, "device = cuda"),
    ],
)
def test_what_it_cannot_do_falls_back_with_a_reason(changes, reason):
    training = Training(**({"model": "mamba"} | changes))
    assert training.engine == "reference"
    assert reason in faster_obstacle(training)
    with pytest.raises(ValueError, match="engine = fused"):
        Training(**({"model": "mamba", "engine": "fused"} | changes))


@pytest.mark.slow
def test_tests_with_a_users_rule_are_measured_on_dense_weights():
    trained = train(next(trainings("mamba")), (0,))
    by_name = Prompts(outliers=Outliers(fraction=0.6, labels="flip"))
    by_rule = Prompts(outliers=Outliers(fraction=0.6, labels=any_rule))
    assert trained.training.engine == "fused"
    first, second = (measure(trained, "error", prompts, 600)[0] for prompts in (by_name, by_rule))
    assert first["right"] == second["right"]
    assert first["hinge"] == pytest.approx(second["hinge"])


def test_the_engine_is_settled_when_described():
    assert Training(model="mamba").engine == "fused"
    assert Training(model="mamba") == Training(model="mamba", engine="fused")
    assert Training(model="mamba").digest() != Training(model="mamba", engine="reference").digest()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-7), (np.float64, 4e-16)])
def test_exponential_is_exact_to_rounding(dtype, tolerance):
    import numba

    @numba.njit(fastmath={"contract"}, error_model="numpy")
    def many(x, out):
        for i in range(x.size):
            out[i] = exponential(x[i])

    x = np.linspace(-80, 80, 200_001).astype(dtype)
    out = np.empty_like(x)
    many(x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=tolerance)
    edge = np.array([-1e30, 1e30, 0.0], dtype=dtype)
    many(edge, edge)
    assert edge[0] >= 0
    assert edge[0] < 1e-37
    assert np.isfinite(edge[1])
    assert edge[2] == 1.0


def test_gates_never_overflow():
    prompts = Prompts(outliers=Outliers(fraction=0.5, scale=1e4), context_length=400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained = train(Training(model="mamba", prompts=prompts, recipe=Recipe(steps=3, batch_size=16)), (0,))
        rows = measure(trained, "gates", prompts, 200)
    assert all(row["gate"] is None or 0 <= row["gate"] <= 1 for row in rows)
