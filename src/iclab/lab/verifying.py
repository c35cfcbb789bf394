"""Compute a sample of a store's cells again, and compare weights and rows with the stored ones.

Nothing is written into the store: what is computed goes to a temporary directory.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from safetensors.torch import load_file

from iclab.config import InputError, OutsideTheoremWarning
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.disk import checksum
from iclab.lab.executors.jobs import run_job
from iclab.lab.machine import BITS_DEPEND_ON, made_by
from iclab.lab.store import Store, read_about
from iclab.lab.upkeep import KINDS, entries
from iclab.probes import Row

TOLERANCE = 1e-3
"""How far numbers of another machine may be apart: of weights, relative to the largest of their tensor; of rows,
relative to the number, or absolutely below 1."""
SAMPLE, SECONDS = 20, 60.0

Found = Literal["bit for bit", "within tolerance", "differs"]


@dataclass(frozen=True)
class Verified:
    """A cell that was computed again."""

    kind: str
    hash: str
    found: Found
    same_machine: bool
    """Whether the entry was made with this processor and these versions of torch, numba and numpy."""
    detail: str = ""
    """What differs."""


@dataclass
class Verification:
    """All cells that were computed again, and how many were not."""

    cells: list[Verified] = field(default_factory=list)
    of: int = 0
    """How many cells the sample was drawn from."""
    too_long: int = 0
    """Cells that were drawn and left out, because they took longer than the time that was left."""
    late: bool = False
    """Whether the time was up before the sample was complete."""
    other_version: int = 0
    """Cells that were drawn and left out, because this version of iclab describes them otherwise."""


def verify(
    store: Store,
    names: Collection[str] | None = None,
    *,
    sample: int = SAMPLE,
    seconds: float = SECONDS,
    seed: int = 0,
    tell: Callable[[int, int], object] = lambda done, of: None,
) -> Verification:
    """Compute a random sample of stored cells again.

    Args:
        store: where the cells are.
        names: draw from the cells with these names only; by default from all.
        sample: how many cells to compute.
        seconds: how long to go on. Cells that took longer than what is left, when they were stored, are left out.
        seed: changes the sample.
        tell: is told how many cells of how many are done.
    """
    listed = [entry for entry in entries(store) if names is None or entry.name in names]
    found = Verification(of=len(listed))
    random.Random(seed).shuffle(listed)
    left, started = seconds, time.monotonic()
    for entry in listed:
        found.late = time.monotonic() - started > seconds
        if len(found.cells) == sample or found.late:
            break
        took = read_about(entry)["seconds"]
        cell = _cell_of(entry)
        if cell is None:
            found.other_version += 1
        elif took > left:
            found.too_long += 1
        else:
            left -= took
            found.cells.append(_again(cell, entry, store))
            tell(len(found.cells), min(sample, len(listed)))
    return found


def _cell_of(entry: Path) -> Cell | None:
    """Return the description of an entry; None if it has another name now, or the user's code is gone."""
    kind, _ = KINDS[entry.parent.name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoremWarning)
            cell = kind.model_validate(read_about(entry)["cell"])
        return cell if cell.hash == entry.name else None
    except (InputError, ValidationError, ArithmeticError):
        return None


def _again(cell: Cell, entry: Path, store: Store) -> Verified:
    """Compute one cell again. A measurement is made of the stored weights, if the store has them."""
    made = read_about(entry)["made by"]
    same = all(made.get(name) == made_by()[name] for name in BITS_DEPEND_ON)
    with tempfile.TemporaryDirectory(prefix="iclab-verify-") as folder:
        own = Store(folder, lasting=False).open_for_writing()
        try:
            if isinstance(cell, MeasurementCell) and store.has(cell.training):
                own.put([store.pack(cell.training)])
            elif isinstance(cell, MeasurementCell):
                run_job([cell.training], own, lambda event: None)
            run_job([cell], own, lambda event: None)
            apart, detail = _apart(cell, store, own)
        except InputError as error:  # a damaged entry
            apart, detail = math.inf, str(error)
    if apart == 0:
        return Verified(entry.parent.name, entry.name, "bit for bit", same)
    found: Found = "differs" if same or not apart <= TOLERANCE else "within tolerance"
    return Verified(entry.parent.name, entry.name, found, same, detail)


def _apart(cell: Cell, store: Store, own: Store) -> tuple[float, str]:
    """Return the largest difference of stored and computed numbers, and where it is."""
    if isinstance(cell, TrainingCell):
        files = [s.entry(cell) / "weights.safetensors" for s in (store, own)]
        return (0.0, "") if checksum(files[0]) == checksum(files[1]) else _weights_apart(*map(load_file, files))
    return _rows_apart(store.load_rows(cell), own.load_rows(cell))


def _weights_apart(stored: dict[str, Any], computed: dict[str, Any]) -> tuple[float, str]:
    if stored.keys() != computed.keys() or any(stored[name].shape != computed[name].shape for name in stored):
        return math.inf, "other tensors"
    worst, where = 0.0, ""
    for name, tensor in stored.items():
        a, b = tensor.double(), computed[name].double()
        if not (a.isfinite() == b.isfinite()).all():
            return math.inf, f"{name}: diverged in one and not in the other"
        apart = float((a - b).nan_to_num(0.0).abs().max() / max(float(a.nan_to_num(0.0).abs().max()), 1e-30))
        worst, where = max((worst, where), (apart, f"{name}: {apart:.2g} of its largest weight"))
    return worst, where


def _rows_apart(stored: list[Row], computed: list[Row]) -> tuple[float, str]:
    if [list(row) for row in stored] != [list(row) for row in computed]:
        return math.inf, "other rows or columns"
    worst, where = 0.0, ""
    for old, new in zip(stored, computed, strict=True):
        for name, a in old.items():
            b = new[name]
            if a == b or (a != a and b != b):
                continue
            numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
            apart = abs(a - b) / max(abs(a), 1.0) if numbers else math.inf
            worst, where = max((worst, where), (apart, f"{name} of seed {old['seed']}: stored {a}, computed {b}"))
    return worst, where
