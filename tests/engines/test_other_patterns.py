"""Tests on other patterns than those of the training, and patterns given as vectors, on every path."""

import numpy as np
import pytest
import torch

import iclab
from iclab import InputError, Outliers, Patterns, Prompts, Recipe
from iclab.engines import Switch, Trained, Training, answers, stacked_dictionary, train, weights
from iclab.probes import measure
from iclab.prompts import Mixture, Stream

KINDS = {"relevant": 4, "irrelevant": 3, "outlier": 2}
SMALL = Patterns(dimension=14, **KINDS)
OUTLIERS = Outliers(fraction=0.4, scale=1.5)
OWN = np.random.default_rng(4).normal(size=(9, 14))
AWAY = (Mixture(weights=(0.5, 0.5), outside_norm=2.0),)

OTHERS = {
    "new directions": Patterns(dimension=14, draw=1, **KINDS),
    "more of them": Patterns(dimension=14, relevant=6, irrelevant=5, outlier=2, draw=1),
    "other norms": Patterns(dimension=14, relevant_norm=1.0, coherence=0.1, **KINDS),
    "vectors": Patterns(vectors=OWN, **KINDS),
    "half of the training's": Patterns(vectors=np.concatenate([SMALL.basis(0).vectors[:5], OWN[5:]]), **KINDS),
}


def train_on(patterns=SMALL, model="mamba", engine="fused", seeds=(0, 2), dtype="float64", basis_seed=None, **prompts):
    recipe = Recipe(steps=60, batch_size=32, step_size=0.5 if model == "mamba" else 0.02)
    return train(
        Training(
            model=model,
            prompts=Prompts(patterns=patterns, context_length=8, outliers=OUTLIERS, **prompts),
            recipe=recipe,
            engine=engine,
            dtype=dtype,
            basis_seed=basis_seed,
        ),
        seeds,
    )


@pytest.fixture(scope="module")
def fused():
    return {model: train_on(model=model) for model in ("mamba", "linear")}


def dense_twin(trained):
    """Return the same weights as matrices, for the reference engine."""
    whole = {step: weights(trained, step) for step in trained.snapshots}
    training = trained.training.replace(engine="reference")
    return Trained(training, trained.seeds, whole, trained.diverged_at, trained.losses)


