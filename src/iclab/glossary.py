"""The papers' letters and short words, what they mean, and their names in the code.

Letters collide: α is a share of outliers in paper M and a share of examples that matter in papers T and S. So a term
belongs to papers, and `terms_of` gives the terms of one. The report's tooltips and the documentation use this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

PAPERS = "MTS"


@dataclass(frozen=True)
class Term:
    """A letter or a short word, as iclab writes it in plain text."""

    sign: str
    words: str
    papers: str = PAPERS
    """The letters of the papers in which it means this."""
    name: str = ""
    """What the code calls it."""


TERMS = (
    # Prompts.
    Term("FQ", "outliers stand farthest from the query", "M", "farthest"),
    Term("R", "outliers stand anywhere, at random", "M", "random"),
    Term("CQ", "outliers stand closest to the query", "M", "closest"),
    Term("µ", "a relevant pattern: it decides the label", name="relevant"),
    Term("µ_j", "the j-th relevant pattern", name="relevant"),
    Term("M1", "the number of relevant patterns µ"),
    Term("ν", "an irrelevant pattern, added to every example", name="irrelevant"),
    Term("ν_k", "the k-th irrelevant pattern", name="irrelevant"),
    Term("M2", "the number of irrelevant patterns ν"),
    Term("M", "the number of all patterns, M1 + M2", "S"),
    Term("v*", "an outlier pattern, added to corrupted examples", "M", "outlier"),
    Term("V", "the number of outlier patterns", "M"),
    Term("v'", "an outlier of a test: a mixture Σ λ_i v*_i + u", "M", "mixture"),
    Term("u", "the part of a test outlier outside all patterns", "M", "mixture"),
    Term("β", "the norm (length) of a pattern", name="relevant_norm"),
    Term("κ", "how much of an irrelevant pattern an example has, uniform on (−K, K)", "MT"),
    Term("κ", "how much of an irrelevant pattern an example has", "S"),
    Term("K", "the largest |κ| in training", "MT", "irrelevant_scale"),
    Term("K'", "the largest |κ| in tests", name="irrelevant_scale"),
    Term("κ_a", "the strength of outliers in training", "M", "outlier_scale"),
    Term("κ_a'", "the strength of outliers in tests", "M", "outlier_scale"),
    Term("p_a", "the share of outliers among training examples", "M", "outlier_fraction"),
    Term("α", "the share of outliers among the examples of a test prompt", "M", "outlier_fraction"),
    Term("α", "the share of examples with a pattern of the prompt's task, in training", "TS", "relevant_fraction"),
    Term("α'", "the share of examples with a pattern of the prompt's task, in tests", "TS", "relevant_fraction"),
    Term("l", "the number of examples in a prompt", name="context_length"),
    Term("l_tr", "the number of examples in a training prompt", name="context_length"),
    Term("l_ts", "the number of examples in a test prompt", name="context_length"),
    Term("l*", "the number of examples that are needed", "M"),
    Term("z", "the true label of the query, +1 or −1", "M", "target"),
    Term("q", "the vector that stands for the label +1; −q stands for −1", "TS"),
    Term("d", "the length of an input vector", "M", "dimension"),
    Term("d_X", "the length of an input vector", "TS", "dimension"),
    Term("d_Y", "the length of a label vector", "TS", "label_dimension"),
    Term("H", "the number of binary levels: 2^H classes", "M"),
    Term("U", "how many steps round the ring of patterns the training tasks go", "T"),
    Term("ring:1", "training tasks are pairs of neighbours on the ring of patterns", name="tasks"),
    Term("ring:2", "training tasks are pairs of patterns up to 2 steps apart on the ring", name="tasks"),
    Term("ring:3", "training tasks are pairs of patterns up to 3 steps apart on the ring", name="tasks"),
    Term("λ", "the weights of a mixture of training outliers", "M", "mixture"),
    Term("λ*", "the least size of the signal", "S", "signal"),
    Term("λ", "the size of the signal: how much of its pattern a token has", "S", "signal"),
    Term("S1", "the sum of the weights of a mixture of patterns out of domain", "T"),
    Term("M1'", "the number of mixtures out of domain", "S"),
    # Models.
    Term("W_B", "the keys' weights", "M", "key"),
    Term("W_C", "the queries' weights", "M", "query"),
    Term("W_K", "the keys' weights", "TS", "key"),
    Term("W_Q", "the queries' weights", "TS", "query"),
    Term("W_V", "the values' weights", name="value"),
    Term("W_O", "the weights of the hidden neurons", "TS"),
    Term("W_O", "the weights that join the heads", "M"),
    Term("w", "the weights of Mamba's gate", "M", "gate"),
    Term("σ", "the sigmoid; σ_i is its value at example i", "M", "gate"),
    Term("G", "Mamba's gate of an example: how much of it reaches the query", "M", "gate"),
    Term("G_i", "Mamba's gate of example i: how much of it reaches the query", "M", "gate"),
    Term("F", "the model's output; its sign is the answer", "M"),
    Term("m", "the size of Mamba's state", "M", "state_size"),
    Term("m", "the number of hidden neurons", "TS", "width"),
    Term("m_a", "the size of keys and queries", "TS"),
    Term("m_b", "the size of values", "TS"),
    Term("Δ", "the step of a state-space model, a function of the token", "M"),
    Term("γ", "the decay of RetNet's gate", "M"),
    Term("γ", "the attention off the query's pattern", "T"),
    Term("ζ", "the input of a lucky neuron", "T"),
    Term("L", "the Laplacian of the training-task graph; beside κ_a, the sum of a mixture's weights λ", "M"),
    Term("L", "the neurons that become large; in exp(τL), the Laplacian of the training-task graph", "T"),
    Term("R", "the share of neurons that are pruned", "T"),
    Term("R²", "the share of the variance that a fit explains"),
    # Training.
    Term("δ", "the initial scale of the weights of keys and queries", name="init_scale"),
    Term("ξ", "the initial scale of the hidden neurons", "S"),
    Term("η", "the step size (learning rate)", name="step_size"),
    Term("B", "the number of prompts in a batch", name="batch_size"),
    Term("T", "the number of training steps", name="steps"),
    Term("T_M", "the number of training steps that Mamba needs (Theorem 1)", "M", "steps"),
    Term("T_T", "the number of training steps that the linear Transformer needs (Theorem 3)", "M", "steps"),
    Term("t", "the training step"),
    Term("τ", "the clock of the kernel exp(2τL); in gated retention and GLA, a temperature", "M", "temperature"),
    Term("τ", "the clock of the kernel exp(2τL)", "T"),
    Term("τ", "the size of the noise", "S", "noise"),
    Term("g", "the sum of the gates over a prompt, on average", "M"),
    Term("ε", "the error that a theorem allows"),
    Term("Θ", "of the order of, up to constants from below and above"),
    Term("Ω", "at least of the order of, up to a constant"),
    Term("O", "at most of the order of, up to a constant"),
)


@cache
def terms_of(paper: str) -> dict[str, Term]:
    """Return the terms of a paper by sign; those of M for what is beyond the papers.

    Example:
        >>> terms_of("M")["α"].words
        'the share of outliers among the examples of a test prompt'
        >>> terms_of("T")["R"].words
        'the share of neurons that are pruned'
    """
    letter = paper if paper and paper in PAPERS else "M"
    return {term.sign: term for term in TERMS if letter in term.papers}
