"""readings: the most favourable reading of each paper, of many that its unstated settings allow.

`iclab.beyond.readings_space` writes down which values the unstated settings may have. Many readings are tried with two
seeds, and the claims of the paper that hold under each, all at once, are counted. The leaders of this search are the
finalists; with eight seeds, the best of them is the most favourable reading. It and iclab's own are then judged
with seeds that neither has seen. The search is random with a recorded seed, then in steps of one dimension around the
best; finalists and the best are recorded in the settings. An adaptive search, such as Optuna's, would find
the same kind of optimum, but what it tries depends on what it found; here every cell is known before the first runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from iclab.beyond.readings_chart import draw
from iclab.beyond.readings_space import (
    FINALISTS,
    PARTS,
    Reading,
    changes_of,
    drawn_readings,
    in_words,
    neighbours,
)
from iclab.catalog import find
from iclab.lab import TrainingCell
from iclab.probes import Interval, Row, at_confidence
from iclab.study.charts import Figure
from iclab.study.claims import DECIDED, Claim, Judge, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment
from iclab.study.settings import Chosen, Different, Settings

SEARCH, FINAL, VERDICT = "search", "final", "verdict"
GLANCE = 0.5
"""The confidence of intervals in the search: two seeds cannot decide at 95 %, but they can point the way."""
FRESH = 32
"""Verdicts take seeds from here on. The others take the first ones, with which iclab's own values were chosen too."""


