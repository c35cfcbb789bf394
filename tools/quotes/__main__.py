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
from iclab.study.outcome import Outcome
from quotes.counts import QUICK, counted
from quotes.listed import NUMBERS, PAGES, asked, read, values_of
from quotes.pages import ROOT, corrected, disagreeing
from quotes.sources import Query

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
    if not Path(options.store).is_dir():
        parser.error(f"store = {options.store}: is not a folder")
    if unknown := set(options.only or ()) - asked().keys():
        parser.error(f"only = {', '.join(sorted(unknown))}: no page quotes it")
    store, known = Store(Path(options.store)), read()
    failed = _count(store, known) if options.quick else _answer(store, known, options.only)
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
    return 1 if wrong or failed else 0


def _answer(store: Store, known: dict[str, Any], only: list[str] | None) -> int:
    """Read the experiments whose full edition is in the store, leave the others as they are; return how many fail."""
    wanted = asked()
    for id_ in [id_ for id_ in known if id_ not in wanted]:
        del known[id_]
    wanted.pop(QUICK, None)
    unfinished, failed = [], 0
    for id_ in only or sorted(wanted):
        edition = usual(find(id_))
        if not edition.complete(store):
            unfinished.append(id_)
            continue
        try:
            known[id_] = _record(edition, edition.outcome(store), wanted.get(id_, []))
        except LookupError as error:
            print(f"quotes: {error}", file=sys.stderr)
            failed += 1
    if unfinished:
        listed = ", ".join(f"{id_}{'' if id_ in known else ' (never read)'}" for id_ in unfinished)
        print(f"not all in the store, so left as they are: {listed}", file=sys.stderr)
    return failed


def _record(edition: Edition, outcome: Outcome, queries: list[Query]) -> dict[str, Any]:
    """Answer the queries of one experiment; a LookupError if one has no answer."""
    answers = {}
    for query in queries:
        value = query.answer(outcome)
        if value is None:
            raise LookupError(f"{query.experiment}: {query.text}: has no number")
        answers[query.text] = float(f"{value:.{DIGITS_KEPT}g}")
    cells = "\n".join(sorted(cell.hash for cell in edition.cells))
    # other settings, seeds or versions have other cells
    named = hashlib.sha256(cells.encode()).hexdigest()[:12]
    return {"seeds": edition.settings.seeds, "cells": named, "values": dict(sorted(answers.items()))}


def _count(store: Store, known: dict[str, Any]) -> int:
    """Count the verdicts of the quick edition."""
    numbers = counted(store)
    if numbers is None:
        raise SystemExit(f"quotes: store = {store.path}: has not all of the quick edition; run `make reproduce` first")
    known[QUICK] = {"values": dict(sorted(numbers.items()))}
    return 0


if __name__ == "__main__":
    sys.exit(main())
