"""The conditions of paper M: its setting, Condition 1, Theorems 1 to 4, and what its proofs and iclab add.

Each function returns the two sides of one condition. Where the paper writes ≳ or Θ, the constant is 1. poly(x) is read
as x, its smallest reading.
"""

from __future__ import annotations

import math

from iclab.theory.check import Rules, Sides, over, power
from iclab.theory.setting import MambaSetting

MAMBA: Rules[MambaSetting] = Rules()
"""The conditions of paper M in its order."""
OF_MODEL = {
    "mamba": ("M-thm1", "M-thm2", "M-cor1", "M-lem3", "M-lem4", "M-velocity"),
    "linear": ("M-thm3", "M-thm4"),
}
"""The statements that are about one of the two models; all others are about both."""


# The setting.


@MAMBA.add("M-setting", "layers", "layers ≤ 1", "≤")
def _layers(s: MambaSetting) -> Sides:
    """§2: the theorems are about one layer."""
    return Sides(s.layers, 1)


@MAMBA.add("M-setting", "δ", "δ ≤ 0.2", "≤")
def _start(s: MambaSetting) -> Sides:
    """§2: the diagonal entries of W_B and W_C start at δ ∈ (0, 0.2]."""
    return Sides(s.init_scale, 0.2)


@MAMBA.add("M-setting", "η", "η ≤ 1", "≤")
def _step_size(s: MambaSetting) -> Sides:
    """Theorems 1 and 3 (iv)."""
    return Sides(s.step_size, 1)


@MAMBA.add("M-setting", "M1 + M2", "M1 + M2 < d", "<")
def _dimension(s: MambaSetting) -> Sides:
    """§3.2."""
    return Sides(s.relevant + s.irrelevant, s.dimension)


@MAMBA.add("M-setting", "β", "β ≥ 1", "≥")
def _norm(s: MambaSetting) -> Sides:
    """§3.2."""
    return Sides(s.relevant_norm, 1)


@MAMBA.add("M-setting", "K", "K ≤ 1/2", "≤")
def _train_scale(s: MambaSetting) -> Sides:
    """(6): κ ~ U(−K, K) in training."""
    return Sides(s.train_irrelevant_scale, 0.5)


@MAMBA.add("M-setting", "Definitions 1, 2", "departures from Definitions 1 and 2 and Algorithm 1 ≤ 0", "≤")
def _departures(s: MambaSetting) -> Sides:
    """Definitions 1 and 2, Algorithm 1."""
    return Sides(len(s.departures), 0, "; ".join(s.departures))


@MAMBA.add("M-cond1", "Condition 1", "fewest training tasks that map a µ_j to one label ≥ |T_tr| / M1 (≥ 1)", "≥")
def condition_1(s: MambaSetting) -> Sides:
    """Condition 1: every µ_j means +1 in |T_tr|/M1 ≥ 1 tasks, and −1 in as many. The mean is |T_tr|/M1, so all are."""
    remark = "does not suffice, see M-kernel" if not s.graph.complete else ""
    return Sides(min(s.label_counts), max(1.0, len(s.tasks) / s.relevant), remark)


@MAMBA.add("M-kernel", "complete graph", "pairs of patterns that share a training task ≥ M1 (M1 − 1) / 2", "≥")
def complete_graph(s: MambaSetting) -> Sides:
    """iclab's (A): W_BᵀW_C = δ² exp(2τL). Only a complete graph has no positive entry between different patterns."""
    edges = int((s.graph.weights > 0).sum()) // 2
    apart = int((s.graph.distances == 2).sum())
    remark = f"exp(2τL) is positive between patterns at distance 2: {apart} tasks are predicted to fail"
    return Sides(edges, s.relevant * (s.relevant - 1) / 2, "" if s.graph.complete else remark)


@MAMBA.add("M-velocity", "(C)", "p_a κ_a² ‖v*‖² M1 ≥ V β²", "≥", order=True)
def gate_in_time(s: MambaSetting) -> Sides:
    """iclab's (C): the logit gap of outliers grows faster than the clean logit falls. Compare with Theorem 1 (ii)."""
    left = s.train_outlier_fraction * (s.train_outlier_scale * s.outlier_norm) ** 2 * s.relevant
    return Sides(left, s.outlier * s.relevant_norm**2, "≫, read as ≥; depends on p_a and ‖v*‖, which (ii) leaves out")


