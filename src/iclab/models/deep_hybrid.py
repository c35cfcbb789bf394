"""Layers of Mamba, linear and softmax attention in any order (M §1.2 names such hybrids as the reason to compare them).

Layer k mixes tokens as its name says; `iclab.models.deep` has the stack around the layers and its letters.

    mamba      Σ_{j ≤ i} (G_{j,i} q_j) q_jᵀ W_Bᵀ W_C q_i, one gate for all channels     as in `deep-mamba`, (89)–(90)
    linear     1/l Σ_j q_j q_jᵀ W_Bᵀ W_C q_i, over all tokens                           as in `deep-linear`
    softmax    Σ_j softmax_j(q_jᵀ W_Bᵀ W_C q_i) q_j, over the examples                  as in `deep-softmax`

All layers have keys and queries of the same size; only a layer of Mamba has a gate. If all layers are alike, it is the
deep model of that name.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError
from iclab.models.base import points
from iclab.models.deep import Deep, Mixed, Stream
from iclab.models.deep_linear import linear_mix
from iclab.models.deep_mamba import DeepMamba, draw_gates, mamba_mix
from iclab.models.deep_softmax import softmax_mix
from iclab.prompts.patterns import Basis

LAYERS = ("mamba", "linear", "softmax")


def layer_names(layers: str) -> tuple[str, ...]:
    """Return the names of the layers, first to last; refuse unknown ones.

    >>> layer_names("mamba,softmax")
    ('mamba', 'softmax')
    """
    names = tuple(name.strip() for name in layers.split(",")) if isinstance(layers, str) else ()
    for name in names or (layers,):
        if name not in LAYERS:
            known = f"{', '.join(LAYERS[:-1])} or {LAYERS[-1]}"
            raise InputError(f"layers = {layers!r}: {name!r} is no layer; name {known}, with commas between them")
    return names


class DeepHybrid(Deep):
    """Layers of several kinds.

    Args:
        width: d + 1, the length of a token.
        layers: the name of each layer, first to last, such as ``mamba,softmax,linear``.
        heads: the number of slices that keys and values are cut into; must divide d.
        values: whether to have W_V and W_O; by default only with several heads.
        residual: whether a layer adds to the stream, or replaces it.
        norm: ``rms`` divides each token by its root mean square before a layer reads it; ``own`` does so before layers
            of Mamba and softmax, as their own deep models have it, and not before linear attention.
        init_scale: δ, the first d diagonal entries of W_B and W_C.
        stream: ``full``, or ``label``: layers then write only the label, and inputs pass unchanged.
    """

    name = "deep-hybrid"
    label = "hybrid"
    colour = "#CC79A7"
    list_order = 65
    fused_form = "deep"
    step_size = 0.02

    def __init__(
        self,
        width: int,
        layers: str = "mamba,softmax",
        heads: int = 1,
        values: bool | None = None,
        residual: bool = True,
        norm: Literal["own", "none", "rms"] = "own",
        init_scale: float = 0.2,
        stream: Stream = "full",
    ) -> None:
        self.names = layer_names(layers)
        if norm not in ("own", "none", "rms"):
            raise InputError(f"norm = {norm!r}: must be own, none or rms")
        whole = "rms" if norm == "own" else norm
        super().__init__(width, len(self.names), heads, values, residual, whole, init_scale, stream)
        self.norms = tuple(norm == "rms" or (norm == "own" and name != "linear") for name in self.names)
        steps = {"mamba": DeepMamba.steps}
        self.layer = nn.ModuleList(points(*steps.get(name, Deep.steps)) for name in self.names)
        gated = [i for i, name in enumerate(self.names) if name == "mamba"]
        self.gate_of = {layer: number for number, layer in enumerate(gated)}
        self.gate = nn.Parameter(torch.zeros(len(gated), heads, 1, width)) if gated else None

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw the gates, as many as there are layers of Mamba."""
        if self.gate is not None:
            draw_gates(self.gate, basis, seed)

    def normed(self, layer: int, stream: Tensor) -> Tensor:
        """Return the stream as a layer reads it."""
        return F.rms_norm(stream, stream.shape[-1:], eps=1e-6) if self.norms[layer] else stream

    def mix(self, layer: int, tokens: Tensor, count: int, label_only: bool) -> Mixed:
        """Mix tokens as the layer's name says."""
        if self.names[layer] == "mamba":
            assert self.gate is not None
            return mamba_mix(self, layer, tokens, count, label_only, self.gate[self.gate_of[layer]])
        if self.names[layer] == "linear":
            return linear_mix(self, layer, tokens, count, label_only, "all", divide=True)
        return softmax_mix(self, layer, tokens, count, label_only, "context")
