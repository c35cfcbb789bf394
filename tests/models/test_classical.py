"""Classical learners as models: fitted on a prompt's own examples, nothing to train. Scikit-learn is the reference."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import iclab
from iclab.lab import MeasurementCell, Store, TrainingCell, run
from iclab.models import Classical, Model
from iclab.prompts import Patterns, Prompts

pytestmark = pytest.mark.slow

PROMPTS = Prompts(
    patterns=Patterns(dimension=10, relevant=4, irrelevant=3, outlier=0),
    context_length=7,
    relevant_fraction=0.7,
    label_dimension=3,
    label_norm=2.0,
    noise=0.5,  # or neighbours would tie
)


def drawn(count=60):
    batch, _ = iclab.train("softmax-mlp", PROMPTS, iclab.Recipe(steps=0), seeds=1).answer(count=count)
    return batch.dense(torch.from_numpy(PROMPTS.dictionary(PROMPTS.patterns.basis(0)))[None])[0]


def by_hand(prompt, learner, penalty, cosine, close=True):
    """Scikit-learn's decision, with its default tolerances or with close ones."""
    x, y = prompt[:, :10], np.sign(prompt[:-1, 10])
    if cosine:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    if (y == y[0]).all():
        return y[0]
    if learner.endswith("-nn"):
        fitted = KNeighborsClassifier(min(int(learner[0]), len(y)), algorithm="brute").fit(x[:-1], y)
        return fitted.predict_proba(x[-1:])[0] @ fitted.classes_
    if learner == "logistic":
        fitted = LogisticRegression(C=penalty, max_iter=100_000, **({"tol": 1e-12} if close else {}))
        if close:  # its usual solver stops early
            fitted.set_params(solver="newton-cholesky")
    else:
        fitted = SVC(C=penalty, kernel=learner.removeprefix("svm-"), **({"tol": 1e-9} if close else {}))
    return fitted.fit(x[:-1], y).decision_function(x[-1:])[0]


def compared(tokens, learner, penalty=1.0, cosine=False, close=True):
    """Our decisions and scikit-learn's."""
    model = Classical(width=13, label_width=3, learner=learner, penalty=penalty, cosine=cosine)
    expected = [by_hand(prompt, learner, penalty, cosine, close) for prompt in tokens.numpy()]
    return model(tokens).output.numpy(), np.array(expected)


LEARNERS = ["logistic", "svm-rbf", "svm-linear", "1-nn", "3-nn", "5-nn"]


@pytest.mark.parametrize("cosine", [False, True], ids=["as is", "cosine"])
@pytest.mark.parametrize("penalty", [0.01, 3.0, 300.0])
@pytest.mark.parametrize("learner", LEARNERS)
def test_each_decides_as_scikit_learn_would(learner, penalty, cosine):
    found, expected = compared(drawn(40), learner, penalty, cosine)
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("learner", ["logistic", "svm-rbf", "svm-linear"])
def test_scikit_learns_own_tolerance_is_wider(learner):
    tokens = drawn(40)
    ours, close = compared(tokens, learner)
    _, usual = compared(tokens, learner, close=False)
    assert np.abs(ours - close).max() < np.abs(usual - close).max() < 0.02


@pytest.mark.parametrize("learner", LEARNERS)
def test_degenerate_prompts_are_decided_as_by_scikit_learn(learner):
    tokens = drawn(8)
    tokens[0, 1:7, :10] = tokens[0, 0, :10]  # the same input again and again, with other labels
    tokens[1, :, :10] = 1.0  # no input differs
    tokens[2, :, :10] = 0.0
    tokens[3, :-1, 10] = torch.tensor([1.0, -1.0] * 3 + [1.0], dtype=tokens.dtype)
    tokens[3, 1, :10], tokens[3, -1, :10] = tokens[3, 0, :10], tokens[3, 0, :10]  # the query is two of the examples
    tokens[4, :-1, 10:] *= 1e-3  # only signs count
    tokens[5, :, :10] *= 100.0
    for length in (7, 2, 1):
        some = torch.cat([tokens[:, :length], tokens[:, -1:]], 1)
        found, expected = compared(some, learner)
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


