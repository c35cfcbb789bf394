"""What the papers state: every theorem, corollary, lemma, proposition and condition, and claims that no figure shows.

A statement names its hypotheses, which `iclab.theory.conditions` checks at a setting. The report lists statements that
no experiment tests; an experiment with the same id takes the place of its line. M's Lemmas 1 and 2 are Chernoff's and
Hoeffding's inequalities and are not listed.
"""

from __future__ import annotations

from iclab.theory.statement import UNTESTED, Kind, Statement
from iclab.theory.statement import conditions_of as _all
from iclab.theory.transformer_statements import PAPER_S, PAPER_T

__all__ = ["BY_ID", "PAPER_M", "PAPER_S", "PAPER_T", "STATEMENTS", "UNTESTED", "Kind", "Statement", "required"]

_TRAINED = ("M-setting", "M-cond1", *_all("M-thm1", "(i)", "(ii) lower", "(ii) upper", "(iii) lower", "(iii) upper"))
_TRAINED_LINEAR = ("M-setting", "M-cond1", *_all("M-thm3", "(i)", "(ii)", "(iii)"))

PAPER_M = (
    Statement(
        "M-setting",
        "M §2, §3.2",
        "One layer, orthogonal patterns, prompts of Definitions 1 and 2, SGD",
        "setting",
        "(1)–(7)",
        _all("M-setting", "layers", "δ", "η", "M1 + M2", "β", "K", "Definitions 1, 2"),
    ),
    Statement(
        "M-cond1",
        "M Condition 1",
        "Every relevant pattern means +1 in |T_tr|/M1 ≥ 1 training tasks, and −1 in as many",
        "condition",
        "",
        _all("M-cond1", "Condition 1"),
    ),
    Statement(
        "M-kernel",
        "iclab (A)",
        "The learned attention is δ² exp(2τL), L the Laplacian of the training-task graph: tasks at distance 2 fail "
        "unless the graph is complete",
        "iclab",
        "(25), (112), (128)",
        _all("M-kernel", "complete graph"),
        "W_BᵀW_C = δ² exp(2τL)",
    ),
    Statement(
        "M-velocity",
        "iclab (B), (C)",
        "The outlier's logit falls at a speed ∝ p_a (1 − p_a) κ_a² ‖v*‖²/V, the clean one's ∝ (1 − p_a) β²/M1",
        "iclab",
        "(33), (36), (138)",
        _all("M-velocity", "(C)"),
        "p_a κ_a² ‖v*‖² M1 ≫ V β²",
    ),
    Statement(
        "M-thm1",
        "M Theorem 1",
        "Mamba needs T ∝ η⁻¹ (1 − p_a)⁻¹ β⁻² M1 steps, and large enough batches, κ_a and prompts",
        "theorem",
        "(8)–(10)",
        (*_TRAINED, "M-thm1 (iv)"),
        "T_M = Θ(η⁻¹ (1 − p_a)⁻¹ β⁻² M1); expected hinge loss over all tasks ≤ ε",
    ),
    Statement(
        "M-thm2",
        "M Theorem 2",
        "α < min(1, p_a l_tr / l_ts), κ_a' ≥ κ_a and Σλ ≥ L > 0 suffice for Mamba",
        "theorem",
        "(11)–(13)",
        (
            *_TRAINED,
            "M-thm1 (iv)",
            *_all("M-thm2", "(7)", "(a)", "(b) printed", "(b) restored", "(b) upper", "(c)", "(d) lower", "(d) upper"),
        ),
        "error rate over all tasks ≤ ε, whatever the labels of outliers",
    ),
    Statement(
        "M-thm3",
        "M Theorem 3",
        "the linear Transformer needs fewer steps than Mamba by a factor of l_tr",
        "theorem",
        "(14)",
        (*_TRAINED_LINEAR, "M-thm3 (iv)"),
        "T_T = Θ(η⁻¹ (1 − p_a)⁻¹ β⁻² l_tr⁻¹ M1) = T_M / Θ(l_tr)",
    ),
    Statement(
        "M-thm4",
        "M Theorem 4",
        "α < 1/2 suffices for the linear Transformer, with l_ts growing like (1/2 − α)⁻² α",
        "theorem",
        "(15)",
        (*_TRAINED_LINEAR, "M-thm3 (iv)", *_all("M-thm4", "(7)", "(a)", "(b)", "(c)", "(d)")),
        "error rate over all tasks ≤ ε if α < 1/2 and l_ts ≳ max{(1 − α)⁻¹, (1/2 − α)⁻² α} log M1",
    ),
    Statement(
        "M-cor1",
        "M Corollary 1",
        "attention concentrates on examples that share the query's pattern",
        "corollary",
        "(16)",
        ("M-thm1", "M-cor1 D.4.1"),
        "scores add up to ≥ Θ(1) on the query's pattern, ≤ Θ((1 − p_a)⁻¹ ε) on the others",
    ),
    Statement(
        "M-cor2",
        "M Corollary 2",
        "gates are ≤ poly(M1)⁻¹ on outliers, ≥ Θ(2^−(j−1)) on the j-th nearest clean example",
        "corollary",
        "(17), (18)",
        ("M-thm1", "M-thm2 (b) printed"),
        "G ≤ O(poly(M1)⁻¹) on outliers; G_h(j) ≥ Θ(2^−(j−1))",
    ),
    Statement(
        "M-lem3",
        "M Lemma 3",
        "W_B and W_C grow along each µ_j, shrink between patterns that form a training task, and "
        "stay 0 between patterns that do not",
        "lemma",
        "(23)–(30)",
        ("M-setting", "M-cond1", "M-lem3 B"),
        "µ_jᵀ ΔW µ_j ≳ η t (1 − p_a) β / M1; (25): 0 between patterns that never met",
    ),
    Statement(
        "M-lem4",
        "M Lemma 4",
        "in the first phase wᵀv* and wᵀµ fall linearly, and outliers' logits lie below clean ones",
        "lemma",
        "(31)–(36)",
        ("M-setting", "M-cond1", "M-lem4 (31)", "M-thm1 (i)"),
        "wᵀv* ≲ −η t β² κ_a (1 − p_a) / V for t ≲ V / (η β² κ_a (1 − p_a))",
    ),
    Statement(
        "M-lem5",
        "M Lemma 5",
        "after T_M steps the logit of an outlier is at most −log M1, of a clean example at least −Θ(1)",
        "lemma",
        "(37), (38)",
        ("M-setting", "M-cond1", "M-thm1 (ii) lower", "M-thm1 (iv)"),
        "wᵀp ≲ −log M1 on outliers, ≳ −Θ(1) on clean examples",
    ),
    Statement(
        "M-lem6",
        "M Lemma 6",
        "Σ G_i (l − i + 1) is bounded in the first phase",
        "lemma",
        "(39)",
        ("M-setting", "M-cond1"),
        "Σ_i G_i (l − i + 1) ≤ Θ(1)",
    ),
    Statement("M-tab6", "M Table 6", "SST-2 accuracy on 5, 7, 10 and all components: 74.08, 76.72, 78.90, 80.05 %"),
    Statement("M-tab7", "M Table 7", "SST-2 in context: Mamba 74.10 / 73.86 / 72.45 %, linear 70.18 / 69.98 / 69.82 %"),
    Statement(
        "M-gates",
        "M E.6",
        "Mamba-2, RetNet, gated retention and GLA have gates like Mamba's, each in its own form",
        equations="(187)–(199)",
    ),
    Statement("M-classes", "M E.7", "2^H classes are H binary levels, one per head"),
    Statement("M-regression", "M E.8", "the same mechanism with real-valued labels and squared loss"),
    Statement(
        "M-review",
        "the review of M",
        "what remains true with non-orthogonal patterns, two layers, far too strong outliers",
    ),
    Statement("M-hybrid", "M §1.2, questions to M", "models that mix attention layers and gated layers"),
)
"""Paper M, in its order."""

STATEMENTS = (*PAPER_M, *PAPER_T, *PAPER_S)
"""All statements."""
BY_ID = {statement.id: statement for statement in STATEMENTS}


def required(statement: str) -> tuple[str, ...]:
    """Return the ids of all conditions that a statement rests on, each once, its own last.

    >>> required("M-cor1")[-1]
    'M-cor1 D.4.1'
    """
    found: dict[str, None] = {}
    for hypothesis in BY_ID[statement].hypotheses:
        found |= dict.fromkeys(required(hypothesis) if hypothesis in BY_ID else (hypothesis,))
    return tuple(found)
