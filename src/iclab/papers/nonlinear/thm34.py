"""T-thm3.4: random triples of mixtures out of domain, and the attention that exp(2τL) gives between them."""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from iclab.papers.mamba.times import mean_points
from iclab.papers.mamba.times_chart import mean
from iclab.papers.nonlinear.alignment import graph_of, of, times
from iclab.papers.nonlinear.laws import GRAPHS, TheoremPaper, watched_training
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.nonlinear.thm33 import COLOURS, NAMES
from iclab.probes import Row
from iclab.study.charts import DOTTED, Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Point, every_above, every_below, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.settings import Chosen
from iclab.theory.graph import TaskGraph

Triple = tuple[tuple[float, ...], ...]
LOSS = 0.1
"""(13) bounds the loss by O(ε). Read as: below this."""
SMALL = 0.01
"""The paper's margin for errors out of domain."""
CURVE = 0.95
"""One curve: R² of measured against predicted attention above this."""
DRAWN = 11
"""The seed of the random triples."""
STRONG = "inside, K' = 5"
"""Triples with every S_j ≥ 1 and irrelevant patterns ten times as strong as in training, as in T §5."""
DIAGONAL = reference("measured = predicted", DOTTED)


class ShiftTheoremSettings(TheoremPaper):
    """Settings of T-thm3.4."""

    step_size: Annotated[float, Chosen("η: the largest that the theorem allows; only the end of training counts")] = 1.0
    inside: Annotated[int, Field(ge=1), Chosen("random triples with every S_j ≥ 1", grid=True)] = 60
    anywhere: Annotated[int, Field(ge=1), Chosen("random triples with any S_j", grid=True)] = 200
    strong: Annotated[
        int, Field(ge=1), Chosen("of those with every S_j ≥ 1, how many are tested with K' = 5 too", grid=True)
    ] = 30
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and triple", grid=True)] = 500

    def quick(self) -> Self:
        """Return the quick edition: fewer triples; η stays."""
        fewer = {"inside": min(self.inside, 15), "anywhere": min(self.anywhere, 50), "strong": min(self.strong, 8)}
        return super().quick().replace(step_size=self.step_size, **fewer)

    def triples(self) -> dict[str, list[Triple]]:
        """Return all triples by where they were drawn."""
        return {
            "inside": [drawn(self.relevant, which, 1.0) for which in range(self.inside)],
            "anywhere": [drawn(self.relevant, which, None) for which in range(self.anywhere)],
            STRONG: [drawn(self.relevant, which, 1.0) for which in range(min(self.strong, self.inside))],
        }


@cache
def drawn(relevant: int, which: int, least: float | None) -> Triple:
    """Draw three orthonormal mixtures of the patterns, uniformly, with weights that sum to ``least`` or more each.

    >>> all(sum(mixture) >= 1 for mixture in drawn(8, 0, 1.0))
    True
    """
    generator = np.random.default_rng([DRAWN, relevant, which, least is not None])
    while True:
        found = np.linalg.qr(generator.standard_normal((relevant, 3)))[0].T
        if least is not None:
            found *= np.sign(found.sum(1, keepdims=True))  # a mixture and its opposite are equally likely
        if least is None or found.sum(1).min() >= least:
            return tuple(tuple(float(weight) for weight in mixture) for mixture in found)


def predicted_mass(graph: TaskGraph, time: float, triple: Triple, own: NonlinearPaper) -> float:
    """Return attention on the query's pattern in long prompts, if scores are δ²β² k_iᵀ exp(2τL) k_j.

    The mean is over all tasks of three patterns; examples have shares of α/2, α/2 and 1 − α.
    """
    mixtures: NDArray[np.float64] = np.asarray(triple)
    scores = (own.init_scale * own.pattern_norm) ** 2 * mixtures @ graph.kernel(time) @ mixtures.T
    share, rest = own.relevant_fraction / 2, 1 - own.relevant_fraction
    found = []
    for i, j in ((i, j) for i in range(3) for j in range(3) if i != j):
        third = 3 - i - j
        weights = np.array([share, share, rest]) * np.exp(scores[i, [i, j, third]] - scores[i].max())
        found.append(weights[0] / weights.sum())
    return float(np.mean(found))


