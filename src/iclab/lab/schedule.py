"""The schedule of a plan: jobs, the longest first, for a number of lanes.

A lane runs one job after another on one core. The schedule knows what jobs are expected to cost, but neither clocks nor
processes: an executor takes jobs from it and says when they are done.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from iclab.engines import ENGINES
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.plan import Plan

LONG_BATCH = 2.0
"""Expected seconds of a job of measurements in a long run; a single measurement may take longer."""
BATCHES = 16
"""A job of measurements is at most this part of what a lane has to do in a short run, so that lanes end together."""
START_UP = 3.0
"""Seconds that a worker process needs to start, most of them to import torch."""
GAIN = 1.0
"""Seconds that a worker process must save."""
SMALL = 0.05
"""Expected seconds below which a training with its measurements is small: several of them make one job."""


class Place(IntEnum):
    """Where a job can run, and what a lane can run: its own place, and all before it."""

    SMALL = 0
    """In any lane, but it needs the interpreter most of the time: best in one with an interpreter of its own."""
    THREAD = 1
    """In any lane: it computes without the interpreter, which others can use meanwhile."""
    PROCESS = 2
    """In a lane with an interpreter of its own: the first one, or one with a worker process."""
    HERE = 3
    """In the first lane, which is this process: others cannot import its code."""


@dataclass(frozen=True)
class Job:
    """Work for a lane: one training, some measurements of one training, or small trainings with their measurements."""

    cells: tuple[Cell, ...]
    place: Place
    cost: float
    """Expected seconds on one core."""
    chain: float
    """Expected seconds until the end of the longest job that has to wait for this one."""
    training: str
    """The hash of its training, or of the first one."""
    threads: int = 1
    apart: bool = False
    """Whether a worker process died of it: it runs in no other process again."""

    @property
    def trains(self) -> bool:
        """Whether it is a training, or begins with one."""
        return not isinstance(self.cells[0], MeasurementCell)

    @property
    def needs(self) -> list[TrainingCell]:
        """The trainings that must be in the store before it can run."""
        own = {cell.hash for cell in self.cells if isinstance(cell, TrainingCell)}
        measured = {cell.training.hash: cell.training for cell in self.cells if isinstance(cell, MeasurementCell)}
        return [cell for hash_, cell in measured.items() if hash_ not in own]


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
        small = {hash_: group for hash_, group in _groups(plan) if self._is_small(group, costs)}
        self._add_new(self._bundles(small, costs, longest))
        for hash_, cells in plan.measurements.items():
            if hash_ in small:
                continue
            jobs = list(self._batches(hash_, cells, costs, longest))
            if training := plan.trainings.get(hash_):
                chain = costs[hash_] + max((job.cost for job in jobs), default=0.0)
                self._waiting[hash_] = jobs
                jobs = [Job((training,), self._place[hash_], costs[hash_], chain, hash_)]
            for job in self._waiting.get(hash_, ()):
                self._work[job.place] += job.cost
            self._add_new(jobs)
        self.processes = self.processes_worth()

    def _is_small(self, group: list[Cell], costs: dict[str, float]) -> bool:
        """Whether cells of one training are to be one job with others, on weights that need not be read again."""
        places = {self._place[cell.hash] for cell in group}
        apart = all(ENGINES[_training(cell).training.engine].separate_seeds for cell in group)
        return apart and len(places) == 1 and Place.HERE not in places and sum(costs[c.hash] for c in group) < SMALL

    def _bundles(self, small: dict[str, list[Cell]], costs: dict[str, float], longest: float) -> Iterator[Job]:
        """Put small trainings, each with its measurements, into jobs of about ``longest`` seconds.

        Those of a job have the same model: a cluster places a job by what its model needs.
        """
        kinds: dict[tuple[Place, str, str], list[Cell]] = {}
        spent: dict[tuple[Place, str, str], float] = {}
        for group in small.values():
            training, place = _training(group[0]).training, self._place[group[0].hash]
            kind = place, training.model.label, training.device
            kinds.setdefault(kind, []).extend(group)
            spent[kind] = spent.get(kind, 0.0) + sum(costs[cell.hash] for cell in group)
            if spent[kind] >= longest:
                yield _bundle(kinds.pop(kind), place, spent.pop(kind))
        for left, cells in kinds.items():
            yield _bundle(cells, left[0], spent[left])

    def _batches(
        self, hash_: str, cells: list[MeasurementCell], costs: dict[str, float], longest: float
    ) -> Iterator[Job]:
        """Divide the measurements of a training into jobs of about ``longest`` seconds."""
        for place in Place:
            batch: list[MeasurementCell] = []
            spent = 0.0
            mine = [cell for cell in cells if self._place[cell.hash] == place]
            for cell in sorted(mine, key=lambda cell: -costs[cell.hash]):
                batch.append(cell)
                spent += costs[cell.hash]
                if spent >= longest:
                    yield Job(tuple(batch), place, spent, spent, hash_)
                    batch, spent = [], 0.0
            if batch:
                yield Job(tuple(batch), place, spent, spent, hash_)

    def _add_new(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._work[job.place] += job.cost
            self._add([job])

    def _add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            heapq.heappush(self._ready[job.place], (-job.chain, self._made, job))
            self._made += 1

    def width(self, place: Place) -> int:
        """Return how many lanes can run a job of this place."""
        return {Place.PROCESS: 1 + self.processes, Place.HERE: 1}.get(place, self.lanes)

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
        self._add(self._waiting.pop(job.training, ()) if job.trains else ())

    def again(self, job: Job, suspect: Cell | None, rest: tuple[Cell, ...]) -> None:
        """Put back what is left of a job whose process died: the suspect, of which it died, apart from the rest.

        Measurements wait for their training, if that is left too.
        """
        self._running -= 1
        for cells, apart in (((suspect,) if suspect else (), True), (rest, job.apart)):
            groups: dict[tuple[str, bool], list[Cell]] = {}
            for cell in cells:
                groups.setdefault((_training(cell).hash, isinstance(cell, TrainingCell)), []).append(cell)
            for (hash_, trains), group in groups.items():
                cost = job.cost * len(group) / len(job.cells)
                chain = max(job.chain, cost) if trains else cost
                left = replace(job, cells=tuple(group), cost=cost, chain=chain, training=hash_, apart=apart)
                if trains:
                    self._waiting.setdefault(hash_, [])
                if trains or hash_ not in self._waiting:
                    self._add_new([left])
                else:
                    self._work[left.place] += cost
                    self._waiting[hash_].append(left)

    def awaits(self, training: str) -> bool:
        """Return whether measurements wait for a training, given by its hash."""
        return bool(self._waiting.get(training))

    def narrow(self) -> None:
        """Go on with half as many lanes, but at least one."""
        self.lanes = max(1, self.lanes // 2)
        self.processes = min(self.processes, self.lanes - 1)

    def give_up(self, job: Job) -> list[Cell]:
        """Drop a training, and the measurements that waited for it, which are returned."""
        self._running -= 1
        dropped = self._waiting.pop(job.training, [])
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
        total, threads = sum(self._work.values()), self._work[Place.THREAD]
        alone, useful = total - threads, len(self._ready[Place.PROCESS]) + len(self._ready[Place.SMALL])
        most = min(self.lanes, useful + bool(self._ready[Place.HERE])) - 1 if useful else 0

        def seconds(processes: int) -> float:
            starting = START_UP * (processes - self.processes)
            together = (slower * total + starting) / self.lanes
            return max(together, (slower * alone + starting) / (1 + processes)) + GAIN * processes

        return min(range(self.processes, max(most, self.processes) + 1), key=seconds)


def _training(cell: Cell) -> TrainingCell:
    return cell.training if isinstance(cell, MeasurementCell) else cell


def _groups(plan: Plan) -> Iterator[tuple[str, list[Cell]]]:
    """Return the missing cells of each training, by its hash: itself, if it is missing, and its measurements."""
    for hash_, measurements in plan.measurements.items():
        yield hash_, [*([plan.trainings[hash_]] if hash_ in plan.trainings else []), *measurements]


def _bundle(cells: list[Cell], place: Place, cost: float) -> Job:
    place = Place.SMALL if place == Place.THREAD else place
    return Job(tuple(cells), place, cost, cost, _training(cells[0]).hash)
