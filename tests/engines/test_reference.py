"""The reference engine: one step by hand, seeds and rotations that change nothing, divergence, schedules."""

import numpy as np
import pytest
import torch
from torch import nn

import iclab
from iclab.engines import Recipe, Switch, Trained, Training, answers, stacking_obstacle, train
from iclab.engines.ensemble import Draws, OneByOne
from iclab.engines.recipe import OPTIMIZERS
from iclab.models import MODELS, Mamba, Model
from iclab.prompts import Outliers, Patterns, Prompts, Stream

SMALL = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)
PROMPTS = Prompts(patterns=SMALL, context_length=8, outliers=Outliers(fraction=0.5))
ONE_LAYER = ("mamba", "linear", "softmax", "softmax-mlp")
DEEP = {
    "three layers of mamba": ("deep-mamba", {}),
    "two layers of mamba, no norm": ("deep-mamba", {"layers": 2, "norm": "none", "init_scale": 0.1}),
    "three layers of linear": ("deep-linear", {}),
    "two layers of linear, values": ("deep-linear", {"layers": 2, "values": True}),
    "three layers of softmax": ("deep-softmax", {}),
}


def training(model="mamba", prompts=PROMPTS, dtype="float64", basis_seed=None, **recipe):
    """Describe a training on the reference engine, which `auto` would not take for all of these."""
    name, options = DEEP.get(model, (model, {}))
    rates = {"linear": 0.05, "deep-mamba": 0.05, "deep-linear": 0.001, "deep-softmax": 0.1}
    defaults = {"steps": 30, "batch_size": 16, "step_size": rates.get(name, 0.5)}
    return Training(
        model=Model(name=name, options=options),
        prompts=prompts,
        engine="reference",
        dtype=dtype,
        basis_seed=basis_seed,
        recipe=Recipe(**(defaults | recipe)),
    )


def final(trained):
    return trained.snapshots[trained.training.recipe.steps]


def assert_same_weights(first, second, **tolerance):
    for name, weight in first.items():
        torch.testing.assert_close(weight, second[name], **tolerance)


@pytest.mark.parametrize("model", [*ONE_LAYER, *DEEP])
@pytest.mark.slow
def test_a_step_is_the_mean_hinge_gradient_over_the_batch(model):
    run = training(model, steps=1, batch_size=64)
    trained = train(run, (3,))
    module = run.model.build(13, 8).double()
    module.load_state_dict({name: w[0] for name, w in trained.snapshots[0].items()})
    batch = PROMPTS.draw([3], Stream.TRAIN, step=0, count=64, dtype=np.float64)
    tokens = batch.dense(torch.from_numpy(PROMPTS.dictionary(SMALL.basis(3)))[None])[0]
    losses = []
    for prompt, z in zip(tokens, batch.target[0, :, 0], strict=True):
        losses.append(torch.clamp(1 - z * module(prompt[None]).output[0, 0], min=0))
    torch.stack(losses).mean().backward()
    for name, parameter in module.named_parameters():
        expected = parameter.detach() - run.recipe.step_size * parameter.grad
        torch.testing.assert_close(final(trained)[name][0], expected, atol=1e-12, rtol=0)
    assert trained.losses[0, 0] == pytest.approx(torch.stack(losses).mean().item())


@pytest.mark.parametrize("model", [*ONE_LAYER, *DEEP])
@pytest.mark.slow
def test_seeds_do_not_influence_each_other(model):
    run = training(model)
    together = train(run, (0, 1, 2, 3))
    shuffled = train(run, (2, 0, 3, 1))
    alone = train(run, (2,))
    assert_same_weights(final(together), final(shuffled.select((0, 1, 2, 3))), atol=1e-12, rtol=0)
    assert_same_weights(final(together.select((2,))), final(alone), atol=1e-12, rtol=0)
    assert not torch.equal(final(together)["key"][0], final(together)["key"][1])


