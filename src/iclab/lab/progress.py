"""The progress of a run on standard error: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from iclab.lab.events import Alive, Ended, Event, Notice, Started
from iclab.lab.forecast import Forecast

LINE_EVERY = 10.0
"""Seconds between two lines when standard error is not a terminal."""


class ProgressPrinter:
    """A listener that shows how much of a run is done and how long the rest will take.

    If ``quiet``, it shows notices only.
    """

    def __init__(
        self, title: str, forecast: Forecast, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title, self._forecast, self._quiet, self._clock = title, forecast, quiet, clock
        self._started = self._last_line = clock()
        self._bar: Progress | None = None
        self._where = ""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started():
                self._start()
            case Alive(nodes, workers):
                self._where = f" on {_count(nodes, 'node')} with {_count(workers, 'worker')}"
            case Notice(text):
                self._print(text)
            case Ended(how):
                self._end(how)
            case _ if self._bar:
                self._update(self._bar)
            case _ if not self._quiet and self._clock() - self._last_line > LINE_EVERY:
                self._last_line = self._clock()
                self._print(f"{self._title}: {self._percent()}, {self._cells()}, {self._left()}")

    def _start(self) -> None:
        self._started = self._last_line = self._clock()
        if self._quiet or sys.stderr is None or not sys.stderr.isatty():
            return
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[percent]}"),
            TextColumn("{task.fields[cells]}"),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.add_task(self._title, total=1.0, percent="", cells="", left="")
        self._update(self._bar)
        self._bar.start()

    def _update(self, bar: Progress) -> None:
        done = self._forecast.share
        bar.update(bar.task_ids[0], completed=done, percent=self._percent(), cells=self._cells(), left=self._left())

    def _end(self, how: str) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None
        if not self._quiet and how != "failed":
            self._print(f"{self._title}: {self._cells()} in {self._clock() - self._started:.1f} s")

    def _print(self, text: str) -> None:
        """Print a line without breaking the bar."""
        if self._bar:
            self._bar.console.print(text, highlight=False, markup=False)
        elif sys.stderr is not None:  # else, as in a service without one, `print` would take standard output
            print(text, file=sys.stderr, flush=True)

    def _percent(self) -> str:
        return f"{100 * self._forecast.share:.0f} %"

    def _cells(self) -> str:
        return f"{self._forecast.cells_done} of {self._forecast.cells} cells{self._where}"

    def _left(self) -> str:
        return f"about {duration(self._forecast.seconds_left)} left"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
