"""Standard streams that are closed, full, or have lost their reader: no traceback, and no result lost."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iclab.cli import main
from iclab.cli.streams import Lossy
from iclab.lab.events import Ended, Notice, Started
from iclab.lab.forecast import Forecast
from iclab.lab.progress import ProgressPrinter

TRAIN = "train --model mamba --steps 2 --seeds 1 --test-prompts 5 --json --store store"
STREAMS = {
    "no standard error": ("2>&-", 0),
    "no stream at all": ("<&- >&- 2>&-", 0),
    "standard output leads nowhere": (">&-", 0),
    "standard error is full": ("2>/dev/full", 0),
    "standard output is full": (">/dev/full", 2),
    "nobody reads": ("2>&1 | true; exit ${PIPESTATUS[0]}", 0),
}


class Broken(io.StringIO):
    """A stream whose reader has left, or that is on a full disk."""

    def __init__(self, error: type[OSError] = OSError, number: int = 28, words: str = "No space left on device"):
        super().__init__()
        self.error = error(number, words)

    def write(self, text: str) -> int:
        raise self.error

    def fileno(self) -> int:
        return self.file.fileno()


@pytest.fixture
def broken(tmp_path: Path) -> Any:
    with (tmp_path / "stream").open("w") as file:
        stream = Broken()
        stream.file = file
        yield stream


@pytest.mark.slow
@pytest.mark.parametrize(
    "how, code",
    [
        pytest.param(*case, id=id_, marks=[pytest.mark.nightly] if n else [])
        for n, (id_, case) in enumerate(STREAMS.items())
    ],
)
def test_no_traceback_and_the_work_is_done(how: str, code: int, tmp_path: Path):
    command = f"{sys.executable} -m iclab {TRAIN} {how}"
    said = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == code, said
    assert "Traceback" not in said.stderr
    assert len(said.stderr.splitlines()) <= 2
    assert len(list((tmp_path / "store").glob("*/*/entry.json"))) == 2
    if how == "2>&-":
        assert said.stdout.startswith('{"model": "mamba"')
        assert said.stdout.count("\n") == 1  # what goes to standard error does not end up here


def test_progress_without_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stderr", None)
    show = ProgressPrinter("test", Forecast([], {}, lambda place: 1))
    for event in (Started(), Notice("something"), Ended("done")):
        show(event)
    assert capsys.readouterr().out == ""


def test_what_standard_error_cannot_take_is_lost(broken: Broken):
    stream = Lossy(broken)
    print("something", file=stream, flush=True)
    broken.flush = lambda: broken.write("")  # type: ignore[method-assign]
    stream.flush()
    assert stream.isatty() is False


def test_a_full_standard_output_is_one_line(broken: Broken, capsys: pytest.CaptureFixture[str]):
    with contextlib.redirect_stdout(broken):
        assert main(["experiments", "M-fig2", "--json"]) == 2
    assert capsys.readouterr().err == (
        "iclab: a file or standard output: cannot be read or written (No space left on device)\n"
    )


def test_a_reader_that_has_left_is_no_error(broken: Broken, capsys: pytest.CaptureFixture[str]):
    broken.error = BrokenPipeError(32, "Broken pipe")
    with contextlib.redirect_stdout(broken):
        assert main(["experiments", "M-fig2"]) == 0
        assert main(["experiments", "M-fig2", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_stream_that_is_missing_is_nowhere(monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["experiments", "nothing of the kind"]) == 2
    assert main(["experiments", "M-fig2"]) == 0
    sys.stdout.close()
    sys.stderr.close()
