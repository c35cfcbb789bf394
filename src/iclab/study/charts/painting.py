"""The files of charts: drawn by another process while this one goes on, and only if the chart has changed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from iclab.config import InputError
from iclab.study.charts import painter
from iclab.study.charts.figure import Chart


class Painter:
    """Draws charts in another process, which starts with the first one or when it is told to be `ready`.

    Files are complete when `wait` has returned; leaving the context waits too.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._asking = ThreadPoolExecutor(1)  # so that nobody waits for the process to read
        self._asked: list[Future[None]] = []

    def ready(self) -> None:
        """Start the process."""
        if self._process is None:
            command = [sys.executable, "-P", painter.__file__]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
            self._process = subprocess.Popen(command, start_new_session=True, **pipes)  # Ctrl-C is for this one

    def paint(self, chart: Chart, stem: Path) -> None:
        """Draw a chart as ``stem``.svg, .png and .pdf, unless these are there and of the same chart."""
        spec, stem = chart.to_dict(), stem.absolute()
        text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
        hash_ = hashlib.sha256(f"{text} {painter.FINER} {version('vl-convert-python')}".encode()).hexdigest()
        if _drawn(stem) == {"chart": hash_, **_hashes(stem)}:
            return
        record_of(stem).unlink(missing_ok=True)
        self.ready()
        self._asked.append(self._asking.submit(self._ask, spec, stem, hash_))

    def _ask(self, spec: dict[str, Any], stem: Path, hash_: str) -> None:
        """Have a chart drawn; refuse one that cannot be."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"spec": spec, "stem": str(stem)}) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if problem := json.loads(answer) if answer else "the process that draws has died":
            raise InputError(f"{stem.name}: cannot be drawn ({problem})")
        record_of(stem).write_text(json.dumps({"chart": hash_, **_hashes(stem)}) + "\n", "utf-8")

    def wait(self) -> None:
        """Wait until all files are written; raise what went wrong."""
        while self._asked:
            self._asked.pop(0).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            if self._process is not None and self._asked:
                self._process.kill()
            self._asking.shutdown(cancel_futures=True)
            if self._process is not None:
                self._process.communicate()  # it ends when there is nothing more to read


def record_of(stem: Path) -> Path:
    """Return the file, beside those of a chart, that says what was drawn: hashes of the chart and of its files."""
    return stem.parent / f".{stem.name}.drawn.json"


def _drawn(stem: Path) -> dict[str, str]:
    try:
        found = json.loads(record_of(stem).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _hashes(stem: Path) -> dict[str, str]:
    """Return the hashes of the files that are there."""
    files = {kind: Path(f"{stem}.{kind}") for kind in painter.KINDS}
    return {kind: hashlib.sha256(file.read_bytes()).hexdigest() for kind, file in files.items() if file.is_file()}
