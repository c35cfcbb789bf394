"""Gates other than Mamba's against their equations written out by hand, in float64; and what they can and cannot do."""

import numpy as np
import pytest
import torch
from model_suite import LENGTHS, OUTLIERS, WIDTH, ModelSuite, prompts_of, with_random_weights
from scipy.special import expit as sigmoid

from iclab.config import InputError
from iclab.models import Model
from iclab.prompts import Patterns


def softplus(x):
    return np.log1p(np.exp(x))


class GateSuite(ModelSuite):
    """A scalar decay and inflow per token, as double loops over examples and later tokens."""

    def scores(self, weights, prompt):
        return np.array([p @ weights["key"].T @ weights["query"] @ prompt[-1] for p in prompt[:-1]])

    def decay(self, weights, token):
        raise NotImplementedError

    def inflow(self, weights, token):
        return 1.0

    def by_hand(self, weights, prompt):
        scores, gates = self.scores(weights, prompt), []
        for i, p in enumerate(prompt[:-1]):
            gate = self.inflow(weights, p)
            for later in prompt[i + 1 :]:
                gate *= self.decay(weights, later)
            gates.append(gate)
        return sum(gates * prompt[:-1, -1] * scores), scores, gates


class TestMamba2(GateSuite):
    model = "mamba2"
    still = ("rate",)

    def decay(self, weights, token):
        return np.exp(-softplus(weights["gate"] @ token) * np.exp(weights["rate"][0]))


class TestMamba2Scaled(TestMamba2):
    options = {"scaled_input": True}

    def inflow(self, weights, token):
        return softplus(weights["gate"] @ token)


class TestRetNet(GateSuite):
    model = "retnet"
    still = ("decay",)

    def decay(self, weights, token):
        return sigmoid(weights["decay"][0])


class TestRetNetFixed(GateSuite):
    model = "retnet"
    options = {"gamma": 0.8, "trained": False}

    def decay(self, weights, token):
        return 0.8


class TestGatedRetention(GateSuite):
    model = "gated-retention"
    options = {"temperature": 2.5}

    def decay(self, weights, token):
        return sigmoid(weights["gate"] @ token) ** (1 / 2.5)


class TestGLARows(TestGatedRetention):
    model = "gla"
    options = {"temperature": 2.5, "reading": "rows"}


class TestGLAKeys(GateSuite):
    model = "gla"
    options = {"temperature": 2.5}

    def by_hand(self, weights, prompt):
        votes, shares = [], []
        for p in prompt[:-1]:
            total = passed = size = 0.0
            for c in range(len(weights["key"])):
                product = (weights["key"][c] @ p) * (weights["query"][c] @ prompt[-1])
                gate = sigmoid(weights["gate"][c] @ p) ** (1 / 2.5)
                total, passed, size = total + product * gate, passed + abs(product) * gate, size + abs(product)
            votes.append(total)
            shares.append(passed / size)
        return sum(np.array(votes) * prompt[:-1, -1]), np.array(votes) / shares, shares


class TestMLSTM(GateSuite):
    model = "mlstm"

    def by_hand(self, weights, prompt):
        tokens = len(prompt)
        scores = [p @ weights["key"].T @ weights["query"] @ prompt[-1] for p in prompt]
        gates = []
        for i in range(tokens):
            gate = np.exp(weights["gate"] @ prompt[i])
            for j in range(i + 1, tokens):
                gate *= sigmoid(weights["forget"] @ prompt[j])
            gates.append(gate)
        below = max(abs(sum(g * s for g, s in zip(gates, scores, strict=True))), 1.0)
        whole = sum(g * p[-1] * s for g, p, s in zip(gates, prompt, scores, strict=True))
        return whole / below, scores[:-1], np.array(gates[:-1]) / below


