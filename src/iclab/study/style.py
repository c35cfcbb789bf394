"""One look for all figures: the same colour for a model everywhere, safe for colour-blind readers (Okabe and Ito)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from iclab.models import MODELS

INK = "#222222"
FAINT = "#8a8a8a"
COLOURS = {name: model.colour for name, model in MODELS.items() if model.colour}
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
"""For curves that are not models."""
SPARE = ("#56B4E9", "#000000", "#999999")
NAMES = {name: model.label for name, model in MODELS.items()}

VERDICTS = {"holds": "#009E73", "undecided": "#E8D27A", "fails": "#D55E00", "not run": "#D9D9D9"}
"""Their colours, from good to nothing."""

DASHED: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
"""A yardstick: what a vote would do, a margin, a floor."""

RC: dict[Any, Any] = {
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "font.size": 9.5,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "iclab",  # the same figure gives the same file
    "svg.fonttype": "none",
}


def colour(model: str, models: list[str]) -> str:
    """Return a model's colour: its own, or a spare one for a user's model."""
    strangers = [name for name in models if name not in COLOURS]
    return COLOURS[model] if model in COLOURS else SPARE[strangers.index(model) % len(SPARE)]


def title(figure: Figure, id_: str, text: str, rows: list[dict[str, Any]], settings: Any) -> None:
    """Head a figure with what it is, how much was run, and which settings are not iclab's own."""
    seeds = len({row["seed"] for row in rows})
    changed = f"\nwith {settings.unusual()}" if settings.unusual() else ""
    figure.suptitle(
        f"{id_}: {text}\n{seeds} seeds, {settings.test_prompts:,} prompts each{changed}",
        x=0.01,
        ha="left",
        fontsize=11,
    )


def curve(
    axes: Axes,
    xs: Sequence[float],
    values: Sequence[Mapping[int, float | None]],
    colour: Any,
    label: str = "",
    *,
    band: bool = True,
    **line: Any,
) -> None:
    """Draw means over seeds, in a band from the lowest to the highest; a point with no seed left is skipped."""
    drawn = []
    for x, by_seed in zip(xs, values, strict=True):
        good = [value for value in by_seed.values() if value is not None]
        if good:
            drawn.append((x, min(good), max(good), sum(good) / len(good)))
    if drawn:
        places, low, high, mean = zip(*drawn, strict=True)
        if band:
            axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(places, mean, **{"color": colour, "marker": "o", "markersize": 3.8, "label": label or None} | line)


FLOOR: dict[str, Any] = {"linewidth": 1.2, "linestyle": (0, (1, 1.5))}


def floor(
    axes: Axes, xs: Sequence[float], value: Callable[[float], float], colour: Any, label: str | None = None
) -> None:
    """Draw what one cannot well do better than, all along the range of a curve."""
    fine = np.linspace(min(xs), max(xs), 60)
    axes.plot(fine, [value(float(x)) for x in fine], color=colour, label=label, **FLOOR)


BESIDE: dict[str, Any] = {"band": False, "linestyle": "dashed", "marker": ""}
"""A curve that accompanies another."""


def shades(count: int) -> list[Any]:
    """Colours for so many curves: the palette, or from dark to light for a longer family."""
    if count <= len(SERIES):
        return list(SERIES[:count])
    return [colormaps["viridis"](0.9 * i / (count - 1)) for i in range(count)]


def legend(axes: Axes, **where: Any) -> None:
    """Name the curves, if there are any."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**where)


def grid(axes: Axes) -> None:
    """Draw quiet horizontal lines."""
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