# Theorems 1 and 3: training.


def batch_needed(s: MambaSetting, epsilon: float, *, gated: bool) -> float:
    """Return B_M of Theorem 1 (i), or B_T of Theorem 3 (i) for the linear Transformer."""
    clean = 1 - s.train_outlier_fraction
    terms = [epsilon**-2, s.relevant / clean]
    if gated:
        terms.append(over(s.relevant_norm**-4 * s.outlier**2, (s.train_outlier_scale * clean) ** 2))
    return max(terms) * math.log(1 / epsilon)


def _needs_batch(s: MambaSetting, *, gated: bool) -> Sides:
    reached = smallest_epsilon(s, gated=gated)
    return Sides(
        s.batch_size,
        batch_needed(s, s.epsilon, gated=gated),
        f"at ε = {s.epsilon:g}; B = {s.batch_size} allows ε ≥ {reached:.2g}",
    )


def smallest_epsilon(s: MambaSetting, *, gated: bool) -> float:
    """Return the smallest ε for which the batch is large enough; 1 if there is none below 1."""
    low, high = 1e-12, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        if middle in (low, high):  # nothing lies between them
            break
        low, high = (low, middle) if batch_needed(s, middle, gated=gated) <= s.batch_size else (middle, high)
    return high


def largest_scale(s: MambaSetting) -> float:
    """Return V β (1 − p_a) p_a⁻¹ ε⁻¹, the upper bound of (ii)."""
    return over(s.outlier * s.relevant_norm * (1 - s.train_outlier_fraction), s.train_outlier_fraction * s.epsilon)


@MAMBA.add("M-lem3", "B", "B ≥ max{M1 (1 − p_a)⁻¹, (1 − p_a)⁻²} log ε⁻¹", "≥", order=True)
def _lemma_3(s: MambaSetting) -> Sides:
    """Lemma 3."""
    clean = 1 - s.train_outlier_fraction
    return Sides(s.batch_size, max(s.relevant / clean, clean**-2) * math.log(1 / s.epsilon))


@MAMBA.add("M-lem4", "(31)", "l_tr ≥ (1 − p_a)⁻¹ log ε⁻¹", "≥", order=True)
def _lemma_4(s: MambaSetting) -> Sides:
    """(31) of Lemma 4, on which Theorem 1 rests."""
    right = math.log(1 / s.epsilon) / (1 - s.train_outlier_fraction)
    return Sides(s.train_length, right, "(31) and (65) have log ε⁻¹ where (8) and (15) have log M1")


@MAMBA.add("M-thm1", "(i)", "B ≥ max{ε⁻², M1 (1 − p_a)⁻¹, β⁻⁴ V² κ_a⁻² (1 − p_a)⁻²} log ε⁻¹", "≥", order=True)
def _theorem_1_batch(s: MambaSetting) -> Sides:
    """Theorem 1 (i), B_M."""
    return _needs_batch(s, gated=True)


@MAMBA.add("M-thm3", "(i)", "B ≥ max{ε⁻², M1 (1 − p_a)⁻¹} log ε⁻¹", "≥", order=True)
def _theorem_3_batch(s: MambaSetting) -> Sides:
    """Theorem 3 (i), B_T."""
    return _needs_batch(s, gated=False)


@MAMBA.add("M-thm1", "(ii) lower", "κ_a ≥ V β⁻⁴", "≥", order=True)
def _theorem_1_scale(s: MambaSetting) -> Sides:
    """Theorem 1 (ii)."""
    if not s.train_outlier_fraction:
        remark = "p_a = 0: nothing is learnt about outliers, whatever κ_a"
    else:
        remark = f"(168) with (170) gives κ_a ≥ V β⁴ = {s.outlier * s.relevant_norm**4:.4g}"
    return Sides(s.train_outlier_scale, s.outlier * s.relevant_norm**-4, remark)


