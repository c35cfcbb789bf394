"""A run of the command line that is stopped in the middle keeps what is finished, and can be continued."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import entries, run_here, wait_until, weights

from iclab.catalog import find
from iclab.lab import Store
from iclab.study.edition import Edition

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "steps": 30,
    "test_prompts": 200,
    "seeds": 9,  # two groups: two trainings of each model, so that a worker process starts at once
    "models": ["linear", "softmax"],  # softmax runs in this process and in the other, whatever engine linear runs on
    "label_rules": ["flip"],
    "baselines": False,
    "outlier_fractions": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
}
WORDS = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={json.dumps(value)}")]
FIGURE = find("M-fig2")
EDITION = Edition(FIGURE, FIGURE.settings(**SETTINGS))
TOTAL = len(EDITION.cells) + 4
PATIENCE = 300.0
"""Seconds after which a test gives up; a busy machine may take long to import torch."""
HELD = """
import itertools, os, pathlib, time

def after_two():  # measurements of softmax, of 12: no run ends before its signal
    from iclab.lab.executors import jobs
    jobs.MOST, measure, calls = 1, jobs.measure, itertools.count(1)  # each cell is stored at once
    def held(trained, *args, advance, **more):
        if trained.training.model.label == "softmax" and next(calls) > 2:
            pathlib.Path(f"holds-{{os.getpid()}}").touch()
            while True:
                advance(0)
                time.sleep(0.01)
        return measure(trained, *args, advance=advance, **more)
    jobs.measure = held

def start(*pipes):  # in a worker process
    if not {starts}:
        pathlib.Path("starting").touch()
        time.sleep(600)
    from iclab.lab.executors import processes
    processes._start_worker(*pipes)
    after_two()
"""
MAIN = """
import signal, sys
import held
from iclab.cli import main
from iclab.lab import schedule
from iclab.lab.executors import processes
# Started in the background of a script, the tests themselves ignore Ctrl-C, and what they start would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
schedule.START_UP = schedule.GAIN = 0.0  # a process is worth it
processes._start_worker = held.start
held.after_two()
sys.exit(main())
"""


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

    def wait(self) -> int:
        return self.process.wait(timeout=PATIENCE)

    def wait_for_the_middle(self) -> set[int]:
        """Wait until this process and its worker hold, each in the middle of a cell; return the worker."""
        wait_until(lambda: len([*self.store.parent.glob("holds-*")]) == 2, PATIENCE)
        return set(self.workers())


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


@pytest.fixture
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Started]:
    """A run that waits in the middle for a signal. Its worker process never starts if the parameter says so."""
    starts = getattr(request, "param", True)
    (tmp_path / "held.py").write_text(HELD.format(starts=starts))
    command = [sys.executable, "-c", MAIN, "run", "M-fig2", *WORDS, "--workers", "2", "--store", "store"]
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
    yield Started(process, tmp_path / "store", tmp_path / "err")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("uninterrupted"))
    assert len(run_here(EDITION.cells, store)) == TOTAL == len(entries(store.path))
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
    assert len(run_here(EDITION.cells, store)) == TOTAL - len(before)
    after = entries(path)
    assert len(after) == TOTAL
    assert {name: after[name] for name in before} == before
    assert set(os.listdir(path / ".partial")) <= set(left) - dead
    assert EDITION.rows(store) == EDITION.rows(uninterrupted)
    assert weights(path) == weights(uninterrupted.path)


def test_kill_9_loses_nothing(started: Started, uninterrupted: Store):
    workers = started.wait_for_the_middle()
    started.process.kill()
    started.wait()
    wait_until(lambda: not processes().keys() & workers, PATIENCE)
    assert_goes_on(started.store, uninterrupted)


def test_ctrl_c_stops_cleanly(started: Started, uninterrupted: Store):
    started.wait_for_the_middle()
    os.killpg(started.pid, signal.SIGINT)  # a terminal sends it to the workers as well
    assert_stopped(started)
    assert os.listdir(started.store / ".partial") == []
    assert_goes_on(started.store, uninterrupted)


@pytest.mark.parametrize("started", [False], indirect=True, ids=["never"])
def test_ctrl_c_stops_cleanly_while_workers_start(started: Started):
    wait_until((started.store.parent / "starting").exists, PATIENCE)
    os.killpg(started.pid, signal.SIGINT)
    assert_stopped(started)


def assert_stopped(started: Started) -> None:
    code, said = started.wait(), started.err.read_text()
    assert code == 130, said
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("iclab: ")] == [
        "iclab: stopped; finished cells are kept, run the same command again to continue"
    ]
    assert started.workers() == []
