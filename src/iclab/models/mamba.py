"""One-layer Mamba: linear attention times a product gate (M §2, E.1).

Code name → paper:  key W_B,  query W_C,  gate w,  state_size m,  init_scale δ,  tokens P (columns there, rows here).

    F(Ψ; P) = Σ_{i ≤ l+1} G_i(w) y_i p_iᵀ W_Bᵀ W_C p_query,                                              (3)
    G_i(w)  = σ(wᵀp_i) Π_{j > i} (1 − σ(wᵀp_j)),

which unrolls the recurrence (1) with A = −I and h_0 = 0 (the paper starts (1) at h_0 = U and drops it in (88)).
Not included: the convolution, the skip connection and the output gate of the full Mamba block, as in the paper.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from iclab.models.gates import Flow
from iclab.models.recurrent import Recurrent


class Mamba(Recurrent):
    """M's one-layer Mamba, as the closed form (3) or as the recurrence (1); arguments as for `Recurrent`."""

    name = "mamba"
    label = "Mamba"
    colour = "#0072B2"
    list_order = 10
    step_size = 1.0
    fused_gate = "product"

    def flow(self, logits: Tensor) -> Flow:
        """Return Ã_i = exp(Δ_i A), with A = −I, and (exp(Δ_i A) − I)(Δ_i A)⁻¹ Δ_i = σ(wᵀp_i)."""
        delta = F.softplus(logits)
        return Flow(log_decay=-delta, inflow=-torch.expm1(-delta))
