"""The work of one cell, in whichever process it runs: compute, store, emit events."""

from __future__ import annotations

from iclab.engines import Trained, train
from iclab.lab.cells import MeasurementCell, TrainingCell
from iclab.lab.events import Kind, Listener
from iclab.lab.meter import Meter
from iclab.lab.store import Store
from iclab.probes import measure


def train_cell(cell: TrainingCell, store: Store, listen: Listener, threads: int = 1) -> Trained:
    """Train a group of seeds and store the weights."""
    meter = Meter(Kind.of(cell), cell.work, listen)
    trained = train(cell.training, cell.seeds, meter.advance, meter.notice, threads)
    store.save_training(cell, trained, meter.seconds)
    meter.finish()
    return trained


def measure_cell(cell: MeasurementCell, trained: Trained, store: Store, listen: Listener, threads: int = 1) -> None:
    """Measure trained seeds and store the rows."""
    meter = Meter(Kind.of(cell), cell.work, listen)
    rows = measure(
        trained,
        cell.probe,
        cell.prompts,
        cell.count,
        at=cell.at,
        draw=cell.draw,
        pruning=cell.pruning,
        advance=meter.advance,
        threads=threads,
    )
    store.save_rows(cell, rows, meter.seconds)
    meter.finish()
