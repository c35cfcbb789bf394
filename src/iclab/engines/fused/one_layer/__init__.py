"""One-layer models on the fused engine: Mamba and linear attention."""

from iclab.engines.fused.one_layer.learning import OneLayer, check, gate_kind, train, weights
from iclab.engines.fused.one_layer.measuring import sums

__all__ = ["OneLayer", "check", "gate_kind", "sums", "train", "weights"]
