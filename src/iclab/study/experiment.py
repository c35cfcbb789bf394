"""An experiment: a pure function from settings to cells, and from stored rows to a figure and verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from iclab.engines import Training
from iclab.lab import MeasurementCell, TrainingCell
from iclab.probes import Row
from iclab.study.charts import Chart
from iclab.study.claims import Claim
from iclab.study.settings import Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Condition:
    """A cell, and the columns that name its rows in an experiment."""

    columns: Mapping[str, Any]
    cell: MeasurementCell


def in_groups(
    settings: Settings, columns: Mapping[str, Any], training: Training, **measurement: Any
) -> list[Condition]:
    """Return one measurement of a training for every group of its seeds."""
    return [
        Condition(columns, MeasurementCell(training=cell, **measurement))
        for cell in TrainingCell.groups(training, settings.seeds)
    ]


class Experiment(ABC, Generic[S]):
    """A figure or table of a paper. The catalog finds every subclass in `papers` and `beyond` by its ``id``."""

    id: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """What the paper says the figure shows."""
    reading: ClassVar[str]
    """How to read iclab's version, in two or three sentences."""
    caption: ClassVar[str] = "mean and 95 % interval"
    """What the numbers in the table are."""
    theorems: ClassVar[tuple[str, ...]] = ()
    """The ids of the theorems it bears on; `iclab.theory.statements` lists them all."""
    settings: type[S]

    @abstractmethod
    def conditions(self, settings: S) -> list[Condition]:
        """Return every measurement the experiment needs."""

    @abstractmethod
    def claims(self, settings: S) -> list[Claim]:
        """Return the paper's claims, made precise."""

    @abstractmethod
    def chart(self, rows: list[Row], settings: S) -> Chart:
        """Return the figure, made from rows alone: a `Figure`, or an Altair chart."""

    @abstractmethod
    def table(self, rows: list[Row], settings: S) -> list[dict[str, Any]]:
        """Return the table for people: one dictionary per line, all with the same keys."""

    def steps(self, rows: list[Row], settings: S) -> dict[str, Any] | None:
        """Return what a reader of the page can step through, example by example; None for most experiments.

        ``{"prompts": [{"name", "target", "tokens": [{"same", "outlier", "label", "true_label"}]}], "steps": [0, …],
        "models": [{"name", "colour", "views": [[{"attention", "gate", "vote"} lists, "output"] by step] by prompt}]}``
        """
        return None
