"""Figures for the page: data that the page's script draws with Vega, and Vega itself."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from functools import cache
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
    """Return Vega, Vega-Lite and Vega-Embed as one script. It needs no network, and takes seconds to make."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
