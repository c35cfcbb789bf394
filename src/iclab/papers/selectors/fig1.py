"""S-fig1: norms of W_Q µ, W_K µ against those of ν, and what labels and features contribute to an MLP neuron."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field

from iclab.papers.selectors.settings import SelectorPaper
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, PALETTE, Axis, Figure, Panel, Series, reference
from iclab.study.claims import (
    BySeed,
    Claim,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import bound_claim
from iclab.study.rows import difference, error_points, listed, lost, mean_text, proportion, values
from iclab.study.settings import Chosen, Different

STILL = 0.1
"""The paper: irrelevant ones stay "close to the initialization". Read as: they move by less than this."""
SHARE = 0.25
"""The paper: "for a constant fraction" of neurons the label part is larger. Before training, chance makes it larger in
half of all cases. Read as: training raises the share by more than this."""
SMALL = 0.01
"""iclab's margin for the error on unseen tasks, as in T."""
TASKS = {"training": "training tasks", "unseen": "unseen tasks"}
MATRICES = {"query": "W_Q", "key": "W_K"}
CUTS = {"source": "by where it comes from", "place": "by where it stands in the value, as S (10) writes it"}
NORMS = {
    ("query", "relevant"): Series("‖W_Q µ‖", PALETTE[0], width=3.0),
    ("query", "irrelevant"): Series("‖W_Q ν‖", PALETTE[1], width=3.0),
    ("key", "relevant"): reference("‖W_K µ‖", DASHED),
    ("key", "irrelevant"): reference("‖W_K ν‖", DOTTED, width=1.4),
}
PARTS = {
    (part, cut): series
    for part, colour in (("label", PALETTE[2]), ("feature", PALETTE[3]))
    for cut, series in (
        ("source", Series(f"{part} part, by source", colour)),
        ("place", Series(part, colour).beside(f"{part} part, by place")),
    )
}


class Data(NamedTuple):
    """One kind of prompts."""

    noise: float
    signal: float

    @property
    def label(self) -> str:
        """Its name in titles and tables."""
        return f"τ = {self.noise:g}, λ* = {self.signal:g}"


class SelectorSettings(SelectorPaper):
    """Settings of S-fig1."""

    noises: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=1),
        Different,
        Chosen("τ besides 0: the theorem's 1/M1, a third of a pattern's norm, and the whole norm", grid=True),
    ] = (0.17, 1.0, 3.0)
    signals: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("λ* besides 1: the weight of a token's relevant pattern is uniform between λ* and 1", grid=True),
    ] = (0.6, 0.3)
    irrelevants: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("M2, for the order in M = M1 + M2 of (7); d_X and m_a grow with it", grid=True),
    ] = (6, 12, 24, 48, 96)
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and step", grid=True)] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: fewer kinds of prompts."""
        return (
            super()
            .quick()
            .replace(
                noises=tuple(n for n in self.noises if n == 1.0) or self.noises,
                signals=tuple(s for s in self.signals if s == 0.3) or self.signals,
                test_prompts=min(self.test_prompts, 300),
            )
        )

    def kinds(self) -> list[Data]:
        """Return the usual noise and signal, then every other noise, then every other signal."""
        usual = Data(self.noise, self.signal)
        found = [usual, *(usual._replace(noise=noise) for noise in self.noises)]
        found += [usual._replace(signal=signal) for signal in self.signals]
        return list(dict.fromkeys(found))

    def of_kind(self, data: Data) -> SelectorSettings:
        """Return the settings of one kind of prompts."""
        return self.replace(noise=data.noise, signal=data.signal)

    def with_irrelevant(self, count: int) -> SelectorPaper:
        """Return the settings with M2 = ``count``, in as many dimensions as that takes."""
        dimension = max(self.dimension, self.relevant + count)
        size = self.attention_size + dimension - self.dimension
        return self.as_kind(SelectorPaper, irrelevant=count, dimension=dimension, attention_size=size, watched=1)


