"""A run computes what is missing, once, the same on any number of processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_helpers import entries, error_cells, measurement, run_here, training, wait_until, weights

from iclab.config import Code, InputError
from iclab.lab import Plan, Store, TrainingCell, run, schedule
from iclab.lab.events import Advanced, Finished, Kind
from iclab.lab.executors import jobs, local
from iclab.lab.executors.processes import WorkerProcess

pytestmark = pytest.mark.slow

CELLS = [cell for model in ("mamba", "softmax") for cell in error_cells(training(model=model), 0.0, 0.6)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with all of CELLS. Tests must not write into it."""
    store = Store(tmp_path_factory.mktemp("done") / "store")
    plan = run_here(CELLS, store)
    assert (len(plan.trainings), len(plan), plan.found) == (2, 6, 0)
    return store


@pytest.fixture
def count_trainings(monkeypatch: pytest.MonkeyPatch) -> list[TrainingCell]:
    """The trainings that are really run."""
    ran: list[Any] = []
    original = jobs.train

    def counted(description: Any, *rest: Any) -> Any:
        ran.append(description)
        return original(description, *rest)

    monkeypatch.setattr(jobs, "train", counted)
    return ran


def test_two_lanes_give_the_same_bits_as_one(done: Store, tmp_path: Path):
    two = Store(tmp_path / "store")
    plan = run(CELLS, two, workers=2, quiet=True)
    assert len(plan) == 6
    assert_same(two, done)


PROBES = {"mamba": ("error", "attention", "gates"), "linear": ("error",), "deep-mamba": ("error", "gates")}


def test_small_cells_that_share_a_job_give_the_same_bits_as_each_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cells = [
        measurement({f"{TRAINING}.model": model, "probe": probe})
        for model, probes in PROBES.items()
        for probe in probes
    ]
    together, alone = Store(tmp_path / "together"), Store(tmp_path / "alone")
    monkeypatch.setattr(jobs, "_load", lambda *_: pytest.fail("read weights that the job has just made"))
    run_here(cells, together)
    monkeypatch.undo()
    monkeypatch.setattr(schedule, "SMALL", 0.0)
    run_here(cells, alone)
    assert weights(together.path) == weights(alone.path) != {}
    assert [together.load_rows(cell) for cell in cells] == [alone.load_rows(cell) for cell in cells]


def test_another_draw_is_measured_on_other_prompts(tmp_path: Path):
    store, cells = Store(tmp_path), [measurement({"draw": draw}) for draw in (0, 1)]
    run_here(cells, store)
    assert store.load_rows(cells[0]) != store.load_rows(cells[1])


def test_what_a_job_has_finished_is_stored_if_the_next_cell_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = error_cells(training(), 0.0, 0.5)
    original = jobs.measure

    def measure(trained: Any, probe: str, prompts: Any, *rest: Any, **more: Any) -> Any:
        if prompts == second.prompts:
            raise InputError("cannot be measured")
        return original(trained, probe, prompts, *rest, **more)

    monkeypatch.setattr(jobs, "measure", measure)
    with pytest.raises(InputError, match="cannot be measured"):
        run_here([first, second], Store(tmp_path))
    assert [Store(tmp_path).has(cell) for cell in (first.training, first, second)] == [True, True, False]


def test_a_worker_process_gives_the_same_bits_and_sends_its_events(done: Store, tmp_path: Path):
    store, events = Store(tmp_path / "store").open_for_writing(), []
    process = WorkerProcess(store, events.append)
    for cells in (CELLS[:2], CELLS[2:]):
        process.run([cells[0].training])
        process.run(cells)
    process.stop()
    process.close()
    assert_same(store, done)
    kinds = [Kind.of(cell) for cells in (CELLS[:2], CELLS[2:]) for cell in (cells[0].training, *cells)]
    assert [event.kind for event in events if isinstance(event, Finished)] == kinds
    assert multiprocessing.active_children() == []


