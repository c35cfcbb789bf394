"""T-fig3: error out of domain against S1, and against the length of the context, for T's one-layer Transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Self

import matplotlib as mpl
from matplotlib.figure import Figure
from pydantic import Field

from iclab.experiments import style
from iclab.experiments.claims import Claim, Point, every_above, every_below, judged
from iclab.experiments.experiment import Condition, Experiment
from iclab.experiments.rows import error_points, errors, paired_point, proportion
from iclab.experiments.settings import LARGEST_SUM, Chosen, Different, NonlinearPaper
from iclab.lab import MeasurementCell, TrainingCell, groups
from iclab.probes import Row
from iclab.prompts import Prompts

SMALL = 0.01
"""The paper: the error out of domain is "< 0.01 when S1 ≥ 1 and deviates from 0 when S1 < 1"."""
DOMAINS = {"in": "in domain, unseen tasks", "out": "out of domain"}


class ShiftSettings(NonlinearPaper):
    """T-fig3."""

    sums: Annotated[
        tuple[Annotated[float, Field(ge=-LARGEST_SUM, le=LARGEST_SUM)], ...],
        Field(min_length=1),
        Different,
        Chosen("S1 = a + b, from the smallest there is to the largest, 1.28", grid=True),
    ] = (-1.28, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.15, 1.28)
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("α', T Figure 3 b", grid=True),
    ] = (0.4, 0.6, 0.8)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different, Chosen("l_ts, T Figure 3 b", grid=True)
    ] = (2, 5, 10, 20, 40)
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and point", grid=True)] = 4_000

    def quick(self) -> Self:
        """Return the quick edition: fewer points and prompts."""
        return (
            super()
            .quick()
            .changed(
                sums=tuple(s for s in self.sums if s in (-1.28, 0.0, 0.5, 1.0, 1.28)) or self.sums,
                lengths=tuple(n for n in self.lengths if n in (5, 10, 20)) or self.lengths,
                test_prompts=min(self.test_prompts, 1_000),
            )
        )


class Shift(Experiment[ShiftSettings]):
    """Out of domain, and how much context it takes."""

    id = "T-fig3"
    title = "Error out of domain, and by the length of the context"
    paper = (
        "The error out of domain is below 0.01 when S1 ≥ 1 and deviates from 0 when S1 < 1; a longer testing context "
        "is needed when α' is smaller, in and out of domain. (The paper's figure is of GPT-2.)"
    )
    reading = (
        "Of the one-layer Transformer (2), not of GPT-2. Left, the error on tasks of three mixtures of patterns, of "
        "which one has weights that sum to S1. Right, the error against the length of the context for several shares "
        "α' of examples that matter. Means over seeds; bands run from the lowest to the highest seed."
    )
    settings = ShiftSettings

    def conditions(self, settings: ShiftSettings) -> list[Condition]:
        """One training; every point of both panels."""
        tests: list[tuple[dict[str, Any], Prompts]] = [
            ({"panel": "sum", "sum": total, "domain": "out"}, settings.out_of_domain(total)) for total in settings.sums
        ]
        for fraction in settings.test_fractions:
            for length in settings.lengths:
                sizes = {"relevant_fraction": fraction, "context_length": length}
                where = {"panel": "length", "fraction": fraction, "length": length}
                tests.append(({**where, "domain": "in"}, settings.prompts(tasks=settings.unseen(), **sizes)))
                tests.append(({**where, "domain": "out"}, settings.out_of_domain(LARGEST_SUM, **sizes)))
        blank = dict.fromkeys(("panel", "sum", "fraction", "length", "domain"))
        return [
            Condition(
                {**blank, **columns},
                MeasurementCell(
                    training=TrainingCell(training=settings.training(), group=group),
                    probe="error",
                    prompts=prompts,
                    count=settings.test_prompts,
                ),
            )
            for group in groups(settings.seeds)
            for columns, prompts in tests
        ]

    def claims(self, settings: ShiftSettings) -> list[Claim]:
        """Both sides of S1 = 1, and the price of a smaller α'."""
        above, below = [s for s in settings.sums if s >= 1], [s for s in settings.sums if s < 1]
        claims = [
            Claim(
                "T-fig3.ood-small",
                "the out-of-domain error is < 0.01 when S1 ≥ 1",
                f"mean error < {SMALL} at S1 = {', '.join(f'{s:g}' for s in above)}",
                judged(_sums(settings, above), every_below, SMALL),
            ),
            Claim(
                "T-fig3.ood-rises",
                "the out-of-domain error deviates from 0 when S1 < 1",
                f"mean error > {SMALL} at S1 = {', '.join(f'{s:g}' for s in below)}",
                judged(_sums(settings, below), every_above, SMALL),
            ),
        ]
        for domain, name in DOMAINS.items():
            claims.append(
                Claim(
                    f"T-fig3.length.{domain}",
                    f"a longer testing context is needed when α' is smaller ({name})",
                    "error at the smallest α' − error at the largest > 0 at every length, on paired seeds",
                    judged(partial(_lengths, settings=settings, domain=domain), every_above, 0.0),
                )
            )
        return claims

    def table(self, rows: list[Row], settings: ShiftSettings) -> list[dict[str, Any]]:
        """A line a point."""
        lines = []
        for total in settings.sums:
            p = proportion(rows, panel="sum", sum=total)
            what = {"panel": "a", "domain": "out", "S1": f"{total:g}", "α'": f"{settings.relevant_fraction:g}"}
            lines.append({**what, "length": settings.context_length, "error": "–" if p is None else p.short()})
        for domain in DOMAINS:
            for fraction in settings.test_fractions:
                for length in settings.lengths:
                    p = proportion(rows, panel="length", domain=domain, fraction=fraction, length=length)
                    total_text = f"{LARGEST_SUM:.2f}" if domain == "out" else ""
                    what = {"panel": "b", "domain": domain, "S1": total_text, "α'": f"{fraction:g}"}
                    lines.append({**what, "length": length, "error": "–" if p is None else p.short()})
        return lines

    def draw(self, rows: list[Row], settings: ShiftSettings) -> Figure:
        """Draw both panels."""
        with mpl.rc_context(style.RC):
            figure = Figure(figsize=(9.7, 4.1), layout="constrained")
            left, middle, right = figure.subplots(1, 3)
            for panel in (left, middle, right):
                style.grid(panel)
            sums = sorted(settings.sums)
            style.curve(left, sums, [errors(rows, panel="sum", sum=s) for s in sums], style.COLOURS["softmax-mlp"])
            left.axvline(1.0, color=style.FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
            left.axhline(SMALL, **style.DASHED)
            left.set_yscale("symlog", linthresh=SMALL)
            left.set_ylim(0, 1)
            left.annotate("paper: < 0.01", (0.03, SMALL * 1.15), xycoords=("axes fraction", "data"), fontsize=8.5)
            left.set_title("out of domain", fontweight="bold")
            left.set_xlabel("S1, sum of the first mixture's weights")
            left.set_ylabel("error")
            for panel, (domain, name) in zip((middle, right), DOMAINS.items(), strict=True):
                for colour, fraction in zip(style.SERIES, settings.test_fractions, strict=False):
                    found = [
                        errors(rows, panel="length", domain=domain, fraction=fraction, length=n)
                        for n in settings.lengths
                    ]
                    style.curve(panel, settings.lengths, found, colour, f"α' = {fraction:g}")
                panel.set_title(name, fontweight="bold")
                panel.set_xlabel("examples in a test prompt")
                panel.set_ylim(bottom=0)
            right.legend()
            style.title(figure, self.id, self.title, rows, settings)
            return figure


def _sums(settings: ShiftSettings, sums: Sequence[float]) -> Callable[[list[Row]], list[Point] | None]:
    cells = [(f"S1 = {s:g}", {"panel": "sum", "sum": s}) for s in sums]
    return partial(error_points, seeds=settings.seeds, cells=cells)


def _lengths(rows: list[Row], settings: ShiftSettings, domain: str) -> list[Point] | None:
    """Error at the smallest α' − error at the largest, at every length."""
    if len(settings.test_fractions) < 2:
        return None
    points = []
    for length in settings.lengths:
        small, large = (
            errors(rows, panel="length", domain=domain, fraction=fraction, length=length)
            for fraction in (min(settings.test_fractions), max(settings.test_fractions))
        )
        point = paired_point(small, large, settings.seeds, f"length {length}")
        if point is None:
            return None
        points.append(point)
    return points
