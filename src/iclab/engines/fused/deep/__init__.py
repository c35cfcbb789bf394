"""Deep models on the fused engine: layers of Mamba, linear attention or softmax attention."""

from iclab.engines.fused.deep.learning import DeepSeed, parameters
from iclab.engines.fused.deep.measuring import measuring
from iclab.engines.fused.seeds import own_weights as weights

State = DeepSeed

__all__ = ["DeepSeed", "State", "measuring", "parameters", "weights"]
