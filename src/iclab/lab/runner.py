"""A run: plan, schedule, check, execute."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from iclab.config import InputError
from iclab.engines import check
from iclab.lab import costs, needs
from iclab.lab.cells import Cell, MeasurementCell
from iclab.lab.events import Listener, Notice, announced
from iclab.lab.executors import Executor, LocalExecutor
from iclab.lab.forecast import Forecast
from iclab.lab.plan import Plan
from iclab.lab.progress import ProgressPrinter
from iclab.lab.store import Store
from iclab.lab.upkeep import ReadingStore
from iclab.prompts import Prompts


def run(
    cells: Iterable[Cell],
    store: Store,
    *,
    workers: int | None = None,
    title: str = "iclab",
    quiet: bool = False,
    executor: Executor | None = None,
    listeners: Iterable[Listener] = (),
    records: Iterable[dict[str, Any]] = (),
) -> Plan:
    """Compute every missing cell into the store; return what was missing.

    Each finished cell is stored at once. After an interruption, the same call continues with what is still missing.

    Args:
        cells: the measurements and trainings to have; trainings of measurements are run as needed.
        store: where finished cells are kept.
        workers: how many cores the local executor uses; by default all.
        title: what to call the run in its progress line.
        quiet: show no progress.
        executor: what computes the cells; by default `LocalExecutor`.
        listeners: called with every event of the run.
        records: what the store is to remember of the request, once it is accepted.
    """
    executor = executor or LocalExecutor(workers)
    cells = list({cell.hash: cell for cell in cells}.values())
    bad = _set_bad_ones_aside(cells, store)
    plan = Plan.of(cells, store)
    if not plan:
        with contextlib.suppress(InputError):  # a store that has everything may be one that cannot be written
            store.keep(records)
        return plan
    rates = costs.load(store.path)
    schedule = executor.schedule(plan, costs.expected(rates))
    needs.check(schedule, store.path, costs.expected(rates))
    _check(plan)
    store.open_for_writing()
    store.keep(records)
    forecast = Forecast.of(schedule, rates)
    try:
        with announced(forecast, ProgressPrinter(title, forecast, quiet), *listeners) as listen:
            for notice in bad:
                listen(notice)
            executor.execute(schedule, store, listen)
    finally:
        costs.save(store.path, forecast.rates())
    return plan


def _set_bad_ones_aside(cells: Iterable[Cell], store: Store) -> list[Notice]:
    """Move bad entries of the rows that are asked for aside, so that they are computed again; return what to say.

    Weights are checked when they are read.
    """
    reading, notices = ReadingStore(store.path), []
    for cell in cells:
        if isinstance(cell, MeasurementCell):
            reading.has(cell)
    for entry in reading.bad:
        store.set_aside(entry)
        notices.append(Notice(f"{entry}: is corrupted; it is moved aside and computed again"))
    return notices


def _check(plan: Plan) -> None:
    """Refuse a model that cannot be trained, or not be tested as planned, before anything is written."""
    trainings = {cell.training.digest(): cell.training for cell in plan.trainings.values()}
    tests: dict[str, list[Prompts]] = {name: [] for name in trainings}
    for hash_, cell in plan.trainings.items():
        tests[cell.training.digest()] += [measurement.prompts for measurement in plan.measurements[hash_]]
    for name, training in trainings.items():
        check(training, tests[name] or [training.prompts])  # a training alone will be measured later
