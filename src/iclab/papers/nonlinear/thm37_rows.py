"""Settings of T-thm3.7, and how its rows are read: lengths, fates of neurons, and losses after pruning."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.nonlinear.alignment import of
from iclab.papers.nonlinear.laws import Counts, TheoremPaper, Values
from iclab.papers.nonlinear.neurons import groups_of
from iclab.probes import Row
from iclab.study.claims import BySeed
from iclab.study.settings import Chosen


class PruningTheoremSettings(TheoremPaper):
    """Settings of T-thm3.7."""

    step_size: Annotated[float, Chosen("η: the largest that the theorem allows; only the end of training counts")] = 1.0
    irrelevants: Annotated[Counts, Chosen("M2: a factor of 8", grid=True)] = (4, 8, 12, 20, 32)
    relevant_values: Annotated[Counts, Chosen("M1 of (15), with M2 = M1, m = M1² log M1", grid=True)] = (
        4,
        6,
        8,
        12,
        16,
    )
    rates: Annotated[Values, Chosen("R of (16): shares of all neurons, all of them in L", grid=True)] = (
        *(0.05, 0.1, 0.2),
        *(0.3, 0.4, 0.5),
    )
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], Annotated[float, Field(gt=0, le=1)]],
        Chosen("α' of the term (α' M1)⁻¹ of (16): few examples that matter, and all", grid=True),
    ] = (0.2, 1.0)
    test_length: Annotated[int, Field(ge=1), Chosen("l_ts of that term, the paper's l_tr")] = 20
    widths: Annotated[Counts, Chosen("m, for errors at R = 0.5", grid=True)] = (10, 20, 50, 100, 200)
    half: Annotated[float, Field(gt=0, lt=1), Chosen("R at which errors are compared")] = 0.5
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    def quick(self) -> Self:
        """Return the quick edition: fewer prompts; η stays."""
        return super().quick().replace(step_size=self.step_size, test_prompts=min(self.test_prompts, 500))


def by_seed(rows: list[Row], column: str, **where: Any) -> BySeed:
    """Return each seed's number in a column; None if it diverged."""
    return {row["seed"]: None if row["diverged"] else row[column] for row in of(rows, **where)}


def neurons_of(rows: list[Row], **where: Any) -> dict[int, list[Row]]:
    """Return each seed's neurons; none of a seed that diverged."""
    found: dict[int, list[Row]] = {}
    for row in of(rows, **where):
        found.setdefault(row["seed"], []).extend([] if row["diverged"] else [row])
    return found


def lengths(rows: list[Row], graph: str, group: int) -> dict[float, BySeed]:
    """Return each seed's mean length of rows in L (0) or outside it (1), by M2; None without any."""
    found: dict[float, BySeed] = {}
    for x in sorted({row["x"] for row in of(rows, part="lengths", graph=graph)}):
        found[x] = {}
        for seed, mine in neurons_of(rows, part="lengths", graph=graph, x=x).items():
            group_rows = groups_of(mine)[group]
            found[x][seed] = sum(n["length"] for n in group_rows) / len(group_rows) if group_rows else None
    return found


def widest_gap(values: list[float]) -> float:
    """Return the widest gap between neighbouring logarithms over their range.

    >>> round(widest_gap([0.1, 0.2, 1.6, 3.2]), 6)
    0.6
    """
    logs = sorted(math.log(value) for value in values if value > 0)
    if len(logs) < 2 or logs[-1] == logs[0]:
        return 0.0
    return max(b - a for a, b in pairwise(logs)) / (logs[-1] - logs[0])


def fates(rows: list[Row], graph: str, relevant: int, lucky: bool) -> BySeed:
    """Return the share of a seed's lucky neurons, or of the others, that end in L; None if it diverged or has none."""
    found: BySeed = {}
    for row in of(rows, part="lucky", graph=graph, x=relevant):
        if row["diverged"]:
            found[row["seed"]] = None
        elif row["lucky"] == lucky:
            found[row["seed"]] = row["large"] / row["neurons"] if row["neurons"] else None
    return found


def rise(rows: list[Row], graph: str, rate: float) -> BySeed:
    """Return the loss after pruning a share of all neurons within L − before, by seed."""
    after, before = (by_seed(rows, "hinge", part="rates", graph=graph, x=x) for x in (rate, 0.0))
    found: BySeed = {}
    for seed, value in after.items():
        start = before.get(seed)
        found[seed] = None if value is None or start is None else value - start
    return found


def extra(rows: list[Row], settings: PruningTheoremSettings, graph: str) -> dict[float, BySeed]:
    """Return what few examples that matter add to the loss after pruning, by M1: the loss at α' = 0.2 − that at 1."""
    found: dict[float, BySeed] = {}
    for relevant in settings.relevant_values:
        parts = (f"fraction {fraction:g}" for fraction in settings.test_fractions)
        few, many = (by_seed(rows, "hinge", part=part, graph=graph, x=relevant) for part in parts)
        if few:
            found[float(relevant)] = {
                s: None if v is None or many.get(s) is None else v - (many[s] or 0.0) for s, v in few.items()
            }
    return found


def predicted_loss(rows: list[Row], graph: str, rate: float) -> BySeed:
    """Return the loss of a seed's outputs times 1 − R m/|L|: (129), with the share of L that is gone."""
    found: BySeed = {}
    for seed, neurons in neurons_of(rows, part="neurons", graph=graph).items():
        large = len(groups_of(neurons)[0])
        mine = [r for r in of(rows, part="shrunk", graph=graph) if r["seed"] == seed and not r["diverged"]]
        if not large or not mine:
            found[seed] = None
            continue
        factor = max(0.0, 1 - min(round(rate * len(neurons)), large) / large)
        below = max((r for r in mine if r["factor"] <= factor + 1e-9), key=lambda r: r["factor"])
        above = min((r for r in mine if r["factor"] >= factor - 1e-9), key=lambda r: r["factor"])
        width = above["factor"] - below["factor"]
        part = (factor - below["factor"]) / width if width else 0.0
        found[seed] = below["hinge"] + part * (above["hinge"] - below["hinge"])
    return found
