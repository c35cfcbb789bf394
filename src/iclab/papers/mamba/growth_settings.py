"""What M-lem3 trains, and how its rows are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.papers.mamba.lemmas import Counts, Fraction, LemmaSettings, Values
from iclab.probes import Row
from iclab.prompts.tasks import AllPairs, Ring, TaskSet
from iclab.study.claims import BySeed
from iclab.study.rows import lost, values
from iclab.study.settings import Chosen
from iclab.theory.laws import clean_weight, mean_field_steps

Sweep = Literal["batch", "relevant", "irrelevant", "clean", "norm"]
FIELDS: dict[Sweep, str] = {
    "batch": "batch_size",
    "relevant": "relevant",
    "irrelevant": "irrelevant",
    "clean": "outlier_fraction",
    "norm": "pattern_norm",
}
SYMBOLS: dict[Sweep, str] = {"batch": "B", "relevant": "M1", "irrelevant": "M2", "clean": "p_a", "norm": "β"}

MATRICES = {"key": "W_B", "query": "W_C"}
NOISE = {
    "(24)": "outlier relevant",
    "(27)": "irrelevant relevant",
    "(28)": "relevant irrelevant",
    "(29)": "irrelevant own",
    "(30)": "irrelevant other",
}
"""The entries that the lemma bounds by √(log B / B)."""


class GrowthSettings(LemmaSettings):
    """One training per task graph, and short ones over B, M1, M2, p_a and β."""

    context_length: Annotated[int, Field(ge=1), Chosen("l: with the gate at 1/2, 20 are as good as 40")] = 20
    graphs: Annotated[
        tuple[TaskSet, ...], Field(min_length=1), Chosen("a complete graph, and the paper's example of Condition 1")
    ] = (AllPairs(), Ring(steps=1))
    short: Annotated[int, Field(ge=1), Chosen("steps of the sweeps: the first order of growth", grid=True)] = 16
    batches: Annotated[Counts, Chosen("B: a factor of 64", grid=True)] = (64, 128, 256, 512, 1024, 4096)
    relevants: Annotated[Counts, Chosen("M1: a factor of 8", grid=True)] = (4, 6, 8, 16, 32)
    irrelevants: Annotated[Counts, Chosen("M2: a factor of 8", grid=True)] = (10, 14, 20, 40, 80)
    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1), Chosen("p_a: 1 − p_a by 9", grid=True)] = (
        *(0.1, 0.3),
        *(0.5, 0.7, 0.8, 0.9),
    )
    norms: Annotated[Values, Chosen("β at fixed δ and κ_a‖v*‖: a factor of 8", grid=True)] = (0.75, 1.5, 3.0, 4.5, 6.0)

    def sweep(self, name: Sweep) -> dict[float, GrowthSettings]:
        """Return the settings of one sweep by the value that it varies."""
        grids: dict[Sweep, tuple[float, ...]] = {
            "batch": self.batches,
            "relevant": self.relevants,
            "irrelevant": self.irrelevants,
            "clean": self.fractions,
            "norm": self.norms,
        }
        few = min(self.batch_size, 4)  # a trial keeps its small batches
        found = {}
        for value in grids[name]:
            own = few if name == "batch" and self.steps < 16 else value
            room = max(self.dimension, self.relevant + round(value) + self.outlier) if name == "irrelevant" else None
            found[value] = self.replace(**{FIELDS[name]: own} | ({"dimension": room} if room else {}))
        return found

    @property
    def half_time(self) -> float:
        """The steps until (E) puts E zF at 1/2."""
        return mean_field_steps(self.theory, "mamba")

    def weight(self, step: float, distance: int) -> float:
        """Return the mean entry of exp(τL) − I at a graph distance, (A): what an entry of W/δ has moved by."""
        graph = self.theory.graph
        moved = graph.kernel(self.graph_time(step) / 2)  # kernel(τ) is exp(2τL)
        return float(moved[graph.distances == distance].mean()) - (distance == 0)

    def output(self, step: float) -> float:
        """Return E zF = (1 − p_a) g S̄ of the mean field."""
        return clean_weight(self.theory) * self.contrast(step)


def of(rows: Sequence[Row], sweep: str, value: Any) -> list[Row]:
    """Return the rows of one condition."""
    return [row for row in rows if row["sweep"] == sweep and row["value"] == value]


def entry(rows: Sequence[Row], matrix: str, kind: str, column: str = "mean", **where: Any) -> BySeed:
    """Return the mean or root mean square of one kind of entry by seed, from the rows of one condition."""
    return lost(rows, **where) | values(rows, column, **where, matrix=matrix, kind=kind)


def kept_steps(rows: Sequence[Row], last: float = math.inf, first: float = 1) -> list[int]:
    """Return the kept steps of a training's rows after the start."""
    return sorted({row["step"] for row in rows if row.get("step") and first <= row["step"] <= last})


def over_time(
    rows: Sequence[Row], matrix: str, kind: str, last: float = math.inf, column: str = "mean", **where: Any
) -> dict[float, BySeed]:
    """Return one kind of entry at every kept step."""
    return {step: entry(rows, matrix, kind, column, step=step, **where) for step in kept_steps(rows, last)}


def printed_bound(own: LemmaSettings, equation: str, step: float) -> float:
    """Return the right side of (24) or (27) to (30) with constant 1, for patterns of length 1 on the left side.

    >>> round(printed_bound(LemmaSettings(), "(30)", 1) / printed_bound(LemmaSettings(), "(29)", 1), 3)
    0.1
    """
    batch = math.sqrt(math.log(own.batch_size) / own.batch_size)
    reach = own.step_size * own.pattern_norm * step * batch / own.pattern_norm**2
    divisors = {
        "(27)": own.relevant * own.irrelevant,
        "(28)": own.relevant * own.irrelevant,
        "(29)": own.irrelevant,
        "(30)": own.irrelevant**2,
    }
    if equation == "(24)":
        outliers = own.outlier_fraction * own.outlier_scale / (own.relevant * own.outlier)
        return reach * outliers * own.pattern_norm / own.outlier_norm
    return reach / divisors[equation]
