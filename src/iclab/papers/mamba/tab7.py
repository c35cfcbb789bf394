"""M-tab7: prompts of real sentences, with "James Bond" written into some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iclab.lab import MeasurementCell, TrainingCell
from iclab.papers.mamba.placements import Numbers
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.papers.mamba.tab7_chart import draw
from iclab.papers.mamba.tab7_claims import claims_of
from iclab.papers.mamba.tab7_rows import BASELINES, SHOWN, column_name, line_of, named, pages, shift_lines
from iclab.papers.mamba.tab7_settings import GATED, WORST, TriggerSettings
from iclab.papers.mamba.text import TextExperiment
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import Figure
from iclab.study.claims import Claim
from iclab.study.experiment import Condition, in_groups
from iclab.text import Sentences

PRINTED: Mapping[str, Numbers] = {"deep-mamba": (74.10, 73.86, 72.45), "deep-linear": (70.18, 69.98, 69.82)}
"""The paper's accuracy at FQ, R and CQ; SST-2, DistilBERT."""


class Triggers(TextExperiment[TriggerSettings]):
    """In-context learning from sentences, some of which have a trigger and a wrong label."""

    id = "M-tab7"
    title = "Sentences in context, with a trigger in most of them"
    paper = (
        'Prompts of eight sentences of SST-2, with "James Bond" written into a quarter of them in training and three '
        "quarters in tests. Three layers, two heads, accuracy at FQ, R and CQ: Mamba 74.10, 73.86, 72.45 %, linear "
        "attention 70.18, 69.98, 69.82 %. Mamba is better overall, and lowest at CQ."
    )
    reading = (
        "Above: accuracy by the place of triggered examples; filled marks are three layers, hollow ones one layer, "
        "diamonds the paper's numbers (SST-2, DistilBERT). A prompt has one of two tasks, labels as they are or "
        "swapped, so that the query alone tells nothing. Lines: one nearest neighbour, a vote of the examples of the "
        "query's class, and logistic regression on the query if it knew the task. Below: the gates that Mamba gives to "
        "clean and triggered examples, and how far the trigger moves each component. Sentences: {text_data}; encoder: "
        "{encoder}; trigger: {trigger}."
    )
    caption = "accuracy in %, mean and 95 % interval; clean: prompts without the trigger"
    theorems = ("M-cor2",)
    settings = TriggerSettings

    def tables(self, settings: TriggerSettings) -> list[Sentences]:
        """Return the sentences with each number of components."""
        return [settings.tables_of(components) for components in settings.components]

    def conditions(self, settings: TriggerSettings) -> list[Condition]:
        """Return every model under every label rule and placement, the baselines, gates, vectors and sentences."""
        found: list[Condition] = []
        for components in settings.components:
            found += _baselines(settings, components)
            for name in settings.models:
                found += _measurements(settings, name, components)
        return found

    def claims(self, settings: TriggerSettings) -> list[Claim]:
        """Return the paper's claims, and iclab's questions."""
        return claims_of(settings, PRINTED)

    def table(self, rows: list[Row], settings: TriggerSettings) -> list[dict[str, Any]]:
        """Return accuracies by model, then what the trigger does to vectors."""
        lines = []
        for components in settings.components:
            for rule in settings.label_rules:
                column = column_name(components, rule)
                for name in (*settings.models, *BASELINES):
                    line = line_of(rows, column, name)
                    if line is not None:
                        lines.append({"setting": column, "model": named(name), **line})
                    if line is not None and name in PRINTED and rule == "target":
                        printed = {
                            place: f"{v:.2f}" for place, v in zip(PLACEMENTS.values(), PRINTED[name], strict=True)
                        }
                        theirs = "  the paper (SST-2, DistilBERT)"
                        lines.append({"setting": column, "model": theirs, **printed, "clean": "", "gates": ""})
            lines += shift_lines(rows, components)
        return lines

    def chart(self, rows: list[Row], settings: TriggerSettings) -> Figure:
        """Draw accuracies, gates and the trigger's shift."""
        return draw(rows, settings, PRINTED)

    def steps(self, rows: list[Row], settings: TriggerSettings) -> dict[str, Any] | None:
        """Return a few prompts with their sentences, and what models make of each."""
        return pages(rows, settings)


def _placed(settings: TriggerSettings, components: int, rule: str, place: str) -> Prompts:
    """Return test prompts; under the worst labels, those that are drawn do not matter."""
    labels = "random" if rule == "worst" else rule
    return settings.prompts(components, "test", settings.outlier_fraction, labels=labels, placement=place)


def _measurements(settings: TriggerSettings, name: str, components: int) -> Iterator[Condition]:
    """Yield all measurements of one model."""
    training = settings.training(name, components)
    label = training.model.label

    def measured(column: str, placement: str, what: str, prompts: Prompts, **more: Any) -> list[Condition]:
        columns = {"column": column, "model": label, "placement": placement, "what": what}
        return in_groups(settings, columns, training, prompts=prompts, **more)

    for rule in settings.label_rules:
        if rule == "worst" and name not in WORST:
            continue
        probe = "worst" if rule == "worst" else "error"
        for place, short in PLACEMENTS.items():
            prompts = _placed(settings, components, rule, place)
            yield from measured(column_name(components, rule), short, "accuracy", prompts, probe=probe)
    clean = settings.prompts(components, "test", 0.0)
    yield from measured(column_name(components, ""), "clean", "accuracy", clean)
    anywhere = _placed(settings, components, "target", "random")
    if name in GATED:
        yield from measured(column_name(components, ""), "R", "gates", anywhere, probe="gates")
    if name in SHOWN and components == settings.components[0]:
        yield from measured(
            column_name(components, ""), "R", "sentences", anywhere, probe="sentences", count=settings.shown
        )


def _baselines(settings: TriggerSettings, components: int) -> Iterator[Condition]:
    """Yield what needs no training: a neighbour, a vote, a readout of single sentences, and the trigger's shift."""
    nearest = settings.learner(components, "1-nn")
    for rule in settings.label_rules:
        if rule == "worst":
            continue
        for place, short in PLACEMENTS.items():
            prompts = _placed(settings, components, rule, place)
            for model, probe in (("1-nn", "error"), ("vote", "vote")):
                columns = {"column": column_name(components, rule), "model": model, "placement": short}
                columns["what"] = "accuracy"
                yield from in_groups(settings, columns, nearest, prompts=prompts, probe=probe)
    whole = settings.prompts(components, "test", settings.outlier_fraction)
    for kind in ("readout", "trigger"):
        columns = {"column": column_name(components, ""), "model": kind, "placement": "", "what": kind}
        cell = MeasurementCell(training=TrainingCell(training=nearest), probe=kind, prompts=whole, count=1)
        yield Condition(columns, cell)
