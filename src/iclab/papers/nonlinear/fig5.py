"""T-fig5: how many neurons can be pruned, and which, and how much context helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean, median
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field

from iclab.papers.nonlinear.neurons import by_seed
from iclab.papers.nonlinear.settings import LARGEST_SUM, NonlinearPaper
from iclab.probes import Pruning, Row
from iclab.study.charts import DOTTED, FAINT, INK, PALETTE, Axis, Figure, Panel, Series, reference, shaded, shades
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import errors, listed, mean_text, paired_points, proportion, values
from iclab.study.settings import Chosen, Different, Disclosed

FREE = 0.15
"""The paper: pruning is free "if the pruning rate is lower than around 15 %, which is the ratio of W_O neurons with a
small magnitude"."""
NOTHING = 0.002
"""Free is read as: the error moves by less than this."""
MUCH = 0.01
"""Hurting is read as: the error moves by more than this."""
SLOPE = 0.5
"""Theorem 3.7 bounds the hinge loss: Ω(R) is read as more than this times R."""
LITTLE = 0.05
"""O(ε + M1^(−1/2)) is read as: below this."""
SPLIT = 0.5
"""The paper does not say which magnitudes of W_O are small. Read as: at most this share of the seed's median."""
ALL = 1.0
"""The rate that takes out all small neurons."""


class Way(NamedTuple):
    """A way to prune, with a curve of its own."""

    name: str
    options: dict[str, Any]


WAYS = {
    "smallest": Way("smallest rows of W_O W_V first", {"order": "smallest"}),
    "smallest-hidden": Way("smallest rows of W_O first", {"order": "smallest", "by": "hidden"}),
    "random": Way("at random", {"order": "random"}),
    "largest": Way("largest rows of W_O W_V first", {"order": "largest"}),
    "largest-balanced": Way("largest first, both signs alike", {"order": "largest", "balanced": True}),
    "large": Way("large ones at random", {"order": "random", "among": "large"}),
    "small": Way("small ones at random", {"order": "random", "among": "small"}),
}
"""What is pruned, and in which order; the last two are the sets of Theorem 3.7."""

LOOKS = {way: Series(WAYS[way].name, colour) for way, colour in zip(WAYS, (*PALETTE, INK), strict=False)}
"""How the ways to prune are drawn, but for the last, which has one point alone."""
SHARE = Axis("share of neurons taken out", domain=(0, 1))
BARS = shaded("right axis: rows of W_O W_V", "#56B4E9", 0.28)
HIDDEN = reference("right axis: rows of W_O", (), FAINT)

Place = tuple[str, float, float]
"""A way, a rate and an α'."""
Rates = Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1), Different]


class PruningSettings(NonlinearPaper):
    """Settings of T-fig5."""

    relevant_fraction: Annotated[float, Field(gt=0, le=1), Disclosed("α, T §5.1")] = 0.6
    rates: Annotated[Rates, Chosen("R of Figure 5 a; 0 is the paper's baseline", grid=True)] = (
        0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95,
    )  # fmt: skip
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=2),
        Different,
        Chosen("α', Figure 5 b", grid=True),
    ] = (0.4, 0.6, 0.8)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and point", grid=True)] = 4_000

    def quick(self) -> Self:
        """Return the quick edition: fewer rates and prompts."""
        fewer = tuple(rate for rate in self.rates if rate in (0.0, 0.15, 0.3, 0.5, 0.7, 0.9)) or self.rates
        return super().quick().replace(rates=fewer, test_prompts=min(self.test_prompts, 1_000))


