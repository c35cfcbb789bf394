"""The Ray executor: the cells of a plan on all nodes of a cluster (docs/cluster.md).

This process, the driver, has the schedule and the store. Descriptions go out as JSON, longest job first, a bounded
number at a time. Finished entries come back as bytes, and only the driver writes, so that nodes need no shared file
system. Trained weights stay in the cluster as objects, for the measurements that need them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Self

from iclab.config import InputError, reason_of
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell, describe, unshippable, users_code
from iclab.lab.events import Event, Listener, Notice
from iclab.lab.executors.jobs import check_limits
from iclab.lab.executors.ray_cluster import Cluster
from iclab.lab.executors.ray_worker import Failed, Order, OverTime, Parcel, versions, work
from iclab.lab.executors.writers import Writers
from iclab.lab.needs import largest_need
from iclab.lab.plan import Plan
from iclab.lab.retries import Retries
from iclab.lab.schedule import Job, Place, Schedule
from iclab.lab.store import Entry, Store

GB = 10**9
AHEAD = 2
"""Jobs that are sent out, per core: one that runs and one that waits, so that no core waits for the driver."""
KEPT_WEIGHTS = 200_000_000
"""Bytes of trained weights that the driver keeps in the cluster; older ones are sent again from the store."""
STORED_WITHIN = 0.01
"""Seconds after which to see whether the last cells of a job are stored: measurements may wait for its weights."""
LOOK_EVERY = 2.0
"""Seconds between two looks at who is alive."""


class RayExecutor:
    """Computes cells on a Ray cluster.

    Args:
        address: ``local`` for nodes on this machine that end with this process, ``auto`` for the cluster that this
            machine belongs to, or ``HOST:PORT`` of its head.
        workers: how many cells run at the same time at most; by default as many as there are cores.
        cell_timeout: how many seconds a cell may take; by default any. One that takes longer is given up and reported
            at the end of the run.
    """

    def __init__(self, address: str = "local", workers: int | None = None, cell_timeout: float | None = None) -> None:
        check_limits(workers, cell_timeout)
        self._cluster, self._limit = Cluster(address, workers), cell_timeout

    def schedule(self, plan: Plan, cost: Callable[[Cell], float]) -> Schedule:
        """Connect, and order the work."""
        code = {item.path: item for cell in plan for item in users_code(cell)}
        for cell in plan if code else ():
            if stuck := unshippable(cell):
                raise InputError(f"{stuck[0].path}: cannot be sent to other processes; put it into a module")
        self._cluster.connect(code.values())
        schedule = Schedule(plan, cost, lambda cell: Place.PROCESS, self._cluster.alive().workers)
        schedule.processes, schedule.memory = schedule.lanes - 1, self._cluster.memory()
        return schedule

    def execute(self, schedule: Schedule, store: Store, listen: Listener) -> None:
        """Compute every cell of a schedule."""
        _Run(self._cluster, schedule, store, listen, self._limit).run()

    def close(self) -> None:
        """Leave the cluster; one that is local ends."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def resources(cells: Sequence[Cell]) -> dict[str, float]:
    """Return what cells of one training need of a node, one after another.

    Cores are what the model declares, a GPU too, if it trains on one. Memory is kept free by whole gigabytes: Ray
    starts small cells fastest if all ask for the same.
    """
    cell, memory = cells[0], largest_need(cells) // GB * GB
    training = (cell.training if isinstance(cell, MeasurementCell) else cell).training
    declared = training.model.architecture
    gpus = {"num_gpus": declared.num_gpus} if training.device == "cuda" else {}
    return {"num_cpus": declared.num_cpus, **gpus, **({"memory": memory} if memory else {})}


