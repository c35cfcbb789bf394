"""The work of a job, in whichever process it runs: compute its cells, store them, emit events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from iclab.config import InputError
from iclab.engines import Trained, train
from iclab.lab import memory
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.events import Advanced, Event, Kind, Listener, Notice
from iclab.lab.meter import Meter
from iclab.lab.retries import named
from iclab.lab.store import BadEntryError, Store
from iclab.probes import measure


class StopRequested(Exception):  # noqa: N818 (not an error)
    """The run is to stop: raised by a listener, to end a job."""


class OverTimeError(Exception):
    """A cell takes longer than allowed."""


def check_limits(workers: int | None, cell_timeout: float | None) -> None:
    """Refuse limits of an executor that make no sense."""
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers = {workers!r}: must be at least 1")
    number = isinstance(cell_timeout, (int, float)) and not isinstance(cell_timeout, bool)
    if cell_timeout is not None and not (number and 0 < cell_timeout < float("inf")):
        raise InputError(f"cell_timeout = {cell_timeout!r}: must be a number of seconds above 0")


Later = Callable[[Callable[[], None]], None]
"""Calls a function that stores a cell: at once, or later in another thread."""


def at_once(write: Callable[[], None]) -> None:
    """Store a cell before the next one is computed."""
    write()


def run_job(
    cells: Sequence[Cell],
    store: Store,
    listen: Listener,
    threads: int = 1,
    limit: float | None = None,
    later: Later = at_once,
) -> None:
    """Compute a training, or measurements of one training that the store has.

    A cell that takes longer than ``limit`` seconds raises `OverTimeError` at the next step of its engine.
    """
    trained = None
    for cell in cells:
        with _saying_what_lacks_memory(cell):
            trained = _run(cell, trained, store, _limited(listen, limit), threads, later)


def _limited(listen: Listener, limit: float | None) -> Listener:
    if limit is None:
        return listen
    started = time.monotonic()

    def listening(event: Event) -> None:
        if isinstance(event, Advanced) and time.monotonic() - started > limit:
            raise OverTimeError
        listen(event)

    return listening


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


def _run(
    cell: Cell, trained: Trained | None, store: Store, listen: Listener, threads: int, later: Later
) -> Trained | None:
    """Compute a cell; return the weights that were read for it, for the next one."""
    if isinstance(cell, TrainingCell):
        train_cell(cell, store, listen, threads, later)
        return None
    trained = trained or _load(cell.training, store, listen, threads)
    measure_cell(cell, trained, store, listen, threads, later)
    return trained


def _load(cell: TrainingCell, store: Store, listen: Listener, threads: int) -> Trained:
    """Load a training; one whose entry is bad is moved aside and trained again."""
    try:
        return store.load_training(cell)
    except BadEntryError as error:
        store.set_aside(error.entry)
        listen(Notice(f"{error.entry}: is corrupted ({error.reason}); it is moved aside and computed again"))
        quietly: Listener = lambda event: listen(event) if isinstance(event, Notice) else None  # noqa: E731
        train_cell(cell, store, quietly, threads, at_once)
        return store.load_training(cell)


def train_cell(cell: TrainingCell, store: Store, listen: Listener, threads: int, later: Later) -> None:
    """Train a group of seeds and store the weights."""
    meter = Meter(Kind.of(cell), cell.work, listen, threads)
    trained = train(cell.training, cell.seeds, meter.advance, meter.notice, threads)
    seconds = meter.stop()

    def write() -> None:
        store.save_training(cell, trained, seconds)
        meter.finish()

    later(write)


def measure_cell(
    cell: MeasurementCell, trained: Trained, store: Store, listen: Listener, threads: int, later: Later
) -> None:
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
    seconds = meter.stop()

    def write() -> None:
        store.save_rows(cell, rows, seconds)
        meter.finish()

    later(write)
