"""Executors compute the cells of a plan. To run cells elsewhere, on a cluster for example, write another `Executor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iclab.lab.events import Listener
from iclab.lab.executors.local import LocalExecutor
from iclab.lab.plan import Plan, Stage
from iclab.lab.store import Store


class Executor(Protocol):
    """Computes the cells of a plan into a store."""

    def stages(self, plan: Plan) -> Sequence[Stage]:
        """Divide the plan into stages that run one after another. Raise `InputError` if it cannot be run here."""
        ...

    def execute(self, stages: Sequence[Stage], store: Store, listen: Listener) -> None:
        """Compute every cell, store each as soon as it is finished, and emit its events."""
        ...


__all__ = ["Executor", "LocalExecutor"]
