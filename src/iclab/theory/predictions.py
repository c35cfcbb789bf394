"""What theory predicts at a setting: the papers' laws with constant 1, and iclab's mean field with its logarithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from iclab.theory.check import finite
from iclab.theory.contexts import lacking
from iclab.theory.laws import Model, gate_sum, mean_field_steps
from iclab.theory.mamba_conditions import scale_needed, smallest_epsilon, steps_claimed
from iclab.theory.outliers import all_outliers, linear_outlier_bound, mamba_outlier_bound
from iclab.theory.setting import MambaSetting, Setting, TransformerSetting
from iclab.theory.transformer_conditions import steps_claimed as transformer_steps

LARGE_C = 2.0
"""The value taken for the constant C of S (6), of which S says only that it is large."""
MODELS: tuple[Model, ...] = ("mamba", "linear")
NAMES = {"mamba": "Mamba", "linear": "the linear Transformer"}


@dataclass(frozen=True)
class Prediction:
    """One predicted number."""

    id: str
    words: str
    formula: str
    value: float
    """NaN if the formula has no value at this setting; the remark says why."""
    remark: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data for JSON; numbers that are not finite become None."""
        return {name: finite(getattr(self, name)) for name in ("id", "words", "formula", "value", "remark")}


def predictions(setting: Setting) -> list[Prediction]:
    """Return every prediction at a setting.

    Example:
        >>> from iclab.theory.setting import ring
        >>> found = {p.id: p.value for p in predictions(MambaSetting(tasks=ring(6, 5)))}
        >>> round(found["steps.claimed"], 2), round(found["steps.mean-field"], 1)
        (1.67, 7.3)
    """
    return _mamba(setting) if isinstance(setting, MambaSetting) else _transformer(setting)


def _mamba(s: MambaSetting) -> list[Prediction]:
    return [*_training(s), *_kernel(s), *_testing(s)]


def _training(s: MambaSetting) -> list[Prediction]:
    law = {"mamba": "(9): η⁻¹ (1 − p_a)⁻¹ β⁻² M1", "linear": "(14): η⁻¹ (1 − p_a)⁻¹ β⁻² l_tr⁻¹ M1"}
    even = s.graph.complete and len(set(s.graph.weights[s.graph.weights > 0].tolist())) == 1
    other: Model = "linear" if s.model == "mamba" else "mamba"
    found = []
    for model, id_, who in (
        (s.model, "steps", NAMES[s.model]),
        (other, "steps.other", f"{NAMES[other]} at the same η"),
    ):
        mean = mean_field_steps(s, model)
        remarks = [f"gate frozen, g = {gate_sum(model, s.train_length):.4g}"]
        remarks += [] if even else ["(A) solved for this task graph"]
        remarks += [] if mean else ["it starts there"]
        found += [
            Prediction(
                f"{id_}.claimed",
                f"steps by the theorem, {who}",
                law[model],
                steps_claimed(s, gated=model == "mamba"),
                "constant 1, no logarithm",
            ),
            Prediction(
                f"{id_}.mean-field",
                f"steps until the loss is about 1/2, {who}",
                "(E): (M1 − 1) / (η β² (1 − p_a) g) · log(2f / ((1 − p_a) g δ² β²)), f = 1/2",
                mean,
                "; ".join(remarks),
            ),
        ]
    epsilon = smallest_epsilon(s, gated=s.model == "mamba")
    where = "Theorem 1 (i)" if s.model == "mamba" else "Theorem 3 (i)"
    return [*found, *_ratios(s), Prediction("epsilon", "smallest ε that B allows", where, epsilon, "constant 1")]


def _ratios(s: MambaSetting) -> list[Prediction]:
    mamba, linear = (mean_field_steps(s, model) for model in MODELS)
    gates = gate_sum("linear", s.train_length) / gate_sum("mamba", s.train_length)
    ratio = mamba / linear if linear else math.nan
    remark = "same η" if linear else "no value: the linear Transformer starts above E zF = 1/2"
    return [
        Prediction("ratio.claimed", "T_M / T_T by Remark 4", "l_tr", s.train_length, "up to a constant"),
        Prediction("ratio.gates", "T_M / T_T without logarithms", "g_linear / g_Mamba", gates, "of the mean field"),
        Prediction("ratio.mean-field", "T_M / T_T with logarithms", "(E) / (E)", ratio, remark),
    ]


