"""The one-layer models against their equations written out by hand, in float64."""

import numpy as np
import pytest
import torch
from model_suite import LENGTHS, OUTLIERS, WIDTH, ModelSuite, prompts_of, weights_of, with_random_weights
from scipy.special import expit as sigmoid

from iclab.models import Linear, Mamba, SoftmaxMLP
from iclab.prompts import Patterns


class OneLayerSuite(ModelSuite):
    def scores(self, weights, prompt):
        return np.array([p @ weights["key"].T @ weights["query"] @ prompt[-1] for p in prompt[:-1]])


class TestMamba(OneLayerSuite):
    model = "mamba"

    def by_hand(self, weights, prompt):
        scores, gates = self.scores(weights, prompt), []
        for i, p in enumerate(prompt[:-1]):
            gate = sigmoid(weights["gate"] @ p)
            for later in prompt[i + 1 :]:
                gate *= 1.0 - sigmoid(weights["gate"] @ later)
            gates.append(gate)
        return sum(gates * prompt[:-1, -1] * scores), scores, gates


class TestMambaRecurrence(TestMamba):
    options = {"form": "recurrence"}


class TestMambaLevels(TestMamba):
    """One level; several are in tests/engines/test_levels.py."""

    model = "mamba-levels"

    def by_hand(self, weights, prompt):
        return super().by_hand({name: weight[0] for name, weight in weights.items()}, prompt)


class TestMambaWholeTokens(TestMambaLevels):
    options = {"sees": "token"}


class TestLinear(OneLayerSuite):
    model = "linear"

    def by_hand(self, weights, prompt):
        scores = self.scores(weights, prompt)
        return sum(prompt[:-1, -1] * scores), scores, np.ones(len(scores))


class TestSoftmax(OneLayerSuite):
    model = "softmax"

    def by_hand(self, weights, prompt):
        scores = np.exp(self.scores(weights, prompt))
        shares = scores / scores.sum()
        return sum(prompt[:-1, -1] * shares), shares, np.ones(len(scores))


class TestSoftmaxMLP(OneLayerSuite):
    model = "softmax-mlp"
    options = {"neurons": 7, "value_size": 9}
    still = ("hidden",)

    def make(self):
        model = super().make().double()
        model.signs.copy_(torch.tensor([1, -1, 1, 1, -1, 1, -1], dtype=torch.float64) / 7)
        return model

    def by_hand(self, weights, prompt):
        powers = np.exp(self.scores(weights, prompt))
        shares = powers / powers.sum()
        mixed = sum(share * weights["value"] @ p for share, p in zip(shares, prompt[:-1], strict=True))
        neurons = [max(0.0, row @ mixed) for row in weights["hidden"]]
        signs = np.array([1, -1, 1, 1, -1, 1, -1]) / 7
        return signs @ neurons, shares, np.ones(len(shares))


@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("length", LENGTHS)
def test_recurrence_is_the_closed_form_with_its_gradients(length, outliers):
    tokens, _ = prompts_of(length, outliers)
    closed, recurrent = (with_random_weights(Mamba(width=WIDTH, form=form)) for form in ("closed", "recurrence"))
    for first, second in zip(closed(tokens), recurrent(tokens), strict=True):
        torch.testing.assert_close(first, second, atol=1e-10, rtol=1e-10)
    closed(tokens).output.sum().backward()
    recurrent(tokens).output.sum().backward()
    for first, second in zip(closed.parameters(), recurrent.parameters(), strict=True):
        torch.testing.assert_close(first.grad, second.grad, atol=1e-10, rtol=1e-10)


def test_closed_form_is_the_whole_of_equation_1():
    """Run (1) as printed, with every channel of h and the discretisation as matrices; read e_{d+1}ᵀ o."""
    tokens, _ = prompts_of(7)
    model = with_random_weights(Mamba(width=WIDTH, state_size=5))
    key, query, gate = (w.detach().numpy() for w in (model.key, model.query, model.gate))
    width, size = WIDTH, 5
    channels = np.random.default_rng(0).normal(size=(width, width))  # W: only its last column w reaches the output
    channels[:, -1] = gate
    A, eye = -np.eye(size), np.eye(size)  # noqa: N806
    for prompt, output in zip(tokens.numpy(), model(tokens).output[:, 0].tolist(), strict=True):
        h = np.zeros((width, size))
        for u in prompt:
            delta = np.log1p(np.exp(channels.T @ u))
            B = u @ key.T  # noqa: N806
            for j in range(width):
                exponential = np.diag(np.exp(delta[j] * np.diag(A)))
                a_bar = np.diag(exponential)
                b_bar = (delta[j] * B) @ (exponential - eye) @ np.linalg.inv(delta[j] * A)
                h[j] = h[j] * a_bar + u[j] * b_bar
        assert (h @ query @ prompt[-1])[-1] == pytest.approx(output, abs=1e-10)


