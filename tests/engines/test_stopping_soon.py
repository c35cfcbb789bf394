"""Ctrl-C and a time limit act soon: the fused engine works in short stretches, and drops what has not begun."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from iclab.engines import Recipe
from iclab.engines.fused import seeds
from iclab.engines.fused.summing import Add, Measuring, sum_pieces


class Stopped(Exception):  # noqa: N818 (not an error)
    pass


def test_pieces_that_have_not_begun_are_dropped():
    begun = []

    def seed(row: int) -> Add:
        def add(first: int, count: int, total: NDArray[np.float64]) -> None:
            begun.append(first)
            time.sleep(0.002)

        return add

    def stop(prompts: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        sum_pieces([0], ["right"], Measuring((), seed, piece=1), 500, stop, threads=1)
    assert 1 <= len(begun) < 250


@pytest.mark.parametrize("per_step, longest", [(0.0, 100), (0.1, 2), (3.0, 1)])
def test_stretches_are_as_short_as_steps_are_long(per_step: float, longest: int, monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]
    monkeypatch.setattr(seeds.time, "monotonic", lambda: clock[0])
    recipe, taken = Recipe(steps=400, snapshots=(7, 201)), []
    for first, last in seeds._stretches(recipe, 100):
        taken.append((first, last))
        clock[0] += per_step * (last - first)
    assert [step for first, last in taken for step in range(first, last)] == list(range(400))
    assert {7, 201, 400} <= {last for _, last in taken}
    assert max(last - first for first, last in taken) == longest