def assert_close(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, row in zip(ours, theirs, strict=True):
        for name, value in row.items():
            assert mine[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("model", ["mamba", "linear"])
def test_fused_sums_on_other_patterns_are_those_of_dense_tokens(fused, model, other):
    outliers = Outliers(fraction=0.5, labels="flip", query=0.5, patterns=AWAY)
    test = Prompts(patterns=OTHERS[other], context_length=7, outliers=outliers, label_noise=0.1)
    for probe in ("error", "attention", "gates", "worst-placement"):
        assert_close(*(measure(t, probe, test, 300) for t in (fused[model], dense_twin(fused[model]))))


def test_answers_to_other_patterns_are_the_models_own(fused):
    """By hand: tokens from the test's vectors, through the module with the trained matrices."""
    test = Prompts(patterns=OTHERS["new directions"], context_length=7, outliers=OUTLIERS)
    trained = fused["mamba"]
    ((batch, answer),) = answers(trained, test, 40)
    right = []
    for i, seed in enumerate(trained.seeds):
        vectors = test.patterns.basis(seed).vectors
        assert np.abs(SMALL.basis(seed).vectors @ vectors.T).max() < 8.9  # no pattern of the training
        inputs = np.einsum("bik,bikd->bid", batch.coefficient[i].astype(float), vectors[batch.index[i]])
        tokens = torch.from_numpy(np.concatenate([inputs, batch.labels[i].astype(float)], -1))
        module = iclab.models.MODELS["mamba"](15).double()
        module.load_state_dict({name: w[i] for name, w in weights(trained).items()})
        with torch.no_grad():
            output = module(tokens).output
        torch.testing.assert_close(answer.output[i], output, atol=1e-9, rtol=0)
        right.append((output.numpy() * batch.target[i] > 0).mean())
    error = [row["error"] for row in measure(trained, "error", test, 40)]
    np.testing.assert_allclose(error, 1 - np.array(right))


def test_a_fixed_rotation_holds_for_other_patterns_too():
    trained = train_on(basis_seed=7)
    test = Prompts(patterns=OTHERS["new directions"])
    rows = stacked_dictionary(trained.training, trained.seeds, test)
    np.testing.assert_allclose(rows[0], test.patterns.basis(7).vectors)
    np.testing.assert_allclose(rows[1], rows[0])


def test_other_patterns_cannot_be_trained_on_later():
    later = Recipe(switches=(Switch(step=5, prompts=Prompts(patterns=Patterns(draw=1))),))
    with pytest.raises(ValueError, match="switches at step 5: must use the patterns"):
        Training(model="mamba", recipe=later)


# Probes.


@pytest.mark.parametrize("probe", ["kernel", "growth"])
def test_probes_of_the_trainings_patterns_refuse_others(fused, probe):
    test = Prompts(patterns=OTHERS["new directions"])
    with pytest.raises(InputError, match=r"prompts\.patterns: must be those of the training prompts for the probes"):
        measure(fused["mamba"], probe, test, 1)
    assert measure(fused["mamba"], probe, Prompts(patterns=SMALL), 1)


def test_norms_are_along_the_patterns_of_the_test(fused):
    for other in ("more of them", "vectors"):
        test = Prompts(patterns=OTHERS[other])
        for row in measure(fused["mamba"], "norms", test, 1):
            i = fused["mamba"].seeds.index(row["seed"])
            first = 0 if row["kind"] == "relevant" else test.patterns.relevant
            vectors = test.patterns.basis(row["seed"]).vectors[first : first + getattr(test.patterns, row["kind"])]
            seen = vectors @ weights(fused["mamba"])[row["matrix"]][i, :, :14].numpy().T
            assert row["length"] == pytest.approx(np.linalg.norm(seen, axis=1).mean())


def test_neurons_are_along_the_patterns_of_the_test():
    trained = train(Training(model="softmax-mlp", recipe=Recipe(steps=2), prompts=Prompts(patterns=SMALL)), (0,))
    here, there = (measure(trained, "neurons", Prompts(patterns=p), 1)[0] for p in (SMALL, OTHERS["new directions"]))
    assert here["feature_length"] == there["feature_length"]
    assert here["feature_angle"] != there["feature_angle"]
    w = weights(trained)
    row = (w["hidden"][0] @ w["value"][0])[0, :14].double().numpy()
    mean = OTHERS["new directions"].basis(0).vectors[:4].mean(0)
    cosine = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
    assert there["feature_angle"] == pytest.approx(np.degrees(np.arccos(cosine)), abs=1e-3)


@pytest.mark.parametrize("other", ["new directions", "vectors"])
def test_exact_errors_hold_on_other_patterns(fused, other):
    test = Prompts(patterns=OTHERS[other], tasks="0-1", context_length=8, outliers=OUTLIERS)
    rows = zip(measure(fused["mamba"], "exact", test, 1), measure(fused["mamba"], "error", test, 20_000), strict=True)
    for exact, sampled in rows:
        share = exact["error"]
        assert abs(share - sampled["error"]) < 4.5 * np.sqrt(share * (1 - share) / 20_000) + exact["error_bound"]


# Patterns given as vectors.


@pytest.mark.parametrize("coherence", [0.0, 0.2])
@pytest.mark.parametrize(("model", "engine"), [("mamba", "fused"), ("mamba", "reference"), ("softmax-mlp", "compact")])
def test_the_vectors_of_a_basis_train_as_that_basis(model, engine, coherence):
    made = SMALL.replace(coherence=coherence)
    own = Patterns(vectors=made.basis(3).vectors, **KINDS)
    one, other = train_on(made, model, engine, basis_seed=3), train_on(own, model, engine)
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-9)
    for name, expected in weights(one).items():
        torch.testing.assert_close(weights(other)[name], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("vectors", [OWN, OWN[:, :6]], ids=["oblique", "more than dimensions"])
@pytest.mark.parametrize("engine", ["fused", "reference"])
@pytest.mark.filterwarnings("ignore:vectors. .* linearly dependent")
def test_rotated_vectors_train_alike(vectors, engine):
    rotation = np.linalg.qr(np.random.default_rng(5).normal(size=(vectors.shape[1],) * 2))[0]
    one, other = (train_on(Patterns(vectors=v, **KINDS), engine=engine) for v in (vectors, vectors @ rotation))
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-9)
    assert len(np.unique(one.losses[0])) == 2  # seeds differ: in their prompts and gates


def test_vectors_are_the_same_for_every_seed_and_stream():
    own = Prompts(patterns=Patterns(vectors=OWN, **KINDS))
    for training in (Training(model="mamba", prompts=own), Training(model="mamba", prompts=own, basis_seed=3)):
        rows = stacked_dictionary(training, (0, 1), own)
        np.testing.assert_allclose(rows.numpy(), np.stack([OWN, OWN]).astype(np.float32))
    assert own.draw([0], Stream.TEST).index.max() < 9