def assert_same(store: Store, other: Store) -> None:
    assert weights(store.path) == weights(other.path) != {}
    for cell in CELLS:
        assert store.load_rows(cell) == other.load_rows(cell)
    assert os.listdir(store.path / ".partial") == []


def test_nothing_is_computed_twice(done: Store, count_trainings: list[Any]):
    before = entries(done.path)
    plan = run_here(CELLS, done)
    assert (len(plan), plan.found) == (0, len(CELLS))
    assert entries(done.path) == before
    assert count_trainings == []


def test_a_cell_asked_for_twice_is_computed_once(tmp_path: Path, count_trainings: list[Any]):
    plan = run_here([CELLS[0], CELLS[0], CELLS[1]], Store(tmp_path))
    assert (len(plan), len(count_trainings)) == (3, 1)


def test_a_new_grid_of_tests_retrains_nothing(tmp_path: Path, count_trainings: list[Any]):
    store, cell = Store(tmp_path), training()
    run_here(error_cells(cell, 0.0), store)
    before = entries(store.path)
    plan = run_here(error_cells(cell, 0.0, 0.3, 0.9), store)
    assert (plan.trainings, len(plan), plan.found) == ({}, 2, 1)
    assert len(count_trainings) == 1
    after = entries(store.path)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2


def test_more_seeds_train_only_the_new_group(tmp_path: Path, count_trainings: list[Any]):
    store, both = Store(tmp_path), [measurement({"training.group": group}) for group in (0, 1)]
    run_here(both[:1], store)
    plan = run_here(both, store)
    assert [cell.group for cell in plan.trainings.values()] == [1]
    assert [row["seed"] for cell in both for row in store.load_rows(cell)] == list(range(16))


def test_a_lost_measurement_is_measured_again_on_the_same_weights(tmp_path: Path, count_trainings: list[Any]):
    store = Store(tmp_path)
    run_here(CELLS[:2], store)
    rows = store.load_rows(CELLS[0])
    for file in store.entry(CELLS[0]).iterdir():
        file.unlink()
    store.entry(CELLS[0]).rmdir()
    assert len(run_here(CELLS[:2], store)) == 1
    assert store.load_rows(CELLS[0]) == rows
    assert len(count_trainings) == 1


def test_a_plan_holds_every_missing_cell_once_and_writes_nothing(tmp_path: Path):
    plan = Plan.of(CELLS, Store(tmp_path))
    steps, batch, seeds, prompts = 4, 4, 8, 20
    assert len(list(plan)) == len(plan) == 6
    assert sum(cell.work for cell in plan) == 2 * steps * batch * seeds + 4 * prompts * seeds
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [0, -1])
def test_there_must_be_a_worker(tmp_path: Path, workers: int):
    with pytest.raises(InputError, match=rf"workers = {workers}: must be at least 1"):
        run(CELLS, Store(tmp_path / "store"), workers=workers)
    assert not (tmp_path / "store").exists()


# Users' code that other processes cannot import.


class LocalNet:
    """Holds a class that has no import path of its own."""

    @staticmethod
    def make() -> type[torch.nn.Module]:
        class Net(torch.nn.Module):
            def __init__(self, width: int) -> None:
                super().__init__()
                self.read = torch.nn.Linear(width, 1)

            def forward(self, prompts: torch.Tensor) -> torch.Tensor:
                return self.read(prompts.mean(1))

        return Net


def flip(examples: Any) -> Any:
    return -examples.labels


flip.__qualname__ = "somewhere.<locals>.<lambda>"
TRAINING = "training.training"
REFERENCE = {f"{TRAINING}.model": "softmax"}  # a model that only the reference engine knows
LOCAL = {
    "model": {f"{TRAINING}.model": LocalNet.make()},
    "label rule in training": REFERENCE | {f"{TRAINING}.prompts.outliers.labels": flip},
    "label rule in a test": REFERENCE | {"prompts.outliers.labels": flip},
}


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "WorkerProcess", lambda *_: pytest.fail("started a process"))


