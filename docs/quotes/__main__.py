"""Read every quoted number from a store, write them into docs/numbers.json, and say what the pages print otherwise."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iclab.catalog import find
from iclab.lab import Store
from iclab.study.edition import Edition, usual
from quotes.counts import QUICK, counted
from quotes.listed import NUMBERS, PAGES, asked, read, values_of
from quotes.pages import ROOT, corrected, disagreeing

DIGITS_KEPT = 7


def main(words: Iterable[str] | None = None) -> int:
    """Run the program; return 1 if a page prints a number that is not so."""
    parser = argparse.ArgumentParser(prog="python -m quotes", description=__doc__)
    parser.add_argument("--store", default=ROOT / "results" / "store", help="where the full edition is (%(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help="count the verdicts of its quick edition, and nothing else"
    )
    parser.add_argument("--fix", action="store_true", help="correct the pages, but for numbers that are bounds")
    parser.add_argument("--only", nargs="+", metavar="ID", help="read these experiments only")
    options = parser.parse_args(None if words is None else list(words))
    store, known = Store(Path(options.store)), read()
    if options.quick:
        _count(store, known)
    else:
        _answer(store, known, options.only)
    NUMBERS.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")
    wrong = disagreeing(PAGES, values_of(known))
    for spot, value in wrong:
        print(spot.told(value))
    for page in PAGES if options.fix else ():
        (ROOT / page.path).write_text(corrected(page, [pair for pair in wrong if pair[0].page is page]), "utf-8")
    spots = [spot for page in PAGES for spot in page.spots()]
    checked = sum(spot.known(values_of(known)) for spot in spots)
    print(
        f"{len(wrong)} of {checked} quoted numbers are printed otherwise; {len(spots) - checked} could not be compared"
    )
    return 1 if wrong else 0


def _answer(store: Store, known: dict[str, Any], only: list[str] | None) -> None:
    """Answer the queries of every experiment whose full edition is in the store; leave the others as they are."""
    wanted = asked()
    for id_ in [id_ for id_ in known if id_ not in wanted]:
        del known[id_]
    wanted.pop(QUICK, None)
    unfinished = []
    for id_, queries in sorted(wanted.items()):
        if only and id_ not in only:
            continue
        edition = usual(find(id_))
        if not edition.complete(store):
            unfinished.append(id_)
            continue
        outcome = edition.outcome(store)
        answers = {}
        for query in queries:
            try:
                value = query.answer(outcome)
            except LookupError as error:
                raise SystemExit(f"quotes: {error}") from None
            if value is None:
                raise SystemExit(f"quotes: {id_}: {query.text}: has no number")
            answers[query.text] = float(f"{value:.{DIGITS_KEPT}g}")
        known[id_] = {
            "seeds": edition.settings.seeds,
            "cells": _digest(edition),
            "values": dict(sorted(answers.items())),
        }
    if unfinished:
        listed = ", ".join(f"{id_}{'' if id_ in known else ' (never read)'}" for id_ in unfinished)
        print(f"not all in the store, so left as they are: {listed}", file=sys.stderr)


def _count(store: Store, known: dict[str, Any]) -> None:
    numbers = counted(store)
    if numbers is None:
        raise SystemExit(f"quotes: store = {store.path}: has not all of the quick edition; run `make reproduce` first")
    known[QUICK] = {"values": dict(sorted(numbers.items()))}


def _digest(edition: Edition) -> str:
    """Name the cells that the numbers come from: other settings, seeds or versions have another name."""
    return hashlib.sha256("\n".join(sorted(cell.hash for cell in edition.cells)).encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
