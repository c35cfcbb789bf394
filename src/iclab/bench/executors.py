"""``iclab bench --executors``: what the lab itself takes per cell, on this machine and on Ray (docs/cluster.md).

The sweep is like a phase diagram: every point has a training of its own and one measurement, and all are as small as
can be. The overhead of a cell is what all workers take for it, less what `train` and `measure` alone take for such a
cell in one process: the plan, the schedule, the way to the worker and back, the store, and waiting for any of these.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from iclab.engines import Training, train
from iclab.lab import LocalExecutor, MeasurementCell, RayExecutor, Store, TrainingCell, run
from iclab.lab.events import Event, Finished
from iclab.probes import measure

CELLS = 10_000
PROMPTS: dict[str, Any] = {
    "patterns": {"dimension": 10, "relevant": 3, "irrelevant": 2, "outlier": 3},
    "tasks": "ring:2",
    "context_length": 5,
}


class Overhead(NamedTuple):
    """What an executor takes beside the work of the cells. Only processor time means something on a busy machine."""

    executor: str
    """``local`` or ``ray``."""
    workers: int
    cells: int
    seconds: float | None
    """Of the whole run, but for the start of Ray."""
    milliseconds_per_cell: float | None
    """The overhead: clock time of all workers per cell, less the cell's own work."""
    processor_milliseconds: float | None
    """Processor time per cell: here, of all processes less the cell's own work; on Ray, of the driver alone."""
    memory: tuple[float, float] | None
    """Megabytes of this process after a tenth of the cells, and at the end."""
    reason: str = ""
    """Why there are no numbers."""


def sweep(cells: int) -> list[MeasurementCell]:
    """Return the measurements of a sweep of that many cells, trainings included."""
    made = []
    for number in range(cells // 2):
        recipe = {"steps": 1, "batch_size": 1, "step_size": 0.5}
        training = Training.model_validate(
            {"model": {"name": "mamba"}, "prompts": PROMPTS, "recipe": recipe, "basis_seed": number}
        )
        cell = TrainingCell(training=training)
        made.append(MeasurementCell(training=cell, probe="error", prompts=training.prompts, count=1))
    return made


def overheads(
    workers: int, tell: Callable[[str], None] = lambda text: None, cells: int = CELLS, ray: str = "local"
) -> list[dict[str, Any]]:
    """Time the same sweep on this machine and on a Ray cluster."""
    own = work_alone(sweep(400))
    found = []
    for name in ("local", "ray"):
        tell(f"{cells:,} small cells, {name} executor")
        if name == "ray" and importlib.util.find_spec("ray") is None:
            found.append(Overhead(name, workers, cells, None, None, None, None, "ray is not installed"))
            continue
        with ExitStack() as stack:
            local = name == "local"
            executor = LocalExecutor(workers) if local else stack.enter_context(RayExecutor(ray, workers))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iclab-bench-")))
            run(sweep(2 * workers), Store(folder / "warm"), executor=executor, quiet=True)  # starts and compiles
            found.append(_timed(name, executor, workers, sweep(cells), Store(folder / "store"), own))
    return [row._asdict() for row in found]


def work_alone(cells: list[MeasurementCell]) -> float:
    """Return the processor time of a cell's own work: half are trainings, half measurements."""
    started, warm = 0.0, len(cells) // 2
    for number, cell in enumerate(cells):
        if number == warm:
            started = time.process_time()
        trained = train(cell.training.training, cell.training.seeds)
        measure(trained, cell.probe, cell.prompts, cell.count, at=cell.at)
    return (time.process_time() - started) / (2 * (len(cells) - warm))


def _timed(name: str, executor: Any, workers: int, cells: list[MeasurementCell], store: Store, own: float) -> Overhead:
    done, early, many = 0, 0.0, 2 * len(cells)

    def listen(event: Event) -> None:
        nonlocal done, early
        done += isinstance(event, Finished)
        if done == many // 10:
            early = early or megabytes()

    started, before = time.perf_counter(), processor()
    run(cells, store, executor=executor, quiet=True, listeners=[listen])
    seconds, used = time.perf_counter() - started, processor() - before
    beside = 1000 * (seconds * workers / many - own)
    here = 1000 * (used / many - (own if name == "local" else 0.0))
    return Overhead(name, workers, many, seconds, beside, here, (early, megabytes()))


def processor() -> float:
    """Return the processor time of this process, and of worker processes that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def megabytes() -> float:
    """Return how much memory this process has now; where that cannot be told, its largest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
