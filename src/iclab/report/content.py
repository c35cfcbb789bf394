"""The content of the report as plain data, read from a store and from the experiments."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from iclab import catalog
from iclab.config import InputError
from iclab.lab import MeasurementCell, Store
from iclab.report.covering import Covering, covering_of
from iclab.report.drawing import Drawing, drawing_of
from iclab.report.findings import FINDINGS
from iclab.report.remembered import Remembered
from iclab.report.story import Card, cards
from iclab.report.variants import Variant, code_of, variants_of
from iclab.study.chance import WrongByChance, wrong_by_chance
from iclab.study.charts import full_name_of
from iclab.study.claims import Claim, Judgement
from iclab.study.edition import Edition, best, usual
from iclab.study.experiment import Experiment
from iclab.study.outcome import Outcome
from iclab.study.settings import Described, Settings, short
from iclab.theory.statements import STATEMENTS

NOT_RUN = Judgement("not run")
PAPERS = {
    "M": "Mamba and outliers: one layer of Mamba is linear attention times a gate",
    "T": "Nonlinear Transformers: softmax attention with an MLP, unseen tasks, out of domain, pruning",
    "S": "Feature selectors: the same model, what it selects and what it decides by",
    "": "Beyond the papers",
}
OWN = "yours"
"""Stands for the letter of a paper in experiments of the user's own."""
PARTS = PAPERS | {OWN: "Yours: experiments from outside the package"}
KINDS = {"Figures and tables": r"fig|tab", "Theorems and lemmas": r"thm|cor|lem|prop", "More questions": ""}
"""The kinds of experiments of a paper, and how their names begin."""
EDITIONS = {"full": "full edition", "quick": "quick edition", "other": "own settings"}


@dataclass(frozen=True)
class Section:
    """The part of the report about one experiment."""

    experiment: Experiment[Any]
    edition: Edition
    """The edition that is shown; the full one if the experiment has not been run."""
    outcome: Outcome | None
    cells: tuple[MeasurementCell, ...]
    """The cells of this edition that the store holds."""
    seconds: float
    """The computing time of its cells. Cells that experiments share count in each of them."""
    settings: tuple[Described, ...]
    models: dict[str, str]
    """The source code of the models it trains, by model id."""
    claims: tuple[dict[str, Any], ...]
    remembered: Remembered
    variants: tuple[Variant, ...] = ()
    """The same experiment under settings of the user's own."""

    @property
    def id(self) -> str:
        """The id of the experiment."""
        return self.experiment.id

    @property
    def paper(self) -> str:
        """The letter of its paper; empty for an experiment beyond the papers, `OWN` for the user's own."""
        return OWN if self.experiment.own else paper_of(self.id)

    @property
    def kind(self) -> str:
        """What it reproduces or asks."""
        name = self.id.partition("-")[2]
        return next(kind for kind, begins in KINDS.items() if re.match(begins, name))

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place among the sections: by paper, kind and number."""
        parts = re.split(r"(\d+)", self.id)
        numbered = tuple((int(part), "") if part.isdigit() else (0, part) for part in parts)
        return list(PARTS).index(self.paper), list(KINDS).index(self.kind), numbered

    @property
    def anchor(self) -> str:
        """Its name in the page. Those of users' own experiments cannot be taken for other parts of the page."""
        return f"own-{self.id}" if self.experiment.own else self.id

    @property
    def title(self) -> str:
        """The title of the experiment."""
        return self.experiment.title

    @property
    def reading(self) -> str:
        """How to read the figure, with the values of the settings it names."""
        return with_settings(self.experiment.reading, self.edition.settings)

    @property
    def command(self) -> str:
        """The command that runs it."""
        return self.edition.command

    @property
    def summary(self) -> str:
        """How much was run."""
        if self.outcome is None:
            return "not run yet"
        seeds = len({row["seed"] for row in self.outcome.rows})
        settings = self.outcome.settings
        unfinished = "" if self.outcome.complete else ", unfinished"
        return f"{EDITIONS[settings.edition_name]}{unfinished}: {settings.extent(seeds)}"

    def usual_verdict(self, id_: str) -> str:
        """Return the verdict on one of its claims, to be shown beside that of a variant; empty if it has none."""
        return next((claim["verdict"] for claim in self.claims if claim["id"] == id_), "")

    @cached_property
    def covering(self) -> Covering | None:
        """What the theorems say about its settings; None if no theorem is about its models."""

        def covering() -> dict[str, Any] | None:
            found = covering_of(self.edition.conditions, "" if self.experiment.own else self.paper)
            return None if found is None else asdict(found)

        found = self.remembered.ask(self.edition, "covering", covering)
        return None if found is None else Covering.read(found)

    @cached_property
    def drawing(self) -> Drawing | None:
        """The figure for the page; None if the experiment has not been run."""
        return None if self.outcome is None else drawing_of(self.outcome)

    @cached_property
    def steps(self) -> dict[str, Any] | None:
        """What a reader can step through; None if there is nothing of the kind."""
        if self.outcome is None:
            return None
        with self.experiment.guarded("steps"):
            found = self.experiment.steps(self.outcome.rows, self.outcome.settings)
            json.dumps(found, allow_nan=False)  # a browser reads no NaN
        return found