@pytest.mark.parametrize("coherence", [0.0, 0.2])
@pytest.mark.parametrize("model", [*ONE_LAYER, *DEEP])
@pytest.mark.slow
def test_rotating_the_patterns_changes_nothing(model, coherence):
    prompts = PROMPTS.replace(patterns=SMALL.replace(coherence=coherence))
    first, second = (train(training(model, prompts, basis_seed=b), (0, 1)) for b in (0, 1))
    np.testing.assert_allclose(first.losses, second.losses, atol=1e-9)
    outputs = [next(answers(t, prompts, 50))[1].output for t in (first, second)]
    torch.testing.assert_close(*outputs, atol=1e-9, rtol=0)
    assert not np.allclose(first.bases()[0].vectors, second.bases()[0].vectors)


@pytest.mark.parametrize("model", ["linear", "softmax", "three layers of linear", "two layers of linear, values"])
def test_extra_dimensions_change_nothing_without_a_gate(model):
    wide = PROMPTS.replace(patterns=SMALL.replace(dimension=50))
    narrow_run, wide_run = train(training(model), (0,)), train(training(model, wide), (0,))
    np.testing.assert_allclose(narrow_run.losses, wide_run.losses, atol=1e-10)


def test_float32_follows_float64():
    single, double = (train(training(dtype=dtype), (0, 1)) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single.losses, double.losses, atol=1e-4)
    assert final(single)["key"].dtype == torch.float32


def test_a_diverged_seed_is_marked_and_never_right():
    run = training("linear", step_size=50.0, steps=200)
    trained = train(run, (0, 1, 2))
    assert trained.diverged.all()
    assert (trained.diverged_at < 199).all()  # and the rest of the steps was not computed
    assert all(np.isnan(trained.losses[at + 1 :, i]).all() for i, at in enumerate(trained.diverged_at))
    error = iclab.Run(trained).error(count=10)
    assert error.mean is None
    assert error.diverged == 3


def test_one_seed_that_diverges_leaves_the_others_alone():
    class Fragile(nn.Module):
        """Blows up for the seed whose first weight happens to be largest."""

        def __init__(self, width):
            super().__init__()
            self.w = nn.Parameter(torch.randn(width))

        def forward(self, tokens):
            drift = torch.where(self.w[0] > 1.0, torch.inf, 0.0)
            return (tokens[:, -1] @ self.w) * (1 + drift)

    run = training(Fragile, steps=5, optimizer="adam", step_size=0.01)
    seeds = tuple(range(8))
    first = np.array([train(run.replace(recipe=Recipe(steps=0)), (s,)).snapshots[0]["w"][0, 0] for s in seeds])
    trained = train(run, seeds)
    np.testing.assert_array_equal(trained.diverged, first > 1.0)
    assert trained.diverged.any()
    assert not trained.diverged.all()
    good = [s for s in seeds if first[s] <= 1.0]
    alone = train(run, tuple(good))
    assert_same_weights(final(trained.select(tuple(good))), final(alone), atol=1e-12, rtol=0)
    assert final(trained)["w"][torch.from_numpy(trained.diverged)].isnan().all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_moves_seeds_independently(name):
    run = training(optimizer=name, step_size=0.01, steps=5)
    both, alone = train(run, (0, 1)), train(run, (1,))
    assert_same_weights(final(both.select((1,))), final(alone), atol=1e-10, rtol=0)
    assert not torch.equal(both.snapshots[0]["key"], final(both)["key"])


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_the_fused_form_of_an_optimiser_moves_as_the_plain_one(name):
    options = {"weight_decay": 0.1, "amsgrad": True}
    found = []
    for more in ({}, {"foreach": False}):  # the second names a form, which is then taken
        recipe = Recipe(optimizer=name, step_size=0.01, optimizer_options=options | more)
        generator = torch.Generator().manual_seed(0)
        w = nn.Parameter(torch.randn(5, 3, dtype=torch.float64, generator=generator))
        optimizer = recipe.make_optimizer([w])
        assert bool(optimizer.defaults["fused"]) == (not more)
        for _ in range(4):
            w.grad = torch.randn(w.shape, dtype=w.dtype, generator=generator)
            optimizer.step()
        found.append(w.detach())
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-12)


