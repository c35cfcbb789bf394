"""Claims of the papers that no experiment tests yet. An experiment with the same id replaces the line."""

from __future__ import annotations

from typing import NamedTuple


class Planned(NamedTuple):
    """A claim without an experiment."""

    id: str
    where: str
    statement: str


PLANNED = (
    Planned(
        "M-thm1",
        "M Theorem 1",
        "Mamba needs T ∝ η⁻¹ (1 − p_a)⁻¹ β⁻² M1 steps, and large enough batches, κ_a and prompts",
    ),
    Planned("M-thm2", "M Theorem 2", "α < min(1, p_a l_tr / l_ts), κ_a' ≥ κ_a and Σλ ≥ L > 0 suffice for Mamba"),
    Planned("M-thm3", "M Theorem 3", "the linear Transformer needs fewer steps than Mamba by a factor of l_tr"),
    Planned(
        "M-thm4", "M Theorem 4", "α < 1/2 suffices for the linear Transformer, with l_ts growing like (1/2 − α)⁻² α"
    ),
    Planned("M-cor1", "M Corollary 1", "attention concentrates on examples that share the query's pattern"),
    Planned(
        "M-cor2", "M Corollary 2", "gates are ≤ poly(M1)⁻¹ on outliers, ≥ Θ(2^−(j−1)) on the j-th nearest clean example"
    ),
    Planned(
        "M-lem3",
        "M Lemmas 3 to 6",
        "W_B and W_C grow along µ, w along v* and µ in two phases; Σ G_i (l − i + 1) is bounded",
    ),
    Planned("M-tab6", "M Table 6", "SST-2 accuracy on 5, 7, 10 and all components: 74.08, 76.72, 78.90, 80.05 %"),
    Planned("M-tab7", "M Table 7", "SST-2 in context: Mamba 74.10 / 73.86 / 72.45 %, linear 70.18 / 69.98 / 69.82 %"),
    Planned(
        "M-gates", "M E.6", "Mamba-2, RetNet, gated retention and GLA have gates like Mamba's, each in its own form"
    ),
    Planned("M-classes", "M E.7", "2^H classes are H binary levels, one per head"),
    Planned("M-regression", "M E.8", "the same mechanism with real-valued labels and squared loss"),
    Planned(
        "M-review",
        "the review of M",
        "what remains true with non-orthogonal patterns, two layers, far too strong outliers",
    ),
    Planned("M-hybrid", "M §1.2, questions to M", "models that mix attention layers and gated layers"),
    Planned("T-thm3.3", "T Theorem 3.3", "T ∝ η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1 steps; M1 tasks suffice"),
    Planned("T-thm3.4", "T Theorem 3.4", "the model generalises out of domain if every S_j ≥ 1"),
    Planned(
        "T-thm3.7", "T Theorem 3.7", "rows of W_O W_V form two groups; pruning a share R of the large group costs Ω(R)"
    ),
    Planned("T-prop4.1", "T Proposition 4.1", "W_Q and W_K align with the query's pattern"),
    Planned("T-cor4.3", "T Corollary 4.3", "attention on the query's pattern is 1 − Θ(M1^−C)"),
    Planned("T-prop4.5", "T Proposition 4.5", "neurons align with the mean pattern and ±q"),
    Planned("S-thm1", "S Theorem 1", "how the required number of samples depends on λ*, τ and α"),
    Planned("S-thm2", "S Theorem 2", "generalises out of domain with non-negative mixtures if l_ts ≥ 2/α'"),
    Planned("S-prop1", "S Proposition 1", "‖W_Q µ‖ and ‖W_K µ‖ grow, ‖W_Q ν‖ and ‖W_K ν‖ do not"),
    Planned("S-prop2", "S Proposition 2", "the label part of the MLP is larger than its feature part"),
    Planned("S-cor1", "S Corollary 1", "attention concentrates on the query's pattern"),
)
"""In the order of the papers."""
