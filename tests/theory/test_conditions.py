"""Conditions of the theorems at the papers' own settings, by hand; limits; what no theorem allows."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.config import InputError
from iclab.theory.check import Check
from iclab.theory.conditions import conditions, missed
from iclab.theory.mamba_conditions import batch_needed, linear_length, smallest_epsilon
from iclab.theory.setting import MambaSetting, TransformerSetting, ring

M, T = MambaSetting(), TransformerSetting()
S = replace(T, init_scale=0.09, train_irrelevant_scale=1.0)
LINEAR = replace(M, model="linear")


def at(setting):
    return {check.id: check for check in conditions(setting)}


# M §4 with p_a = 0.6; T §5; iclab's B, m and T. Worked by hand: (left, right, met).
BY_HAND = [
    (M, "M-thm1 (i)", 128, 1e4 * 4.60517, False),  # ε⁻² log ε⁻¹ at 0.01
    (M, "M-thm1 (ii) lower", 2, 3 / 81, True),
    (M, "M-thm1 (ii) upper", 2, 3 * 3 * 0.4 / 0.6 / 0.01, True),  # 600
    (M, "M-thm1 (iii) lower", 20, 1.791759 / 0.4, True),  # 4.479
    (M, "M-thm1 (iii) upper", 20, 36 / 0.6, True),
    (M, "M-thm1 (iv)", 1000, 6 / 0.4 / 9, True),  # 1.667
    (M, "M-thm2 (a)", 0.3, 0, True),
    (M, "M-thm2 (b) printed", 6.67, 2, True),
    (M, "M-thm2 (b) restored", 6.67, 2 / 0.3, True),  # 6.667
    (M, "M-thm2 (b) upper", 6.67, 600 / (2 * 0.3), True),
    (M, "M-thm2 (c)", 0.6, 0.6, False),  # strictly below
    (M, "M-thm2 (d) lower", 20, 1.791759 / 0.4, True),
    (M, "M-thm2 (d) upper", 20, 36 / 0.6, True),
    (M, "M-velocity (C)", 0.6 * 4 * 9 * 6, 27, True),  # 4.8 times
    (M, "M-cor1 D.4.1", 1.2, 9, True),
    (M, "M-lem3 B", 128, 15 * 4.60517, True),
    (M, "M-lem4 (31)", 20, 4.60517 / 0.4, True),
    (M, "M-cond1 Condition 1", 3, 3, True),
    (M, "M-kernel complete graph", 15, 15, True),
    (M, "M-setting M1 + M2", 16, 30, True),
    (LINEAR, "M-thm3 (i)", 128, 1e4 * 4.60517, False),
    (LINEAR, "M-thm3 (iv)", 1000, 6 / 0.4 / 9 / 20, True),
    (LINEAR, "M-thm4 (b)", 6.67, 20 * 600 / (2 * 0.3), True),
    (LINEAR, "M-thm4 (c)", 0.6, 0.5, False),
    (LINEAR, "M-thm4 (d)", 20, math.inf, False),
    (T, "T-thm3.3 (i)", 200, 36 * 1.791759, True),  # 64.5
    (T, "T-thm3.3 (ii)", 128, 1e4 * 1.791759, False),  # 17,918
    (T, "T-thm3.3 (iii) l_tr", 20, 1.791759 / 0.8, True),
    (T, "T-thm3.3 (iii) l_ts", 20, 1.25, True),
    (T, "T-thm3.3 (iv)", 600, 6 * 2.4 ** (-2 / 3) * 1.338566, True),
    (T, "T-thm3.3 C.5", 20, 24 * 1.791759, False),  # 43
    (T, "T-setting §3.2", 24, 6, False),
    (T, "T-setting §2.1", 60, 60, False),
    (T, "T-thm3.7 α'", 0.8, 6**-0.5, True),
    (T, "T-kernel complete graph", 6, 15, False),
    (S, "S-setting M1 + M2", 30, 36, False),
    (S, "S-thm1 (35)", 200, 4 * 36 * math.log(128 * 600), False),  # 1,620
    (S, "S-setting β", 3, 0.583198, False),
    (S, "S-setting δ", 0.09, 0.1, True),
    (S, "S-thm1 (5)", 20, 2 * math.log(30) / 0.8, True),
    (S, "S-thm1 B", 128, 6 * 1.791759, True),
    (S, "S-thm1 τ", 0, 1 / 6, True),
    (S, "S-thm2 l_ts", 20, 2.5, True),
]


@pytest.mark.parametrize(("setting", "id_", "left", "right", "met"), BY_HAND, ids=[row[1] for row in BY_HAND])
def test_the_papers_own_values(setting, id_, left, right, met):
    check = at(setting)[id_]
    assert check.left == pytest.approx(left, rel=1e-5)
    assert check.right == pytest.approx(right, rel=1e-5)
    assert check.holds is met


def test_the_batch_of_the_experiments_allows_no_small_error():
    assert smallest_epsilon(M, gated=True) == pytest.approx(0.127, abs=5e-4)
    assert batch_needed(M, smallest_epsilon(M, gated=True), gated=True) == pytest.approx(128, rel=1e-6)


def test_weak_outliers_raise_the_batch_of_mamba_only():
    weak = replace(M, train_outlier_scale=0.001)
    assert batch_needed(weak, 0.1, gated=True) == pytest.approx(9 / 81 / (0.001 * 0.4) ** 2 * math.log(10))
    assert batch_needed(weak, 0.1, gated=False) == batch_needed(M, 0.1, gated=False)


def test_the_figure_stands_outside_its_theorem():
    fig2 = replace(M, test_outlier_fraction=0.8)
    assert [c.id for c in missed("M-thm2", conditions(fig2))] == ["M-thm1 (i)", "M-thm2 (c)"]
    inside = replace(fig2, test_outlier_fraction=0.5, batch_size=50_000)
    assert missed("M-thm2", conditions(inside)) == []
    assert [c.id for c in missed("M-thm2", conditions(replace(inside, test_outlier_scale=6.0)))] == [
        "M-thm2 (b) restored"
    ]
    tables = replace(M, train_outlier_fraction=0.4, test_outlier_fraction=0.5, layers=3)
    assert at(tables)["M-thm2 (c)"].right == pytest.approx(0.4)
    assert not at(tables)["M-setting layers"].holds


def test_a_model_has_its_own_theorems():
    mamba, linear = ({check.theorem for check in conditions(s)} for s in (M, LINEAR))
    assert {"M-thm1", "M-thm2", "M-velocity"} <= mamba - linear
    assert linear - mamba == {"M-thm3", "M-thm4"}
    assert {"M-cond1", "M-kernel", "M-setting"} <= mamba & linear


def test_without_outliers_in_training():
    clean = at(replace(M, train_outlier_fraction=0.0, test_outlier_fraction=0.0))
    assert clean["M-thm1 (iii) lower"].right == pytest.approx(math.log(6))
    assert clean["M-thm1 (iii) upper"].right == clean["M-thm1 (ii) upper"].right == math.inf
    assert clean["M-thm1 (ii) upper"].holds
    assert not clean["M-velocity (C)"].holds
    assert not clean["M-thm2 (c)"].holds
    assert "excludes even α = 0" in clean["M-thm2 (c)"].remark


def test_nearly_only_outliers_ask_for_everything():
    fractions = [0.0, 0.5, 0.9, 0.99, 0.999]
    found = [at(replace(M, train_outlier_fraction=p)) for p in fractions]
    for id_ in ("M-thm1 (iii) lower", "M-thm1 (iv)", "M-lem3 B", "M-lem4 (31)"):
        rights = [checks[id_].right for checks in found]
        assert rights == sorted(rights)
        assert rights[-1] > 100 * rights[0], id_
    tops = [checks["M-thm1 (ii) upper"].right for checks in found]
    assert tops == sorted(tops, reverse=True)


def test_towards_one_half_the_linear_model_needs_ever_longer_prompts():
    assert linear_length(0.0, 6) == pytest.approx(math.log(6))
    assert linear_length(0.4, 6) == pytest.approx(0.4 / 0.01 * math.log(6))
    assert linear_length(0.499, 6) / linear_length(0.49, 6) == pytest.approx(100 * 0.499 / 0.49)
    assert linear_length(0.5, 6) == linear_length(0.7, 6) == math.inf
    assert [at(replace(LINEAR, test_outlier_fraction=a))["M-thm4 (c)"].holds for a in (0.499, 0.5)] == [True, False]
    lengths = [linear_length(alpha, 6) for alpha in np.linspace(0, 0.499, 50)]
    assert lengths == sorted(lengths)


def test_a_test_of_outliers_only():
    checks = at(replace(M, test_outlier_fraction=1.0))
    assert checks["M-thm2 (d) lower"].right == math.inf
    assert not checks["M-thm2 (c)"].holds


def test_mixtures_without_a_positive_sum_can_be_met_by_no_strength():
    checks = at(replace(M, mixture_sums=(0.5, 0.0)))
    assert not checks["M-thm2 (a)"].holds
    assert checks["M-thm2 (b) restored"].right == math.inf
    assert math.isnan(at(replace(M, mixture_sums=(-0.3,)))["M-thm2 (a)"].slack)


@pytest.mark.parametrize(
    ("relevant", "steps", "edges", "complete", "failing"),
    [(6, 1, 6, False, 12), (6, 2, 12, False, 6), (6, 3, 15, True, 0), (12, 1, 12, False, 24)],
)
def test_the_ring_is_complete_from_half_way_round(relevant, steps, edges, complete, failing):
    check = at(replace(M, relevant=relevant, tasks=ring(relevant, steps)))["M-kernel complete graph"]
    assert (check.left, check.holds) == (edges, complete)
    assert complete or f": {failing} tasks" in check.remark


def test_condition_1_is_about_labels_not_only_patterns():
    assert not at(replace(M, tasks=((0, 1), (2, 3), (4, 5))))["M-cond1 Condition 1"].holds
    assert not at(replace(M, tasks=tuple((0, j) for j in range(1, 6))))["M-cond1 Condition 1"].holds  # a star
    assert at(replace(M, tasks=ring(6, 1)))["M-cond1 Condition 1"].holds
    assert not at(replace(M, tasks=ring(6, 1)[:-1]))["M-cond1 Condition 1"].holds


def test_out_of_domain():
    shifted = replace(T, mixture_sums=(1.28, 0.9), smallest_weight=-0.3, test_irrelevant_scale=5.0)
    checks = at(shifted)
    assert checks["T-thm3.4 (12)"].left == 0.9
    for id_ in ("T-thm3.4 (12)", "T-thm3.4 K'", "S-thm2 k_i"):
        assert not checks[id_].holds, id_


def test_two_patterns_have_no_log_log():
    assert "negative" in at(replace(T, relevant=2, tasks=((0, 1), (1, 0))))["S-setting β"].remark


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        (MambaSetting, {"train_outlier_fraction": 1.0}, r"train_outlier_fraction = 1.0: must be .* below 1"),
        (MambaSetting, {"train_length": 0}, "train_length = 0: must be at least 1"),
        (MambaSetting, {"test_length": 0}, "test_length = 0: must be at least 1"),
        (MambaSetting, {"epsilon": 1.0}, "epsilon = 1.0: must be above 0 and below 1"),
        (MambaSetting, {"epsilon": math.nan}, "epsilon = nan"),
        (MambaSetting, {"tasks": ()}, "the task graph is empty"),
        (MambaSetting, {"relevant": 1, "tasks": ((0, 1),)}, "relevant = 1: must be at least 2"),
        (MambaSetting, {"mixture_sums": ()}, "mixture_sums"),
        (MambaSetting, {"init_scale": 0.0}, "init_scale = 0.0"),
        (TransformerSetting, {"tasks": ()}, "the task graph is empty"),
        (TransformerSetting, {"relevant_fraction": 0.0}, "relevant_fraction = 0.0: must be above 0"),
    ],
)
def test_numbers_outside_every_theorem_are_refused_in_one_line(kind, changes, said):
    with pytest.raises(InputError, match=said) as caught:
        kind(**changes)
    assert "\n" not in str(caught.value)


positive = st.floats(1e-3, 1e3)


@given(left=positive, right=positive, relation=st.sampled_from(["≥", "≤", ">", "<", "≈"]))
def test_slack_tells_whether_a_condition_holds(left, right, relation):
    check = Check("M-thm1", "x", "", left, relation, right)
    if abs(check.slack - 1) > 1e-9:
        assert check.holds is (check.slack > 1)


@given(
    p=st.floats(0, 0.99),
    alpha=st.floats(0, 1),
    scale=st.floats(0, 50),
    length=st.integers(1, 500),
    epsilon=st.floats(1e-6, 0.999),
)
def test_every_condition_has_two_sides_at_any_setting(p, alpha, scale, length, epsilon):
    setting = replace(
        M,
        train_outlier_fraction=p,
        test_outlier_fraction=alpha,
        train_outlier_scale=scale,
        train_length=length,
        epsilon=epsilon,
    )
    for check in (*conditions(setting), *conditions(replace(setting, model="linear"))):
        assert not math.isnan(check.left + check.right), check.id
        assert check.as_data()["holds"] in (True, False)


def test_every_number_of_a_setting_matters():
    """A field that no condition and no prediction reads would be a promise that nothing keeps."""
    from iclab.theory.predictions import predictions

    def told(setting):
        return [(c.left, c.right, c.remark) for c in conditions(setting)] + [
            (p.value, p.remark) for p in predictions(setting)
        ]

    changed = {
        "tasks": ring(6, 2),
        "model": "linear",
        "departures": ("adam",),
        "mixture_sums": (0.1,),
        "exact_count": True,
    }
    changed |= {"train_outlier_fraction": 0.5, "test_outlier_fraction": 0.1, "relevant_fraction": 0.5, "epsilon": 0.5}
    changed |= {"test_relevant_fraction": 0.5, "signal": 0.5, "smallest_weight": -1.0}
    for setting in (M, S):
        for field in fields(setting):
            value = getattr(setting, field.name)
            other = changed[field.name] if field.name in changed else 2 * value + 1
            assert repr(told(setting)) != repr(told(replace(setting, **{field.name: other}))), field.name
