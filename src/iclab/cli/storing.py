"""``iclab store``: check and repair a store, list and measure it, prune it, merge another one into it."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iclab.lab import Store
    from iclab.study.edition import Edition

Document = dict[str, Any]


def check(options: argparse.Namespace) -> Document:
    """Check every entry."""
    from iclab.config import InputError
    from iclab.lab import upkeep

    with progress("checking") as tell:
        found = upkeep.check(existing_store(options), tell)
    if found.bad:
        command = f"iclab store repair --store {options.store}"
        options.failed = InputError(f"{_many(len(found.bad), 'bad entry')}; `{command}` moves them aside")
        options.failed.exit_code = 1
    return {
        "sound": found.sound,
        "other_version": found.other_version,
        "bad": [{"path": str(path), "problem": reason} for path, reason in found.bad.items()],
    }


def repair(options: argparse.Namespace) -> Document:
    """Move bad entries aside."""
    from iclab.lab import upkeep

    reason = upkeep.mend_marker(Path(options.store))
    if reason:
        print(f"iclab: store.json was written anew ({reason})", file=sys.stderr)
    with progress("checking") as tell:
        moved = upkeep.repair(existing_store(options), tell)
    return {
        "moved": [{"path": str(path), "problem": reason, "now": str(place)} for path, (reason, place) in moved.items()],
        "marker": reason,
    }


def list_(options: argparse.Namespace) -> Document:
    """List every entry."""
    from iclab.lab import upkeep

    return {"entries": list(upkeep.listing(existing_store(options)))}


def size(options: argparse.Namespace) -> Document:
    """Say how large the store is."""
    from iclab.lab import upkeep

    return upkeep.sizes(existing_store(options))


def prune(options: argparse.Namespace) -> Document:
    """Find what belongs to no experiment, and delete it if asked to."""
    from iclab.config import InputError
    from iclab.lab import upkeep

    store = existing_store(options)
    with progress("looking at experiments") as tell:
        wanted, problems = _wanted(store, options.experiments, tell)
    for line in problems:
        print(f"iclab: {line}", file=sys.stderr)
    doomed = upkeep.strangers(store, wanted)
    if problems and options.delete:
        raise InputError("nothing is deleted: it is not known what belongs to the experiments above")
    sizes = Counter[str]()
    for entry in doomed:
        sizes[entry.parent.name] += upkeep.size(entry)
    if options.delete:
        with progress("deleting") as tell:
            upkeep.delete(store, doomed, tell)
    return {"entries": [f"{e.parent.name}/{e.name}" for e in doomed], "bytes": sizes, "deleted": options.delete}


def merge(options: argparse.Namespace) -> Document:
    """Take what another store has."""
    from iclab.lab import Store, upkeep

    with progress("merging") as tell:
        found = upkeep.merge(Store(options.store), Store(options.other), tell)
    bad = [{"path": str(path), "problem": reason} for path, reason in found.bad.items()]
    return {"taken": found.taken, "known": found.known, "records": found.records, "bad": bad}


ACTIONS: dict[str, Callable[[argparse.Namespace], Document]] = {
    action.__name__.strip("_"): action for action in (check, repair, list_, size, prune, merge)
}


def print_document(action: str, found: Document) -> None:
    """Print what an action found, for people."""
    from iclab.lab.memory import shown_bytes

    match action:
        case "check":
            for item in found["bad"]:
                print(f"{item['path']}: {item['problem']}")
            print(f"{found['sound']} sound, {len(found['bad'])} bad")
            if found["other_version"]:
                print(f"{found['other_version']} more are sound, but this version of iclab does not know their names")
        case "repair":
            for item in found["moved"]:
                print(f"{item['path']}: {item['problem']}; it is now {item['now']}")
            print(
                f"{_many(len(found['moved']), 'bad entry')} moved aside; run your experiments again to have them back"
            )
        case "list":
            for row in found["entries"]:
                name = f"{row['kind']}/{row['name']}"
                if "problem" in row:
                    print(f"{name:32}  bad: {row['problem']}")
                    continue
                what = f"{row['probe'] or 'training'} of {row['model']}, group {row['group']}, {row['engine']}"
                print(f"{name:32}  {row['finished']}  {row['seconds']:8.1f} s  {shown_bytes(row['bytes']):>8}  {what}")
        case "size":
            for name, of in found.items():
                print(f"{name:12} {of['entries']:8}  {shown_bytes(of['bytes']):>8}")
            print(f"{'total':12} {'':8}  {shown_bytes(sum(of['bytes'] for of in found.values())):>8}")
        case "prune":
            many, size = _many(len(found["entries"]), "entry"), shown_bytes(sum(found["bytes"].values()))
            what = "deleted" if found["deleted"] else "belong to no experiment; --delete deletes them"
            print(f"{many}, {size}: {what}" if found["entries"] else "everything belongs to an experiment")
        case "merge":
            for item in found["bad"]:
                print(f"{item['path']}: {item['problem']}; left where it is")
            print(f"{_many(found['taken'], 'entry')} and {_many(found['records'], 'record')} taken; ", end="")
            print(f"{found['known']} were here already, {len(found['bad'])} are bad")


def _many(count: int, what: str) -> str:
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count} {what if count == 1 else plural}"


def existing_store(options: argparse.Namespace) -> Store:
    """Return the store that is named, which must exist."""
    from iclab.config import InputError
    from iclab.lab import Store

    store = Store(options.store)
    if not store.path.exists():
        raise InputError(f"store = {options.store}: does not exist")
    return store


def _wanted(store: Store, folder: str | None, tell: Callable[[int, int], object]) -> tuple[set[str], list[str]]:
    """Return the names of all cells of all experiments, and a line about each whose cells are not known."""
    from iclab import catalog
    from iclab.config import InputError
    from iclab.study.edition import usual
    from iclab.study.sequences import remembered_editions

    mine, problems = catalog.own(folder, store.records())
    listed = [*catalog.experiments().values(), *mine.values()]
    wanted: set[str] = set()
    for number, experiment in enumerate(listed, start=1):
        try:
            editions: list[Edition] = [usual(experiment), usual(experiment, quick=True)]
            editions += remembered_editions(experiment, store)
            for edition in editions:
                wanted |= {name for cell in edition.cells for name in (cell.hash, cell.training.hash)}
        except InputError as error:
            problems.append(str(error))
        tell(number, len(listed))
    return wanted, problems


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show how much is done on standard error: a bar on a terminal, a line every few seconds elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    from iclab.lab.progress import LINE_EVERY

    console, last = Console(stderr=True), time.monotonic()
    if console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(title)
            yield lambda done, of: bar.update(task, completed=done, total=of)
        return

    def tell(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() > last + LINE_EVERY:
            last = time.monotonic()
            print(f"iclab: {title}: {done} of {of}", file=sys.stderr, flush=True)

    yield tell
