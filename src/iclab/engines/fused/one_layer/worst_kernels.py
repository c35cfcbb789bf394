"""The exact worst case over the labels and places of outliers, compiled by numba.

One layer is a recurrence, h_i = decay_i h_{i−1} + inflow_i y_i s_i with decay_i ≥ 0, and all three depend on no other
example. So z·F grows with every h_i, and its smallest value follows from the smallest values of z·h_i.
`iclab.probes.worst` has the same in numpy, with the equations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.one_layer.gate_kernels import UNGATED
from iclab.engines.fused.one_layer.step_kernels import forward
from iclab.engines.fused.sum_kernels import tally
from iclab.prompts.compiling import compiled
from iclab.prompts.prompt_kernels import LANES, draw


class Choices(NamedTuple):
    """What every example does to z·h under each label that it may show: z·h becomes decay · z·h + gain.

    Arrays are flat, (tokens · LANES,), as in `Block`. A clean example has the same numbers in both.
    """

    plus_decay: NDArray[Any]  # if an outlier shows +1
    plus_gain: NDArray[Any]  # z · inflow · y s
    minus_decay: NDArray[Any]  # if it shows −1
    minus_gain: NDArray[Any]
    best: NDArray[Any]  # (l + 1,) the smallest z·h after so many outliers


def make_choices(length: int, dtype: Any) -> Choices:
    """Allocate working memory for prompts of ``length`` examples."""
    sizes = (*[length * LANES] * 4, length + 1)
    return Choices(*(np.zeros(size, dtype=dtype) for size in sizes))


@compiled
def weigh(gate, p, s, c, length, products, logits):  # type: ignore[no-untyped-def]
    """Fill ``c`` for a block of drawn prompts: all outliers show +1, and then −1."""
    real = s.score.dtype.type
    for e in range(length * LANES):
        p.label[e] = real(1) if p.flag[e] else p.label[e]
    forward(gate, p, s, length, products, logits)
    _keep(gate, p, s, length, c.plus_decay, c.plus_gain)
    for e in range(length * LANES):
        p.label[e] = real(-1) if p.flag[e] else p.label[e]
    forward(gate, p, s, length, products, logits)
    _keep(gate, p, s, length, c.minus_decay, c.minus_gain)


@compiled
def _keep(gate, p, s, length, decay, gain):  # type: ignore[no-untyped-def]
    real = s.score.dtype.type
    for e in range(length * LANES):
        vote = p.target[e % LANES] * p.label[e] * s.score[e]
        decay[e] = real(1) if gate.kind == UNGATED else s.decay[e]
        gain[e] = vote if gate.kind == UNGATED else s.inflow[e] * vote


@compiled
def _smaller(a, b):  # type: ignore[no-untyped-def]
    """Return the smaller number; NaN if either is."""
    return a if a < b or a != a else b


@compiled
def _after(c, e, before):  # type: ignore[no-untyped-def]
    """Return the smallest z·h after example ``e``, from the smallest before it."""
    return _smaller(
        c.plus_decay[e] * before + c.plus_gain[e],
        c.minus_decay[e] * before + c.minus_gain[e],
    )


@compiled
def worst_labels(p, c, length, lane):  # type: ignore[no-untyped-def]
    """Return the smallest z·h_l of one prompt over all labels of its outliers."""
    best = c.best.dtype.type(0)
    for i in range(length):
        best = _after(c, i * LANES + lane, best)
    return best


@compiled
def worst_places(p, c, length, lane):  # type: ignore[no-untyped-def]
    """Return the smallest z·h_l over all labels and places of the outliers.

    Clean examples keep their order, outliers keep theirs. ``best[o]`` is the smallest z·h after the clean examples so
    far and o outliers.
    """
    best, outliers = c.best, 0
    best[0] = best.dtype.type(0)
    for i in range(length):
        if p.flag[i * LANES + lane]:
            outliers += 1
            best[outliers] = _after(c, i * LANES + lane, best[outliers - 1])
    for i in range(length):
        if p.flag[i * LANES + lane]:
            continue
        best[0] = _after(c, i * LANES + lane, best[0])
        o = 0
        for j in range(length):
            if p.flag[j * LANES + lane]:
                o += 1
                best[o] = _smaller(_after(c, i * LANES + lane, best[o]), _after(c, j * LANES + lane, best[o - 1]))
    return best[outliers]


@compiled
def measure(drawing, gate, places, p, s, c, products, logits, seed, stream, step, first, count, sums):  # type: ignore[no-untyped-def]
    """Add the worst case of test prompts ``first`` … ``first + count − 1`` to ``sums``, as the probe ``error`` does."""
    query = drawing.length * LANES
    for start in range(first, first + count, LANES):
        draw(drawing, p, seed, stream, step, start)
        weigh(gate, p, s, c, drawing.length, products, logits)
        for lane in range(min(LANES, first + count - start)):
            if places:
                margin = np.float64(worst_places(p, c, drawing.length, lane))
            else:
                margin = np.float64(worst_labels(p, c, drawing.length, lane))
            tally(sums, margin if gate.kind == UNGATED else np.float64(s.decay[query + lane]) * margin)
