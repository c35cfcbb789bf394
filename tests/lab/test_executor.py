"""The executor runs what is missing, once, the same on any number of processes, and survives being stopped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_helpers import error_cells, measurement, training
from safetensors import safe_open

from iclab.catalog import find
from iclab.config import InputError
from iclab.lab import MeasurementCell, Plan, Store, TrainingCell, executor, run

# Small runs in this process.

CELLS = [cell for model in ("mamba", "softmax") for cell in error_cells(training(model=model), 0.0, 0.6)]


def entries(store: Path) -> dict[str, list[tuple[str, int, int]]]:
    """Every finished entry with name, inode and time of its files: a rewritten one looks different."""
    return {
        f"{kind}/{entry.name}": sorted((f.name, f.stat().st_ino, f.stat().st_mtime_ns) for f in entry.iterdir())
        for kind in ("training", "measurement")
        for entry in (store / kind).glob("*")
    }


def weights(store: Path) -> dict[tuple[str, str], bytes]:
    """The bits of all stored weights."""
    out = {}
    for file in store.glob("training/*/weights.safetensors"):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a dict)
                out[file.parent.name, name] = tensors.get_tensor(name).tobytes()
    return out


def run_here(cells: list[MeasurementCell], store: Store) -> Plan:
    return run(cells, store, workers=1, quiet=True)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with all of CELLS. Tests must not write into it."""
    store = Store(tmp_path_factory.mktemp("done") / "store")
    plan = run_here(CELLS, store)
    assert (len(plan.trainings), plan.cells, plan.found) == (2, 6, 0)
    return store


@pytest.fixture
def count_trainings(monkeypatch: pytest.MonkeyPatch) -> list[TrainingCell]:
    """The trainings that are really run."""
    ran: list[Any] = []
    original = executor.train

    def counted(description: Any, *rest: Any) -> Any:
        ran.append(description)
        return original(description, *rest)

    monkeypatch.setattr(executor, "train", counted)
    return ran


def test_two_processes_give_the_same_bits_as_one(done: Store, tmp_path: Path):
    two = Store(tmp_path / "store")
    plan = run(CELLS, two, workers=2, quiet=True)
    assert plan.cells == 6
    assert weights(two.path) == weights(done.path) != {}
    for cell in CELLS:
        assert two.load_rows(cell) == done.load_rows(cell)
    assert os.listdir(two.path / ".partial") == []


def test_nothing_is_computed_twice(done: Store, count_trainings: list[Any]):
    before = entries(done.path)
    plan = run_here(CELLS, done)
    assert (plan.cells, plan.work, plan.found) == (0, 0, len(CELLS))
    assert entries(done.path) == before
    assert count_trainings == []


def test_a_cell_asked_for_twice_is_computed_once(tmp_path: Path, count_trainings: list[Any]):
    plan = run_here([CELLS[0], CELLS[0], CELLS[1]], Store(tmp_path))
    assert (plan.cells, len(count_trainings)) == (3, 1)


def test_a_new_grid_of_tests_retrains_nothing(tmp_path: Path, count_trainings: list[Any]):
    store, cell = Store(tmp_path), training()
    run_here(error_cells(cell, 0.0), store)
    before = entries(store.path)
    plan = run_here(error_cells(cell, 0.0, 0.3, 0.9), store)
    assert (plan.trainings, plan.cells, plan.found) == ({}, 2, 1)
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
    assert run_here(CELLS[:2], store).cells == 1
    assert store.load_rows(CELLS[0]) == rows
    assert len(count_trainings) == 1


def test_a_plan_counts_the_work(tmp_path: Path):
    plan = Plan.of(CELLS, Store(tmp_path))
    steps, batch, seeds, prompts = 4, 4, 8, 20
    assert plan.work == 2 * steps * batch * seeds + 4 * prompts * seeds
    assert not (tmp_path / "store.json").exists()


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