@MAMBA.add("M-thm1", "(ii) upper", "κ_a ≤ V β (1 − p_a) p_a⁻¹ ε⁻¹", "≤", order=True)
@MAMBA.add("M-thm3", "(ii)", "κ_a ≤ V β (1 − p_a) p_a⁻¹ ε⁻¹", "≤", order=True)
def _scale_above(s: MambaSetting) -> Sides:
    """Theorem 1 (ii), Theorem 3 (ii): the same bound, although Remark 4 calls that of Theorem 3 larger."""
    return Sides(s.train_outlier_scale, largest_scale(s))


@MAMBA.add("M-thm1", "(iii) lower", "l_tr ≥ (1 − p_a)⁻¹ log M1", "≥", order=True)
@MAMBA.add("M-thm3", "(iii)", "l_tr ≥ (1 − p_a)⁻¹ log M1", "≥", order=True)
def _length(s: MambaSetting) -> Sides:
    """(8), Theorem 3 (iii)."""
    return Sides(s.train_length, math.log(s.relevant) / (1 - s.train_outlier_fraction))


@MAMBA.add("M-thm1", "(iii) upper", "l_tr ≤ p_a⁻¹ poly(M1^κ_a)", "≤", order=True)
def _length_above(s: MambaSetting) -> Sides:
    """(8)."""
    right = over(power(s.relevant, s.train_outlier_scale), s.train_outlier_fraction)
    return Sides(s.train_length, right, "poly(x) read as x")


@MAMBA.add("M-thm1", "(iv)", "T ≥ η⁻¹ (1 − p_a)⁻¹ β⁻² M1", "≥", order=True)
def _steps(s: MambaSetting) -> Sides:
    """(9)."""
    return Sides(s.steps, steps_claimed(s), "leaves out a factor log 1/(δβ)², see the predictions")


def steps_claimed(s: MambaSetting, *, gated: bool = True) -> float:
    """Return T_M of (9), or T_T of (14), with constant 1."""
    steps = s.relevant / (s.step_size * (1 - s.train_outlier_fraction) * s.relevant_norm**2)
    return steps if gated else steps / s.train_length


@MAMBA.add("M-cor1", "D.4.1", "κ_a p_a ≤ V β", "≤", order=True)
def _corollary_1(s: MambaSetting) -> Sides:
    """D.4.1: used in the proof of Corollary 1, not stated there."""
    remark = "used in the proof of (16), not stated in the corollary"
    return Sides(s.train_outlier_scale * s.train_outlier_fraction, s.outlier * s.relevant_norm, remark)


@MAMBA.add("M-thm3", "(iv)", "T ≥ η⁻¹ (1 − p_a)⁻¹ β⁻² l_tr⁻¹ M1", "≥", order=True)
def _linear_steps(s: MambaSetting) -> Sides:
    """(14)."""
    return Sides(s.steps, steps_claimed(s, gated=False), "leaves out a logarithm, see the predictions; (68) has β⁻¹")


# Theorems 2 and 4: tests.


@MAMBA.add("M-thm2", "(7)", "K' > 1", ">")
@MAMBA.add("M-thm4", "(7)", "K' > 1", ">")
def _test_scale(s: MambaSetting) -> Sides:
    """(7): κ' ~ U(−K', K') in tests."""
    return Sides(s.test_irrelevant_scale, 1, "as printed; a smaller K' makes prompts easier, not harder")


@MAMBA.add("M-thm2", "(a)", "L = min Σ λ_i > 0", ">")
@MAMBA.add("M-thm4", "(a)", "L = min Σ λ_i > 0", ">")
def _mixtures(s: MambaSetting) -> Sides:
    """(11): every test outlier is Σ λ_i v*_i + u with Σ λ_i ≥ L > 0."""
    u = f"‖u‖ = {s.outside_norm:g}: (11) allows any u, but D.2 drops it"
    return Sides(s.mixture_sum, 0, u if s.outside_norm else "")


