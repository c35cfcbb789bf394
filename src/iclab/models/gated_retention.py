"""Gated retention: a decay that each token chooses for the state before it (M E.6, (193)–(195)).

Code name → paper:  key W_K,  query W_Q,  gate w,  temperature τ,  state_size m,  init_scale δ.

    γ_i = σ(wᵀp_i)^{1/τ},     G_i = Π_{j > i} γ_j                                                           (195)

(194) has γ(w; i) for γ(w; t). τ = 16 as in the paper that M cites (Sun et al., 2024). G_i does not depend on p_i, so it
cannot tell an outlier from a clean example (docs/theory.md, 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from iclab.models.gates import Flow, GateForm
from iclab.models.recurrent import Form, Recurrent, above_zero


class GatedRetention(Recurrent):
    """One layer of gated retention; arguments as for `Recurrent`, and

    Args:
        temperature: τ, above 0; a large one makes decays close to 1.
    """

    name = "gated-retention"
    label = "gated retention"
    colour = "#CC79A7"
    list_order = 103
    step_size = 0.05
    fused_gate = "retention"
    fused_options = ("temperature",)

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        temperature: float = 16.0,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        above_zero(temperature=temperature)
        self.temperature = temperature

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return the fused engine's function: σ(wᵀp_i)^{1/τ}."""
        return GateForm("retention", 1.0 / options["temperature"])

    def flow(self, logits: Tensor) -> Flow:
        """Return γ_i and 1."""
        return Flow(F.logsigmoid(logits) / self.temperature, torch.ones_like(logits))
