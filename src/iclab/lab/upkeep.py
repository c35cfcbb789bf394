"""The upkeep of a store: check every entry, move bad ones aside, list, measure, prune, merge."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from iclab.config import InputError, OutsideTheoremWarning, digest_of
from iclab.lab.cells import MeasurementCell, TrainingCell
from iclab.lab.store import FORMAT, BadEntryError, Store, check_data, read_about

KINDS: dict[str, tuple[type[TrainingCell] | type[MeasurementCell], str]] = {
    "training": (TrainingCell, "weights.safetensors"),
    "measurement": (MeasurementCell, "rows.parquet"),
}
"""The description and the data file of each kind of entry."""

Tell = Callable[[int, int], object]
"""Is told how many of how many entries are done."""


class ReadingStore(Store):
    """A store to read results from: a bad entry counts as missing, and is named in ``bad``."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self.bad: dict[Path, str] = {}
        """What is wrong with each bad entry that was asked for, in one line."""
        self._sound: set[Path] = set()

    def has(self, cell: TrainingCell | MeasurementCell) -> bool:
        """Return whether the cell is finished, and its entry sound."""
        return super().has(cell) and self._is_sound(self.entry(cell))

    def has_measurement(self, hash_: str) -> bool:
        """Return whether the measurement of this name is finished, and its entry sound."""
        return super().has_measurement(hash_) and self._is_sound(self.path / "measurement" / hash_)

    def _is_sound(self, entry: Path) -> bool:
        if entry in self._sound or entry in self.bad:
            return entry in self._sound
        try:
            about = read_about(entry)
            if entry.parent.name == "measurement":  # of trainings, a reader needs only what they say about themselves
                check_data(entry, {"rows.parquet": about["sha256"].get("rows.parquet")})
        except BadEntryError as error:
            self.bad[entry] = str(error)
            return False
        self._sound.add(entry)
        return True


@dataclass
class Checked:
    """What a check of a store has found."""

    sound: int = 0
    other_version: int = 0
    """Entries whose data are sound, but whose description hashes to another name: made by another version of a model,
    a probe or an engine, before entries said which."""
    bad: dict[Path, str] = field(default_factory=dict)
    """What is wrong with each bad entry or record."""


def entries(store: Store) -> list[Path]:
    """Return all finished entries."""
    return [path for kind in KINDS for path in sorted((store.path / kind).glob("*"))]


def records(store: Store) -> list[Path]:
    """Return the files that remember what was asked for."""
    return sorted((store.path / "request").glob("*.json"))


def check(store: Store, tell: Tell = lambda done, of: None) -> Checked:
    """Check every checksum, and every name against the description; also the records of requests."""
    found = Checked()
    listed = entries(store)
    for number, entry in enumerate(listed, start=1):
        try:
            if _has_its_name(entry):
                found.sound += 1
            else:
                found.other_version += 1
        except BadEntryError as error:
            found.bad[entry] = error.reason
        tell(number, len(listed))
    for record in records(store):
        try:
            if not isinstance(json.loads(record.read_text("utf-8")), dict):
                raise ValueError("is no record of a request")
        except (OSError, ValueError) as error:
            found.bad[record] = f"{type(error).__name__}: {error}"
    return found


def _has_its_name(entry: Path) -> bool:
    """Return whether an entry has the name that its description gives it; raise `BadEntryError` if it is bad."""
    about = read_about(entry)
    kind, data = KINDS[entry.parent.name]
    check_data(entry, {data: None, **about["sha256"]})
    if isinstance(about["versions"], dict):
        if digest_of(kind.__name__, about["cell"], about["versions"]) != entry.name:
            raise BadEntryError(entry, "its description is not the one that it is named after")
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoremWarning)  # whoever ran it has seen it
            return kind.model_validate(about["cell"]).hash == entry.name
    except (InputError, ValidationError, ArithmeticError):  # such as a user's code that is no longer there
        return False


def repair(store: Store, tell: Tell = lambda done, of: None) -> dict[Path, tuple[str, Path]]:
    """Move every bad entry and record aside; return what was wrong with each, and where it is now."""
    store.open_for_writing()
    return {path: (reason, store.set_aside(path)) for path, reason in check(store, tell).bad.items()}


