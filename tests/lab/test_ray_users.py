"""Users' code on a Ray cluster, and cells that fail there."""

from __future__ import annotations

import importlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import measurement, run_here
from ray_helpers import assert_same, lines_of, notices, ray_run, refused

from iclab.lab import RayExecutor, Store, TrainingCell, run
from iclab.lab.executors import ray_cluster
from iclab.lab.retries import CellsFailedError

pytest.importorskip("ray", reason="Ray is not installed: pip install 'iclab[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.ray]

# Users' code.

MINE = """
    import os, time
    import torch
    from my_parts.helper import factor

    class Net(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.read = torch.nn.Linear(width, 1)

        def forward(self, prompts):
            return factor() * self.read(prompts.mean(1))

    def happens(state):
        what = {what!r}
        if what == "nothing" or min(state.seeds) != 8:
            return
        with open({notes!r}, "a") as file:
            file.write("tried\\n")
        if what == "dies":
            os._exit(3)
        if what == "fails":
            raise ValueError("on purpose")
        if what == "hangs":
            time.sleep(600)
"""


@pytest.fixture
def mine(user_module: Callable[[str, str], None], tmp_path: Path) -> Iterator[Callable[[str], list[Any]]]:
    """Yield a function that writes a user's model, with a callback that does something bad for seeds 8 … 15."""

    def make(what: str = "nothing") -> list[Any]:
        (tmp_path / "my_parts").mkdir(exist_ok=True)
        (tmp_path / "my_parts" / "__init__.py").write_text("")
        (tmp_path / "my_parts" / "helper.py").write_text("def factor():\n    return 0.5\n")
        importlib.invalidate_caches()
        user_module("my_models", MINE.format(what=what, notes=str(tmp_path / "notes")))
        changes = {
            "training.training.model": "my_models:Net",
            "training.training.recipe.callback": "my_models:happens",
        }
        return [measurement({"training.group": group} | changes) for group in range(3)]

    yield make
    for name in ("my_parts", "my_parts.helper"):
        sys.modules.pop(name, None)


def test_users_modules_are_shipped_and_give_the_same_bits(
    mine: Callable[[str], list[Any]], cluster: Any, tmp_path: Path
):
    import ray

    cells, store, local = mine("nothing"), Store(tmp_path / "ray"), Store(tmp_path / "local")
    with RayExecutor(cluster.address) as executor:
        run(cells, store, executor=executor, quiet=True)
        found = ray.get([ray.remote(_where).remote(name) for name in ("my_models", "my_parts.helper")])
    assert all("runtime_resources" in file for file in found), found
    run_here(cells, local)
    assert_same(store, local, cells)


def _where(module: str) -> str:
    import importlib

    return importlib.import_module(module).__file__ or ""


_where.__module__ = "__main__"  # so that Ray sends the function itself: nodes cannot import this file


def test_shipped_source_is_checked_on_the_worker(
    mine: Callable[[str], list[Any]], cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cells, original = mine("nothing"), ray_cluster.modules_of
    monkeypatch.setattr(
        ray_cluster, "modules_of", lambda code: {k: v + b"\n# edited\n" for k, v in original(code).items()}
    )
    _, error = ray_run(cells, Store(tmp_path / "store"), cluster.address)
    assert "my_models:Net: its source has changed" in str(error)


def test_code_that_cannot_be_shipped_is_refused(tmp_path: Path):
    cells = [measurement({"prompts.outliers.labels": lambda examples: examples.labels})]
    _, error = ray_run(cells, Store(tmp_path / "store"), "local")
    assert str(error).endswith("cannot be sent to other processes; put it into a module")
    assert not (tmp_path / "store").exists()


# Cells that fail.


def test_a_cell_that_kills_its_workers_is_tried_three_times_and_reported(
    mine: Callable[[str], list[Any]], cluster: Any, tmp_path: Path
):
    cells, store = mine("dies"), Store(tmp_path / "store")
    heard, error = ray_run(cells, store, cluster.address)
    assert isinstance(error, CellsFailedError)
    assert [failure.cell for failure in error.failures] == [cells[1].training]
    assert len(lines_of(tmp_path / "notes")) == 3
    assert [store.has(cell) for cell in cells] == [True, False, True]
    text = notices(heard)[-1].partition("its description is ")[2]
    assert TrainingCell.model_validate_json(text) == cells[1].training


def test_a_cells_own_error_is_not_tried_again(mine: Callable[[str], list[Any]], cluster: Any, tmp_path: Path):
    _, error = ray_run(mine("fails"), Store(tmp_path / "store"), cluster.address)
    assert "on purpose" in str(error)
    assert len(str(error).splitlines()) == 1
    assert len(lines_of(tmp_path / "notes")) == 1


def test_a_cell_that_takes_too_long_is_given_up(mine: Callable[[str], list[Any]], cluster: Any, tmp_path: Path):
    cells, store = mine("hangs"), Store(tmp_path / "store")
    started = time.monotonic()
    _, error = ray_run(cells, store, cluster.address, cell_timeout=12.0)
    assert time.monotonic() - started < 300
    assert isinstance(error, CellsFailedError)
    assert error.failures[0].reason == "it took longer than 12 s (cell_timeout)"
    assert [store.has(cell) for cell in cells] == [True, False, True]
    assert len(lines_of(tmp_path / "notes")) == 1


# No cluster.


def test_no_cluster_at_the_address(cli: Callable[..., Any], tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:  # listens, and says nothing
        port = server.getsockname()[1]
        silent = ray_cluster.CONNECT
        try:
            ray_cluster.CONNECT = 8.0
            assert "no Ray cluster answers" in refused(cli, tmp_path, "--ray", f"127.0.0.1:{port}")
        finally:
            ray_cluster.CONNECT = silent
    assert refused(cli, tmp_path, "--ray", f"127.0.0.1:{port}") == (
        f"ray = 127.0.0.1:{port}: no Ray cluster answers; `ray start --head` starts one"
    )
    assert "no Ray cluster answers" in refused(cli, tmp_path, "--ray", "no-such-host.invalid:6379")
