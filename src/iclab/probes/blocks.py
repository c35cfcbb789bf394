"""What a head that sees whole tokens has learnt of the blocks of other levels, M E.7.

Head h should attend to its own block: µ_jᵀ W_B,hᵀ W_C,h µ_j is large for patterns of block h. All else is in its way.
"""

from __future__ import annotations

import numpy as np
import torch

from iclab.engines import Trained, Training
from iclab.probes.probe import Row
from iclab.prompts import Prompts

BLOCKS = ("level", "own", "other", "cross")


def block_rows(trained: Trained, weights: dict[str, torch.Tensor], prompts: Prompts) -> list[Row]:
    """Return, per seed and level, the attention of its head between relevant patterns.

    ``own`` is the mean between equal patterns of its own block, ``other`` the mean between equal patterns of another
    block, and ``cross`` the root mean square between patterns of two different blocks.
    """
    rows = []
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(prompts), strict=True)):
        levels, many = prompts.levels, prompts.patterns.relevant
        dimension = prompts.patterns.dimension
        patterns = np.zeros((levels, many, levels * dimension))
        for b, level in enumerate(basis.levels):
            patterns[b, :, b * dimension : (b + 1) * dimension] = level.vectors[:many]
        for h in range(levels):
            key, query = (weights[name][i, h, :, : levels * dimension].double().numpy() for name in ("key", "query"))
            flat = patterns.reshape(levels * many, -1)
            found = ((flat @ key.T) @ (flat @ query.T).T).reshape(levels, many, levels, many)
            equal = [found[b, :, b].diagonal().mean() for b in range(levels)]
            crossing = [found[a, :, b] for a in range(levels) for b in range(levels) if a != b]
            others = [value for b, value in enumerate(equal) if b != h]
            rows.append(
                {
                    "seed": seed,
                    "level": h + 1,
                    "own": float(equal[h]),
                    "other": float(np.mean(others)) if others else None,
                    "cross": float(np.sqrt(np.mean(np.square(crossing)))) if crossing else None,
                }
            )
    return rows


def blocks_obstacle(training: Training, count: int) -> str:
    """Return the reason why a model's heads do not see other blocks; empty if they do."""
    if training.model.options.get("sees") == "token":
        return ""
    return f"probe = blocks: reads mamba-levels with sees = token, not {training.model.label}"
