"""Shared by all tests: the command line in this process, users' modules, and one small run of a figure."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iclab.cli import main


def pytest_configure() -> None:
    """Give every test process one thread, before it imports torch: pytest-xdist has a process per core already."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of engines first.

    With two processes, one starts here and compiles the engines for float64; the other starts in the middle and compiles
    them for float32. In the usual order both would compile the same.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/engines/"))


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as exactly one JSON document; NaN and Infinity are not JSON."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def complaint(self) -> str:
        """The one line of a refusal, after checking that it is one and that nothing else was printed."""
        lines = self.err.splitlines()
        assert (self.code, self.out, len(lines)) == (2, "", 1), self
        assert lines[0].startswith("iclab: ")
        assert "Traceback" not in self.err
        return lines[0].removeprefix("iclab: ")


def run_cli(*words: object, show_warnings: bool = False) -> Said:
    """Run the command line in this process and leave no trace of it there."""
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if show_warnings:
            warnings.simplefilter("default")
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGTERM, handler)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def cli() -> Callable[..., Said]:
    """Return a function that runs ``iclab`` with the given words."""
    return run_cli


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return a function that writes NAME.py into the working directory, to be imported afresh."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written = []

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        written.append(name)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()

    yield write
    for name in written:
        sys.modules.pop(name, None)


@dataclass(frozen=True)
class FigureRun:
    """A finished run of M-fig2 in its smallest edition."""

    words: tuple[str, ...]
    store: Path
    out: Path
    said: Said


@pytest.fixture(scope="session")
def figure_run(tmp_path_factory: pytest.TempPathFactory) -> FigureRun:
    """Run M-fig2 with two seeds and next to no work. Tests must not write into its store."""
    folder = tmp_path_factory.mktemp("figure")
    settings = ("steps=20", "test_prompts=50", "outlier_fractions=[0.0,0.6]", "yardsticks=false")
    words = ("M-fig2", "--seeds", "2", *(word for setting in settings for word in ("--set", setting)))
    said = run_cli("run", *words, "--workers", 1, "--store", folder / "store", "--out", folder / "out", "--json")
    assert said.code == 0, said.err
    return FigureRun(words, folder / "store", folder / "out", said)


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes | None]]:
    """Return a function that lists everything below a directory, with the files' bytes."""

    def listing(path: Path) -> dict[str, bytes | None]:
        return {str(item.relative_to(path)): item.read_bytes() if item.is_file() else None for item in path.rglob("*")}

    return listing
