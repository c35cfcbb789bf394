"""Workers that die: their cells are tried again, three times at most, and nothing else is lost."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import error_cells, measurement, run_here, training, wait_until, weights

from iclab import catalog
from iclab.cli.values import read_pairs
from iclab.config import InputError
from iclab.lab import MeasurementCell, Store, run, schedule
from iclab.lab.cells import Cell
from iclab.lab.events import Finished, Notice
from iclab.lab.executors import jobs, local
from iclab.lab.executors.processes import WorkerDiedError
from iclab.lab.retries import CellsFailedError, Retries
from iclab.study.edition import Edition

REFERENCE = {"training.training.model": "softmax"}  # a model that only the reference engine knows: it runs in processes
CELLS = [measurement(REFERENCE | {"training.group": group}) for group in (0, 1)]


@pytest.fixture(autouse=True)
def cheap_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cells are worth a process."""
    monkeypatch.setattr(schedule, "START_UP", 0.0)
    monkeypatch.setattr(schedule, "GAIN", 0.0)


class Workers:
    """Workers that run their jobs in this process, and die of some cells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deadly: dict[str, int] = {}
        """How often a cell kills its worker, by its hash."""
        self.memory = self.unborn = False
        self.runs: list[tuple[str, str]] = []
        """Where each cell was tried: ``here`` or ``apart``."""
        monkeypatch.setattr(local, "WorkerProcess", self.start)
        monkeypatch.setattr(local, "run_job", lambda *job: self.run("here", *job))

    def start(self, store: Store, listen: Any) -> Any:
        class Worker:
            run = staticmethod(lambda cells, limit: self.run("apart", cells, store, listen, limit=limit))
            stop = close = staticmethod(lambda: None)

        return Worker

    def run(self, where: str, cells: tuple[Cell, ...], store: Store, listen: Any, *how: Any, limit: Any = None) -> None:
        for number, cell in enumerate(cells):
            self.runs.append((cell.hash, where))
            if self.deadly.get(cell.hash, 0) > 0:
                self.deadly[cell.hash] -= 1
                raise WorkerDiedError("was killed by signal 9", self.memory, not self.unborn)
            jobs.run_job(cells[number : number + 1], store, listen, *how[:2])  # and stored before the next

    def tries(self, cell: Cell) -> list[str]:
        return [where for hash_, where in self.runs if hash_ == cell.hash]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def notices(cells: list[MeasurementCell], store: Store, workers: int = 2) -> tuple[list[str], Exception | None]:
    """Run cells; return what was said, and what was raised at the end."""
    heard: list[Any] = []
    try:
        run(cells, store, workers=workers, quiet=True, listeners=[heard.append])
        return [event.text for event in heard if isinstance(event, Notice)], None
    except InputError as error:
        return [event.text for event in heard if isinstance(event, Notice)], error


def test_the_cell_of_a_dead_worker_is_tried_again_in_a_worker_only(workers: Workers, tmp_path: Path):
    store, (first, _) = Store(tmp_path), CELLS
    workers.deadly[first.training.hash] = 2
    said, error = notices(CELLS, store)
    assert error is None
    assert all(map(store.has, CELLS))
    assert len(said) == 2
    assert f"training of softmax, seeds 0 to 7 (training/{first.training.hash}); it is tried again" in said[0]
    assert workers.tries(first.training)[1:] == ["apart", "apart"]
    assert "here" in {where for _, where in workers.runs}


@pytest.mark.parametrize("deaths", [1, 9], ids=["once", "always"])
@pytest.mark.parametrize("trains", [True, False], ids=["training", "measurement"])
def test_small_cells_that_share_a_job_are_tried_and_given_up_one_by_one(
    trains: bool, deaths: int, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(schedule, "BATCHES", 1)
    cells = [cell for seed in range(8) for cell in error_cells(training(basis_seed=seed), 0.0, 0.5)]
    bad = {cell.hash: cell.training if trains else cell for cell in cells}[cells[-2].hash]
    workers.deadly[bad.hash] = deaths
    _, error = notices(cells, store := Store(tmp_path))
    lost = [] if deaths == 1 else cells[-2:] if trains else cells[-2:-1]
    assert [cell for cell in cells if not store.has(cell)] == lost
    assert workers.tries(bad)[1:] == ["apart"] * (1 if deaths == 1 else 2)
    if lost:
        assert isinstance(error, CellsFailedError)
        assert ([failure.cell for failure in error.failures], ", and 2 that need" in str(error)) == ([bad], trains)
    assert all(len(workers.tries(cell)) == 1 for cell in cells[:-2])


def test_a_cell_that_kills_three_workers_is_reported_with_its_description(workers: Workers, tmp_path: Path):
    store, cell = Store(tmp_path), training(model="softmax")
    cells = error_cells(cell, 0.0, 0.3, 0.6)
    workers.deadly[cells[1].hash] = 9
    said, error = notices(cells, store)
    assert isinstance(error, CellsFailedError)
    assert [failure.cell for failure in error.failures] == [cells[1]]
    assert workers.tries(cells[1])[1:] == ["apart", "apart"]
    assert [store.has(cell) for cell in cells] == [True, False, True]
    text = said[-1].partition("its description is ")[2]
    assert MeasurementCell.model_validate_json(text) == cells[1]
    assert str(error).startswith(
        f"1 cell could not be computed (error of softmax, seeds 0 to 7 (measurement/{cells[1].hash}"
    )
    workers.deadly.clear()
    assert len(run_here(cells, store)) == 1


def test_measurements_of_a_training_that_is_given_up_are_skipped(workers: Workers, tmp_path: Path):
    store, (first, second) = Store(tmp_path), CELLS
    workers.deadly[first.training.hash] = 9
    _, error = notices(CELLS, store)
    assert "1 cell, and 1 that need their weights, could not be computed" in str(error)
    assert not workers.tries(first)
    assert store.has(second)


@pytest.mark.parametrize("short", [True, False], ids=["memory", "other"])
def test_fewer_workers_go_on_if_memory_ran_out(short: bool, workers: Workers, tmp_path: Path):
    workers.deadly[CELLS[0].training.hash], workers.memory = 1, short
    said, error = notices(CELLS, Store(tmp_path), workers=4)
    assert error is None
    assert [text.endswith("; it is tried again, and 2 of 4 workers go on") for text in said] == [short]
    assert all(map(Store(tmp_path).has, CELLS))


def test_workers_that_cannot_start_end_the_run(workers: Workers, tmp_path: Path):
    workers.deadly[CELLS[0].training.hash], workers.unborn = 9, True
    said, error = notices(CELLS[:1], Store(tmp_path))
    assert "worker processes die before they begin to work: the last one was killed by signal 9" in str(error)
    assert [text.endswith("; another one is started") for text in said] == [True]  # said once


def test_progress_counts_a_cell_that_is_stored_once(workers: Workers, tmp_path: Path):
    workers.deadly[CELLS[0].hash] = 2
    heard: list[Any] = []
    run(CELLS, Store(tmp_path), workers=2, quiet=True, listeners=[heard.append])
    assert sum(isinstance(event, Finished) for event in heard) == 4


def test_three_deaths_are_one_too_many():
    retries, cell = Retries(), CELLS[0]
    assert [retries.died(cell, "fell") for _ in range(3)] == [True, True, False]
    assert retries.died(CELLS[1], "fell")
    with pytest.raises(CellsFailedError, match="1 cell could not"):
        retries.settle(lambda event: None)
    Retries().settle(lambda event: pytest.fail("said something"))


def test_the_command_line_draws_what_there_is_and_its_exit_code_tells(
    workers: Workers, cli: Callable[..., Any], tmp_path: Path
):
    settings = ["steps=5", "test_prompts=20", 'models=["linear","softmax"]', 'label_rules=["flip"]', "baselines=false"]
    settings += ["outlier_fractions=[0.0,0.6]"]
    words = ["M-fig2", *(word for setting in settings for word in ("--set", setting)), "--seeds", 9]
    figure = catalog.find("M-fig2")
    base = figure.settings().changed({"seeds": 9} | dict(map(_pair, settings)))
    softmax = [cell for cell in Edition(figure, base).cells if cell.training.training.model.label == "softmax"]
    workers.deadly[softmax[0].hash] = 9
    said = cli("run", *words, "--workers", 2, "--store", tmp_path / "store", "--out", tmp_path / "out", "--json")
    assert said.code == 1
    lines = said.err.splitlines()
    assert lines[-1].startswith("iclab: 1 cell could not be computed (error of softmax, seeds 0 to 7")
    assert sum(line.startswith("given up: ") for line in lines) == 1
    assert not said.json["complete"]
    assert {row["model"] for row in said.json["rows"]} == {"linear", "softmax"}


def _pair(text: str) -> tuple[str, Any]:
    return next(iter(read_pairs([text]).items()))


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path):
    store, plain = Store(tmp_path / "store"), Store(tmp_path / "plain")

    def kill_the_first_worker() -> None:
        wait_until(multiprocessing.active_children)
        multiprocessing.active_children()[0].kill()

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    said, error = notices(CELLS, store)
    killer.join()
    assert error is None
    assert [text.startswith("a worker process was killed by signal 9") for text in said] == [True]
    assert multiprocessing.active_children() == []
    run_here(CELLS, plain)
    assert [store.load_rows(cell) for cell in CELLS] == [plain.load_rows(cell) for cell in CELLS]
    assert weights(store.path) == weights(plain.path)
    assert os.listdir(store.path / ".partial") == []
