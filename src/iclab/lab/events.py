"""What happens during a run, as events. Executors emit them; the forecast and the progress bar listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from iclab.lab.cells import Cell, TrainingCell


class Kind(NamedTuple):
    """Cells of one kind take about the same time per prompt."""

    work: str
    """``training``, or the name of a probe."""
    model: str
    engine: str

    @classmethod
    def of(cls, cell: Cell) -> Kind:
        """Return the kind of a cell."""
        work, group = ("training", cell) if isinstance(cell, TrainingCell) else (cell.probe, cell.training)
        return cls(work, group.training.model.label, group.training.engine)


@dataclass(frozen=True)
class Started:
    """The run begins."""


@dataclass(frozen=True)
class Advanced:
    """Part of a cell is done."""

    kind: Kind
    prompts: int
    """Prompts since the cell's previous event."""
    seconds: float
    """Seconds of all its threads since the cell's previous event."""


@dataclass(frozen=True)
class Finished:
    """A cell is done and stored."""

    kind: Kind
    prompts: int
    """Prompts since the cell's previous event; all events of a cell add up to its ``work``."""
    seconds: float
    """Seconds of all its threads since the cell's previous event."""


@dataclass(frozen=True)
class Alive:
    """What there is to compute with, if that may change during the run."""

    nodes: int
    workers: int


@dataclass(frozen=True)
class Notice:
    """Something the user should know."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The run is over."""

    how: Literal["done", "interrupted", "failed"]


Event = Started | Advanced | Finished | Alive | Notice | Ended
Listener = Callable[[Event], None]


@contextmanager
def announced(*listeners: Listener) -> Iterator[Listener]:
    """Emit `Started` and `Ended` around a run; yield the listener to report to in between.

    A notice that was given before, such as by another group of seeds, is dropped.
    """
    notices: set[str] = set()

    def listen(event: Event) -> None:
        if isinstance(event, Notice):
            if event.text in notices:
                return
            notices.add(event.text)
        for listener in listeners:
            listener(event)

    how: Literal["done", "interrupted", "failed"] = "failed"
    listen(Started())
    try:
        yield listen
        how = "done"
    except KeyboardInterrupt:
        how = "interrupted"
        raise
    finally:
        listen(Ended(how))
