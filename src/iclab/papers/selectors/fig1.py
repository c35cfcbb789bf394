"""S-fig1: norms of W_Q µ, W_K µ against those of ν, and what an MLP neuron hears from labels and from features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import matplotlib as mpl
from matplotlib.figure import Figure
from pydantic import Field

from iclab.papers.selectors.settings import SelectorPaper
from iclab.probes import Row
from iclab.study import style
from iclab.study.claims import BySeed, Claim, Point, every_above, every_within, judged, mean_point, together
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import difference, lost, mean_text, proportion, values
from iclab.study.settings import Chosen, Different

STILL = 0.1
"""The paper: irrelevant ones stay "close to the initialization". Read as: they move by less than this."""
SHARE = 0.25
"""The paper: "for a constant fraction" of neurons the label part is larger. It is so by chance in half of all cases
before training. Read as: in a share that training has raised by more than this."""
MATRICES = {"query": "W_Q", "key": "W_K"}
CUTS = {"source": "by where it comes from", "place": "by where it stands in the value, as S (10) writes it"}


class Data(NamedTuple):
    """One kind of prompts."""

    noise: float
    signal: float

    @property
    def label(self) -> str:
        """As titles and tables have it."""
        return f"τ = {self.noise:g}, λ* = {self.signal:g}"


class SelectorSettings(SelectorPaper):
    """S-fig1."""

    noises: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=1),
        Different,
        Chosen("τ beside none: the theorem's 1/M1, as long as a third of a pattern, and a whole one", grid=True),
    ] = (0.17, 1.0, 3.0)
    signals: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        Field(min_length=1),
        Different,
        Chosen("λ* beside 1: what a token carries of its relevant pattern is uniform between it and 1", grid=True),
    ] = (0.6, 0.3)
    test_prompts: Annotated[int, Field(ge=1), Chosen("for each seed and step", grid=True)] = 1_000

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
        """The usual noise and signal, then every other noise, then every other signal."""
        usual = Data(self.noise, self.signal)
        found = [usual, *(usual._replace(noise=noise) for noise in self.noises)]
        found += [usual._replace(signal=signal) for signal in self.signals]
        return list(dict.fromkeys(found))

    def of_kind(self, data: Data) -> SelectorSettings:
        """The settings of one kind of prompts."""
        return self.replace(noise=data.noise, signal=data.signal)


class Selector(Experiment[SelectorSettings]):
    """What attention promotes, and what the MLP decides by."""

    id = "S-fig1"
    title = "What S's Transformer selects, and what it decides by"
    paper = (
        "Training promotes norms of W_Q µ and W_K µ of relevant patterns, and leaves those of irrelevant patterns "
        "close to where they started; before the ReLU, the contribution of the label embedding outgrows that of the "
        "features."
    )
    reading = (
        "A column for each kind of prompts. Above, mean ‖W_Q µ_j‖ and ‖W_Q ν_k‖ over training, and the same for W_K "
        "(dashed, under it). Below, what reaches neurons with the sign of the right answer: solid, by where it comes "
        "from, labels or features; dashed, by where it stands in the attended value, as S (10) writes it. W_V moves "
        "labels into features' places. Means over seeds; bands run from the lowest to the highest seed."
    )
    theorems = ("S-prop1", "S-prop2")
    settings = SelectorSettings

    def conditions(self, settings: SelectorSettings) -> list[Condition]:
        """A training for each kind of prompts; two probes after every kept step, and the error at the end."""
        found = []
        for data in settings.kinds():
            own = settings.of_kind(data)
            training, unseen = own.training(), own.prompts(tasks=own.unseen())
            for step in own.kept_steps():
                last = ("error", "attention") if step == own.steps else ()
                for probe in ("norms", "parts", *last):
                    found += in_groups(
                        settings,
                        {"data": data.label, "probe": probe, "step": step},
                        training,
                        probe=probe,
                        prompts=unseen,
                        count=1 if probe == "norms" else settings.test_prompts,
                        at=step,
                    )
        return found

    def claims(self, settings: SelectorSettings) -> list[Claim]:
        """Norms and parts, each for all kinds of prompts at once: the worst of them decides."""
        end, kinds = settings.steps, settings.kinds()
        promoted = math.sqrt(math.log(settings.relevant + settings.irrelevant))
        said = ", ".join(data.label for data in kinds)

        def all_kinds(values: Callable[..., BySeed], **which: Any) -> Callable[[list[Row]], list[Point] | None]:
            return together(
                *(
                    mean_point(settings.seeds, partial(values, data=data, end=end, **which), data.label)
                    for data in kinds
                )
            )

        norms = {name: partial(_norm, matrix=name) for name in MATRICES}
        claims = [
            Claim(
                "S-fig1.relevant",
                "‖W_Q µ‖, ‖W_K µ‖ ≥ Θ(√log M) after training (Proposition 1)",
                f"both means over patterns > √log M = {promoted:.2f}, with constant 1, for {said}",
                judged(together(*(all_kinds(n, kind="relevant") for n in norms.values())), every_above, promoted),
            ),
            Claim(
                "S-fig1.irrelevant",
                "‖W_Q ν‖, ‖W_K ν‖ stay close to the initialization (Proposition 1)",
                f"both means over patterns at the end − at the start within ±{STILL}, for {said}",
                judged(
                    together(*(all_kinds(n, kind="irrelevant", since=0) for n in norms.values())),
                    every_within,
                    -STILL,
                    STILL,
                ),
            ),
        ]
        for cut, words in CUTS.items():
            claims += [
                Claim(
                    f"S-fig1.label-part.{cut}",
                    "the label part of what reaches a neuron is larger than the feature part (Figure 1 b)",
                    f"mean label part − mean feature part > 0, {words}, for {said}",
                    judged(all_kinds(_ahead, cut=cut), every_above, 0.0),
                ),
                Claim(
                    f"S-fig1.fraction.{cut}",
                    "for a constant fraction of neurons the label part is the larger (Proposition 2)",
                    f"share of (neuron, prompt) pairs at the end − at the start > {SHARE}, {words}, for {said}",
                    judged(all_kinds(_fraction, cut=cut), every_above, SHARE),
                ),
            ]
        return claims

    def table(self, rows: list[Row], settings: SelectorSettings) -> list[dict[str, Any]]:
        """A line a kind of prompts, after training."""
        lines = []
        for data in settings.kinds():
            where = {"data": data.label, "step": settings.steps}
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
            line["attention"] = mean_text(rows, "same", probe="attention", **where)
            p = proportion(rows, probe="error", **where)
            line["error"] = "–" if p is None else p.short()
            line["hinge loss"] = mean_text(rows, "hinge", probe="error", **where)
            lines.append(line)
        return lines

    def draw(self, rows: list[Row], settings: SelectorSettings) -> Figure:
        """Draw a column of two panels for each kind of prompts."""
        with mpl.rc_context(style.RC):
            kinds, steps = settings.kinds(), settings.kept_steps()
            figure = Figure(figsize=(1.0 + 2.7 * max(len(kinds), 2), 6.0), layout="constrained")
            panels = figure.subplots(2, len(kinds), squeeze=False, sharey="row")
            for data, above, below in zip(kinds, *panels, strict=True):
                for panel in (above, below):
                    style.grid(panel)
                for (kind, pattern), colour in zip(PATTERNS.items(), style.SERIES, strict=False):
                    for matrix, letter in MATRICES.items():
                        where = {"data": data.label, "probe": "norms", "matrix": matrix, "kind": kind}
                        found = [values(rows, "length", **where, step=step) for step in steps]
                        beside = {**style.BESIDE, "color": style.INK} if matrix == "key" else {}
                        style.curve(above, steps, found, colour, f"‖{letter} {pattern}‖", **beside)
                for part, colour in zip(("label", "feature"), style.SERIES, strict=False):
                    for cut in CUTS:
                        where = {"data": data.label, "probe": "parts"}
                        found = [values(rows, f"{part}_by_{cut}", **where, step=step) for step in steps]
                        beside = style.BESIDE if cut == "place" else {}
                        style.curve(below, steps, found, colour, f"{part} part, by {cut}", **beside)
                above.set_title(data.label, fontweight="bold")
                below.set_xlabel("training step")
            panels[0][0].set_ylabel("mean norm")
            panels[1][0].set_ylabel("before the ReLU")
            style.legend(panels[0][0], fontsize=8)
            style.legend(panels[1][0], fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.06))
            style.title(figure, self.id, self.title, rows, settings)
            return figure


PATTERNS = {"relevant": "µ", "irrelevant": "ν"}


def _norm(rows: list[Row], data: Data, matrix: str, kind: str, end: int, since: int | None = None) -> BySeed:
    """Each seed's mean norm at the end, or how far it went since another step."""
    where = {"data": data.label, "probe": "norms"}
    ends = values(rows, "length", **where, step=end, matrix=matrix, kind=kind) | lost(rows, **where, step=end)
    if since is None:
        return ends
    return difference(ends, values(rows, "length", **where, step=since, matrix=matrix, kind=kind))


def _ahead(rows: list[Row], data: Data, cut: str, end: int) -> BySeed:
    where = {"data": data.label, "probe": "parts", "step": end}
    return difference(*(values(rows, f"{part}_by_{cut}", **where) for part in ("label", "feature")))


def _fraction(rows: list[Row], data: Data, cut: str, end: int) -> BySeed:
    """How far training raised the share of pairs in which the label part is the larger."""
    where = {"data": data.label, "probe": "parts"}
    return difference(*(values(rows, f"ahead_by_{cut}", **where, step=step) for step in (end, 0)))
