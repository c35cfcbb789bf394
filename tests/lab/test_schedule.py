"""The schedule, driven by a simulated clock: both cores are busy to the end, and every job runs once, in its place."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from lab_helpers import error_cells, training

from iclab.lab import Plan
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.schedule import START_UP, Job, Place, Schedule


@cache
def made(seed: int, measurements: int) -> tuple[TrainingCell, list[MeasurementCell]]:
    """A training, and measurements of it."""
    cell = training(basis_seed=seed)
    return cell, error_cells(cell, *(number / measurements for number in range(measurements)))


@dataclass
class Work:
    """A plan with costs and places that are made up."""

    plan: Plan = field(default_factory=Plan)
    costs: dict[str, float] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    chains: list[float] = field(default_factory=list)

    def add(self, seconds: float, measurements: list[float], place: Place, trained: bool = False) -> None:
        """Add a training, or only its measurements if it is ``trained``."""
        cell, cells = made(len(self.plan.measurements), len(measurements))
        self.plan.measurements[cell.hash] = cells
        if not trained:
            self.plan.trainings[cell.hash] = cell
        self.costs |= {cell.hash: seconds} | {c.hash: cost for c, cost in zip(cells, measurements, strict=True)}
        self.places |= dict.fromkeys([cell.hash, *(c.hash for c in cells)], place)
        self.chains.append((0.0 if trained else seconds) + max(measurements, default=0.0))

    def schedule(self, lanes: int, wrong: float = 1.0) -> Schedule:
        """Return the schedule, by costs that are ``wrong`` times too large or too small, one and the other in turn."""
        factors = {hash_: wrong if i % 2 else 1 / wrong for i, hash_ in enumerate(self.costs)}
        return Schedule(
            self.plan,
            lambda cell: self.costs[cell.hash] * factors[cell.hash],
            lambda cell: self.places[cell.hash],
            lanes,
        )

    @property
    def total(self) -> float:
        return sum(self.costs[cell.hash] for cell in self.plan)

    def bound(self, lanes: int, processes: int = 0) -> float:
        """No schedule is shorter than this: all cores busy with work and the start of processes, or one long chain."""
        return max((self.total + START_UP * processes) / lanes, *self.chains)


@dataclass
class Ran:
    """What a simulated run did."""

    makespan: float
    lanes: dict[str, int] = field(default_factory=dict)


def simulate(work: Work, lanes: int, wrong: float = 1.0) -> Ran:
    """Run a schedule as the local executor does: the first lane is this process, some others have a worker process."""
    schedule = work.schedule(lanes, wrong)
    ran, number = Ran(0.0), 0
    free = [(0.0 if lane == 0 or lane > schedule.processes else START_UP, lane) for lane in range(lanes)]
    running: list[tuple[float, int, int, Job]] = []
    now = 0.0
    while not schedule.finished:
        for start, lane in sorted(free):
            place = Place.HERE if lane == 0 else Place.PROCESS if lane <= schedule.processes else Place.THREAD
            if start <= now and (job := schedule.take(place)):
                free.remove((start, lane))
                seconds = sum(work.costs[cell.hash] for cell in job.cells)
                heapq.heappush(running, (now + seconds, number, lane, job))
                number += 1
        later = [start for start, _ in free if start > now]
        if later and (not running or min(later) < running[0][0]):
            now = min(later)
            continue
        now, _, lane, job = heapq.heappop(running)
        for cell in job.cells:
            assert cell.hash not in ran.lanes, "ran twice"
            ran.lanes[cell.hash] = lane
            if isinstance(cell, MeasurementCell) and cell.training.hash in work.plan.trainings:
                assert cell.training.hash in ran.lanes, "ran too early"
        schedule.done(job)
        free.append((now, lane))
    ran.makespan = now
    return ran


def mixed(seed: int, place: Place | None = None) -> Work:
    """A realistic mix: a few long trainings with short measurements, and many short ones; others are measured only."""
    chance, work = random.Random(seed), Work()
    kinds = [  # how many trainings, their seconds, how many measurements, their seconds, where
        (3, 20.0, 6, 1.2, Place.PROCESS),  # three layers
        (4, 6.0, 12, 1.3, Place.PROCESS),  # softmax attention with an MLP
        (8, 0.8, 8, 0.1, Place.THREAD),  # one layer
        (2, 3.0, 4, 2.5, Place.THREAD),
    ]
    for many, seconds, measurements, each, usual in kinds:
        for number in range(many):
            costs = [each * chance.uniform(0.5, 1.5) for _ in range(measurements)]
            work.add(seconds * chance.uniform(0.5, 1.5), costs, usual if place is None else place, number == many - 1)
    return work


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("place", [None, Place.THREAD, Place.PROCESS], ids=["both", "threads", "processes"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_run_is_at_most_a_tenth_longer_than_it_must_be(seed: int, place: Place | None, lanes: int):
    work = mixed(seed, place)
    ran = simulate(work, lanes)
    assert set(ran.lanes) == {cell.hash for cell in work.plan}
    assert ran.makespan < 1.1 * work.bound(lanes, work.schedule(lanes).processes)
    assert len(set(ran.lanes.values())) == lanes


def test_plan_order_would_be_longer():
    """The bound is not one that any order meets: the longest job last leaves a core idle."""
    work, lanes = Work(), 2
    for seconds in (4.0, 4.0, 4.0, 4.0, 16.0):
        work.add(seconds, [0.1], Place.THREAD)
    assert simulate(work, lanes).makespan < 1.1 * work.bound(lanes) < 0.8 * (8.0 + 16.0)


def test_costs_that_are_wrong_by_a_half_cost_little():
    work = mixed(2)
    assert simulate(work, 2, wrong=1.5).makespan < 1.2 * work.bound(2, 1)


def test_a_chain_that_ends_in_a_long_measurement_begins_first():
    work = Work()
    work.add(3.0, [0.1], Place.THREAD)
    work.add(2.0, [4.0], Place.THREAD)
    job = work.schedule(2).take(Place.HERE)
    assert job is not None
    assert job.cells == (list(work.plan.trainings.values())[1],)


# Where jobs run.


def test_jobs_run_where_they_can():
    work = mixed(0)
    own = training(basis_seed=0).hash
    work.places |= dict.fromkeys([own, *(cell.hash for cell in work.plan.measurements[own])], Place.HERE)
    ran = simulate(work, 3)
    processes = work.schedule(3).processes
    for hash_, lane in ran.lanes.items():
        if work.places[hash_] == Place.HERE:
            assert lane == 0
        elif work.places[hash_] == Place.PROCESS:
            assert lane <= processes
    assert ran.makespan < 1.1 * work.bound(3, processes)


def many(place: Place, *seconds: float, **how: Any) -> Work:
    work = Work()
    for cost in seconds:
        work.add(cost, [0.1], place, **how)
    return work


@pytest.mark.parametrize(
    "work, lanes, processes",
    [
        (many(Place.PROCESS, 0.5, 0.5), 2, 0),  # sooner done than started
        (many(Place.PROCESS, 20.0, 20.0), 2, 1),
        (many(Place.PROCESS, 20.0, 20.0), 8, 1),  # no more than jobs
        (many(Place.PROCESS, *[20.0] * 30), 4, 3),  # no more than cores
        (many(Place.PROCESS, 20.0), 8, 0),  # its measurements are not ready yet
        (many(Place.THREAD, *[20.0] * 30), 4, 0),
        (many(Place.HERE, *[20.0] * 30), 4, 0),
        (many(Place.PROCESS, *[20.0] * 30), 1, 0),
    ],
)
def test_a_process_starts_only_if_it_is_worth_it(work: Work, lanes: int, processes: int):
    assert work.schedule(lanes).processes == processes


def test_what_one_lane_can_do_beside_the_others_needs_no_process():
    work = many(Place.THREAD, *[5.0] * 16)
    for _ in range(2):
        work.add(8.0, [0.1], Place.PROCESS)
    assert work.schedule(2).processes == 0
    assert simulate(work, 2).makespan < 1.1 * work.bound(2)


def test_more_processes_start_if_jobs_take_longer_than_expected():
    schedule = many(Place.PROCESS, *[0.3] * 8).schedule(4)
    assert schedule.processes_worth() == 0
    assert schedule.processes_worth(slower=50.0) == 3


# The size of jobs.


def jobs_of(work: Work, lanes: int) -> list[Job]:
    schedule, found = work.schedule(lanes), []
    while job := schedule.take(Place.HERE):
        found.append(job)
        schedule.done(job)
    assert schedule.finished
    return found


def test_measurements_go_in_jobs_of_equal_cost_not_number():
    work = Work()
    work.add(100.0, [10.0, 1.9] + [0.04] * 110 + [0.5] * 40, Place.PROCESS)
    batches = [job for job in jobs_of(work, 2) if not job.trains]
    assert batches[0].cost == 10.0
    assert len(batches[0].cells) == 1
    assert all(2.0 <= job.cost < 2.6 for job in batches[1:-1])
    assert {len(job.cells) for job in batches} >= {1, 4, 50}


def test_a_short_run_has_short_jobs():
    work = Work()
    work.add(0.2, [0.01] * 100, Place.THREAD)
    assert max(job.cost for job in jobs_of(work, 2) if not job.trains) < 0.05


def small(many: int, seconds: float = 0.005, place: Place = Place.THREAD) -> Work:
    """Small trainings, each with two measurements that take as long."""
    work = Work()
    for _ in range(many):
        work.add(seconds, [seconds] * 2, place)
    return work


@pytest.mark.parametrize("place", [Place.THREAD, Place.PROCESS], ids=["this machine", "a cluster"])
def test_small_trainings_share_a_job_each_before_its_measurements(place: Place):
    work = small(102, place=place)  # two are left for a last job
    work.add(0.2, [0.005], place)
    jobs = jobs_of(work, 2)
    assert sorted(cell.hash for job in jobs for cell in job.cells) == sorted(cell.hash for cell in work.plan)
    bundles = [job for job in jobs if len(job.cells) > 1]
    assert 10 < len(bundles) < 50
    assert {job.place for job in bundles} == {Place.SMALL if place == Place.THREAD else place}
    for job in bundles:
        assert job.needs == []
        assert job.cost == pytest.approx(0.005 * len(job.cells))
        groups = [job.cells[first : first + 3] for first in range(0, len(job.cells), 3)]
        assert all([cell.training for cell in cells] == [training] * 2 for training, *cells in groups)


def test_small_measurements_of_trainings_that_are_there_share_a_job_too():
    work = Work()
    for _ in range(40):
        work.add(0.005, [0.005], Place.THREAD, trained=True)
    jobs = jobs_of(work, 1)
    assert len(jobs) < 25
    assert all(job.needs == [cell.training for cell in job.cells] for job in jobs)


def test_small_cells_are_worth_processes_if_there_are_many():
    assert small(102).schedule(2).processes == 0
    assert [small(300, seconds=0.016).schedule(lanes).processes for lanes in (1, 2, 4)] == [0, 1, 2]


def test_what_is_left_of_a_job_of_small_cells_waits_for_its_trainings():
    schedule = small(3).schedule(1)
    jobs = [schedule.take(Place.HERE) for _ in range(3)]
    (first, *_), job = jobs[0].cells, jobs[0]
    schedule.again(job, first, job.cells[1:])
    retried = schedule.take(Place.HERE)
    assert (retried.cells, retried.apart, schedule.take(Place.HERE)) == ((first,), True, None)
    schedule.done(retried)
    later = schedule.take(Place.HERE)
    assert (later.cells, later.apart) == (job.cells[1:], False)
    for done in (later, *jobs[1:]):
        assert not schedule.finished
        schedule.done(done)
    assert schedule.finished


def test_a_training_that_would_end_last_gets_all_cores():
    work = many(Place.THREAD, 5.0, 5.0, 5.0, 5.0)
    threads = [job.threads for job in jobs_of(work, 2) if job.trains]
    assert (threads[0], threads[-1]) == (1, 2)
    assert [job.threads for job in jobs_of(many(Place.THREAD, 5.0), 4) if job.trains] == [4]
    assert {job.threads for job in jobs_of(many(Place.PROCESS, 5.0), 4)} == {1}


def test_a_plan_of_trainings_alone():
    cell = training()
    schedule = Schedule(Plan({cell.hash: cell}, {cell.hash: []}), lambda cell: 1.0, lambda cell: Place.THREAD)
    job = schedule.take(Place.HERE)
    assert job is not None
    assert (job.cells, job.trains) == ((cell,), True)
    assert not schedule.finished
    schedule.done(job)
    assert schedule.finished


def test_cells_without_cost_run_too():
    cells: list[Cell] = [training(basis_seed=seed) for seed in range(3)]
    work = Work(Plan({c.hash: c for c in cells if isinstance(c, TrainingCell)}, {c.hash: [] for c in cells}))
    work.costs, work.places = {c.hash: 0.0 for c in cells}, {c.hash: Place.THREAD for c in cells}
    assert len(jobs_of(work, 2)) == 3
