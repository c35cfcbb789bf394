"""A run computes what is missing, once, the same on any number of processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_helpers import entries, error_cells, measurement, run_here, training, wait_until, weights

from iclab.config import Code, InputError
from iclab.lab import Plan, Store, TrainingCell, run
from iclab.lab.executors import jobs, local

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


def test_two_processes_give_the_same_bits_as_one(done: Store, tmp_path: Path):
    two = Store(tmp_path / "store")
    plan = run(CELLS, two, workers=2, quiet=True)
    assert len(plan) == 6
    assert weights(two.path) == weights(done.path) != {}
    for cell in CELLS:
        assert two.load_rows(cell) == done.load_rows(cell)
    assert os.listdir(two.path / ".partial") == []


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


def test_a_plan_is_split_by_training(tmp_path: Path):
    plan = Plan.of(CELLS, Store(tmp_path))
    fused, others = plan.split(lambda cell: cell.training.engine == "fused")
    assert {cell.training.model.label for cell in fused.trainings.values()} == {"mamba"}
    assert (len(fused), len(others)) == (3, 3)
    assert not Plan()


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


@pytest.mark.parametrize("changes", LOCAL.values(), ids=LOCAL)
def test_local_code_runs_in_this_process_and_says_so_once(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(local, "run_in_processes", lambda *_: pytest.fail("was handed to other processes"))
    store, cells = Store(tmp_path), [measurement({"training.group": group, "draw": 1} | changes) for group in (0, 1)]
    assert len(run(cells, store, workers=2, quiet=True)) == 4
    assert [row["seed"] for cell in cells for row in store.load_rows(cell)] == list(range(16))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "<locals>" in said[0]
    assert "runs in this process, because others cannot import it" in said[0]


def test_local_code_leaves_the_rest_to_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    handed: list[Plan] = []
    monkeypatch.setattr(local, "run_in_processes", lambda plan, *_: handed.append(plan))
    others = [measurement(REFERENCE | {"training.group": group}) for group in (0, 1)]
    own = measurement(LOCAL["model"])
    run([own, *others], Store(tmp_path), workers=2, quiet=True)
    assert [set(plan.trainings) for plan in handed] == [{cell.training.hash for cell in others}]
    assert Store(tmp_path).has(own)


def test_one_job_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "run_in_processes", lambda *_: pytest.fail("was handed to other processes"))
    assert len(run([measurement(REFERENCE)], Store(tmp_path), workers=2, quiet=True)) == 2


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


# A process that dies.


def test_a_worker_that_dies_is_said_in_one_line(tmp_path: Path):
    def kill_the_first_worker() -> None:
        wait_until(multiprocessing.active_children)
        multiprocessing.active_children()[0].kill()

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    with pytest.raises(InputError, match=r"a worker process died .* run the same command again to continue") as caught:
        run([measurement(REFERENCE | {"training.group": g}) for g in (0, 1)], Store(tmp_path), workers=2, quiet=True)
    killer.join()
    assert len(str(caught.value).splitlines()) == 1
    assert multiprocessing.active_children() == []
