"""Standard streams that are closed, full or broken: what is printed there is lost, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lossy:
    """A stream that drops what it cannot write, such as standard error after its reader has left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Give a program that was started without standard streams (``2>&-``) empty ones; drop errors of standard error."""
    _open_closed_ones()
    before = sys.stderr
    sys.stderr = Lossy(before)
    try:
        yield
    finally:
        try:
            before.flush()
        except OSError:  # else the interpreter would complain at its end
            to_nowhere(before)
        sys.stderr = before


def to_nowhere(stream: Any) -> None:
    """Let a stream go nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_closed_ones() -> None:
    """Open missing streams: else the next file takes their number, and what other code prints ends in that file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
            os.set_inheritable(nowhere, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the end)