class Selector(Experiment[SelectorSettings]):
    """What attention promotes, and what the MLP decides by."""

    id = "S-fig1"
    title = "What S's Transformer selects, and what it decides by"
    paper = (
        "Training promotes the norms of W_Q µ and W_K µ of relevant patterns, and leaves those of irrelevant patterns "
        "close to the initialization; before the ReLU, the contribution of the label embedding outgrows that of the "
        "features."
    )
    reading = (
        "One column per kind of prompts. Above, mean ‖W_Q µ_j‖ and ‖W_Q ν_k‖ over training, and the same for W_K in "
        "dark dashes and dots. Below, what reaches neurons with the sign of the right answer: solid, by where it comes "
        "from, labels or features; dashed, by where it stands in the attended value, as S (10) writes it. W_V moves "
        "labels into features' places. Prompts are of the training tasks, as in S; the table has unseen ones too. "
        "Means over seeds; bands run from the lowest to the highest seed."
    )
    theorems = ("S-prop1", "S-prop2")
    settings = SelectorSettings

    def conditions(self, settings: SelectorSettings) -> list[Condition]:
        """One training per kind of prompts: two probes at every kept step, more at the end; then one per M2."""
        found = []

        def ask(own: SelectorPaper, probe: str, step: int, tasks: str, columns: dict[str, Any]) -> None:
            where = {"data": "", "irrelevant": None, "probe": probe, "step": step, "tasks": tasks} | columns
            prompts = own.prompts(tasks=own.train_tasks if tasks == "training" else own.unseen())
            count = 1 if probe == "norms" else settings.test_prompts
            cell = {"probe": probe, "prompts": prompts, "count": count, "at": step}
            found.extend(in_groups(settings, where, own.training(), **cell))

        for data in settings.kinds():
            own, columns = settings.of_kind(data), {"data": data.label}
            for step in own.kept_steps():
                for probe in ("norms", "parts"):
                    ask(own, probe, step, "training", columns)
            for tasks in TASKS:
                for probe in ("error", "attention"):
                    ask(own, probe, own.steps, tasks, columns)
            ask(own, "parts", own.steps, "unseen", columns)
        for count in settings.irrelevants:
            ask(settings.with_irrelevant(count), "norms", settings.steps, "training", {"irrelevant": count})
        return found

    def claims(self, settings: SelectorSettings) -> list[Claim]:
        """Norms and parts, each for all kinds of prompts at once: the worst of them decides."""
        parts = (claim for cut in CUTS for claim in _part_claims(settings, cut))
        return [*_norm_claims(settings), *parts, *_unseen_claims(settings)]

    def table(self, rows: list[Row], settings: SelectorSettings) -> list[dict[str, Any]]:
        """One line per kind of prompts, after training."""
        lines = []
        for data in settings.kinds():
            where: dict[str, Any] = {"data": data.label, "step": settings.steps, "tasks": "training"}
            line: dict[str, Any] = {"τ": f"{data.noise:g}", "λ*": f"{data.signal:g}"}
            for matrix, letter in MATRICES.items():
                for kind, pattern in (("relevant", "µ"), ("irrelevant", "ν")):
                    norm = mean_text(rows, "length", probe="norms", matrix=matrix, kind=kind, **where)
                    line[f"‖{letter} {pattern}‖"] = norm
            for cut in CUTS:
                label, feature = (
                    mean_text(rows, f"{p}_by_{cut}", probe="parts", **where) for p in ("label", "feature")
                )
                line[f"label / feature, by {cut}"] = f"{label} / {feature}"
            for tasks, name in TASKS.items():
                mine = where | {"tasks": tasks}
                line[f"attention, {name}"] = mean_text(rows, "same", probe="attention", **mine)
                p = proportion(rows, probe="error", **mine)
                line[f"error, {name}"] = "–" if p is None else p.short()
                line[f"hinge loss, {name}"] = mean_text(rows, "hinge", probe="error", **mine)
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: SelectorSettings) -> Figure:
        """One column of two panels per kind of prompts: norms above, parts below."""
        kinds = settings.kinds()
        panels = [_norms_panel(rows, settings, data) for data in kinds]
        panels += [_parts_panel(rows, settings, data) for data in kinds]
        return Figure(panels, columns=len(kinds), width=250 if len(kinds) <= 4 else 190)


def _range(rows: list[Row], probe: str, columns: Sequence[str]) -> tuple[float, float] | None:
    """Return the range of some columns and 0, which panels side by side share; None without any number."""
    mine = [row for row in rows if row["probe"] == probe]
    numbers = [row[column] for row in mine for column in columns if row.get(column) is not None]
    if not numbers:
        return None
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    room = 0.04 * (high - low) or 1.0
    return (low - room if low < 0 else 0.0), high + room


def _norms_panel(rows: list[Row], settings: SelectorSettings, data: Data) -> Panel:
    steps = settings.kept_steps()
    panel = Panel(data.label, x=Axis("training step"), y=Axis("mean norm", domain=_range(rows, "norms", ("length",))))
    for (matrix, kind), series in NORMS.items():
        where = {"data": data.label, "probe": "norms", "matrix": matrix, "kind": kind}
        found = [values(rows, "length", **where, step=step) for step in steps]
        panel.curve(series, steps, found, band=matrix == "query")
    return panel


def _parts_panel(rows: list[Row], settings: SelectorSettings, data: Data) -> Panel:
    steps = settings.kept_steps()
    domain = _range(rows, "parts", [f"{part}_by_{cut}" for part, cut in PARTS])
    panel = Panel(data.label, x=Axis("training step"), y=Axis("before the ReLU", domain=domain))
    for (part, cut), series in PARTS.items():
        where = {"data": data.label, "probe": "parts", "tasks": "training"}
        found = [values(rows, f"{part}_by_{cut}", **where, step=step) for step in steps]
        panel.curve(series, steps, found, band=cut == "source")
    return panel


def _said(settings: SelectorSettings) -> str:
    return ", ".join(data.label for data in settings.kinds())


