"""One look for all charts: colours that colour-blind readers can tell apart (Okabe and Ito), lines and marks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

INK = "#222222"
"""Text and reference curves. The page replaces it in its dark theme."""
PAPER = "#ffffff"
"""The background, and the inside of hollow marks. The page replaces it too."""
ON_LIGHT, ON_DARK = "#212121", "#fefefe"
"""Text on coloured tiles, which look alike in both themes."""
FAINT = "#8a8a8a"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
"""For curves that are not models."""
SPARE = ("#56B4E9", "#000000", "#999999")
"""For further curves of a model."""
OWN = ("#009E73", "#CC79A7", "#E69F00", "#882255", "#999933")
"""For models that declare no colour. None is that of Mamba, the linear model or a curve to compare with."""
VERDICTS = {
    "holds": "#009E73",
    "in direction": "#56B4E9",
    "undecided": "#E8D27A",
    "fails": "#D55E00",
    "not run": "#D9D9D9",
}

DASHED = (5.0, 3.0)
DOTTED = (1.5, 2.5)
DASH_DOT = (7.0, 2.0, 1.5, 2.0)

VIRIDIS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#bddf26")


@dataclass(frozen=True)
class Series:
    """A name in the legend, and how everything under that name is drawn.

    Example:
        >>> Series("Mamba", "#0072B2").beside("Mamba, untrained").dash
        (5.0, 3.0)
    """

    name: str
    colour: str
    dash: tuple[float, ...] = ()
    """Lengths of dashes and gaps in pixels; a solid line by default."""
    mark: str = "circle"
    """A Vega symbol such as ``circle``, ``diamond`` or ``cross``; empty for none."""
    line: bool = True
    """Whether points are joined."""
    hollow: bool = False
    width: float = 1.8
    size: float = 30.0
    """The area of a mark in square pixels."""
    shade: float = 0.2
    """The opacity of bands and bars."""
    legend: bool = True
    """Whether the legend names it."""

    @property
    def area(self) -> bool:
        """Whether it stands for an area, not for a line or marks."""
        return self.mark == "square" and not self.line

    def beside(self, name: str, dash: tuple[float, ...] = DASHED, **changes: Any) -> Series:
        """Return the look of a curve that accompanies this one: same colour, dashed, without marks."""
        look: dict[str, Any] = {"name": name, "dash": dash, "mark": "", "width": 1.3}
        return replace(self, **look | changes)


def shaded(name: str, colour: str, shade: float = 0.2) -> Series:
    """Return the look of an area or of bars; the legend shows it as a square."""
    return Series(name, colour, mark="square", line=False, size=110.0, shade=shade)


def reference(name: str, dash: tuple[float, ...] = DASHED, colour: str = INK, **changes: Any) -> Series:
    """Return the look of a line to compare with: a vote, a floor, a law."""
    look: dict[str, Any] = {"dash": dash, "mark": "", "width": 1.1}
    return Series(name, colour, **look | changes)


@dataclass(frozen=True)
class Shading:
    """Which colour a number has in a map of numbers."""

    colours: tuple[str, ...]
    """From the lowest number to the highest."""
    domain: tuple[float, ...]
    """The numbers of these colours."""
    scale_type: str = "linear"
    linear_to: float = 1.0
    """Up to where a symlog scale is about linear."""

    def scale(self) -> dict[str, Any]:
        """Return Vega-Lite's scale."""
        more = {"constant": self.linear_to} if self.scale_type == "symlog" else {}
        look = {"range": list(self.colours), "interpolate": "rgb", "clamp": True}  # else hues between turn up
        return {"type": self.scale_type, "domain": list(self.domain), **look, **more}

    def spanning(self, top: float) -> Shading:
        """Return the same colours for numbers up to ``top``, and down to its negative if this shading goes below 0."""
        largest = max(map(abs, self.domain))
        return replace(self, domain=tuple(top * value / largest for value in self.domain))

    def dark_test(self) -> str:
        """Return Vega's test for numbers whose colour is too dark for dark text: those near dark ends."""
        low, high, middle = self.domain[0], self.domain[-1], self.domain[len(self.domain) // 2]
        tests = []
        if _dark(self.colours[0]):
            tests.append(f"datum.value < {middle + 0.75 * (low - middle)}")
        if _dark(self.colours[-1]):
            tests.append(f"datum.value > {middle + 0.75 * (high - middle)}")
        return " || ".join(tests) or "false"


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue < 140


DIVERGING = Shading(("#D55E00", "#F7F7F7", "#0072B2"), (-1.0, 0.0, 1.0))
"""Orange below 0, blue above."""

ERRORS = Shading(("#EAF1F6", "#FBE9D3", "#F3B562", "#D55E00", "#4D2200"), (0.0, 0.01, 0.1, 0.5, 1.0))
"""Pale blue without errors, orange to brown with many; 0.01 can be told from 0."""

PRINTED = Series("the paper", INK, mark="diamond", line=False, hollow=True, size=60.0)
"""The paper's own numbers."""


def shades(count: int, *, ordered: bool = False) -> list[str]:
    """Return colours for so many curves: the palette, or dark to light for a longer or ``ordered`` family.

    Example:
        >>> shades(2), shades(2, ordered=True)
        (['#0072B2', '#D55E00'], ['#440154', '#bddf26'])
    """
    if count <= len(PALETTE) and not ordered:
        return list(PALETTE[:count])
    return [VIRIDIS[round(i * (len(VIRIDIS) - 1) / max(count - 1, 1))] for i in range(count)]


CONFIG: dict[str, Any] = {
    "background": PAPER,
    "font": "DejaVu Sans, Liberation Sans, Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": INK,
        "tickColor": INK,
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 10.5,
        "titleFontSize": 11.5,
        "titleFontWeight": "normal",
        "gridColor": "#e6e6e6",
        "tickSize": 4,
    },
    "axisQuantitative": {"labelOverlap": "greedy", "labelSeparation": 4},
    "title": {"color": INK, "subtitleColor": INK, "fontSize": 12.5, "subtitleFontSize": 11.5, "anchor": "start"},
    "text": {"color": INK, "fontSize": 10.5},
}
"""Vega-Lite's configuration for files. The page has its own, made of its style sheet's colours."""
