"""Every model against its equation written out by hand, in float64."""

import numpy as np
import pytest
import torch

from iclab.models import MODELS, Linear, Mamba, Softmax
from iclab.prompts import Outliers, Patterns, Prompts, Stream

LENGTHS = [1, 2, 7, 20, 33]
OUTLIERS = {"none": Outliers(), "one": Outliers(count=1), "all": Outliers(fraction=1.0), "some": Outliers(fraction=0.5)}


def prompts_of(length, outliers="some", batch=5, seed=0):
    patterns = Patterns(dimension=11, relevant=4, irrelevant=3, outlier=2)
    prompts = Prompts(patterns=patterns, context_length=length, outliers=OUTLIERS[outliers])
    drawn = prompts.draw([seed], Stream.TEST, count=batch, dtype=np.float64)
    return drawn.dense(torch.from_numpy(prompts.dictionary(patterns.basis(seed)))[None])[0], drawn


def with_random_weights(model, seed=0, scale=0.3):
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def by_hand(model, tokens):
    """Output, scores and gates by a literal double loop over (3)."""
    weights = {name: w.detach().numpy() for name, w in model.named_parameters()}
    outputs, all_scores, all_gates = [], [], []
    for prompt in tokens.numpy():
        query = prompt[-1]
        scores = np.array([p @ weights["key"].T @ weights["query"] @ query for p in prompt])
        gates = np.ones(len(prompt))
        if "gate" in weights:
            for i, p in enumerate(prompt):
                gates[i] = sigmoid(weights["gate"] @ p)
                for later in prompt[i + 1 :]:
                    gates[i] *= 1.0 - sigmoid(weights["gate"] @ later)
        if isinstance(model, Softmax):
            scores = np.append(np.exp(scores[:-1]) / np.exp(scores[:-1]).sum(), 0.0)
        outputs.append(sum(g * p[-1] * s for g, p, s in zip(gates, prompt, scores, strict=True)))
        all_scores.append(scores[:-1])
        all_gates.append(gates[:-1])
    return np.array(outputs), np.array(all_scores), np.array(all_gates)


@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MODELS)
def test_forward_is_the_equation(name, length, outliers):
    tokens, _ = prompts_of(length, outliers)
    model = with_random_weights(MODELS[name](width=12))
    answer = model(tokens)
    output, scores, gates = by_hand(model, tokens)
    np.testing.assert_allclose(answer.output.detach().numpy()[:, 0], output, atol=1e-10)
    np.testing.assert_allclose(answer.attention.detach().numpy(), scores, atol=1e-10)
    np.testing.assert_allclose(answer.gate.detach().numpy(), gates, atol=1e-10)


@pytest.mark.parametrize("outliers", OUTLIERS)
@pytest.mark.parametrize("length", LENGTHS)
def test_recurrence_is_the_closed_form_with_its_gradients(length, outliers):
    tokens, _ = prompts_of(length, outliers)
    closed, recurrent = (with_random_weights(Mamba(width=12, form=form)) for form in ("closed", "recurrence"))
    for first, second in zip(closed(tokens), recurrent(tokens), strict=True):
        torch.testing.assert_close(first, second, atol=1e-10, rtol=1e-10)
    closed(tokens).output.sum().backward()
    recurrent(tokens).output.sum().backward()
    for first, second in zip(closed.parameters(), recurrent.parameters(), strict=True):
        torch.testing.assert_close(first.grad, second.grad, atol=1e-10, rtol=1e-10)


def test_closed_form_is_the_whole_of_equation_1():
    """Run (1) as printed, with every channel of h and the discretisation as matrices; read e_{d+1}ᵀ o."""
    tokens, _ = prompts_of(7)
    model = with_random_weights(Mamba(width=12, state_size=5))
    key, query, gate = (w.detach().numpy() for w in (model.key, model.query, model.gate))
    width, size = 12, 5
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
    model = with_random_weights(kind(width=12), scale=0.1)
    for prompt, z in zip(tokens, drawn.target[0, :, 0], strict=True):
        model.zero_grad()
        loss = 1.0 - z * model(prompt[None]).output.sum()  # the active branch of the hinge
        loss.backward()
        for name, expected in paper_gradients(model, prompt.numpy(), z).items():
            np.testing.assert_allclose(getattr(model, name).grad.numpy(), expected, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("form", ["closed", "recurrence", "linear", "softmax"])
def test_gradients_by_finite_differences(form):
    tokens, _ = prompts_of(5, batch=2)
    model = with_random_weights(MODELS[form](width=12) if form in MODELS else Mamba(width=12, form=form))
    names = [name for name, _ in model.named_parameters()]

    def output(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (tokens,)).output

    assert torch.autograd.gradcheck(output, tuple(model.parameters()))


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


@pytest.mark.parametrize("name", MODELS)
def test_turning_prompts_and_weights_together_changes_nothing(name):
    tokens, _ = prompts_of(9)
    model = with_random_weights(MODELS[name](width=12))
    turned = with_random_weights(MODELS[name](width=12))
    rotation, _ = torch.linalg.qr(torch.randn(11, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    whole = torch.block_diag(rotation, torch.ones(1, 1, dtype=torch.float64))
    with torch.no_grad():
        turned.key.copy_(model.key @ whole.T)
        turned.query.copy_(model.query @ whole.T)
        if hasattr(model, "gate"):
            turned.gate.copy_(whole @ model.gate)
    for before, after in zip(model(tokens), turned(tokens @ whole.T), strict=True):
        torch.testing.assert_close(before, after, atol=1e-10, rtol=1e-10)


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