class ReadingsSettings(Settings):
    """Settings of readings: how much is tried, and what was found."""

    parts: Annotated[
        tuple[Literal["M, three layers", "M, one layer", "T", "S"], ...],
        Field(min_length=1),
        Different,
        Chosen("each has a search of its own", grid=True),
    ] = ("M, three layers", "M, one layer", "T", "S")
    trainings: Annotated[
        dict[str, Annotated[int, Field(ge=1)]], Chosen("random readings that train models of their own", grid=True)
    ] = {"M, three layers": 50, "M, one layer": 10, "T": 16, "S": 8}
    tests: Annotated[
        dict[str, Annotated[int, Field(ge=1)]], Chosen("readings per training that differ in test prompts", grid=True)
    ] = {"M, three layers": 4, "M, one layer": 4, "T": 1, "S": 1}
    steps_around: Annotated[
        bool, Chosen("whether to try every reading one step from the most favourable one too", grid=True)
    ] = True
    favourable: Annotated[
        dict[str, dict[str, str]],
        Chosen("the reading of each part under which most of its paper's claims hold at once: the best finalist"),
    ] = {
        "M, three layers": {
            "stream": "label",
            "norm": "scores",
            "residual": "no",
            "‖v*‖": "1",
            "batches": "stratified",
            "counting": "exact",
            "labels": "target",
        },
        "M, one layer": {"step sizes": "× 0.1", "batches": "stratified", "counting": "exact"},
        "T": {},
        "S": {},
    }
    finalists: Annotated[
        dict[str, tuple[dict[str, str], ...]],
        Chosen("leaders of the search, compared with more seeds; the claim readings.PART.found judges the best"),
    ] = FINALISTS
    final_seeds: Annotated[int, Field(ge=2, le=8), Chosen("per finalist", grid=True)] = 8
    less: Annotated[
        dict[str, dict[str, Any]],
        Chosen("further changes of single experiments, besides leaving out what only iclab's claims need", grid=True),
    ] = {}
    search_seeds: Annotated[int, Field(ge=2, le=8), Chosen("per reading in the search", grid=True)] = 2
    search_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition in the search", grid=True)] = 1_000
    seeds: Annotated[int, Field(ge=2), Chosen("fresh ones, for the verdicts", grid=True)] = 16
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition of the verdicts", grid=True)] = 2_000

    def quick(self) -> ReadingsSettings:
        """Return the quick edition: few readings of three layers, and none around the best."""
        fewer = {part: min(count, {"M, three layers": 4}.get(part, 2)) for part, count in self.trainings.items()}
        return self.replace(
            trainings=fewer,
            tests={part: min(count, 2) for part, count in self.tests.items()},
            steps_around=False,
            finalists={},
            seeds=min(self.seeds, 8),
            search_prompts=min(self.search_prompts, 500),
            test_prompts=min(self.test_prompts, 500),
            parts=tuple(part for part in self.parts if part in ("M, three layers", "M, one layer")) or self.parts,
        )

    @model_validator(mode="after")
    def _known(self) -> ReadingsSettings:
        listed = [("favourable", part, reading) for part, reading in self.favourable.items()]
        listed += [("finalists", part, reading) for part, found in self.finalists.items() for reading in found]
        for field, part, reading in listed:
            if part not in PARTS:
                raise ValueError(f"{field} = {part}: must be one of {'; '.join(PARTS)}")
            for dimension, value in reading.items():
                allowed = PARTS[part].space.get(dimension)
                if allowed is None or value not in allowed:
                    named = ", ".join(PARTS[part].space if allowed is None else allowed)
                    raise ValueError(f"{field}.{part} = {dimension}: {value}: must be one of {named}")
        return self

    def best(self, part: str) -> Reading:
        """Return the most favourable reading of a part."""
        return self.favourable.get(part, {})

    def tried(self, part: str) -> list[Reading]:
        """Return the readings of the search, each once; iclab's own is the first, then the most favourable one."""
        found = drawn_readings(part, self.trainings.get(part, 1), self.tests.get(part, 1))
        around = neighbours(part, self.best(part)) if self.steps_around else []
        listed = [found[0], self.best(part), *found[1:], *around]
        return [reading for n, reading in enumerate(listed) if reading not in listed[:n]]

    def last(self, part: str) -> list[Reading]:
        """Return the finalists, the most favourable one first, and iclab's own; none if there are no others."""
        others = self.finalists.get(part, ())
        listed: list[Reading] = [self.best(part), {}, *others] if others else []
        return [reading for n, reading in enumerate(listed) if reading not in listed[:n]]

    @cached_property
    def views(self) -> dict[str, list[View]]:
        """Every reading of every part in the search, then the two that are judged."""
        return {part: list(self._views(part)) for part in self.parts}

    def _views(self, part: str) -> Iterator[View]:
        for reading in self.tried(part):
            yield View(self, part, SEARCH, reading)
        for reading in self.last(part):
            yield View(self, part, FINAL, reading)
        for n, reading in enumerate(({}, self.best(part))):
            if n == 0 or reading:
                yield View(self, part, VERDICT, reading)


