"""The rule by which M-hybrid chooses the step size of each order of layers, on seeds that no verdict uses.

`python -m iclab.papers.mamba.hybrid_tuning` applies it to all orders, in about six minutes of one core, and prints what
`hybrid_settings.py` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from iclab.engines import Training, train
from iclab.probes import measure

GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The step sizes tried. The last only shows whether the one before is safe."""
SEEDS = (1000, 1001, 1002, 1003)
"""Far above those of any edition, which has at most 64 seeds, from 0 on."""
PROMPTS = 4_000
RULE = (
    "one rule for all orders: of 0.01, 0.02, 0.05, 0.1 and 0.2, the one with the least hinge loss on 4,000 fresh "
    "prompts like those of the training, mean over the seeds 1000 to 1003, if no seed diverges at it or at the next "
    "larger one (0.5 after 0.2); of equal losses the smaller step. No test prompt and no seed of a verdict is used: "
    "`python -m iclab.papers.mamba.hybrid_tuning`"
)


def losses(training: Training, grid: Sequence[float] = GRID, seeds: Sequence[int] = SEEDS) -> dict[float, float | None]:
    """Return the mean hinge loss on fresh prompts after training, by step size; None if any seed diverged."""
    found: dict[float, float | None] = {}
    for size in grid:
        recipe = training.recipe.replace(step_size=size, snapshots=())
        rows = measure(train(training.replace(recipe=recipe), tuple(seeds)), "error", training.prompts, PROMPTS)
        values = [row["hinge"] for row in rows]
        found[size] = None if None in values else sum(values) / len(values)
    return found


def choose(found: Mapping[float, float | None]) -> float:
    """Return the step size of the least loss among those that are safe; the smallest if none is.

    >>> choose({0.05: 0.2, 0.1: 0.1, 0.2: 0.05, 0.5: None})
    0.1
    >>> choose({0.05: 0.0, 0.1: 0.0, 0.2: 0.3})
    0.05
    """
    sizes = sorted(found)
    safe = [
        (loss, size)
        for size, larger in pairwise(sizes)
        if (loss := found[size]) is not None and found[larger] is not None
    ]
    return min(safe)[1] if safe else sizes[0]


def _main() -> None:
    from iclab.papers.mamba.hybrid_settings import HybridSettings, orders

    settings = HybridSettings()
    for norm in settings.norms:
        for order in orders(settings.depths):
            found = losses(settings.training_of(order, norm))
            listed = ", ".join("diverged" if loss is None else f"{loss:.5f}" for loss in found.values())
            print(f"{norm}  {order:24} {choose(found):<5g} {listed}", flush=True)


if __name__ == "__main__":
    _main()
