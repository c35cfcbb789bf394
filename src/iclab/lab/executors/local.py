"""The local executor: all cores of this machine, each a lane that takes the longest job it can run.

The first lane is this thread. The others are threads too; what computes without the interpreter, such as the fused
engine, runs in them. Other jobs run in the first lane, and where it is worth the start in a worker process per lane.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from iclab.config import InputError
from iclab.engines import ENGINES, sums_itself
from iclab.engines.reference import one_thread
from iclab.lab.cells import Cell, TrainingCell, unshippable
from iclab.lab.events import Advanced, Event, Listener, Notice
from iclab.lab.executors.jobs import StopRequested, run_job
from iclab.lab.executors.processes import WorkerProcess
from iclab.lab.plan import Plan
from iclab.lab.schedule import Job, Place, Schedule
from iclab.lab.store import Store
from iclab.probes import PROBES

PATIENCE = 10.0
"""Seconds to wait for other threads when a run is stopped; then they are left alone, and end with this process."""


class LocalExecutor:
    """Computes cells on ``workers`` cores of this machine."""

    def __init__(self, workers: int = 2) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise InputError(f"workers = {workers!r}: must be at least 1")
        self.workers = workers

    def schedule(self, plan: Plan, cost: Callable[[Cell], float]) -> Schedule:
        """Order the work."""
        stuck = _stuck(plan)

        def where(cell: Cell) -> Place:
            return Place.HERE if _training(cell).hash in stuck else place(cell)

        return Schedule(plan, cost, where, self.workers)

    def execute(self, schedule: Schedule, store: Store, listen: Listener) -> None:
        """Compute every cell of a schedule.

        Linear algebra, on small matrices, has one thread. Its own threads would wait by spinning on cores that lanes
        need, and torch would sum in another order.
        """
        from threadpoolctl import threadpool_limits  # imported late: few commands compute

        for path in dict.fromkeys(_stuck(schedule.plan).values() if self.workers > 1 else ()):
            why = "because others cannot import it; in a module, it would run on all cores"
            listen(Notice(f"{path}: runs in this process, {why}"))
        with threadpool_limits(1), one_thread():
            _Run(schedule, store, listen).run()


def place(cell: Cell) -> Place:
    """Return where a cell can run, if other processes can import its code."""
    training = _training(cell).training
    if not ENGINES[training.engine].separate_seeds:
        return Place.PROCESS
    if isinstance(cell, TrainingCell) or PROBES[cell.probe].looks_at == "weights":
        return Place.THREAD
    return Place.THREAD if sums_itself(training, cell.probe, cell.prompts) else Place.PROCESS


def _training(cell: Cell) -> TrainingCell:
    return cell if isinstance(cell, TrainingCell) else cell.training


def _stuck(plan: Plan) -> dict[str, str]:
    """Return the hashes of trainings that worker processes could run but cannot import, and what that is."""
    found = {}
    for cell in plan:
        if place(cell) != Place.THREAD and (code := unshippable(cell)):
            found[_training(cell).hash] = code[0].path
    return found


class _Run:
    """The lanes at work."""

    def __init__(self, schedule: Schedule, store: Store, listen: Listener) -> None:
        self._schedule, self._store, self._listener = schedule, store, listen
        self._changed = threading.Condition()
        """Held to use the schedule; notified when a job is done, a process has started or the run is to stop."""
        self._listening = threading.Lock()
        self._stop = False
        self._error: BaseException | None = None
        self._processes: list[WorkerProcess] = []
        self._expected = self._took = 0.0

    def run(self) -> None:
        """Compute everything in this thread and others; raise what any of them raised."""
        others = [
            threading.Thread(target=self._other_lane, args=(number,), daemon=True)
            for number in range(self._schedule.lanes - 1)
        ]
        self._start_processes(self._schedule.processes)
        try:
            for thread in others:
                thread.start()
            self._lane(lambda: Place.HERE)
        except StopRequested:
            pass  # another lane has failed
        finally:
            self._end(others)
        if self._error:
            raise self._error

    def _end(self, others: list[threading.Thread]) -> None:
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        for process in self._processes:
            process.stop()
        until = time.monotonic() + PATIENCE
        for thread in others:
            thread.join(max(0.0, until - time.monotonic()))
        for process in self._processes:
            process.close()

    def _other_lane(self, number: int) -> None:
        """Work in another thread; if it fails, stop all lanes."""

        def reach() -> Place:
            return Place.PROCESS if number < len(self._processes) else Place.THREAD

        try:
            self._lane(reach, number)
        except StopRequested:
            pass
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._stop = True
                self._changed.notify_all()

    def _lane(self, reach: Callable[[], Place], number: int | None = None) -> None:
        """Run jobs until there are none; those that need a process of their own go to the one of this lane."""
        while job := self._next(reach):
            started = time.monotonic()
            if job.place == Place.PROCESS and number is not None:
                self._processes[number].run(job.cells)
            else:
                run_job(job.cells, self._store, self._tell, job.threads)
            with self._changed:
                if job.place != Place.THREAD:
                    self._expected += job.cost
                    self._took += time.monotonic() - started
                self._schedule.done(job)
                self._changed.notify_all()

    def _next(self, reach: Callable[[], Place]) -> Job | None:
        """Wait for a job that this lane can run; None if the run is over."""
        with self._changed:
            while not self._stop:
                if reach() == Place.HERE:
                    slower = max(1.0, self._took / self._expected) if self._expected else 1.0
                    self._start_processes(self._schedule.processes_worth(slower))
                if job := self._schedule.take(reach()):
                    return job
                if self._schedule.finished:
                    return None
                self._changed.wait()
        return None

    def _start_processes(self, many: int) -> None:
        with self._changed:
            self._processes += [WorkerProcess(self._store, self._pass_on) for _ in range(many - len(self._processes))]
            self._schedule.processes = many

    def _tell(self, event: Event) -> None:
        """Pass an event of a job in this process on, or end the job."""
        if self._stop and isinstance(event, Advanced):
            raise StopRequested
        self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        with self._listening:
            self._listener(event)
