"""Gates of other forms on the fused engine, against the reference engine: weights, measurements, worst case, exact."""

import numpy as np
import pytest
import torch

from iclab.engines import Recipe, Training, answers, check, faster_obstacle, stacked_dictionary, train, weights
from iclab.engines.fused.one_layer.gate_kernels import KINDS, make_gate, open_gate
from iclab.models import MODELS, GateForm, Model
from iclab.probes import measure
from iclab.prompts import Outliers, Patterns, Prompts

GATES = {
    "mamba2": ("mamba2", {}),
    "mamba2 scaled": ("mamba2", {"scaled_input": True}),
    "retnet": ("retnet", {}),
    "retnet fixed": ("retnet", {"gamma": 0.7, "trained": False}),
    "gated-retention": ("gated-retention", {"temperature": 4.0}),
    "gla rows": ("gla", {"reading": "rows", "temperature": 1.0}),
} | {
    function: ("gated", {"function": function})
    for function in ("sigmoid", "hard-sigmoid", "tanh", "softsign", "floor", "softplus", "exp")
}
SMALL = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)
PROMPTS = Prompts(patterns=SMALL, outliers=Outliers(fraction=0.5))
UNFUSED = {"gla": "model gla with reading = keys, temperature = 16.0 has no fused form"} | {
    name: f"model {name} has no fused form" for name in ("mlstm", "deltanet", "mamba3")
}


def trained(gate, engine, prompts=PROMPTS, **recipe):
    name, options = GATES[gate]
    usual = {"steps": 60, "batch_size": 32, "step_size": 0.05, "snapshots": (1, 10), "clip": 2.0}
    model = Model(name=name, options=options)
    training = Training(model=model, prompts=prompts, recipe=Recipe(**usual | recipe), engine=engine, dtype="float64")
    return train(training, (0, 5))


@pytest.fixture(scope="module")
def pairs():
    """Both engines' trainings, made once per gate."""
    made = {}

    def pair(gate):
        if gate not in made:
            more = {"optimizer_options": {"momentum": 0.5}}
            made[gate] = [trained(gate, engine, **more) for engine in ("fused", "reference")]
        return made[gate]

    return pair


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.slow
def test_every_weight_is_the_references(gate, pairs):
    ours, theirs = pairs(gate)
    for step in theirs.snapshots:
        assert weights(ours, step).keys() == weights(theirs, step).keys()
        for name, expected in weights(theirs, step).items():
            torch.testing.assert_close(weights(ours, step)[name], expected, atol=1e-9, rtol=0, msg=f"{name} at {step}")
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-9)
    for name, start in weights(ours, 0).items():
        assert not torch.equal(weights(ours)[name], start), f"{name} did not move"


@pytest.mark.parametrize("probe", ["error", "attention", "gates", "worst", "worst-placement"])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.slow
def test_measurements_are_those_of_the_dense_weights(gate, probe, pairs):
    test = PROMPTS.replace(irrelevant_scale=1.5, outliers=Outliers(fraction=0.6, labels="flip", scale=4.0))
    for mine, reference in zip(*(measure(t, probe, test, 300, draw=2) for t in pairs(gate)), strict=True):
        for name, value in reference.items():
            assert mine[name] == pytest.approx(value, abs=1e-8), name


@pytest.mark.parametrize("gate", ["mamba2 scaled", "retnet", "exp"])
@pytest.mark.slow
def test_errors_without_sampling_are_those_of_many_prompts(gate, pairs):
    ours = pairs(gate)[0]
    test = PROMPTS.replace(context_length=6, outliers=Outliers(fraction=0.5, labels="flip", scale=3.0))
    for sampled, exact in zip(measure(ours, "error", test, 200_000), measure(ours, "exact", test, 1), strict=True):
        assert 0.01 < sampled["error"] < 0.99
        assert exact["error"] == pytest.approx(sampled["error"], abs=0.005)
        assert exact["hinge"] == pytest.approx(sampled["hinge"], abs=0.01)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("none", "product")])
def test_slopes_are_differences(kind):
    """Of decay and inflow in the logit, and of the decay in the trained number."""
    form, step = GateForm(kind, 1.5, 0.1), 1e-6
    for x in (-9.0, -1.3, 0.2, 1.1, 8.0):
        _, _, fall, rise, turn = open_gate(make_gate(form, "float64", 0.3), x)
        up, down = (open_gate(make_gate(form, "float64", 0.3), x + sign * step) for sign in (1, -1))
        assert fall == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-8)
        assert rise == pytest.approx((up[1] - down[1]) / (2 * step), abs=1e-8)
        more, less = (open_gate(make_gate(form, "float64", 0.3 + sign * step), x) for sign in (1, -1))
        assert turn == pytest.approx((more[0] - less[0]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("none", "product")])
def test_no_logit_overflows(kind):
    for x in (-1e4, 1e4):
        found = open_gate(make_gate(GateForm(kind, 2.0, 0.1), "float64", 0.0), x)
        assert np.isfinite(found).all()
        assert 0 <= found[0] <= 1


@pytest.mark.parametrize("name", UNFUSED)
def test_what_is_not_fused_says_why(name):
    training = Training(model=name, prompts=PROMPTS)
    assert training.engine == "reference"
    assert faster_obstacle(training) == UNFUSED[name]


def test_a_frozen_number_stays():
    before = trained("mamba2", "fused", steps=5, snapshots=(), frozen=("rate",))
    assert torch.equal(weights(before)["rate"], torch.zeros(2, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="frozen = gate: is no parameter of this model; it has key, query, decay"):
        check(Training(model="retnet", recipe=Recipe(steps=1, frozen=("gate",))))


@pytest.mark.parametrize("name", ["gla", "mlstm"])
@pytest.mark.slow
def test_the_worst_case_of_a_model_without_a_fused_form_is_that_of_all_labels(name):
    """By brute force over the labels of four outliers: the error, and but for mLSTM the hinge loss."""
    training = Training(model=name, prompts=PROMPTS, recipe=Recipe(steps=30, batch_size=32, step_size=0.1))
    run = train(training.replace(dtype="float64"), (0,))
    test = PROMPTS.replace(context_length=7, outliers=Outliers(count=4, labels="flip", scale=3.0))
    row = measure(run, "worst", test, 60)[0]
    (batch, _), *rest = answers(run, test, 60, at=30)
    assert not rest
    module = MODELS[name](width=13)
    module.double().load_state_dict({n: w[0] for n, w in weights(run).items()})
    tokens = batch.dense(stacked_dictionary(run.training, run.seeds, test))[0]
    places = [np.flatnonzero(outlier) for outlier in batch.outlier[0]]
    margins = np.full(60, np.inf)
    for code in range(16):
        shown = tokens.clone()
        for prompt, where in enumerate(places):
            for bit, place in enumerate(where):
                shown[prompt, place, -1] = 1.0 if code >> bit & 1 else -1.0
        output = module(shown).output[:, 0].detach().numpy()
        margins = np.minimum(margins, output * batch.target[0, :, 0])
    assert row["right"] == (margins > 0).sum()
    assert 0 < row["right"] < 60
    expected = None if name == "mlstm" else pytest.approx(np.maximum(0, 1 - margins).mean(), abs=1e-9)
    assert row["hinge"] == expected


def test_the_worst_case_is_refused_where_examples_act_on_each_other():
    run = train(Training(model="deltanet", prompts=PROMPTS, recipe=Recipe(steps=0)), (0,))
    with pytest.raises(ValueError, match="probe = worst: model deltanet is not one layer whose examples have decays"):
        measure(run, "worst", PROMPTS, 10)
