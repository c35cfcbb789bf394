"""What cells need at least: memory, disk and time. What no machine can serve is refused before any work is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from iclab.config import InputError
from iclab.engines import Training
from iclab.engines.reference import CHUNK
from iclab.lab import memory
from iclab.lab.cells import Cell, TrainingCell
from iclab.lab.memory import shown_bytes
from iclab.lab.schedule import Schedule
from iclab.models import Model
from iclab.prompts import Prompts

YEAR = 365 * 24 * 3600.0
CELL = 2_000
"""Bytes that a planned cell takes in this process, with its place in the plan and the schedule."""
AVAILABLE = "are available"
PAIRS = 3 * (4 + 8)
"""Bytes of a token in compact form: three indices and three coefficients."""


@dataclass(frozen=True)
class Need:
    """The least memory that a cell takes while it is computed, in bytes, by what takes it."""

    patterns: float
    weights: float
    losses: float
    prompts: float
    fields: dict[str, str]
    """The settings that each of these depends on."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.patterns + self.weights + self.losses + self.prompts

    @property
    def largest(self) -> str:
        """The part that takes most, with the settings that it depends on."""
        name = max(self.fields, key=lambda name: getattr(self, name))
        return f"{name} {shown_bytes(getattr(self, name))}, by {self.fields[name]}"


def need_of(cell: Cell) -> Need:
    """Return the least memory that a cell takes."""
    group = cell if isinstance(cell, TrainingCell) else cell.training
    training, seeds = group.training, len(group.seeds)
    if isinstance(cell, TrainingCell):
        return _need(training, training.prompts, seeds, "batch_size", training.recipe.batch_size)
    return _need(training, cell.prompts, seeds, "test prompts", min(cell.count, CHUNK))


def _need(training: Training, prompts: Prompts, seeds: int, name: str, batch: int) -> Need:
    """Return what so many seeds take, with so many of these prompts at a time."""
    patterns, length = prompts.patterns, prompts.context_length + 1
    number = 8 if training.dtype == "float64" else 4
    kept, fused = len(training.recipe.kept), training.engine == "fused"
    width = 0 if training.engine == "compact" else prompts.width
    layers = training.model.architecture.several_layers
    dense = 0 if fused else seeds * batch * length * (PAIRS + number * (width + (length if layers else 1)))
    return Need(
        patterns=2.0 * 8 * seeds * patterns.count * patterns.dimension,
        weights=0.0 if fused else float(number * seeds * parameters(training.model, prompts) * (1 + kept)),
        losses=8.0 * seeds * training.recipe.steps,
        prompts=float(dense),
        fields={
            "patterns": f"dimension = {patterns.dimension}, {patterns.count} patterns and {seeds} seeds",
            "weights": f"dimension = {patterns.dimension}, the model's options and {kept} snapshots of {seeds} seeds",
            "losses": f"steps = {training.recipe.steps}",
            "prompts": f"{name} = {batch}, context_length = {prompts.context_length}, dimension = {patterns.dimension}",
        },
    )


def parameters(model: Model, prompts: Prompts) -> int:
    """Return how many parameters a built-in model has, without making them; 0 for a user's own, which nobody knows."""
    key = (model.digest(), prompts.width, prompts.context_length, prompts.label_width)
    if key not in _PARAMETERS:
        _PARAMETERS[key] = 0
        if not model.is_users:
            with torch.device("meta"):
                made = model.build(*key[1:])
            _PARAMETERS[key] = sum(parameter.numel() for parameter in made.parameters())
    return _PARAMETERS[key]


_PARAMETERS: dict[tuple[str, int, int, int], int] = {}


def check(schedule: Schedule, store: Path, seconds: Callable[[Cell], float]) -> None:
    """Refuse cells that need more memory, disk or time than there is, in one line.

    Memory is that of the machine that computes; the disk is this one's, which has the store.
    """
    there = memory.available() if schedule.memory is None else schedule.memory
    where = AVAILABLE if schedule.memory is None else "are on the largest node of the cluster"
    disk, time, workers, seen = 0.0, 0.0, schedule.lanes, set[object]()
    for cell in schedule.plan:
        time += seconds(cell)
        training = cell.training if isinstance(cell, TrainingCell) else cell.training.training
        if isinstance(cell, TrainingCell):
            disk += _disk(training, len(cell.seeds))
        if (key := _kind(cell)) not in seen:
            seen.add(key)
            _check_memory(training, need_of(cell), there, where)
    place = store.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if disk > free:
        raise InputError(
            f"store = {store}: the weights take at least {shown_bytes(disk)}; {shown_bytes(free)} are free"
        )
    if time > YEAR * workers:
        years = f"{time / YEAR / workers:.3g} years on {workers} core{'s' if workers > 1 else ''}"
        raise InputError(f"this would take about {years}; ask for fewer or smaller cells")


def _kind(cell: Cell) -> object:
    """Return what the need of a cell depends on, so that it is worked out once for many."""
    if isinstance(cell, TrainingCell):
        return cell.training.digest()
    return cell.training.training.digest(), cell.prompts.patterns.dimension, cell.prompts.context_length, cell.count


def _check_memory(training: Training, need: Need, there: int | None, where: str) -> None:
    if there is not None and need.total > there:
        least = f"needs at least {shown_bytes(need.total)} of memory ({need.largest})"
        what = f"{training.model.label} on the {training.engine} engine"
        raise InputError(f"{what}: {least}; {shown_bytes(there)} {where}")


def _disk(training: Training, seeds: int) -> float:
    if training.engine == "fused":
        return 0.0
    number = 8 if training.dtype == "float64" else 4
    return float(number * seeds * parameters(training.model, training.prompts) * len(training.recipe.kept))


def check_trial(training: Training) -> None:
    """Refuse a training that cannot even be tried on this machine, which a plan may do before its needs are checked."""
    _check_memory(training, _need(training, training.prompts, 2, "prompts to try it", 2), memory.available(), AVAILABLE)


def check_count(many: float, seeds: int) -> None:
    """Refuse a number of cells that could not even be listed."""
    there = memory.available()
    if there is not None and many * CELL > there:
        plan = f"the plan of {many:.3g} cells takes about {shown_bytes(many * CELL)} of memory"
        raise InputError(f"seeds = {seeds}: {plan}; {shown_bytes(there)} are available")


def largest_need(cells: Iterable[Cell]) -> float:
    """Return the least memory that the largest of some cells takes, in bytes."""
    return max((need_of(cell).total for cell in {_kind(cell): cell for cell in cells}.values()), default=0.0)


def affordable(cells: Iterable[Cell], workers: int) -> int:
    """Return how many of these cells fit into memory at the same time: one at least, ``workers`` at most."""
    there, largest = memory.available(), largest_need(cells)
    return workers if there is None or not largest else max(1, min(workers, int(there / largest)))
