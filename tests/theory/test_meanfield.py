"""The mean field: derivatives, closed forms, numbers of a small simulation, and trained curves."""

import math
from dataclasses import replace

import numpy as np
import pytest

import iclab
from iclab import InputError, Outliers, Patterns, Prompts, Recipe
from iclab.models import Model
from iclab.theory.evolution import TokenTypes, evolve
from iclab.theory.laws import clean_weight, gate_velocities, graph_time, mean_field_steps
from iclab.theory.meanfield import (
    Curve,
    Numbers,
    expected_loss,
    paces,
    predicted_curve,
    start,
    token_types,
)
from iclab.theory.setting import MambaSetting, ring

BASE = MambaSetting(
    relevant=8, tasks=ring(8, 7), train_length=40, train_outlier_fraction=0.3, init_scale=0.1, step_size=0.02
)
LINEAR = replace(BASE, model="linear", step_size=0.0005, init_scale=0.1 / 3, train_outlier_fraction=0.1)


@pytest.mark.parametrize("setting", [BASE, LINEAR], ids=["mamba", "linear"])
@pytest.mark.parametrize("loss", ["hinge", "linear"])
@pytest.mark.parametrize("at", [(0.1, 0.06, 0.0, 0.0), (0.3, 0.09, -0.1, -0.2)])
def test_derivatives_are_those_of_the_loss(setting, loss, at):
    _, slopes = expected_loss(setting, Numbers(*at), loss)
    for i in range(4):
        step = 1e-3 * np.eye(4)[i]
        up, down = (expected_loss(setting, Numbers(*(np.array(at) + s)), loss, 2000)[0] for s in (step, -step))
        assert slopes[i] == pytest.approx((up - down) / 2e-3, rel=0.02, abs=2e-4)


@pytest.mark.parametrize("setting, at", [(BASE, (0.55, 0.09, -0.2, -0.3)), (LINEAR, (0.09, 0.03))])
@pytest.mark.slow
def test_loss_is_that_of_the_evolution(setting, at):
    types = token_types(setting, Numbers(*at))
    whole = evolve(TokenTypes(*types.types.T), setting.train_length, scale=types.scale, grid=512)
    loss, _ = expected_loss(setting, Numbers(*at))
    assert loss == pytest.approx(float(whole.hinge), abs=2e-4)


def test_output_before_training_is_the_formula():
    for setting in (BASE, LINEAR):
        loss, slopes = expected_loss(setting, start(setting), "linear")
        output = 0.5 * clean_weight(setting) * (setting.init_scale * 3.0) ** 2
        assert loss == pytest.approx(1 - output, rel=1e-9)
        assert slopes[1] == pytest.approx(0, abs=1e-9)  # the common part of the kernel does not move


@pytest.mark.parametrize("setting", [BASE, LINEAR], ids=["mamba", "linear"])
def test_kernel_starts_to_grow_as_graph_time_says(setting):
    # W = δ exp(τL) on differences of patterns, where L of the complete graph is M1/(M1−1)
    speed = -paces(setting)[0] * expected_loss(setting, start(setting), "linear")[1][0]
    rate = graph_time(setting, 1.0) * setting.relevant / (setting.relevant - 1)
    assert speed / setting.init_scale == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.6, 0.9])
def test_gate_starts_to_move_as_the_velocities_say(fraction):
    setting = replace(BASE, train_outlier_fraction=fraction, train_length=60)
    at = Numbers(0.3, 0.1)
    force = -paces(setting) * expected_loss(setting, at, "linear")[1]
    assert gate_velocities(setting, setting.relevant_norm**2 * at.contrast**2 / 2) == pytest.approx(force[2:], rel=1e-8)


def test_gate_velocities_of_sampled_prompts():
    """dwᵀv̂/dt and dwᵀe/dt by brute force: prompts drawn one by one, F differentiated by finite differences."""
    rng, setting, at = np.random.default_rng(0), replace(BASE, train_length=12), Numbers(0.4, 0.1)

    def mean_output(clean_gate, outlier_gate, tokens):
        same, outlier, label = tokens  # (prompts, l) each; label is z·y
        types = token_types(setting, Numbers(0.4, 0.1, clean_gate, outlier_gate))
        s, o = types.types[0, 2] / (1 - types.types[0, 1]), -types.types[1, 2] / (1 - types.types[1, 1])
        sigma = np.where(outlier, 1 - types.types[2, 1], 1 - types.types[0, 1])
        h = np.zeros(len(same))
        for i in range(same.shape[1]):
            h = (1 - sigma[:, i]) * h + sigma[:, i] * label[:, i] * np.where(same[:, i], s, o)
        return types.scale * h.mean()

    shape = (400_000, 12)
    same, outlier = rng.random(shape) < 0.5, rng.random(shape) < 0.3
    label = np.where(outlier, np.where(rng.random(shape) < 0.5, 1.0, -1.0), np.where(same, 1.0, -1.0))
    tokens, e = (same, outlier, label), 0.01
    clean = (mean_output(e, 0, tokens) - mean_output(-e, 0, tokens)) / (2 * e)
    corrupted = (mean_output(0, e, tokens) - mean_output(0, -e, tokens)) / (2 * e)
    found = gate_velocities(setting, setting.relevant_norm**2 * at.contrast**2 / 2)
    assert setting.step_size / setting.relevant * clean == pytest.approx(found.clean, rel=0.02)
    assert setting.step_size / setting.outlier * corrupted == pytest.approx(found.outlier, rel=0.02)


