"""Threads that store finished cells while others are computed.

To store a cell is to wait for the disk, several times. One after another, this would be most of the time of a sweep
of small cells; the disk serves many such requests at once in little more time than one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from iclab.lab.schedule import Job

THREADS = 16
MOST = 64
"""Cells, or parcels of them, that wait to be stored; who comes with more waits too."""


class Writers:
    """Stores what jobs have finished. A job is done when it has ended and all of it is stored."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """Start; ``changed`` is called whenever something is stored."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="iclab-store")
        self._room = threading.BoundedSemaphore(MOST)
        self._changed = changed
        self._lock = threading.Lock()
        self._writes: dict[int, list[Future[None]]] = {}
        self._ended: list[Job] = []

    def store(self, job: Job, write: Callable[[], None]) -> None:
        """Call a function that stores something of a job, in another thread."""
        self._room.acquire()
        future = self._pool.submit(write)
        with self._lock:
            self._writes.setdefault(id(job), []).append(future)
        future.add_done_callback(self._written)

    def _written(self, future: Future[None]) -> None:
        self._room.release()
        self._changed()

    def end(self, job: Job) -> None:
        """Take note that nothing more comes from a job."""
        with self._lock:
            self._ended.append(job)

    def done(self) -> list[Job]:
        """Return each job once that has ended and is stored; raise what went wrong when it was."""
        with self._lock:
            over = [job for job in self._ended if all(write.done() for write in self._writes.get(id(job), ()))]
            self._ended = [job for job in self._ended if not any(job is other for other in over)]
            writes = [write for job in over for write in self._writes.pop(id(job), ())]
        for write in writes:
            write.result()
        return over

    @property
    def busy(self) -> bool:
        """Whether jobs have ended that are not stored yet."""
        return bool(self._ended)

    def wait(self, job: Job) -> None:
        """Wait until what came from a job is stored, and forget the job."""
        with self._lock:
            writes = self._writes.pop(id(job), [])
        wait(writes)
        for write in writes:
            write.result()

    def close(self) -> None:
        """Store what waits, and end the threads."""
        self._pool.shutdown(wait=True)