@dataclass(frozen=True)
class Content:
    """The whole report."""

    sections: tuple[Section, ...]
    board: tuple[dict[str, Any], ...]
    """All claims. Within a paper, claims without an experiment come last."""
    seconds: float
    """The computing time of all cells, each counted once."""
    cells: int
    machines: tuple[str, ...]
    """The versions and machines that computed the cells."""
    finished: str
    """When the last cell was finished."""
    problems: tuple[str, ...] = ()
    """A line about each experiment of the user's own that cannot be shown."""

    @property
    def verdicts(self) -> Counter[str]:
        """The number of claims of the papers with each verdict."""
        return self.counted("paper")

    @property
    def variants(self) -> int:
        """The number of results under settings of the user's own."""
        return sum(variant.outcome is not None for section in self.sections for variant in section.variants)

    @property
    def elsewhere(self) -> bool:
        """Whether there is anything for the page of variants and own experiments."""
        return bool(self.of(OWN) or self.problems or any(section.variants for section in self.sections))

    @cached_property
    def story(self) -> list[Card]:
        """What was found, as far as the store shows it."""
        return cards(FINDINGS, {s.id: s.outcome for s in self.sections if s.outcome and not s.experiment.own})

    @property
    def wrong_by_chance(self) -> WrongByChance:
        """How many verdicts are expected to be wrong by chance, of all claims."""
        return wrong_by_chance(self.board)

    @property
    def edition(self) -> str:
        """A sentence that says which editions the report shows."""
        sections = [section for section in self.sections if not section.experiment.own]
        outcomes = [section.outcome for section in sections if section.outcome is not None]
        counts: Counter[str] = Counter(outcome.settings.edition_name for outcome in outcomes)
        total, unfinished = len(sections), sum(not outcome.complete for outcome in outcomes)
        shown = [edition for edition in EDITIONS if counts[edition]]
        mine = sum(section.outcome is not None for section in self.sections if section.experiment.own)
        own = f"; {mine} of your own" if mine else ""
        if not shown:
            whose = " of iclab" if mine else ""
            usual = " with its usual settings" if self.variants else ""
            return f"No experiment{whose} has been run{usual} yet{own}."
        many = len(outcomes)
        if len(shown) == 1:
            text = f"{EDITIONS[shown[0]].capitalize()}: {'all' if many == total else f'{many} of'} {total} experiments"
        else:
            words = {"full": "full", "quick": "quick", "other": "with own settings"}
            text = f"Mixed editions of {many} experiments: "
            text += ", ".join(f"{counts[edition]} {words[edition]}" for edition in shown)
        text += f"; {unfinished} unfinished" if unfinished else ""
        return text + (f"; {total - many} not run" if many < total else "") + own + "."

    def counted(self, source: str) -> Counter[str]:
        """Count the verdicts on the claims of one source: ``paper``, ``iclab`` (its own questions) or ``yours``."""
        return Counter(claim["verdict"] for claim in self.board if claim["source"] == source)

    def of(self, paper: str) -> list[Section]:
        """Return the sections of one paper."""
        return [section for section in self.sections if section.paper == paper]

    def kinds(self, paper: str) -> dict[str, list[Section]]:
        """Return the sections of one paper by kind."""
        return {kind: list(found) for kind, found in groupby(self.of(paper), key=lambda section: section.kind)}


