"""What the papers state: every theorem, corollary, lemma, proposition and condition, and claims that no figure shows.

A statement names its hypotheses, which `iclab.theory.conditions` checks at a setting. The report lists statements that
no experiment tests; an experiment with the same id takes the place of its line. M's Lemmas 1 and 2 are Chernoff's and
Hoeffding's inequalities and are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["theorem", "corollary", "lemma", "proposition", "condition", "setting", "iclab", "other"]
UNTESTED: tuple[Kind, ...] = ("condition", "setting", "iclab")
"""Kinds that state a hypothesis, or a result of iclab's own, and so need no line of their own on the scoreboard."""


@dataclass(frozen=True)
class Statement:
    """A statement of a paper."""

    id: str
    where: str
    words: str
    """What it says, in one or two sentences."""
    kind: Kind = "other"
    equations: str = ""
    """The equation numbers."""
    hypotheses: tuple[str, ...] = ()
    """What it requires: ids of conditions, such as ``M-thm1 (i)``, or of statements, for all conditions of those."""
    law: str = ""
    """The predicted law, with the paper's letters."""

    @property
    def paper(self) -> str:
        """The letter of its paper."""
        return self.id.partition("-")[0]

    @property
    def to_test(self) -> bool:
        """Whether it belongs on the scoreboard."""
        return self.kind not in UNTESTED


def _all(theorem: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{theorem} {name}" for name in names)


_TRAINED = ("M-setting", "M-cond1", *_all("M-thm1", "(i)", "(ii) lower", "(ii) upper", "(iii) lower", "(iii) upper"))
_TRAINED_LINEAR = ("M-setting", "M-cond1", *_all("M-thm3", "(i)", "(ii)", "(iii)"))
_T_TRAINED = ("T-setting", "T-cond3.2", *_all("T-thm3.3", "(i)", "(ii)", "(iii) l_tr", "(iv)"))
_S_TRAINED = ("S-setting", "S-lem1", *_all("S-thm1", "(35)", "B", "(5)", "τ"))

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

PAPER_T = (
    Statement(
        "T-setting",
        "T §2, §3.2",
        "One layer of softmax attention and an MLP, orthogonal patterns, labels ±q, SGD",
        "setting",
        "(1)–(8)",
        _all("T-setting", "§2.1", "§3.2", "δ", "η", "data"),
    ),
    Statement(
        "T-cond3.2",
        "T Condition 3.2",
        "Every relevant pattern means +1 in |T_tr|/M1 ≥ 1 training tasks, and −1 in as many",
        "condition",
        "",
        _all("T-cond3.2", "Condition 3.2"),
    ),
    Statement(
        "T-kernel",
        "iclab (A)",
        "W_Q and W_K follow δ exp(τL) early on, L the Laplacian of the training-task graph: unless the graph is "
        "complete, (18) fails for patterns that never met",
        "iclab",
        "(18)",
        _all("T-kernel", "complete graph"),
        "W_Q = W_K = δ exp(τL)",
    ),
    Statement(
        "T-thm3.3",
        "T Theorem 3.3",
        "T ∝ η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1 steps; M1 tasks suffice",
        "theorem",
        "(9)–(11)",
        (*_T_TRAINED, *_all("T-thm3.3", "(iii) l_ts", "C.5")),
        "T = Θ(η⁻¹ M1 α^(−2/3) β^(−2/3) √log M1); expected hinge loss over all tasks ≤ O(ε)",
    ),
    Statement(
        "T-thm3.4",
        "T Theorem 3.4",
        "the model generalises out of domain if every S_j ≥ 1",
        "theorem",
        "(12), (13)",
        ("T-thm3.3", *_all("T-thm3.4", "(12)", "K'")),
        "expected hinge loss out of domain ≤ O(ε)",
    ),
    Statement(
        "T-thm3.7",
        "T Theorem 3.7",
        "rows of W_O W_V form two groups; pruning a share R of the large group costs Ω(R)",
        "theorem",
        "(14)–(16)",
        ("T-thm3.3", "T-thm3.7 α'"),
        "‖r_i‖ ≥ Ω(1) in L, ≤ M2^(−1/2) outside; hinge loss ≥ Ω(R + (α' M1)⁻¹) after pruning a share R of L",
    ),
    Statement(
        "T-prop4.1",
        "T Proposition 4.1",
        "W_Q and W_K align with the query's pattern",
        "proposition",
        "(17)–(19)",
        ("T-thm3.3",),
        "own part ≥ Ω(√log M1), other parts ≤ O(√log M1 (1/M1 + 1/M2))",
    ),
    Statement(
        "T-cor4.3",
        "T Corollary 4.3",
        "attention on the query's pattern is 1 − Θ(M1^−C)",
        "corollary",
        "(20)",
        ("T-thm3.3",),
        "attention ≥ 1 − Θ(M1^−C) for any C > 1",
    ),
    Statement(
        "T-prop4.5",
        "T Proposition 4.5",
        "neurons align with the mean pattern and ±q",
        "proposition",
        "(21), (22)",
        ("T-thm3.3",),
        "cosines ≥ 1 − Θ(1)/M2 and ≥ 1 − Θ(1)/M1",
    ),
)
"""Paper T, in its order."""

PAPER_S = (
    Statement(
        "S-setting",
        "S §2, §3.2",
        "T's model on λ µ + κ ν + noise, with β = Θ(log log M1) and M1 + M2 ≥ M1²",
        "setting",
        "(1)–(4)",
        _all("S-setting", "§2", "β", "M1 + M2", "δ", "K", "α"),
    ),
    Statement(
        "S-lem1",
        "S §3.3, Lemma 1",
        "Training tasks cover all patterns evenly; this takes at least M1 tasks",
        "condition",
        "",
        _all("S-lem1", "§3.3"),
    ),
    Statement(
        "S-thm1",
        "S Theorem 1",
        "how the required number of samples depends on λ*, τ and α",
        "theorem",
        "(5), (6)",
        _S_TRAINED,
        "T = Θ(√M λ*⁻¹ η⁻¹ (1 − ε_m − τ M1)^(−1/2) (C − α⁻¹)⁻¹); no error on training tasks",
    ),
    Statement(
        "S-thm2",
        "S Theorem 2",
        "generalises out of domain with non-negative mixtures if l_ts ≥ 2/α'",
        "theorem",
        "(11)",
        ("S-thm1", *_all("S-thm2", "k_i", "M1'", "l_ts")),
        "no error out of domain",
    ),
    Statement(
        "S-prop1",
        "S Proposition 1",
        "‖W_Q µ‖ and ‖W_K µ‖ grow, ‖W_Q ν‖ and ‖W_K ν‖ do not",
        "proposition",
        "(7)–(9)",
        ("S-thm1",),
        "≥ Θ(√log M) and ≤ Θ(1); attention → 1 − Θ(M^−C) at a rate of O(1/T)",
    ),
    Statement(
        "S-prop2",
        "S Proposition 2",
        "the label part of the MLP is larger than its feature part",
        "proposition",
        "(10)",
        ("S-thm1",),
        "label part > feature part for a constant share of neurons, ≤ O(ξ) for the others",
    ),
    Statement(
        "S-cor1",
        "S Corollary 1",
        "attention concentrates on the query's pattern",
        "corollary",
        "(12)",
        ("S-thm2",),
        "attention ≥ 1 − Θ(1/M)",
    ),
)
"""Paper S, in its order."""

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
