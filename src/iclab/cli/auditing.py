"""``iclab export``, ``iclab audit`` and ``iclab verify``: what makes results checkable by others."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.cli.printing import print_json
from iclab.cli.storing import existing_store, progress

if TYPE_CHECKING:
    from iclab.audit.auditing import Audit
    from iclab.audit.document import Document
    from iclab.lab.verifying import Verification
    from iclab.study.experiment import Experiment


def export(options: argparse.Namespace) -> None:
    """Write all claims as one document."""
    from iclab.cli.values import check_writable

    path = Path(options.claims)
    check_writable(path.parent, "claims", options.claims)
    document = _document(options)
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False)
    path.write_text(text + "\n", "utf-8")
    if options.json:
        print_json({"file": str(path), "counts": document["counts"]})
    else:
        counts = ", ".join(f"{count} {label}" for label, count in document["counts"].items())
        print(f"{path}: {len(document['experiments'])} experiments, {counts}")


def audit(options: argparse.Namespace) -> None:
    """Derive all verdicts again."""
    from iclab.audit.auditing import audit_of, read
    from iclab.config import InputError

    given = read(Path(options.claims)) if options.claims else None
    now = _document(options, [e["id"] for e in given["experiments"]] if given else None)
    found = audit_of(now, Path(options.store), given, controlled=not options.no_controls)
    if options.json:
        print_json(
            {
                "problems": [{"name": name, "problem": text} for name, text in found.problems],
                "levels": found.levels,
                "controls": found.controls and asdict(found.controls),
            }
        )
    else:
        _print_audit(found)
    if found.problems:
        options.failed = InputError(f"{len(found.problems)} disagreements")
        options.failed.exit_code = 1


def verify(options: argparse.Namespace) -> None:
    """Compute a sample of cells again."""
    from iclab.config import InputError, check_whole
    from iclab.lab import verifying

    check_whole(sample=options.sample)
    if not options.seconds > 0:
        raise InputError(f"seconds = {options.seconds}: must be above 0")
    store = existing_store(options)
    names = _cells_of(_experiments(options), options) if options.ids else None
    how = {"sample": options.sample, "seconds": options.seconds, "seed": options.seed}
    with progress("computing cells again") as tell:
        found = verifying.verify(store, names, **how, tell=tell)
    if not found.of:
        of = f" of {', '.join(options.ids)}" if options.ids else ""
        raise InputError(f"store = {options.store}: has no cells{of}")
    print_json(asdict(found)) if options.json else _print_verification(found)
    if bad := sum(cell.found == "differs" for cell in found.cells):
        options.failed = InputError(f"{bad} of {len(found.cells)} cells differ from the store")
        options.failed.exit_code = 1


def _print_audit(found: Audit) -> None:
    from iclab.audit.program import LEVELS

    for name, text in found.problems:
        print(f"{name}: {text}")
    counts = Counter(found.levels.values())
    print(f"{len(found.levels)} claims, {len(found.problems)} disagreements")
    for level, words in LEVELS.items():
        if counts[level]:
            few = [] if level in ("rows", "not run") else [id_ for id_, its in found.levels.items() if its == level]
            print(f"  {counts[level]:4d} {words}{': ' * bool(few)}{', '.join(few)}")
    if (c := found.controls) is None:
        return
    print("controls, on claims that hold:")
    for tried, what, survived, but in (
        (c.swapped, "with their two sides exchanged", c.survived_swap, "still hold"),
        (c.shuffled, "with all rows dealt out anew", c.survived_shuffles, "hold every time"),
        (len(c.survived_shuffles), "of these with other numbers", c.cannot_fail, "hold whatever the numbers are"),
        (c.paired, "with pairs of seeds broken", c.unmoved, "have the same intervals"),
    ):
        print(f"  {tried:4d} {what}: {len(survived)} {but}{': ' * bool(survived)}{', '.join(survived)}")


def _print_verification(found: Verification) -> None:
    from iclab.lab.verifying import TOLERANCE

    for cell in found.cells:
        if cell.detail:
            print(f"{cell.kind}/{cell.hash}: {cell.found}: {cell.detail}")
    counts = Counter(cell.found for cell in found.cells)
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    kinds = Counter(cell.kind for cell in found.cells)
    many = f"{kinds['training']} trainings and {kinds['measurement']} measurements"
    print(f"{many} of {found.of} cells: {told or 'none'}")
    here = sum(cell.same_machine for cell in found.cells)
    if here:
        print(f"{here} were made on this processor with this torch, numba and numpy: they must agree bit for bit")
    if here < len(found.cells):
        there = len(found.cells) - here
        print(f"{there} were made elsewhere, or before stores recorded where: a difference of {TOLERANCE:g} is allowed")
    left = [f"{found.too_long} that take too long"] * bool(found.too_long)
    left += [f"{found.other_version} of another version"] * bool(found.other_version)
    if left or found.late:
        late = "the time was up; " * found.late
        print(f"{late}left out: {', '.join(left) or 'the rest of the sample'} (--seconds)")


def _experiments(options: argparse.Namespace, ids: list[str] | None = None) -> list[Experiment[Any]]:
    """Return the experiments that are named, or all of them."""
    from iclab import catalog
    from iclab.lab import Store

    records = Store(options.store).records()
    if ids or options.ids:
        return [catalog.find(name, options.experiments, records) for name in ids or options.ids]
    mine, problems = catalog.own(options.experiments, records)
    for line in problems:
        print(f"iclab: {line}", file=sys.stderr)
    return [*catalog.experiments().values(), *mine.values()]


def _document(options: argparse.Namespace, ids: list[str] | None = None) -> Document:
    """Return the document of what the store has of the named experiments, or of all."""
    from iclab.audit.document import document_of
    from iclab.config import InputError
    from iclab.study.edition import best, fullest
    from iclab.study.sequences import remembered_editions

    store, listed = existing_store(options), _experiments(options, ids)
    outcomes = []
    with progress("deriving claims") as tell:
        for number, experiment in enumerate(listed, start=1):
            if outcome := best(experiment, store) or fullest(remembered_editions(experiment, store), store):
                outcomes.append(outcome)
            tell(number, len(listed))
    if not outcomes:
        raise InputError(f"store = {options.store}: has no results of {', '.join(options.ids) or 'any experiment'}")
    return document_of(outcomes, store)


def _cells_of(experiments: list[Experiment[Any]], options: argparse.Namespace) -> set[str]:
    """Return the names of the cells of some experiments."""
    from iclab.lab import Store
    from iclab.study.edition import usual
    from iclab.study.sequences import remembered_editions

    store = Store(options.store)
    editions = [e for x in experiments for e in (usual(x), usual(x, quick=True), *remembered_editions(x, store))]
    return {name for edition in editions for cell in edition.cells for name in (cell.hash, cell.training.hash)}
