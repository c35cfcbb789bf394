"""One look for all figures: the same colour for a model everywhere, safe for colour-blind readers (Okabe and Ito)."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

INK = "#222222"
FAINT = "#8a8a8a"
COLOURS = {"mamba": "#0072B2", "linear": "#D55E00", "softmax": "#009E73"}
SPARE = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
NAMES = {"mamba": "Mamba", "linear": "linear Transformer", "softmax": "softmax attention"}

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


def grid(axes: Axes) -> None:
    """Draw quiet horizontal lines."""
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