class TestDeltaNet(GateSuite):
    model = "deltanet"
    still = ("rate",)

    def alpha(self, weights, token):
        return np.exp(-softplus(weights["forget"] @ token) * np.exp(weights["rate"][0]))

    def by_hand(self, weights, prompt):
        keys = [weights["key"] @ p for p in prompt]
        keys = [key / np.linalg.norm(key) if self.options.get("unit_keys", True) else key for key in keys]
        betas = [sigmoid(weights["gate"] @ p) for p in prompt]
        alphas = [self.alpha(weights, p) for p in prompt]
        read, eye = weights["query"] @ prompt[-1], np.eye(len(keys[0]))
        state = np.zeros((1, len(read)))  # the label's row of S, with matrices as printed
        for key, beta, alpha, p in zip(keys, betas, alphas, prompt, strict=True):
            state = alpha * state @ (eye - beta * np.outer(key, key)) + beta * p[-1] * key
        scores, gates = [], []
        for i in range(len(prompt) - 1):
            through, left = eye, 1.0
            for j in range(i + 1, len(prompt)):
                through, left = through @ (eye - betas[j] * np.outer(keys[j], keys[j])), left * alphas[j]
            scores.append(keys[i] @ through @ read)
            gates.append(betas[i] * left)
        return (state @ read)[0], scores, gates


class TestDeltaRule(TestDeltaNet):
    options = {"forgets": False, "unit_keys": False}
    still = ()

    def alpha(self, weights, token):
        return 1.0


class TestMamba3(GateSuite):
    model = "mamba3"
    still = ("rate",)

    def by_hand(self, weights, prompt):
        step = [softplus(weights["gate"] @ p) for p in prompt]
        own = [sigmoid(weights["blend"] @ p) for p in prompt]
        decay = [np.exp(-d * np.exp(weights["rate"][0])) for d in step]
        scores, gates = self.scores(weights, prompt), []
        for i in range(len(prompt) - 1):
            first = own[i] * step[i] * np.prod(decay[i + 1 :])
            again = (1 - own[i + 1]) * step[i + 1] * decay[i + 1] * np.prod(decay[i + 2 :])
            gates.append(first + again)
        return sum(gates * prompt[:-1, -1] * scores), scores, gates


class TestGatedFloor(GateSuite):
    model = "gated"
    options = {"function": "floor", "floor": 0.1}

    def inflow(self, weights, token):
        return 0.1 + 0.9 * sigmoid(weights["gate"] @ token)

    def decay(self, weights, token):
        return 1.0 - self.inflow(weights, token)


FUNCTIONS = {
    "sigmoid": sigmoid,
    "hard-sigmoid": lambda x: np.clip(0.5 + x / 4, 0, 1),
    "tanh": lambda x: (1 + np.tanh(x)) / 2,
    "softsign": lambda x: (1 + x / (2 + abs(x))) / 2,
    "floor": lambda x: 0.05 + 0.95 * sigmoid(x),
    "exp": lambda x: 1 - np.exp(-np.exp(x)),
}


@pytest.mark.parametrize("function", [*FUNCTIONS, "softplus"])
def test_gating_functions_are_those_of_the_table(function):
    x = np.linspace(-30, 30, 241)
    flow = Model(name="gated", options={"function": function}).build(WIDTH, 8).flow(torch.from_numpy(x))
    inflow = np.logaddexp(0, x) if function == "softplus" else FUNCTIONS[function](x)
    decay = sigmoid(-x) if function == "softplus" else 1 - inflow
    np.testing.assert_allclose(flow.inflow.numpy(), inflow, atol=1e-14)
    np.testing.assert_allclose(flow.decay.numpy(), decay, atol=1e-14)
    far = Model(name="gated", options={"function": function}).build(WIDTH, 8).flow(torch.tensor([-1e4, 1e4]))
    assert far.inflow.isfinite().all()
    assert not far.log_decay.isnan().any()
    assert far.decay[1] == pytest.approx(1e-4 if function == "softsign" else 0.0, rel=1e-3, abs=1e-30)


def test_the_function_sigmoid_is_mamba():
    tokens, _ = prompts_of(9)
    mine, mamba = (with_random_weights(Model(name=name).build(WIDTH, 8)) for name in ("gated", "mamba"))
    for first, second in zip(mine(tokens), mamba(tokens), strict=True):
        torch.testing.assert_close(first, second, atol=1e-12, rtol=1e-12)