@pytest.mark.slow
def test_numbers_of_the_labels_feel_no_force():
    """The label's coordinate of w moves σ(y): with both labels equally often, the loss is even in it."""
    at = Numbers(0.4, 0.1, -0.1, -0.2)
    scores = {same: t[2] / (1 - t[1]) for same, t in zip((1, -1), token_types(BASE, at).types[:2], strict=True)}

    def loss(z, tilt):
        kinds = [(same, z * same, 0.0, 0.35) for same in (1, -1)]  # the other pattern shows −z
        kinds += [(same, y, -1.2, 0.075) for same in (1, -1) for y in (1, -1)]
        p, decay, inflow = [], [], []
        for same, y, outlier, share in kinds:
            sigma = 1 / (1 + math.exp(0.3 - outlier - tilt * y))
            p.append(share)
            decay.append(1 - sigma)
            inflow.append(sigma * z * y * same * scores[same])
        return float(evolve(TokenTypes(p, decay, inflow), 40, scale=0.57).hinge)

    force = sum(loss(z, 0.01) - loss(z, -0.01) for z in (1, -1)) / 0.04
    alone = (loss(1, 0.01) - loss(1, -0.01)) / 0.02
    assert abs(force) < 1e-6
    assert abs(alone) > 1e-3  # one label alone would push it


def test_mean_field_steps_are_those_of_the_linear_loss_with_a_frozen_gate():
    for setting in (BASE, LINEAR):
        steps = mean_field_steps(setting, output=0.3)
        curve = predicted_curve(setting, math.ceil(steps), free_gate=False, loss="linear", points=4)
        b, c = curve.numbers[-1][:2]
        rate = math.log(b / setting.init_scale) / curve.steps[-1]
        assert setting.init_scale * math.exp(rate * steps) == pytest.approx(
            math.sqrt(0.6 / clean_weight(setting)) / 3.0, rel=0.005
        )
        assert c == pytest.approx(setting.init_scale, rel=1e-3)
    assert mean_field_steps(replace(BASE, init_scale=1.0)) == 0


def test_hitting_times_lie_between_steps_log_linearly():
    curve = Curve(np.array([0.0, 10.0, 20.0]), np.array([1.0, 0.4, 0.1]), np.zeros((3, 4)))
    assert curve.hitting_time(0.2) == pytest.approx(15)
    assert curve.hitting_time(2.0) == 0
    assert math.isnan(curve.hitting_time(0.05))


def test_hitting_time_scales_as_one_over_the_step_size_and_does_not_depend_on_length():
    base = predicted_curve(BASE, 500, points=60).hitting_time(0.5)
    assert predicted_curve(replace(BASE, step_size=0.04), 250, points=60).hitting_time(0.5) == pytest.approx(
        base / 2, rel=0.01
    )
    longer = predicted_curve(replace(BASE, train_length=80), 500, points=60).hitting_time(0.5)
    assert longer == pytest.approx(base, rel=0.02)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"train_outlier_fraction": 1.0}, "train_outlier_fraction = 1.0: must be at least 0 and below 1"),
        ({"train_length": 0}, "train_length = 0: must be at least 1"),
        ({"relevant": 1}, "relevant = 1: must be at least 2"),
        ({"init_scale": 0.0}, "init_scale = 0.0: must be above 0"),
        ({"train_outlier_scale": -1.0}, "train_outlier_scale = -1.0: must be at least 0"),
        ({"tasks": ring(8, 1)}, "tasks = 8 pairs: the mean field needs every pair of patterns"),
        ({"outlier": 0}, "outlier = 0: the mean field needs at least 1"),
    ],
)
def test_bad_settings_in_one_line(change, message):
    with pytest.raises(InputError, match=message):
        predicted_curve(replace(BASE, **change), 10)
    with pytest.raises(InputError, match="steps = 0: must be at least 1"):
        predicted_curve(BASE, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["free", "frozen", "linear"])
def test_training_follows_the_predicted_curve(kind):
    setting, steps = (LINEAR, 200) if kind == "linear" else (BASE, 600)
    options = {"init_scale": setting.init_scale} | ({"gate_scale": 0.0} if setting.model == "mamba" else {})
    prompts = Prompts(
        patterns=Patterns(dimension=60, relevant=8),
        context_length=40,
        outliers=Outliers(fraction=setting.train_outlier_fraction),
    )
    recipe = Recipe(
        steps=steps,
        batch_size=512,
        step_size=setting.step_size,
        snapshots=tuple(range(0, steps, steps // 50)),
        frozen=("gate",) if kind == "frozen" else (),
    )
    name = "mamba" if setting.model == "mamba" else "linear"
    run = iclab.train(Model(name=name, options=options), prompts, recipe, seeds=2)
    rows = run.measure("error", prompts, count=4000, at="every")
    predicted = predicted_curve(setting, steps, free_gate=kind != "frozen")
    kept = np.array(recipe.kept, dtype=float)
    measured = np.array([np.mean([row["hinge"] for row in rows if row["step"] == step]) for step in recipe.kept])
    np.testing.assert_allclose(measured, np.interp(kept, predicted.steps, predicted.loss), atol=0.015)
    for level in (0.5, 0.1):
        if kind == "frozen" and level == 0.1:
            continue  # never reached: with w = 0 the nearest outlier outvotes the rest too often
        found = Curve(kept, measured, np.zeros((len(kept), 4))).hitting_time(level)
        assert found == pytest.approx(predicted.hitting_time(level), rel=0.03)
