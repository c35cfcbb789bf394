"""The outcome of an experiment: rows, verdicts, table and figure, all from a store."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from iclab.config import InputError
from iclab.probes import Row
from iclab.study import files
from iclab.study.charts import Chart, Figure
from iclab.study.charts.painting import Painter
from iclab.study.experiment import Experiment
from iclab.study.frames import as_frame, as_html
from iclab.study.settings import Settings

if TYPE_CHECKING:
    from iclab.study.edition import Edition


@dataclass(frozen=True, repr=False)
class Outcome:
    """The results of an edition of an experiment."""

    edition: Edition
    rows: list[Row]
    claims: list[dict[str, Any]]
    complete: bool
    """Whether the store had every cell."""
    asked: Edition | None = None
    """The edition that was asked for, if this one has its seeds added until claims are decided."""

    @property
    def experiment(self) -> Experiment[Any]:
        """The experiment."""
        return self.edition.experiment

    @property
    def settings(self) -> Settings:
        """The settings it was run with."""
        return self.edition.settings

    @property
    def judged(self) -> int:
        """How many claims have a verdict other than *not run*."""
        return sum(claim["verdict"] != "not run" for claim in self.claims)

    @cached_property
    def table(self) -> list[dict[str, Any]]:
        """The table, one dictionary per line."""
        with self.experiment.guarded("table"):
            lines = self.experiment.table(self.rows, self.settings)
        if not lines:
            raise InputError(f"{self.experiment.id}: its table has no lines; return at least one, of dashes")
        return lines

    @cached_property
    def figure(self) -> Chart:
        """The figure, headed by its title, how much was run, and settings that differ from the defaults."""
        seeds = len({row["seed"] for row in self.rows if row["seed"] < self.settings.seeds})
        changed = self.settings.unusual()
        heading = (
            f"{self.experiment.id}: {self.experiment.title}",
            self.settings.extent(seeds),
            *(wrap(f"with {changed}", 110) if changed else []),
        )
        with self.experiment.guarded("chart"):
            chart = self.experiment.chart(self.rows, self.settings)
        if not hasattr(chart, "to_dict"):
            raise InputError(f"{self.experiment.id}: its chart must be a Figure or an Altair chart, is {chart!r:.60}")
        return replace(chart, heading=heading) if isinstance(chart, Figure) else chart

    @property
    def chart(self) -> Chart:
        """The figure."""
        return self.figure

    def frame(self) -> Any:
        """Return the rows as a pandas data frame, if pandas is installed."""
        return as_frame(self.rows)

    def __repr__(self) -> str:
        counts = Counter(claim["verdict"] for claim in self.claims)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        return f"Outcome({self.experiment.id}, {len(self.rows)} rows; claims: {verdicts or 'none'})"

    def _repr_html_(self) -> str:
        """Show figure, claims and table in a notebook."""
        claims = [{"claim": c["paper"], "verdict": c["verdict"], "tested": c["predicate"]} for c in self.claims]
        drawn = self.figure.svg() if isinstance(self.figure, Figure) else ""
        return f"<b>{html.escape(repr(self))}</b><div>{drawn}</div>{as_html(claims)}{as_html(self.table)}"

    @property
    def folder(self) -> str:
        """The name of its folder: the id of the experiment, with a suffix unless this is the full edition."""
        settings = self.asked.settings if self.asked else self.settings
        ends = {"full": "", "quick": "-quick", "other": f"-{settings.digest()[:6]}"}
        name = f"{self.experiment.id}{ends[settings.edition_name]}"
        return f"{name}-until-decided" if self.asked else name  # judged otherwise, so kept apart

    def picture(self, out: Path) -> Path:
        """Return where `write` puts the picture to open."""
        return out / self.folder / f"{self.experiment.id}.png"

    def write(self, out: Path, painter: Painter | None = None) -> Path:
        """Write figure, table, rows and verdicts below ``out``; return the picture to open.

        With a ``painter``, the figure's files are there when that one has finished.
        """
        if painter is not None:
            return files.write(self, out, painter)
        with Painter() as painter:
            return files.write(self, out, painter)
