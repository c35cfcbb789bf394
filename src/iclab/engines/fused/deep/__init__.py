"""Deep models on the fused engine: layers of Mamba, linear attention or softmax attention."""

from iclab.engines.fused.deep.learning import DeepSeed, check, train, weights
from iclab.engines.fused.deep.measuring import sums

__all__ = ["DeepSeed", "check", "sums", "train", "weights"]