def _kernel(s: MambaSetting) -> list[Prediction]:
    distances = s.graph.distances
    total, apart, never = s.relevant * (s.relevant - 1), int((distances == 2).sum()), int((distances < 0).sum())
    remark = "the graph is complete" if s.graph.complete else f"of {total} tasks"
    remark += f"; {never} more join patterns without a path between them" if never else ""
    return [
        Prediction(
            "tasks.failing",
            "tasks that clean prompts fail on: W_BᵀW_C is positive between their patterns",
            "(A): exp(2τL) > 0 at graph distance 2",
            apart,
            remark,
        )
    ]


def _testing(s: MambaSetting) -> list[Prediction]:
    alpha = s.test_outlier_fraction
    mamba = mamba_outlier_bound(s.train_outlier_fraction, s.train_length, s.test_length)
    bounds = {
        "mamba": ("Theorem 2 (c): min(1, p_a l_tr / l_ts)", mamba),
        "linear": ("Theorem 4 (c): 1/2", linear_outlier_bound()),
    }
    found = [
        Prediction(
            f"tolerated.{model}",
            f"α below which {NAMES[model]} answers right",
            formula,
            bound,
            f"α = {alpha:g} is {'inside' if alpha < bound else 'outside'}; sufficient, not necessary",
        )
        for model, (formula, bound) in bounds.items()
    ]
    floor = all_outliers(alpha, s.test_length, s.exact_count)
    counted = "with exact counts" if s.exact_count else "prompts in which every example is an outlier"
    strength = "κ_a' from which the weakest test outlier moves the gate like a training outlier"
    believed = "error under flipped labels of a model that believes them"
    return [
        *found,
        Prediction("strength", strength, "κ_a / L", scale_needed(s), f"κ_a' = {s.test_outlier_scale:g} here"),
        Prediction("floor.flip", believed, "α^l_ts", floor, counted),
        Prediction("floor.minimax", "error that no model avoids if the label rule is unknown", "½ α^l_ts", floor / 2),
    ]


def _transformer(s: TransformerSetting) -> list[Prediction]:
    room, spread = 1 - _epsilon_m(s) - s.noise * s.relevant, LARGE_C - 1 / s.relevant_fraction
    steps, remark = math.nan, "constant 1, C = 2 taken"
    if room <= 0:
        remark = "no value: m is too small or τ too large, 1 − ε_m − τ M1 ≤ 0"
    elif spread <= 0:
        remark = "no value: α ≤ 1/C, C = 2 taken"
    else:
        steps = math.sqrt((s.relevant + s.irrelevant) / room) / (s.signal * s.step_size * spread)
    law = "S (6): √M λ*⁻¹ η⁻¹ (1 − ε_m − τ M1)^(−1/2) (C − α⁻¹)⁻¹"
    return [
        Prediction(
            "T.steps",
            "steps by T Theorem 3.3",
            "T (10): η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1",
            transformer_steps(s),
            "constant 1; the law leaves out m and δ",
        ),
        Prediction("S.steps", "steps by S Theorem 1", law, steps, remark),
        Prediction(
            "tasks.share",
            "share of all tasks that training shows",
            "|T_tr| / (M1 (M1 − 1))",
            len(s.tasks) / (s.relevant * (s.relevant - 1)),
            "T §3.3 prints (M1 − 1)^(−1/2) for M1 tasks; it is (M1 − 1)⁻¹",
        ),
        Prediction(
            "floor.lacking",
            "share of test prompts without an example of the query's pattern",
            "(1 − α'/2)^l_ts",
            lacking(s.test_relevant_fraction, s.test_length),
        ),
    ]


def _epsilon_m(s: TransformerSetting) -> float:
    """Return the smallest ε_m that S (35) allows with m neurons: √(M1² log N / m)."""
    return math.sqrt(s.relevant**2 * math.log(s.batch_size * max(s.steps, 2)) / s.neurons)
