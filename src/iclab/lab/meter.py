"""The meter of a cell: from an engine's progress calls to events."""

from __future__ import annotations

import time

from iclab.lab.events import Advanced, Finished, Kind, Listener, Notice

EVENT_EVERY = 0.2
"""Seconds between two `Advanced` events of a cell."""


class Meter:
    """Turns an engine's progress calls into the events of a cell."""

    def __init__(self, kind: Kind, prompts: int, listen: Listener, threads: int = 1) -> None:
        self._kind, self._left, self._listen, self._threads = kind, prompts, listen, threads
        self._pending = 0
        self._started = self._last = time.perf_counter()
        self._stopped: float | None = None

    def stop(self) -> float:
        """Stop the clock, and return the seconds since the cell was started."""
        self._stopped = time.perf_counter()
        return self._stopped - self._started

    def advance(self, prompts: int) -> None:
        """Count prompts; emit `Advanced` now and then."""
        self._pending += prompts
        now = time.perf_counter()
        if now - self._last > EVENT_EVERY:
            self._listen(Advanced(self._kind, self._pending, self._threads * (now - self._last)))
            self._left -= self._pending
            self._pending, self._last = 0, now

    def notice(self, text: str) -> None:
        """Pass a notice on."""
        self._listen(Notice(text))

    def finish(self) -> None:
        """Emit `Finished`, with whatever prompts were left, such as those of seeds that diverged."""
        seconds = self._threads * ((self._stopped or time.perf_counter()) - self._last)
        self._listen(Finished(self._kind, max(self._left, 0), seconds))
