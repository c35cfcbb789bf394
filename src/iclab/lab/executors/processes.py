"""Cells on worker processes of this machine: trainings first, and the measurements of each as soon as it is done.

Workers are spawned, not forked, because torch's threads do not survive a fork. They ignore Ctrl-C, which the main
process turns into a stop event, and they exit when the main process dies.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import queue
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_handle
from typing import Any

from iclab.config import InputError, OutsideTheoremWarning
from iclab.lab.cells import MeasurementCell, TrainingCell
from iclab.lab.events import Advanced, Event, Listener
from iclab.lab.executors.jobs import measure_cell, train_cell
from iclab.lab.plan import Plan
from iclab.lab.store import Store

BATCH = 6
"""Measurements of one training that a worker takes at a time."""
POLL = 0.1
"""Seconds to wait for an event before looking for finished jobs."""


def first_jobs(plan: Plan) -> int:
    """Return how many jobs can start at once, which is what limits the use of many workers."""
    trained = (cells for hash_, cells in plan.measurements.items() if hash_ not in plan.trainings)
    return len(plan.trainings) + _batches(trained)


def most_jobs(plan: Plan) -> int:
    """Return how many jobs can run at once if all trainings end together."""
    return max(first_jobs(plan), _batches(plan.measurements.values()))


def _batches(measurements: Iterable[list[MeasurementCell]]) -> int:
    return sum(-(-len(cells) // BATCH) for cells in measurements)


def run_in_processes(plan: Plan, store: Store, listen: Listener, workers: int) -> None:
    """Compute a plan on worker processes and pass their events on."""
    context = _Spawning()
    events, stop = context.Queue(), context.Event()
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(events, stop))
    try:
        _run_jobs(plan, str(store.path), pool, lambda: _pass_on(events, listen, POLL))
    except BrokenProcessPool:
        raise InputError(
            "a worker process died (out of memory?); finished cells are kept, run the same command again to continue"
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        _pass_on(events, listen, 0.0)
        events.close()


class _Worker(multiprocessing.context.SpawnProcess):
    """A process that does not run the user's script again: no job needs it, and few scripts are written for that."""

    def start(self) -> None:
        """Start the process while ``__main__`` looks empty, so that it imports none."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Spawning(multiprocessing.context.SpawnContext):
    Process = _Worker


def _run_jobs(plan: Plan, path: str, pool: ProcessPoolExecutor, pass_on: Callable[[], None]) -> None:
    jobs: dict[Future[None], str | None] = {}  # the value is the hash of a training, None for measurements

    def submit_measurements(hash_: str) -> None:
        cells = [cell.model_dump_json() for cell in plan.measurements[hash_]]
        for start in range(0, len(cells), BATCH):
            jobs[pool.submit(_measurement_job, path, cells[start : start + BATCH])] = None

    with _interrupts_ignored():  # submitting starts the workers, which inherit this
        for hash_, cell in plan.trainings.items():
            jobs[pool.submit(_training_job, path, cell.model_dump_json())] = hash_
        for hash_ in plan.measurements:
            if hash_ not in plan.trainings:
                submit_measurements(hash_)
    while jobs:
        done, _ = wait(jobs, timeout=0.0, return_when=FIRST_COMPLETED)
        for job in done:
            trained = jobs.pop(job)
            job.result()  # raises what the worker raised
            if trained is not None:
                submit_measurements(trained)
        pass_on()


def _pass_on(events: Any, listen: Listener, timeout: float) -> None:
    """Hand all waiting events to the listener; wait for the first one."""
    try:
        while True:
            listen(events.get(timeout=timeout))
            timeout = 0.0
    except queue.Empty:
        pass


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C for a moment. Only the main thread may do that; others do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# In the worker processes.


class StopRequested(Exception):  # noqa: N818 (not an error)
    """The main process asked the workers to stop."""


_events: Any
_stop: Any


def _start_worker(events: Any, stop: Any) -> None:
    global _events, _stop
    _events, _stop = events, stop
    warnings.simplefilter("ignore", OutsideTheoremWarning)  # the main process has shown it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        wait_for_handle([parent.sentinel])
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def _send(event: Event) -> None:
    if isinstance(event, Advanced) and _stop.is_set():
        raise StopRequested
    _events.put(event)


def _training_job(path: str, cell: str) -> None:
    train_cell(TrainingCell.model_validate_json(cell), Store(path), _send)


def _measurement_job(path: str, cells: list[str]) -> None:
    store, measurements = Store(path), [MeasurementCell.model_validate_json(cell) for cell in cells]
    trained = store.load_training(measurements[0].training)
    for cell in measurements:
        measure_cell(cell, trained, store, _send)
