"""What the Ray executor refuses without Ray, and what cells declare for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import RECIPE, measurement, training

import iclab
from iclab.config import InputError
from iclab.lab import LocalExecutor, RayExecutor, Store, run
from iclab.lab.executors import jobs
from iclab.lab.executors.ray import resources
from iclab.lab.executors.ray_worker import difference, versions
from iclab.lab.needs import need_of
from iclab.lab.retries import CellsFailedError
from iclab.models import MODELS


def test_ray_that_is_not_installed(cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    told = cli("run", "M-fig2", "--quick", "--ray", "local", "--store", tmp_path / "store", "--out", tmp_path / "out")
    assert told.complaint.startswith("ray: is not installed here (")
    assert told.complaint.endswith("install it with pip install 'iclab[ray]'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["", " ", "ray://head:10001"])
def test_addresses_that_cannot_be(address: str):
    with pytest.raises(InputError, match=r"^ray = "):
        RayExecutor(address)


def test_limits_are_checked(cli: Callable[..., Any]):
    for executor in (LocalExecutor, RayExecutor):
        for wrong in (0, -1.0, float("nan"), float("inf"), True, "5"):
            with pytest.raises(InputError, match=r"^cell_timeout = .*: must be a number of seconds above 0$"):
                executor(cell_timeout=wrong)
        with pytest.raises(InputError, match=r"workers = 0: must be at least 1"):
            executor(workers=0)
    assert cli("run", "M-fig2", "--cell-timeout", 0).complaint.startswith("cell_timeout = 0.0: must be")


def test_executors_in_python_are_checked():
    with pytest.raises(InputError, match=r"^executor = 'ray': must be an iclab.lab.RayExecutor"):
        iclab.train("mamba", executor="ray")
    with pytest.raises(InputError, match=r"^workers = 2: is for the default executor"):
        iclab.train("mamba", workers=2, executor=LocalExecutor(2))


def test_software_must_be_the_same():
    here = versions()
    assert difference(here, dict(here)) == ""
    assert here.keys() == {"iclab", "torch", "numpy", "numba"}
    wrong = difference(here, here | {"torch": "0.1"})
    assert wrong.startswith(f"has torch 0.1, but here is {here['torch']}; ")


def test_cells_reserve_what_their_model_declares(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(MODELS["softmax"], "num_cpus", 2.0)
    monkeypatch.setattr(MODELS["softmax"], "num_gpus", 0.25)
    assert resources([measurement()]) == {"num_cpus": 1.0}
    cell = measurement({"training.training.model": "softmax"})
    assert resources([cell]) == resources([cell.training]) == {"num_cpus": 2.0}
    on_gpu = training(model="softmax", device="cuda")
    assert resources([on_gpu]) == {"num_cpus": 2.0, "num_gpus": 0.25}


def test_large_cells_reserve_memory_by_whole_gigabytes():
    small, large = measurement(), measurement({"training.training.model": "softmax", f"{RECIPE}.batch_size": 10**6})
    needed = need_of(large.training).total
    assert 1e9 < needed != needed // 10**9 * 10**9
    assert resources([large.training]) == {"num_cpus": 1.0, "memory": needed // 10**9 * 10**9}
    assert "memory" not in resources([small])
    huge = [large, measurement({"training.training.model": "softmax", "count": 10**9, "prompts.context_length": 10**6})]
    assert resources(huge) == resources(huge[::-1])


def test_an_entry_travels_whole_or_not_at_all(tmp_path: Path):
    cell = measurement()
    there, here = Store(tmp_path / "there"), Store(tmp_path / "here").open_for_writing()
    run([cell], there, workers=1, quiet=True)
    entry = there.pack(cell)
    with pytest.raises(InputError, match=rf"measurement/{cell.hash}: arrived damaged"):
        here.put([entry._replace(files=entry.files | {"rows.parquet": entry.files["rows.parquet"][:-1]})])
    assert not here.has(cell)
    here.put([entry])
    assert here.load_rows(cell) == there.load_rows(cell)
    assert here.pack(cell) == entry


def test_a_cell_that_takes_too_long_here_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The clock jumps by a minute per event of the cells of group 1."""
    cells, clock, slow = [measurement({"training.group": group}) for group in range(3)], [0.0], jobs.train

    def train(description: Any, seeds: tuple[int, ...], advance: Any, *rest: Any) -> Any:
        if 8 in seeds:
            clock[0] += 60.0
            monkeypatch.setattr("iclab.lab.meter.EVENT_EVERY", -1.0)
        return slow(description, seeds, advance, *rest)

    monkeypatch.setattr(jobs, "train", train)
    monkeypatch.setattr(jobs.time, "monotonic", lambda: clock[0])
    with pytest.raises(CellsFailedError, match=r"1 cell, and 1 that need their weights, could not"):
        run(cells, Store(tmp_path), executor=LocalExecutor(1, cell_timeout=30.0), quiet=True)
    assert [Store(tmp_path).has(cell) for cell in cells] == [True, False, True]
