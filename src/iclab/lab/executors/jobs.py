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
from iclab.lab.store import BadEntryError, Result, Store
from iclab.probes import Row, measure


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
"""Calls a function that waits for the disk and names entries: at once, or later in another thread."""


def at_once(finish: Callable[[], None]) -> None:
    """Store cells before the next one is computed."""
    finish()


STORE_EVERY = 0.25
"""Seconds after which a job stores what it has finished: many small cells share one wait for the disk."""
MOST = 64
"""Cells that a job stores at once."""


class _Finished:
    """The cells of a job that are finished and not stored yet."""

    def __init__(self, store: Store, later: Later, every: float) -> None:
        self._store, self._later, self._every = store, later, every
        self._results: list[tuple[Result, Meter]] = []
        self._last = time.monotonic()

    def add(self, cell: Cell, data: Trained | list[Row], meter: Meter) -> None:
        """Take a cell, and store it now or with the next ones."""
        self._results.append((Result(cell, data, meter.stop()), meter))
        if len(self._results) >= MOST or time.monotonic() - self._last >= self._every:
            self.store()

    def store(self) -> None:
        """Store what there is, and say so.

        Files are written here, because a thread that competes for the interpreter would wait for it at every call of
        the system. Another one can wait for the disk.
        """
        if not self._results:
            return
        results, publish = self._results, self._store.write(result for result, _ in self._results)
        self._results, self._last = [], time.monotonic()

        def finish() -> None:
            publish()
            for _, meter in results:
                meter.finish()

        self._later(finish)


def run_job(
    cells: Sequence[Cell],
    store: Store,
    listen: Listener,
    threads: int = 1,
    limit: float | None = None,
    later: Later = at_once,
    every: float = STORE_EVERY,
) -> None:
    """Compute trainings, and measurements of trainings that come before them or that the store has.

    What is finished is stored ``every`` so many seconds, and at the end, also if that is an error. A cell that takes
    longer than ``limit`` seconds raises `OverTimeError` at the next step of its engine.
    """
    finished, trained = _Finished(store, later, every), None
    try:
        for cell in cells:
            with _saying_what_lacks_memory(cell):
                trained = _run(cell, trained, store, _limited(listen, limit), threads, finished)
    finally:
        finished.store()


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
    cell: Cell, trained: Trained | None, store: Store, listen: Listener, threads: int, finished: _Finished
) -> Trained:
    """Compute a cell; return the weights that it made, or that were read for it, for the next one."""
    if isinstance(cell, TrainingCell):
        return train_cell(cell, listen, threads, finished)
    wanted = cell.training
    if trained is None or (trained.training, trained.seeds) != (wanted.training, wanted.seeds):
        trained = _load(wanted, store, listen, threads)
    measure_cell(cell, trained, listen, threads, finished)
    return trained


def _load(cell: TrainingCell, store: Store, listen: Listener, threads: int) -> Trained:
    """Load a training; one whose entry is bad is moved aside and trained again."""
    try:
        return store.load_training(cell)
    except BadEntryError as error:
        store.set_aside(error.entry)
        listen(Notice(f"{error.entry}: is corrupted ({error.reason}); it is moved aside and computed again"))
        quietly: Listener = lambda event: listen(event) if isinstance(event, Notice) else None  # noqa: E731
        train_cell(cell, quietly, threads, _Finished(store, at_once, every=0.0))
        return store.load_training(cell)


def train_cell(cell: TrainingCell, listen: Listener, threads: int, finished: _Finished) -> Trained:
    """Train a group of seeds."""
    meter = Meter(Kind.of(cell), cell.work, listen, threads)
    trained = train(cell.training, cell.seeds, meter.advance, meter.notice, threads)
    finished.add(cell, trained, meter)
    return trained


def measure_cell(cell: MeasurementCell, trained: Trained, listen: Listener, threads: int, finished: _Finished) -> None:
    """Measure trained seeds."""
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
    finished.add(cell, rows, meter)
