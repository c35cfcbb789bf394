"""Several levels, M E.7: the model of (201) is H binary models, to the bit; and heads that see whole tokens."""

import re

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.special import expit as sigmoid

from iclab.config import explain
from iclab.engines import Recipe, Training, answers, stacked_dictionary, train, weights
from iclab.models import Model
from iclab.probes import measure
from iclab.prompts import Outliers, Patterns, Prompts, Stream
from iclab.prompts.counters import LEVEL

PATTERNS = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)
ONE = Prompts(
    patterns=PATTERNS, tasks="ring:2", context_length=6, outliers=Outliers(fraction=0.5, labels="flip"), label_noise=0.1
)
THREE = ONE.replace(levels=3)
TOGETHER = THREE.replace(outliers=ONE.outliers.replace(together=True))
SEEDS = (0, 5)


def described(prompts, name="mamba-levels", engine="auto", dtype="float64", sees=None, **recipe):
    options = {} if sees is None else {"sees": sees}
    recipe = Recipe(**{"steps": 15, "batch_size": 20, "step_size": 0.5} | recipe)
    return Training(model=Model(name=name, options=options), prompts=prompts, recipe=recipe, engine=engine, dtype=dtype)


def counted(rows):
    return [(row["right"], row["wrong"], row["hinge"]) for row in rows]


# Prompts


def test_every_level_is_the_prompt_of_another_seed():
    whole = THREE.draw(SEEDS, Stream.TEST, step=3, first=2, count=4)
    assert (whole.labels.shape, whole.target.shape) == ((2, 4, 7, 3), (2, 4, 3))
    assert (whole.outlier.shape, whole.same_pattern.shape, whole.length) == ((2, 4, 6, 3), (2, 4, 6, 3), 6)
    for h in range(3):
        one = ONE.draw([seed + h * LEVEL for seed in SEEDS], Stream.TEST, step=3, first=2, count=4)
        rows = slice(3 * h, 3 * h + 3)
        np.testing.assert_array_equal(whole.index[..., rows], one.index + h * PATTERNS.count)
        np.testing.assert_array_equal(whole.coefficient[..., rows], one.coefficient)
        for name in ("labels", "target", "true_labels"):
            np.testing.assert_array_equal(getattr(whole, name)[..., h : h + 1], getattr(one, name))
        for name in ("outlier", "same_pattern"):
            np.testing.assert_array_equal(getattr(whole, name)[..., h], getattr(one, name))
        np.testing.assert_array_equal(whole.task[..., h, :], one.task)


def test_outliers_corrupt_whole_tokens_only_if_they_are_together():
    apart, whole = (prompts.draw(SEEDS, Stream.TEST, count=200) for prompts in (THREE, TOGETHER))
    assert (whole.outlier == whole.outlier[..., :1]).all()
    np.testing.assert_array_equal(whole.outlier[..., 0], apart.outlier[..., 0])
    share = (apart.outlier[..., 0] == apart.outlier[..., 1]).mean()
    assert share == pytest.approx(0.5, abs=0.03)
    for name in ("task", "target", "true_labels"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(apart, name))


def test_dense_tokens_have_all_inputs_and_then_all_labels():
    batch = THREE.draw([5], Stream.TEST, count=3, dtype=np.float64)
    bases = [PATTERNS.basis(5 + h * LEVEL) for h in range(3)]
    training = described(THREE)
    (_, answer) = next(answers(train(training.replace(recipe=Recipe(steps=0)), (5,)), THREE, 3))
    assert answer.output.shape == (1, 3, 3)
    dense = batch.dense(stacked_dictionary(training, (5,), THREE))[0].numpy()
    assert dense.shape == (3, 7, 39)
    for h, basis in enumerate(bases):
        one = ONE.draw([5 + h * LEVEL], Stream.TEST, count=3, dtype=np.float64)
        alone = one.dense(torch.from_numpy(ONE.dictionary(basis))[None])[0].numpy()
        np.testing.assert_allclose(dense[..., 12 * h : 12 * h + 12], alone[..., :12])
        np.testing.assert_array_equal(dense[..., 36 + h], alone[..., 12])


# The model


