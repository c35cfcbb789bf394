"""The plan of a run: which cells are missing from a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.store import Store


@dataclass
class Plan:
    """The cells that are missing from a store: trainings, and the measurements that need each of them."""

    trainings: dict[str, TrainingCell] = field(default_factory=dict)
    """Missing trainings by hash."""
    measurements: dict[str, list[MeasurementCell]] = field(default_factory=dict)
    """Missing measurements by the hash of their training, whether or not that one is missing too; maybe none."""
    found: int = 0
    """How many of the requested cells the store already has."""

    @classmethod
    def of(cls, cells: Iterable[Cell], store: Store) -> Plan:
        """Compare the requested cells with a store."""
        plan = cls()
        for cell in {cell.hash: cell for cell in cells}.values():
            if store.has(cell):
                plan.found += 1
                continue
            needed = cell if isinstance(cell, TrainingCell) else cell.training
            measurements = plan.measurements.setdefault(needed.hash, [])
            if isinstance(cell, MeasurementCell):
                measurements.append(cell)
            if needed.hash not in plan.trainings and not store.has(needed):
                plan.trainings[needed.hash] = needed
        return plan

    def __iter__(self) -> Iterator[Cell]:
        """Iterate over all missing cells."""
        yield from self.trainings.values()
        for cells in self.measurements.values():
            yield from cells

    def __len__(self) -> int:
        """Return the number of missing cells."""
        return len(self.trainings) + sum(map(len, self.measurements.values()))