@pytest.fixture
def cheap_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cells are worth a process."""
    monkeypatch.setattr(schedule, "START_UP", 0.0)
    monkeypatch.setattr(schedule, "GAIN", 0.0)


@pytest.mark.parametrize("changes", LOCAL.values(), ids=LOCAL)
@pytest.mark.usefixtures("cheap_processes", "no_process")
def test_local_code_runs_in_this_process_and_says_so_once(
    changes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store, cells = Store(tmp_path), [measurement({"training.group": group, "draw": 1} | changes) for group in (0, 1)]
    assert len(run(cells, store, workers=2, quiet=True)) == 4
    assert [row["seed"] for cell in cells for row in store.load_rows(cell)] == list(range(16))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "<locals>" in said[0]
    assert "runs in this process, because others cannot import it" in said[0]


@pytest.mark.usefixtures("cheap_processes")
def test_local_code_leaves_the_rest_to_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    handed: list[str] = []

    class Fake:
        """Stands for a process; its jobs run here."""

        def __init__(self, store: Store, listen: Any) -> None:
            self.run = lambda cells, limit: (handed.extend(c.hash for c in cells), jobs.run_job(cells, store, listen))
            self.stop = self.close = lambda: None

    monkeypatch.setattr(local, "WorkerProcess", Fake)
    others = [measurement(REFERENCE | {"training.group": group}) for group in range(4)]
    own = [measurement(LOCAL["model"] | {"training.group": group}) for group in range(4)]
    run([*own, *others], Store(tmp_path), workers=2, quiet=True)
    assert handed
    assert set(handed) <= {hash_ for cell in others for hash_ in (cell.hash, cell.training.hash)}
    assert all(map(Store(tmp_path).has, own + others))


@pytest.mark.usefixtures("no_process")
def test_what_is_done_sooner_than_a_process_starts_starts_none(tmp_path: Path):
    cells = [measurement(REFERENCE | {"training.group": group}) for group in (0, 1)]
    assert len(run(cells, Store(tmp_path), workers=2, quiet=True)) == 4


@pytest.mark.parametrize("where", [0, 1], ids=["first lane", "other lane"])
@pytest.mark.usefixtures("no_process")
def test_an_error_in_any_lane_ends_the_run(where: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    both = threading.Barrier(2)

    def train(cell: TrainingCell, listen: Any, *_: Any) -> None:
        both.wait(20)  # both lanes have a training
        if (threading.current_thread() is threading.main_thread()) == (where == 0):
            raise InputError("cannot be trained")
        while True:  # until it is told to stop
            time.sleep(0.01)
            listen(Advanced(Kind.of(cell), 0, 0.01))

    monkeypatch.setattr(jobs, "train_cell", train)
    with pytest.raises(InputError, match="cannot be trained"):
        run([measurement({"training.group": group}) for group in (0, 1)], Store(tmp_path), workers=2, quiet=True)
    wait_until(lambda: threading.active_count() == 1, seconds=5)


def test_trainings_alone_can_be_asked_for(tmp_path: Path, count_trainings: list[Any]):
    store, cells = Store(tmp_path), [measurement({"training.group": group}).training for group in (0, 1)]
    for _ in range(2):
        run(cells, store, workers=1, quiet=True)
    assert len(count_trainings) == 2
    assert [store.load_training(cell).seeds[0] for cell in cells] == [0, 8]


def test_code_that_only_looks_importable_is_not():
    def rule(examples: Any) -> Any:
        return examples.labels

    rule.__qualname__, rule.__module__ = "rule", "made_by_exec"
    assert not Code.of(rule).importable
    assert not Code.of(flip).importable
    assert Code.of(measurement).importable


def test_a_users_rule_measures_what_the_same_built_in_rule_does(tmp_path: Path):
    store, cells = (
        Store(tmp_path),
        [measurement(REFERENCE | {"prompts.outliers.labels": rule}) for rule in (flip, "flip", "random")],
    )
    run_here(cells, store)
    rows = [store.load_rows(cell) for cell in cells]
    assert rows[0] == rows[1] != rows[2]
