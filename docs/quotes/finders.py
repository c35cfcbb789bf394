"""What the queries cannot say: functions of an outcome, for `found`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quotes.sources import Number, claim

if TYPE_CHECKING:
    from iclab.study import Outcome

Finder = Callable[["Outcome"], float]


def clock_off(but: str) -> tuple[Number, Number]:
    """How far the clock of M-kernel is from its prediction on all graphs but one, in %, on either side."""
    rate = claim("M-kernel.rate")
    return 100 * (rate.highest(but=but) - 1), 100 * (1 - rate.lowest(but=but))


def variants(outcome: Outcome) -> float:
    """How many variants of M-fig2 there are; the linear model's error is above Mamba's in all of them."""
    lines = _variants(outcome, "M-fig2")
    reversed_ = [line for line in lines if "gap" in line["differs"]]
    return len(lines) - len(reversed_)


def variants_with(outcome: Outcome) -> float:
    """In how many variants of M-fig2 Mamba's error is small under target and random labels."""
    small = ("mamba-small.target", "mamba-small.random")
    return sum(not any(name in line["differs"] for name in small) for line in _variants(outcome, "M-fig2"))


def _variants(outcome: Outcome, experiment: str) -> list[dict[str, str]]:
    return [line for line in outcome.table if line["experiment"] == experiment and line["setting"] != "as chosen"]


def claims_of(part: str) -> Finder:
    """How many claims are judged under a part's readings."""

    def finder(outcome: Outcome) -> float:
        return len(_claims(outcome, part))

    finder.__name__ = f"claims of {part}"
    return finder


def claims_held(part: str, reading: str) -> Finder:
    """How many of them hold under one reading."""

    def finder(outcome: Outcome) -> float:
        return sum(line[reading] == "holds" for line in _claims(outcome, part))

    finder.__name__ = f"claims of {part} that hold under {reading}"
    return finder


def _claims(outcome: Outcome, part: str) -> list[dict[str, str]]:
    return [line for line in outcome.table if line["part"] == part and line["claim"]]


def shut_layers(outcome: Outcome) -> float:
    """The largest, over seeds, of the smallest ratio of gates of the three layers that write only the label."""
    from iclab.papers.mamba.fig4 import ratios

    design = "label only"
    mine = [{**r, "stage": design} for r in outcome.rows if r["placement"] == "gates" and r["model"] == design]
    near = outcome.settings.near  # type: ignore[attr-defined]
    by_layer = [ratios(mine, layer, design, near) for layer in (1, 2, 3)]
    return max(min(found[seed] or 0.0 for found in by_layer) for seed in by_layer[0])