def paper_of(id_: str) -> str:
    """Return the letter of the paper that an id belongs to."""
    letter = id_.partition("-")[0]
    return letter if letter in PAPERS else ""


def with_settings(text: str, settings: Settings) -> str:
    """Replace names of settings in braces by their values; leave other braces as they are.

    Example:
        >>> with_settings("{seeds} seeds, {x}", Settings())
        '16 seeds, {x}'
    """
    values = settings.model_dump(mode="json")
    return re.sub(r"\{(\w+)\}", lambda found: short(values[found[1]]) if found[1] in values else found[0], text)


def collect(
    store: Store,
    progress: Callable[[str], None] = lambda text: None,
    given: Mapping[str, Outcome] | None = None,
    folder: str | None = None,
    remembered: Remembered | None = None,
) -> Content:
    """Read everything the report needs from a store.

    The report shows the fullest edition of each experiment, unless ``given`` has an outcome for its id, and variants
    below it. Users' own experiments are those that the store remembers, and those that the catalog finds.
    """
    records, remembered = store.records(), remembered or Remembered(None)
    mine, problems = catalog.own(folder, records)
    sections = []

    def hashes(edition: Edition) -> list[str]:
        return remembered.ask(edition, "cells", lambda: [cell.hash for cell in edition.cells])

    built_in = _built_in(store, given or {}, hashes, progress)
    cells: dict[str, MeasurementCell] = {}
    for experiment in (*catalog.experiments().values(), *mine.values()):
        progress(experiment.id)
        try:
            if experiment.own:
                outcome = (given or {}).get(experiment.id) or best(experiment, store, hashes)
            else:
                outcome = built_in.get(experiment.id)
            section = _section(experiment, store, outcome, records, remembered)
            _ = experiment.own and outcome and (outcome.table, section.steps)
        except InputError as error:
            if not experiment.own:
                raise
            problems.append(str(error))
            continue
        sections.append(section)
        shown = section.cells if section.outcome is not None else ()
        cells |= {cell.hash: cell for part in (shown, *(v.cells for v in section.variants)) for cell in part}
    sections.sort(key=lambda section: section.order)
    trainings = {cell.training.hash: cell.training for cell in cells.values() if store.has(cell.training)}
    abouts = [*map(store.about, cells.values()), *map(store.about, trainings.values())]
    return Content(
        tuple(sections),
        _board(sections),
        sum(about["seconds"] for about in abouts),
        len(abouts),
        tuple(sorted({_machine(about["made by"]) for about in abouts})),
        max((about["finished"] for about in abouts), default=""),
        tuple(problems),
    )


def _built_in(
    store: Store,
    given: Mapping[str, Outcome],
    hashes: Callable[[Edition], list[str]],
    progress: Callable[[str], None],
) -> dict[str, Outcome]:
    """Return the outcomes of built-in experiments that have been run, by id.

    Experiments share measurements. One that is not finished, and has only what others measured for themselves, has not
    been run.
    """
    found: dict[str, Outcome] = {}
    for id_, experiment in catalog.experiments().items():
        progress(id_)
        if outcome := given.get(id_) or best(experiment, store, hashes):
            found[id_] = outcome
    here = {id_: set(filter(store.has_measurement, hashes(outcome.edition))) for id_, outcome in found.items()}
    asked = {id_ for id_, outcome in found.items() if outcome.complete or id_ in given}
    measured = set[str]().union(*(here[id_] for id_ in asked))
    return {id_: outcome for id_, outcome in found.items() if id_ in asked or not here[id_] <= measured}


