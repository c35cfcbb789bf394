"""The schedule of a plan: jobs, the longest first, for a number of lanes.

A lane runs one job after another on one core. The schedule knows what jobs are expected to cost, but neither clocks nor
processes: an executor takes jobs from it and says when they are done.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from iclab.lab.cells import Cell, MeasurementCell
from iclab.lab.plan import Plan

LONG_BATCH = 2.0
"""Expected seconds of a job of measurements in a long run; a single measurement may take longer."""
BATCHES = 16
"""A job of measurements is at most this part of what a lane has to do in a short run, so that lanes end together."""
START_UP = 3.0
"""Seconds that a worker process needs to start, most of them to import torch."""
GAIN = 1.0
"""Seconds that a worker process must save."""


class Place(IntEnum):
    """Where a job can run, and what a lane can run: its own place, and all before it."""

    THREAD = 0
    """In any lane: it computes without the interpreter, which others can use meanwhile."""
    PROCESS = 1
    """In a lane with an interpreter of its own: the first one, or one with a worker process."""
    HERE = 2
    """In the first lane, which is this process: others cannot import its code."""


@dataclass(frozen=True)
class Job:
    """Work for a lane: one training, or some measurements of one training."""

    cells: tuple[Cell, ...]
    place: Place
    cost: float
    """Expected seconds on one core."""
    chain: float
    """Expected seconds until the end of the longest job that has to wait for this one."""
    training: str
    """The hash of its training."""
    threads: int = 1
    apart: bool = False
    """Whether a worker process died of it: it runs in no other process again."""

    @property
    def trains(self) -> bool:
        """Whether it is a training."""
        return not isinstance(self.cells[0], MeasurementCell)


class Schedule:
    """The jobs of a plan. Each lane takes the longest one that is ready and that it can run."""

    def __init__(
        self, plan: Plan, cost: Callable[[Cell], float], place: Callable[[Cell], Place], lanes: int = 1
    ) -> None:
        """Make the jobs.

        Args:
            plan: what is missing.
            cost: returns the expected seconds of a cell on one core.
            place: returns where a cell can run.
            lanes: how many jobs run at the same time.
        """
        self.plan, self.lanes, self.processes = plan, lanes, 0
        self.memory: int | None = None
        """Bytes that a cell may take at most, if it does not run on this machine."""
        self._place = {cell.hash: place(cell) for cell in plan}
        self._ready: dict[Place, list[tuple[float, int, Job]]] = {place: [] for place in Place}
        self._waiting: dict[str, list[Job]] = {}
        self._running = self._made = 0
        self._work = dict.fromkeys(Place, 0.0)
        costs = {cell.hash: cost(cell) for cell in plan}
        longest = min(LONG_BATCH, sum(costs.values()) / (lanes * BATCHES))
        for hash_, cells in plan.measurements.items():
            jobs = list(self._batches(hash_, cells, costs, longest))
            if training := plan.trainings.get(hash_):
                chain = costs[hash_] + max((job.cost for job in jobs), default=0.0)
                self._waiting[hash_] = jobs
                jobs = [Job((training,), self._place[hash_], costs[hash_], chain, hash_)]
            for job in (*jobs, *self._waiting.get(hash_, ())):
                self._work[job.place] += job.cost
            self._add(jobs)
        self.processes = self.processes_worth()

    def _batches(
        self, hash_: str, cells: list[MeasurementCell], costs: dict[str, float], longest: float
    ) -> Iterator[Job]:
        """Divide the measurements of a training into jobs of about ``longest`` seconds."""
        for place in Place:
            batch: list[MeasurementCell] = []
            mine = [cell for cell in cells if self._place[cell.hash] == place]
            for cell in sorted(mine, key=lambda cell: -costs[cell.hash]):
                batch.append(cell)
                if sum(costs[c.hash] for c in batch) >= longest:
                    yield _batch(batch, place, costs, hash_)
                    batch = []
            if batch:
                yield _batch(batch, place, costs, hash_)

    def _add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            heapq.heappush(self._ready[job.place], (-job.chain, self._made, job))
            self._made += 1

    def width(self, place: Place) -> int:
        """Return how many lanes can run a job of this place."""
        return {Place.THREAD: self.lanes, Place.PROCESS: 1 + self.processes, Place.HERE: 1}[place]

    def place_of(self, cell: Cell) -> Place:
        """Return where a cell can run."""
        return self._place[cell.hash]

    def take(self, lane: Place) -> Job | None:
        """Return the next job for a lane: the longest, of those that fewest lanes can run. None if none is ready."""
        able = [place for place in Place if place <= lane and self._ready[place]]
        if not able:
            return None
        place = min(able, key=lambda place: (self.width(place), self._ready[place][0]))
        *_, job = heapq.heappop(self._ready[place])
        self._work[place] -= job.cost
        self._running += 1
        beside = sum(self._work.values()) - sum(later.cost for later in self._waiting.get(job.training, ()))
        if place == Place.THREAD and job.cost > beside / self.lanes:  # it would end last, beside idle lanes
            return replace(job, threads=self.lanes)
        return job

    def done(self, job: Job) -> None:
        """Take note that a job is done: measurements that waited for it are ready."""
        self._running -= 1
        if job.trains:
            self._add(self._waiting.pop(job.training))

    def again(self, job: Job, suspect: Cell | None, rest: tuple[Cell, ...]) -> None:
        """Put back what is left of a job whose process died: the suspect, of which it died, apart from the rest."""
        self._running -= 1
        for cells, apart in (((suspect,) if suspect else (), True), (rest, job.apart)):
            if cells:
                cost = job.cost * len(cells) / len(job.cells)
                chain = job.chain if job.trains else cost
                self._work[job.place] += cost
                self._add([replace(job, cells=cells, cost=cost, chain=chain, apart=apart)])

    def narrow(self) -> None:
        """Go on with half as many lanes, but at least one."""
        self.lanes = max(1, self.lanes // 2)
        self.processes = min(self.processes, self.lanes - 1)

    def give_up(self, job: Job) -> list[Cell]:
        """Drop a training, and the measurements that waited for it, which are returned."""
        self._running -= 1
        dropped = self._waiting.pop(job.training)
        for later in dropped:
            self._work[later.place] -= later.cost
        return [cell for later in dropped for cell in later.cells]

    @property
    def finished(self) -> bool:
        """Whether every job is done."""
        return not self._running and not self._waiting and not any(self._ready.values())

    def processes_worth(self, slower: float = 1.0) -> int:
        """Return with how many worker processes the rest of the run is shortest: at least as many as there are.

        Args:
            slower: how many times longer jobs take than expected.
        """
        total, alone = sum(self._work.values()), self._work[Place.PROCESS] + self._work[Place.HERE]
        ready = len(self._ready[Place.PROCESS]) + bool(self._ready[Place.HERE])
        most = min(self.lanes, ready) - 1 if self._ready[Place.PROCESS] else 0

        def seconds(processes: int) -> float:
            starting = START_UP * (processes - self.processes)
            together = (slower * total + starting) / self.lanes
            return max(together, (slower * alone + starting) / (1 + processes)) + GAIN * processes

        return min(range(self.processes, max(most, self.processes) + 1), key=seconds)


def _batch(cells: list[MeasurementCell], place: Place, costs: dict[str, float], training: str) -> Job:
    cost = sum(costs[cell.hash] for cell in cells)
    return Job(tuple(cells), place, cost, cost, training)
