"""The store: one immutable entry per cell, in plain files.

    STORE/store.json                    what this directory is
    STORE/training/HASH/                entry.json, weights.safetensors
    STORE/measurement/HASH/             entry.json, rows.parquet
    STORE/request/HASH.json             which edition of an experiment was asked for
    STORE/costs.json                    how long cells took, for the next estimate
    STORE/aside/                        bad entries, moved there so that their cells can be computed again
    STORE/.partial/                     entries being written

An entry is written under a temporary name and renamed when it is complete, so that a reader never sees half an entry,
even if the writer dies. ``entry.json`` holds the description of the cell and a checksum of the data.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from iclab._version import __version__
from iclab.config import InputError
from iclab.engines import Trained
from iclab.lab import disk
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.lab.disk import Fill
from iclab.lab.machine import made_by
from iclab.probes import Row

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
RECORD = {"asked": str, "experiment": str, "id": str, "settings": dict, "until decided": bool, "code": dict} | {
    "folders": list
}
"""What a record of a request holds."""


class Entry(NamedTuple):
    """A finished cell on its way from one store to another."""

    kind: str
    """``training`` or ``measurement``."""
    hash: str
    files: dict[str, bytes]


class Result(NamedTuple):
    """A cell that was computed, to be stored."""

    cell: Cell
    data: Trained | list[Row]
    """The weights of a training, or the rows of a measurement."""
    seconds: float
    """How long it took."""


class Store:
    """A directory of finished cells.

    A missing directory reads as an empty store; `open_for_writing` creates it.
    """

    def __init__(self, path: Path | str, *, lasting: bool = True) -> None:
        """Look at a directory; unless it is ``lasting``, nobody waits for its disk."""
        self.path, self._lasting = Path(path), lasting
        marker = self.path / "store.json"
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"store = {self.path}: is a file; must be a directory")
        if marker.exists():
            try:
                found = json.loads(marker.read_text("utf-8"))["format"]
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise InputError(f"store = {self.path}: store.json cannot be read ({error})") from None
            if found != FORMAT:
                raise InputError(f"store = {self.path}: has format {found!r}; this version reads format {FORMAT}")
        elif self.path.exists() and any(not item.name.startswith(".") for item in self.path.iterdir()):
            raise InputError(f"store = {self.path}: is not empty and not a store; choose a new or empty directory")

    def open_for_writing(self) -> Store:
        """Create the directory if needed, check that it can be written, and remove what dead writers left."""
        try:
            self._partial.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._partial):
                pass
            marker = self.path / "store.json"
            if not marker.exists():
                temporary = self._partial / f"{disk.writer()}-store.json"
                temporary.write_text(json.dumps({"format": FORMAT, "made by": f"iclab {__version__}"}) + "\n", "utf-8")
                temporary.replace(marker)
        except OSError as error:
            raise InputError(f"store = {self.path}: cannot be written ({error.strerror})") from None
        for leftover in self._partial.iterdir():
            if not disk.writer_lives(leftover.name):
                with contextlib.suppress(OSError):  # it can stay: nothing reads it
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        return self

    @property
    def _partial(self) -> Path:
        return self.path / ".partial"

    def entry(self, cell: Cell) -> Path:
        """Return the directory of a cell, which need not exist."""
        return self.path / ("training" if isinstance(cell, TrainingCell) else "measurement") / cell.hash

    def has(self, cell: Cell) -> bool:
        """Return whether the cell is finished."""
        return self.entry(cell).is_dir()

    def has_measurement(self, hash_: str) -> bool:
        """Return whether the measurement of this name is finished."""
        return (self.path / "measurement" / hash_).is_dir()

    def load_training(self, cell: TrainingCell) -> Trained:
        """Load a finished training."""
        return Trained.load(self._checked(cell, "weights.safetensors"), cell.training)

    def load_rows(self, cell: MeasurementCell) -> list[Row]:
        """Load a finished measurement."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self._checked(cell, "rows.parquet")
        try:
            return pq.ParquetFile(path).read(use_threads=False).to_pylist()  # `read_table` imports pandas
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None

    def keep(self, records: Iterable[dict[str, Any]]) -> None:
        """Remember what was asked for: one immutable file per different record."""
        for record in records:
            text = json.dumps(record, sort_keys=True, ensure_ascii=False, allow_nan=False)
            path = self._requests / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"
            if path.exists():
                continue
            self.open_for_writing()
            asked = {"asked": datetime.now(UTC).isoformat(timespec="seconds"), "iclab": __version__}
            data = json.dumps(record | asked, indent=1, ensure_ascii=False).encode() + b"\n"
            self._write({path: functools.partial(Path.write_bytes, data=data)})()

    def records(self) -> list[dict[str, Any]]:
        """Return what was asked for, oldest first. A file that cannot be read is warned of and left out."""
        found = []
        for path in self._requests.glob("*.json"):
            try:
                record = json.loads(path.read_text("utf-8"))
                for name, kind in RECORD.items():
                    if not isinstance(record[name], kind):
                        raise ValueError(f"{name} is no {kind.__name__}")
                found.append((record["asked"], path.name, record))
            except (OSError, ValueError, KeyError, TypeError) as error:
                warnings.warn(f"{path}: cannot be read ({type(error).__name__}: {error})", stacklevel=2)
        return [record for *_, record in sorted(found, key=lambda entry: entry[:2])]

    @property
    def _requests(self) -> Path:
        return self.path / "request"

    def seconds(self, cell: Cell) -> float:
        """Return how long the cell took."""
        return self.about(cell)["seconds"]

    def pack(self, cell: Cell) -> Entry:
        """Return the entry of a finished cell as bytes."""
        entry = self.entry(cell)
        try:
            return Entry(entry.parent.name, entry.name, {file.name: file.read_bytes() for file in entry.iterdir()})
        except OSError as error:
            raise BadEntryError(entry, str(error.strerror)) from None

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries that other stores packed, after a look at their checksums."""
        fills: dict[Path, Fill] = {}
        for entry in entries:
            data = {name: data for name, data in entry.files.items() if name != "entry.json"}
            stated = json.loads(entry.files["entry.json"])["sha256"]
            if stated != {name: hashlib.sha256(data).hexdigest() for name, data in data.items()}:
                raise InputError(f"{entry.kind}/{entry.hash}: arrived damaged; run the same command again")
            fills[self.path / entry.kind / entry.hash] = functools.partial(_unpack, entry)
        self._write(fills)()

    def save(self, results: Iterable[Result]) -> None:
        """Store finished cells."""
        self.write(results)()

    def write(self, results: Iterable[Result]) -> Callable[[], None]:
        """Write finished cells; return what stores them, with one wait for the disk. Another thread may call it."""
        return self._write({self.entry(result.cell): functools.partial(_write_entry, result) for result in results})

    def _write(self, fills: Mapping[Path, Fill]) -> Callable[[], None]:
        with self._refusing():
            for folder in {final.parent for final in fills}:
                folder.mkdir(exist_ok=True)  # a store that has vanished is not made again
            written = disk.Written(fills, self.writing_place, self._lasting)

        def publish() -> None:
            with self._refusing():
                written.publish()

        return publish

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn errors of the disk into one line."""
        try:
            yield
        except OSError as error:
            raise InputError(f"store = {self.path}: cannot be written ({error.strerror})") from None

    def adopt(self, entries: Iterable[Path]) -> None:
        """Copy entries, or records, of another store into this one."""
        self._write({self.path / path.parent.name / path.name: functools.partial(_copy, path) for path in entries})()

    def writing_place(self, name: str) -> Path:
        """Return a place for something that is being written, or deleted, by this process."""
        return self._partial / f"{disk.writer()}-{name}"

    def about(self, cell: Cell) -> dict[str, Any]:
        """Return when the cell was finished, how long it took, which software made it, and checksums of its data.

        Also its description, as it was stored, and the versions of the code that entered its hash.
        """
        return read_about(self.entry(cell))

    def _checked(self, cell: Cell, name: str) -> Path:
        entry = self.entry(cell)
        check_data(entry, {name: read_about(entry)["sha256"].get(name)})
        return entry / name

    def set_aside(self, path: Path) -> Path:
        """Move a bad entry, or a bad record, out of the way; return where it is now. Nothing is deleted."""
        place = self.path / "aside" / path.relative_to(self.path)
        try:
            for folder in (self.path / "aside", place.parent):
                folder.mkdir(exist_ok=True)
            for number in itertools.count(2):
                if not place.exists():
                    break
                place = place.with_name(f"{path.name}-{number}")
            path.rename(place)
        except FileNotFoundError:
            pass  # another process has moved it, or the store has vanished, which the next writer says
        except OSError as error:
            raise InputError(f"{path}: is corrupted, and cannot be moved aside ({error.strerror})") from None
        return place