def _all_kinds(
    settings: SelectorSettings, values: Callable[..., BySeed], **which: Any
) -> Callable[[list[Row]], list[Point] | None]:
    """Return one point per kind of prompts."""
    sources = []
    for data in settings.kinds():
        mine = partial(values, data=data, end=settings.steps, **which)
        sources.append(mean_point(settings.seeds, mine, data.label))
    return together(*sources)


def _norm_claims(settings: SelectorSettings) -> list[Claim]:
    said = _said(settings)
    norms = [partial(_norm, matrix=name) for name in MATRICES]
    grown = together(*(_all_kinds(settings, norm, kind="relevant", since=0) for norm in norms))
    irrelevant = together(*(_all_kinds(settings, norm, kind="irrelevant", since=0) for norm in norms))
    return [
        Claim(
            "S-fig1.grows",
            "training promotes ‖W_Q µ‖ and ‖W_K µ‖ (Figure 1 a)",
            f"both means over patterns at the end − at the start > {STILL}, for {said}",
            judged(grown, every_above, STILL),
        ),
        bound_claim(
            "S-fig1.relevant",
            "‖W_Q µ‖ ≥ Θ(√log M) after training (Proposition 1)",
            partial(_by_log, settings=settings),
            0.5,
            seeds=settings.seeds,
            above=True,
            where=f"mean norm against log M, M2 = {listed(settings.irrelevants)}",
            fate="diverged",
        ),
        Claim(
            "S-fig1.irrelevant",
            "‖W_Q ν‖, ‖W_K ν‖ stay close to the initialization (Proposition 1)",
            f"both means over patterns at the end − at the start within ±{STILL}, for {said}",
            judged(irrelevant, every_within, -STILL, STILL),
        ),
    ]


def _part_claims(settings: SelectorSettings, cut: str) -> list[Claim]:
    said = _said(settings)
    return [
        Claim(
            f"S-fig1.label-part.{cut}",
            "the label part of what reaches a neuron is larger than the feature part (Figure 1 b)",
            f"mean label part − mean feature part > 0, {CUTS[cut]}, for {said}",
            judged(_all_kinds(settings, _ahead, cut=cut), every_above, 0.0),
        ),
        Claim(
            f"S-fig1.fraction.{cut}",
            "for a constant fraction of neurons the label part is the larger (Proposition 2)",
            f"share of (neuron, prompt) pairs at the end − at the start > {SHARE}, {CUTS[cut]}, for {said}",
            judged(_all_kinds(settings, _fraction, cut=cut), every_above, SHARE),
        ),
    ]


def _unseen_claims(settings: SelectorSettings) -> list[Claim]:
    """Return iclab's claims about tasks that training never shows; S tests on the training tasks."""
    said, usual = _said(settings), settings.kinds()[0]
    where = {"data": usual.label, "probe": "error", "step": settings.steps, "tasks": "unseen"}
    return [
        Claim(
            "S-fig1.unseen.label-part",
            "on unseen tasks too, the label part is the larger",
            f"mean label part − mean feature part > 0, {CUTS['source']}, for {said}",
            judged(_all_kinds(settings, _ahead, cut="source", tasks="unseen"), every_above, 0.0),
            ours=True,
        ),
        Claim(
            "S-fig1.unseen.error",
            "the model generalises to unseen tasks",
            f"mean error on unseen tasks < {SMALL}, {usual.label}",
            judged(partial(error_points, seeds=settings.seeds, cells=[(usual.label, where)]), every_below, SMALL),
            ours=True,
        ),
    ]


def _by_log(rows: list[Row], settings: SelectorSettings) -> dict[float, BySeed]:
    """Return each seed's mean ‖W_Q µ‖ after training, by log M."""
    found = {}
    for count in settings.irrelevants:
        where = {"irrelevant": count, "probe": "norms"}
        mine = values(rows, "length", **where, matrix="query", kind="relevant") | lost(rows, **where)
        found[math.log(settings.relevant + count)] = mine
    return found


def _norm(rows: list[Row], data: Data, matrix: str, kind: str, end: int, since: int | None = None) -> BySeed:
    """Return each seed's mean norm at the end, or its change since another step."""
    where = {"data": data.label, "probe": "norms"}
    ends = values(rows, "length", **where, step=end, matrix=matrix, kind=kind) | lost(rows, **where, step=end)
    if since is None:
        return ends
    return difference(ends, values(rows, "length", **where, step=since, matrix=matrix, kind=kind))


def _ahead(rows: list[Row], data: Data, cut: str, end: int, tasks: str = "training") -> BySeed:
    where = {"data": data.label, "probe": "parts", "step": end, "tasks": tasks}
    return difference(*(values(rows, f"{part}_by_{cut}", **where) for part in ("label", "feature")))


def _fraction(rows: list[Row], data: Data, cut: str, end: int) -> BySeed:
    """Return by how much training raised the share of pairs in which the label part is the larger."""
    where = {"data": data.label, "probe": "parts", "tasks": "training"}
    return difference(*(values(rows, f"ahead_by_{cut}", **where, step=step) for step in (end, 0)))
