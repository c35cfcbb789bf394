"""`iclab.Comparison`: what `iclab.compare` found, as rows, a table, a frame and a chart."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.config import InputError
from iclab.models import Model
from iclab.probes import PROBES, Proportion, Row, over_seeds
from iclab.study.charts import OWN, SPARE, Axis, Figure, Panel, Series
from iclab.study.frames import as_frame, as_html, as_table, as_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several models, measured at every point of a grid. Printed, it is a table of means; in a notebook, a chart."""

    rows: list[Row]
    """One per model, point and seed (for some probes several): ``model``, the keys of the grid, the probe's columns."""
    models: Mapping[str, Model]
    over: Mapping[str, Sequence[Any]]
    """The values of the grid by key."""
    probe: str
    column: str | None
    """The column that the chart shows."""
    seeds: int

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return as_table(self.rows)

    def frame(self) -> Any:
        """Return the rows as a pandas data frame, if pandas is installed."""
        return as_frame(self.rows)

    @cached_property
    def summary(self) -> list[Row]:
        """The mean over seeds at every point, its 95 % interval (from ``low`` to ``high``), and how many diverged.

        The interval of an error is over seeds and over prompts, whichever is wider; of other columns over seeds.
        """
        lines = []
        for name in self.models:
            for point in self._points(self.over):
                found = self._by_seed(model=name, **point)
                good = [value for value in found.values() if value is not None]
                interval = over_seeds(good)
                if self.column == "error":
                    prompts = max((row.get("prompts") or 0 for row in self._matching(model=name, **point)), default=0)
                    interval = Proportion.of(list(found.values()), prompts).interval if prompts else interval
                mean = sum(good) / len(good) if good else None
                ends = {"low": interval.low, "high": interval.high} if len(good) > 1 else {"low": None, "high": None}
                lines.append({"model": name, **point, "mean": mean, **ends, "diverged": len(found) - len(good)})
        return lines

    @cached_property
    def chart(self) -> Figure:
        """Means over seeds against the first key, with a band from the lowest to the highest seed."""
        first, *others = self.over or ("model",)
        values = list(self.over.get(first, self.models))
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        across = Axis(first, zero=False) if numbers else Axis(first, names=[str(value) for value in values])
        up = self._height()
        panels = []
        for point in self._points({key: self.over[key] for key in others}):
            panel = Panel(", ".join(f"{key} = {value}" for key, value in point.items()), x=across, y=up)
            for series in self._series():
                xs = values if self.over else [series.name]
                found = [self._by_seed(**{"model": series.name, first: x, **point}) for x in xs]
                places: list[Any] = xs if numbers else [str(x) for x in xs]
                panel.curve(series, places, found)
            panels.append(panel)
        return Figure(panels, width=420 if len(panels) == 1 else 250)

    def _height(self) -> Axis:
        """Return the vertical axis, which is the same in all panels if it shows errors."""
        if self.column != "error":
            return Axis(f"{self.probe}: {self.column}")
        highest = max((row["error"] for row in self.rows if row["error"] is not None), default=1.0)
        return Axis("error" if self.probe == "error" else f"{self.probe}: error", domain=(0.0, max(highest, 0.01)))

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file whose name ends in .svg, .png or .pdf."""
        return self.chart.save(path)

    @staticmethod
    def _points(over: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        return [dict(zip(over, values, strict=True)) for values in product(*over.values())]

    def _matching(self, **where: Any) -> list[Row]:
        return [row for row in self.rows if all(row[key] == value for key, value in where.items())]

    def _by_seed(self, **where: Any) -> dict[int, float | None]:
        """Return the drawn number of each seed; None if it diverged."""
        if self.column is None:
            listed = ", ".join(PROBES[self.probe].columns)
            raise InputError(f"column: say which one of the probe {self.probe} to draw: {listed}")
        found: dict[int, float | None] = {}
        for row in self._matching(**where):
            if row["seed"] in found:
                raise InputError(f"probe = {self.probe}: has several rows per seed, which are in rows, but not drawn")
            found[row["seed"]] = row[self.column]
        return found

    def _series(self) -> list[Series]:
        """Give every model its own colour, or one that is free."""
        declared = {name: model.architecture.colour for name, model in self.models.items()}
        free = cycle([c for c in (*OWN, *SPARE) if c not in declared.values()] or OWN)
        taken: list[str] = []
        for colour in declared.values():
            taken.append(colour if colour and colour not in taken else next(free))
        return [Series(name, colour) for name, colour in zip(declared, taken, strict=True)]

    def __repr__(self) -> str:
        count = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        keys = f", over {', '.join(self.over)}" if self.over else ""
        return f"Comparison of {self.probe}, {count}, {self.seeds} seeds{keys}"

    def __str__(self) -> str:
        return f"{self!r}\n{as_text(self.summary)}"

    def _repr_html_(self) -> str:
        """Show chart and means in a notebook that does not draw Vega-Lite."""
        return f"<b>{html.escape(repr(self))}</b><div>{self.chart.svg()}</div>{as_html(self.summary)}"

    def _repr_mimebundle_(self, **which: Any) -> dict[str, Any]:
        """Show the chart in a notebook."""
        return self.chart._repr_mimebundle_() | {"text/plain": str(self)}
