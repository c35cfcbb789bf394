"""The figure of `iclab.beyond.readings`: verdicts under two readings, and claims held under each reading tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iclab.study.charts import VERDICTS, Axis, Figure, Panel, Series, shaded

SIGNS = {"fails": "×", "undecided": "·", "in direction": "↗"}
CELLS = {verdict: replace(shaded(verdict, colour), shade=1.0) for verdict, colour in VERDICTS.items()}
SHARE = replace(shaded("share of readings, %", "#6b6b6b"), shade=1.0)
OWN, BEST, EVERY = "iclab's own", "most favourable", "all tried, %"
ONE = Series("a reading", "#8a8a8a", line=False, size=14.0)
MARKED = {
    OWN: Series("iclab's own reading", "#0072B2", line=False, mark="diamond", size=90.0),
    BEST: Series("the most favourable", "#009E73", line=False, mark="triangle-up", size=90.0),
}

Summary = Mapping[str, tuple[str, str, float]]
Counts = Mapping[tuple[str, ...], int]


def draw(found: Mapping[str, tuple[Summary, Counts, str]]) -> Figure:
    """Draw two panels per part."""
    panels = []
    for part, (summary, counts, best) in found.items():
        height = 17 * len(summary)
        names = [OWN, BEST, EVERY]
        panel = Panel(part, x=Axis(names=names), y=Axis(names=list(summary)), height=height)
        for claim, (own, favourable, share) in summary.items():
            panel.cell(CELLS[own], OWN, claim, SIGNS.get(own, ""))
            panel.cell(CELLS[favourable], BEST, claim, SIGNS.get(favourable, ""))
            panel.cell(SHARE, EVERY, claim, f"{100 * share:.0f}")
        panels += [panel, _counts(counts, best, len(summary), height)]
    return Figure(panels, columns=2, width=230, more=[*CELLS.values(), SHARE])


def _counts(counts: Counts, best: str, claims: int, height: int) -> Panel:
    panel = Panel(
        f"{len(counts)} readings",
        x=Axis("readings, the most favourable first", domain=(0, len(counts) + 1)),
        y=Axis("claims that hold at once (search)", domain=(0, claims)),
        height=max(height, 120),
    )
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    panel.points(ONE, list(range(1, len(ordered) + 1)), [count for _, count in ordered])
    for place, (key, count) in enumerate(ordered, 1):
        for name, text in ((OWN, OWN), (BEST, best)):
            if key[2] == text:
                panel.points(MARKED[name], [place], [count])
    return panel
