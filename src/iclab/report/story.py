"""The story: what was found, as cards whose words and numbers come from the verdicts of the edition that is shown.

A `Finding` names the claims that its title rests on, and the verdicts that it takes for granted. Where a store says
otherwise, the card has another title and says which verdicts differ. Sentences are functions of `Facts`, so no number
is written down here: it is read from the points of a claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from iclab.report.drawing import Drawing, page_data
from iclab.study.charts import Figure, Panel
from iclab.study.outcome import Outcome
from iclab.study.settings import Settings

NOT_RUN = "not run"


class Facts:
    """The verdicts and numbers of all claims, by id."""

    def __init__(self, claims: Iterable[Mapping[str, Any]], settings: Mapping[str, Settings]) -> None:
        self._claims = {claim["id"]: claim for claim in claims}
        self.settings = settings
        """The settings of experiments that have been run, by id."""

    def claim(self, id_: str) -> Mapping[str, Any]:
        """Return the record of a claim; one that no experiment here makes was not run."""
        return self._claims.get(id_, {"id": id_, "verdict": NOT_RUN, "measured": None, "points": (), "where": ""})

    def verdict(self, id_: str) -> str:
        """Return the verdict on a claim."""
        return str(self.claim(id_)["verdict"])

    def judged(self, *ids: str) -> str:
        """Return the first of some claims that has a verdict; the first of all if none has."""
        return next((id_ for id_ in ids if self.verdict(id_) != NOT_RUN), ids[0])

    def points(self, id_: str, containing: str = "") -> dict[str, float]:
        """Return the numbers of a claim by where they were measured, if the place contains some words."""
        points = self.claim(id_)["points"]
        return {p["where"]: p["value"] for p in points if p["value"] is not None and containing in p["where"]}

    def say(self, id_: str, **words: str) -> str:
        """Return the words for the verdict on a claim, such as ``holds="…"``; ``other`` for all that have none.

        A claim that was not run has nothing to say.
        """
        verdict = self.verdict(id_)
        if verdict == NOT_RUN:
            return ""
        return words.get(verdict.replace(" ", "_"), words.get("other", ""))

    def split(self, ids: Mapping[str, str]) -> dict[str, list[str]]:
        """Return names of claims by verdict; ``ids`` has the id of each name."""
        found: dict[str, list[str]] = {}
        for name, id_ in ids.items():
            found.setdefault(self.verdict(id_), []).append(name)
        return found


@dataclass(frozen=True)
class Finding:
    """One of the things that were found."""

    id: str
    experiments: tuple[str, ...]
    """The experiments it needs. The figure is that of the first."""
    panels: Mapping[str, str]
    """How the titles of the shown panels begin, and their titles here; empty for their own without a letter."""
    title: str
    otherwise: str
    """The title if a verdict is not as expected."""
    expected: Mapping[str, str]
    """The verdicts that the title takes for granted."""
    tell: Callable[[Facts], list[str]]
    claims: tuple[str, ...] = ()
    """Other claims that it speaks of."""
    formula: str = ""
    """The name of a formula of the page."""
    paper: str = "M"
    """Whose letters it uses."""


@dataclass(frozen=True)
class Card:
    """A finding in the light of a store."""

    finding: Finding
    facts: Facts
    outcome: Outcome | None
    """Of the experiment with the figure."""
    missing: tuple[str, ...]
    """The experiments that have not been run."""

    @property
    def surprises(self) -> list[str]:
        """The claims whose verdict is not what the title assumes."""
        return [id_ for id_, verdict in self.finding.expected.items() if self.facts.verdict(id_) != verdict]

    @property
    def unknown(self) -> bool:
        """Whether nothing that the title rests on has been judged."""
        return all(self.facts.verdict(id_) == NOT_RUN for id_ in self.finding.expected)

    @property
    def title(self) -> str:
        """What was found, in one sentence."""
        if self.unknown:
            return f"Not run yet: {self.finding.title[0].lower()}{self.finding.title[1:]}?"
        return self.finding.otherwise if self.surprises else self.finding.title

    @property
    def sentences(self) -> list[str]:
        """The finding in a few sentences with numbers, and the verdicts that differ from what was found before."""
        told = [sentence.replace(" %", "\N{NO-BREAK SPACE}%") for sentence in self.finding.tell(self.facts) if sentence]
        if self.surprises and not self.unknown:
            verdicts = ", ".join(f"{id_} ({self.facts.verdict(id_)})" for id_ in self.surprises)
            told.append(f"The finding was “{self.finding.title}”. This store does not show it: {verdicts}.")
        return told

    @property
    def badges(self) -> list[Mapping[str, Any]]:
        """The claims it speaks of, with their verdicts."""
        return [self.facts.claim(id_) for id_ in dict.fromkeys((*self.finding.expected, *self.finding.claims))]

    @property
    def figure(self) -> str:
        """The name of its figure on the page."""
        return f"story-{self.finding.id}"

    @cached_property
    def drawing(self) -> Drawing | None:
        """The chosen panels of the figure; None if there is no such panel."""
        try:
            whole = self.outcome.figure if self.outcome else None
        except Exception:  # the section of the experiment says why
            return None
        panels = _chosen(whole, self.finding.panels) if isinstance(whole, Figure) else []
        if not isinstance(whole, Figure) or not panels:
            return None
        return Drawing(page_data(replace(whole, panels=panels, columns=len(panels), more=())))


def _chosen(figure: Figure, titles: Mapping[str, str]) -> list[Panel]:
    """Return the first panel whose title begins so, for each beginning, with its new title."""
    found = []
    for begin, title in titles.items():
        for panel in [panel for panel in figure.panels if panel.title.startswith(begin)][:1]:
            found.append(copy(panel))
            found[-1].title = title or re.sub("^[A-Z] +", "", panel.title)
    return found


def cards(findings: Iterable[Finding], outcomes: Mapping[str, Outcome]) -> list[Card]:
    """Return a card for each finding, from outcomes by the id of their experiment."""
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims]
    facts = Facts(claims, {id_: outcome.settings for id_, outcome in outcomes.items()})
    return [
        Card(
            finding,
            facts,
            outcomes.get(finding.experiments[0]),
            tuple(id_ for id_ in finding.experiments if id_ not in outcomes),
        )
        for finding in findings
    ]


# Words for numbers.


def share(value: float) -> str:
    """Return an error rate: four decimals below 0.01, three below 0.1, two above.

    >>> share(0.00002), share(0.0257), share(0.7888)
    ('0.0000', '0.026', '0.79')
    """
    text = f"{value:.4f}" if abs(value) < 0.01 else f"{value:.3f}" if abs(value) < 0.1 else f"{value:.2f}"
    return text.replace("-", "−") if float(text) else text.removeprefix("-")


def percent(value: float) -> str:
    """Return a share in per cent, with one decimal below 10.

    >>> percent(0.0257), percent(0.2), percent(0.0)
    ('2.6', '20', '0')
    """
    return f"{100 * value:.1f}".removesuffix(".0") if abs(value) < 0.1 else f"{100 * value:.0f}"


def span(values: Iterable[float], text: Callable[[float], str] = share) -> str:
    """Return the lowest and the highest of some numbers, or the only one.

    >>> span([0.7516, 0.794, 0.769]), span([0.5, 0.5])
    ('0.75 to 0.79', '0.50')
    """
    low, high = text(min(found := list(values))), text(max(found))
    return low if low == high else f"{low} to {high}"


def listed(names: Iterable[str]) -> str:
    """Return names with commas, and "and" before the last.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
