"""The conditions of papers T and S: softmax attention with an MLP.

Each function returns the two sides of one condition. Where a paper writes Ω, O or Θ, the constant is 1.
"""

from __future__ import annotations

import math

from iclab.theory.check import Rules, Sides
from iclab.theory.setting import TransformerSetting

TRANSFORMER: Rules[TransformerSetting] = Rules()
"""The conditions of paper T in its order, then those of paper S."""
LARGEST_SHARE = 0.5
"""S's ε_m is below 1/2, so (35) asks for at least 4 M1² log N neurons."""


# Paper T.


@TRANSFORMER.add("T-setting", "§2.1", "min(m_a, m_b) > d_X + d_Y", ">")
@TRANSFORMER.add("S-setting", "§2", "min(m_a, m_b) > d_X + d_Y", ">")
def _sizes(s: TransformerSetting) -> Sides:
    """T §2.1, S §2: sizes of W_Q, W_K and W_V."""
    return Sides(s.attention_size, s.dimension + s.label_dimension)


@TRANSFORMER.add("T-setting", "§3.2", "M2 ≤ M1", "≤", order=True)
def _irrelevant(s: TransformerSetting) -> Sides:
    """T §3.2: M2 ≤ O(M1)."""
    return Sides(s.irrelevant, s.relevant)


@TRANSFORMER.add("T-setting", "δ", "δ ≤ 0.2", "≤")
def _start(s: TransformerSetting) -> Sides:
    """T §2.3."""
    return Sides(s.init_scale, 0.2)


@TRANSFORMER.add("T-setting", "η", "η ≤ 1", "≤")
def _step_size(s: TransformerSetting) -> Sides:
    """T Theorem 3.3 (iv)."""
    return Sides(s.step_size, 1)


@TRANSFORMER.add("T-setting", "data", "departures from T's data and Algorithm 1 ≤ 0", "≤")
def _departures(s: TransformerSetting) -> Sides:
    """T §3.2, Algorithm 1; S's signal and noise are departures from T."""
    more = [*s.departures]
    if s.signal < 1 or s.noise > 0:
        more.append("tokens with S's signal or noise")
    return Sides(len(more), 0, "; ".join(more))


@TRANSFORMER.add(
    "T-cond3.2", "Condition 3.2", "fewest training tasks that map a µ_j to one label ≥ |T_tr| / M1 (≥ 1)", "≥"
)
@TRANSFORMER.add("S-lem1", "§3.3", "fewest training tasks that map a µ_j to one label ≥ |T| / M1 (≥ 1)", "≥")
def _covered(s: TransformerSetting) -> Sides:
    """T Condition 3.2, S §3.3: every µ_j has either label in |T_tr|/M1 ≥ 1 tasks."""
    return Sides(min(s.label_counts), max(1.0, len(s.tasks) / s.relevant))


@TRANSFORMER.add("T-thm3.3", "(i)", "m ≥ M1² log M1", "≥", order=True)
def _neurons(s: TransformerSetting) -> Sides:
    """T Theorem 3.3 (i)."""
    return Sides(s.neurons, s.relevant**2 * math.log(s.relevant))


@TRANSFORMER.add("T-thm3.3", "(ii)", "B ≥ max{ε⁻², M1} log M1", "≥", order=True)
def _batch(s: TransformerSetting) -> Sides:
    """T Theorem 3.3 (ii)."""
    return Sides(s.batch_size, max(s.epsilon**-2, s.relevant) * math.log(s.relevant), f"at ε = {s.epsilon:g}")


@TRANSFORMER.add("T-thm3.3", "(iii) l_tr", "l_tr ≥ max{log M1 / α, 1 / (β² α)}", "≥", order=True)
def _length(s: TransformerSetting) -> Sides:
    """T (9)."""
    return Sides(s.train_length, max(math.log(s.relevant), s.relevant_norm**-2) / s.relevant_fraction)


@TRANSFORMER.add("T-thm3.3", "(iii) l_ts", "l_ts ≥ 1 / α'", "≥")
def _test_length(s: TransformerSetting) -> Sides:
    """T (9)."""
    return Sides(s.test_length, 1 / s.test_relevant_fraction, "the query's pattern has a share of α'/2")


@TRANSFORMER.add("T-thm3.3", "(iv)", "T ≥ η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1", "≥", order=True)
def _steps(s: TransformerSetting) -> Sides:
    """T (10)."""
    return Sides(s.steps, steps_claimed(s), "leaves out m and δ")


def steps_claimed(s: TransformerSetting) -> float:
    """Return T of T (10), η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1, with constant 1."""
    shape = (s.relevant_fraction * s.relevant_norm) ** (-2 / 3)
    return s.relevant * shape * math.sqrt(math.log(s.relevant)) / s.step_size


@TRANSFORMER.add("T-thm3.3", "C.5", "l_tr ≥ max{M1, M2} log M1", "≥", order=True)
def _hidden_length(s: TransformerSetting) -> Sides:
    """T C.5: a longer prompt than (9), needed for (133) to (135)."""
    right = max(s.relevant, s.irrelevant) * math.log(s.relevant)
    return Sides(s.train_length, right, "used in the proof of Lemma B.5, not stated in the theorem")


