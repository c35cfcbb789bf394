"""What an experiment is: a pure function from settings to cells, and from stored rows to a figure and verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from iclab.engines import Training
from iclab.lab import MeasurementCell, Store, TrainingCell
from iclab.probes import Row
from iclab.study.charts import Figure
from iclab.study.claims import Claim
from iclab.study.settings import Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Condition:
    """A cell, and the columns by which its rows are known in this experiment."""

    columns: Mapping[str, Any]
    cell: MeasurementCell


def in_groups(
    settings: Settings, columns: Mapping[str, Any], training: Training, **measurement: Any
) -> list[Condition]:
    """One measurement of one training, for every group of seeds there is to be."""
    return [
        Condition(columns, MeasurementCell(training=cell, **measurement))
        for cell in TrainingCell.groups(training, settings.seeds)
    ]


class Experiment(ABC, Generic[S]):
    """A figure or table of a paper. Subclass it in a file of this package and it is found by its ``id``."""

    id: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """What the paper says the figure shows."""
    reading: ClassVar[str]
    """How to read our version, in two or three sentences."""
    caption: ClassVar[str] = "mean and 95 % interval"
    """What the numbers of the table are."""
    theorems: ClassVar[tuple[str, ...]] = ()
    """The statements it bears on, by id; `iclab.papers.planned` has those that wait for a test of their own."""
    settings: type[S]

    @abstractmethod
    def conditions(self, settings: S) -> list[Condition]:
        """Return every cell the experiment needs."""

    @abstractmethod
    def claims(self, settings: S) -> list[Claim]:
        """Return the paper's claims about it, made precise."""

    def chart(self, rows: list[Row], settings: S) -> Figure:
        """Return the figure, made from rows alone."""
        raise NotImplementedError

    @abstractmethod
    def table(self, rows: list[Row], settings: S) -> list[dict[str, Any]]:
        """Return the rows a person reads: one dictionary a line, the same keys in each."""

    def steps(self, rows: list[Row], settings: S) -> dict[str, Any] | None:
        """Return what a reader can step through on the page, example by example; most experiments have nothing.

        ``{"prompts": [{"name", "target", "tokens": [{"same", "outlier", "label", "true_label"}]}], "steps": [0, …],
        "models": [{"name", "colour", "views": [[{"attention", "gate", "vote"} lists, "output"] by step] by prompt}]}``
        """
        return None

    def rows(self, settings: S, store: Store) -> list[Row]:
        """Collect the stored rows of every finished cell, with the condition's columns in front."""
        return [
            {**condition.columns, **row}
            for condition in self.conditions(settings)
            if store.has(condition.cell)
            for row in store.load_rows(condition.cell)
            if row["seed"] < settings.seeds
        ]
