"""M-cor1: attention after training, Corollary 1, (16): on the query's pattern, and on the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iclab.papers.mamba import cor1_noise
from iclab.papers.mamba.cor1_settings import AttentionSettings, Pairs
from iclab.papers.mamba.late import Multiples
from iclab.papers.mamba.lemmas import draw_means, mean_of, points_of, quotient, scaled
from iclab.probes import Row
from iclab.study.charts import DASHED, Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, every_above, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import exponent_point
from iclab.study.rows import lost, values

SMALL = 0.1
"""(16): "a small order", read as a tenth of the attention on the query's pattern."""
NEAR = 0.15
"""How far a measured ratio may be from (A), and an exponent below 0."""
SHARE = reference("(A) after long training: −1/(M1 − 1)", dash=())
HALF = "all tasks, w = 0"
"""The twin of a training, whose gate starts at 1/2 for every example, as (A) assumes."""


class TrainedAttention(Experiment[AttentionSettings]):
    """Sums of attention scores at T_M and later."""

    id = "M-cor1"
    title = "Attention after training"
    paper = (
        "Corollary 1: from T_M on, attention scores of the examples with the query's pattern add up to at least Θ(1), "
        "and those of the others to at most Θ((1 − p_a)⁻¹ ε), for every task and prompts with unseen outliers (16)."
    )
    reading = (
        "A: both sums over the examples of a test prompt at T_M against M1, all training tasks, no outliers. B: their "
        "ratio; with (A), whose gate starts at 1/2, it is −1/(M1 − 1): the others count against their own label, which "
        "helps. C: training tasks in a ring; for patterns that share a neighbour but no task the ratio is positive and "
        "not small. D, E: the ratio task by task, against the batch and against the share of clean examples; its mean "
        "stays and its spread over tasks is noise."
    )
    caption = "mean ± half of the 95 % interval over seeds"
    theorems = ("M-cor1",)
    settings = AttentionSettings

    def conditions(self, settings: AttentionSettings) -> list[Condition]:
        """Return attention over M1, over α, and over time for a ring of tasks."""
        found: list[Condition] = []

        def add(own: AttentionSettings, tasks: str, pairs: Pairs, alpha: float, multiples: Multiples) -> None:
            training = own.training(own.trained_after()) if tasks == HALF else own.usual(max(multiples))
            prompts = own.tested(pairs, alpha)
            for times in multiples:
                where = {"tasks": tasks, "relevant": own.relevant, "pairs": pairs, "alpha": alpha, "times": times}
                where["value"] = None
                more: dict[str, Any] = {"probe": "attention", "prompts": prompts, "count": settings.test_prompts}
                at = own.step(times, max(multiples))
                found.extend(in_groups(settings, where, training, at=at, **more))

        for m in settings.relevants:
            for alpha in settings.test_fractions if m == settings.relevant else (0.0,):
                add(settings.replace(relevant=m), "all", "met", alpha, (1,))
            add(settings.replace(relevant=m), HALF, "met", 0.0, (1,))
        ring = settings.replace(tasks=settings.ring)
        for pairs in ("met", "never met"):
            for alpha in settings.test_fractions:
                add(ring, str(settings.ring), pairs, alpha, settings.multiples)
        return found + cor1_noise.conditions(settings)

    def claims(self, settings: AttentionSettings) -> list[Claim]:
        """Claim both halves of (16)."""
        n, ring = settings.seeds, str(settings.ring)

        def same(rows: list[Row]) -> dict[float, BySeed]:
            return {m: _sum(rows, "same", tasks="all", relevant=m, alpha=0.0) for m in settings.relevants}

        def rest(pairs: Pairs) -> Any:
            return lambda rows: points_of(
                ((where, _ratio(rows, **c)) for where, c in _settings(settings) if c["pairs"] == pairs), n
            )

        return [
            Claim(
                "M-cor1.same",
                "(16): scores on the query's pattern add up to at least Θ(1)",
                "their sum is above 1, so that zF can reach 1, at every M1, α and multiple of T_M, both task graphs",
                judged(lambda rows: points_of(_sizes(rows, settings), n), every_above, 1.0),
            ),
            Claim(
                "M-cor1.same-relevant",
                "(16): at least Θ(1), with a constant that does not depend on M1",
                f"exponent of the sum in M1 at T_M above −{NEAR:g}",
                judged(exponent_point(n, same), every_above, -NEAR),
            ),
            Claim(
                "M-cor1.rest",
                "(16): scores on the others add up to at most a small order, for tasks whose patterns met in training",
                f"others / same below {SMALL:g} at every M1, α and multiple of T_M, both task graphs",
                judged(rest("met"), every_below, SMALL),
            ),
            Claim(
                "M-cor1.rest-unmet",
                "(16): the same for every task of T, also for patterns that never met",
                f"others / same below {SMALL:g} for patterns two tasks apart, {ring}, every α and multiple of T_M",
                judged(rest("never met"), every_below, SMALL),
            ),
            Claim(
                "M-cor1.share",
                "(A): with all training tasks, others / same tends to −1/(M1 − 1)",
                f"others / same × (M1 − 1) within {NEAR:g} of −1 at T_M for every M1, no outliers, w⁽⁰⁾ = 0",
                judged(lambda rows: points_of(_share(rows, settings), n), every_within, -1 - NEAR, -1 + NEAR),
                ours=True,
            ),
            Claim(
                "M-cor1.outliers",
                "(16): for prompts with unseen outliers as well",
                f"sum on the query's pattern / the same without outliers within {SMALL:g} of 1, κ_a' = "
                f"{settings.test_scale:g}",
                judged(lambda rows: points_of(_steady(rows, settings), n), every_within, 1 - SMALL, 1 + SMALL),
            ),
            *cor1_noise.claims(settings),
        ]

    def table(self, rows: list[Row], settings: AttentionSettings) -> list[dict[str, Any]]:
        """Return one line per condition."""
        return [
            {
                "setting": where,
                "query's pattern": mean_of(_sum(rows, "same", **columns)),
                "others": mean_of(_sum(rows, "other", **columns)),
                "others / query's pattern": mean_of(_ratio(rows, **columns)),
            }
            for where, columns in _settings(settings)
        ] + cor1_noise.lines(rows, settings)

    def chart(self, rows: list[Row], settings: AttentionSettings) -> Figure:
        """Draw both sums over M1, their ratio, the ring, and how tasks differ."""
        panels = [_a(rows, settings), _b(rows, settings), _c(rows, settings)]
        return Figure([*panels, *cor1_noise.panels(rows, settings)], columns=3, width=250)


