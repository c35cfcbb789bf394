"""The outcome of an experiment: rows, verdicts, table and figure, all from a store."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from iclab.config import InputError
from iclab.probes import Row
from iclab.study import style
from iclab.study.experiment import Experiment
from iclab.study.settings import Settings

if TYPE_CHECKING:
    from iclab.study.edition import Edition

# Fixed, so that the same rows give the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class Outcome:
    """The results of an edition of an experiment."""

    edition: Edition
    rows: list[Row]
    claims: list[dict[str, Any]]
    complete: bool
    """Whether the store had every cell."""

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
        return self.experiment.table(self.rows, self.settings)

    @cached_property
    def figure(self) -> Figure:
        """The figure, with everything in its place."""
        figure = self.experiment.draw(self.rows, self.settings)
        figure.draw_without_rendering()  # finds the places, once for all formats
        figure.set_layout_engine("none")
        return figure

    @property
    def folder(self) -> str:
        """The name of its folder: the id of the experiment, with a suffix unless this is the full edition."""
        ends = {"full": "", "quick": "-quick", "other": f"-{self.settings.digest()[:6]}"}
        return f"{self.experiment.id}{ends[self.settings.edition_name]}"

    def drawn(self, kind: str) -> bytes:
        """The figure as a file of one kind."""
        file = io.BytesIO()
        with mpl.rc_context(style.RC):
            self.figure.savefig(file, format=kind, metadata=_METADATA[kind])
        return file.getvalue()

    def write(self, out: Path) -> Path:
        """Write figure, table, rows and verdicts below ``out``; return the figure to open."""
        folder = out / self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for kind in _METADATA:
                (folder / f"{self.experiment.id}.{kind}").write_bytes(self.drawn(kind))
            _write_csv(folder / "table.csv", self.table)
            (folder / "table.tex").write_text(
                latex(self.table, f"{self.experiment.id}: {self.experiment.title}"), "utf-8"
            )
            pq.write_table(_arrow(self.rows), folder / "rows.parquet")
            about = {"settings": self.settings.model_dump(mode="json"), "claims": self.claims}
            (folder / "claims.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")
        except OSError as error:
            raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
        return folder / f"{self.experiment.id}.png"


def _arrow(rows: list[Row]) -> pa.Table:
    """Return rows as a table; a column of mixed types becomes text."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns)


def _write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for line in lines for name in line)))
        writer.writeheader()
        writer.writerows(lines)


_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {"\\": r"\textbackslash{}", "−": "$-$", "±": r"$\pm$", "–": "--", "≥": r"$\geq$", "≤": r"$\leq$"}
_SPECIAL |= {"α": r"$\alpha$", "κ": r"$\kappa$", "τ": r"$\tau$", "λ": r"$\lambda$", "‖": r"$\|$", "√": r"$\surd$"}
_SPECIAL |= {"µ": r"$\mu$", "ν": r"$\nu$", "δ": r"$\delta$", "η": r"$\eta$", "°": r"$^\circ$", "×": r"$\times$"}


def latex(lines: list[dict[str, Any]], caption: str) -> str:
    """Return a table for a paper: plain LaTeX with booktabs."""

    def tell(value: Any) -> str:
        return "".join(_SPECIAL.get(character, character) for character in str(value))

    columns = list(lines[0])
    body = "".join(" & ".join(tell(line[name]) for name in columns) + " \\\\\n" for line in lines)
    return (
        "\\begin{table}\n\\centering\n"
        f"\\begin{{tabular}}{{{'l' * len(columns)}}}\n\\toprule\n"
        + " & ".join(map(tell, columns))
        + f" \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n\\caption{{{tell(caption)}}}\n\\end{{table}}\n"
    )
