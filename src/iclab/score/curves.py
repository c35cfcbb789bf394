"""The error against the fraction of outliers, drawn: a small panel for each rule of labels."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from iclab.score.card import Card, Measure

RULES = ("flip", "random", "target", "worst")
WIDE, HIGH, LEFT, TOP = 150, 100, 24, 16
"""The size of a panel's plane, and where it begins."""


def curves(card: Card, other: Card | None) -> Markup:
    """Return a panel for each rule that was measured, as SVG; the model beside it and the vote are drawn too."""
    return Markup("").join(_panel(rule, card, other) for rule in RULES if _points(card, rule))


def _points(card: Card, rule: str) -> list[tuple[float, Measure]]:
    """Return what was measured against α under a rule, α = 0 first; worst labels of a few have no place on the axis."""
    found = []
    for measure in card.measures:
        name, _, fraction = measure.key.partition("/")
        if name == rule and "." in fraction and measure.mean is not None:
            found.append((float(fraction), measure))
    start = [(0.0, m) for m in card.measures if m.key == "clean" and m.mean is not None]
    return start + found if found else []


def _panel(rule: str, card: Card, other: Card | None) -> Markup:
    own = _points(card, rule)
    band = [(x, m.low if m.low is not None else m.mean) for x, m in own]
    band += [(x, m.high if m.high is not None else m.mean) for x, m in reversed(own)]
    votes, rivals = [(x, m.vote) for x, m in own], _points(other, rule) if other else []
    parts = [
        f'<rect class="plane" x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}"/>',
        f'<polygon class="band" points="{_places(band)}"/>',
        f'<polyline class="vote" points="{_places(votes)}"/>' if rule != "worst" else "",
        f'<polyline class="other" points="{_places([(x, m.mean) for x, m in rivals])}"/>',
        f'<polyline class="own" points="{_places([(x, m.mean) for x, m in own])}"/>',
        f'<text x="{LEFT}" y="{TOP - 5}">{escape(rule)}</text>',
        *(f'<text class="end" x="{LEFT - 4}" y="{_y(y) + 3:.1f}">{y:g}</text>' for y in (0, 0.5, 1)),
        *(f'<text class="middle" x="{_x(x):.1f}" y="{TOP + HIGH + 12}">{x:g}</text>' for x in (0, 0.5, 1)),
    ]
    label = escape(f"Error of {card.model} against the fraction of outliers, {rule} labels")
    size = f"0 0 {LEFT + WIDE + 10} {TOP + HIGH + 18}"
    return Markup(f'<svg class="curve" viewBox="{size}" role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _places(points: Sequence[tuple[float, float | None]]) -> str:
    return " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points if y is not None)


def _x(fraction: float) -> float:
    return LEFT + WIDE * fraction


def _y(error: float) -> float:
    return TOP + HIGH * (1 - error)
