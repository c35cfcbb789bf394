"""Softmax attention with an MLP on the fused engine: the Transformer of papers T and S."""

from iclab.engines.fused.mlp.learning import SoftmaxMLPState, parameters
from iclab.engines.fused.mlp.measuring import measuring
from iclab.engines.fused.seeds import own_weights as weights

State = SoftmaxMLPState

__all__ = ["SoftmaxMLPState", "State", "measuring", "parameters", "weights"]
