"""The work of a job, in whichever process it runs: compute its cells, store them, emit events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iclab.config import InputError
from iclab.engines import Trained, train
from iclab.lab import memory
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.events import Kind, Listener, Notice
from iclab.lab.meter import Meter
from iclab.lab.retries import named
from iclab.lab.store import BadEntryError, Store
from iclab.probes import measure


class StopRequested(Exception):  # noqa: N818 (not an error)
    """The run is to stop: raised by a listener, to end a job."""


def run_job(cells: Sequence[Cell], store: Store, listen: Listener, threads: int = 1) -> None:
    """Compute a training, or measurements of one training that the store has."""
    trained = None
    for cell in cells:
        with _saying_what_lacks_memory(cell):
            trained = _run(cell, trained, store, listen, threads)


@contextmanager
def _saying_what_lacks_memory(cell: Cell) -> Iterator[None]:
    """Turn an allocation that failed into one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch raises a RuntimeError
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            there = memory.available()
            left = f"; {memory.shown_bytes(there)} are available" if there is not None else ""
            raise InputError(f"{named(cell)}: needs more memory than there is{left}; use fewer workers") from None
        raise


def _run(cell: Cell, trained: Trained | None, store: Store, listen: Listener, threads: int) -> Trained | None:
    """Compute a cell; return the weights that were read for it, for the next one."""
    if isinstance(cell, TrainingCell):
        train_cell(cell, store, listen, threads)
        return None
    trained = trained or _load(cell.training, store, listen, threads)
    measure_cell(cell, trained, store, listen, threads)
    return trained


def _load(cell: TrainingCell, store: Store, listen: Listener, threads: int) -> Trained:
    """Load a training; one whose entry is bad is moved aside and trained again."""
    try:
        return store.load_training(cell)
    except BadEntryError as error:
        store.set_aside(error.entry)
        listen(Notice(f"{error.entry}: is corrupted ({error.reason}); it is moved aside and computed again"))
        quietly: Listener = lambda event: listen(event) if isinstance(event, Notice) else None  # noqa: E731
        train_cell(cell, store, quietly, threads)
        return store.load_training(cell)


def train_cell(cell: TrainingCell, store: Store, listen: Listener, threads: int = 1) -> None:
    """Train a group of seeds and store the weights."""
    meter = Meter(Kind.of(cell), cell.work, listen, threads)
    trained = train(cell.training, cell.seeds, meter.advance, meter.notice, threads)
    store.save_training(cell, trained, meter.seconds)
    meter.finish()


def measure_cell(cell: MeasurementCell, trained: Trained, store: Store, listen: Listener, threads: int = 1) -> None:
    """Measure trained seeds and store the rows."""
    meter = Meter(Kind.of(cell), cell.work, listen, threads)
    rows = measure(
        trained,
        cell.probe,
        cell.prompts,
        cell.count,
        at=cell.at,
        draw=cell.draw,
        pruning=cell.pruning,
        advance=meter.advance,
        threads=threads,
    )
    store.save_rows(cell, rows, meter.seconds)
    meter.finish()
