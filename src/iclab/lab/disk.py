"""How entries come onto the disk for good: written under another name, synced, and then renamed, many at a time.

To sync a file is to wait for the disk. The disk serves many such requests at once in little more time than one, so
that they are made in threads.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

THREADS = 16
FEW = 5
"""Files that are not worth threads: those of one entry."""

Fill = Callable[[Path], object]
"""Writes a file or a folder at a path."""


class Written:
    """Entries that are written, but have not got their names yet.

    Args:
        entries: what writes each entry, by its path: a folder of files, or a file.
        place: returns where to write something, on the same disk.
        lasting: whether to wait for the disk.
    """

    def __init__(self, entries: Mapping[Path, Fill], place: Callable[[str], Path], lasting: bool = True) -> None:
        self._lasting = lasting
        self._left: dict[Path, Path] = {}
        """Where entries are that have no name yet, by their names."""
        try:
            for final, fill in entries.items():
                self._left[final] = temporary = place(f"{next(_NUMBERS)}-{final.name}")
                fill(temporary)
        except BaseException:  # Ctrl-C too
            self._clear()
            raise

    def publish(self) -> None:
        """Give each entry its name, once all of it is on the disk."""
        folders = {final.parent for final in self._left}
        try:
            if self._lasting:
                sync([path for temporary in self._left.values() for path in _all(temporary)])
            for final, temporary in list(self._left.items()):
                if _rename(temporary, final):
                    del self._left[final]
            if self._lasting:
                sync(folders)
        finally:
            self._clear()

    def _clear(self) -> None:
        for temporary in self._left.values():
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)


_NUMBERS = itertools.count()
"""Threads of this process may store the same cell at the same time, each in a folder of its own."""


def _all(path: Path) -> list[Path]:
    """Return a file, or a folder and its files; the folder comes last."""
    return [*path.iterdir(), path] if path.is_dir() else [path]


def _rename(temporary: Path, final: Path) -> bool:
    """Give something its name, unless another run has finished the same first: then that one stays."""
    try:
        temporary.rename(final)
    except OSError:
        if not final.is_dir():
            raise
        return False
    return True


def sync(paths: Iterable[Path]) -> None:
    """Wait until files and folders are on the disk."""
    listed = list(paths)
    if len(listed) < FEW:
        _sync_all(listed)
        return
    shares = [listed[first::THREADS] for first in range(min(THREADS, len(listed)))]
    with ThreadPoolExecutor(len(shares), thread_name_prefix="iclab-sync") as threads:
        for _ in threads.map(_sync_all, shares):
            pass  # raises what went wrong


def _sync_all(paths: Iterable[Path]) -> None:
    for path in paths:
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def writer() -> str:
    """Return the name of this process among those that write into a store."""
    return f"{socket.gethostname().replace('-', '_')}-{os.getpid()}"


def writer_lives(name: str) -> bool:
    """Return whether the writer of an unfinished entry may still run; on other machines nobody can tell."""
    host, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if host != writer().partition("-")[0] or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
