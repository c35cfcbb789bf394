"""Predicted numbers: by hand, against a brute-force mean field, and in their limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

from iclab.theory.conditions import conditions
from iclab.theory.laws import gate_sum, mean_field_steps
from iclab.theory.predictions import predictions
from iclab.theory.setting import MambaSetting, TransformerSetting, ring

M = MambaSetting(tasks=ring(6, 5))  # all tasks: the graph is complete and even


def values(setting):
    return {prediction.id: prediction.value for prediction in predictions(setting)}


def remarks(setting):
    return {prediction.id: prediction.remark for prediction in predictions(setting)}


def test_the_papers_own_values():
    found = values(M)
    assert found["steps.claimed"] == pytest.approx(6 / 0.4 / 9)
    assert found["steps.other.claimed"] == pytest.approx(6 / 0.4 / 9 / 20)
    # (E): 5 / (9 · 0.4 · ½) · log(1 / (0.4 · ½ · 0.36))
    assert found["steps.mean-field"] == pytest.approx(5 / 1.8 * math.log(1 / 0.072), rel=1e-5)
    assert (found["ratio.claimed"], found["ratio.gates"]) == (20, pytest.approx(40, rel=1e-5))
    assert (found["tolerated.mamba"], found["tolerated.linear"]) == (0.6, 0.5)
    assert found["strength"] == pytest.approx(6.667, abs=1e-3)
    assert found["epsilon"] == pytest.approx(0.127, abs=5e-4)
    assert found["tasks.failing"] == 0
    assert values(replace(M, test_outlier_fraction=0.8))["floor.flip"] == pytest.approx(0.0115, abs=5e-5)
    assert found["floor.minimax"] == found["floor.flip"] / 2


def test_the_gate_starts_with_half_of_the_weight():
    for length in (1, 2, 7):
        gates = [0.5 * 0.5 ** (length + 1 - i) for i in range(1, length + 1)]  # M (3) at w = 0, the query counted
        assert gate_sum("mamba", length) == pytest.approx(sum(gates))
    assert gate_sum("linear", 7) == 7


def brute_force_steps(setting, model, output):
    """Integrate dW/dt = (rate) W L step by step on both weights, and read off when E zF reaches the output."""
    counts = np.zeros((setting.relevant, setting.relevant))
    for a, b in setting.tasks:
        counts[a, b] += 1
        counts[b, a] += 1
    weights = counts / counts.sum()
    laplacian = setting.relevant * (np.diag(weights.sum(1)) - weights)
    clean, g = 1 - setting.train_outlier_fraction, gate_sum(model, setting.train_length)
    speed = setting.step_size * setting.relevant_norm**2 * clean * g / (2 * setting.relevant)  # dτ/dt, (A)
    small = 0.001
    grow = expm(small * speed * laplacian)
    weight, steps = setting.init_scale * np.eye(setting.relevant), 0.0
    while True:
        scores = setting.relevant_norm**2 * weight.T @ weight
        reached = (
            clean
            * g
            / 2
            * sum(
                weights[j, k] * (scores[j, j] - scores[j, k])
                for j in range(setting.relevant)
                for k in range(setting.relevant)
            )
        )
        if reached >= output:
            return steps
        weight, steps = weight @ grow, steps + small


@pytest.mark.parametrize(
    "tasks",
    [ring(6, 5), ring(6, 1), ring(6, 3), ((0, 1), (0, 2), (0, 3), (3, 4), (4, 5))],
    ids=["all", "ring:1", "ring:3", "a tree"],
)
def test_mean_field_steps_on_any_graph(tasks):
    setting = replace(M, tasks=tasks)
    assert mean_field_steps(setting, "mamba", 0.5) == pytest.approx(brute_force_steps(setting, "mamba", 0.5), abs=0.002)


@pytest.mark.parametrize("relevant", [2, 4, 8, 16])
def test_a_complete_graph_has_a_closed_form(relevant):
    setting = replace(M, relevant=relevant, tasks=ring(relevant, relevant - 1), init_scale=0.02)
    for model in ("mamba", "linear"):
        g = gate_sum(model, 20)
        closed = (relevant - 1) / (9 * 0.4 * g) * math.log(2 * 0.5 / (0.4 * g * (0.02 * 3) ** 2))
        assert mean_field_steps(setting, model) == pytest.approx(closed, rel=1e-9)


def test_the_logarithm_that_the_theorem_leaves_out():
    halved = replace(M, init_scale=M.init_scale / 2)
    assert values(halved)["steps.claimed"] == values(M)["steps.claimed"]
    more = mean_field_steps(halved, "mamba") - mean_field_steps(M, "mamba")
    assert more == pytest.approx(5 / 1.8 * math.log(4), rel=1e-5)


def test_steps_follow_the_law_where_the_logarithm_is_held():
    steps = mean_field_steps(M, "mamba")
    assert mean_field_steps(replace(M, step_size=0.5), "mamba") == pytest.approx(2 * steps)
    beta = replace(M, relevant_norm=6.0, init_scale=0.1)  # the same δβ
    assert mean_field_steps(beta, "mamba") == pytest.approx(steps / 4)
    fractions = [0.0, 0.3, 0.6, 0.9, 0.99]
    found = [mean_field_steps(replace(M, train_outlier_fraction=p), "mamba") for p in fractions]
    assert found == sorted(found)
    assert found[-1] > 30 * found[0]
    assert mean_field_steps(replace(M, train_length=160), "mamba") == pytest.approx(steps, rel=1e-5)


def test_a_model_that_starts_trained_needs_no_steps():
    """At δ = 0.2 and l = 20 the linear Transformer's output is 1.44 before the first step."""
    found = values(M)
    assert found["steps.other.mean-field"] == 0
    assert "it starts there" in remarks(M)["steps.other.mean-field"]
    assert math.isnan(found["ratio.mean-field"])
    small = values(replace(M, init_scale=0.01))
    assert small["ratio.mean-field"] == pytest.approx(
        40 * math.log(1 / (0.2 * 9e-4)) / math.log(1 / (8 * 9e-4)), rel=1e-5
    )