class ShiftTheorem(Experiment[ShiftTheoremSettings]):
    """Loss and attention on random triples of mixtures."""

    id = "T-thm3.4"
    title = "Random triples of patterns out of domain"
    paper = (
        "Theorem 3.4: the expected hinge loss out of domain is O(ε) if every test pattern is a mixture Σ k_i µ_i of "
        "norm β with S_j = Σ k_i ≥ 1 (12), (13)."
    )
    reading = (
        "Each point is a triple of orthonormal mixtures, drawn at random, M1 = 8, K' = 0.5, in A K' = 5 too; means "
        "over seeds. A: the hinge loss against the smallest S_j; the theorem speaks of those right of the dotted line. "
        "B: attention on the query's pattern against what follows from scores δ²β² k_iᵀ exp(2τL) k_j, τ fitted to the "
        "weights. C: the error against the same prediction."
    )
    caption = "mean over seeds, worst of all triples"
    theorems = ("T-thm3.4",)
    settings = ShiftTheoremSettings

    def conditions(self, settings: ShiftTheoremSettings) -> list[Condition]:
        """Return error and attention on every triple, and the kernel, for both graphs."""
        found = []
        for graph in GRAPHS:
            own = settings.large(graph, settings.relevant)
            training = watched_training(own, 1)
            columns = {"graph": graph, "part": "kernel", "which": 0, "probe": "kernel"}
            found += in_groups(settings, columns, training, probe="kernel", prompts=training.prompts, count=1)
            for part, triples in settings.triples().items():
                for which, triple in enumerate(triples):
                    scale = own.test_irrelevant_scale if part == STRONG else own.train_irrelevant_scale
                    prompts = own.prompts(relevant_mixtures=triple, irrelevant_scale=scale)
                    for probe in ("error",) if part == STRONG else ("error", "attention"):
                        columns = {"graph": graph, "part": part, "which": which, "probe": probe}
                        cell = {"probe": probe, "prompts": prompts, "count": settings.test_prompts}
                        found += in_groups(settings, columns, training, **cell)
        return found

    def claims(self, settings: ShiftTheoremSettings) -> list[Claim]:
        """Return that S_j ≥ 1 suffices, by loss and by error, and that exp(2τL) gives the attention."""
        claims = [
            Claim(
                "T-thm3.4.suffices",
                "the hinge loss is small if every S_j ≥ 1 (13)",
                f"mean hinge loss < {LOSS} on each of {settings.inside} random triples with S_j ≥ 1, K' = "
                f"{settings.train_irrelevant_scale:g}, both graphs",
                judged(partial(_inside, settings=settings, column="hinge"), every_below, LOSS),
            ),
            Claim(
                "T-thm3.4.error",
                "so is the error",
                f"mean error < {SMALL} on each of them",
                judged(partial(_inside, settings=settings, column="error"), every_below, SMALL),
            ),
            Claim(
                "T-thm3.4.strong",
                "so it is with irrelevant patterns of any strength K' ≤ O(1) (8), (13)",
                f"mean hinge loss at K' = {settings.test_irrelevant_scale:g} − at {settings.train_irrelevant_scale:g} "
                f"< {SMALL} on each of {min(settings.strong, settings.inside)} of them",
                judged(partial(_stronger, settings=settings), every_below, SMALL),
            ),
        ]
        for graph, name in NAMES.items():
            fits = partial(_curve, settings=settings, graph=graph)
            claims.append(
                Claim(
                    f"T-thm3.4.curve.{graph}",
                    "attention between any mixtures follows from k_iᵀ exp(2τL) k_j: one curve for all triples",
                    f"R² > {CURVE} of attention on {settings.anywhere} random triples, predicted for each seed by its "
                    f"τ, trained on {name}",
                    judged(mean_point(settings.seeds, fits, most=1.0), every_above, CURVE),
                    ours=True,
                )
            )
        return claims

    def table(self, rows: list[Row], settings: ShiftTheoremSettings) -> list[dict[str, Any]]:
        """Return one line per graph and kind of triple."""
        lines = []
        for graph, name in NAMES.items():
            for part, triples in settings.triples().items():
                line: dict[str, Any] = {"trained on": name, "triples": f"{len(triples)}, {part}"}
                for column in ("hinge", "error"):
                    found = [mean(_number(rows, graph, part, w, "error", column)) for w in range(len(triples))]
                    good = [value for value in found if value is not None]
                    line[f"largest {column}"] = f"{max(good):.4f}" if good else "–"
                r2 = mean(_curve(rows, settings, graph))
                line["R² of attention"] = "–" if r2 is None or part != "anywhere" else f"{r2:.3f}"
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: ShiftTheoremSettings) -> Figure:
        """Draw loss against S, attention against its prediction, error against the same."""
        small = Axis("hinge loss", domain=(0, 2), scale="symlog", linear_to=0.01, ticks=(0, 0.01, 0.1, 1))
        first = Panel("A  loss", x=Axis("smallest S_j", zero=False), y=small, height=230)
        first.rule(x=1.0, dash=DOTTED)
        share = Axis("attention from exp(2τL)", domain=(0.4, 1))
        second = Panel("B  attention", x=share, y=Axis("attention on the query's pattern", domain=(0.4, 1)), height=230)
        second.line(DIAGONAL, [0.4, 1], [0.4, 1], marks=False)
        error = Axis("error", domain=(0, 1), scale="symlog", linear_to=0.01, ticks=(0, 0.01, 0.1, 1))
        third = Panel("C  error", x=share, y=error, height=230)
        for graph, name in NAMES.items():
            series = Series(f"trained on {name}", COLOURS[graph], line=False, size=28.0)
            time = mean({s: fit and fit[0] for s, fit in _times(rows, settings, graph).items()})
            for which, triple in enumerate(settings.triples()[STRONG]):
                loss = mean(_number(rows, graph, STRONG, which, "error", "hinge"))
                strong = Series(f"{name}, K' = 5", COLOURS[graph], line=False, size=50.0, mark="diamond", hollow=True)
                if loss is not None:
                    first.points(strong, [min(map(sum, triple))], [loss])
            for part in ("inside", "anywhere"):
                for which, triple in enumerate(settings.triples()[part]):
                    loss, wrong = (mean(_number(rows, graph, part, which, "error", c)) for c in ("hinge", "error"))
                    mass = mean(_number(rows, graph, part, which, "attention", "same"))
                    if loss is None or mass is None or wrong is None or time is None:
                        continue
                    own = settings.large(graph, settings.relevant)
                    expected = predicted_mass(graph_of(graph, own.relevant), time, triple, own)
                    first.points(series, [min(map(sum, triple))], [loss])
                    second.points(series, [expected], [mass])
                    third.points(series, [expected], [wrong])
        return Figure([first, second, third], columns=3, width=280)