def mend_marker(path: Path) -> str | None:
    """Write the ``store.json`` of a store that has lost it, or whose is damaged; return what was wrong."""
    marker = path / "store.json"
    if not any((path / kind).is_dir() for kind in KINDS):
        return None
    try:
        json.loads(marker.read_text("utf-8"))["format"]
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
    try:
        if marker.exists():
            (path / "aside").mkdir(exist_ok=True)
            marker.rename(path / "aside" / "store.json")
        marker.write_text(json.dumps({"format": FORMAT, "made by": "iclab store repair"}) + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"store = {path}: cannot be written ({error.strerror})") from None
    return reason


def listing(store: Store) -> Iterator[dict[str, Any]]:
    """Yield what each entry is: plain data, newest last. A bad one has a ``problem`` and little else."""
    rows = []
    for entry in entries(store):
        row: dict[str, Any] = {"kind": entry.parent.name, "name": entry.name, "bytes": size(entry)}
        try:
            rows.append(row | _described(entry))
        except BadEntryError as error:
            rows.append(row | {"problem": error.reason, "finished": ""})
    yield from sorted(rows, key=lambda row: row["finished"])


def _described(entry: Path) -> dict[str, Any]:
    about = read_about(entry)
    try:
        cell = about["cell"]
        group = cell["training"] if entry.parent.name == "measurement" else cell
        model = group["training"]["model"]["name"]
        return {
            "probe": cell.get("probe", ""),
            "model": model if isinstance(model, str) else str(model.get("path", model)),
            "engine": group["training"]["engine"],
            "group": group["group"],
            "seconds": about["seconds"],
            "finished": about["finished"],
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BadEntryError(entry, f"its description: {type(error).__name__}: {error}") from None


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def sizes(store: Store) -> dict[str, dict[str, int]]:
    """Return how many entries of each kind a store has, and their bytes."""
    places = {kind: (store.path / kind).glob("*") for kind in KINDS} | {
        "request": iter(records(store)),
        "aside": (path for path in (store.path / "aside").glob("*/*")),
        "unfinished": (store.path / ".partial").glob("*"),
    }
    found = {}
    for name, paths in places.items():
        listed = [size(path) for path in paths]
        found[name] = {"entries": len(listed), "bytes": sum(listed)}
    return found


def strangers(store: Store, wanted: Collection[str]) -> list[Path]:
    """Return the entries whose cells are not wanted."""
    return [entry for entry in entries(store) if entry.name not in wanted]


def delete(store: Store, doomed: Collection[Path], tell: Tell = lambda done, of: None) -> None:
    """Delete entries for good. Each leaves the store at once, before its files are deleted."""
    store.open_for_writing()
    for number, entry in enumerate(doomed, start=1):
        try:
            going = store.writing_place(entry.name)
            entry.rename(going)
            shutil.rmtree(going)
        except OSError as error:
            raise InputError(f"{entry}: cannot be deleted ({error.strerror})") from None
        tell(number, len(doomed))


AT_ONCE = 32
"""Entries that are copied with one wait for the disk."""


@dataclass
class Merged:
    """What a merge has done."""

    taken: int = 0
    known: int = 0
    """Entries that this store had already."""
    records: int = 0
    bad: dict[Path, str] = field(default_factory=dict)
    """Entries of the other store that are bad, and were left there."""


def merge(store: Store, other: Store, tell: Tell = lambda done, of: None) -> Merged:
    """Copy the entries of another store that this one lacks, after checking them, and the records of requests."""
    if store.path.resolve() == other.path.resolve():
        raise InputError(f"OTHER = {other.path}: is the store itself")
    if not (other.path / "store.json").is_file():
        raise InputError(f"OTHER = {other.path}: is not a store")
    found = Merged()
    listed = entries(other)
    store.open_for_writing()
    for first in range(0, len(listed), AT_ONCE):
        good = []
        for entry in listed[first : first + AT_ONCE]:
            if (store.path / entry.parent.name / entry.name).is_dir():
                found.known += 1
                continue
            try:
                _has_its_name(entry)
                good.append(entry)
            except BadEntryError as error:
                found.bad[entry] = error.reason
        store.adopt(good)
        found.taken += len(good)
        tell(min(first + AT_ONCE, len(listed)), len(listed))
    lacking = [record for record in records(other) if not (store.path / "request" / record.name).exists()]
    store.adopt(lacking)
    found.records += len(lacking)
    return found
