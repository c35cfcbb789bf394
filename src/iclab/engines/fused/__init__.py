"""The fused engine: one-layer models trained and measured in dictionary coordinates, without a dense token.

Weights that start as δI and move by SGD stay δI outside the span of the training dictionary (docs/fused.md). So it is
enough to carry them in an orthonormal frame of that span. The part of the gate outside the span stays as it started; a
test outlier that points there meets the gate through it. This is exact, not an approximation: the weights are those of
the reference engine, up to rounding.
"""

from iclab.engines.fused.learning import SeedState, check, drawing, gate_kind, train, weights
from iclab.engines.fused.measuring import sums

__all__ = ["SeedState", "check", "drawing", "gate_kind", "sums", "train", "weights"]