def _write_entry(result: Result, folder: Path) -> None:
    """Write the entry of a finished cell into a new folder."""
    folder.mkdir()
    if isinstance(result.data, list):
        file = folder / "rows.parquet"
        file.write_bytes(_parquet(result.data))
    else:
        file = folder / "weights.safetensors"
        result.data.save(file)
    about = {
        "cell": result.cell.model_dump(mode="json"),
        "versions": result.cell.versions,
        "sha256": {file.name: disk.checksum(file)},
        "seconds": round(result.seconds, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "made by": made_by(),
    }
    (folder / "entry.json").write_bytes(to_json(about, indent=1) + b"\n")


def _unpack(entry: Entry, folder: Path) -> None:
    folder.mkdir()
    for name, data in entry.files.items():
        (folder / name).write_bytes(data)


def _copy(path: Path, place: Path) -> None:
    shutil.copytree(path, place, copy_function=shutil.copyfile) if path.is_dir() else shutil.copyfile(path, place)


def _parquet(rows: list[Row]) -> pa.Buffer:
    import pyarrow as pa  # imported late: what reads no rows need not wait for it
    import pyarrow.parquet as pq

    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    table = pa.table({name: pa.array(values, _plain_type(values)) for name, values in columns.items()})
    written = pa.BufferOutputStream()
    pq.write_table(table, written)
    return written.getvalue()


def _plain_type(values: list[Any]) -> Any:
    """Return the type of a column that has one kind of value, else None.

    Arrow would find the same one, but looks for a package of time zones first, in every folder of the path.
    """
    import pyarrow as pa

    kinds = {type(value) for value in values} - {type(None)}
    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return plain.get(kinds.pop()) if len(kinds) == 1 else None


class BadEntryError(InputError):
    """An entry that is not as it was stored."""

    def __init__(self, entry: Path, reason: str) -> None:
        self.entry, self.reason = entry, reason
        repair = f"`iclab store repair --store {shlex.quote(str(entry.parent.parent))}`"
        super().__init__(f"{entry}: is corrupted ({reason}); {repair} moves it aside, to be computed again")


def read_about(entry: Path) -> dict[str, Any]:
    """Return what an entry says about itself: see `Store.about`. Raise `BadEntryError` if it does not."""
    try:
        about = json.loads((entry / "entry.json").read_text("utf-8"))
        return {
            "cell": dict(about["cell"]),
            "versions": about.get("versions"),
            "sha256": dict(about["sha256"]),
            "seconds": float(about["seconds"]),
            "finished": str(about["finished"]),
            "made by": dict(about["made by"]),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadEntryError(entry, f"entry.json: {type(error).__name__}: {error}") from None


def check_data(entry: Path, checksums: Mapping[str, str | None]) -> None:
    """Raise `BadEntryError` if a file of an entry is missing or has another checksum."""
    for name, stated in checksums.items():
        try:
            found = disk.checksum(entry / name)
        except OSError as error:
            raise BadEntryError(entry, f"{name}: {error.strerror}") from None
        if found != stated:
            raise BadEntryError(entry, f"{name} has changed")
