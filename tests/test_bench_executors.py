"""What executors cost beside the work: the sweep and its table; timings are not tested."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from iclab.bench import executors, page
from iclab.bench.clusters import simulated
from iclab.lab import Plan, Store
from iclab.lab.schedule import Place, Schedule


def test_the_sweep_has_as_many_cells_as_it_says(tmp_path: Any):
    plan = Plan.of(executors.sweep(20), Store(tmp_path))
    assert (len(plan), len(plan.trainings)) == (20, 10)


@pytest.mark.slow
def test_the_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # no Ray
    local, ray = executors.overheads(1, cells=20)
    assert local["cells"] == 20
    assert 0 < local["memory"][0] <= local["memory"][1] + 50
    assert local["processor_milliseconds"] > 0
    assert ray["seconds"] is None
    text = page.markdown([page.executors([local, ray])])
    assert "| local | 1 | 20 |" in text
    assert "ray: ray is not installed." in text


# The growth of a cluster.


def schedule(tmp_path: Any, cells: int, lanes: int, cost: float) -> Schedule:
    made = Schedule(
        Plan.of(executors.sweep(cells), Store(tmp_path)), lambda cell: cost, lambda cell: Place.PROCESS, lanes
    )
    made.processes = lanes - 1
    return made


def test_long_cells_are_bound_by_the_cores(tmp_path: Any):
    assert simulated(schedule(tmp_path, 40, 4, 10.0), per_cell=0.001) == pytest.approx(100.0, rel=0.02)


def test_short_cells_are_bound_by_the_driver(tmp_path: Any):
    assert simulated(schedule(tmp_path, 40, 20, 0.001), per_cell=0.1) == pytest.approx(4.0, rel=0.05)


def test_few_cells_are_bound_by_their_chain(tmp_path: Any):
    assert simulated(schedule(tmp_path, 4, 100, 10.0), per_cell=0.001) == pytest.approx(20.0, rel=0.01)
