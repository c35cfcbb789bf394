"""Rows as tables: Arrow, pandas where it is installed, HTML and plain text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from iclab.config import InputError
from iclab.probes import Row

if TYPE_CHECKING:
    import pyarrow as pa


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table; a column of mixed types becomes text."""
    import pyarrow as pa  # imported late: what makes no table need not wait for it

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns)


def as_html(rows: Sequence[Row]) -> str:
    """Return rows as a table of HTML."""

    def line(tag: str, values: Iterable[Any]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(_short(value))}</{tag}>' for value in values)}</tr>"

    columns = list(dict.fromkeys(name for row in rows for name in row))
    return f"<table>{line('th', columns)}{''.join(line('td', map(row.get, columns)) for row in rows)}</table>"


def as_text(rows: Sequence[Row]) -> str:
    """Return rows as a table of plain text.

    >>> print(as_text([{"model": "mamba", "error": 0.25}, {"model": "linear", "error": None}]))
    model   error
    mamba   0.25
    linear  –
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *([_short(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _short(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_frame(rows: Sequence[Row]) -> Any:
    """Return rows as a pandas data frame."""
    try:
        import pandas  # noqa: F401 (pyarrow uses it)
    except ImportError:
        raise InputError("frame: needs pandas, which is not installed; table() gives an Arrow table") from None
    return as_table(rows).to_pandas()
