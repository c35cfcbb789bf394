"""Mamba with a head per level on the fused engine: H one-layer models that share nothing, M (201).

Level h of seed s is the one-layer model of the seed s + h · 2^28, to the bit (`iclab.prompts.counters.LEVEL`).
"""

from iclab.engines.fused.levels.learning import Levels, weights
from iclab.engines.fused.levels.measuring import measuring
from iclab.engines.fused.one_layer import parameters

State = Levels

__all__ = ["Levels", "State", "measuring", "parameters", "weights"]
