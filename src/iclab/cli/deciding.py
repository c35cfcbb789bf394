"""`iclab run --until-decided`: rounds of seeds, and which claims are open after each."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from iclab.cli.executing import executor
from iclab.cli.values import read_pairs
from iclab.config import InputError

if TYPE_CHECKING:
    from iclab.study.edition import Edition
    from iclab.study.outcome import Outcome
    from iclab.study.sequences import Round


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if not options.until_decided:
        if options.most is not None:
            raise InputError(f"most = {options.most}: is for --until-decided only")
        return
    seeds = options.seeds if options.seeds is not None else read_pairs(options.set).get("seeds")
    if seeds is not None:
        raise InputError(f"seeds = {seeds}: --until-decided adds seeds itself; give the largest number with --most")


def compute(editions: list[Edition], options: argparse.Namespace) -> tuple[list[Outcome], dict[str, list[Round]]]:
    """Run rounds of seeds, and say on standard error what is open after each; return the last outcomes, all rounds."""
    from iclab.lab import Store
    from iclab.study.sequences import MOST, until_decided

    most = MOST if options.most is None else options.most
    history: dict[str, list[Round]] = {edition.experiment.id: [] for edition in editions}
    with executor(options) as where:
        for found in until_decided(editions, Store(options.store), most=most, executor=where):
            for round_ in found:
                history[round_.id].append(round_)
                print(f"iclab: {_told(round_)}", file=sys.stderr, flush=True)
    return [rounds[-1].outcome for rounds in history.values()], history


def _told(round_: Round) -> str:
    record = round_.record()
    undecided = ", ".join(record["undecided"]) or "none"
    return f"{round_.id}, {round_.seeds} seeds, {100 * record['confidence']:.4g} % intervals: undecided: {undecided}"


def summary(rounds: list[Round]) -> list[str]:
    """Return how the run of an experiment ended: how many seeds were used, and why claims are undecided."""
    last = rounds[-1]
    judged = [claim for claim in last.outcome.claims if claim["verdict"] != "not run"]
    decided = len(judged) - len(last.undecided)
    lines = [f"{last.id}: {decided} of {len(judged)} claims decided with {last.seeds} seeds"]
    for id_, needs in last.undecided.items():
        lines.append(f"  {id_} is undecided: it needs {needs or 'something else than seeds'}")
    return lines


def documents(rounds: list[Round]) -> list[dict[str, Any]]:
    """Return the rounds of an experiment for a program."""
    return [round_.record() for round_ in rounds]