@pytest.mark.parametrize("sees", ["block", "token"])
def test_forward_is_the_equation(sees):
    model = Model(name="mamba-levels", options={"sees": sees}).build(39, 6, 3).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.2 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    tokens = torch.randn(2, 7, 39, generator=generator, dtype=torch.float64)
    answer = model(tokens)
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}
    for b, prompt in enumerate(tokens.numpy()):
        for h in range(3):
            seen = prompt if sees == "token" else np.hstack([prompt[:, 12 * h : 12 * h + 12], prompt[:, [36 + h]]])
            total = 0.0
            for i in range(6):
                gate = sigmoid(w["gate"][h] @ seen[i])
                for later in seen[i + 1 :]:
                    gate *= 1.0 - sigmoid(w["gate"][h] @ later)
                score = seen[i] @ w["key"][h].T @ w["query"][h] @ seen[-1]
                assert answer.gate[b, h, i].item() == pytest.approx(gate)
                assert answer.attention[b, h, i].item() == pytest.approx(score)
                total += gate * prompt[i, 36 + h] * score
            assert answer.output[b, h].item() == pytest.approx(total)


def test_whole_tokens_start_as_mamba_with_as_many_inputs_would():
    (module,) = (train(described(THREE, sees="token", steps=0), (0,)).snapshots[0],)
    assert module["key"].shape == (1, 3, 36, 39)
    np.testing.assert_array_equal(module["key"][0, 1], 0.2 * np.eye(36, 39))
    sizes = [train(described(THREE, sees="token", steps=0), (seed,)).snapshots[0]["gate"] for seed in range(40)]
    assert torch.cat(sizes).square().mean().item() == pytest.approx(1 / 39, rel=0.1)


# Training and measuring


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_level_is_mamba_to_the_bit(dtype):
    levels, mamba = (train(described(ONE, name, dtype=dtype), SEEDS) for name in ("mamba-levels", "mamba"))
    assert levels.training.engine == mamba.training.engine == "fused"
    assert levels.losses.tobytes() == mamba.losses.tobytes()
    for name, weight in weights(mamba).items():
        torch.testing.assert_close(weights(levels)[name][:, 0], weight, rtol=0.0, atol=0.0)
    for probe in ("error", "worst", "attention", "gates"):
        assert measure(levels, probe, ONE, 500) == measure(mamba, probe, ONE, 500)


def test_three_levels_are_three_mambas_to_the_bit():
    levels = train(described(THREE), SEEDS)
    alone = train(described(ONE, "mamba"), tuple(seed + h * LEVEL for seed in SEEDS for h in range(3)))
    np.testing.assert_array_equal(levels.losses, alone.losses.reshape(15, 2, 3).sum(2))
    for name, weight in weights(levels).items():
        torch.testing.assert_close(weight.flatten(0, 1), weights(alone)[name], rtol=0.0, atol=0.0)
    own = counted(measure(alone, "error", ONE, 300))
    found = sorted(measure(levels, "levels", THREE, 300), key=lambda row: (row["seed"], row["level"]))
    assert counted(found) == own


@pytest.mark.parametrize("prompts", [THREE, TOGETHER], ids=["apart", "together"])
def test_the_fused_engine_is_the_reference_engine(prompts):
    recipe = {"optimizer_options": {"momentum": 0.5}, "stop": None}
    fused, reference = (train(described(prompts, engine=engine, **recipe), SEEDS) for engine in ("fused", "reference"))
    np.testing.assert_allclose(fused.losses, reference.losses, rtol=1e-9)
    for name, weight in weights(reference).items():
        torch.testing.assert_close(weights(fused)[name], weight, rtol=1e-7, atol=1e-9)
    for probe in ("error", "levels", "worst", "attention", "gates"):
        for one, two in zip(measure(fused, probe, prompts, 300), measure(reference, probe, prompts, 300), strict=True):
            assert one == pytest.approx(two)


def test_a_class_is_right_if_every_level_is():
    run = train(described(TOGETHER), SEEDS)
    found = list(answers(run, TOGETHER, 300))
    right = [(batch.target * answer.output.numpy() > 0) for batch, answer in found]  # (S, B, 3) each
    right = np.concatenate(right, axis=1)
    assert [row["right"] for row in measure(run, "error", TOGETHER, 300)] == right.all(-1).sum(1).tolist()
    by_level = {(row["seed"], row["level"]): row["right"] for row in measure(run, "levels", TOGETHER, 300)}
    assert by_level == {(s, h + 1): right[i, :, h].sum() for i, s in enumerate(SEEDS) for h in range(3)}
    votes = []
    for batch, _ in found:
        shown = (batch.labels[:, :, :-1] * batch.same_pattern).sum(2)  # (S, B, 3)
        votes.append((batch.target * shown > 0).all(-1))
    expected = np.concatenate(votes, axis=1).sum(1).tolist()
    assert [row["right"] for row in measure(run, "vote", TOGETHER, 300)] == expected


