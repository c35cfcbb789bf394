"""Probes that look into weights, against what the papers write, by literal loops."""

import numpy as np
import pytest
import torch
from far_weights import move

import iclab
from iclab.models import Model
from iclab.prompts import Patterns, Prompts

PATTERNS = Patterns(dimension=8, relevant=3, irrelevant=4, outlier=0)
PROMPTS = Prompts(
    patterns=PATTERNS, context_length=5, relevant_fraction=0.7, label_dimension=4, label_norm=2.0, noise=0.2
)
MLP = Model(name="softmax-mlp", options={"neurons": 10, "state_size": 13, "value_size": 12})


@pytest.fixture(scope="module")
def run():
    """Two seeds with weights that are neither the start nor an end."""
    return move(iclab.train(MLP, PROMPTS, iclab.Recipe(steps=5, step_size=3.0), seeds=2, dtype="float64"), 3)


def prompts_and_weights(run, count):
    batch, answer = run.answer(count=count)
    weights = {name: w.numpy() for name, w in run.weights().items()}
    rows = torch.stack([torch.from_numpy(PROMPTS.dictionary(PATTERNS.basis(s))) for s in run.seeds])
    return batch, answer, batch.dense(rows).numpy(), weights


def test_alignment_is_proposition_4_1(run):
    batch, _, tokens, weights = prompts_and_weights(run, 300)
    found = {(row["seed"], row["matrix"]): row for row in run.measure("alignment", count=300)}
    for s in run.seeds:
        vectors = PATTERNS.basis(s).vectors
        lengths, along = {"query": [], "key": []}, {"query": [], "key": []}
        for b in range(300):
            for i in range(6):
                matrix = "query" if i == 5 else "key"
                seen = weights[matrix][s] @ tokens[s, b, i]
                pattern = np.zeros(13)
                pattern[:8] = vectors[batch.index[s, b, i, 0]] / 3.0
                lengths[matrix].append(np.linalg.norm(seen))
                along[matrix].append(pattern @ seen)
        for matrix in ("query", "key"):
            assert found[s, matrix]["length"] == pytest.approx(np.mean(lengths[matrix]))
            assert found[s, matrix]["along"] == pytest.approx(np.mean(along[matrix]))


def test_parts_are_those_of_the_neurons_that_should_fire(run):
    batch, answer, tokens, weights = prompts_and_weights(run, 100)
    for s, row in enumerate(run.measure("parts", count=100)):
        found = {name: [] for name in row if "_by_" in name}
        for b in range(100):
            mixed = answer.attention[s, b, 0].numpy() @ tokens[s, b, :-1]
            value = weights["value"][s] @ mixed
            for i in range(10):
                if weights["signs"][s, i] * batch.target[s, b, 0] < 0:
                    continue
                whole = weights["hidden"][s, i] @ weights["value"][s]
                parts = {
                    "source": (whole[:8] @ mixed[:8], whole[8:] @ mixed[8:]),
                    "place": (weights["hidden"][s, i, :8] @ value[:8], weights["hidden"][s, i, 8:] @ value[8:]),
                }
                for name, (feature, label) in parts.items():
                    found[f"feature_by_{name}"].append(feature)
                    found[f"label_by_{name}"].append(label)
                    found[f"ahead_by_{name}"].append(label > feature)
        assert len(found) == 6
        for name, values in found.items():
            assert row[name] == pytest.approx(np.mean(values))
        total = row["feature_by_source"] + row["label_by_source"]  # two ways to cut the same number
        assert total == pytest.approx(row["feature_by_place"] + row["label_by_place"])


def test_norms_are_means_over_patterns(run):
    found = {(row["seed"], row["matrix"], row["kind"]): row["length"] for row in run.measure("norms", count=1)}
    assert len(found) == 2 * 2 * 2
    for s in run.seeds:
        vectors = PATTERNS.basis(s).vectors
        for matrix in ("query", "key"):
            seen = [np.linalg.norm(run.weights()[matrix][s].numpy()[:, :8] @ v) for v in vectors]
            assert found[s, matrix, "relevant"] == pytest.approx(np.mean(seen[:3]))
            assert found[s, matrix, "irrelevant"] == pytest.approx(np.mean(seen[3:]))


def test_norms_start_at_the_papers_start():
    run = iclab.train(MLP, PROMPTS, iclab.Recipe(steps=0), seeds=1)
    assert [row["length"] for row in run.measure("norms", count=1)] == pytest.approx([0.1 * 3.0] * 4)
    mamba = iclab.train("mamba", Prompts(patterns=PATTERNS), iclab.Recipe(steps=0), seeds=1)
    assert [row["length"] for row in mamba.measure("norms", count=1)] == pytest.approx([0.2 * 3.0] * 4)


