"""An experiment: a pure function from settings to cells, and from stored rows to a figure and verdicts."""

from __future__ import annotations

import inspect
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from iclab.config import InputError, reason_of
from iclab.engines import Training
from iclab.lab import MeasurementCell, TrainingCell
from iclab.probes import Row
from iclab.study.charts import Chart
from iclab.study.claims import Claim
from iclab.study.plain import plain_chart, plain_table
from iclab.study.settings import Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Condition:
    """A cell, and the columns that name its rows in an experiment."""

    columns: Mapping[str, Any]
    cell: MeasurementCell
    below: int | None = None
    """Rows of seeds below this are used; by default, below the number of seeds that the settings ask for."""


def in_groups(
    settings: Settings, columns: Mapping[str, Any], training: Training, **measurement: Any
) -> list[Condition]:
    """Return one measurement of a training for every group of its seeds.

    ``measurement`` is what `MeasurementCell` takes: by default, the error on as many prompts like those of the training
    as ``settings.test_prompts`` says.
    """
    usual = {"probe": "error", "prompts": training.prompts, "count": settings.test_prompts}
    return [
        Condition(columns, MeasurementCell(training=cell, **usual | measurement))
        for cell in TrainingCell.groups(training, settings.seeds)
    ]


class Experiment(ABC, Generic[S]):
    """A figure or table: of a paper, or a user's own. It needs an ``id``, ``settings`` and ``conditions``.

    The catalog finds every subclass in `papers` and `beyond`, and users' own from outside the package.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    """By default the first line of the class's docstring."""
    paper: ClassVar[str] = ""
    """What the paper says the figure shows, or the question."""
    reading: ClassVar[str] = ""
    """How to read iclab's version, in two or three sentences."""
    caption: ClassVar[str] = "mean and 95 % interval"
    """What the numbers in the table are."""
    theorems: ClassVar[tuple[str, ...]] = ()
    """The ids of the theorems it bears on; `iclab.theory.statements` lists them all."""
    settings: type[S] = Settings  # type: ignore[assignment]
    folder: str = ""
    """The folder of experiments in which the catalog found it."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not hasattr(cls, "title"):
            cls.title = (inspect.getdoc(cls) or "").partition("\n")[0].rstrip(".") if cls.__doc__ else cls.__name__

    @abstractmethod
    def conditions(self, settings: S) -> list[Condition]:
        """Return every measurement the experiment needs."""

    def claims(self, settings: S) -> list[Claim]:
        """Return the paper's claims, made precise."""
        return []

    def chart(self, rows: list[Row], settings: S) -> Chart:
        """Return the figure, made from rows alone: a `Figure`, or an Altair chart.

        By default: the first measured number against the first column of numbers, one curve for all else.
        """
        return plain_chart(rows, self._columns(settings))

    def table(self, rows: list[Row], settings: S) -> list[dict[str, Any]]:
        """Return the table for people: one dictionary per line, all with the same keys.

        By default: one line per condition, with what was measured.
        """
        return plain_table(rows, self._columns(settings))

    def steps(self, rows: list[Row], settings: S) -> dict[str, Any] | None:
        """Return what a reader of the page can step through, example by example; None for most experiments.

        ``{"prompts": [{"name", "target", "tokens": [{"same", "outlier", "label", "true_label"}]}], "steps": [0, …],
        "models": [{"name", "colour", "views": [[{"attention", "gate", "vote"} lists, "output"] by step] by prompt}]}``
        Prompts of sentences also have their ``"query"``, the trigger as ``"mark"``, and tokens a ``"text"``.
        """
        return None

    def obstacle(self, settings: S) -> str:
        """Return what is missing on this machine to run it, such as an extra to install; empty for most experiments."""
        return ""

    def prepare(self, settings: S, tell: Callable[[str], None] = lambda text: None) -> None:
        """Make what its cells read, such as vectors of sentences; most experiments need nothing.

        This is called before cells are computed, and ``tell`` with what is going on.
        """

    def _columns(self, settings: S) -> list[str]:
        """The columns that name the rows of a condition."""
        return list(dict.fromkeys(name for condition in self.conditions(settings) for name in condition.columns))

    @property
    def own(self) -> bool:
        """Whether it is a user's own, from outside the package."""
        return not type(self).__module__.startswith("iclab.")

    @property
    def address(self) -> str:
        """What `iclab run` calls it: its id, or where a user's own can be imported from."""
        return f"{type(self).__module__}:{type(self).__qualname__}" if self.own else self.id

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Turn what a user's own experiment raises in a ``with`` block into one line."""
        try:
            yield
        except (InputError, ValidationError):
            raise
        except (Exception, SystemExit) as error:  # a user's code may raise anything
            if not self.own:
                raise
            raise InputError(f"{self.id}: its {what} cannot be made ({self._told(error)})") from error

    def _told(self, error: BaseException) -> str:
        """Describe an error in one line, with the line of the user's file that it comes from."""
        reason = reason_of(error)
        try:
            file = inspect.getsourcefile(type(self))
        except (OSError, TypeError):
            return reason
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        return f"{reason}; {Path(file or '').name}, line {lines[-1]}" if lines else reason
