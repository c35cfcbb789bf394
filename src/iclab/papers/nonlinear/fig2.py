"""T-fig2: what happens inside T's Transformer in training: keys and queries, attention, neurons."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.nonlinear.neurons import by_seed, groups_of, large_share, small_lengths
from iclab.papers.nonlinear.settings import LARGEST_SUM, NonlinearPaper
from iclab.probes import LARGE, Row
from iclab.study.charts import PALETTE, SPARE, Axis, Figure, Panel, Series
from iclab.study.claims import BySeed, Claim, every_above, every_below, every_within, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import bound_claim
from iclab.study.rows import difference, listed, lost, mean_text, values
from iclab.study.settings import Chosen, Different

CLOSE = 0.9
"""The paper: the part along the pattern "is close to" the whole norm. Read as: at least this share of it."""
ATTENTION = 0.8
"""Corollary 4.3: 1 − Θ(M1^−C). Read as: above this."""
ANGLE = 10.0
"""Proposition 4.5: cosines of 1 − Θ(1/M2) and 1 − Θ(1/M1). Read as: on average within this many degrees."""
NAMES = {"query": "W_Q p_query", "key": "W_K p_i"}
ATTENDED = {"same": "the query's pattern", "other": "other patterns"}
DOMAINS = {"out": "out of domain", "in": "in domain"}
LOOKS = {
    "query": Series("W_Q p_query, along its pattern", PALETTE[0], width=3.4, size=70.0),
    "key": Series("W_K p_i, along its pattern", PALETTE[1], width=1.2, size=16.0),
}
"""Keys are drawn over queries, which they resemble."""
NONE_LEFT = "diverged or have none"
SIZES = "neurons by M2"
"""The name of the measurements over M2."""
SIGNS = {
    1.0: Series("neurons with a > 0", SPARE[0], size=14.0, width=1.0),
    -1.0: Series("neurons with a < 0", PALETTE[4], size=14.0, width=1.0),
}


class MechanismSettings(NonlinearPaper):
    """Settings of T-fig2."""

    irrelevants: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("M2 over a factor of 8, for the order in M2 of (14); d_X and m_a grow with it", grid=True),
    ] = (6, 12, 18, 24, 48)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and step", grid=True)] = 2_000
    shown: Annotated[
        int, Field(ge=1), Chosen("neurons of each sign drawn as lines: the first of seed 0; the paper draws 5")
    ] = 5

    def quick(self) -> Self:
        """Return the quick edition: fewer prompts."""
        return super().quick().replace(test_prompts=min(self.test_prompts, 500))

    def with_irrelevant(self, count: int) -> NonlinearPaper:
        """Return the settings with M2 = ``count``, in as many dimensions as that takes."""
        dimension = max(self.dimension, self.relevant + count)
        size = self.attention_size + dimension - self.dimension
        return self.as_kind(NonlinearPaper, irrelevant=count, dimension=dimension, attention_size=size, watched=1)


class Mechanism(Experiment[MechanismSettings]):
    """Alignment, attention and neurons over training."""

    id = "T-fig2"
    title = "What the one-layer Transformer learns"
    paper = (
        "W_Q p and W_K p grow and turn to the relevant pattern of p; attention concentrates on examples with the "
        "query's pattern; most neurons turn to the mean pattern and to ±q."
    )
    reading = (
        "Out of domain with S1 = 1.28, as in the paper. (A) Mean length of W_Q p_query and W_K p_i, and its part along "
        "the pattern of p. (B) Attention on examples with the query's pattern. (C), (D) Each dot is a neuron after "
        "training: the length of its row of W_O W_V, in the features and in the label, against the angle to the mean "
        "pattern and to q or −q by its sign. Lines are the paths of single neurons in training. Curves in (A) and (B) "
        "are means over seeds; bands run from the lowest to the highest seed."
    )
    theorems = ("T-prop4.1", "T-cor4.3", "T-prop4.5")
    settings = MechanismSettings

    def conditions(self, settings: MechanismSettings) -> list[Condition]:
        """Three probes of one training at every kept step."""
        found = []
        prompts = {"out": settings.out_of_domain(LARGEST_SUM), "in": settings.prompts(tasks=settings.unseen())}
        for step in settings.kept_steps():
            for probe, domain in (("alignment", "out"), ("alignment", "in"), ("attention", "out"), ("neurons", "out")):
                count = 1 if probe == "neurons" else settings.test_prompts
                where = {"probe": probe, "domain": domain, "step": step, "irrelevant": None}
                measurement = {"probe": probe, "prompts": prompts[domain], "count": count, "at": step}
                found += in_groups(settings, where, settings.training(), **measurement)
        for count in settings.irrelevants:
            where = {"probe": SIZES, "domain": "in", "step": settings.steps, "irrelevant": count}
            own = settings.with_irrelevant(count)
            found += in_groups(settings, where, own.training(), probe="neurons", prompts=own.prompts(), count=1)
        return found

    def claims(self, settings: MechanismSettings) -> list[Claim]:
        """Growth, alignment, attention, angles."""
        return [
            *(claim for matrix in NAMES for claim in _alignment_claims(settings, matrix)),
            _attention_claim(settings),
            *_angle_claims(settings),
            *_length_claims(settings),
        ]

    def table(self, rows: list[Row], settings: MechanismSettings) -> list[dict[str, Any]]:
        """One line per step."""
        lines = []
        for step in settings.kept_steps():
            line: dict[str, Any] = {"step": step}
            for matrix, name in NAMES.items():
                where = {"probe": "alignment", "domain": "out", "step": step, "matrix": matrix}
                line[f"‖{name}‖"] = mean_text(rows, "length", **where)
                line[f"{name}, along"] = mean_text(rows, "along", **where)
            line["attention"] = mean_text(rows, "same", probe="attention", step=step)
            for part, name in (("feature", "angle to mean µ"), ("label", "angle to ±q")):
                good = [a for a in _angle(rows, settings, part, step).values() if a is not None]
                line[f"{name}, large neurons"] = f"{sum(good) / len(good):.1f}°" if good else "–"
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: MechanismSettings) -> Figure:
        """Four panels: keys and queries, attention, and both parts of the neurons."""
        panels = [
            _alignment_panel(rows, settings),
            _attention_panel(rows, settings),
            _neurons_panel(rows, settings, "feature", "C  neurons, feature part", "angle to the mean pattern (°)"),
            _neurons_panel(rows, settings, "label", "D  neurons, label part", "angle to q (a > 0) or −q (a < 0) (°)"),
        ]
        return Figure(panels, columns=2, width=360)


def _alignment_panel(rows: list[Row], settings: MechanismSettings) -> Panel:
    steps = settings.kept_steps()
    panel = Panel("A  keys and queries", x=Axis("training step"), y=Axis("mean length"))
    for matrix, along in LOOKS.items():
        whole = along.beside(f"‖{NAMES[matrix]}‖", width=along.width)
        for column, series in (("along", along), ("length", whole)):
            where = {"probe": "alignment", "domain": "out", "matrix": matrix}
            found = [values(rows, column, **where, step=step) for step in steps]
            panel.curve(series, steps, found, band=column == "along")
    return panel


def _attention_panel(rows: list[Row], settings: MechanismSettings) -> Panel:
    steps = settings.kept_steps()
    panel = Panel("B  attention", x=Axis("training step"), y=Axis("attention", domain=(0, 1)))
    for (column, name), colour in zip(ATTENDED.items(), PALETTE[2:], strict=False):
        found = [values(rows, column, probe="attention", step=step) for step in steps]
        panel.curve(Series(f"examples with {name}", colour), steps, found)
    return panel


def _neurons_panel(rows: list[Row], settings: MechanismSettings, part: str, title: str, label: str) -> Panel:
    """One dot per neuron after training, and the paths of a few neurons of seed 0."""
    panel = Panel(title, x=Axis(label, domain=(0, 180), ticks=range(0, 181, 30)), y=Axis("length"))
    neurons = [row for row in rows if row["probe"] == "neurons" and row["neuron"] is not None]
    angle, length = f"{part}_angle", f"{part}_length"
    for sign, series in SIGNS.items():
        mine = [row for row in neurons if row["sign"] == sign]
        ends = [row for row in mine if row["step"] == settings.steps]
        panel.points(series, [row[angle] for row in ends], [row[length] for row in ends], faint=True)
        first = sorted({row["neuron"] for row in mine if row["seed"] == 0})[: settings.shown]
        for neuron in first:
            path = sorted((r for r in mine if r["seed"] == 0 and r["neuron"] == neuron), key=lambda r: r["step"])
            panel.line(series, [r[angle] for r in path], [r[length] for r in path], marks=False)
            panel.points(series, [path[-1][angle]], [path[-1][length]])
    return panel


def _alignment_claims(settings: MechanismSettings, matrix: str) -> list[Claim]:
    seeds, end, name = settings.seeds, settings.steps, NAMES[matrix]
    claims = [
        Claim(
            f"T-fig2.grows.{matrix}",
            f"the part of {name} along its pattern grows in training (Proposition 4.1)",
            "at the end − at the start > 0, mean over prompts, paired by seed",
            judged(mean_point(seeds, partial(_growth, end=end, matrix=matrix)), every_above, 0.0),
        )
    ]
    for domain, where in DOMAINS.items():
        share = partial(_share, end=end, matrix=matrix, domain=domain)
        claims.append(
            Claim(
                f"T-fig2.aligned.{matrix}.{domain}",
                f"the part of {name} along its pattern is close to its whole norm",
                f"mean part / mean norm > {CLOSE} at the end, {where}",
                judged(mean_point(seeds, share), every_above, CLOSE),
            )
        )
    return claims


def _attention_claim(settings: MechanismSettings) -> Claim:
    def same(rows: list[Row]) -> BySeed:
        return values(rows, "same", probe="attention", step=settings.steps)

    return Claim(
        "T-fig2.attention",
        "attention concentrates on examples with the query's pattern (Corollary 4.3)",
        f"attention on them > {ATTENTION} at the end, out of domain",
        judged(mean_point(settings.seeds, same), every_above, ATTENTION),
    )


def _angle_claims(settings: MechanismSettings) -> list[Claim]:
    claims = []
    for part, name in (("feature", "the mean pattern"), ("label", "q or −q by its sign")):
        angle = partial(_angle, settings=settings, part=part)
        claims.append(
            Claim(
                f"T-fig2.neurons.{part}",
                f"neurons align with {name} (Proposition 4.5)",
                f"mean angle < {ANGLE:g}° over the large neurons, at the end",
                judged(mean_point(settings.seeds, angle, fate=NONE_LEFT), every_below, ANGLE),
            )
        )
    return claims


def _length_claims(settings: MechanismSettings) -> list[Claim]:
    large = partial(large_share, step=settings.steps)
    return [
        Claim(
            "T-fig2.large",
            "a constant fraction of neurons is large, ‖r‖ ≥ Ω(1) (Theorem 3.7)",
            f"between 50 % and 99 % of the rows of W_O W_V have a length of {LARGE:g} or more (constant 1)",
            judged(mean_point(settings.seeds, large), every_within, 0.5, 0.99),
        ),
        bound_claim(
            "T-fig2.small",
            "the other neurons are no longer than O(1/√M2) (Theorem 3.7)",
            _small_lengths,
            -0.5,
            seeds=settings.seeds,
            where=f"mean length of the others at M2 = {listed(settings.irrelevants)}",
            fate=NONE_LEFT,
        ),
    ]


def _growth(rows: list[Row], end: int, matrix: str) -> BySeed:
    where = {"probe": "alignment", "domain": "out"}
    last, first = (values(rows, "along", **where, step=step, matrix=matrix) for step in (end, 0))
    return difference(last | lost(rows, **where, step=end), first)


def _share(rows: list[Row], end: int, matrix: str, domain: str) -> BySeed:
    where = {"probe": "alignment", "domain": domain, "step": end}
    along, length = (values(rows, column, **where, matrix=matrix) for column in ("along", "length"))
    good: BySeed = {seed: a / (length[seed] or math.nan) for seed, a in along.items() if a is not None}
    return good | lost(rows, **where)


def _angle(rows: list[Row], settings: MechanismSettings, part: str, step: int | None = None) -> BySeed:
    """Return each seed's mean angle over its large neurons; None where it diverged or has none."""
    found: BySeed = {}
    for seed, neurons in by_seed(rows, settings.steps if step is None else step).items():
        large, _ = groups_of(neurons)
        found[seed] = sum(row[f"{part}_angle"] for row in large) / len(large) if large else None
    return found


def _small_lengths(rows: list[Row]) -> dict[float, BySeed]:
    """Return each seed's mean length of the other rows by M2; None where it diverged or has none."""
    sizes = [row for row in rows if row["probe"] == SIZES]
    found = {}
    for count in sorted({row["irrelevant"] for row in sizes}):
        mine = [row | {"probe": "neurons"} for row in sizes if row["irrelevant"] == count]
        found[float(count)] = small_lengths(mine, mine[0]["step"])
    return found
