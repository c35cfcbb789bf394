"""The Ray executor on three real nodes: the bits of the local one, bounds, progress, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import lab_helpers
import pytest
from lab_helpers import error_cells, measurement, run_here, training
from ray_helpers import FIGURE, TABLE, assert_same, edition, finished, ray_run, refused, words

import iclab
from conftest import NODE
from iclab.lab import RayExecutor, Store, memory, needs, run
from iclab.lab.events import Alive
from iclab.lab.executors import ray as driver
from iclab.lab.executors import ray_cluster, ray_worker
from iclab.lab.store import Store as AnyStore

pytest.importorskip("ray", reason="Ray is not installed: pip install 'iclab[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.ray]


@pytest.fixture(scope="module", autouse=True)
def _connected(cluster: Any) -> Iterator[None]:
    """Executors use the connection that there is: workers stay from one test to the next."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.mark.parametrize("name, settings", [("M-fig2", FIGURE), ("M-tab1", TABLE)])
def test_rows_and_weights_are_those_of_the_local_executor(
    name: str, settings: dict[str, Any], cluster: Any, tmp_path: Path
):
    cells = edition(name, **settings).cells
    store = Store(tmp_path / "ray")
    heard, error = ray_run(cells, store, cluster.address)
    assert error is None
    assert Alive(3, 3) in heard
    for workers in (1, 2, 4):
        local = Store(tmp_path / str(workers))
        plan = run(cells, local, workers=workers, quiet=True)
        assert len(plan) == finished(heard)
        assert_same(store, local, cells)


def test_the_command_line_and_python_take_the_same_way(cluster: Any, cli: Callable[..., Any], tmp_path: Path):
    small = FIGURE | {"seeds": 8, "label_rules": ["flip"], "baselines": False}
    told = cli(
        *("run", "M-fig2", "--quick", *words(small), "--ray", cluster.address, "--store", tmp_path / "store"),
        *("--out", tmp_path / "out", "--json"),
    )
    assert told.code == 0, told.err
    with RayExecutor(cluster.address) as executor:
        outcome = iclab.run("M-fig2", quick=True, executor=executor, **small)
    assert json.loads(json.dumps(outcome.rows)) == told.json["rows"] != []


def test_measurements_get_weights_by_reference_or_from_the_store(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cells, packed = error_cells(training(), 0.0, 0.3, 0.6), []
    monkeypatch.setattr("iclab.lab.schedule.SMALL", 0.0)  # measurements are jobs of their own
    pack = AnyStore.pack
    monkeypatch.setattr(AnyStore, "pack", lambda self, cell: (packed.append(cell), pack(self, cell))[1])
    store, local = Store(tmp_path / "ray"), Store(tmp_path / "local")
    assert ray_run(cells[:2], store, cluster.address)[1] is None
    assert packed == []  # by reference: the driver reads nothing back
    assert ray_run(cells, store, cluster.address)[1] is None
    assert packed == [cells[0].training]  # trained in an earlier run
    run_here(cells, local)
    assert_same(store, local, cells)


def test_a_bounded_number_of_jobs_and_weights_is_out_at_a_time(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    most = kept = 0
    send, keep = driver._Run._send, driver._Run._keep_weights

    def counted_send(self: Any) -> None:
        nonlocal most
        send(self)
        most = max(most, len(self._sent))

    def counted_keep(self: Any, *rest: Any) -> None:
        nonlocal kept
        keep(self, *rest)
        kept = max(kept, len(self._weights))

    monkeypatch.setattr(driver._Run, "_send", counted_send)
    monkeypatch.setattr(driver._Run, "_keep_weights", counted_keep)
    monkeypatch.setattr(driver, "KEPT_WEIGHTS", 1)
    monkeypatch.setattr("iclab.lab.schedule.SMALL", 0.0)
    cells = [measurement({"training.group": group}) for group in range(20)]
    assert ray_run(cells, Store(tmp_path), cluster.address)[1] is None
    assert (most, kept) == (driver.AHEAD * 3, 1)


def test_progress_tells_nodes_and_workers(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("iclab.lab.progress.LINE_EVERY", 0.0)
    with RayExecutor(cluster.address, workers=2) as executor:
        run(error_cells(training(), 0.0, 0.5), Store(tmp_path), executor=executor, title="sweep")
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith("sweep: 3 of 3 cells on 3 nodes with 2 workers in ")
    assert any(line.startswith("sweep: ") and " left" in line for line in told)


def test_memory_is_that_of_the_nodes(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first run has a node with memory enough among others; without it, the same is refused."""
    there = 10**14
    large, cells = there // 2, error_cells(training(), 0.0)
    monkeypatch.setattr(needs, "largest_need", lambda cells: large)
    monkeypatch.setattr(driver, "largest_need", lambda cells: large)
    monkeypatch.setattr(needs, "need_of", lambda cell: needs.Need(large, 0, 0, 0, {"patterns": "dimension = 10"}))
    monkeypatch.setattr(memory, "available", lambda: 1)  # of the driver's machine, which computes nothing
    node = cluster.add_node(**NODE, memory=there)
    try:
        cluster.wait_for_nodes()
        assert ray_run(cells, Store(tmp_path / "store"), cluster.address) == (ANY, None)
    finally:
        cluster.remove_node(node)
    lab_helpers.wait_until(lambda: ray_cluster.Cluster(cluster.address, None).alive().nodes == 3, 60.0)
    _, error = ray_run(cells, Store(tmp_path / "other"), cluster.address)
    assert "needs at least 50 TB of memory (patterns 50 TB, by dimension = 10); " in str(error)
    assert str(error).endswith("GB are on the largest node of the cluster")
    assert not (tmp_path / "other").exists()


# What is refused, in one line and before anything is written.


def test_a_node_with_another_version_is_refused(
    cluster: Any, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = ray_worker.versions() | {"torch": "1.0"}
    monkeypatch.setattr(ray_cluster, "versions", lambda: here)
    told = refused(cli, tmp_path, "--ray", cluster.address)
    assert f"has torch {ray_worker.versions()['torch']}, but here is 1.0; results may differ" in told


def test_a_node_that_comes_later_with_another_version_is_refused(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver, "versions", lambda: ray_worker.versions() | {"iclab": "0.0"})
    _, error = ray_run(error_cells(training(), 0.0), Store(tmp_path / "store"), cluster.address)
    assert "but here is 0.0; results may differ" in str(error)
