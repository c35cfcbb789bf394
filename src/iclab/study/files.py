"""The files of an outcome: the figure, the table as CSV and LaTeX, all numbers as Parquet, the verdicts as JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.config import InputError
from iclab.study.charts.painting import Painter
from iclab.study.frames import as_table

if TYPE_CHECKING:
    from iclab.study.outcome import Outcome


def write(outcome: Outcome, out: Path, painter: Painter) -> Path:
    """Write all files of an outcome into its folder below ``out``; return the picture to open, once it is drawn."""
    import pyarrow.parquet as pq  # imported late: what writes no files need not wait for it

    folder, id_ = out / outcome.folder, outcome.experiment.id
    about = {"settings": outcome.settings.model_dump(mode="json"), "claims": outcome.claims}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        painter.paint(outcome.figure, folder / id_)
        _write_csv(folder / "table.csv", outcome.table)
        (folder / "table.tex").write_text(latex(outcome.table, f"{id_}: {outcome.experiment.title}"), "utf-8")
        pq.write_table(as_table(outcome.rows), folder / "rows.parquet")
        (folder / "claims.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
    return outcome.picture(out)


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