class Pruned(Experiment[PruningSettings]):
    """Error against the share of neurons taken out."""

    id = "T-fig5"
    title = "Error out of domain of a pruned Transformer"
    paper = (
        "Magnitude-based pruning does not hurt out-of-domain generalization up to a rate of about 15 %, the share of "
        "neurons with a small magnitude; pruning neurons with large weights raises the error with the rate; a larger "
        "α' improves the pruned model."
    )
    reading = (
        "(A) The error out of domain (S1 = 1.28) against the share of neurons taken out, for several ways to choose "
        "them; bars show the lengths of all rows of W_O W_V in order, the thin line those of W_O. (B) The hinge loss, "
        "which the theorem bounds: it rises with the share long before answers change their sign. (C) Smallest first, "
        "for several α'. Means over seeds; bands in (B) and (C) run from the lowest to the highest seed. Dotted: 15 %."
    )
    theorems = ("T-thm3.7",)
    settings = PruningSettings

    def conditions(self, settings: PruningSettings) -> list[Condition]:
        """One training: its neurons, and its error for every way, rate and α'."""
        training = settings.training()
        blank = dict.fromkeys(("way", "rate", "fraction", "step"))
        found = in_groups(
            settings,
            {**blank, "probe": "neurons", "step": settings.steps},
            training,
            probe="neurons",
            prompts=settings.prompts(),
            count=1,
        )
        for way, rate, fraction in _points(settings):
            found += in_groups(
                settings,
                {**blank, "probe": "error", "way": way, "rate": rate, "fraction": fraction},
                training,
                probe="error",
                prompts=settings.out_of_domain(LARGEST_SUM, relevant_fraction=fraction),
                count=settings.test_prompts,
                pruning=Pruning(rate=rate, **WAYS[way].options),
            )
        return found

    def claims(self, settings: PruningSettings) -> list[Claim]:
        """What is free, what is not, and what α' does."""
        return [
            *_free_claims(settings),
            *_harm_claims(settings),
            *_loss_claims(settings),
            _fraction_claim(settings),
        ]

    def table(self, rows: list[Row], settings: PruningSettings) -> list[dict[str, Any]]:
        """One line per way, rate and α'."""
        lines = []
        for way, rate, fraction in _points(settings):
            where = {"probe": "error", "way": way, "rate": rate, "fraction": fraction}
            p = proportion(rows, **where)
            lines.append(
                {
                    "pruned": WAYS[way].name,
                    "rate": f"{rate:g}",
                    "α'": f"{fraction:g}",
                    "error": "–" if p is None else p.short(),
                    "hinge loss": mean_text(rows, "hinge", **where),
                }
            )
        return lines

    def chart(self, rows: list[Row], settings: PruningSettings) -> Figure:
        """Three panels: error and hinge loss for each way to prune, and the error for each α'."""
        usual = settings.relevant_fraction
        panels = [
            _ways_panel(
                rows, settings, "error", f"A  which neurons go (α' = {usual:g})", _lengths_panel(rows, settings)
            ),
            _ways_panel(rows, settings, "hinge", f"B  the same, hinge loss (α' = {usual:g})"),
            _fractions_panel(rows, settings),
        ]
        return Figure(panels, width=290)


def _panel(title: str, what: str, curves: list[list[BySeed]], behind: Panel | None = None) -> Panel:
    """Return an empty panel that is high enough for these curves."""
    numbers = [n for curve in curves for found in curve for n in found.values() if n is not None]
    top = 1.03 * max([0.05, *numbers])
    panel = Panel(title, x=SHARE, y=Axis(f"{what} out of domain", domain=(0, top)), height=240, behind=behind)
    panel.rule(x=FREE, dash=DOTTED)
    return panel


def _ways_panel(
    rows: list[Row], settings: PruningSettings, column: str, title: str, behind: Panel | None = None
) -> Panel:
    rates = sorted(settings.rates)
    curves = []
    for way in LOOKS:
        where = {"probe": "error", "way": way, "fraction": settings.relevant_fraction}
        curves.append([values(rows, column, **where, rate=rate) for rate in rates])
    panel = _panel(title, "error" if column == "error" else "hinge loss", curves, behind)
    for series, found in zip(LOOKS.values(), curves, strict=True):
        panel.curve(series, rates, found, band=behind is None)  # which would hide the bars
    return panel


