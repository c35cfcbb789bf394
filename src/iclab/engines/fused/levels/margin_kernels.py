"""Margins of one level, prompt by prompt, compiled by numba."""

from __future__ import annotations

import numpy as np

from iclab.engines.fused.one_layer.gate_kernels import UNGATED
from iclab.engines.fused.one_layer.step_kernels import forward
from iclab.engines.fused.one_layer.worst_kernels import weigh, worst_labels
from iclab.engines.fused.sum_kernels import tally_hinge
from iclab.prompts.compiling import compiled
from iclab.prompts.prompt_kernels import LANES, draw


@compiled
def fill(drawing, gate, worst, p, s, c, products, logits, seed, stream, step, first, margins):  # type: ignore[no-untyped-def]
    """Fill ``margins`` with z·F of prompts from ``first`` on; with ``worst``, under the worst labels of outliers."""
    length, count = drawing.length, margins.size
    for start in range(0, count, LANES):
        draw(drawing, p, seed, stream, step, first + start)
        if worst:
            weigh(gate, p, s, c, length, products, logits)
        else:
            forward(gate, p, s, length, products, logits)
        for lane in range(min(LANES, count - start)):
            if worst:
                last = 1.0 if gate.kind == UNGATED else np.float64(s.decay[length * LANES + lane])
                margins[start + lane] = last * np.float64(worst_labels(p, c, length, lane))
            else:
                margins[start + lane] = np.float64(p.target[lane]) * np.float64(s.output[lane])


@compiled
def add(margins, sums):  # type: ignore[no-untyped-def]
    """Add margins (levels, prompts) to the sums of the probe ``error``: a prompt is right if every level is."""
    for b in range(margins.shape[1]):
        least, hinge = np.inf, 0.0
        for h in range(margins.shape[0]):
            margin = margins[h, b]
            least = margin if margin < least or np.isnan(margin) else least
            hinge += 0.0 if margin >= 1.0 else 1.0 - margin
        tally_hinge(sums, least, hinge)