@TRANSFORMER.add("T-thm3.4", "(12)", "min S_j ≥ 1", "≥")
def _sums(s: TransformerSetting) -> Sides:
    """T (12)."""
    if not s.mixture_sums:
        return Sides(1, 1, "the test is in domain: every S_j is 1")
    return Sides(min(s.mixture_sums), 1)


@TRANSFORMER.add("T-thm3.4", "K'", "K' ≤ 1", "≤", order=True)
def _test_scale(s: TransformerSetting) -> Sides:
    """T (8): K' ≤ O(1)."""
    return Sides(s.test_irrelevant_scale, 1)


@TRANSFORMER.add("T-thm3.7", "α'", "α' ≥ M1^(−1/2)", "≥", order=True)
def _pruning(s: TransformerSetting) -> Sides:
    """T Theorem 3.7."""
    return Sides(s.test_relevant_fraction, s.relevant**-0.5)


@TRANSFORMER.add("T-kernel", "complete graph", "pairs of patterns that share a training task ≥ M1 (M1 − 1) / 2", "≥")
def _complete(s: TransformerSetting) -> Sides:
    """iclab's: W_Q and W_K follow δ exp(τL) early on, so (18) needs a complete graph."""
    edges = int((s.graph.weights > 0).sum()) // 2
    remark = "W_Q and W_K follow δ exp(τL) early on, so (18) is predicted to fail"
    return Sides(edges, s.relevant * (s.relevant - 1) / 2, "" if s.graph.complete else remark)


# Paper S.


@TRANSFORMER.add("S-setting", "β", "β = Θ(log log M1)", "≈", order=True)
def _loglog(s: TransformerSetting) -> Sides:
    """S §3.2."""
    right = math.log(math.log(s.relevant))
    return Sides(s.relevant_norm, right, "read as: within a factor of 2" if right > 0 else "log log M1 is negative")


@TRANSFORMER.add("S-setting", "M1 + M2", "M1 + M2 ≥ M1²", "≥")
def _many(s: TransformerSetting) -> Sides:
    """S §3.2: M = M1 + M2 ≥ M1²."""
    return Sides(s.relevant + s.irrelevant, s.relevant**2)


@TRANSFORMER.add("S-setting", "δ", "δ < 0.1", "<")
def _small_start(s: TransformerSetting) -> Sides:
    """S §2: δ ∈ (0, 0.1)."""
    return Sides(s.init_scale, 0.1)


@TRANSFORMER.add("S-setting", "K", "K ≤ 1", "≤")
def _kappa(s: TransformerSetting) -> Sides:
    """S (3): |κ| ≤ 1."""
    return Sides(s.train_irrelevant_scale, 1)


@TRANSFORMER.add("S-setting", "α", "α < 1", "<")
def _open(s: TransformerSetting) -> Sides:
    """S §3.2: α ∈ (0, 1)."""
    return Sides(s.relevant_fraction, 1)


@TRANSFORMER.add("S-thm1", "(35)", "m ≥ ε_m⁻² M1² log N, ε_m < 1/2", "≥")
def _many_neurons(s: TransformerSetting) -> Sides:
    """S (35) with N = B T and the largest ε_m, 1/2."""
    samples = s.batch_size * max(s.steps, 1)
    return Sides(s.neurons, s.relevant**2 * math.log(samples) / LARGEST_SHARE**2, f"ε_m = 1/2, N = B T = {samples:,}")


@TRANSFORMER.add("S-thm1", "B", "B ≥ M1 log M1", "≥", order=True)
def _batch_s(s: TransformerSetting) -> Sides:
    """S Theorem 1, (39)."""
    return Sides(s.batch_size, s.relevant * math.log(s.relevant))


@TRANSFORMER.add("S-thm1", "(5)", "l_tr ≥ 2 log M / α", "≥", order=True)
def _length_s(s: TransformerSetting) -> Sides:
    """S (5)."""
    right = 2 * math.log(s.relevant + s.irrelevant) / s.relevant_fraction
    return Sides(s.train_length, right, "(38) has log M1")


@TRANSFORMER.add("S-thm1", "τ", "τ ≤ 1 / M1", "≤", order=True)
def _noise(s: TransformerSetting) -> Sides:
    """S Theorem 1."""
    return Sides(s.noise, 1 / s.relevant)


@TRANSFORMER.add("S-thm2", "k_i", "min k_i ≥ 0", "≥")
def _nonnegative(s: TransformerSetting) -> Sides:
    """S Theorem 2: mixtures with non-negative weights."""
    return Sides(s.smallest_weight, 0, "" if s.mixture_sums else "the test is in domain")


@TRANSFORMER.add("S-thm2", "M1'", "M1' ≤ M1", "≤")
def _mixture_count(s: TransformerSetting) -> Sides:
    """S Theorem 2."""
    return Sides(len(s.mixture_sums) or s.relevant, s.relevant)


@TRANSFORMER.add("S-thm2", "l_ts", "l_ts ≥ 2 / α'", "≥")
def _test_length_s(s: TransformerSetting) -> Sides:
    """S Theorem 2."""
    return Sides(s.test_length, 2 / s.test_relevant_fraction)