def test_newtons_steps_are_halved_where_they_would_overshoot():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 8, 5, dtype=torch.float64, generator=generator)
    x[:, :3] *= 5
    y = torch.sign(torch.randn(100, 8, 1, dtype=torch.float64, generator=generator))
    found = Classical(6, 1, "logistic", penalty=1e4)(torch.cat([x, y], -1)).output.numpy()
    for decision, inputs, labels in zip(found, x.numpy(), y.numpy()[:, :-1, 0], strict=True):
        if abs(labels.sum()) < 7:
            fitted = LogisticRegression(C=1e4, max_iter=100_000, tol=1e-9, solver="newton-cholesky")
            expected = fitted.fit(inputs[:-1], labels).decision_function(inputs[-1:])[0]
            assert decision == pytest.approx(expected, rel=1e-3, abs=1e-3)


@given(data=st.data(), length=st.integers(1, 9), neighbours=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_of_equally_near_neighbours_those_of_scikit_learn_count(data, length, neighbours):
    whole = st.lists(st.integers(-1, 1), min_size=2 * (length + 1), max_size=2 * (length + 1))
    x = np.array(data.draw(whole), dtype=float).reshape(-1, 2)
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=length, max_size=length)))
    tokens = torch.from_numpy(np.column_stack([x, np.append(y, 0.0)]))[None]
    found = Classical(3, 1, f"{neighbours}-nn")(tokens).output.item()
    fitted = KNeighborsClassifier(min(neighbours, length), algorithm="brute").fit(x[:-1], y)
    assert found == pytest.approx(fitted.predict_proba(x[-1:])[0] @ fitted.classes_, abs=1e-12)


@pytest.mark.parametrize("learner", ["logistic", "svm-rbf", "1-nn"])
def test_examples_of_one_label_give_that_label(learner):
    tokens = drawn(3)
    tokens[:, :-1, 10:] = 0.0
    tokens[:, :-1, 10] = -2.0
    np.testing.assert_array_equal(Classical(13, 3, learner)(tokens).output.numpy(), -1.0)


@pytest.mark.parametrize("learner", ["logistic", "svm-linear", "svm-rbf", "3-nn"])
def test_the_order_of_examples_and_a_rotation_change_nothing(learner):
    tokens, model = drawn(), Classical(13, 3, learner)
    before = model(tokens).output.numpy()
    order = [3, 1, 6, 0, 2, 5, 4, 7]
    np.testing.assert_allclose(model(tokens[:, order]).output.numpy(), before, atol=1e-5)
    turn, _ = torch.linalg.qr(torch.randn(10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    turned = torch.cat([tokens[..., :10] @ turn, tokens[..., 10:]], -1)
    loose = 0.1 if learner == "svm-rbf" else 1e-5  # the variance that scikit-learn's γ divides by does not turn
    np.testing.assert_allclose(model(turned).output.numpy(), before, atol=loose)


def test_it_is_measured_like_any_model_and_kept_in_a_store(tmp_path):
    training = iclab.train("classical", PROMPTS, iclab.Recipe(steps=0), seeds=2).training
    cell = TrainingCell(training=training)
    cells = [MeasurementCell(training=cell, probe=p, prompts=PROMPTS, count=40) for p in ("error", "vote")]
    store = Store(tmp_path)
    run(cells[:1], store, workers=1, quiet=True)
    run(cells, store, workers=1, quiet=True)  # the second reads the training, which has no weights, from disk
    rows = store.load_rows(cells[0])
    assert [row["seed"] for row in rows] == list(range(4))
    again = iclab.train("classical", PROMPTS, iclab.Recipe(steps=0), seeds=4).measure("error", count=40)
    assert [row["error"] for row in rows] == [row["error"] for row in again]
    assert 0.0 < np.mean([row["error"] for row in rows]) < 0.4


def test_there_is_nothing_to_train():
    with pytest.raises(iclab.InputError, match="model = classical: has no parameters to train; use steps = 0"):
        iclab.train("classical", PROMPTS, iclab.Recipe(steps=3), seeds=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "forest"}, "learner = 'forest': must be one of logistic"),
        ({"learner": "0-nn"}, "learner = '0-nn'"),
        ({"penalty": 0.0}, "penalty = 0.0: must be above 0"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        Model(name="classical", options=options)
