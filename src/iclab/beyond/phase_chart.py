"""The figure of phase-diagram: maps of worst-case errors, with the frontiers that theory draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from iclab.beyond.phase_settings import PhaseSettings
from iclab.probes import Row
from iclab.study.charts import (
    DASH_DOT,
    DASHED,
    DOTTED,
    ERRORS,
    INK,
    PALETTE,
    Axis,
    Figure,
    Panel,
    reference,
    shaded,
)
from iclab.study.rows import errors

RESTORED = reference("κ_a' L = κ_a", DASHED, PALETTE[0], width=1.8)
LEAST = reference("κ_a = V β⁻⁴, Theorem 1 (ii)", DOTTED, INK, width=1.6)
LEARNT = reference("(C): p_a κ_a² ‖v*‖² M1 = V β²", DASH_DOT, PALETTE[2], width=1.8)
BOUND = reference("p_a l_tr / l_ts, Theorem 2 (c)", DASHED, PALETTE[3], width=1.8)
HALF = reference("α = ½, Theorem 4 (c)", DOTTED, PALETTE[0], width=1.8)
KEY = [shaded(f"error {value:g}", colour, 1.0) for value, colour in zip(ERRORS.domain, ERRORS.colours, strict=True)]
LOST = shaded("all seeds diverged", "#BBBBBB", 1.0)


def draw(rows: list[Row], settings: PhaseSettings) -> Figure:
    """Draw two maps over strengths and three over fractions and lengths."""
    panels = [
        strengths(rows, settings, "mamba", settings.mamba_scales, "A  Mamba"),
        strengths(rows, settings, "linear", settings.linear_scales, "B  linear Transformer"),
        _lengths(rows, settings, "mamba", "labels", "C  Mamba, places at random"),
        _lengths(rows, settings, "mamba", "places", "D  Mamba, worst places"),
        _lengths(rows, settings, "linear", "labels", "E  linear Transformer"),
    ]
    return Figure(panels, columns=2, width=330, more=[*KEY, LOST], least=300)


def _edges(places: Sequence[float]) -> dict[float, tuple[float, float]]:
    """Return the ends of each place's cell on a logarithmic axis: half-way between neighbours; 0 stands at the left.

    >>> {place: (round(low, 3), round(high, 3)) for place, (low, high) in _edges([1.0, 4.0]).items()}
    {1.0: (0.5, 2.0), 4.0: (2.0, 8.0)}
    """
    at = {place: _at(place, places) for place in sorted(places)}
    spots = list(at.values())
    if len(spots) == 1:
        return {place: (spot / 2, spot * 2) for place, spot in at.items()}
    middle = [math.sqrt(a * b) for a, b in pairwise(spots)]
    ends = [spots[0] ** 2 / middle[0], *middle, spots[-1] ** 2 / middle[-1]]
    return {place: (ends[i], ends[i + 1]) for i, place in enumerate(at)}


def _at(place: float, places: Sequence[float]) -> float:
    least = min((value for value in places if value > 0), default=1.0)
    return place or least / 3


def _axis(title: str, places: Sequence[float]) -> Axis:
    edges = _edges(places)
    ticks = {_at(place, places): f"{place:g}" for place in places}
    return Axis(
        title,
        scale="log",
        domain=(min(low for low, _ in edges.values()), max(high for _, high in edges.values())),
        ticks=ticks,
    )


def _fill(
    panel: Panel,
    rows: Sequence[Row],
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    up: Callable[[float], tuple[float, float]],
) -> None:
    """Fill every cell with its mean error; grey where every seed diverged."""
    across = _edges(x[1])
    for a in x[1]:
        for b in y[1]:
            found = errors(rows, **{x[0]: a, y[0]: b})
            good = [error for error in found.values() if error is not None]
            if good:
                panel.patch(across[a], up(b), sum(good) / len(good))
            elif found:
                panel.band(LOST, list(across[a]), [up(b)[0]] * 2, [up(b)[1]] * 2)
                panel.line(LOST, [], [])


def strengths(rows: list[Row], settings: PhaseSettings, model: str, scales: Sequence[float], title: str) -> Panel:
    """Draw errors over strengths in training and in tests, with the frontiers for Mamba."""
    trained, tested = settings.train_scales, _edges(scales)
    x, y = _axis("κ_a in training", trained), _axis("κ_a' in tests", scales)
    panel = Panel(
        f"{title}, worst-case error at α = {settings.outlier_fraction:g}", x=x, y=y, height=300, shading=ERRORS
    )
    mine = [row for row in rows if row["map"] == "strength" and row["model"] == model]
    _fill(panel, mine, ("train_scale", trained), ("test_scale", scales), lambda place: tested[place])
    assert x.domain is not None
    assert y.domain is not None
    low, high = x.domain
    if model == "mamba":
        panel.line(LEAST, [settings.printed] * 2, list(y.domain))
        panel.line(LEARNT, [settings.learnt] * 2, list(y.domain))
        ends = [max(low, y.domain[0] * settings.smallest_sum), min(high, y.domain[1] * settings.smallest_sum)]
        panel.line(RESTORED, ends, [end / settings.smallest_sum for end in ends])
    return panel


def _lengths(rows: list[Row], settings: PhaseSettings, model: str, adversary: str, title: str) -> Panel:
    lengths, fractions = [float(length) for length in settings.lengths], sorted(settings.fractions)
    x = _axis("l_ts", lengths)
    middle = [(a + b) / 2 for a, b in pairwise(fractions)]
    ends = [0.0, *middle, 1.0]
    up = {fraction: (ends[i], ends[i + 1]) for i, fraction in enumerate(fractions)}
    panel = Panel(
        title, x=x, y=Axis("fraction of outliers α", domain=(0, 1), ticks=fractions), height=260, shading=ERRORS
    )
    mine = [r for r in rows if r["map"] == "length" and r["model"] == model and r["adversary"] == adversary]
    _fill(panel, mine, ("length", lengths), ("fraction", fractions), lambda place: up[place])
    assert x.domain is not None
    low, high = x.domain
    if model == "mamba":
        clean = settings.train_outlier_fraction * settings.context_length
        grid = [low * (high / low) ** (i / 40) for i in range(41)]
        panel.line(BOUND, grid, [min(1.0, clean / length) for length in grid])
    else:
        panel.line(HALF, [low, high], [0.5, 0.5])
    return panel