def _number(rows: list[Row], graph: str, part: str, which: int, probe: str, column: str) -> BySeed:
    mine = of(rows, graph=graph, part=part, which=which, probe=probe)
    return {row["seed"]: None if row["diverged"] else row[column] for row in mine}


def _inside(rows: list[Row], settings: ShiftTheoremSettings, column: str) -> list[Point] | None:
    named = {
        f"{name}, triple {which}": _number(rows, graph, "inside", which, "error", column)
        for graph, name in NAMES.items()
        for which in range(settings.inside)
    }
    return mean_points(settings.seeds, named)


def _stronger(rows: list[Row], settings: ShiftTheoremSettings) -> list[Point] | None:
    named: dict[str, BySeed] = {}
    for graph, name in NAMES.items():
        for which in range(min(settings.strong, settings.inside)):
            weak, strong = (_number(rows, graph, part, which, "error", "hinge") for part in ("inside", STRONG))
            named[f"{name}, triple {which}"] = {
                s: None if v is None or weak.get(s) is None else v - (weak[s] or 0.0) for s, v in strong.items()
            }
    return mean_points(settings.seeds, named)


def _times(rows: list[Row], settings: ShiftTheoremSettings, graph: str) -> dict[int, tuple[float, float] | None]:
    return times(of(rows, graph=graph, part="kernel"), graph_of(graph, settings.relevant))


def _curve(rows: list[Row], settings: ShiftTheoremSettings, graph: str) -> BySeed:
    """Return each seed's R² of measured attention, over all triples, by the predicted one; nothing is fitted to it."""
    own, triples = settings.large(graph, settings.relevant), settings.triples()["anywhere"]
    shape = graph_of(graph, own.relevant)
    masses = [_number(rows, graph, "anywhere", which, "attention", "same") for which in range(len(triples))]
    answer: BySeed = {}
    for seed, fit in _times(rows, settings, graph).items():
        found = [by_seed.get(seed) for by_seed in masses]
        if fit is None or any(value is None for value in found):
            answer[seed] = None
            continue
        expected = np.array([predicted_mass(shape, fit[0], triple, own) for triple in triples])
        seen = np.array(found, dtype=float)
        spread = float(((seen - seen.mean()) ** 2).sum())
        answer[seed] = 1 - float(((seen - expected) ** 2).sum()) / spread if spread else None
    return answer