MODELS = {
    "mamba2": {},
    "mamba2 scaled": {"scaled_input": True},
    "mamba3": {},
    "retnet": {},
    "gated-retention": {"temperature": 2.0},
    "gla": {"reading": "rows", "temperature": 2.0},
    "gla keys": {"reading": "keys", "temperature": 2.0},
    "mlstm": {},
    "deltanet": {},
    "gated": {"function": "softsign"},
    "gated hard": {"function": "hard-sigmoid"},
}


def described(name, **more):
    return Model(name=name.split()[0], options=MODELS[name] | more)


@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("length", [1, 7])
@pytest.mark.parametrize("name", MODELS)
def test_recurrence_is_the_closed_form_with_its_gradients(name, length, outliers):
    assert length in LENGTHS
    tokens, _ = prompts_of(length, outliers)
    closed, recurrent = (
        with_random_weights(described(name, form=form).build(WIDTH, 8)) for form in ("closed", "recurrence")
    )
    for first, second in zip(closed(tokens), recurrent(tokens), strict=True):
        torch.testing.assert_close(first, second, atol=1e-10, rtol=1e-10)
    closed(tokens).output.sum().backward()
    recurrent(tokens).output.sum().backward()
    for first, second in zip(closed.parameters(), recurrent.parameters(), strict=True):
        torch.testing.assert_close(first.grad, second.grad, atol=1e-10, rtol=1e-10)


def test_gla_is_the_whole_of_equation_196_in_the_labels_row():
    """Run (196) as printed, with every row of h and a whole W, and read e_{d+1}ᵀ o: only W's last row matters."""
    tokens, _ = prompts_of(7)
    model = with_random_weights(described("gla").build(WIDTH, 8))
    key, query, last = (w.detach().numpy() for w in (model.key, model.query, model.gate))
    whole = np.random.default_rng(0).normal(size=(WIDTH, WIDTH))
    whole[-1] = last
    for prompt, output in zip(tokens.numpy(), model(tokens).output[:, 0].tolist(), strict=True):
        h = np.zeros((WIDTH, len(key)))
        for p in prompt:
            h = h * (sigmoid(whole @ p) ** 0.5)[:, None] + np.outer(p, key @ p)
        assert (h @ query @ prompt[-1])[-1] == pytest.approx(output, abs=1e-10)


def test_the_gradient_of_keys_gates_is_equation_199():
    """For τ = 2, and with σ^{1/τ} (1 − σ) in place of the printed σ^{1/τ − 1} (1 − σ): σ' = σ (1 − σ)."""
    tokens, _ = prompts_of(6, batch=1)
    model = with_random_weights(described("gla keys").build(WIDTH, 8), scale=0.3)
    model(tokens).output.sum().backward()
    key, query, gate = (w.detach().numpy() for w in (model.key, model.query, model.gate))
    prompt, expected = tokens[0].numpy(), np.zeros_like(gate)
    for p in prompt[:-1]:
        s = sigmoid(gate @ p)
        column = (key @ p) * (query @ prompt[-1]) * 0.5 * s**0.5 * (1 - s)
        expected += p[-1] * np.outer(column, p)
    np.testing.assert_allclose(model.gate.grad.numpy(), expected, atol=1e-12)


BLIND = ("mamba2", "retnet", "gated-retention", "gla")
"""(189), (192), (195) and (196): the theorem of docs/theory.md, 8."""


