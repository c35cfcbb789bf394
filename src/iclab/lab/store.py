"""The store: one immutable entry per cell, in plain files.

    STORE/store.json                    what this directory is
    STORE/training/HASH/                entry.json, weights.safetensors
    STORE/measurement/HASH/             entry.json, rows.parquet
    STORE/request/HASH.json             which edition of an experiment was asked for
    STORE/costs.json                    how long cells took, for the next estimate
    STORE/.partial/                     entries being written

An entry is written under a temporary name and renamed when it is complete, so that a reader never sees half an entry,
even if the writer dies. ``entry.json`` holds the description of the cell and a checksum of the data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from iclab._version import __version__
from iclab.config import InputError
from iclab.engines import Trained
from iclab.lab.cells import Cell, MeasurementCell, TrainingCell
from iclab.probes import Row

FORMAT = 1
RECORD = {"asked": str, "experiment": str, "id": str, "settings": dict, "until decided": bool, "code": dict} | {
    "folders": list
}
"""What a record of a request holds."""


class Store:
    """A directory of finished cells.

    A missing directory reads as an empty store; `open_for_writing` creates it.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
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
                temporary = self._partial / f"{_writer()}-store.json"
                temporary.write_text(json.dumps({"format": FORMAT, "made by": f"iclab {__version__}"}) + "\n", "utf-8")
                temporary.replace(marker)
        except OSError as error:
            raise InputError(f"store = {self.path}: cannot be written ({error.strerror})") from None
        for leftover in self._partial.iterdir():
            if not _writer_lives(leftover.name):
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

    def save_training(self, cell: TrainingCell, trained: Trained, seconds: float) -> None:
        """Store a finished training."""
        self._write(cell, "weights.safetensors", trained.save, seconds)

    def load_training(self, cell: TrainingCell) -> Trained:
        """Load a finished training."""
        return Trained.load(self._checked(cell, "weights.safetensors"), cell.training)

    def save_rows(self, cell: MeasurementCell, rows: list[Row], seconds: float) -> None:
        """Store a finished measurement."""
        import pyarrow as pa  # imported late: what reads no rows need not wait for it
        import pyarrow.parquet as pq

        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in columns})
        self._write(cell, "rows.parquet", lambda path: pq.write_table(table, path), seconds)

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
            temporary = self._partial / f"{_writer()}-{path.name}"
            try:
                self._requests.mkdir(exist_ok=True)
                temporary.write_text(json.dumps(record | asked, indent=1, ensure_ascii=False) + "\n", "utf-8")
                temporary.replace(path)
            except OSError as error:
                raise InputError(f"store = {self.path}: cannot be written ({error.strerror})") from None

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

    def _write(self, cell: Cell, name: str, write: Callable[[Path], object], seconds: float) -> None:
        final = self.entry(cell)
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=f"{_writer()}-", dir=self._partial))
            try:
                write(temporary / name)
                about = {
                    "cell": cell.model_dump(mode="json"),
                    "sha256": {name: _checksum(temporary / name)},
                    "seconds": round(seconds, 3),
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                    "made by": {
                        "iclab": __version__,
                        "torch": str(torch.__version__),
                        "python": platform.python_version(),
                        "machine": platform.platform(),
                    },
                }
                (temporary / "entry.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")
                temporary.chmod(0o755)
                for file in temporary.iterdir():
                    with file.open("rb") as handle:
                        os.fsync(handle.fileno())
                try:
                    temporary.rename(final)
                    _sync(final)
                    _sync(final.parent)
                except OSError:
                    if not final.is_dir():  # else another run finished the same cell first, and its entry stays
                        raise
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise InputError(f"store = {self.path}: cannot be written ({error.strerror})") from None

    def about(self, cell: Cell) -> dict[str, Any]:
        """Return when the cell was finished, how long it took, which software made it, and checksums of its data."""
        path = self.entry(cell) / "entry.json"
        try:
            about = json.loads(path.read_text("utf-8"))
            return {
                "sha256": dict(about["sha256"]),
                "seconds": float(about["seconds"]),
                "finished": str(about["finished"]),
                "made by": dict(about["made by"]),
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"{path.parent}: is corrupted ({reason}); delete it to compute again") from None

    def _checked(self, cell: Cell, name: str) -> Path:
        path = self.entry(cell) / name
        stated = self.about(cell)["sha256"].get(name)
        if not path.is_file() or _checksum(path) != stated:
            raise InputError(f"{path.parent}: is corrupted ({name} has changed); delete it to compute again")
        return path


def _sync(folder: Path) -> None:
    """Flush a rename to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _writer() -> str:
    return f"{socket.gethostname().replace('-', '_')}-{os.getpid()}"


def _writer_lives(name: str) -> bool:
    """Return whether the writer of an unfinished entry may still run; on other machines nobody can tell."""
    host, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if host != _writer().partition("-")[0] or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
