"""Reading T-prop4.1's rows: parts of W_Q along patterns, shares, and fits of exp(2τL)."""

from __future__ import annotations

from collections.abc import Callable

from iclab.papers.nonlinear.alignment import (
    AlignmentSettings,
    Entries,
    entries,
    graph_of,
    of,
    over_log,
    predicted_share,
    times,
)
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.probes import Row
from iclab.study.claims import BySeed

Number = Callable[[Entries], float]


def own_of(settings: AlignmentSettings, part: str, graph: str, x: float) -> NonlinearPaper:
    """Return the settings of one training."""
    if part == "scale":
        return settings.large(graph, settings.middle, init_scale=x)
    return settings.large(graph, int(x))


def entry(
    rows: list[Row],
    settings: AlignmentSettings,
    part: str,
    graph: str,
    x: float,
    number: Number,
    matrix: str = "query",
) -> BySeed:
    """Return a number of each seed's entries of W_Q or W_K after training."""
    mine = of(rows, part=part, graph=graph, x=x, probe="growth")
    found = entries(mine, own_of(settings, part, graph, x), matrix)
    return {seed: None if e is None else number(e) for seed, e in found.items()}


def share(rows: list[Row], part: str, graph: str, x: float, step: int | None = None) -> BySeed:
    """Return each seed's mean part of W_Q p along its pattern / mean norm."""
    mine = of(rows, part=part, graph=graph, x=x, probe="alignment")
    mine = mine if step is None else [row for row in mine if row["diverged"] or row["step"] == step]
    found: BySeed = {row["seed"]: None for row in mine if row["diverged"]}
    return found | {r["seed"]: r["along"] / r["length"] for r in mine if not r["diverged"] and r["matrix"] == "query"}


def fits(
    rows: list[Row], settings: AlignmentSettings, part: str, graph: str, x: float, step: int | None = None
) -> dict[int, tuple[float, float] | None]:
    """Return each seed's τ and R² of exp(2τL)."""
    mine = of(rows, part=part, graph=graph, x=x, probe="kernel")
    mine = mine if step is None else [row for row in mine if row["diverged"] or row["step"] == step]
    return times(mine, graph_of(graph, own_of(settings, part, graph, x).relevant))


def predicted(
    rows: list[Row], settings: AlignmentSettings, part: str, graph: str, x: float, step: int | None = None
) -> BySeed:
    """Return the share that exp(τL) gives each seed."""
    own = own_of(settings, part, graph, x)
    shape = graph_of(graph, own.relevant)
    found = fits(rows, settings, part, graph, x, step)
    scale = own.train_irrelevant_scale
    return {seed: None if fit is None else predicted_share(shape, fit[0], scale) for seed, fit in found.items()}


def losses_by_step(rows: list[Row], settings: AlignmentSettings, graph: str) -> dict[int, float]:
    """Return the mean loss of the watched training by kept step."""
    mine = [r for r in of(rows, part="watched", graph=graph, probe="error") if not r["diverged"]]
    losses: dict[int, list[float]] = {}
    for row in mine:
        losses.setdefault(row["step"], []).append(row["hinge"])
    return {step: sum(found) / len(found) for step, found in sorted(losses.items())}


def by_relevant(
    rows: list[Row], settings: AlignmentSettings, graph: str, number: Number, logs: bool = False
) -> dict[float, BySeed]:
    """Return a number of the entries of W_Q by M1, or by log M1."""
    found = {n: entry(rows, settings, "relevant", graph, n, number) for n in settings.relevant_values}
    return over_log(found) if logs else {float(n): by_seed for n, by_seed in found.items()}
