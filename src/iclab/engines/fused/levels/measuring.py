"""Measurements of several levels on the fused engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.levels import margin_kernels
from iclab.engines.fused.levels.learning import apart
from iclab.engines.fused.one_layer import step_kernels
from iclab.engines.fused.one_layer.measuring import CODES, gate_of, tables_of
from iclab.engines.fused.one_layer.step_kernels import make_scratch
from iclab.engines.fused.one_layer.worst_kernels import make_choices
from iclab.engines.fused.summing import Add, Measuring
from iclab.engines.trained import Trained
from iclab.prompts import Prompts, Stream
from iclab.prompts.prompt_kernels import drawing, make_block

INSIDES = ("attention", "gates")
"""Probes of each level by itself; the others need the margins of all levels of a prompt."""


def measuring(trained: Trained, probe: str, prompts: Prompts, at: int, draw: int) -> Measuring:
    """Prepare a probe on test prompts; attention has a shape of (levels,), gates of (levels, places)."""
    dtype, length = np.dtype(trained.training.dtype), prompts.context_length
    numbers, levels, single = drawing(prompts, dtype), prompts.levels, apart(trained)

    def seed(row: int) -> Add:
        rows = range(row * levels, (row + 1) * levels)
        tables, gates = zip(*((tables_of(single, r, at, prompts), gate_of(single, r, at)) for r in rows), strict=True)

        def add(first: int, count: int, total: NDArray[np.float64]) -> None:
            space = (make_block(numbers), make_scratch(length, len(tables[0][0]), dtype))
            choices, margins = make_choices(length, dtype), np.empty((levels, count))
            for h, r in enumerate(rows):
                which = (single.seeds[r], int(Stream.TEST), draw, first)
                if probe in INSIDES:
                    sums = np.zeros((len(total), total[0, h].size))
                    step_kernels.measure(numbers, gates[h], CODES[probe], *space, *tables[h], *which, count, sums)
                    total[:, h] += sums.reshape(total[:, h].shape)
                else:
                    worst = probe == "worst"
                    margin_kernels.fill(numbers, gates[h], worst, *space, choices, *tables[h], *which, margins[h])
            if probe == "levels":
                for h in range(levels):
                    total[:, h : h + 1] += _added(margins[h : h + 1], len(total))
            elif probe not in INSIDES:
                total += _added(margins, len(total))[:, 0]

        return add

    return Measuring({"attention": (levels,), "gates": (levels, length), "levels": (levels,)}.get(probe, ()), seed)


def _added(margins: NDArray[np.float64], names: int) -> NDArray[np.float64]:
    sums = np.zeros((names, 1))
    margin_kernels.add(margins, sums)
    return sums