def test_seeds_that_run_one_by_one_go_back_before_the_next_one_starts():
    happened = []

    class Told(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            happened.append("forward")
            return x.clone()

        @staticmethod
        def backward(ctx, d_x):
            happened.append("backward")
            return d_x

    class Single(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.out = nn.Sequential(nn.Linear(width, 1), nn.Dropout(0.5))

        def forward(self, tokens):
            return Told.apply(self.out(tokens[:, -1]))

    run = training(Single, steps=1)
    assert stacking_obstacle(run)
    happened.clear()
    train(run, (0, 1, 2))
    assert happened == ["forward", "backward"] * 3


def test_seeding_is_that_of_torch_and_leaves_no_trace():
    torch.manual_seed(5)
    expected, before = torch.rand(3), torch.get_rng_state()
    waiting = len(torch.cuda._queued_calls)
    with Draws() as draws:
        draws.seed(5)
        torch.testing.assert_close(torch.rand(3), expected, atol=0, rtol=0)
    torch.testing.assert_close(torch.get_rng_state(), before, atol=0, rtol=0)
    assert len(torch.cuda._queued_calls) == waiting  # what torch.manual_seed leaves for a GPU that may come


def test_clipping_bounds_each_seeds_step():
    trained = train(training(steps=1, step_size=1.0, clip=1e-3), (0, 1))
    moved = sum(((final(trained)[n] - w) ** 2).flatten(1).sum(1) for n, w in trained.snapshots[0].items()).sqrt()
    torch.testing.assert_close(moved, torch.full((2,), 1e-3, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("decay", "factors"), [("linear", [1, 0.75, 0.5, 0.25]), ("cosine", [1, 0.8536, 0.5, 0.1464])])
def test_decay_scales_the_steps(decay, factors):
    class Slope(nn.Module):
        """F = −z-independent constant: its hinge gradient is always the same."""

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, tokens):
            return self.w * tokens[:, :-1, -1].sum(1) * 0 + self.w  # d loss / dw = −z

    one_sided = Prompts(patterns=SMALL, tasks="0-1", context_length=2, balance="stratified")
    trained = train(
        Training(
            model=Slope,
            prompts=one_sided,
            dtype="float64",
            recipe=Recipe(steps=4, batch_size=1, step_size=0.01, decay=decay, snapshots=(1, 2, 3)),
        ),
        (0,),
    )
    moves = np.abs(np.diff([trained.snapshots[s]["w"][0, 0].item() for s in range(5)]))
    np.testing.assert_allclose(moves, 0.01 * np.array(factors), atol=1e-6)


def test_switching_prompts_halfway_equals_training_on_them():
    late = PROMPTS.replace(outliers=Outliers(fraction=0.5, placement="closest"))
    switched = train(training(steps=6, switches=(Switch(step=3, prompts=late),), snapshots=(3,)), (0,))
    plain = train(training(steps=6, snapshots=(3,)), (0,))
    assert_same_weights(switched.snapshots[3], plain.snapshots[3], atol=0, rtol=0)
    assert not torch.equal(final(switched)["gate"], final(plain)["gate"])
    from_start = train(training(prompts=late, steps=6, switches=(Switch(step=3, prompts=PROMPTS),)), (0,))
    assert from_start.losses[0, 0] != plain.losses[0, 0]
    assert switched.training.prompts_at(2) == PROMPTS
    assert switched.training.prompts_at(3) == late


def test_saving_and_loading_keeps_everything(tmp_path):
    trained = train(training(steps=4, snapshots=(2,)), (0, 1))
    trained.save(tmp_path / "weights.safetensors")
    loaded = Trained.load(tmp_path / "weights.safetensors")
    assert loaded.training == trained.training
    assert loaded.seeds == trained.seeds
    assert list(loaded.snapshots) == [0, 2, 4]
    for step in loaded.snapshots:
        assert_same_weights(loaded.snapshots[step], trained.snapshots[step], atol=0, rtol=0)
    np.testing.assert_array_equal(loaded.losses, trained.losses)


def test_weights_of_another_version_are_refused(tmp_path, monkeypatch):
    train(training("linear", steps=1), (0,)).save(tmp_path / "weights.safetensors")
    monkeypatch.setattr(MODELS["gpt2"], "version", 7)
    Trained.load(tmp_path / "weights.safetensors")
    monkeypatch.setattr(MODELS["linear"], "version", 7)
    with pytest.raises(iclab.InputError, match=r"was written by other code \(versions .*'model': 1.*'model': 7"):
        Trained.load(tmp_path / "weights.safetensors")


class WithNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.out(self.norm(tokens[:, -1]))


class WithDropout(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.out(nn.functional.dropout(tokens[:, -1], 0.5, self.training))


@pytest.mark.parametrize(("model", "reason"), [(WithNorm, "buffers"), (WithDropout, "random")])
def test_what_cannot_be_stacked_runs_one_by_one_and_says_why(model, reason):
    run = training(model, steps=4, step_size=0.05)
    told = []
    both = train(run, (0, 1), notify=told.append)
    assert reason in told[0]
    assert reason in stacking_obstacle(run)
    again, alone = train(run, (0, 1)), train(run, (1,))
    assert_same_weights(final(both), final(again), atol=0, rtol=0)  # random layers are a function of the seed
    assert_same_weights(final(both.select((1,))), final(alone), atol=0, rtol=0)
    one, two = (next(answers(both, PROMPTS, 20))[1].output for _ in range(2))
    torch.testing.assert_close(one, two, atol=0, rtol=0)  # measured in eval mode


def test_draws_of_random_layers_differ_by_seed_and_by_call():
    modules = [WithDropout(4), WithDropout(4)]
    modules[1].load_state_dict(modules[0].state_dict())
    tokens = torch.randn(1, 30, 3, 4, generator=torch.Generator().manual_seed(0)).expand(2, -1, -1, -1)
    ensemble = OneByOne(modules, (0, 1))
    first, second = (ensemble.forward(tokens, training=True).output for _ in range(2))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], second[0])
    torch.testing.assert_close(OneByOne(modules, (0, 1)).forward(tokens, training=True).output, first, atol=0, rtol=0)


class Explodes(WithDropout):
    def forward(self, tokens):
        return super().forward(tokens) ** 5


def test_seeds_that_all_diverge_one_by_one_are_reported():
    found = train(training(Explodes, steps=6, step_size=1e6, snapshots=(1, 2, 3, 4, 5)), (0,))
    assert found.diverged.all()
    assert all(torch.isnan(weight).all() for weight in found.snapshots[6].values() if weight.is_floating_point())


def test_tasks_outside_condition_1_are_pointed_out():
    lopsided = PROMPTS.replace(tasks=Prompts(patterns=SMALL, tasks="0-1").tasks)
    with pytest.warns(iclab.OutsideTheoremWarning, match="tasks = 0-1: do not meet Condition 1"):
        iclab.train("mamba", lopsided, Recipe(steps=0), seeds=1)


def test_a_users_copy_of_a_model_trains_as_the_model_does():
    class MyMamba(Mamba):
        """Not known to iclab by name, so it takes the way of users' modules."""

    mine, built_in = train(training(MyMamba), (0, 1)), train(training("mamba"), (0, 1))
    assert_same_weights(final(mine), final(built_in), atol=1e-12, rtol=0)
