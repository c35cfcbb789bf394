"""Paper S's settings: those it states, and those iclab had to choose."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.prompts import Prompts
from iclab.prompts.tasks import Ring, TaskSet
from iclab.study.settings import Chosen, Disclosed


class SelectorPaper(NonlinearPaper):
    """Paper S's data and training (§2, §3.2): T's model on λ µ + κ ν + noise. S prints no sizes of its experiment."""

    evidence = f"T's numbers come from T's own data. {NonlinearPaper.evidence}"
    instead = {"label_norm": "pattern_norm, which ‖q‖ equals in S"}

    dimension: Annotated[int, Chosen("S does not give d_X; as in T")] = 30
    label_dimension: Annotated[int, Chosen("S does not give d_Y; as in T")] = 30
    relevant: Annotated[int, Chosen("S does not give M1; as in T", others=(4, 5))] = 6
    irrelevant: Annotated[int, Chosen("S does not give M2, but M1 + M2 ≥ M1²; as in T", others=(12,))] = 24
    pattern_norm: Annotated[float, Chosen("S says only β = Θ(log log M1); as in T", others=(1.0, 2.0))] = 3.0
    context_length: Annotated[int, Chosen("S does not give l_tr; as in T", others=(10, 40))] = 20
    relevant_fraction: Annotated[float, Field(gt=0, le=1), Chosen("S does not give α; as in T", others=(0.6, 1.0))] = (
        0.8
    )
    train_tasks: Annotated[TaskSet, Disclosed("M1 tasks that cover all patterns, S Lemma 1")] = Ring(steps=1)
    train_irrelevant_scale: Annotated[float, Disclosed("|κ| ≤ 1, S (3)")] = 1.0
    attention_size: Annotated[int, Chosen("S says only m_a, m_b > d_X + d_Y; as in T", others=(90,))] = 60
    init_scale: Annotated[
        float, Field(gt=0, lt=0.1), Chosen("S §2 says only δ ∈ (0, 0.1); the nearest to T's", others=(0.05, 0.07))
    ] = 0.09
    noise: Annotated[float, Field(ge=0), Disclosed("τ ≤ O(1/M1), S Theorem 1")] = 0.0
    signal: Annotated[float, Field(gt=0, le=1), Disclosed("λ*, S (4); λ is drawn uniformly from (λ*, 1)")] = 1.0

    def prompts(self, **changes: Any) -> Prompts:
        """Return prompts of S (3)."""
        own = {"noise": self.noise, "signal": (self.signal, 1.0), "label_norm": self.pattern_norm}  # ‖q‖ = β, §3.2
        return super().prompts(**own | changes)