@pytest.mark.parametrize("position", ["alone", "behind another"])
@pytest.mark.parametrize("changes", LOCAL.values(), ids=LOCAL)
def test_local_code_needs_one_process(
    changes: dict[str, Any], position: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(executor, "_run_in_processes", lambda *_: pytest.fail("was handed to other processes"))
    cells = [measurement({"draw": 1} | changes)]
    if position == "behind another":
        cells.insert(0, measurement(REFERENCE))
    with pytest.raises(InputError, match=r"<locals>.*: other processes cannot import it; .* use workers = 1") as caught:
        run(cells, Store(tmp_path / "store"), workers=2, quiet=True)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("changes", LOCAL.values(), ids=LOCAL)
def test_local_code_runs_in_one_process(changes: dict[str, Any], tmp_path: Path):
    store, cells = Store(tmp_path), [measurement(changes), measurement({"draw": 1} | changes)]
    assert run_here(cells, store).cells == 3
    assert [row["seed"] for row in store.load_rows(cells[1])] == list(range(8))


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
    with pytest.raises(InputError, match=r"a worker process died .* the same command goes on") as caught:
        run([measurement(REFERENCE)], Store(tmp_path), workers=2, quiet=True)
    killer.join()
    assert len(str(caught.value).splitlines()) == 1
    assert multiprocessing.active_children() == []


# Whole runs of the command line, stopped in the middle.

SETTINGS: dict[str, Any] = {
    "steps": 30,
    "test_prompts": 1000,
    "seeds": 9,  # two groups: two trainings of each model, so that two processes start at once
    "models": ["linear", "softmax"],  # softmax runs in other processes, whatever engine linear runs on
    "label_rules": ["flip"],
    "outlier_fractions": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
}
WORDS = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={json.dumps(value)}")]
FIGURE = find("M-fig2")
FIGURE_SETTINGS = FIGURE.settings(**SETTINGS)
FIGURE_CELLS = [condition.cell for condition in FIGURE.conditions(FIGURE_SETTINGS)]
TOTAL = len(FIGURE_CELLS) + 4
MIDDLE = TOTAL // 2 + 3  # all of linear may be there, and some of softmax


@dataclass(frozen=True)
class Started:
    """A command that runs by itself, in a session of its own."""

    process: subprocess.Popen[bytes]
    store: Path
    err: Path

    def workers(self) -> list[int]:
        return [pid for pid, (parent, args) in processes().items() if parent == self.pid and "spawn_main" in args]

    @property
    def pid(self) -> int:
        return self.process.pid

    def finished(self) -> int:
        return len(entries(self.store))

    def wait(self) -> int:
        return self.process.wait(timeout=60)


def processes() -> dict[int, tuple[int, str]]:
    """Every living process: its parent and command line."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    lines = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return {int(pid): (int(parent), "".join(args)) for pid, parent, state, *args in lines if not state.startswith("Z")}


def exists(pid: int) -> bool:
    """Whether a process is there at all, be it one that has ended and that nobody has asked about yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    # Started in the background of a script, the tests themselves ignore Ctrl-C, and what they start would inherit it.
    listen = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code = listen + "from iclab.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "run", "M-fig2", *WORDS, "--workers", "2", "--store", "store"]
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
    yield Started(process, tmp_path / "store", tmp_path / "err")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("uninterrupted"))
    assert run_here(FIGURE_CELLS, store).cells == TOTAL == len(entries(store.path))
    return store


def assert_goes_on(path: Path, uninterrupted: Store) -> None:
    """The same run keeps what there is, adds what is missing, and ends where an uninterrupted one ends."""
    before = entries(path)
    assert 0 < len(before) < TOTAL
    for name in before:
        about = json.loads((path / name / "entry.json").read_text())
        for file, checksum in about["sha256"].items():
            assert hashlib.sha256((path / name / file).read_bytes()).hexdigest() == checksum, name
    left = os.listdir(path / ".partial")
    dead = {name for name in left if not exists(int(name.split("-")[1]))}
    store = Store(path)
    assert run_here(FIGURE_CELLS, store).cells == TOTAL - len(before)
    after = entries(path)
    assert len(after) == TOTAL
    assert {name: after[name] for name in before} == before
    assert set(os.listdir(path / ".partial")) <= set(left) - dead
    assert FIGURE.rows(FIGURE_SETTINGS, store) == FIGURE.rows(FIGURE_SETTINGS, uninterrupted)
    assert weights(path) == weights(uninterrupted.path)


def test_kill_9_loses_nothing(started: Started, uninterrupted: Store):
    wait_until(lambda: len(started.workers()) == 2)
    workers = set(started.workers())
    wait_until(lambda: started.finished() >= MIDDLE)
    started.process.kill()
    started.wait()
    wait_until(lambda: not processes().keys() & workers, seconds=10)
    assert_goes_on(started.store, uninterrupted)


def test_ctrl_c_stops_cleanly(started: Started, uninterrupted: Store):
    wait_until(lambda: started.finished() >= MIDDLE)
    os.killpg(started.pid, signal.SIGINT)  # a terminal sends it to the workers as well
    assert_stopped(started)
    assert os.listdir(started.store / ".partial") == []
    assert_goes_on(started.store, uninterrupted)


def test_ctrl_c_stops_cleanly_while_workers_start(started: Started):
    wait_until(lambda: len(started.workers()) == 2)
    time.sleep(0.5)  # long before they have imported torch
    os.killpg(started.pid, signal.SIGINT)
    assert_stopped(started)


def assert_stopped(started: Started) -> None:
    assert started.wait() == 130
    said = started.err.read_text()
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("iclab: ")] == [
        "iclab: stopped; finished cells are kept, the same command goes on from there"
    ]
    assert started.workers() == []