class _Run:
    """The driver at work."""

    def __init__(
        self, cluster: Cluster, schedule: Schedule, store: Store, listen: Listener, limit: float | None
    ) -> None:
        import ray

        self._ray, self._cluster, self._schedule = ray, cluster, schedule
        self._store, self._listen, self._limit = store, listen, limit
        self._work = ray.remote(max_retries=0)(work)  # `Retries` has its own rule
        self._sent: dict[Any, Job] = {}
        """Jobs by the stream of their parcels."""
        self._weights: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        """Parcels with trained weights, and their bytes, by the hash of the training; the last used are last."""
        self._late: set[Any] = set()
        """Streams of workers that end themselves, because their cell takes too long."""
        self._retries, self._writers, self._listening = Retries(), Writers(), threading.Lock()
        self._looked = float("-inf")

    def run(self) -> None:
        """Send jobs out and store what comes back, until all is done."""
        try:
            while not self._schedule.finished:
                for job in self._writers.done():
                    self._schedule.done(job)
                self._look()
                self._send()
                for stream in self._ready():
                    self._receive(stream)
        except BaseException:
            # Workers end with their driver's connection. To cancel them one by one would crash this process if one of
            # them happens to end by itself: "Check failed: it != submissible_tasks_.end()" in Ray.
            self._writers.close()
            self._cluster.close()
            raise
        self._writers.close()
        self._retries.settle(self._listen)

    def _look(self) -> None:
        """See now and then who is alive."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return
        alive = self._cluster.alive()
        if not alive.workers:
            self._tell(Notice("no node of the cluster is alive; waiting for one"))
        self._schedule.lanes = max(1, alive.workers)
        self._schedule.processes = self._schedule.lanes - 1
        self._tell(alive)
        self._looked = time.monotonic()

    def _send(self) -> None:
        while len(self._sent) < AHEAD * self._schedule.lanes and (job := self._schedule.take(Place.PROCESS)):
            order = Order([describe(cell) for cell in job.cells], versions(), self._limit)
            task = self._work.options(**resources(job.cells))
            self._sent[task.remote(order, *(self._weights_of(cell) for cell in job.needs))] = job

    def _weights_of(self, cell: TrainingCell) -> Any:
        """Return the parcel that holds the weights of a training, from the store if no node has it."""
        if cell.hash not in self._weights:
            entry = self._store.pack(cell)
            self._keep_weights(entry, self._ray.put([entry]))
        self._weights.move_to_end(cell.hash)
        return self._weights[cell.hash][0]

    def _keep_weights(self, entry: Entry, parcel: Any) -> None:
        self._weights[entry.hash] = parcel, sum(map(len, entry.files.values()))
        while len(self._weights) > 1 and sum(size for _, size in self._weights.values()) > KEPT_WEIGHTS:
            self._weights.popitem(last=False)

    def _ready(self) -> list[Any]:
        """Wait until something has come back; return all streams that have news."""
        streams, patience = list(self._sent), STORED_WITHIN if self._writers.busy else LOOK_EVERY
        if not streams:
            time.sleep(patience)
        elif self._ray.wait(streams, num_returns=1, timeout=patience)[0]:
            return self._ray.wait(streams, num_returns=len(streams), timeout=0)[0]
        return []

    def _receive(self, stream: Any) -> None:
        """Take the next parcel of a stream, or its end."""
        failures = self._ray.exceptions
        try:
            parcel = next(stream)
            self._open(stream, parcel, self._ray.get(parcel))
        except StopIteration:
            self._writers.end(self._sent.pop(stream))
        except failures.RayTaskError as error:  # before the job began: its own errors come in parcels
            last = [line for line in str(error).splitlines() if line.strip()][-1].strip()
            lost = isinstance(error, (failures.ObjectLostError, failures.OwnerDiedError))
            if not lost:
                raise InputError(f"a node cannot run a cell ({last}); is the same software installed there?") from None
            self._lost(stream, "lost the weights that it needs", began=False)
        except failures.RayError as error:
            self._lost(stream, _death(error))

    def _open(self, stream: Any, parcel: Any, items: Parcel) -> None:
        """Have the entries of a parcel stored and its events passed on, and see what else it says."""
        self._writers.store(self._sent[stream], lambda: self._unpack(items))
        for item in items:
            match item:
                case Entry(kind="training") if self._schedule.awaits(item.hash):
                    self._keep_weights(item, parcel)
                case Failed(reason, bug):
                    raise RuntimeError(f"on a worker:\n{reason}") if bug else InputError(reason)
                case OverTime():
                    self._late.add(stream)

    def _unpack(self, items: Parcel) -> None:
        self._store.put(item for item in items if isinstance(item, Entry))
        for item in items:
            if not isinstance(item, (Entry, Failed, OverTime)):
                self._tell(item)

    def _tell(self, event: Event) -> None:
        with self._listening:
            self._listen(event)

    def _left(self, job: Job) -> tuple[Cell, ...]:
        """Return the cells of a job that are not finished."""
        self._writers.wait(job)
        return tuple(cell for cell in job.cells if not self._store.has(cell))

    def _lost(self, stream: Any, how: str, began: bool = True) -> None:
        """Put back what a dead worker or node has not finished, but for a cell that took too long.

        Its weights may be gone, but the store has them.
        """
        job = self._sent.pop(stream)
        for cell in job.needs:
            self._weights.pop(cell.hash, None)
        left = self._left(job)
        if stream in self._late:
            self._late.remove(stream)
            assert self._limit is not None
            told = self._retries.over_time(self._schedule, job, left, self._limit)
        else:
            told = f"a worker of the cluster {self._retries.put_back(self._schedule, job, left, how, began)}"
        self._tell(Notice(told))
        self._looked = float("-inf")


def _death(error: Exception) -> str:
    """Return how a worker ended, by the name of Ray's error."""
    known = {
        "WorkerCrashedError": "died",
        "LocalRayletDiedError": "died with its node",
        "NodeDiedError": "died with its node",
        "OutOfMemoryError": "was killed (out of memory)",
    }
    return known.get(type(error).__name__, f"was lost ({reason_of(error)})")