def test_the_other_model_is_shown_beside():
    mamba, linear = values(M), values(replace(M, model="linear"))
    for kind in ("claimed", "mean-field"):
        assert mamba[f"steps.{kind}"] == linear[f"steps.other.{kind}"]
        assert linear[f"steps.{kind}"] == mamba[f"steps.other.{kind}"]


def test_tasks_that_fail_lie_where_the_kernel_is_positive():
    for relevant, steps in ((6, 1), (6, 2), (8, 1), (8, 2), (12, 3), (5, 1)):
        setting = replace(M, relevant=relevant, tasks=ring(relevant, steps))
        kernel, distances = setting.graph.kernel(0.3), setting.graph.distances
        assert (kernel[distances == 2] > 0).all()
        assert (kernel[distances == 1] < 0).all()
        assert values(setting)["tasks.failing"] == (distances == 2).sum()


def test_exact_counts_leave_a_clean_example():
    assert values(replace(M, test_outlier_fraction=0.8, exact_count=True))["floor.flip"] == 0
    assert "inside" in remarks(replace(M, test_outlier_fraction=0.59))["tolerated.mamba"]
    assert "outside" in remarks(M)["tolerated.mamba"]


def test_softmax_attention():
    found = values(TransformerSetting())
    assert found["T.steps"] == pytest.approx(4.480, abs=1e-3)
    assert found["tasks.share"] == pytest.approx(0.2)
    assert found["floor.lacking"] == pytest.approx(0.6**20)
    assert math.isnan(found["S.steps"])
    wide = TransformerSetting(neurons=100_000)
    room = 1 - math.sqrt(36 * math.log(76_800) / 100_000)
    assert values(wide)["S.steps"] == pytest.approx(math.sqrt(30 / room) / 0.75)
    assert "1/C" in remarks(replace(wide, relevant_fraction=0.4))["S.steps"]


def test_limits_of_the_fraction_of_outliers():
    few, many = (values(replace(M, train_outlier_fraction=p)) for p in (0.0, 1 - 1e-9))
    assert few["steps.claimed"] == pytest.approx(6 / 9)
    assert few["steps.mean-field"] == pytest.approx(5 / 4.5 * math.log(1 / 0.18), rel=1e-5)
    assert few["tolerated.mamba"] == 0  # nothing was learnt about outliers
    assert many["steps.claimed"] > 1e8
    assert many["tolerated.mamba"] == pytest.approx(1)
    floors = [values(replace(M, test_outlier_fraction=a))["floor.flip"] for a in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert floors == sorted(floors)
    assert (floors[0], floors[-1]) == (0, 1)


def test_the_linear_model_needs_ever_longer_prompts_towards_one_half():
    linear = replace(M, model="linear")
    needed = []
    for alpha in (0.1, 0.3, 0.4, 0.45, 0.499):
        (check,) = [c for c in conditions(replace(linear, test_outlier_fraction=alpha)) if c.id == "M-thm4 (d)"]
        needed.append(check.right)
    assert needed == sorted(needed)
    assert needed[-1] == pytest.approx(needed[1] * (0.499 / 0.3) * (0.2 / 0.001) ** 2, rel=1e-6)
    for alpha, inside in ((0.499, "inside"), (0.5, "outside")):
        assert inside in remarks(replace(linear, test_outlier_fraction=alpha))["tolerated.linear"]


def test_more_tasks_up_to_the_complete_graph_leave_fewer_that_fail():
    failing = [values(replace(M, tasks=ring(6, steps)))["tasks.failing"] for steps in (1, 2, 3)]
    assert failing == [12, 6, 0]
