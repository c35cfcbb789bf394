"""M-cor2: the trained gate suppresses outliers and prefers near examples, Corollary 2, (17) and (18)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import Field

from iclab.papers.mamba.late import LateSettings, at_multiples, logit, predicted_gate
from iclab.papers.mamba.lemmas import Counts, Values, draw_means, mean_of, points_of, quotient, scaled
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, Axis, Figure, Panel, Series, reference, shades
from iclab.study.claims import BySeed, Claim, Direction, Point, every_above, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_claim, exponent_point
from iclab.study.rows import lost, values
from iclab.study.settings import Chosen

POLYNOMIAL = -0.5
"""(17): outlier gates fall at least like this power of M1."""
HALF = 0.5
"""(18): each clean example has at least this part of the gate of the one before it."""
RANKS = 8
ALIKE = 0.25
"""How far slopes in M1, divided by κ_a, may differ."""
PRINTED = reference("2^−(j+1): as before training", DASHED)
GEOMETRIC = reference("σ (1 − σ)^j with σ of the mean field (F)", dash=())
LARGEST = reference("σ_outlier (1 − σ_query) of (F), κ_a = 2", DASHED, "#D55E00")
POWER = reference("∝ M1^−½", DOTTED)


class GateSettings(LateSettings):
    """Trainings over M1 and κ_a, over l_tr, and tests over α."""

    scales: Annotated[Values, Chosen("κ_a of the sweep", grid=True)] = (1.0, 2.0, 4.0)
    lengths: Annotated[Counts, Chosen("l_tr = l_ts", grid=True)] = (10, 20, 40, 80, 160, 320)
    test_fractions: Annotated[Values, Chosen("α of the tests of (18)", grid=True)] = (0.0, 0.3, 0.6)
    last: Annotated[int, Field(ge=1), Chosen("the longest training at the base setting, in T_M", grid=True)] = 16

    def quick(self) -> GateSettings:
        """Return the quick edition: shorter prompts, a shorter training."""
        short = tuple(length for length in self.lengths if length <= 160)
        return super().quick().replace(last=min(self.last, 4), lengths=short or self.lengths)


class TrainedGates(Experiment[GateSettings]):
    """Gates of outliers over M1 and κ_a, and of clean examples by rank."""

    id = "M-cor2"
    title = "Gates after training"
    paper = (
        "Corollary 2: after T_M the gate of every outlier is at most O(poly(M1)⁻¹) (17), and that of the j-th nearest "
        "clean example at least Θ(2^−(j−1)) (18)."
    )
    reading = (
        "A: the 99 % quantile of gates of outliers at T_M against M1, for three κ_a. B: mean gates of clean examples "
        "by rank, the nearest first, at several times and fractions of outliers; solid: a geometric law with "
        "the mean field's σ. C: the gate of the nearest clean example against the length of prompts."
    )
    caption = "mean ± half of the 95 % interval over seeds"
    theorems = ("M-cor2", "M-lem5")
    settings = GateSettings

    def conditions(self, settings: GateSettings) -> list[Condition]:
        """Return outlier gates over M1 and κ_a, ranks over α and time, and the nearest clean gate over l."""
        found: list[Condition] = []
        few = min(settings.test_prompts, 300)
        for scale in settings.scales:
            for m in settings.relevants:
                training = settings.replace(relevant=m, outlier_scale=scale).usual(1)
                where = {"sweep": "outliers", "value": m, "scale": scale, "times": 1}
                found += in_groups(settings, where, training, probe="logits", prompts=training.prompts, count=few)
        for alpha in settings.test_fractions:
            where = {"sweep": "ranks", "value": alpha, "scale": None}
            prompts = settings.prompts(fraction=alpha)
            more: dict[str, Any] = {"probe": "gates", "count": settings.test_prompts, "prompts": prompts}
            found += at_multiples(settings, settings, where, settings.last, **more)
        for length in settings.lengths:
            own = settings.replace(context_length=length)
            training = own.usual(1)
            where = {"sweep": "lengths", "value": length, "scale": None, "times": 1}
            count = max(20, min(settings.test_prompts, 20_000 // length))
            found += in_groups(settings, where, training, probe="gates", prompts=training.prompts, count=count)
        return found

    def claims(self, settings: GateSettings) -> list[Claim]:
        """Claim (17) and (18)."""
        n = settings.seeds

        def slopes(scale: float) -> Callable[[list[Row]], BySeed]:
            return lambda rows: PowerLaw(_outliers(rows, settings, scale)).exponent

        def alike(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
            first = scaled(slopes(settings.scales[0])(rows), 1 / settings.scales[0])
            for scale in settings.scales[1:]:
                yield f"κ_a = {scale:g}", quotient(scaled(slopes(scale)(rows), 1 / scale), first)

        def steeper(rows: list[Row]) -> list[Point] | None:
            first = slopes(settings.scales[0])(rows)
            return points_of(
                ((f"κ_a = {scale:g}", quotient(slopes(scale)(rows), first)) for scale in settings.scales[1:]), n
            )

        def ratios(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
            for alpha in settings.test_fractions:
                for times in (times for times in settings.multiples if times <= settings.last):
                    for j in range(1, RANKS):
                        near, far = (_rank(rows, "ranks", alpha, times, place) for place in (j, j + 1))
                        yield f"α = {alpha:g}, {times} T_M, rank {j}", quotient(far, near)

        base = min(settings.scales, key=lambda scale: abs(scale - settings.outlier_scale))
        return [
            Claim(
                "M-cor2.outliers",
                "(17): gates of outliers are at most O(poly(M1)⁻¹)",
                f"exponent in M1 of the 99 % quantile at T_M below {POLYNOMIAL:g}, κ_a = {base:g}",
                judged(exponent_point(n, lambda rows: _outliers(rows, settings, base)), every_below, POLYNOMIAL),
            ),
            Claim(
                "M-cor2.kappa",
                "(45), (59): gates of outliers are M1 to a power that is proportional to κ_a",
                f"that exponent / κ_a, compared with κ_a = {settings.scales[0]:g}, within {ALIKE:g} of 1",
                judged(lambda rows: points_of(alike(rows), n), every_within, 1 - ALIKE, 1 + ALIKE),
                direction=Direction("the exponent is steeper with a larger κ_a", judged(steeper, every_above, 1.0)),
            ),
            Claim(
                "M-cor2.halving",
                "(18): gates of clean examples fall by at most a factor of 2 from one to the next",
                f"gate of rank j + 1 / rank j above {HALF:g} for j below {RANKS}, every α and multiple of T_M",
                judged(lambda rows: points_of(ratios(rows), n), every_above, HALF),
            ),
            exponent_claim(
                "M-cor2.nearest",
                "(18), (81): the gate of the nearest clean example is Θ(1), whatever the length of prompts",
                lambda rows: {length: _rank(rows, "lengths", length, 1, 1) for length in settings.lengths},
                0.0,
                seeds=n,
                where="exponent in l_tr at T_M",
            ),
        ]

    def table(self, rows: list[Row], settings: GateSettings) -> list[dict[str, Any]]:
        """Return one line per setting."""
        lines = []
        for scale in settings.scales:
            found = _outliers(rows, settings, scale)
            for m, by_seed in found.items():
                lines.append(_line(f"κ_a = {scale:g}, M1 = {m:g}", "outliers, 99 % quantile", mean_of(by_seed)))
            lines.append(_line(f"κ_a = {scale:g}", "its exponent in M1", PowerLaw(found).text()))
        for length in settings.lengths:
            near = _rank(rows, "lengths", length, 1, 1)
            lines.append(_line(f"l_tr = {length}", "nearest clean example", mean_of(near)))
        return lines

    def chart(self, rows: list[Row], settings: GateSettings) -> Figure:
        """Draw outlier gates over M1, clean gates by rank, and the nearest one over l."""
        return Figure([_a(rows, settings), _b(rows, settings), _c(rows, settings)], columns=3, width=250)


def _line(setting: str, gate: str, number: str) -> dict[str, Any]:
    return {"setting": setting, "gate": gate, "measured": number}


def _outliers(rows: list[Row], settings: GateSettings, scale: float) -> dict[float, BySeed]:
    """Return the 99 % quantile of outlier gates at T_M by M1."""
    return {
        m: logit(rows, "outlier", "gate", "q99", sweep="outliers", value=m, scale=scale) for m in settings.relevants
    }


def _rank(rows: list[Row], sweep: str, value: float, times: int, place: int) -> BySeed:
    """Return the mean gate of the clean example of a rank, 1 being the nearest."""
    where = {"sweep": sweep, "value": value, "times": times}
    return lost(rows, **where) | values(rows, "gate", **where, kind="clean_rank", place=place)


def _a(rows: list[Row], settings: GateSettings) -> Panel:
    ticks = {float(m): str(m) for m in (4, 8, 16, 32)}
    panel = Panel(
        "A  outliers at T_M",
        x=Axis("relevant patterns M1", domain=(3.4, 38.0), scale="log", ticks=ticks),
        y=Axis("gate, 99 % quantile", domain=(1e-4, 1.0), scale="log"),
    )
    ms = list(settings.relevants)
    panel.line(POWER, ms, [0.5 * (ms[0] / m) ** 0.5 for m in ms])
    law = []
    for m in ms:
        clean, outlier = (1 / (1 + math.exp(-x)) for x in predicted_gate(settings.replace(relevant=m), 1, 1))
        law.append(outlier * (1 - clean))
    panel.line(LARGEST, ms, law)
    for colour, scale in zip(shades(len(settings.scales), ordered=True), settings.scales, strict=True):
        series = Series(f"κ_a = {scale:g}", colour, line=False)
        draw_means(panel, series, _outliers(rows, settings, scale), positive=True)
    return panel


def _b(rows: list[Row], settings: GateSettings) -> Panel:
    panel = Panel(
        "B  clean examples by rank",
        x=Axis("rank j, nearest first", domain=(0.5, RANKS + 0.5), ticks=list(range(1, RANKS + 1))),
        y=Axis("mean gate", domain=(1e-3, 1.0), scale="log"),
    )
    ranks = list(range(1, RANKS + 1))
    panel.line(PRINTED, ranks, [2.0 ** -(j + 1) for j in ranks])
    share = 1 / (1 + math.exp(-predicted_gate(settings, 1, settings.last)[0]))
    panel.line(GEOMETRIC, ranks, [share * (1 - share) ** j for j in ranks])
    shown = [times for times in settings.multiples if times <= settings.last]
    looks = [(alpha, times) for alpha in settings.test_fractions for times in dict.fromkeys((1, shown[-1]))]
    for colour, (alpha, times) in zip(shades(len(looks), ordered=True), looks, strict=True):
        series = Series(f"α = {alpha:g}, {times} T_M", colour, line=False, hollow=times > 1)
        draw_means(panel, series, {j: _rank(rows, "ranks", alpha, times, j) for j in ranks}, positive=True)
    return panel


def _c(rows: list[Row], settings: GateSettings) -> Panel:
    ticks = {float(length): str(length) for length in (10, 20, 40, 80, 160, 320)}
    panel = Panel(
        "C  nearest clean example at T_M",
        x=Axis("length of prompts l_tr = l_ts", domain=(8.0, 400.0), scale="log", ticks=ticks),
        y=Axis("mean gate", domain=(0.0, 0.3)),
    )
    law = []
    for length in settings.lengths:
        share = 1 / (1 + math.exp(-predicted_gate(settings.replace(context_length=length), 1, 1)[0]))
        law.append(share * (1 - share))
    panel.line(GEOMETRIC, list(settings.lengths), law)
    series = Series("nearest clean example", "#0072B2", line=False)
    draw_means(panel, series, {length: _rank(rows, "lengths", length, 1, 1) for length in settings.lengths})
    return panel
