"""A disk that is full, turns read-only or vanishes in the middle of a run: one line, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import entries, error_cells, run_here, training

from iclab.config import InputError
from iclab.lab import Store, run
from iclab.lab.events import Finished
from iclab.lab.executors import jobs
from iclab.lab.executors.writers import Writers
from iclab.lab.upkeep import check

resource = pytest.importorskip("resource", reason="Windows has no limits on file sizes")
CELLS = error_cells(training(), 0.0, 0.2, 0.4, 0.6)


@pytest.fixture(autouse=True)
def stored_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cell waits until the last one is stored, so that a disk can turn bad between two of them."""
    store = Writers.store

    def store_and_wait(self: Writers, job: Any, write: Callable[[], None]) -> None:
        store(self, job, write)
        wait(self._writes[id(job)])

    monkeypatch.setattr(Writers, "store", store_and_wait)
    monkeypatch.setattr(jobs, "MOST", 1)


def after(many: int, action: Callable[[], object]) -> Callable[[Any], None]:
    """Return a listener that acts when so many cells are finished."""
    left = [many]

    def listen(event: Any) -> None:
        if isinstance(event, Finished):
            left[0] -= 1
            if left[0] == 0:
                action()

    return listen


def assert_one_line(store: Path, listen: Callable[[Any], None], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        run(CELLS, Store(store), workers=1, quiet=True, listeners=[listen])
    assert reason in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def assert_goes_on(store: Path, finished: int) -> None:
    """Cells that were being stored may be there too."""
    before = entries(store)
    assert finished <= len(before) < 5
    assert check(Store(store)).bad == {}
    assert len(run_here(CELLS, Store(store))) == 5 - len(before)
    assert {name: found for name, found in entries(store).items() if name in before} == before
    assert os.listdir(store / ".partial") == []


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """Return a function that sets the largest file the kernel lets this process write: it needs no privileges."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_files_that_the_system_refuses(tmp_path: Path, file_limit: Callable[[int], None]):
    store = tmp_path / "store"
    assert_one_line(store, after(2, lambda: file_limit(100)), "cannot be written")
    assert os.listdir(store / ".partial") == []
    file_limit(resource.RLIM_INFINITY)
    assert_goes_on(store, 2)


def test_a_store_that_vanishes(tmp_path: Path):
    store = tmp_path / "store"
    gone = tmp_path / "gone"
    assert_one_line(store, after(2, lambda: store.rename(gone)), "cannot be written (No such file or directory)")
    assert not store.exists()  # half a store would be refused by the next run
    assert len(run_here(CELLS, Store(store))) == 5


def test_a_store_that_turns_read_only_for_its_user(tmp_path: Path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the test with a file system of its own covers it")
    store = tmp_path / "store"
    folders = [store / ".partial", store / "measurement", store]

    def lock(mode: int) -> None:
        for folder in folders:
            folder.chmod(mode)

    assert_one_line(store, after(2, lambda: lock(0o555)), "cannot be written (Permission denied)")
    lock(0o755)
    assert_goes_on(store, 2)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system of its own can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(filler: Path) -> None:
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk(disk: Path):
    store, filler = disk / "store", disk / "filler"
    assert_one_line(store, after(2, lambda: fill(filler)), "No space left on device")
    assert os.listdir(store / ".partial") == []
    filler.unlink()
    assert_goes_on(store, 2)


def test_a_disk_that_turns_read_only(disk: Path):
    store = disk / "store"

    def remount(how: str) -> None:
        command = ["mount", "-o", f"remount,{how}", str(disk)]
        until = time.monotonic() + 10
        while subprocess.run(command, capture_output=True).returncode:  # while a file is being written
            assert time.monotonic() < until

    assert_one_line(store, after(2, lambda: remount("ro")), "cannot be written (Read-only file system)")
    remount("rw")
    for left in (store / ".partial").iterdir():  # it could not be deleted; a run of another process would do it now
        shutil.rmtree(left)
    assert_goes_on(store, 2)


def test_a_disk_that_is_full_from_the_start(disk: Path):
    fill(disk / "filler")
    assert_one_line(disk / "store", lambda event: None, "cannot be written (No space left on device)")
