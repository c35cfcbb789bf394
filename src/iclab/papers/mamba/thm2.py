"""M-thm2: Theorem 2 at random settings inside its conditions, and where each condition really breaks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from iclab.config import OutsideTheoremWarning
from iclab.papers.mamba.thm2_chart import draw
from iclab.papers.mamba.thm2_rows import CROSSED, beyond_floor, leaks, mean_leak, of, select, spread_over_sums
from iclab.papers.mamba.thm2_settings import Place, Thm2Settings
from iclab.probes import Row
from iclab.study.charts import Figure
from iclab.study.claims import (
    Claim,
    Direction,
    Judge,
    Judgement,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import listed, proportion
from iclab.theory.outliers import mamba_outlier_bound

SMALL, LARGE = 0.01, 0.1
"""Errors: "small" and "large" as in M-fig2."""
ALIKE = 0.1
"""Strengths whose logarithms differ by less are alike."""
LITTLE, MUCH, SEEN = 0.3, 3.0, 0.05
"""Leaks l_ts α σ_out/σ_clean that should do nothing and that should be seen, and the error that is then seen."""
PROBES = {"labels": "worst", "places": "worst-placement", "gates": "gates"}
SHORT = 20
"""Prompts shorter than this are so many times more: their errors are large, and are to be known to 0.01."""
FEWER = 2
"""Each random λ has this many times fewer prompts: there are many."""
PLACES_SHARE = 4
"""The worst places are found for this many times fewer prompts: they cost l/2 times as much."""


class Robustness(Experiment[Thm2Settings]):
    """Worst-case error of the trained Mamba inside Theorem 2 and outside."""

    id = "M-thm2"
    title = "Theorem 2: how many outliers, and which, the trained Mamba withstands"
    paper = (
        "Theorem 2: if α < min(1, p_a l_tr/l_ts), κ_a' ≥ κ_a, Σλ ≥ L > 0 and l_ts ≳ (1 − α)⁻¹ log M1, the error is at "
        "most ε, whatever the labels of the outliers, whatever u ⊥ all patterns is added to them."
    )
    reading = (
        "Errors are exact worst cases over all labels of the outliers; ‘worst places’ over their places too. α^l is "
        "the share of prompts without a clean example, which the worst labels always turn. A: settings drawn at random "
        "inside the theorem, with (b) as printed and restored to κ_a' L ≥ κ_a, by the mean number of clean examples. "
        "B, C: (b) is a condition on κ_a' Σλ, not on κ_a'. D, E: (11) bounds neither ‖λ‖ nor ‖u‖, and both break it; "
        "random λ of about the paper's length do not. "
        "F: (c) is not needed; rules stand where it ends. G: (d) is the share α^l and nothing else. H: α near 1. "
        "I: what counts is how much outliers leak through the gate. Intervals are 95 %; bands and faint marks: seeds."
    )
    caption = "mean over seeds, worst labels and, in brackets, worst labels and places"
    theorems = ("M-thm2",)
    settings = Thm2Settings

    def conditions(self, settings: Thm2Settings) -> list[Condition]:
        """Return the worst case at every place; few trainings, many tests."""
        found: list[Condition] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoremWarning)  # the sweep of Σλ leaves the theorem on purpose
            for place in settings.places():
                training = settings.training(place)
                for adversary in place.adversaries:
                    many = settings.test_prompts
                    cell = {"probe": PROBES[adversary], "prompts": settings.prompts(place, adversary)}
                    more = max(1, SHORT // place.length) if place.sweep == "short" else 1
                    many = max(1, many // FEWER) if place.sweep == "variation" else many
                    cell["count"] = more * many if adversary == "labels" else max(1, many // PLACES_SHARE)
                    found += in_groups(settings, {**place.where, "adversary": adversary}, training, **cell)
        return found

    def claims(self, settings: Thm2Settings) -> list[Claim]:
        """Return what the theorem says, condition by condition, and what iclab found instead."""
        return [*_inside(settings), *_strength(settings), *_patterns(settings), *_lengths(settings), *_leak(settings)]

    def table(self, rows: list[Row], settings: Thm2Settings) -> list[dict[str, Any]]:
        """Return one line per place."""
        lines = []
        for place in settings.places():
            line = {"sweep": place.sweep, "p_a": f"{place.train_fraction:g}", "l_tr": str(place.train_length)}
            line |= {"α": f"{place.fraction:g}", "l_ts": str(place.length), "κ_a'": f"{place.strength:.3g}"}
            line |= {"Σλ": f"{sum(place.mixtures[0].weights):.2g}", "x": f"{place.x:g}"}
            labels, places = (proportion(rows, **place.where, adversary=name) for name in ("labels", "places"))
            line["error"] = "–" if labels is None else labels.short()
            line["error"] += f" ({places.mean:.4f})" if places is not None and places.mean is not None else ""
            line["α^l"] = f"{place.floor:.4f}"
            good = [leak for leak in leaks(rows, place).values() if leak is not None]
            line["σ_out/σ_clean"] = f"{sum(good) / len(good):.4f}" if good else "–"
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: Thm2Settings) -> Figure:
        """Draw nine panels: the random settings, a sweep for each condition, and the collapse."""
        return draw(rows, settings)


Rule = Callable[..., Judgement]


def _excess(
    settings: Thm2Settings, places: Sequence[Place], rule: Rule, *margins: float, adversary: str = "labels"
) -> Judge:
    """Judge the error minus α^l at some places of one sweep."""

    def points(rows: list[Row]) -> list[Point] | None:
        mine = select(rows, places[0].sweep, adversary) if places else []
        return beyond_floor(mine, settings.seeds, places, adversary)

    return judged(points, rule, *margins)


def _small(settings: Thm2Settings, id_: str, paper: str, where: str, places: Sequence[Place], **more: Any) -> Claim:
    """Claim that the error minus α^l is small at some places; in direction, that it is not large."""
    adversary = more.pop("adversary", "labels")
    return Claim(
        f"M-thm2.{id_}",
        paper,
        f"worst-case error − α^l < {SMALL} {where}",
        _excess(settings, places, every_below, SMALL, adversary=adversary),
        models=("mamba",),
        direction=Direction(f"< {LARGE}", _excess(settings, places, every_below, LARGE, adversary=adversary)),
        **more,
    )


def _inside(settings: Thm2Settings) -> list[Claim]:
    drawn, printed = settings.drawn(), of(settings, "printed")
    known = [place for place in drawn if place.fraction <= place.train_fraction]
    where = f"at {len(drawn)} random settings inside Theorem 2"
    restored = f"{where}, (b) as κ_a' L ≥ κ_a"
    fewer = f"at those {len(known)} of them with α ≤ p_a"
    return [
        _small(settings, "inside", "Theorem 2, with (b) as its proof has it in (61)", f"{restored}, R", drawn),
        _small(
            settings,
            "inside-places",
            "the same for any order of the examples (below (61))",
            f"{restored}, worst places",
            drawn,
            adversary="places",
        ),
        _small(settings, "printed", "Theorem 2, with (b) as printed", f"{where}, κ_a' = κ_a, R", printed),
        _small(settings, "known", "so it is while α is at most that of the training", fewer, known, ours=True),
        _small(
            settings,
            "known-places",
            "and with the worst places too",
            f"{fewer}, worst places",
            known,
            adversary="places",
            ours=True,
        ),
    ]


def _strength(settings: Thm2Settings) -> list[Claim]:
    def alike(*, restored: bool) -> Judge:
        values = partial(spread_over_sums, settings=settings, restored=restored)
        fate = f"never get below {CROSSED:g}"
        return judged(mean_point(settings.seeds, lambda rows: values(rows), fate=fate), every_below, ALIKE)

    sums = f"Σλ = {listed(settings.sums)}; κ* is the κ_a' from which on the error is below {CROSSED}, seed by seed"
    return [
        Claim(
            "M-thm2.restored",
            "(b) is a condition on κ_a' L: errors at different Σλ are one curve in κ_a' Σλ",
            f"range of log(κ* Σλ) over {sums} < {ALIKE}",
            alike(restored=True),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-thm2.strength",
            "(b) is a condition on κ_a', the same for every L",
            f"range of log κ* over {sums} < {ALIKE}",
            alike(restored=False),
            models=("mamba",),
        ),
    ]


def _patterns(settings: Thm2Settings) -> list[Claim]:
    c, u = listed(settings.imbalances), listed(settings.outside_norms)
    positive = [place for place in of(settings, "sum") if place.x <= 0]
    return [
        _small(
            settings,
            "mixtures",
            "(a): any λ with Σλ ≥ L will do",
            f"with λ = (c, −c, {settings.smallest_sum:g}) and its turns, c = {c}",
            of(settings, "imbalance"),
        ),
        _small(
            settings,
            "variations",
            "tests may contain an unbounded number of outlier variations (§3.2)",
            f"for every one of {settings.variations} random λ with Σλ = {settings.smallest_sum:g}, half of them "
            "positive, ‖λ‖ ≤ 1",
            of(settings, "variation"),
        ),
        _small(
            settings,
            "outside",
            "(a): any u orthogonal to all patterns will do",
            f"at ‖u‖/β = {u}",
            of(settings, "outside"),
        ),
        Claim(
            "M-thm2.sum",
            "Σλ > 0 is needed",
            f"worst-case error − α^l > {LARGE} at Σλ = {listed(place.x for place in positive)}",
            _excess(settings, positive, every_above, LARGE),
            models=("mamba",),
            ours=True,
        ),
    ]


def _lengths(settings: Thm2Settings) -> list[Claim]:
    one, short = of(settings, "one"), of(settings, "short")
    beyond = [place for place in of(settings, "length", f"{settings.outlier_fraction:g}") if _outside_c(place)]
    where = f"at α = {settings.outlier_fraction:g}, l_ts = {listed(place.length for place in beyond)}, outside (c)"
    length = one[0].length if one else 0
    return [
        _small(settings, "length", "(c) is not needed", f"{where}, R", beyond, ours=True),
        _small(
            settings,
            "length-places",
            "nor is it with the worst places",
            f"{where}, worst places",
            beyond,
            adversary="places",
            ours=True,
        ),
        _small(
            settings,
            "one",
            "α can be close to 1 if p_a l_tr/l_ts ≥ 1 (Remark 3)",
            f"at l_ts = p_a l_tr = {length}, α = {listed(place.x for place in one)}",
            one,
        ),
        Claim(
            "M-thm2.floor",
            "of short prompts only those without a clean example are lost, whatever l_ts",
            f"|worst-case error − α^l| < {SMALL} at l_ts = {listed(settings.short_lengths)}, "
            f"α = {listed(settings.short_fractions)}",
            _excess(settings, short, every_within, -SMALL, SMALL),
            models=("mamba",),
            ours=True,
        ),
    ]


def _outside_c(place: Place) -> bool:
    return place.fraction >= mamba_outlier_bound(place.train_fraction, place.train_length, place.length)


def _leak(settings: Thm2Settings) -> list[Claim]:
    leaky = [place for place in settings.places() if "gates" in place.adversaries]

    def side(low: float, high: float) -> Callable[[list[Row]], list[Point] | None]:
        def points(rows: list[Row]) -> list[Point] | None:
            found = {place: mean_leak(rows, place) for place in leaky}
            if any(leak is None for leak in found.values()):
                return None
            kept = [place for place, leak in found.items() if leak is not None and low <= leak < high]
            mine = [row for row in rows if row["adversary"] == "places"]
            return beyond_floor(mine, settings.seeds, kept, "places")

        return points

    below, above = judged(side(0.0, LITTLE), every_below, SEEN), judged(side(MUCH, math.inf), every_above, SEEN)
    x = "l_ts α σ_out/σ_clean"
    return [
        Claim(
            "M-thm2.leak-little",
            f"worst places do no harm while {x} is small",
            f"error at worst places − α^l < {SEEN} at every setting with {x} < {LITTLE}",
            below,
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-thm2.leak-much",
            "and they do once it is above one",
            f"error at worst places − α^l > {SEEN} at every setting with {x} > {MUCH:g}",
            above,
            models=("mamba",),
            ours=True,
        ),
    ]
