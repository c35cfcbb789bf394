"""A worker process on this machine: it takes jobs, stores their cells, and sends their events.

Workers are spawned, not forked, because torch's threads do not survive a fork. They ignore Ctrl-C, which the main
process turns into a request to stop, and they exit when the main process dies.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_handles
from typing import Any

from iclab.config import OutsideTheoremWarning
from iclab.lab import memory
from iclab.lab.cells import Cell
from iclab.lab.events import Advanced, Event, Finished, Kind, Listener
from iclab.lab.executors.jobs import Later, StopRequested, run_job
from iclab.lab.store import Store


class WorkerDiedError(Exception):
    """A worker process ended before its job did."""

    def __init__(self, how: str, memory: bool, started: bool) -> None:
        super().__init__(how)
        self.memory, self.started = memory, started
        """Whether the machine ran out of memory; whether the process had started to work."""


class WorkerProcess:
    """A process that runs one job at a time. Its start takes seconds, but nobody waits for it before the first job."""

    def __init__(self, store: Store, listen: Listener) -> None:
        self._path, self._listen = str(store.path), listen
        self._context = context = _Spawning()
        self._kills = memory.kills()
        self._finished = 0
        self._events, events = context.Pipe(duplex=False)
        stop, self._stop = context.Pipe(duplex=False)
        self._fault: Exception | None = None
        self._pool = ProcessPoolExecutor(1, context, initializer=_start_worker, initargs=(events, stop))
        with _interrupts_blocked():  # the worker inherits this
            self._started = self._pool.submit(_nothing)
        events.close()
        stop.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def run(self, cells: Sequence[Cell], limit: float | None = None) -> None:
        """Run a job; return when it is done. Raise `WorkerDiedError` if the process dies."""
        self._finished = 0
        try:
            self._pool.submit(_job, self._path, list(cells), limit).result()
        except BrokenProcessPool:
            self._reader.join()  # until it has handed on every event that was sent
            self._finish_stored(cells)
            raise self._death() from None
        if self._fault:
            raise self._fault

    def _finish_stored(self, cells: Sequence[Cell]) -> None:
        """Emit `Finished` for a cell that is stored, but whose process died before it could say so."""
        for cell in cells[self._finished :]:
            if Store(self._path).has(cell):
                self._listen(Finished(Kind.of(cell), 0, 0.0))

    def _death(self) -> WorkerDiedError:
        process = self._context.process
        process.join(10)
        code = process.exitcode or 0
        killed = code == -signal.SIGKILL
        kills = memory.kills()
        short = killed and (kills is None or self._kills is None or kills > self._kills)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        started = self._started.done() and self._started.exception() is None
        return WorkerDiedError(f"{how} (out of memory)" if short else how, short, started)

    def _read(self) -> None:
        """Hand events to the listener until the process ends."""
        try:
            while True:
                event = self._events.recv()
                self._finished += isinstance(event, Finished)
                self._listen(event)
        except (EOFError, OSError):
            pass
        except Exception as error:  # of the listener
            self._fault = error
            self.stop()

    def stop(self) -> None:
        """Ask it to end the job it runs. If it is still starting, which takes long, nobody waits for that."""
        self._stop.close()
        if not self._started.done():
            self._context.process.kill()

    def close(self) -> None:
        """Wait for it to end, and for its last events."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.join()
        self._events.close()


class _Spawned(multiprocessing.context.SpawnProcess):
    """A process that does not run the user's script again: no job needs it, and few scripts are written for that."""

    def start(self) -> None:
        """Start the process while ``__main__`` looks empty, so that it imports none."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Spawning(multiprocessing.context.SpawnContext):
    process: _Spawned
    """The last one that was made."""

    def Process(self, *args: Any, **kwargs: Any) -> _Spawned:  # type: ignore[override]  # noqa: N802 (multiprocessing's)
        """Return a process, not started yet."""
        self.process = _Spawned(*args, **kwargs)
        return self.process


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread for a moment: a process that it starts inherits that, whichever thread this is."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker process.

_events: Connection
_sending = threading.Lock()
_stopped = threading.Event()


def _start_worker(events: Connection, stop: Connection) -> None:
    global _events
    _events = events
    warnings.simplefilter("ignore", OutsideTheoremWarning)  # the main process has shown it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(os._exit, 0)  # to take torch apart again would take half a second, which the main process waits for
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        if stop in wait_for_handles([parent.sentinel, stop]):  # the other end is closed
            _stopped.set()
        wait_for_handles([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _nothing() -> None:
    """Do nothing: the first job starts the process."""


def _job(path: str, cells: list[Cell], limit: float | None) -> None:
    with ThreadPoolExecutor(1) as writer:  # it waits for the disk while the next cells are computed
        writes: list[Future[None]] = []
        later: Later = lambda write: writes.append(writer.submit(write))  # noqa: E731
        run_job(cells, Store(path), _send, limit=limit, later=later)
    for write in writes:
        write.result()


def _send(event: Event) -> None:
    if isinstance(event, Advanced) and _stopped.is_set():
        raise StopRequested
    with _sending:
        _events.send(event)
