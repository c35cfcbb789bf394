"""The papers: who wrote them, where they appeared, and where to read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Citation:
    """A paper, as a list of references names it."""

    authors: str
    title: str
    venue: str
    links: dict[str, str]
    """Addresses by what is there."""


CITATIONS = {
    "M": Citation(
        "H. Li, S. Lu, X. Cui, P.-Y. Chen and M. Wang",
        "Can Mamba Learn In Context with Outliers? A Theoretical Generalization Analysis",
        "arXiv preprint, 2025",
        {"arXiv 2510.00399": "https://arxiv.org/abs/2510.00399"},
    ),
    "T": Citation(
        "H. Li, M. Wang, S. Lu, X. Cui and P.-Y. Chen",
        "How Do Nonlinear Transformers Learn and Generalize in In-Context Learning?",
        "International Conference on Machine Learning (ICML), 2024",
        {"arXiv 2402.15607": "https://arxiv.org/abs/2402.15607"},
    ),
    "S": Citation(
        "H. Li, M. Wang, S. Lu, H. Wan, X. Cui and P.-Y. Chen",
        "Transformers as Multi-Task Feature Selectors: Generalization Analysis of In-Context Learning",
        "Workshop on Mathematics of Modern Machine Learning (M3L) at NeurIPS, 2023",
        {"OpenReview": "https://openreview.net/forum?id=BMQ4i2RVbE"},
    ),
}
