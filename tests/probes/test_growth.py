"""Probes of one-layer weights: the kernel, entries by kind, logits with quantiles, and measuring after every step."""

import numpy as np
import pytest

import iclab
from iclab.config import InputError
from iclab.engines import Recipe, weights
from iclab.models import Model
from iclab.probes import measure
from iclab.prompts import Outliers, Patterns, Prompts

pytestmark = pytest.mark.slow  # the first time, compiling takes long

PATTERNS = Patterns(dimension=14, relevant=4, irrelevant=3, outlier=2, relevant_norm=2.0)
PROMPTS = Prompts(patterns=PATTERNS, tasks="ring:1", context_length=6, outliers=Outliers(fraction=0.4))


@pytest.fixture(scope="module", params=["fused", "reference"])
def run(request):
    recipe = Recipe(steps=30, step_size=0.5, batch_size=16, snapshots=(0, 7))
    return iclab.train("mamba", PROMPTS, recipe, seeds=2, engine=request.param, dtype="float64")


def units(run, row):
    vectors = run.trained.bases()[row].vectors
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_kernel_is_attention_between_unit_patterns(run):
    rows = run.measure("kernel", count=1)
    assert len(rows) == 2 * 16
    for row in rows:
        i, e = run.seeds.index(row["seed"]), units(run, run.seeds.index(row["seed"]))
        key, query = (run.weights()[name][i, :, :14].numpy() for name in ("key", "query"))
        expected = (key @ e[row["pattern"]]) @ (query @ e[row["query_pattern"]]) / 0.2**2
        assert row["entry"] == pytest.approx(expected, rel=1e-9)
        assert row["distance"] == [0, 1, 2, 1][(row["pattern"] - row["query_pattern"]) % 4]


def test_the_kernel_starts_as_the_identity(run):
    for row in run.measure("kernel", count=1, at=0):
        assert row["entry"] == pytest.approx(float(row["pattern"] == row["query_pattern"]), abs=1e-12)


def test_growth_sorts_every_entry_by_kind(run):
    rows = [row for row in run.measure("growth", count=1) if row["seed"] == run.seeds[1]]
    e = units(run, 1)
    moved = {name: (w[1] - weights(run.trained, 0)[name][1]).numpy() for name, w in run.weights().items()}
    for name in ("key", "query"):
        block = e @ moved[name][:14, :14] @ e.T
        by_kind = {(row["kind"], row["distance"]): row for row in rows if row["matrix"] == name}
        assert sum(row["entries"] for row in by_kind.values()) == 9 * 9
        assert sum(row["entries"] * row["rms"] ** 2 for row in by_kind.values()) == pytest.approx((block**2).sum())
        assert by_kind["own", 0]["mean"] == pytest.approx(np.diag(block)[:4].mean())
        assert by_kind["met", 1]["mean"] == pytest.approx(
            np.mean([block[j, (j + s) % 4] for j in range(4) for s in (1, 3)])
        )
        assert by_kind["unmet", 2]["mean"] == pytest.approx(np.mean([block[j, (j + 2) % 4] for j in range(4)]))
        assert by_kind["outlier relevant", None]["mean"] == pytest.approx(block[7:, :4].mean())
        assert by_kind["irrelevant own", None]["mean"] == pytest.approx(np.diag(block)[4:7].mean())
    gate = {row["kind"]: row for row in rows if row["matrix"] == "gate"}
    assert gate["outlier"]["mean"] == pytest.approx((e[7:] @ moved["gate"][:14]).mean())
    assert gate["label"]["mean"] == pytest.approx(moved["gate"][14])


def test_logits_have_the_quantiles_of_the_examples(run):
    rows = run.measure("logits", PROMPTS, count=600)
    batch, answer = run.answer(PROMPTS, count=600)
    gate = run.weights()["gate"].numpy()
    for i, seed in enumerate(run.seeds):
        dictionary = PROMPTS.dictionary(run.trained.bases()[i])
        inputs = (dictionary[batch.index[i]] * batch.coefficient[i][..., None]).sum(-2)[:, :-1]  # (B, l, d)
        logits = inputs @ gate[i, :14] + batch.labels[i, :, :-1, 0] * gate[i, 14]
        gates = answer.gate[i, :, 0].numpy()
        found = {(row["kind"], row["quantity"]): row for row in rows if row["seed"] == seed}
        for kind, which in (("clean", ~batch.outlier[i]), ("outlier", batch.outlier[i])):
            assert found[kind, "logit"]["examples"] == which.sum()
            assert found[kind, "logit"]["mean"] == pytest.approx(logits[which].mean())
            assert found[kind, "logit"]["q10"] == pytest.approx(np.quantile(logits[which], 0.1), abs=0.05)
            assert found[kind, "gate"]["q99"] == pytest.approx(np.quantile(gates[which], 0.99), rel=0.05)
        reach = (gates * np.arange(6, 0, -1)).sum(-1)
        assert found["prompt", "reach"]["mean"] == pytest.approx(reach.mean())
        assert found["prompt", "reach"]["q90"] == pytest.approx(np.quantile(reach, 0.9), rel=0.03)


def test_every_measures_after_each_kept_step(run):
    rows = run.measure("error", count=200, at="every")
    assert [row["step"] for row in rows] == [0, 0, 7, 7, 30, 30]
    for step in (0, 7, 30):
        alone = run.measure("error", count=200, at=step)
        assert [row for row in rows if row["step"] == step] == [row | {"step": step} for row in alone]


def test_a_small_state_cannot_be_read_in_the_patterns_directions():
    run = iclab.train(Model(name="mamba", options={"state_size": 9}), PROMPTS, Recipe(steps=1), seeds=1)
    with pytest.raises(InputError, match="state_size = 9: must be at least 14"):
        measure(run.trained, "kernel", PROMPTS, 1)


def test_models_without_a_gate_have_no_logits():
    run = iclab.train("linear", PROMPTS, Recipe(steps=1), seeds=1)
    with pytest.raises(InputError, match="which linear does not have"):
        measure(run.trained, "logits", PROMPTS, 10)


def test_lemma_3_25_is_true_of_the_first_step_and_not_of_the_second():
    """Entries between patterns that share no task are 0 after one step, and δ a² (L²) after two, a the τ of one."""
    patterns = Patterns(dimension=10, relevant=6, irrelevant=1, outlier=0, relevant_norm=1.0)
    prompts = Prompts(patterns=patterns, tasks="ring:1", context_length=8, irrelevant_scale=0.0)
    recipe = Recipe(steps=2, step_size=0.5, batch_size=20_000, snapshots=(1,), frozen=("gate",))
    model = Model(name="mamba", options={"init_scale": 1.0, "gate_scale": 0.0})
    run = iclab.train(model, prompts, recipe.replace(loss="linear"), seeds=1, dtype="float64")
    rows = [row for row in run.measure("growth", count=1, at="every") if row["kind"] == "unmet"]
    at = {(row["step"], row["matrix"], row["distance"]): row for row in rows}
    rate = 0.5 * 0.5 * (1 - 2**-8) / (2 * 6)  # τ of one step
    for matrix in ("key", "query"):
        assert at[1, matrix, 2]["rms"] < 1e-15
        assert at[2, matrix, 2]["mean"] == pytest.approx(rate**2 / 4, rel=0.1)  # (L²)_{j,j+2} = 1/4
        assert at[2, matrix, 3]["rms"] < 0.01 * rate**2  # three edges take a third step