@pytest.mark.parametrize("name", BLIND)
def test_a_gate_of_later_tokens_does_not_see_its_own_example(name):
    """Change one example: its own gate and all later ones stay to the last bit; earlier ones are multiplied."""
    tokens, _ = prompts_of(9, batch=4)
    model = with_random_weights(described(name).build(WIDTH, 8), scale=0.4)
    changed = tokens.clone()
    changed[:, 4] += 5 * torch.randn(4, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    before, after = model(tokens).gate, model(changed).gate
    assert torch.equal(before[:, 4:], after[:, 4:])
    factor = after[:, :4] / before[:, :4]
    torch.testing.assert_close(factor, factor[:, :1].expand(-1, 4), atol=1e-10, rtol=1e-10)
    assert (name == "retnet") == torch.equal(before, after)
    # and no gate is larger than that of the example nearest to the query
    assert (before.argmax(-1) == 8).all()


@pytest.mark.parametrize("name", [name for name in MODELS if name not in (*BLIND, "gated hard")])
def test_other_gates_see_their_own_example(name):
    tokens, _ = prompts_of(9, batch=4)
    model = with_random_weights(described(name).build(WIDTH, 8), scale=0.4)
    changed = tokens.clone()
    changed[:, 4] += 2.0
    before, after = model(tokens).gate, model(changed).gate
    assert ((before[:, 4] - after[:, 4]).abs() > 1e-5 * before[:, 4]).all()


def test_an_example_that_mamba3_shuts_out_comes_in_with_the_next_one():
    """Δ_i = 0 leaves (1 − λ_{i+1}) Δ_{i+1} of an example, and nothing if λ is 1, which is Mamba-2."""
    model = Model(name="mamba3").build(3, 8).double()
    tokens = torch.tensor([[[0.0, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]]], dtype=torch.float64)
    with torch.no_grad():
        model.gate.copy_(torch.tensor([-800.0, 0, 0]))  # Δ of the second example is 0, of others log 2
        for blend, inflow in ((0.0, 0.5 * np.log(2)), (800.0, 0.0)):
            model.blend.copy_(torch.tensor([0, 0, blend]))
            assert model(tokens).gate[0, 1].item() == pytest.approx(inflow / 4, abs=1e-12)  # two later decays of ½


@pytest.mark.parametrize("name", MODELS)
def test_starts_are_mambas(name):
    patterns = Patterns(dimension=40, relevant=6, irrelevant=10, outlier=3)
    model, mamba = (made.build(41, 8).double() for made in (described(name), Model(name="mamba")))
    for module in (model, mamba):
        module.initialise(patterns.basis(1), seed=7)
    assert torch.equal(model.key, mamba.key)
    assert torch.equal(model.query, mamba.query)
    first = dict(model.named_parameters()).get("gate")
    if first is not None:
        assert torch.equal(first[0] if first.dim() == 2 else first, mamba.gate)
    for other in ("forget", "blend"):
        if (second := getattr(model, other, None)) is not None:
            assert 0.5 < second.norm() < 1.5
            assert not torch.equal(second, mamba.gate)


@pytest.mark.parametrize("strength", [0.01, 30.0])
@pytest.mark.parametrize("name", MODELS)
def test_gates_stay_finite_at_length_1000(name, strength):
    model = described(name).build(4, 8)
    with torch.no_grad():
        for weight in (w for n, w in model.named_parameters() if n in ("gate", "forget", "blend")):
            weight.fill_(strength)
    tokens = torch.randn(2, 1001, 4, generator=torch.Generator().manual_seed(0))
    answer = model(tokens)
    assert answer.gate.isfinite().all()
    assert (answer.gate >= 0).all()
    answer.output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gated-retention", {"temperature": 0.0}, r"temperature = 0.0: must be above 0"),
        ("gla", {"temperature": -1}, r"temperature = -1.0: must be above 0"),
        ("gla", {"reading": "values"}, r"reading = 'values': must be keys or rows"),
        ("retnet", {"gamma": 1.0}, r"gamma = 1.0: must lie between 0 and 1"),
        ("retnet", {"gamma": 0}, r"gamma = 0.*: must lie between 0 and 1"),
        ("gated", {"function": "relu"}, r"function = 'relu': must be one of sigmoid, "),
        ("gated", {"floor": 1.0}, r"floor = 1.0: must be at least 0 and below 1"),
        ("mamba2", {"form": "scan"}, r"form = 'scan': must be closed or recurrence"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(name, options, message):
    with pytest.raises((InputError, ValueError), match=message) as raised:
        Model(name=name, options=options)
    assert "\n" not in str(raised.value)
