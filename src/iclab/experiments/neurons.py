"""The two groups of neurons of T Theorem 3.7, out of stored rows: the large ones L, and the others."""

from __future__ import annotations

from statistics import median

from iclab.probes import Row

SPLIT = 0.5
"""Theorem 3.7 only says that rows of W_O W_V in L are Ω(1) long. Read as: longer than this share of the seed's median.

Trained lengths fall into two groups with a wide gap between them, so that anything from 0.4 to 0.7 reads the same."""


def by_seed(rows: list[Row], step: int) -> dict[int, list[Row]]:
    """Each seed's neurons after a step; an empty list where it diverged."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row["probe"] == "neurons" and row["step"] == step:
            found.setdefault(row["seed"], []).extend([] if row["diverged"] else [row])
    return found


def groups_of(neurons: list[Row]) -> tuple[list[Row], list[Row]]:
    """Divide one seed's neurons into the large and the others."""
    if not neurons:
        return [], []
    limit = SPLIT * median(row["length"] for row in neurons)
    return [row for row in neurons if row["length"] > limit], [row for row in neurons if row["length"] <= limit]