def _section(
    experiment: Experiment[Any],
    store: Store,
    outcome: Outcome | None,
    records: list[dict[str, Any]],
    remembered: Remembered,
) -> Section:
    edition = outcome.edition if outcome else usual(experiment)
    here = tuple(filter(store.has, edition.cells)) if outcome else ()
    needed = {cell.training.hash: cell.training for cell in here if store.has(cell.training)}.values()
    return Section(
        experiment=experiment,
        edition=edition,
        outcome=outcome,
        cells=here,
        seconds=sum(map(store.seconds, here)) + sum(map(store.seconds, needed)),
        settings=tuple(edition.settings.described()),
        models=remembered.ask(edition, "models", lambda: code_of(edition.conditions)),
        remembered=remembered,
        claims=tuple(_claims(experiment, outcome)),
        variants=tuple(variants_of(experiment, records, store, edition.settings)),
    )


def _claims(experiment: Experiment[Any], outcome: Outcome | None) -> list[dict[str, Any]]:
    """Return all claims of the full edition. The claims that this outcome judges come first."""
    judged = {claim["id"]: claim for claim in (outcome.claims if outcome else ())}
    with experiment.guarded("claims"):
        rest = [_not_run(claim, experiment) for claim in usual(experiment).claims if claim.id not in judged]
    found = [*judged.values(), *rest]
    if outcome is None or not outcome.complete:
        return found
    edition = "the quick edition" if outcome.settings.edition_name == "quick" else "these settings"
    return [claim | ({"where": f"not part of {edition}"} if claim["verdict"] == "not run" else {}) for claim in found]


def _not_run(claim: Claim, experiment: Experiment[Any]) -> dict[str, Any]:
    """Return the record of a claim without rows. Judges of users' own may need rows."""
    return (replace(claim, judge=lambda rows: NOT_RUN) if experiment.own else claim).verdict([])


def _board(sections: list[Section]) -> tuple[dict[str, Any], ...]:
    """Return the rows of the scoreboard: claims of experiments, and statements that no experiment tests."""
    board, written = [], {section.id for section in sections if not section.experiment.own}
    for letter in PARTS:
        for section in sections:
            if section.paper == letter:
                for claim in section.claims:
                    source = OWN if section.experiment.own else "iclab" if claim["ours"] else "paper"
                    shared = {"section": section.anchor, "letter": letter, "source": source}
                    board.append(claim | shared | {"models": claim["models"] or list(section.models)})
        for told in STATEMENTS:
            if told.to_test and paper_of(told.id) == letter and told.id not in written:
                built_in = (section.experiment for section in sections if not section.experiment.own)
                near = [experiment.id for experiment in built_in if told.id in experiment.theorems]
                related = f"; related: {', '.join(near)}" if near else ""
                planned = Claim(told.id, told.words, f"no experiment tests it yet{related}", lambda rows: NOT_RUN)
                shared = {"section": "", "letter": letter, "source": "paper"}
                board.append(planned.verdict([]) | {"where": told.where} | shared)
    return tuple(claim | {"search": _search(claim)} for claim in board)


def _search(claim: dict[str, Any]) -> str:
    """Return the text that the scoreboard's search box looks at."""
    models = [word for model in claim["models"] for word in (model, full_name_of(model))]
    words = [claim[key] for key in ("id", "verdict", "where", "paper", "predicate")]
    return " ".join([*words, *models]).lower()


def _machine(made: dict[str, Any]) -> str:
    return f"iclab {made['iclab']}, torch {made['torch']}, Python {made['python']}, {made['machine']}"
