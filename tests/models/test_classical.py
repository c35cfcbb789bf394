"""Classical learners as models: fitted on a prompt's own examples, nothing to train."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
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


def by_hand(prompt, learner, penalty, cosine):
    x, y = prompt[:, :10], np.sign(prompt[:-1, 10])
    if cosine:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    if (y == y[0]).all():
        return y[0]
    if learner.endswith("-nn"):
        nearest = np.argsort(np.linalg.norm(x[:-1] - x[-1], axis=1), kind="stable")[: int(learner[0])]
        return y[nearest].mean()
    fitted = {
        "logistic": LogisticRegression(C=penalty),
        "svm-rbf": SVC(C=penalty, gamma=1.0 / (10 * x[:-1].var())),
        "svm-linear": SVC(C=penalty, kernel="linear"),
    }[learner].fit(x[:-1], y)
    return fitted.decision_function(x[-1:])[0]


@pytest.mark.parametrize("cosine", [False, True], ids=["as is", "cosine"])
@pytest.mark.parametrize("learner", ["logistic", "svm-rbf", "svm-linear", "1-nn", "3-nn", "5-nn"])
def test_each_decides_as_scikit_learn_would(learner, cosine):
    tokens = drawn()
    model = Classical(width=13, label_width=3, learner=learner, penalty=3.0, cosine=cosine)
    expected = [by_hand(prompt, learner, 3.0, cosine) for prompt in tokens.numpy()]
    np.testing.assert_allclose(model(tokens).output.numpy(), expected, atol=1e-6)


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
    loose = 0.1 if learner.startswith("svm") else 2e-3  # libsvm stops within 0.001 of the optimum of its own dual
    np.testing.assert_allclose(model(tokens[:, order]).output.numpy(), before, atol=loose)
    turn, _ = torch.linalg.qr(torch.randn(10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    turned = torch.cat([tokens[..., :10] @ turn, tokens[..., 10:]], -1)
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
