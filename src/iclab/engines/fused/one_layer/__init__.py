"""One-layer models on the fused engine: Mamba and linear attention."""

from iclab.engines.fused.one_layer.learning import OneLayer, gate_kind, parameters, weights
from iclab.engines.fused.one_layer.measuring import measuring

State = OneLayer

__all__ = ["OneLayer", "State", "gate_kind", "measuring", "parameters", "weights"]
