"""Runs what is missing: training cells first, then the measurements that wait for them, on local processes."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for_handle
from typing import Any

from iclab.config import InputError, OutsideTheoremWarning
from iclab.engines import Trained, check, train
from iclab.lab.cells import MeasurementCell, TrainingCell, unshippable
from iclab.lab.progress import Watch
from iclab.lab.store import Store
from iclab.probes import measure

BATCH = 6
"""Measurements of one training handed to a process at a time."""


class StopRequested(Exception):  # noqa: N818 (it is no error)
    """The run was asked to stop."""


@dataclass
class Plan:
    """What is missing from a store: trainings, and under each the measurements that need it."""

    trainings: dict[str, TrainingCell] = field(default_factory=dict)
    measurements: dict[str, list[MeasurementCell]] = field(default_factory=dict)
    found: int = 0
    """Cells asked for that were there already."""

    @classmethod
    def of(cls, cells: Iterable[MeasurementCell], store: Store) -> Plan:
        """Compare what is asked for with what is there."""
        plan = cls()
        for cell in {cell.hash: cell for cell in cells}.values():
            needed = cell.training
            if store.has(cell):
                plan.found += 1
                continue
            plan.measurements.setdefault(needed.hash, []).append(cell)
            if not store.has(needed):
                plan.trainings[needed.hash] = needed
        return plan

    def split(self, here: Callable[[TrainingCell], bool]) -> tuple[Plan, Plan]:
        """Divide the work by training."""
        parts = (Plan(), Plan())
        for hash_, cells in self.measurements.items():
            part = parts[0 if here(cells[0].training) else 1]
            part.measurements[hash_] = cells
            if hash_ in self.trainings:
                part.trainings[hash_] = self.trainings[hash_]
        return parts

    @property
    def cells(self) -> int:
        """The number of cells to compute."""
        return len(self.trainings) + sum(map(len, self.measurements.values()))

    @property
    def work(self) -> int:
        """The number of prompts to work through."""
        measured = sum(cell.work for cells in self.measurements.values() for cell in cells)
        return sum(cell.work for cell in self.trainings.values()) + measured


def run(
    cells: Iterable[MeasurementCell], store: Store, *, workers: int = 2, title: str = "iclab", quiet: bool = False
) -> Plan:
    """Compute every missing cell into the store; return what was missing.

    Cells of the fused engine run here, on threads; the others on processes of one thread each. Each finished cell is
    kept at once. After an interruption the same call goes on from there.
    """
    if workers < 1:
        raise InputError(f"workers = {workers}: must be at least 1")
    plan = Plan.of(cells, store)
    if not plan.cells:
        return plan
    here, elsewhere = plan.split(lambda cell: workers == 1 or cell.training.engine == "fused")
    for cell in (cell for listed in elsewhere.measurements.values() for cell in listed):
        if code := unshippable(cell):
            raise InputError(
                f"{code[0].path}: other processes cannot import it; put it into a module or use workers = 1"
            )
    for training in {cell.training.digest(): cell.training for cell in plan.trainings.values()}.values():
        check(training)  # a model that cannot run is refused before anything is written
    store.open_for_writing()
    with Watch(title, here.cells, here.work, quiet) as watch:  # one each: a prompt costs far less on one than the other
        _run_here(here, store, workers, watch)
    with Watch(title, elsewhere.cells, elsewhere.work, quiet) as watch:
        if elsewhere.cells:
            _run_in_processes(elsewhere, store, min(workers, elsewhere.cells), watch)
    return plan


def _run_here(plan: Plan, store: Store, threads: int, watch: Watch) -> None:
    for hash_, cells in plan.measurements.items():
        if hash_ in plan.trainings:
            trained = _do_training(plan.trainings[hash_], store, watch.advance, watch.tell, threads)
            watch.advance(cells=1)
        else:
            trained = store.load_training(cells[0].training)
        for cell in cells:
            _do_measurement(cell, trained, store, watch.advance, threads)
            watch.advance(cells=1)


def _do_training(
    cell: TrainingCell, store: Store, report: Callable[[int], None], tell: Callable[[str], None], threads: int = 1
) -> Trained:
    started = time.perf_counter()
    trained = train(cell.training, cell.seeds, report, tell, threads)
    store.save_training(cell, trained, time.perf_counter() - started)
    return trained


def _do_measurement(
    cell: MeasurementCell, trained: Trained, store: Store, report: Callable[[int], None], threads: int = 1
) -> None:
    started = time.perf_counter()
    rows = measure(
        trained,
        cell.probe,
        cell.prompts,
        cell.count,
        at=cell.at,
        draw=cell.draw,
        pruning=cell.pruning,
        report=report,
        threads=threads,
    )
    store.save_rows(cell, rows, time.perf_counter() - started)


def _run_in_processes(plan: Plan, store: Store, workers: int, watch: Watch) -> None:
    context = multiprocessing.get_context("spawn")
    news = context.Queue()  # (prompts, cells, text) from the workers
    stop = context.Event()

    def listen(block: float) -> None:
        try:
            while True:
                prompts, cells, text = news.get(timeout=block)
                block = 0.0
                if text:
                    watch.tell(text)
                watch.advance(prompts, cells)
        except queue.Empty:
            pass

    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(news, stop))
    try:
        path = str(store.path)
        jobs: dict[Future[None], str | None] = {}
        with _interrupts_ignored():  # the processes start here, and inherit it
            for hash_, cell in plan.trainings.items():
                jobs[pool.submit(_training_job, path, cell.model_dump_json())] = hash_

        def submit_measurements(hash_: str) -> None:
            cells = [cell.model_dump_json() for cell in plan.measurements[hash_]]
            for start in range(0, len(cells), BATCH):
                jobs[pool.submit(_measurement_job, path, cells[start : start + BATCH])] = None

        with _interrupts_ignored():
            for hash_ in plan.measurements:
                if hash_ not in plan.trainings:
                    submit_measurements(hash_)
        while jobs:
            done, _ = wait(jobs, timeout=0.0, return_when=FIRST_COMPLETED)
            for job in done:
                hash_done = jobs.pop(job)
                job.result()  # raises what the worker raised
                if hash_done is not None:
                    submit_measurements(hash_done)
            listen(0.1)
    except BrokenProcessPool:
        raise InputError(
            "a worker process died (out of memory?); finished cells are kept, the same command goes on"
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        listen(0.0)
        news.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C for a moment; outside the main thread, where signals are not ours, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# In the worker processes.

_news: Any
_stop: Any


def _begin(news: Any, stop: Any) -> None:
    global _news, _stop
    _news, _stop = news, stop
    warnings.simplefilter("ignore", OutsideTheoremWarning)  # the main process has said it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        wait_for_handle([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


class _Reporter:
    """Passes progress to the main process, not too often, and stops the work when the run is stopped."""

    def __init__(self) -> None:
        self._pending, self._last = 0, time.monotonic()

    def __call__(self, prompts: int) -> None:
        if _stop.is_set():
            raise StopRequested
        self._pending += prompts
        if time.monotonic() - self._last > 0.2:
            self.flush()

    def flush(self, cells: int = 0) -> None:
        _news.put((self._pending, cells, ""))
        self._pending, self._last = 0, time.monotonic()


def _training_job(store: str, cell_json: str) -> None:
    report = _Reporter()
    cell = TrainingCell.model_validate_json(cell_json)
    _do_training(cell, Store(store), report, lambda text: _news.put((0, 0, text)))
    report.flush(cells=1)


def _measurement_job(store: str, cells_json: list[str]) -> None:
    report = _Reporter()
    place = Store(store)
    cells = [MeasurementCell.model_validate_json(text) for text in cells_json]
    trained = place.load_training(cells[0].training)
    for cell in cells:
        _do_measurement(cell, trained, place, report)
        report.flush(cells=1)