def paper_gradients(model, prompt, z):
    """(93), (118) and (135) for one prompt whose hinge is active."""
    key, query = model.key.detach().numpy(), model.query.detach().numpy()
    p_query = prompt[-1]
    l = len(prompt) - 1  # noqa: E741
    if isinstance(model, Mamba):
        w = model.gate.detach().numpy()
        s = sigmoid(prompt @ w)
        G = [s[i] * np.prod(1 - s[i + 1 :]) for i in range(l)]  # noqa: N806
    else:
        G = [1.0] * l  # noqa: N806
    y = prompt[:, -1]
    to_query = -z * sum(G[i] * y[i] * np.outer(key @ prompt[i], p_query) for i in range(l))
    to_key = -z * sum(G[i] * y[i] * np.outer(query @ p_query, prompt[i]) for i in range(l))
    gradients = {"query": to_query, "key": to_key}
    if isinstance(model, Mamba):
        gradients["gate"] = z * sum(
            y[i]
            * (prompt[i] @ key.T @ query @ p_query)
            * G[i]
            * (sum(s[j] * prompt[j] for j in range(i + 1, l + 1)) - (1 - s[i]) * prompt[i])
            for i in range(l)
        )
    return gradients


@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", [Mamba, Linear])
def test_gradients_are_the_papers(kind, length, outliers):
    tokens, drawn = prompts_of(length, outliers, batch=4)
    model = with_random_weights(kind(width=WIDTH), scale=0.1)
    for prompt, z in zip(tokens, drawn.target[0, :, 0], strict=True):
        model.zero_grad()
        loss = 1.0 - z * model(prompt[None]).output.sum()  # the active branch of the hinge
        loss.backward()
        for name, expected in paper_gradients(model, prompt.numpy(), z).items():
            np.testing.assert_allclose(getattr(model, name).grad.numpy(), expected, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strength", [0.01, 1.0, 30.0])
def test_gates_stay_finite_at_length_4096(strength, dtype):
    model = Mamba(width=4).to(dtype)
    with torch.no_grad():
        model.gate.fill_(strength)
    tokens = torch.randn(2, 4097, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    answer = model(tokens)
    assert answer.gate.isfinite().all()
    assert ((answer.gate >= 0) & (answer.gate <= 1)).all()
    torch.testing.assert_close(  # the gates and what remains of the start add up to 1
        answer.gate.sum(-1) + torch.sigmoid(tokens[:, -1] @ model.gate),
        torch.ones(2, dtype=dtype),
        atol=1e-4,
        rtol=0,
    )
    answer.output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_start_is_the_papers():
    patterns = Patterns(dimension=40, relevant=6, irrelevant=10, outlier=3)
    models = [Mamba(width=41, init_scale=0.2) for _ in range(400)]
    for seed, model in enumerate(models):
        model.initialise(patterns.basis(seed), seed)
    expected = torch.zeros(40, 41)
    expected[range(40), range(40)] = 0.2
    assert torch.equal(models[0].key, expected)
    assert torch.equal(models[0].query, expected)
    w = torch.stack([model.gate.detach() for model in models]).double()
    assert w.mean().abs() < 4 / np.sqrt(w.numel() * 41)
    np.testing.assert_allclose(w.var(0).mean() * 41, 1.0, atol=0.05)  # the N(0, I/(d + 1)) of Algorithm 1
    np.testing.assert_allclose(w.var(0) * 41, 1.0, atol=0.4)
    inside = torch.stack([torch.tensor(patterns.basis(s).vectors) @ w[s, :-1] for s in range(400)])
    # ‖µ‖ = 3: |wᵀµ| ≈ β / √(d + 1), as N(0, I/(d + 1)) gives, and not the 1/(d + 1) of (94)
    np.testing.assert_allclose(inside.std(), 3 / np.sqrt(41), rtol=0.05)


def test_start_turns_with_the_patterns():
    patterns = Patterns(dimension=40, relevant=6, irrelevant=10, outlier=3)
    seen = []
    for basis_seed in (0, 1):
        model = Mamba(width=41).double()
        model.initialise(patterns.basis(basis_seed), seed=7)
        seen.append(patterns.basis(basis_seed).vectors @ model.gate.detach().numpy()[:-1])
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-12)


def mlp_and_prompts():
    model = with_random_weights(TestSoftmaxMLP().make(), scale=0.4)
    return model, prompts_of(6, batch=5)[0]


def test_the_mlp_shows_every_step_of_its_way():
    model, tokens = mlp_and_prompts()
    inside, weights = model.inside(tokens), weights_of(model)
    for i, prompt in enumerate(tokens.numpy()):
        scores = [weights["key"] @ p @ (weights["query"] @ prompt[-1]) for p in prompt[:-1]]
        shares = np.exp(scores) / np.exp(scores).sum()
        value = sum(share * weights["value"] @ p for share, p in zip(shares, prompt[:-1], strict=True))
        before = weights["hidden"] @ value
        active = np.maximum(before, 0.0)
        for found, expected in zip(
            inside, (scores, shares, value, before, active, model.signs.numpy() @ active), strict=True
        ):
            np.testing.assert_allclose(found[i].detach().numpy().squeeze(), expected, atol=1e-12)
    np.testing.assert_allclose(inside.attention.sum(-1).detach().numpy(), 1.0)


def test_the_mlp_does_not_mind_the_order_of_examples():
    model, tokens = mlp_and_prompts()
    order = [4, 0, 5, 2, 1, 3]
    before, after = model(tokens), model(tokens[:, [*order, 6]])
    torch.testing.assert_close(before.output, after.output)
    torch.testing.assert_close(before.attention[:, order], after.attention)


def test_the_mlps_gradients_are_those_written_out_in_numpy():
    """Of the hinge loss in all four matrices: T's Algorithm 1, by the chain rule on paper."""
    model, tokens = mlp_and_prompts()
    targets = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    torch.relu(1.0 - targets * model(tokens).output.squeeze(-1)).mean().backward()
    weights, signs = weights_of(model), model.signs.numpy()
    expected = {name: np.zeros_like(weight) for name, weight in weights.items()}
    for prompt, z in zip(tokens.numpy(), targets.numpy(), strict=True):
        examples, query = prompt[:-1], prompt[-1]
        keys, asked = examples @ weights["key"].T, weights["query"] @ query  # (l, m_a), (m_a,)
        powers = np.exp(keys @ asked)
        shares = powers / powers.sum()
        mixed = shares @ examples
        before = weights["hidden"] @ weights["value"] @ mixed
        if 1.0 - z * signs @ np.maximum(before, 0.0) <= 0.0:
            continue
        gates = -z * signs * (before > 0) / len(targets)  # dℓ/d before
        back = weights["value"].T @ weights["hidden"].T @ gates  # dℓ/d mixed
        scores = shares * ((examples - mixed) @ back)  # dℓ/d scores
        expected["hidden"] += np.outer(gates, weights["value"] @ mixed)
        expected["value"] += np.outer(weights["hidden"].T @ gates, mixed)
        expected["key"] += np.outer(asked, scores @ examples)
        expected["query"] += np.outer(scores @ keys, query)
    for name, parameter in model.named_parameters():
        assert np.abs(expected[name]).max() > 1e-6
        np.testing.assert_allclose(parameter.grad.numpy(), expected[name], atol=1e-14, rtol=1e-9)


def test_the_mlp_starts_as_the_paper_says():
    patterns = Patterns(dimension=30, relevant=6, irrelevant=20, outlier=0)
    models = [SoftmaxMLP(width=60, label_width=30, neurons=100) for _ in range(40)]
    for seed, model in enumerate(models):
        model.initialise(patterns.basis(seed), seed)
    first = models[0]
    assert torch.equal(first.value, 0.1 * torch.eye(60))
    assert torch.equal(first.key, 0.1 * torch.diag(torch.tensor([1.0] * 30 + [0.0] * 30)))
    hidden = torch.stack([model.hidden.detach().double() for model in models])
    np.testing.assert_allclose(hidden.std() * 10, 1.0, rtol=0.01)  # ξ = 1/√m
    assert abs(hidden.mean()) < 4 / np.sqrt(hidden.numel() * 100)
    np.testing.assert_allclose((hidden**2).mean((0, 1)) * 100, 1.0, atol=0.1)
    signs = torch.stack([model.signs for model in models])
    torch.testing.assert_close(signs.abs(), torch.full_like(signs, 0.01))
    assert 0.45 < (signs > 0).double().mean() < 0.55
    assert len({tuple(row.tolist()) for row in signs}) == 40
    assert "signs" not in dict(first.named_parameters())  # a never moves
    root = SoftmaxMLP(width=60, neurons=100, output="root")
    torch.testing.assert_close(root.signs.abs(), torch.full((100,), 0.1))


def test_the_mlps_start_turns_with_the_patterns():
    patterns = Patterns(dimension=20, relevant=6, irrelevant=10, outlier=0)
    seen = []
    for basis_seed in (0, 1):
        model = SoftmaxMLP(width=25, label_width=5, neurons=11).double()
        model.initialise(patterns.basis(basis_seed), seed=3)
        seen.append(model.hidden.detach().numpy()[:, :20] @ patterns.basis(basis_seed).vectors.T)
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-12)
