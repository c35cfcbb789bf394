"""Real labels, M E.8: the probes of the mean squared error and of the printed gradients, and the floor of theory."""

import numpy as np
import pytest
import torch

from iclab.engines import Recipe, Training, answers, train
from iclab.models import Mamba, Model
from iclab.probes import measure
from iclab.probes.regression import printed_gradients
from iclab.prompts import Outliers, Patterns, Prompts, Stream
from iclab.theory.regression import VARIANCE, best_inflow, gate_floor, linear_floor

PATTERNS = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)
PROMPTS = Prompts(
    patterns=PATTERNS,
    context_length=6,
    outliers=Outliers(fraction=0.4, query=0.2),
    label_noise=0.1,
    label_values="real",
)


def trained(model="mamba", engine="auto", dtype="float64", steps=12, step_size=0.3, **recipe):
    training = Training(
        model=model,
        prompts=PROMPTS,
        recipe=Recipe(steps=steps, batch_size=24, step_size=step_size, loss="squared", **recipe),
        engine=engine,
        dtype=dtype,
    )
    return train(training, (0, 3))


@pytest.mark.parametrize(("model", "engine"), [("mamba", "fused"), ("linear", "fused"), ("softmax-mlp", "compact")])
def test_faster_engines_train_on_real_labels_as_pytorch_does(model, engine):
    assert trained(model, steps=0).training.engine == engine
    fast, reference = (trained(model, name, step_size=0.1) for name in (engine, "reference"))
    np.testing.assert_allclose(fast.losses, reference.losses, rtol=1e-9)
    rows = [measure(run, "squares", PROMPTS, 300) for run in (fast, reference)]
    for one, two in zip(*rows, strict=True):
        assert one == pytest.approx(two)


def test_squares_are_what_the_answers_give():
    run = trained()
    (row, _) = measure(run, "squares", PROMPTS, 300)
    found = [(b.target[0, :, 0], a.output[0, :, 0].numpy()) for b, a in answers(run, PROMPTS, 300)]
    z, f = (np.concatenate(part).astype(float) for part in zip(*found, strict=True))
    assert row["squares"] == pytest.approx(((f - z) ** 2).mean())
    assert row["squares_standard_error"] == pytest.approx(((f - z) ** 2).std() / 300**0.5)
    assert row["inside"] == (np.abs(f) < 1).mean()
    tried = [((s * f - z) ** 2).mean() for s in np.linspace(-1, 1, 201) + row["scale"]]
    assert min(tried) == pytest.approx(row["rescaled"])


def test_204_has_the_wrong_sign_and_the_others_are_right():
    """Autograd, by itself: not through the probe."""
    batch = PROMPTS.draw([5], Stream.TEST, count=1, dtype=np.float64)
    prompt = batch.dense(torch.from_numpy(PROMPTS.dictionary(PATTERNS.basis(5)))[None])[0]
    z = torch.tensor(batch.target[0, 0, 0])
    model = Mamba(13).double()
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    output = model(prompt).output[0, 0]
    (0.5 * (output - z) ** 2).backward()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    printed = printed_gradients(weights, prompt[0], prompt[0, :, -1], z, output.detach())
    torch.testing.assert_close(printed["query"], model.query.grad)
    torch.testing.assert_close(printed["key"], model.key.grad)
    assert model.gate.grad.norm() > 1e-6
    torch.testing.assert_close(printed["gate"], -model.gate.grad)


def test_the_probe_says_so_for_every_seed_before_and_after_training():
    run = trained(dtype="float32")
    for at in (0, None):
        rows = measure(run, "gradients", PROMPTS, 20, at=at)
        assert len(rows) == 6
        for row in rows:
            sign = -1.0 if row["equation"] == "(204)" else 1.0
            assert (row["slope"], row["correlation"]) == pytest.approx((sign, sign), abs=1e-6)


@pytest.mark.parametrize(("fraction", "inflow"), [(0.0, 0.5), (0.4, 0.2), (0.7, 0.05)])
def test_the_floor_of_a_gate_is_the_least_error_of_drawn_prompts(fraction, inflow):
    rng = np.random.default_rng(0)
    clean, same = rng.random((2, 200_000, 7)) < np.array([1 - fraction, 0.5])[:, None, None]
    weight = np.zeros(200_000)
    for i in range(7):
        weight = np.where(clean[:, i], (1 - inflow) * weight + inflow * same[:, i], weight)
    least = VARIANCE * (1 - weight.mean() ** 2 / (weight**2).mean())
    assert gate_floor(fraction, 7, inflow) == pytest.approx(least, rel=0.01)


def test_the_floor_of_counting_is_that_of_a_gate_that_never_forgets():
    assert linear_floor(0.6, 20) == pytest.approx(gate_floor(0.6, 20, 1e-7), rel=1e-4)
    assert gate_floor(0.0, 4000, 0.5) == pytest.approx(0.25 * VARIANCE)
    best = best_inflow(0.6, 20)
    assert gate_floor(0.6, 20, best) == min(gate_floor(0.6, 20, s) for s in (best / 1.1, best, best * 1.1))


def test_ridge_is_scikit_learns():
    from sklearn.linear_model import Ridge

    batch = PROMPTS.draw([5], Stream.TEST, count=8, dtype=np.float64)
    prompts = batch.dense(torch.from_numpy(PROMPTS.dictionary(PATTERNS.basis(5)))[None])[0]
    model = Model(name="classical", options={"learner": "ridge", "penalty": 0.5}).build(13, 6)
    expected = [Ridge(alpha=2.0).fit(p[:-1, :-1], p[:-1, -1]).predict(p[-1:, :-1])[0] for p in prompts.numpy()]
    np.testing.assert_allclose(model(prompts).output, expected, rtol=1e-9)


def test_what_needs_signs_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"recipe.loss = hinge: is for labels of ±1; real labels need squared"):
        Training(model="mamba", prompts=PROMPTS)
    with pytest.raises(ValueError, match=r"label_dimension = 3: real labels are numbers"):
        Prompts(label_values="real", label_dimension=3)
    run = trained(steps=0)
    with pytest.raises(ValueError, match=r"probe = error: counts answers of the right sign, .* use squares"):
        measure(run, "error", PROMPTS, 10)
    with pytest.raises(ValueError, match=r"prompts.label_values = signs: must be that of the training prompts, real"):
        measure(run, "squares", PROMPTS.replace(label_values="signs"), 10)
    with pytest.raises(ValueError, match=r"probe = gradients: .* are gradients of mamba, not of linear"):
        measure(trained("linear", steps=0), "gradients", PROMPTS, 10)