def _fractions_panel(rows: list[Row], settings: PruningSettings) -> Panel:
    rates, fractions = sorted(settings.rates), _fractions_of(settings)
    curves = []
    for fraction in fractions:
        where = {"probe": "error", "way": "smallest", "fraction": fraction}
        curves.append([errors(rows, **where, rate=rate) for rate in rates])
    panel = _panel("C  smallest first", "error", curves)
    for fraction, colour, found in zip(fractions, shades(len(fractions), ordered=True), curves, strict=True):
        panel.curve(Series(f"α' = {fraction:g}", colour, mark="square"), rates, found)
    return panel


def _lengths_panel(rows: list[Row], settings: PruningSettings) -> Panel | None:
    """Return all neurons in order of length, as the paper shows them, for two lengths; None without any."""
    seeds = [mine for mine in by_seed(rows, settings.steps).values() if mine]
    if not seeds:
        return None
    panel = Panel(x=SHARE, y=Axis("length of rows, in order"))
    for column in ("length", "hidden_length"):
        ordered = [sorted(row[column] for row in mine) for mine in seeds]
        heights = [mean(numbers) for numbers in zip(*ordered, strict=True)]
        width = 1.0 / len(heights)
        if column == "length":
            panel.bars(BARS, [i * width for i in range(len(heights) + 1)], heights)
        else:
            panel.line(HIDDEN, [(i + 0.5) * width for i in range(len(heights))], heights)
    return panel


def _moved(settings: PruningSettings, way: str, rates: list[float]) -> list[tuple[Place, Place]]:
    """Return pairs of a pruned and the unpruned model."""
    usual = settings.relevant_fraction
    return [((way, rate, usual), ("smallest", 0.0, usual)) for rate in rates]


def _many(settings: PruningSettings) -> list[float]:
    return [rate for rate in settings.rates if 0.5 <= rate <= 0.95]


def _free_claims(settings: PruningSettings) -> list[Claim]:
    free = [rate for rate in settings.rates if 0 < rate <= FREE]
    claims = [
        Claim(
            f"T-fig5.free.{way}",
            "magnitude-based pruning does not hurt up to a rate of about 15 % (Figure 5 a)",
            f"error − error unpruned < {NOTHING} at rates {listed(free)}, paired by seed; {WAYS[way].name}",
            judged(_differences(settings, _moved(settings, way, free)), every_below, NOTHING),
        )
        for way in ("smallest", "smallest-hidden")
    ]
    small = mean_point(settings.seeds, partial(_small_share, settings=settings))
    return [
        *claims,
        Claim(
            "T-fig5.small-share",
            "around 15 % of the neurons of W_O have a small magnitude (Figure 5 a)",
            f"the share of rows of W_O no longer than {SPLIT} × the median is between 0.10 and 0.20",
            judged(small, every_within, 0.1, 0.2),
        ),
    ]


def _harm_claims(settings: PruningSettings) -> list[Claim]:
    many, usual = _many(settings), settings.relevant_fraction
    random = [(("random", rate, usual), ("smallest", rate, usual)) for rate in many]
    beyond = [
        Claim(
            f"T-fig5.beyond.{way}",
            "beyond the small neurons, the error increases with the pruning rate (Figure 5 a, magnitude-based)",
            f"error − error unpruned > {MUCH} at rates {listed(many)}, paired by seed; {WAYS[way].name}",
            judged(_differences(settings, _moved(settings, way, many)), every_above, MUCH),
            direction=Direction(
                f"> 0 at {listed(many[-1:])}",
                judged(_differences(settings, _moved(settings, way, many[-1:])), every_above, 0.0),
            ),
        )
        for way in ("smallest", "smallest-hidden")
    ]
    return [
        *beyond,
        Claim(
            "T-fig5.largest",
            "pruning the largest neurons first, which the paper's figure does not show, raises the error",
            f"error − error unpruned > {MUCH} at rates {listed(many)}, paired by seed; {WAYS['largest'].name}",
            judged(_differences(settings, _moved(settings, "largest", many)), every_above, MUCH),
            ours=True,
        ),
        Claim(
            "T-fig5.largest-balanced",
            "so it does if both signs lose as many",
            f"error − error unpruned > {MUCH} at rates {listed(many)}, {WAYS['largest-balanced'].name}",
            judged(_differences(settings, _moved(settings, "largest-balanced", many)), every_above, MUCH),
            ours=True,
        ),
        Claim(
            "T-fig5.random",
            "random pruning hurts more than magnitude-based pruning at the same rate",
            f"error at random − error smallest first > 0 at rates {listed(many)}, paired by seed",
            judged(_differences(settings, random), every_above, 0.0),
            ours=True,
        ),
    ]


