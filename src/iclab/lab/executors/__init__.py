"""Executors compute the cells of a plan. To run cells elsewhere, on a cluster for example, write another `Executor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from iclab.lab.cells import Cell
from iclab.lab.events import Listener
from iclab.lab.executors.local import LocalExecutor
from iclab.lab.executors.ray import RayExecutor
from iclab.lab.plan import Plan
from iclab.lab.schedule import Schedule
from iclab.lab.store import Store


class Executor(Protocol):
    """Computes the cells of a plan into a store: their descriptions go out, and entries are stored."""

    def schedule(self, plan: Plan, cost: Callable[[Cell], float]) -> Schedule:
        """Order the work by its expected seconds on one core. Raise `InputError` if it cannot be run here."""
        ...

    def execute(self, schedule: Schedule, store: Store, listen: Listener) -> None:
        """Compute every cell, store each as soon as it is finished, and emit its events, one at a time."""
        ...


__all__ = ["Executor", "LocalExecutor", "RayExecutor"]
