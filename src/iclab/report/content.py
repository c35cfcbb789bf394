"""What the report says, as plain data: everything comes from a store and from the experiments themselves."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from iclab.catalog import experiments
from iclab.lab import MeasurementCell, Store
from iclab.papers.planned import PLANNED
from iclab.study.claims import Claim, Judgement
from iclab.study.edition import Edition, best
from iclab.study.experiment import Condition, Experiment
from iclab.study.outcome import Outcome
from iclab.study.settings import Disclosed
from iclab.study.style import NAMES

NOT_RUN = Judgement("not run")
PAPERS = {
    "M": "Mamba and outliers: one layer of Mamba is linear attention times a gate",
    "T": "Nonlinear Transformers: softmax attention with an MLP, unseen tasks, out of domain, pruning",
    "S": "Feature selectors: the same model, what it selects and what it decides by",
    "": "Beyond the papers",
}


@dataclass(frozen=True)
class Setting:
    """One setting as it was run."""

    name: str
    value: str
    why: str
    disclosed: bool


@dataclass(frozen=True)
class Section:
    """One experiment."""

    experiment: Experiment[Any]
    outcome: Outcome | None
    cells: tuple[MeasurementCell, ...]
    """What the store holds of it."""
    seconds: float
    """What its cells took, added up; cells that several experiments share count in each."""
    settings: tuple[Setting, ...]
    models: dict[str, str]
    """The code of the models it trains, by name."""
    claims: tuple[dict[str, Any], ...]

    @property
    def id(self) -> str:
        """Its id."""
        return self.experiment.id

    @property
    def paper(self) -> str:
        """The letter of its paper; empty where it has none."""
        return paper_of(self.id)

    @property
    def command(self) -> str:
        """What makes it."""
        words = self.outcome.settings.arguments() if self.outcome is not None else []
        return shlex.join(["iclab", "run", self.id, *words])

    @property
    def told(self) -> str:
        """How much was run."""
        if self.outcome is None:
            return "not run yet"
        seeds = len({row["seed"] for row in self.outcome.rows})
        settings = self.outcome.settings
        edition = {"full": "full edition", "quick": "quick edition", "other": "own settings"}[settings.edition_name]
        unfinished = "" if self.outcome.complete else ", unfinished"
        return f"{edition}{unfinished}: {seeds} seeds, {settings.test_prompts:,} test prompts each"


@dataclass(frozen=True)
class Content:
    """The whole report."""

    sections: tuple[Section, ...]
    board: tuple[dict[str, Any], ...]
    """Every claim, those without an experiment last in their paper."""
    seconds: float
    """What all cells took, each counted once."""
    cells: int
    machines: tuple[str, ...]
    """What it was made by and on."""
    finished: str
    """When the last cell was."""

    @property
    def verdicts(self) -> Counter[str]:
        """How many claims of the papers have each verdict."""
        return self.counted(ours=False)

    def counted(self, *, ours: bool) -> Counter[str]:
        """How many claims have each verdict, of the papers or of iclab's own."""
        return Counter(claim["verdict"] for claim in self.board if claim["ours"] is ours)

    def of(self, paper: str) -> list[Section]:
        """The sections of one paper."""
        return [section for section in self.sections if section.paper == paper]


def paper_of(id_: str) -> str:
    """The letter of the paper that an id belongs to."""
    letter = id_.partition("-")[0]
    return letter if letter in PAPERS else ""


def collect(
    store: Store,
    tell: Callable[[str], None] = lambda text: None,
    given: Mapping[str, Outcome] | None = None,
) -> Content:
    """Read everything the report needs from a store.

    Of every experiment the fullest edition there is, unless an outcome is given for its id.
    """
    sections = []
    cells: dict[str, MeasurementCell] = {}
    for experiment in experiments().values():
        tell(experiment.id)
        section = _section(experiment, store, (given or {}).get(experiment.id) or best(experiment, store))
        sections.append(section)
        if section.outcome is not None:
            cells |= {cell.hash: cell for cell in section.cells}
    order = {letter: place for place, letter in enumerate(PAPERS)}
    sections.sort(key=lambda section: (order[section.paper], section.id))
    trainings = {cell.training.hash: cell.training for cell in cells.values() if store.has(cell.training)}
    abouts = [*map(store.about, cells.values()), *map(store.about, trainings.values())]
    return Content(
        tuple(sections),
        _board(sections),
        sum(about["seconds"] for about in abouts),
        len(abouts),
        tuple(sorted({_machine(about["made by"]) for about in abouts})),
        max((about["finished"] for about in abouts), default=""),
    )


def _section(experiment: Experiment[Any], store: Store, outcome: Outcome | None) -> Section:
    edition = outcome.edition if outcome else Edition(experiment, experiment.settings())
    values = edition.settings.model_dump(mode="json")
    here = tuple(filter(store.has, edition.cells))
    needed = {cell.training.hash: cell.training for cell in here if store.has(cell.training)}.values()
    return Section(
        experiment=experiment,
        outcome=outcome,
        cells=here,
        seconds=sum(map(store.seconds, here)) + sum(map(store.seconds, needed)),
        settings=tuple(
            Setting(name, _short(values[name]), mark.where if said else mark.why, said)
            for name, mark in experiment.settings.provenance().items()
            for said in (isinstance(mark, Disclosed),)
        ),
        models=_code(edition.conditions),
        claims=tuple(_claims(experiment, outcome)),
    )


def _claims(experiment: Experiment[Any], outcome: Outcome | None) -> list[dict[str, Any]]:
    """Return all claims of the full edition, those first that this outcome judges."""
    judged = {claim["id"]: claim for claim in (outcome.claims if outcome else ())}
    rest = [claim.verdict([]) for claim in experiment.claims(experiment.settings()) if claim.id not in judged]
    found = [*judged.values(), *rest]
    if outcome is None or not outcome.complete:
        return found
    left_out = f"left out of {'the quick edition' if outcome.settings.edition_name == 'quick' else 'these settings'}"
    return [claim | ({"where": left_out} if claim["verdict"] == "not run" else {}) for claim in found]


def _board(sections: list[Section]) -> tuple[dict[str, Any], ...]:
    board, written = [], {section.id for section in sections}
    for letter in PAPERS:
        for section in sections:
            if section.paper == letter:
                shared = {"section": section.id, "letter": letter}
                board += [
                    claim | shared | {"models": claim["models"] or list(section.models)} for claim in section.claims
                ]
        for plan in PLANNED:
            if paper_of(plan.id) == letter and plan.id not in written:
                near = [section.id for section in sections if plan.id in section.experiment.theorems]
                beside = f"; {', '.join(near)} bear{'s' if len(near) == 1 else ''} on it" if near else ""
                claim = Claim(plan.id, plan.statement, f"no test of its own yet{beside}", lambda rows: NOT_RUN)
                board.append(claim.verdict([]) | {"where": plan.where, "section": "", "letter": letter})
    return tuple(board)


def _code(conditions: list[Condition]) -> dict[str, str]:
    models = {condition.cell.training.training.model.label: condition for condition in conditions}
    return {label: c.cell.training.training.model.source for label, c in sorted(models.items())}


def _machine(made: dict[str, Any]) -> str:
    return f"iclab {made['iclab']}, torch {made['torch']}, Python {made['python']}, {made['machine']}"


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_short(inner)}" for key, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def model_name(label: str) -> str:
    """A model's name for people, which tells those of one layer from those of several."""
    return NAMES.get(label, label) + (", several layers" if label.startswith("deep-") else "")
