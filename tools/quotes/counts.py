"""How many claims have each verdict in the quick edition, as `make reproduce` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quotes.sources import Number, Query

if TYPE_CHECKING:
    from iclab.lab import Store
    from iclab.study.outcome import Outcome

QUICK = "the quick edition"
NEED_TEXT = ("M-tab6", "M-tab7")
"""Experiments on sentences. The extra ``text`` is not part of `make reproduce`, so they count as not run."""
PAPERS, OWN = "claims of the papers", "questions of iclab"


@dataclass(frozen=True)
class Count(Query):
    """The number of claims with a verdict."""

    whose: str = PAPERS
    verdict: str = ""

    @property
    def text(self) -> str:
        """Whose claims, and their verdict."""
        return f"{self.whose}, {self.verdict}" if self.verdict else self.whose

    def answer(self, outcome: Outcome) -> float | None:
        """Counts are made from all experiments together, by `counted`."""
        raise NotImplementedError


def count(verdict: str = "", whose: str = PAPERS) -> Count:
    """The number of the papers' claims with a verdict, or of all."""
    return Count(QUICK, whose, verdict)


def judged(whose: str = PAPERS) -> Number:
    """The number of claims that have a verdict."""
    return count(whose=whose) - count("not run", whose)


def counted(store: Store) -> dict[str, float] | None:
    """Count the verdicts of the quick edition; None if the store does not have all of it."""
    from iclab.catalog import experiments
    from iclab.study.edition import usual

    numbers: dict[str, float] = {}
    for id_, experiment in experiments().items():
        edition = usual(experiment, quick=True)
        if id_ not in NEED_TEXT and not edition.complete(store):
            return None
        outcome = edition.outcome(store) if id_ not in NEED_TEXT else None
        verdicts = {record["id"]: record["verdict"] for record in outcome.claims} if outcome else {}
        for claim in usual(experiment).claims:
            whose = OWN if claim.ours else PAPERS
            for count_ in (Count(QUICK, whose), Count(QUICK, whose, verdicts.get(claim.id, "not run"))):
                numbers[count_.text] = numbers.get(count_.text, 0) + 1
    return numbers