def test_neurons_are_rows_of_the_product(run):
    rows = run.measure("neurons", count=1)
    assert len(rows) == 20
    for row in rows:
        s, i = row["seed"], row["neuron"]
        weights = {name: w[s].numpy() for name, w in run.weights().items()}
        product = (weights["hidden"] @ weights["value"])[i]
        mean = PATTERNS.basis(s).vectors[:3].mean(0)
        label = np.zeros(4)
        label[0] = np.sign(weights["signs"][i])  # qe of T Proposition 4.5
        assert row["sign"] == label[0]
        assert row["length"] == pytest.approx(np.linalg.norm(product))
        assert row["hidden_length"] == pytest.approx(np.linalg.norm(weights["hidden"][i]))
        for name, part, other in (("feature", product[:8], mean), ("label", product[8:], label)):
            cosine = part @ other / np.linalg.norm(part) / np.linalg.norm(other)
            assert row[f"{name}_length"] == pytest.approx(np.linalg.norm(part))
            assert row[f"{name}_angle"] == pytest.approx(np.degrees(np.arccos(cosine)))


def test_a_zero_row_points_nowhere():
    run = iclab.train(MLP, PROMPTS, iclab.Recipe(steps=0), seeds=1)
    for row in run.measure("neurons", count=1, pruning=iclab.Pruning(rate=1.0)):
        assert (row["length"], row["feature_angle"], row["label_angle"]) == (0.0, 90.0, 90.0)


def test_diverged_seeds_say_so():
    run = iclab.train(MLP, PROMPTS, iclab.Recipe(steps=60, step_size=1e6), seeds=2)
    assert run.diverged == (0, 1)
    for probe in ("alignment", "parts", "norms", "neurons"):
        rows = run.measure(probe, count=3)
        assert [row["diverged"] for row in rows] == [True, True]
        assert {value for row in rows for name, value in row.items() if name not in ("seed", "diverged")} == {None}


@pytest.mark.parametrize(
    ("model", "probe", "message"),
    [
        ("mamba", "neurons", "probe = neurons: reads neurons, which mamba does not have; models that do: softmax-mlp"),
        (
            "deep-mamba",
            "alignment",
            "reads keys, which deep-mamba does not have; models that do: mamba",
        ),
        ("classical", "norms", "reads keys, which classical does not have"),
        (
            Model(name="mamba", options={"state_size": 5}),
            "alignment",
            "state_size = 5: must be at least 8",
        ),
        (
            Model(name="softmax-mlp", options={"value_size": 8}),
            "parts",
            "value_size = 8: must be at least 9",
        ),
    ],
)
def test_models_that_lack_what_a_probe_looks_at_are_refused(model, probe, message):
    run = iclab.train(model, Prompts(patterns=PATTERNS), iclab.Recipe(steps=0), seeds=1)
    with pytest.raises(iclab.InputError, match=message):
        run.measure(probe, count=2)


class Own(torch.nn.Module):
    """A user's model with a key and a query, and no neurons."""

    def __init__(self, width):
        super().__init__()
        self.key, self.query = (torch.nn.Parameter(0.5 * torch.eye(width)) for _ in range(2))

    def forward(self, tokens):
        return ((tokens[:, :-1] @ self.key.T) * (tokens[:, -1:] @ self.query.T)).sum((1, 2))


def test_a_users_model_is_measured_by_the_names_of_its_weights():
    run = iclab.train(Own, Prompts(patterns=PATTERNS), iclab.Recipe(steps=0), seeds=1)
    assert [row["length"] for row in run.measure("norms", count=1)] == pytest.approx([1.5] * 4)
    with pytest.raises(iclab.InputError, match=r"does not have \(value, hidden, signs\)"):
        run.measure("neurons", count=1)


def test_lucky_neurons_are_those_that_t_names_before_training():
    prompts = Prompts(
        patterns=Patterns(dimension=8, relevant=4, irrelevant=3, outlier=0),
        tasks="ring:1",
        relevant_fraction=0.7,
        label_dimension=3,
        context_length=12,
    )
    model = iclab.Model(name="softmax-mlp", options={"neurons": 40, "state_size": 11, "value_size": 11})
    run = iclab.train(model, prompts, iclab.Recipe(steps=3, step_size=1.0), seeds=2)
    rows = run.measure("lucky", count=1)
    for seed in (0, 1):
        basis = run.trained.bases()[seed].vectors[:4]
        start, signs = run.weights(0)["hidden"][seed].numpy(), run.weights()["signs"][seed].numpy()
        product = (run.weights()["hidden"][seed] @ run.weights()["value"][seed]).numpy()
        lucky = []
        for row, sign in zip(start, signs, strict=True):
            views = [
                sum(row[:8] @ basis[k] * (0.35 if k in (j, (j + 1) % 4) else 0.15) for k in range(4)) for j in range(4)
            ]
            lucky.append(bool(sign * row[8] > 0 and max(views) > 0))
        large = np.linalg.norm(product, axis=1) >= 1
        for kind in (True, False):
            mine = [big for big, was in zip(large, lucky, strict=True) if was == kind]
            (found,) = [r for r in rows if r["seed"] == seed and r["lucky"] == kind]
            assert (found["neurons"], found["large"]) == (len(mine), sum(mine))
        assert 5 < sum(lucky) < 35
