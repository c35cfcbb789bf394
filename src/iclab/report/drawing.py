"""Figures for the page: data that the page's script draws with Vega, and Vega itself."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from iclab.study.charts import Figure
from iclab.study.outcome import Outcome


@dataclass(frozen=True)
class Drawing:
    """A figure as the page draws it, or the reason why it cannot be drawn."""

    data: dict[str, Any] | None
    problem: str = ""


def drawing_of(outcome: Outcome) -> Drawing:
    """Return the figure of an outcome. A figure that fails is reported and does not stop the report."""
    try:
        data = page_data(outcome.figure)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        warnings.warn(f"{outcome.experiment.id}: its figure cannot be drawn ({problem})", stacklevel=2)
        return Drawing(None, problem)
    return Drawing(data)


def page_data(figure: Any) -> dict[str, Any]:
    """Return the data of a `Figure`, or of any chart with a ``to_dict`` method, such as Altair's."""
    if isinstance(figure, Figure):
        data = figure.page()
    else:
        data = {"spec": figure.to_dict(), "legend": [], "columns": 0, "least": 0}
    json.dumps(data, allow_nan=False)  # a browser reads no NaN
    return data


@cache
def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that needs no network.

    It takes seconds to make, so it is kept beside the compiled code of this module, if that can be written.
    """
    kept = Path(__file__).parent / "__pycache__" / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeError):
        return kept.read_text("utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_text(script, "utf-8")
        new.replace(kept)
    return script
