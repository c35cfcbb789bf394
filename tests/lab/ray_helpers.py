"""Shared by the tests of the Ray executor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab_helpers import entries, weights

from iclab.catalog import find
from iclab.config import InputError
from iclab.lab import RayExecutor, Store, run
from iclab.lab.events import Finished, Notice
from iclab.study.edition import Edition

FIGURE = {
    "seeds": 16,
    "steps": 10,
    "test_prompts": 50,
    "label_rules": ["flip", "worst"],
    "outlier_fractions": [0.0, 0.8],
}
TABLE = {"seeds": 9, "steps": 2, "test_prompts": 20, "columns": ["as chosen"], "models": ["deep-mamba", "deep-linear"]}


def edition(name: str, **settings: Any) -> Edition:
    """Return a small edition of an experiment."""
    experiment = find(name)
    return Edition(experiment, experiment.settings().quick().changed(settings))


def words(settings: dict[str, Any]) -> list[str]:
    """Return settings as words of the command line."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]


def ray_run(cells: Any, store: Store, address: str, **how: Any) -> tuple[list[Any], Exception | None]:
    """Run cells on a cluster; return all events, and what was raised at the end."""
    heard: list[Any] = []
    listeners = [heard.append, *how.pop("listeners", ())]
    with RayExecutor(address, **how) as executor:
        try:
            run(cells, store, executor=executor, quiet=True, listeners=listeners)
        except InputError as error:
            return heard, error
    return heard, None


def notices(heard: list[Any]) -> list[str]:
    return [event.text for event in heard if isinstance(event, Notice)]


def finished(heard: list[Any]) -> int:
    return sum(isinstance(event, Finished) for event in heard)


def assert_same(store: Store, other: Store, cells: Any) -> None:
    """Two stores have the same cells with the same bits, and nothing half-written."""
    assert entries(store.path).keys() == entries(other.path).keys()
    assert weights(store.path) == weights(other.path) != {}
    for cell in cells:
        assert store.load_rows(cell) == other.load_rows(cell)
    assert os.listdir(store.path / ".partial") == []


def busy(cluster: Any) -> list[int]:
    """Return the workers of a cluster that run a job."""
    nodes = {process.process.pid for node in cluster.list_all_nodes() for process in node.all_processes["raylet"]}
    return [pid for pid, (parent, name) in processes().items() if parent in nodes and name.startswith("ray::work")]


def processes() -> dict[int, tuple[int, str]]:
    """Every living process: its parent and command line."""
    told = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in told.stdout.splitlines()]
    return {int(pid): (int(parent), "".join(args)) for pid, parent, *args in lines}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def refused(cli: Callable[..., Any], folder: Path, *more: object) -> str:
    started = time.monotonic()
    told = cli("run", "M-fig2", "--quick", "--store", folder / "store", "--out", folder / "out", *more)
    assert time.monotonic() - started < 300
    assert not (folder / "store").exists()
    return told.complaint