@MAMBA.add("M-thm2", "(b) printed", "κ_a' ≥ κ_a", "≥")
def _test_strength(s: MambaSetting) -> Sides:
    """Theorem 2 (b) as printed."""
    return Sides(s.test_outlier_scale, s.train_outlier_scale, "the printed form; the proof needs κ_a' L ≥ κ_a")


@MAMBA.add("M-thm2", "(b) restored", "κ_a' ≥ κ_a / L", "≥")
def _restored_strength(s: MambaSetting) -> Sides:
    """Theorem 2 (b) with the L that (61) has, as κ_a' L − κ_a, and that (59) and (60) lack."""
    return Sides(s.test_outlier_scale, scale_needed(s), "as in (61); (59) and (60) lack L")


def scale_needed(s: MambaSetting) -> float:
    """Return κ_a / L, the test strength at which the weakest mixture moves the gate like a training outlier."""
    return over(s.train_outlier_scale, s.mixture_sum) if s.mixture_sum > 0 else math.inf


@MAMBA.add("M-thm2", "(b) upper", "κ_a' ≤ V β p_a⁻¹ κ_a⁻¹ L⁻¹ (1 − p_a) ε⁻¹", "≤", order=True)
def _strength_above(s: MambaSetting) -> Sides:
    """Theorem 2 (b)."""
    return Sides(s.test_outlier_scale, _largest_test_scale(s), "below (61) it is L⁻¹ (κ_a + …)")


@MAMBA.add("M-thm4", "(b)", "κ_a' ≤ V β p_a⁻¹ κ_a⁻¹ L⁻¹ (1 − p_a) l_tr ε⁻¹", "≤", order=True)
def _linear_strength_above(s: MambaSetting) -> Sides:
    """Theorem 4 (b)."""
    return Sides(s.test_outlier_scale, _largest_test_scale(s) * s.train_length)


def _largest_test_scale(s: MambaSetting) -> float:
    return over(largest_scale(s), s.train_outlier_scale * s.mixture_sum) if s.mixture_sum > 0 else math.inf


@MAMBA.add("M-thm2", "(c)", "α < min(1, p_a l_tr / l_ts)", "<")
def _fraction(s: MambaSetting) -> Sides:
    """Theorem 2 (c)."""
    right = min(1.0, s.train_outlier_fraction * s.train_length / s.test_length)
    remark = "p_a = 0: as printed it excludes even α = 0, which Theorem 1 covers" if not right else ""
    return Sides(s.test_outlier_fraction, right, remark)


@MAMBA.add("M-thm2", "(d) lower", "l_ts ≥ (1 − α)⁻¹ log M1", "≥", order=True)
def _test_length(s: MambaSetting) -> Sides:
    """(12)."""
    return Sides(s.test_length, over(math.log(s.relevant), 1 - s.test_outlier_fraction))


@MAMBA.add("M-thm2", "(d) upper", "l_ts ≤ α⁻¹ poly(M1^κ_a)", "≤", order=True)
def _test_length_above(s: MambaSetting) -> Sides:
    """(12)."""
    right = over(power(s.relevant, s.train_outlier_scale), s.test_outlier_fraction)
    return Sides(s.test_length, right, "poly(x) read as x")


@MAMBA.add("M-thm4", "(c)", "α < 1/2", "<")
def _half(s: MambaSetting) -> Sides:
    """Theorem 4 (c)."""
    return Sides(s.test_outlier_fraction, 0.5)


@MAMBA.add("M-thm4", "(d)", "l_ts ≥ max{(1 − α)⁻¹, (1/2 − α)⁻² α} log M1", "≥", order=True)
def _linear_test_length(s: MambaSetting) -> Sides:
    """(15)."""
    return Sides(s.test_length, linear_length(s.test_outlier_fraction, s.relevant))


def linear_length(fraction: float, relevant: int) -> float:
    """Return the right side of (15), max{(1 − α)⁻¹, (1/2 − α)⁻² α} log M1; infinite from α = 1/2 on.

    >>> round(linear_length(0.4, 6), 2)
    71.67
    """
    if fraction >= 0.5:
        return math.inf
    return max(1 / (1 - fraction), fraction / (0.5 - fraction) ** 2) * math.log(relevant)