def _loss_claims(settings: PruningSettings) -> list[Claim]:
    some = [rate for rate in settings.rates if 0.1 <= rate <= 0.5]
    return [
        Claim(
            "T-fig5.loss.large",
            "pruning a share R of the neurons, all of them in L, costs a loss of Ω(R) (Theorem 3.7 (16))",
            f"(hinge loss − unpruned) / R > {SLOPE} at rates {listed(some)}, paired by seed; {WAYS['large'].name}",
            judged(_differences(settings, _moved(settings, "large", some), "hinge"), every_above, SLOPE),
        ),
        Claim(
            "T-fig5.loss.small",
            "pruning all neurons outside L costs next to no loss (Theorem 3.7 (15))",
            f"hinge loss − unpruned < {LITTLE} with all of them gone, paired by seed",
            judged(_differences(settings, _moved(settings, "small", [ALL]), "hinge"), every_below, LITTLE),
        ),
    ]


def _fraction_claim(settings: PruningSettings) -> Claim:
    low, *_, high = _fractions_of(settings)
    pairs = [(("smallest", rate, low), ("smallest", rate, high)) for rate in settings.rates if 0 < rate <= 0.5]
    return Claim(
        "T-fig5.fraction",
        "a larger α' improves the pruned model (Figure 5 b)",
        "error at the smallest α' − at the largest > 0 at rates up to 0.5, smallest first, paired by seed",
        judged(_differences(settings, pairs), every_above, 0.0),
    )


def _fractions_of(settings: PruningSettings) -> list[float]:
    return sorted({settings.relevant_fraction, *settings.test_fractions})


def _points(settings: PruningSettings) -> list[tuple[str, float, float]]:
    """Return every measured (way, rate, α'): all ways at the usual α', smallest first at the others."""
    usual = settings.relevant_fraction
    others = [fraction for fraction in _fractions_of(settings) if fraction != usual]
    points = [("smallest", 0.0, usual), ("small", ALL, usual)]
    points += [(way, rate, usual) for way in WAYS for rate in settings.rates if way != "small"]
    points = list(dict.fromkeys(points))
    return points + [("smallest", rate, fraction) for fraction in others for rate in settings.rates]


def _differences(
    settings: PruningSettings, pairs: list[tuple[Place, Place]], column: str = "error"
) -> Callable[[list[Row]], list[Point] | None]:
    """Return error at one place − error at another, for each pair, on paired seeds; of the hinge loss, divided by R."""

    def at(rows: list[Row], place: Place, share: float) -> BySeed:
        way, rate, fraction = place
        found = values(rows, column, probe="error", way=way, rate=rate, fraction=fraction)
        return {seed: value if value is None else value / share for seed, value in found.items()}

    def points(rows: list[Row]) -> list[Point] | None:
        named = []
        for first, second in pairs:
            rate = first[1]
            share = rate if column == "hinge" and rate < ALL else 1.0
            named.append((f"rate {rate:g}", at(rows, first, share), at(rows, second, share)))
        return paired_points(named, settings.seeds)

    return points


def _small_share(rows: list[Row], settings: PruningSettings) -> BySeed:
    """Return each seed's share of neurons whose row of W_O is small; None where it diverged."""
    found: BySeed = {}
    for seed, neurons in by_seed(rows, settings.steps).items():
        lengths = [neuron["hidden_length"] for neuron in neurons]
        small = [length for length in lengths if length <= SPLIT * median(lengths)]
        found[seed] = len(small) / len(lengths) if lengths else None
    return found
