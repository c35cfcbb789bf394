"""What probes add up over prompts, compiled by numba; `iclab.probes.answers` says what the sums mean."""

from __future__ import annotations

import numpy as np

from iclab.prompts.compiling import compiled
from iclab.prompts.prompt_kernels import LANES


@compiled
def tally(sums, margin):  # type: ignore[no-untyped-def]
    """Add one prompt's z·F to the sums of the probe ``error``."""
    tally_hinge(sums, margin, 0.0 if margin >= 1.0 else 1.0 - margin)


@compiled
def tally_hinge(sums, margin, hinge):  # type: ignore[no-untyped-def]
    """Add one prompt's z·F, and its loss, to the sums of the probe ``error``."""
    sums[0, 0] += 1.0
    sums[1, 0] += margin > 0
    sums[2, 0] += margin < 0
    sums[3, 0] += margin == 0
    sums[4, 0] += np.isnan(margin)
    sums[5, 0] += hinge
    sums[6, 0] += hinge * hinge


@compiled
def add_squares(sums, output, target):  # type: ignore[no-untyped-def]
    """Add one prompt's F and z to the sums of the probe ``squares``."""
    square = (output - target) ** 2
    sums[0, 0] += 1.0
    sums[1, 0] += np.isnan(square)
    sums[2, 0] += square
    sums[3, 0] += square * square
    sums[4, 0] += output * target
    sums[5, 0] += output * output
    sums[6, 0] += target * target
    sums[7, 0] += np.abs(output) < 1.0


@compiled
def add_attention(p, score, at, length, lane, sums):  # type: ignore[no-untyped-def]
    """Add one prompt's attention to examples that share the query's pattern, and to the others.

    The query's attention to example i is ``score[at + i · LANES]``.
    """
    same, other = 0.0, 0.0
    for i in range(length):
        if p.relevant[i * LANES + lane] == p.relevant[length * LANES + lane]:
            same += score[at + i * LANES]
        else:
            other += score[at + i * LANES]
    sums[0, 0] += 1.0
    sums[1, 0] += same
    sums[2, 0] += other
    sums[3, 0] += same * same
    sums[4, 0] += other * other


@compiled
def add_gate(p, e, gate, place, rank, sums):  # type: ignore[no-untyped-def]
    """Add the gate of the example in element ``e`` of a block; return the rank of the next clean one."""
    if p.flag[e]:
        sums[2, place] += 1.0
        sums[3, place] += gate
        return rank
    sums[0, place] += 1.0
    sums[1, place] += gate
    sums[4, rank] += 1.0
    sums[5, rank] += gate
    return rank + 1
