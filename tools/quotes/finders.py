"""What the queries cannot say: functions of an outcome, for `found`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quotes.sources import Number, claim

if TYPE_CHECKING:
    from iclab.probes import Row
    from iclab.study.outcome import Outcome

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
    settings: Any = outcome.settings
    by_layer = [ratios(mine, layer, design, settings.near) for layer in (1, 2, 3)]
    return max(min(found[seed] or 0.0 for found in by_layer) for seed in by_layer[0])


def more_context(fraction: float) -> Finder:
    """How many times as many examples as Mamba the linear model needs for a worst-case error of 0.01, in M-thm4."""

    def finder(outcome: Outcome) -> float:
        from iclab.papers.mamba.thm4_rows import ratio

        settings: Any = outcome.settings
        return _mean(times for times in ratio(outcome.rows, settings, fraction, 0.01).values() if times is not None)

    finder.__name__ = f"examples linear over Mamba at {fraction}"
    return finder


def review_gate(stream: str, layers: int) -> Finder:
    """The first layer's gate of outliers over that of clean examples, by depth, in M-review."""

    def finder(outcome: Outcome) -> float:
        from iclab.beyond.review_rows import gate_ratios

        return _mean(ratio for ratio in gate_ratios(outcome.rows, stream, layers, 1).values() if ratio is not None)

    finder.__name__ = f"gate of the first of {layers} layers, {stream} stream"
    return finder


def neurons(group: str, what: str) -> Finder:
    """The mean of a column over the large or the small neurons after training, or the share of the large ones."""

    def finder(outcome: Outcome) -> float:
        found = []
        for mine in _trained_neurons(outcome):
            large, small = mine
            chosen = large if group == "large" else small
            found.append(len(large) / (len(large) + len(small)) if what == "share" else _mean(n[what] for n in chosen))
        return _mean(found)

    finder.__name__ = f"{what} of {group} neurons"
    return finder


def short_rows(part: str) -> Finder:
    """The mean length of rows of W_O W_V outside L, over all trainings of one part of an experiment."""

    def finder(outcome: Outcome) -> float:
        from iclab.papers.nonlinear.neurons import groups_of

        return _mean(row["length"] for row in groups_of([r for r in outcome.rows if r["part"] == part])[1])

    finder.__name__ = "mean length of short rows"
    return finder


def turned(angle: str) -> Finder:
    """The share of small neurons that are more than 140° away from where large ones point."""

    def finder(outcome: Outcome) -> float:
        return _mean(_mean(neuron[angle] > 140 for neuron in small) for _, small in _trained_neurons(outcome))

    finder.__name__ = f"share of small neurons with {angle} above 140"
    return finder


def _trained_neurons(outcome: Outcome) -> list[tuple[list[Row], list[Row]]]:
    """The large and the small neurons of each seed."""
    from iclab.papers.nonlinear.neurons import by_seed, groups_of

    last = max(row["step"] for row in outcome.rows if row["probe"] == "neurons")
    return [groups_of(mine) for mine in by_seed(outcome.rows, last).values()]


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)