def _settings(settings: AttentionSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    for m in settings.relevants:
        for alpha in settings.test_fractions if m == settings.relevant else (0.0,):
            columns = {"tasks": "all", "relevant": m, "pairs": "met", "alpha": alpha, "times": 1}
            yield f"all tasks, M1 = {m}, α = {alpha:g}, T_M", columns
        columns = {"tasks": HALF, "relevant": m, "pairs": "met", "alpha": 0.0, "times": 1}
        yield f"{HALF}, M1 = {m}, α = 0, T_M", columns
    for pairs in ("met", "never met"):
        for alpha in settings.test_fractions:
            for times in settings.multiples:
                columns = {"tasks": str(settings.ring), "relevant": settings.relevant, "pairs": pairs}
                where = f"{settings.ring}, {pairs}, α = {alpha:g}, {times} T_M"
                yield where, columns | {"alpha": alpha, "times": times}


def _sum(rows: list[Row], kind: str, **where: Any) -> BySeed:
    return lost(rows, **where) | values(rows, kind, **where, diverged=False)


def _ratio(rows: list[Row], **where: Any) -> BySeed:
    return quotient(_sum(rows, "other", **where), _sum(rows, "same", **where))


_TICKS = {float(m): str(m) for m in (4, 8, 16, 32)}
_SAME = Series("on the query's pattern", "#0072B2", line=False)
_OTHER = Series("on the others", "#D55E00", line=False)


def _a(rows: list[Row], settings: AttentionSettings) -> Panel:
    panel = Panel(
        "A  all tasks, at T_M",
        x=Axis("relevant patterns M1", domain=(3.4, 38.0), scale="log", ticks=_TICKS),
        y=Axis("sum of attention scores"),
    )
    panel.rule(y=0.0)
    for kind, series in (("same", _SAME), ("other", _OTHER)):
        found: dict[float, BySeed] = {
            m: _sum(rows, kind, tasks="all", relevant=m, alpha=0.0) for m in settings.relevants
        }
        draw_means(panel, series, found)
    return panel


def _b(rows: list[Row], settings: AttentionSettings) -> Panel:
    panel = Panel(
        "B  their ratio",
        x=Axis("relevant patterns M1", domain=(3.4, 38.0), scale="log", ticks=_TICKS),
        y=Axis("others / query's pattern", domain=(-0.45, 0.1)),
    )
    panel.rule(y=0.0)
    panel.line(SHARE, list(settings.relevants), [-1 / (m - 1) for m in settings.relevants])
    for tasks, name, hollow in (("all", "all tasks", False), (HALF, "all tasks, w⁽⁰⁾ = 0", True)):
        series = Series(name, "#009E73", line=False, hollow=hollow, size=60.0 if hollow else 30.0)
        ratios: dict[float, BySeed] = {m: _ratio(rows, tasks=tasks, relevant=m, alpha=0.0) for m in settings.relevants}
        draw_means(panel, series, ratios)
    return panel


def _c(rows: list[Row], settings: AttentionSettings) -> Panel:
    late, ends = max(settings.multiples), (-0.05, max(settings.test_fractions) + 0.05)
    panel = Panel(
        f"C  {settings.ring}, M1 = {settings.relevant}, {late} T_M",
        x=Axis("outliers in tests, α", domain=ends),
        y=Axis("others / query's pattern", domain=(-0.9, 0.5)),
    )
    panel.rule(y=0.0)
    panel.line(BOUND, list(ends), [SMALL, SMALL])
    for pairs, name, colour in _PAIRS:
        where = {"tasks": str(settings.ring), "pairs": pairs, "times": late}
        found = {alpha: _ratio(rows, **where, alpha=alpha) for alpha in settings.test_fractions}
        draw_means(panel, Series(name, colour, line=False), found)
    return panel


_PAIRS = (("met", "ring, patterns of a task", "#CC79A7"), ("never met", "ring, patterns two tasks apart", "#E69F00"))
BOUND = reference(f"{SMALL:g}, judged as small", DASHED)


def _sizes(rows: list[Row], settings: AttentionSettings) -> Iterator[tuple[str, BySeed]]:
    for where, columns in _settings(settings):
        yield where, _sum(rows, "same", **columns)


def _share(rows: list[Row], settings: AttentionSettings) -> Iterator[tuple[str, BySeed]]:
    for m in settings.relevants:
        yield f"M1 = {m}", scaled(_ratio(rows, tasks=HALF, relevant=m), m - 1)


def _steady(rows: list[Row], settings: AttentionSettings) -> Iterator[tuple[str, BySeed]]:
    clean = _sum(rows, "same", tasks="all", relevant=settings.relevant, alpha=0.0)
    for alpha in settings.test_fractions:
        if alpha:
            found = _sum(rows, "same", tasks="all", relevant=settings.relevant, alpha=alpha)
            yield f"α = {alpha:g}", quotient(found, clean)
