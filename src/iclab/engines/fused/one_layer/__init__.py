"""One-layer models on the fused engine: Mamba, linear attention, and gates of other forms."""

from iclab.engines.fused.one_layer.learning import OneLayer, gate_form, parameters, weights
from iclab.engines.fused.one_layer.measuring import measuring

State = OneLayer

__all__ = ["OneLayer", "State", "gate_form", "measuring", "parameters", "weights"]