@dataclass(frozen=True)
class View:
    """A part of a paper under one reading, in the search or judged with fresh seeds."""

    of: ReadingsSettings
    part: str
    stage: str
    reading: Reading

    @property
    def columns(self) -> dict[str, str]:
        """The columns that identify its rows."""
        return {"part": self.part, "stage_of": self.stage, "reading": in_words(self.reading)}

    @property
    def key(self) -> tuple[str, ...]:
        """The values of these columns."""
        return tuple(self.columns.values())

    @property
    def seeds(self) -> int:
        """How many seeds it has."""
        return {SEARCH: self.of.search_seeds, FINAL: self.of.final_seeds, VERDICT: self.of.seeds}[self.stage]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings of each experiment under this reading."""
        part, found = PARTS[self.part], {}
        prompts = self.of.search_prompts if self.stage == SEARCH else self.of.test_prompts
        counts = {"seeds": self.seeds, "test_prompts": prompts, "engine": self.of.engine}
        for id_ in part.experiments:
            less = {**part.less.get(id_, {}), **self.of.less.get(id_, {}), **counts}
            usual = find(id_).settings().quick().replace(**less)
            found[id_] = usual.changed(changes_of(self.part, self.reading)) if self.reading else usual
        return found

    def conditions(self) -> Iterator[Condition]:
        """Return every measurement that the paper's claims need, with the seeds of this stage."""
        for id_, settings in self.settings.items():
            for condition in find(id_).conditions(settings):
                if _needed(condition.columns, settings):
                    cell = condition.cell.replace(training=self._with_seeds(condition.cell.training))
                    below = FRESH + self.seeds if self.stage == VERDICT else None
                    yield Condition({**condition.columns, **self.columns, "experiment": id_}, cell, below)

    def _with_seeds(self, cell: TrainingCell) -> TrainingCell:
        """Return the same training for the seeds of the search, or for fresh ones."""
        if self.stage == VERDICT:
            return cell.replace(group=cell.group + FRESH // cell.training.model.architecture.group_size)
        return TrainingCell.covering(cell.training, range(self.seeds), lambda whole: False)[0]

    def verdicts(self, rows: list[Row]) -> dict[str, str]:
        """Judge the paper's claims from the rows of this view; return verdicts by claim id."""
        by_experiment: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_experiment[row["experiment"]].append(row)
        with at_confidence(GLANCE) if self.stage == SEARCH else at_confidence(0.95):
            return {
                claim.id: claim.judgement(by_experiment[id_]).verdict
                for id_, settings in self.settings.items()
                for claim in find(id_).claims(settings)
                if not claim.ours
            }


def _needed(columns: Mapping[str, Any], settings: Any) -> bool:
    """Whether a claim of a paper, and not just one of iclab's own, needs a measurement."""
    if columns.get("stage", "trained") != "trained" or columns.get("placement") == "as trained":
        return False
    return columns.get("step") in (None, 0, settings.steps)


Verdicts = dict[tuple[str, ...], dict[str, str]]
"""Verdicts by view and claim."""


def all_verdicts(rows: list[Row], settings: ReadingsSettings, part: str) -> Verdicts | None:
    """Judge every view of a part; None if some have no rows, or if no claim is decided under any."""
    mine: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["part"] == part:
            mine[row["part"], row["stage_of"], row["reading"]].append(row)
    views = settings.views[part]
    if any(view.key not in mine for view in views):
        return None
    found = {view.key: view.verdicts(mine[view.key]) for view in views}
    if not any(verdict in DECIDED for verdicts in found.values() for verdict in verdicts.values()):
        return None
    asked = {claim for verdicts in found.values() for claim, verdict in verdicts.items() if verdict != "not run"}
    return {key: {c: v for c, v in verdicts.items() if c in asked} for key, verdicts in found.items()}


def held(verdicts: Mapping[str, str]) -> int:
    """Return how many claims hold."""
    return sum(verdict == "holds" for verdict in verdicts.values())


class Readings(Experiment[ReadingsSettings]):
    """Papers under the readings that their unstated settings allow."""

    id = "readings"
    title = "The most favourable reading of each paper"
    paper = (
        "No paper asks this. Where a claim fails here, its authors may have meant other values of what they do "
        "not state: under which values do most of their claims hold, all at once, and which claims hold under none?"
    )
    reading = (
        "Each row is a claim of a paper. First column: iclab's own reading, second: the most favourable of all that "
        "were tried, both judged with fresh seeds; a cross if the claim fails, an arrow if it holds in direction but "
        "not in size, a dot if it is undecided. Third column: the share of all readings tried under which the claim "
        "holds, in per cent. On the right: how many claims hold at once under each reading of the search, sorted."
    )
    caption = "verdicts with fresh seeds, and the share of readings tried under which a claim holds"
    settings = ReadingsSettings

    def conditions(self, settings: ReadingsSettings) -> list[Condition]:
        """Return every cell of every reading."""
        return [condition for views in settings.views.values() for view in views for condition in view.conditions()]

    def claims(self, settings: ReadingsSettings) -> list[Claim]:
        """Ask of each part whether the recorded reading is the best, how much better, and what holds under none."""
        return [claim for part in settings.parts for claim in _claims(settings, part)]

    def table(self, rows: list[Row], settings: ReadingsSettings) -> list[dict[str, Any]]:
        """Return one line per claim, below one line per part that names its readings."""
        lines = []
        for part in settings.parts:
            own, best = "iclab's own", "most favourable"
            lines.append({"part": part, "claim": "", own: own, best: in_words(settings.best(part)), "holds under": ""})
            found = all_verdicts(rows, settings, part)
            for claim, (first, second, share) in summary(found, settings, part).items() if found else ():
                texts = {own: first, best: second, "holds under": f"{100 * share:.0f} %" if share else "none"}
                lines.append({"part": part, "claim": claim, **texts})
        return lines

    def chart(self, rows: list[Row], settings: ReadingsSettings) -> Figure:
        """Draw a map of verdicts per part, and beside it how many claims hold under each reading."""
        found: dict[str, Any] = {}
        for part in settings.parts:
            verdicts = all_verdicts(rows, settings, part)
            if verdicts:
                counts = {key: held(v) for key, v in verdicts.items() if key[1] == SEARCH}
                found[part] = summary(verdicts, settings, part), counts, in_words(settings.best(part))
        return draw(found)


def summary(found: Verdicts, settings: ReadingsSettings, part: str) -> dict[str, tuple[str, str, float]]:
    """Return, by claim: the verdict of iclab's own reading, of the best, and the share of readings where it holds."""
    own, best = (found[key] for key in _judged(settings, part))
    search = [verdicts for key, verdicts in found.items() if key[1] == SEARCH]
    everywhere = Counter(claim for verdicts in search for claim, v in verdicts.items() if v == "holds")
    return {claim: (own[claim], best.get(claim, "not run"), everywhere[claim] / len(search)) for claim in own}


def _judged(settings: ReadingsSettings, part: str) -> list[tuple[str, ...]]:
    """Return the keys of iclab's own reading and of the most favourable one, judged with fresh seeds."""
    return [(part, VERDICT, in_words(reading)) for reading in ({}, settings.best(part))]


def _claims(settings: ReadingsSettings, part: str) -> list[Claim]:
    def ask(name: str, question: str, predicate: str, count: Callable[[Verdicts], int], rule: Any) -> Claim:
        def points(rows: list[Row]) -> list[Point] | None:
            found = all_verdicts(rows, settings, part) if rows else None
            if found is None:
                return None
            number = float(count(found))
            return [Point(number, Interval(number, number), in_words(settings.best(part)))]

        judge: Judge = judged(points, rule, 0.5)
        id_ = f"readings.{part.replace(', ', '-').replace(' ', '-')}.{name}"
        return Claim(id_, question, predicate, judge, ours=True, counts=True)

    own, best = _judged(settings, part)
    recorded = (part, FINAL, best[2])
    final = ask(
        "found",
        f"the recorded reading of {part} is the most favourable of the finalists",
        f"no finalist holds more claims with {settings.final_seeds} seeds; the number is how many more the best holds",
        lambda found: max(held(v) for k, v in found.items() if k[1] == FINAL) - held(found[recorded]),
        every_below,
    )
    return [
        *([final] if settings.last(part) else []),
        ask(
            "better",
            f"it is more favourable than iclab's own, {part}",
            "claims that hold under it − claims that hold under iclab's own > 0, with fresh seeds",
            lambda found: held(found[best]) - held(found[own]),
            every_above,
        ),
        ask(
            "all",
            f"all claims of the paper hold under it at once, {part}",
            "no claim fails, is undecided or holds in direction only, with fresh seeds; the number is how many do",
            lambda found: len(found[best]) - held(found[best]),
            every_below,
        ),
        ask(
            "none",
            f"every claim of the paper holds under some reading, {part}",
            "no claim holds under none of the readings, in the search and with fresh seeds; the number is how many do",
            lambda found: len(_nowhere(found)),
            every_below,
        ),
    ]


def _nowhere(found: Verdicts) -> list[str]:
    """Return the claims that hold under none of the readings."""
    claims = next(iter(found.values()))
    return [claim for claim in claims if all(verdicts.get(claim) != "holds" for verdicts in found.values())]
