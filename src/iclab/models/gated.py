"""Mamba with another gating function in place of σ: iclab's question, not paper M's.

    h_i = decay(wᵀp_i) h_{i−1} + inflow(wᵀp_i) y_i W_B p_i,     F = h_{l+1}ᵀ W_C p_query

    function        inflow(x)                          decay(x)           towards x = −∞, inflow is
    sigmoid         σ(x)                               1 − inflow         e^x: this is Mamba, (3)
    hard-sigmoid    clip(½ + x/4, 0, 1)                1 − inflow         0 from x = −2 on, and its slope as well
    tanh            ½ (1 + tanh x) = σ(2x)             1 − inflow         e^{2x}
    softsign        ½ (1 + x/(2 + |x|))                1 − inflow         1/|x|
    floor           f + (1 − f) σ(x)                   1 − inflow         f: no example is shut out
    softplus        softplus(x) = Δ                    e^{−Δ}             e^x: Euler's rule, as in Mamba-2
    exp             1 − e^{−Δ},  Δ = e^x               e^{−Δ}             e^x: Mamba with Δ = exp for softplus

Hard sigmoid and softsign have σ's value ½ and slope ¼ at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from iclab.config import InputError
from iclab.models.gates import Flow, GateForm
from iclab.models.recurrent import Form, Recurrent

FORMS = {
    "sigmoid": GateForm("sigmoid", 1.0),
    "hard-sigmoid": GateForm("hard"),
    "tanh": GateForm("sigmoid", 2.0),
    "softsign": GateForm("softsign"),
    "floor": GateForm("sigmoid", 1.0),
    "softplus": GateForm("scaled"),
    "exp": GateForm("exp"),
}
"""The fused engine's functions by name."""
LEAST, MOST = 1e-30, 50.0
"""A decay below the first has no logarithm that could be differentiated; e^{−Δ} is 0 for logits above the second."""


class Gated(Recurrent):
    """One layer of Mamba with a gating function of choice; arguments as for `Recurrent`, and

    Args:
        function: one of those above.
        floor: f, the least gate of the function ``floor``; from 0 to below 1.
    """

    name = "gated"
    label = "Mamba, other gate"
    list_order = 107
    step_size = 1.0
    fused_gate = "sigmoid"
    fused_options = ("function", "floor")

    def __init__(
        self,
        width: int,
        state_size: int | None = None,
        init_scale: float = 0.2,
        gate_scale: float = 1.0,
        function: Literal["sigmoid", "hard-sigmoid", "tanh", "softsign", "floor", "softplus", "exp"] = "sigmoid",
        floor: float = 0.05,
        form: Form = "closed",
    ) -> None:
        super().__init__(width, state_size, init_scale, gate_scale, form)
        if function not in FORMS:
            raise InputError(f"function = {function!r}: must be one of {', '.join(FORMS)}")
        if not 0 <= floor < 1:
            raise InputError(f"floor = {floor}: must be at least 0 and below 1")
        self.function, self.floor = function, floor

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return the fused engine's function."""
        form = FORMS[options["function"]]
        return form._replace(second=options["floor"]) if options["function"] == "floor" else form

    def flow(self, logits: Tensor) -> Flow:
        """Return the function's decay and inflow."""
        if self.function == "softplus":
            return Flow(F.logsigmoid(-logits), F.softplus(logits))
        if self.function == "exp":
            step = logits.clamp(max=MOST).exp()
            return Flow(-step, -torch.expm1(-step))
        if self.function == "hard-sigmoid":
            log_decay = (0.5 - logits / 4).clamp(LEAST, 1.0).log()
            return Flow(log_decay.masked_fill(logits >= 2, -torch.inf), (0.5 + logits / 4).clamp(0.0, 1.0))
        if self.function == "softsign":
            small = 1 / (2 + logits.abs())  # ½ (1 − |x|/(2 + |x|))
            inflow = torch.where(logits < 0, small, 1 - small)
            return Flow(torch.where(logits < 0, 1 - small, small).log(), inflow)
        slope = 2.0 if self.function == "tanh" else 1.0
        least = self.floor if self.function == "floor" else 0.0
        rest = torch.log1p(torch.tensor(-least, dtype=logits.dtype, device=logits.device))
        return Flow(F.logsigmoid(-slope * logits) + rest, least + (1 - least) * torch.sigmoid(slope * logits))
