"""Run until decided: more seeds, round after round, with intervals that stay valid however often one looks.

A 95 % interval misses the truth in 5 % of studies if one looks at it once. Who looks after 8, 16, …, 64 seeds and stops
as soon as a claim is decided has eight chances to be misled: t intervals of Gaussian numbers then miss in 18 %. So
look k, after 8k seeds, uses intervals of confidence 1 − α_k, with

    α_k = 2α / ((k + 1)(k + 2)) = α/3, α/6, α/10, …,     Σ_k α_k = α = 0.05.

The probability that the interval of any look ever misses is at most the sum, α, and half of it on either side. This is
a confidence sequence: it needs no largest number of seeds, and holds for whatever rule stops the run. It takes any
interval that is valid at a single look, so it serves Student's t and Wilson's interval alike. Up to 32 seeds it is
narrower than the Gaussian mixture of Lai (1976), which Wang and Ramdas (2023) give for means with unknown variance; at
64 it is 3 to 6 % wider, depending on the mixture. Numbers as skewed as exponential ones are missed in 10 % of studies,
as often as by a single 95 % t interval of eight seeds. `tests/study/test_sequences.py` measures all of this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from iclab import lab
from iclab.config import InputError, explain
from iclab.probes import CONFIDENCE
from iclab.study.claims import SEEDS
from iclab.study.edition import Edition
from iclab.study.experiment import Experiment
from iclab.study.outcome import Outcome
from iclab.study.preparing import prepare
from iclab.study.records import add_folders, records_of

GROUP = 8
"""Seeds per round."""
MOST = 64
"""The number of seeds at which a run gives up, unless told otherwise."""


def confidence_after(seeds: int) -> float:
    """Return the confidence of intervals after so many seeds: 1 − 2α/((k + 1)(k + 2)) at look k = seeds/8.

    Example:
        >>> [round(confidence_after(seeds), 4) for seeds in (8, 16, 24, 64)]
        [0.9833, 0.9917, 0.995, 0.9989]
    """
    if seeds < GROUP or seeds % GROUP:
        raise InputError(f"seeds = {seeds}: must be a multiple of {GROUP}, at least {GROUP}")
    look = seeds // GROUP
    return 1 - 2 * (1 - CONFIDENCE) / ((look + 1) * (look + 2))


@dataclass(frozen=True)
class Round:
    """One experiment after a round of seeds."""

    seeds: int
    outcome: Outcome

    @property
    def id(self) -> str:
        """The id of the experiment."""
        return self.outcome.experiment.id

    @property
    def undecided(self) -> dict[str, str]:
        """What each undecided claim needs, by its id; empty if it is something of its own."""
        return {claim["id"]: claim["needs"] for claim in self.outcome.claims if claim["verdict"] == "undecided"}

    @property
    def needs_seeds(self) -> bool:
        """Whether more seeds can decide any of its claims."""
        return SEEDS in self.undecided.values()

    def record(self) -> dict[str, Any]:
        """Return the round for a program."""
        return {"seeds": self.seeds, "confidence": confidence_after(self.seeds), "undecided": self.undecided}


def looked(edition: Edition, store: lab.Store) -> Outcome | None:
    """Return the outcome after the last round of seeds that a store has in full; None if it has not even the first."""
    last, seeds = None, GROUP
    while (grown := _grown(edition, seeds)).complete(store) and _adds(grown, last, store):
        last, seeds = grown, seeds + GROUP
    if last is None:
        return None
    return last.outcome(store, confidence=confidence_after(seeds - GROUP), asked=edition)


def _grown(edition: Edition, seeds: int) -> Edition:
    return Edition(edition.experiment, edition.settings.replace(seeds=seeds))


def _adds(grown: Edition, last: Edition | None, store: lab.Store) -> bool:
    """Whether a round has more rows than the last; conditions of a user's own may not depend on the number of seeds."""
    if last is None or {cell.hash for cell in grown.cells} != {cell.hash for cell in last.cells}:
        return True
    return len(grown.rows(store)) > len(last.rows(store))


def remembered_editions(experiment: Experiment[Any], store: lab.Store) -> list[Edition]:
    """Return the editions of an experiment that a store remembers, with all rounds of seeds that it has any of."""
    found = []
    for record in store.records():
        if record["experiment"] != experiment.address:
            continue
        add_folders(record)
        try:
            edition = Edition(experiment, experiment.settings.model_validate(record["settings"]))
        except ValidationError as error:
            about = "settings that the store remembers are no longer known"
            raise InputError(f"{experiment.id}: {about} ({explain(error)})") from None
        found.append(edition)
        before: set[str] = set()
        for seeds in itertools.count(GROUP, GROUP) if record["until decided"] else ():
            grown = _grown(edition, seeds)
            if not any(store.has(cell) or store.has(cell.training) for cell in grown.cells if cell.hash not in before):
                break
            before = {cell.hash for cell in grown.cells}
            found.append(grown)
    return found


def until_decided(
    editions: Iterable[Edition], store: lab.Store, *, most: int = MOST, **how: Any
) -> Iterator[list[Round]]:
    """Run experiments with 8, 16, 24, … seeds until more can decide no claim, are not there, or ``most`` is reached.

    Yields each round: the experiments that were still open, judged on all seeds so far. Seeds in the store are not
    trained again. The number of seeds in the editions' settings is not used. ``how`` are further arguments of
    `iclab.lab.run`, such as ``workers``.
    """
    if most < GROUP or most % GROUP:
        raise InputError(f"most = {most}: must be a multiple of {GROUP}, at least {GROUP}")
    waiting: list[tuple[Edition, Edition | None]] = [(asked, None) for asked in editions]
    for asked, _ in waiting:
        asked.check()
    records = records_of([asked for asked, _ in waiting], until_decided=True)
    for seeds in range(GROUP, most + 1, GROUP):
        wider = [(asked, _grown(asked, seeds), last) for asked, last in waiting]
        pairs = [(asked, grown) for asked, grown, last in wider if _adds(grown, last, store)]
        if not pairs:
            return
        title = pairs[0][0].experiment.id if len(pairs) == 1 else "iclab"
        prepare([grown for _, grown in pairs], store, quiet=how.get("quiet", False))
        cells = [cell for _, grown in pairs for cell in grown.cells]
        lab.run(cells, store, title=f"{title}, {seeds} seeds", records=records, **how)
        records, level = [], confidence_after(seeds)
        found = [Round(seeds, grown.outcome(store, confidence=level, asked=asked)) for asked, grown in pairs]
        yield found
        waiting = [pair for pair, round_ in zip(pairs, found, strict=True) if round_.needs_seeds]
