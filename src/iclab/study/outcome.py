"""The outcome of an experiment: rows, verdicts, table and figure, all from the store."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from iclab.config import InputError
from iclab.lab import Store
from iclab.probes import Row
from iclab.study import style
from iclab.study.experiment import Experiment
from iclab.study.settings import Settings

# Fixed, so that the same rows give the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    experiment: Experiment[Any]
    settings: Settings
    rows: list[Row]
    claims: list[dict[str, Any]]
    complete: bool
    """Whether every cell was there."""

    @classmethod
    def of(cls, experiment: Experiment[Any], settings: Settings, store: Store) -> Outcome:
        """Collect rows and judge the claims."""
        cells = [condition.cell for condition in experiment.conditions(settings)]
        complete = all(map(store.has, cells))  # asked first: another process may add some
        rows = experiment.rows(settings, store)
        if not rows:
            raise InputError(
                f"store = {store.path}: holds nothing for {experiment.id} with these settings; "
                f"run `iclab run {experiment.id}` first"
            )
        claims = [claim.verdict(rows) for claim in experiment.claims(settings)]
        return cls(experiment, settings, rows, claims, complete)

    @classmethod
    def best(cls, experiment: Experiment[Any], store: Store) -> Outcome | None:
        """Return the fullest edition that a store holds: full, else quick, else the one of which more can be judged."""
        full = experiment.settings()
        return cls.fullest(experiment, (full, full.quick()), store)

    @classmethod
    def fullest(cls, experiment: Experiment[Any], editions: Iterable[Settings], store: Store) -> Outcome | None:
        """Return the first that is complete, else the one of which more can be judged; None of nothing."""
        there = [(edition, [store.has(c.cell) for c in experiment.conditions(edition)]) for edition in editions]
        for edition, cells in there:
            if cells and all(cells):
                return cls.of(experiment, edition, store)
        parts = [cls.of(experiment, edition, store) for edition, cells in there if any(cells)]
        return max(parts, key=lambda part: (part._judged(), len(part.rows)), default=None)

    def _judged(self) -> int:
        return sum(claim["verdict"] != "not run" for claim in self.claims)

    @cached_property
    def table(self) -> list[dict[str, Any]]:
        """The lines a person reads."""
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
        """The name of its folder: the experiment's id; of other editions than the full one a name that is theirs."""
        ends = {"full": "", "quick": "-quick", "other": f"-{self.settings.digest()[:6]}"}
        return f"{self.experiment.id}{ends[self.settings.edition]}"

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
    """Rows as a table; a column in which experiments mean different kinds of things is told in words."""
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