def test_the_worst_labels_are_the_worst_of_all():
    """By brute force: every labelling of the outliers of one level, the others as they are."""
    run = train(described(THREE), (0,))
    batch, _ = next(answers(run, THREE, 6))
    w = {name: weight[0].numpy() for name, weight in weights(run).items()}
    dense = batch.dense(stacked_dictionary(run.training, (0,), THREE))[0].numpy()
    right = 0
    for b, prompt in enumerate(dense):
        least = []
        for h in range(3):
            own = np.hstack([prompt[:, 12 * h : 12 * h + 12], prompt[:, [36 + h]]])
            places = np.flatnonzero(batch.outlier[0, b, :, h])
            margins = []
            for code in range(2 ** len(places)):
                own[places, -1] = [1.0 if code >> k & 1 else -1.0 for k in range(len(places))]
                state = 0.0
                for p in own[:-1]:
                    flow = sigmoid(w["gate"][h] @ p)
                    state = (1 - flow) * state + flow * p[-1] * (p @ w["key"][h].T @ w["query"][h] @ own[-1])
                margins.append(batch.target[0, b, h] * state)
            least.append(min(margins))
        right += min(least) > 0
    assert measure(run, "worst", THREE, 6)[0]["right"] == right


def test_blocks_of_other_levels_are_read_from_the_weights():
    run = train(described(THREE, sees="token", steps=3), (0,))
    key, query = (weights(run)[name][0].numpy() for name in ("key", "query"))
    patterns = np.zeros((3, 4, 36))
    for b in range(3):
        patterns[b, :, 12 * b : 12 * b + 12] = PATTERNS.basis(b * LEVEL).vectors[:4]
    rows = measure(run, "blocks", THREE, 1)
    for h, row in enumerate(rows):
        entry = np.einsum("aix,mx,my,bjy->aibj", patterns, key[h][:, :36], query[h][:, :36], patterns)
        assert row["own"] == pytest.approx(np.mean([entry[h, j, h, j] for j in range(4)]))
        others = [entry[b, j, b, j] for b in range(3) if b != h for j in range(4)]
        assert row["other"] == pytest.approx(np.mean(others))
        crossing = [entry[a, i, b, j] for a in range(3) for b in range(3) if a != b for i in range(4) for j in range(4)]
        assert row["cross"] == pytest.approx(np.sqrt(np.mean(np.square(crossing))))


# What is refused


def explained(error):
    return explain(error) if isinstance(error, ValidationError) else str(error)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Prompts(levels=0), "levels = 0: input should be greater than or equal to 1"),
        (lambda: Prompts(levels=2, noise=0.5), "noise = 0.5: prompts of 2 levels have none"),
        (lambda: Prompts(outliers=Outliers(fraction=0.5, together=True)), "outliers.together = True: needs several"),
        (lambda: described(THREE, "mamba"), "prompts.levels = 3: mamba answers one level; models for several: mamba-l"),
        (lambda: described(THREE, engine="fused", clip=1.0), "clip = 1.0: the fused engine trains levels apart"),
        (lambda: described(THREE, engine="fused", sees="token"), "model.options.sees = token: the fused engine knows"),
        (lambda: Model(name="mamba-levels", options={"sees": "all"}), "sees = 'all': must be block or token"),
        (lambda: THREE.draw([LEVEL], Stream.TEST), r"seed = 268435456: must be below 2\^28"),
        (
            lambda: measure(train(described(THREE, steps=0), (0,)), "exact", THREE, 10),
            "probe = exact: measures prompts",
        ),
        (lambda: measure(train(described(THREE, steps=0), (0,)), "error", ONE, 10), "prompts.levels = 1: must be that"),
        (
            lambda: measure(train(described(THREE, sees="token", steps=0), (0,)), "worst", THREE, 10),
            "with sees = token a label enters the gates of other levels too",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(made, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 (the message is checked below)
        made()
    assert re.search(message, explained(raised.value))
    assert "\n" not in explained(raised.value)
