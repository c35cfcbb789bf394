"""The compact engine against the reference engine: same prompts, same answers, same weights."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.engines import Recipe, Switch, Training, answers, faster_obstacle, train, weights
from iclab.models.attention_kernels import attend, read_out
from iclab.prompts import Patterns, Prompts, Stream

SMALL = Patterns(dimension=9, relevant=4, irrelevant=3, outlier=2)
OBLIQUE = Patterns(vectors=np.random.default_rng(2).normal(size=(9, 9)), relevant=4, irrelevant=3, outlier=2)
T = {"patterns": SMALL, "relevant_fraction": 0.6, "label_dimension": 3, "label_norm": 2.0, "context_length": 7}
MIXED = ((0.9, 0.5, 0, 0), (0, 0.8, -0.4, 0.3), (0, 0, 1.2, 0.1))

CASES = {
    "as in T": (T, {}),
    "labels of one number": ({"patterns": SMALL}, {}),
    "mixtures": (T | {"relevant_mixtures": MIXED, "irrelevant_mixtures": ((0.5, 0.5, 0.7), (1, 0, 0))}, {}),
    "outliers": (T | {"outliers": {"fraction": 0.4, "labels": "flip"}}, {}),
    "S's signal, stratified": (T | {"signal": (0.5, 1.5), "balance": "stratified"}, {}),
    "oblique patterns": (T | {"patterns": SMALL.replace(coherence=0.2)}, {}),
    "outliers in the query, label noise": (
        T | {"outliers": {"fraction": 0.2, "query": 0.5}, "label_noise": 0.2},
        {},
    ),
    "exact share of relevant patterns": (
        {name: value for name, value in T.items() if name != "relevant_fraction"} | {"relevant_count": 4},
        {},
    ),
    "own vectors": (T | {"patterns": OBLIQUE}, {}),
    "one example": (T | {"context_length": 1}, {}),
    "adam": (T, {"optimizer": "adamw", "step_size": 0.01}),
    "momentum, clipping, decay": (T, {"optimizer_options": {"momentum": 0.9}, "clip": 0.1, "decay": "linear"}),
    "switch": (T, {"switches": (Switch(step=12, prompts=Prompts(**T).replace(relevant_mixtures=MIXED)),)}),
}


def trainings(case, dtype="float64", **options):
    prompts, recipe = CASES[case]
    model = {"name": "softmax-mlp", "options": {"neurons": 30, **options}}
    steps = {"steps": 25, "batch_size": 16, "snapshots": (1,)} | recipe
    for engine in ("compact", "reference"):
        yield Training(model=model, prompts=Prompts(**prompts), recipe=Recipe(**steps), engine=engine, dtype=dtype)


@pytest.mark.parametrize("case", CASES)
def test_every_weight_is_the_references(case):
    ours, theirs = (train(training, (0, 5)) for training in trainings(case))
    for step in theirs.snapshots:
        for name, expected in weights(theirs, step).items():
            torch.testing.assert_close(
                weights(ours, step)[name], expected, atol=1e-11, rtol=1e-9, msg=f"{name}, {step}"
            )
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-11)
    assert not torch.equal(weights(ours)["hidden"], weights(ours, 0)["hidden"])


@pytest.mark.parametrize("case", CASES)
def test_every_answer_is_the_references(case):
    ours, theirs = trainings(case, state_size=5, value_size=11, output="root")
    trained = train(theirs, (3, 4))
    stand_in = type(trained)(ours, trained.seeds, trained.snapshots, trained.diverged_at, trained.losses)
    pairs = zip(answers(stand_in, ours.prompts, 300), answers(trained, theirs.prompts, 300), strict=True)
    for (_, answer), (_, expected) in pairs:
        for part, other in zip(answer, expected, strict=True):
            torch.testing.assert_close(part, other, atol=1e-12, rtol=1e-9)


def test_prompts_with_noise_are_answered_dense():
    ours, theirs = trainings("as in T")
    noisy = ours.prompts.replace(noise=0.5)
    one, other = (next(answers(train(t, (0,)), noisy, 50))[1] for t in (ours, theirs))
    torch.testing.assert_close(one.output, other.output, atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match=r"engine = compact: does not apply: prompts\.noise = 0\.5"):
        Training(model="softmax-mlp", prompts=noisy, engine="compact")
    adam = Recipe(optimizer="adam")
    assert Training(model="softmax-mlp", prompts=noisy, recipe=adam).engine == "reference"
    assert Training(model="softmax-mlp", prompts=ours.prompts, recipe=adam).engine == "compact"
    assert "no compact form" not in faster_obstacle(Training(model="mamba", prompts=Prompts()))
    with pytest.raises(ValueError, match=r"engine = compact: does not apply: model mamba has no compact form"):
        Training(model="mamba", engine="compact")


def test_a_seed_that_diverges_leaves_the_others_alone():
    wild = Recipe(steps=25, batch_size=16, step_size=1e6)
    ours, theirs = (train(training.replace(recipe=wild), (0, 1, 2)) for training in trainings("as in T"))
    assert ours.diverged.any()
    assert not ours.diverged.all()
    np.testing.assert_array_equal(ours.diverged_at, theirs.diverged_at)
    for row in np.flatnonzero(~ours.diverged):  # each goes on with its own patterns
        alone = train(ours.training, (ours.seeds[row],))
        np.testing.assert_allclose(ours.losses[:, row], alone.losses[:, 0], rtol=1e-6)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-6)  # NaN where NaN is
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, rtol=1e-6, atol=0, equal_nan=True)


def test_single_precision_is_the_same_to_its_digits():
    ours, theirs = (train(training, (0, 5)) for training in trainings("as in T", dtype="float32"))
    assert weights(ours)["key"].dtype == torch.float32
    for name, expected in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[name], expected, atol=2e-5, rtol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([Prompts(**CASES[c][0]) for c in list(CASES)[:6]]))
@pytest.mark.slow
def test_gradients_are_those_of_finite_differences(seed, length, prompts):
    batch = prompts.replace(context_length=length).draw([seed, 1], Stream.TRAIN, count=3, dtype=np.float64)
    rows = len(prompts.dictionary(prompts.patterns.basis(0))) + 1
    generator = torch.Generator().manual_seed(seed)
    products = 0.3 * torch.randn(2, rows, rows, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradcheck(lambda p: attend(p, batch), products.requires_grad_())
    signs = torch.randn(2, 6, dtype=torch.float64, generator=generator)
    before = torch.randn(2, 3, 6, dtype=torch.float64, generator=generator)
    before += 0.01 * before.sign()  # away from the kink
    assert torch.autograd.gradcheck(lambda b: read_out(b, signs), before.requires_grad_())


def test_a_score_that_is_no_number_is_no_attention():
    batch = Prompts(patterns=SMALL).draw([0], Stream.TRAIN, count=4, dtype=np.float64)
    attention, mixed = attend(torch.full((1, 10, 10), torch.nan, dtype=torch.float64), batch)
    assert attention.isnan().all()
    assert mixed.isnan().any(-1).all()
    huge = attend(torch.full((1, 10, 10), 1e300, dtype=torch.float64), batch)[0]
    torch.testing.assert_close(huge.sum(-1), torch.ones(1, 4, dtype=torch.float64))
    dead = torch.full((1, 1, 3), torch.nan)
    assert read_out(dead, torch.ones(1, 3)).isnan().all()
    falling = torch.tensor([[[-torch.inf, 1.0, 2.0]]])
    torch.testing.assert_close(read_out(falling, torch.ones(1, 3)), torch.relu(falling).sum(-1, keepdim=True))
