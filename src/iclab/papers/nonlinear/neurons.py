"""The two groups of neurons in T Theorem 3.7, from stored rows: the large ones L, and the others."""

from __future__ import annotations

from iclab.probes import LARGE, Row
from iclab.study.claims import BySeed


def by_seed(rows: list[Row], step: int) -> dict[int, list[Row]]:
    """Return each seed's neurons after a step; an empty list where it diverged."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row["probe"] == "neurons" and row["step"] == step:
            found.setdefault(row["seed"], []).extend([] if row["diverged"] else [row])
    return found


def groups_of(neurons: list[Row]) -> tuple[list[Row], list[Row]]:
    """Divide one seed's neurons into the large ones, with an Ω(1) long row of W_O W_V, and the others."""
    return [n for n in neurons if n["length"] >= LARGE], [n for n in neurons if n["length"] < LARGE]


def large_share(rows: list[Row], step: int) -> BySeed:
    """Return each seed's share of large neurons; None where it diverged."""
    return {seed: len(groups_of(mine)[0]) / len(mine) if mine else None for seed, mine in by_seed(rows, step).items()}


def small_lengths(rows: list[Row], step: int) -> BySeed:
    """Return each seed's mean length of the neurons outside L; None where it diverged or has none."""
    found: BySeed = {}
    for seed, mine in by_seed(rows, step).items():
        small = groups_of(mine)[1]
        found[seed] = sum(row["length"] for row in small) / len(small) if small else None
    return found
