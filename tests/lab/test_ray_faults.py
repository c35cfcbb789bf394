"""Faults on a Ray cluster: workers, nodes and the driver die, and nothing is lost, computed twice or half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import TRAINING, entries, measurement, run_here, wait_until
from ray_helpers import assert_same, busy, finished, kill, notices, processes, ray_run

from conftest import NODE
from iclab.lab import Store
from iclab.lab import retries as rule
from iclab.lab.store import Entry

pytest.importorskip("ray", reason="Ray is not installed: pip install 'iclab[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.ray]

PATIENCE = 300.0
"""Seconds: a busy machine takes one to start nodes and workers."""
SWEEP = [
    measurement({"training.group": group, f"{TRAINING}.model": "softmax", f"{TRAINING}.recipe.steps": 150, "at": 150})
    for group in range(16)
] + [measurement({"training.group": group}) for group in range(16)]
"""Trainings of some tenths of a second, and small ones that share jobs."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    assert len(run_here(SWEEP, store)) == 2 * len(SWEEP)
    return store


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each cell was stored."""
    counted: Counter[str] = Counter()
    put = Store.put

    def counting(self: Store, entries: Iterable[Entry]) -> None:
        listed = list(entries)
        counted.update(entry.hash for entry in listed)
        put(self, listed)

    monkeypatch.setattr(Store, "put", counting)
    return counted


def test_workers_killed_at_random_moments(
    cluster: Any,
    undisturbed: Store,
    stored: Counter[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(rule, "TRIES", 20)  # who is killed here is chance
    moments, killed, over = random.Random(20), 0, threading.Event()

    def murder() -> None:
        nonlocal killed
        while killed < 20 and not over.wait(moments.uniform(0.0, 1.0)):
            if victims := busy(cluster):
                kill(moments.choice(victims))
                killed += 1

    killer = threading.Thread(target=murder)
    killer.start()
    store, rounds = Store(tmp_path / "store"), 0
    try:
        while killed < 20:  # the sweep again, in another store, until all moments have come
            rounds += 1
            store = Store(tmp_path / f"store-{rounds}")
            stored.clear()
            heard, error = ray_run(SWEEP, store, cluster.address)
            assert error is None
            assert finished(heard) == 2 * len(SWEEP)
            assert set(stored.values()) == {1}
            assert_same(store, undisturbed, SWEEP)
    finally:
        over.set()
        killer.join()
    assert capsys.readouterr().out == ""


def test_a_node_killed_in_the_middle(cluster: Any, undisturbed: Store, stored: Counter[str], tmp_path: Path):
    node, store = cluster.add_node(**NODE), Store(tmp_path / "store")

    def end_the_node() -> None:
        wait_until(lambda: len(entries(store.path)) >= len(SWEEP) // 2, PATIENCE)
        for process in node.all_processes["raylet"]:
            kill(process.process.pid)

    killer = threading.Thread(target=end_the_node)
    killer.start()
    heard, error = ray_run(SWEEP, store, cluster.address)
    killer.join()
    cluster.remove_node(node, allow_graceful=False)
    assert error is None, notices(heard)
    assert set(stored.values()) == {1}
    assert_same(store, undisturbed, SWEEP)


# The driver.


@pytest.fixture
def started(cluster: Any, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The sweep in a process of its own, which stores into ``store``."""
    (tmp_path / "cells.json").write_text(json.dumps([cell.model_dump(mode="json") for cell in SWEEP]))
    process = start(cluster.address, tmp_path)
    yield process
    process.kill()
    process.wait()


SCRIPT = """
import json, signal, sys
from iclab.lab import MeasurementCell, RayExecutor, Store, run
signal.signal(signal.SIGINT, signal.default_int_handler)
cells = [MeasurementCell.model_validate(cell) for cell in json.load(open("cells.json"))]
try:
    with RayExecutor(sys.argv[1]) as executor:
        run(cells, Store("store"), executor=executor)
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(address: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "err").open("wb") as err:
        command = [sys.executable, "-c", SCRIPT, address]
        return subprocess.Popen(command, cwd=folder, stderr=err, start_new_session=True)


def half(folder: Path) -> bool:
    return len(entries(folder / "store")) >= len(SWEEP) // 2


def test_the_driver_killed_and_started_again(
    started: subprocess.Popen[bytes], cluster: Any, undisturbed: Store, tmp_path: Path
):
    wait_until(lambda: half(tmp_path), PATIENCE, pause=0.01)
    started.kill()
    started.wait()
    before = entries(tmp_path / "store")
    assert len(before) < 2 * len(SWEEP)
    wait_until(lambda: not busy(cluster), seconds=PATIENCE)  # nobody goes on without it
    again = start(cluster.address, tmp_path)
    assert again.wait(timeout=PATIENCE) == 0, (tmp_path / "err").read_text()
    after = entries(tmp_path / "store")
    assert {name: after[name] for name in before} == before
    assert_same(Store(tmp_path / "store"), undisturbed, SWEEP)


def test_ctrl_c_leaves_a_clean_store(
    started: subprocess.Popen[bytes], cluster: Any, undisturbed: Store, tmp_path: Path
):
    wait_until(lambda: half(tmp_path), PATIENCE, pause=0.01)
    os.killpg(started.pid, signal.SIGINT)
    assert started.wait(timeout=PATIENCE) == 130
    assert "Traceback" not in (tmp_path / "err").read_text()
    assert os.listdir(tmp_path / "store" / ".partial") == []
    before = entries(tmp_path / "store")
    assert 0 < len(before) < 2 * len(SWEEP)
    wait_until(lambda: not busy(cluster), seconds=PATIENCE)
    store = Store(tmp_path / "store")
    run_here(SWEEP, store)  # this machine goes on where the cluster stopped
    after = entries(store.path)
    assert {name: after[name] for name in before} == before
    assert_same(store, undisturbed, SWEEP)


def test_a_local_cluster_ends_with_a_killed_driver(tmp_path: Path):
    (tmp_path / "cells.json").write_text(json.dumps([cell.model_dump(mode="json") for cell in SWEEP]))
    driver = start("local", tmp_path)
    wait_until(lambda: len(entries(tmp_path / "store")) >= 2, PATIENCE, pause=0.01)
    session = {pid for pid, (parent, name) in processes().items() if parent == driver.pid}
    assert session
    driver.kill()
    driver.wait()
    wait_until(lambda: not session & processes().keys(), seconds=PATIENCE, pause=0.5)
    assert 0 < len(entries(tmp_path / "store")) <= 2 * len(SWEEP)
