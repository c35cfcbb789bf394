"""The work of a job on a node of a Ray cluster.

A worker has a store of its own in a temporary folder, with the weights that the job needs. It runs the job as a worker
process on this machine would, and sends what happens back, a parcel at a time: events, and finished entries as bytes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import queue
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from iclab._version import __version__
from iclab.config import InputError, OutsideTheoremWarning, explain
from iclab.lab.cells import Described, read_cell
from iclab.lab.events import Event, Finished
from iclab.lab.executors.jobs import run_job
from iclab.lab.store import Entry, Store

SEND_EVERY = 0.2
"""Seconds between two parcels, so that many small cells share one."""
LAST_WORDS = 2.0
"""Seconds that a worker whose cell takes too long has to send this to the driver, before it ends itself.

The driver could end it, but `ray.cancel` of a task that ends by itself at that moment crashes the driver. If the words
are lost, the driver takes the worker for dead and has the cell tried again.
"""


@dataclass(frozen=True)
class Failed:
    """A job cannot go on, and would fail again."""

    reason: str
    bug: bool = False
    """Whether it is a fault of the program, and ``reason`` a traceback."""


@dataclass(frozen=True)
class OverTime:
    """The cell that runs takes longer than allowed; the worker is about to end itself."""


Parcel = list[Event | Entry | Failed | OverTime]


class Order(NamedTuple):
    """A job as it travels."""

    cells: list[Described]
    versions: dict[str, str]
    """Of the driver."""
    limit: float | None
    """Seconds that a cell may take."""


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions that results may depend on; iclab's is that of its source."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    others = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "numba")}
    return {"iclab": f"{__version__} (source {digest.hexdigest()[:8]})", **others}


def installed() -> dict[str, str]:
    """Return `versions` of a node, when a task calls this there."""
    return versions()


def difference(asked: dict[str, str], found: dict[str, str]) -> str:
    """Return what is wrong with the versions on a node; nothing if they are the driver's."""
    wrong = [f"{name} {found.get(name)}, but here is {asked[name]}" for name in asked if found.get(name) != asked[name]]
    return f"has {' and '.join(wrong)}; results may differ, so install the same on all nodes" if wrong else ""


def work(order: Order, *weights: Parcel) -> Iterator[Parcel]:
    """Run a job and yield parcels; ``weights`` have the entries of trainings that it needs."""
    if wrong := difference(order.versions, versions()):
        yield [Failed(f"a node {wrong}")]
        return
    items: queue.Queue[Parcel | None] = queue.Queue()
    started = time.monotonic()
    threading.Thread(target=_run, args=(order, weights, items), daemon=True).start()
    ended = False
    while not ended:
        parcel: Parcel = []
        until = time.monotonic() + SEND_EVERY
        while (left := until - time.monotonic()) > 0:
            try:
                more = items.get(timeout=left)
            except queue.Empty:
                break
            if more is None:
                ended = True
                break
            if isinstance(more[-1], Finished):
                started = time.monotonic()
            parcel += more
        if not ended and order.limit is not None and time.monotonic() - started > order.limit:
            yield [*parcel, OverTime()]
            time.sleep(LAST_WORDS)
            os._exit(1)
        if parcel:
            yield parcel


def _run(order: Order, weights: tuple[Parcel, ...], items: queue.Queue[Parcel | None]) -> None:
    """Run a job in a thread of its own, so that another one can send parcels and watch the time."""
    from threadpoolctl import threadpool_limits

    from iclab.threads import one_thread

    try:
        with tempfile.TemporaryDirectory(prefix="iclab-ray-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoremWarning)  # the driver has shown it
            cells = [read_cell(cell) for cell in order.cells]
            store, waiting = Store(folder, lasting=False).open_for_writing(), iter(cells)
            store.put(item for parcel in weights for item in parcel if isinstance(item, Entry))

            def listen(event: Event) -> None:
                entries = [store.pack(next(waiting))] if isinstance(event, Finished) else []
                items.put([*entries, event])

            with threadpool_limits(1), one_thread():
                run_job(cells, store, listen, every=0.0)  # no disk to wait for, and each end starts the next time limit
    except ValidationError as error:
        items.put([Failed(explain(error))])
    except InputError as error:
        items.put([Failed(str(error))])
    except BaseException:  # of any kind: the driver is to hear of it
        items.put([Failed(traceback.format_exc(), bug=True)])
    finally:
        items.put(None)
