"""RetNet: a decay that knows only how far away an example is (M E.6, (190)–(192)).

Code name → paper:  key W_K,  query W_Q,  decay logit of γ,  state_size m,  init_scale δ.

    F(Ψ; P) = Σ_{i ≤ l+1} G_i y_i p_iᵀ W_Kᵀ W_Q p_query,     G_i = γ^{l + 1 − i}                             (192)

γ starts at 0.9 and is trained through a sigmoid, or stays as it is (in RetNet itself it is a constant of each head).
G_i depends on no token at all, so it cannot tell an outlier from a clean example (docs/theory.md, 8).
Not included: the rotation of keys and queries by their places, and the norm and gate after the layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.gates import Flow, GateForm
from iclab.models.recurrent import Form, Recurrent


class RetNet(Recurrent):
    """One layer of retention; arguments as for `Recurrent`, and

    Args:
        gamma: γ, or where it starts; between 0 and 1.
        trained: whether γ is trained.
    """

    name = "retnet"
    label = "RetNet"
    colour = "#E69F00"
    list_order = 102
    step_size = 0.05
    fused_gate = "constant"
    fused_options = ("gamma", "trained")

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gamma: float = 0.9,
        trained: bool = True,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, 0.0, form)
        if not 0 < gamma < 1:
            raise InputError(f"gamma = {gamma}: must lie between 0 and 1, without the ends")
        self.gate = None
        self.start = _logit(gamma)
        self.decay = nn.Parameter(torch.full((1,), self.start)) if trained else None

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return the fused engine's function: one decay for all tokens."""
        name = "decay" if options["trained"] else ""
        return GateForm("constant", vector=False, scalar=name, start=_logit(options["gamma"]))

    def flow(self, logits: Tensor) -> Flow:
        """Return γ and 1; logits say only how many tokens there are."""
        ones = torch.ones_like(logits)
        start = torch.full_like(logits[..., :1], self.start) if self.decay is None else self.decay
        return Flow(F.logsigmoid(start) * ones, ones)


def _logit(gamma: float) -> float:
    return math.log(gamma / (1 - gamma))
