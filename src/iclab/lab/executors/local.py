"""The local executor: all cores of this machine, each a lane that takes the longest job it can run.

The first lane is this thread. The others are threads too; what computes without the interpreter, such as the fused
engine, runs in them. Other jobs run in the first lane, and where it is worth the start in a worker process per lane.
If a worker process dies, its cells are tried again (`Retries`), in half as many lanes if memory ran out.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable

from iclab.config import InputError
from iclab.engines import ENGINES, sums_itself
from iclab.lab.cells import Cell, TrainingCell, unshippable
from iclab.lab.events import Advanced, Event, Listener, Notice
from iclab.lab.executors.jobs import OverTimeError, StopRequested, check_limits, run_job
from iclab.lab.executors.processes import WorkerDiedError, WorkerProcess
from iclab.lab.executors.writers import Writers
from iclab.lab.needs import affordable
from iclab.lab.plan import Plan
from iclab.lab.retries import TRIES, Retries
from iclab.lab.schedule import Job, Place, Schedule
from iclab.lab.store import Store
from iclab.probes import PROBES
from iclab.threads import one_thread

PATIENCE = 10.0
"""Seconds to wait for other threads when a run is stopped; then they are left alone, and end with this process."""


class LocalExecutor:
    """Computes cells on ``workers`` cores of this machine, by default all.

    A cell that takes longer than ``cell_timeout`` seconds is given up and reported at the end of the run.
    """

    def __init__(self, workers: int | None = None, cell_timeout: float | None = None) -> None:
        check_limits(workers, cell_timeout)
        self.workers, self._limit = os.cpu_count() or 1 if workers is None else workers, cell_timeout

    def schedule(self, plan: Plan, cost: Callable[[Cell], float]) -> Schedule:
        """Order the work."""
        stuck = _stuck(plan)

        def where(cell: Cell) -> Place:
            return Place.HERE if _training(cell).hash in stuck else place(cell)

        return Schedule(plan, cost, where, affordable(plan, self.workers))

    def execute(self, schedule: Schedule, store: Store, listen: Listener) -> None:
        """Compute every cell of a schedule.

        Linear algebra, on small matrices, has one thread. Its own threads would wait by spinning on cores that lanes
        need, and torch would sum in another order.
        """
        from threadpoolctl import threadpool_limits  # imported late: few commands compute

        for path in dict.fromkeys(_stuck(schedule.plan).values() if self.workers > 1 else ()):
            why = "because others cannot import it; in a module, it would run on all cores"
            listen(Notice(f"{path}: runs in this process, {why}"))
        if schedule.lanes < self.workers:
            why = "because more of these cells do not fit into memory at the same time"
            listen(Notice(f"{schedule.lanes} of {self.workers} workers are used, {why}"))
        with threadpool_limits(1), one_thread():
            run = _Run(schedule, store, listen, self._limit)
            run.run()
        run.retries.settle(listen)


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

    def __init__(self, schedule: Schedule, store: Store, listen: Listener, limit: float | None) -> None:
        self._schedule, self._store, self._listener, self._limit = schedule, store, listen, limit
        self._changed = threading.Condition()
        """Held to use the schedule; notified when a job is done, a process has started or the run is to stop."""
        self._listening = threading.Lock()
        self._stop = False
        self._error: BaseException | None = None
        self._processes: dict[int, WorkerProcess] = {}
        """Worker processes by the number of their lane; the first, 0, has one only for cells that killed another."""
        self._unborn = 0
        """Worker processes in a row that died before they began to work."""
        self._expected = self._took = 0.0
        self._writers = Writers(self._notify)
        self.retries = Retries()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def run(self) -> None:
        """Compute everything in this thread and others; raise what any of them raised."""
        others = [
            threading.Thread(target=self._other_lane, args=(number,), daemon=True)
            for number in range(1, self._schedule.lanes)
        ]
        self._start_processes(self._schedule.processes)
        try:
            for thread in others:
                thread.start()
            self._lane(0)
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
            processes = list(self._processes.values())
        for process in processes:
            process.stop()
        until = time.monotonic() + PATIENCE
        for thread in others:
            thread.join(max(0.0, until - time.monotonic()))
        for process in processes:
            process.close()
        self._writers.close()

    def _other_lane(self, number: int) -> None:
        """Work in another thread; if it fails, stop all lanes."""
        try:
            self._lane(number)
        except StopRequested:
            pass
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._stop = True
                self._changed.notify_all()

    def _lane(self, number: int) -> None:
        """Run jobs until there are none; those that need a process of their own go to the one of this lane."""
        while job := self._next(number):
            started = time.monotonic()
            try:
                if job.apart or (job.place in (Place.SMALL, Place.PROCESS) and 0 < number <= self._schedule.processes):
                    self._process(number).run(job.cells, self._limit)
                    self._unborn = 0
                else:
                    later = functools.partial(self._writers.store, job)
                    run_job(job.cells, self._store, self._tell, job.threads, self._limit, later)
            except WorkerDiedError as death:
                self._try_again(job, number, death)
                continue
            except OverTimeError:
                self._give_up(job)
                continue
            with self._changed:
                if job.place != Place.THREAD:
                    self._expected += job.cost
                    self._took += time.monotonic() - started
                self._writers.end(job)
                self._changed.notify_all()

    def _next(self, number: int) -> Job | None:
        """Wait for a job that a lane can run; None if the run is over, or goes on with fewer lanes."""
        with self._changed:
            while not self._stop and number < self._schedule.lanes:
                for stored in self._writers.done():
                    self._schedule.done(stored)
                    self._changed.notify_all()
                if not number:
                    slower = max(1.0, self._took / self._expected) if self._expected else 1.0
                    self._start_processes(self._schedule.processes_worth(slower))
                reach = Place.PROCESS if number <= self._schedule.processes else Place.THREAD
                if job := self._schedule.take(reach if number else Place.HERE):
                    return job
                if self._schedule.finished:
                    return None
                self._changed.wait()
            process = self._processes.pop(number, None) if not self._stop else None
        if process:  # of a lane that is closed
            process.close()
        return None

    def _try_again(self, job: Job, number: int, death: WorkerDiedError) -> None:
        """Put back what is left of a job whose process died, unless the cell that it died of has had its tries."""
        with self._changed:
            process = self._processes.pop(number, None)
        if process:
            process.close()
        if self._stop:
            return
        self._unborn = 0 if death.started else self._unborn + 1
        if self._unborn >= TRIES:
            raise InputError(f"worker processes die before they begin to work: the last one {death}; try one worker")
        left = self._left(job)
        with self._changed:
            again = left and death.started and self.retries.deaths(left[0])
            fewer = self._fewer_lanes() if death.memory or again else ""
            told = self.retries.put_back(self._schedule, job, left, str(death), death.started)
            self._changed.notify_all()
        self._pass_on(Notice(f"a worker process {told}{fewer}"))

    def _left(self, job: Job) -> tuple[Cell, ...]:
        return tuple(cell for cell in job.cells if not self._store.has(cell))

    def _give_up(self, job: Job) -> None:
        """Leave out a cell that took too long, and put back the rest of its job."""
        assert self._limit is not None
        self._writers.wait(job)
        with self._changed:
            told = self.retries.over_time(self._schedule, job, self._left(job), self._limit)
            self._changed.notify_all()
        self._pass_on(Notice(told))

    def _fewer_lanes(self) -> str:
        """Go on with fewer lanes, for what may need more memory; return the words that say so."""
        before = self._schedule.lanes
        self._schedule.narrow()
        return f", and {self._schedule.lanes} of {before} workers go on" if self._schedule.lanes < before else ""

    def _process(self, number: int) -> WorkerProcess:
        """Return the worker process of a lane, which is started if need be."""
        with self._changed:
            if number not in self._processes:
                self._processes[number] = WorkerProcess(self._store, self._pass_on)
            return self._processes[number]

    def _start_processes(self, many: int) -> None:
        with self._changed:
            for number in range(1, many + 1):
                self._process(number)
            self._schedule.processes = many

    def _tell(self, event: Event) -> None:
        """Pass an event of a job in this process on, or end the job."""
        if self._stop and isinstance(event, Advanced):
            raise StopRequested
        self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        with self._listening:
            self._listener(event)
