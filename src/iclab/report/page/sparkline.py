"""Sparklines: the points of a claim, their intervals and the margins, as a small SVG."""

from __future__ import annotations

import html
from typing import Any

from markupsafe import Markup

from iclab.study.claims import number

WIDTH, HEIGHT = 140.0, 30.0


def spark(claim: dict[str, Any]) -> Markup:
    """Draw all points of a claim with their intervals and margins.

    An interval without an end, such as that of a single seed, extends to the edge.
    """
    points = [p for p in claim["points"] if p["value"] is not None]
    if not points:
        return Markup("")
    ends = [v for p in points for v in (p["low"], p["high"], p["value"]) if v is not None] + claim["margins"]
    low, high = min(ends), max(ends)
    extent = (high - low) or 1.0

    def up(value: float) -> str:
        return f"{HEIGHT - 3 - (HEIGHT - 6) * (value - low) / extent:.1f}"

    parts = []
    for margin in claim["margins"]:
        parts.append(f'<line class="margin" x1="0" x2="{WIDTH:g}" y1="{up(margin)}" y2="{up(margin)}"/>')
    gap = WIDTH / len(points)
    for place, point in enumerate(points):
        x = f"{gap * (place + 0.5):.1f}"
        bottom, top = (end if end is not None else edge for end, edge in ((point["low"], low), (point["high"], high)))
        label = html.escape(f"{point['where'] or claim['id']}: {number(point['value'])}")
        parts.append(f'<line class="bar" x1="{x}" x2="{x}" y1="{up(bottom)}" y2="{up(top)}"/>')
        parts.append(f'<circle cx="{x}" cy="{up(point["value"])}" r="2"><title>{label}</title></circle>')
    kind = claim["verdict"].replace(" ", "-")
    about = html.escape(f"{len(points)} points, margin {', '.join(map(number, claim['margins'])) or 'none'}")
    size = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
    return Markup(f'<svg class="spark {kind}" {size} role="img" aria-label="{about}">{"".join(parts)}</svg>')
