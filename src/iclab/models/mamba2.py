"""Mamba-2 as paper M reads it, and with its input scaled as in Mamba-2 itself (M E.6, (187)–(189)).

Code name → paper:  key W_K,  query W_Q,  gate w,  rate a,  state_size m,  init_scale δ.

    γ_i = exp(−softplus(wᵀp_i) e^a) = (1 − σ(wᵀp_i))^{e^a}

    G_i = Π_{j > i} γ_j                                as E.6 has it                                        (189)
    G_i = Δ_i Π_{j > i} γ_j,   Δ_i = softplus(wᵀp_i)   with ``scaled_input``: Mamba-2 adds Δ_i B_i x_iᵀ, not B_i x_iᵀ

In (189) G_i does not depend on p_i, so it cannot tell an outlier from a clean example (docs/theory.md, 8). Δ_i can.
Not included: the convolution, the skip connection, the output gate and the norm of the full block, as in paper M.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.models.gates import Flow, GateForm
from iclab.models.recurrent import Form, Recurrent


class Mamba2(Recurrent):
    """One layer of Mamba-2; arguments as for `Recurrent`, and

    Args:
        scaled_input: whether the inflow is Δ_i instead of 1.
    """

    name = "mamba2"
    label = "Mamba-2"
    colour = "#56B4E9"
    list_order = 100
    step_size = 0.05
    fused_gate = "power"
    fused_options = ("scaled_input",)

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        scaled_input: bool = False,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        self.rate = nn.Parameter(torch.zeros(1))  # a; 0 makes A = −1, as in Mamba
        self.scaled_input = scaled_input

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return the fused engine's function: Δ_i, or 1, as the inflow."""
        return GateForm("scaled" if options.get("scaled_input") else "power", scalar="rate")

    def flow(self, logits: Tensor) -> Flow:
        """Return γ_i and Δ_i, or 1."""
        delta = F.softplus(logits)
        return Flow(-delta * self.rate.exp(), delta if self.scaled_input else torch.ones_like(delta))
