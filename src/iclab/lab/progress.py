"""Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

QUIET_LINE_EVERY = 10.0
"""Seconds between two lines when standard error is not a terminal."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_rate(task.speed or 0.0))


def _rate(prompts_per_second: float) -> str:
    if prompts_per_second < 1e5:
        return f"{prompts_per_second / 1e3:.1f} k prompts/s"
    return f"{prompts_per_second / 1e6:.2f} M prompts/s"


class Watch:
    """Shows how many cells and prompts are done, how fast, and how long it will take.

    Does nothing when there is no work, so that redrawing from a full store stays silent.
    """

    def __init__(self, title: str, cells: int, prompts: int, quiet: bool = False) -> None:
        self.title, self.cells, self.prompts = title, cells, prompts
        self.done_cells = self.done_prompts = 0
        self._started = self._last_line = time.monotonic()
        self._shown = bool(cells) and not quiet
        self._bar: Progress | None = None
        if self._shown and sys.stderr.isatty():
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:3.0f} %"),
                TextColumn("{task.fields[cells]}"),
                _Rate(),
                TimeRemainingColumn(compact=True),
                console=Console(stderr=True),
                transient=True,
                speed_estimate_period=10.0,
            )
            self._task = self._bar.add_task(title, total=max(prompts, 1), cells=self._cells())

    def __enter__(self) -> Watch:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if self._shown and kind in (None, KeyboardInterrupt):
            seconds = time.monotonic() - self._started
            self.tell(
                f"{self.title}: {self.done_cells} of {self.cells} cells in {seconds:.1f} s, "
                f"{_rate(self.done_prompts / max(seconds, 1e-9))}"
            )

    def _cells(self) -> str:
        return f"{self.done_cells}/{self.cells} cells"

    def tell(self, text: str) -> None:
        """Print a line without breaking the bar."""
        if self._bar:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def advance(self, prompts: int = 0, cells: int = 0) -> None:
        """Count finished work."""
        self.done_prompts += prompts
        self.done_cells += cells
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, advance=prompts, cells=self._cells())
        elif self._shown and now - self._last_line > QUIET_LINE_EVERY:
            self._last_line = now
            seconds = now - self._started
            left = seconds * (self.prompts / max(self.done_prompts, 1) - 1)
            share = 100 * self.done_prompts / max(self.prompts, 1)
            rate = _rate(self.done_prompts / seconds)
            guess = f", about {max(left, 0):.0f} s left" if self.done_cells else ""  # too early to tell before
            self.tell(f"{self.title}: {share:.0f} %, {self._cells()}, {rate}{guess}")
