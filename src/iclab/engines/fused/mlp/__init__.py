"""Softmax attention with an MLP on the fused engine: the Transformer of papers T and S."""

from iclab.engines.fused.mlp.learning import SoftmaxMLPState, check, train, weights
from iclab.engines.fused.mlp.measuring import sums

__all__ = ["SoftmaxMLPState", "check", "sums", "train", "weights"]
