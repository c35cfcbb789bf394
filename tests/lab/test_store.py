"""The store keeps finished cells, whole, unchanged and for good, and says so when something is wrong with it."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_helpers import measurement, training, weights

from iclab.config import InputError
from iclab.engines import Trained, train
from iclab.lab import MeasurementCell, Store, TrainingCell, run
from iclab.lab.store import Result

TRAINING_CELL, MEASUREMENT_CELL = training(), measurement()
ROWS: list[dict[str, Any]] = [
    {"seed": 0, "error": 0.25, "hinge": None, "prompts": 20, "diverged": False},
    {"seed": 1, "diverged": True},
]


@pytest.fixture(scope="module")
def trained() -> Trained:
    return train(TRAINING_CELL.training, TRAINING_CELL.seeds)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open_for_writing()


@pytest.fixture
def full(store: Store, trained: Trained) -> Store:
    store.save([Result(TRAINING_CELL, trained, 1.5)])
    store.save([Result(MEASUREMENT_CELL, ROWS, 2.5)])
    return store


def assert_refused(action: Callable[[], object], *words: object) -> None:
    """The action must raise an InputError of one line that contains the words."""
    with pytest.raises(InputError) as caught:
        action()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for word in words:
        assert str(word) in message


def partial(store: Store) -> list[str]:
    return sorted(os.listdir(store.path / ".partial"))


class Writer:
    """Stands for a `Trained`: does something while its weights are being written."""

    def __init__(self, action: Callable[[Path], object]) -> None:
        self.save = action


# What goes in comes out.


@pytest.mark.parametrize("model", ["linear", "softmax"])
@pytest.mark.parametrize(
    "init_scale, dtype", [(0.2, "float32"), pytest.param(0.2, "float64", marks=pytest.mark.slow), (1e30, "float32")]
)
def test_weights_come_back_bit_for_bit(store: Store, init_scale: float, dtype: str, model: str):
    cell = training(model={"name": model, "options": {"init_scale": init_scale}}, dtype=dtype)
    before = train(cell.training, cell.seeds)
    assert before.diverged.any() == (init_scale > 1)
    store.save([Result(cell, before, 0.0)])
    after = Store(store.path).load_training(cell)
    assert (after.training, after.seeds) == (before.training, before.seeds)
    assert after.snapshots.keys() == before.snapshots.keys()
    for step, expected in before.snapshots.items():
        assert after.snapshots[step].keys() == expected.keys()
        for name, weight in expected.items():
            again = after.snapshots[step][name]
            assert (again.dtype, again.shape) == (weight.dtype, weight.shape)
            assert again.numpy().tobytes() == weight.numpy().tobytes(), (step, name)
    np.testing.assert_array_equal(after.losses, before.losses)
    np.testing.assert_array_equal(after.diverged_at, before.diverged_at)


def test_rows_come_back_with_their_nulls(full: Store):
    empty = dict.fromkeys(["seed", "error", "hinge", "prompts", "diverged"])
    assert Store(full.path).load_rows(MEASUREMENT_CELL) == [empty | row for row in ROWS]


def test_rows_keep_their_types_and_bits(store: Store):
    rows = [{"seed": 2**40, "error": 0.1 + 0.2, "kind": "α", "diverged": False}]
    store.save([Result(MEASUREMENT_CELL, rows, 0.0)])
    (row,) = store.load_rows(MEASUREMENT_CELL)
    assert row == rows[0]
    assert [type(value) for value in row.values()] == [int, float, str, bool]


def test_an_entry_says_what_it_is(full: Store):
    for cell, kind in ((TRAINING_CELL, TrainingCell), (MEASUREMENT_CELL, MeasurementCell)):
        about = json.loads((full.entry(cell) / "entry.json").read_text())
        assert kind.model_validate(about["cell"]) == cell
        assert full.entry(cell).name == cell.hash
    assert (full.seconds(TRAINING_CELL), full.seconds(MEASUREMENT_CELL)) == (1.5, 2.5)


def test_an_empty_store_can_be_read_and_is_not_made(tmp_path: Path):
    assert not Store(tmp_path / "none").has(MEASUREMENT_CELL)
    assert not (tmp_path / "none").exists()


# An entry is whole, and for good.


def test_the_first_entry_stands(full: Store, trained: Trained, contents: Callable[[Path], dict[str, Any]]):
    before = contents(full.path)
    other = Trained(**{**vars(trained), "losses": trained.losses + 1.0})
    full.save([Result(TRAINING_CELL, other, 9.0)])
    full.save([Result(MEASUREMENT_CELL, [{"seed": 7}], 9.0)])
    assert contents(full.path) == before


@pytest.mark.parametrize(
    "error, raised",
    [(OSError(errno.ENOSPC, "No space left"), InputError), (RuntimeError(), RuntimeError), (KeyboardInterrupt(),) * 2],
    ids=["disk full", "bug", "interrupt"],
)
def test_a_writer_that_fails_leaves_nothing(store: Store, error: BaseException, raised: Any):
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    with pytest.raises(raised if isinstance(raised, type) else type(raised)):
        store.save([Result(TRAINING_CELL, Writer(fail), 0.0)])
    assert not store.has(TRAINING_CELL)
    assert partial(store) == []


def test_cells_that_are_stored_together_are_stored_as_one_by_one(
    store: Store, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    results = [Result(TRAINING_CELL, trained, 1.0)] + [
        Result(measurement({"draw": n}), [{"seed": n}], 1.0) for n in range(9)
    ]
    one_by_one = Store(tmp_path / "other").open_for_writing()
    for result in results:
        one_by_one.save([result])
    synced: list[int] = []
    really = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), really(handle)))
    store.save(results)
    for result in results:
        if isinstance(result.cell, MeasurementCell):
            assert store.pack(result.cell).files["rows.parquet"] == one_by_one.pack(result.cell).files["rows.parquet"]
    assert weights(store.path) == weights(one_by_one.path) != {}
    assert partial(store) == []
    kinds = ("training", "measurement")
    expected = [path for kind in kinds for path in ((store.path / kind), *(store.path / kind).rglob("*"))]
    assert sorted(synced) == sorted(path.stat().st_ino for path in expected)  # each once


def test_if_one_of_several_cannot_be_written_no_half_entry_is_left(store: Store):
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left")

    rows = Result(MEASUREMENT_CELL, [{"seed": 0}], 1.0)
    with pytest.raises(InputError, match="No space left"):
        store.save([rows, Result(TRAINING_CELL, Writer(fail), 0.0)])
    assert (store.has(MEASUREMENT_CELL), store.has(TRAINING_CELL), partial(store)) == (False, False, [])


def test_a_full_disk_is_said_in_one_line(store: Store):
    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    save = lambda: store.save([Result(TRAINING_CELL, Writer(fail), 0.0)])  # noqa: E731
    assert_refused(save, f"store = {store.path}", "cannot be written", "No space left on device")


def test_a_reader_never_sees_half_an_entry(store: Store, trained: Trained):
    seen = []

    def look(path: Path) -> None:
        trained.save(path)
        reader = Store(store.path)
        seen.append((reader.has(TRAINING_CELL), reader.entry(TRAINING_CELL).exists(), len(partial(store))))

    store.save([Result(TRAINING_CELL, Writer(look), 0.0)])
    assert seen == [(False, False, 1)]
    assert Store(store.path).has(TRAINING_CELL)
    assert partial(store) == []


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("host", ["box", "my-laptop", "node-1.cluster"])
def test_what_dead_writers_left_is_cleared(
    store: Store, dead_pid: int, host: str, monkeypatch: pytest.MonkeyPatch, trained: Trained
):
    monkeypatch.setattr("socket.gethostname", lambda: host)
    names: list[str] = []
    store.save([Result(TRAINING_CELL, Writer(lambda path: (names.append(path.parent.name), trained.save(path))), 0.0)])
    living = names[0]
    assert str(os.getpid()) in living
    dead = living.replace(str(os.getpid()), str(dead_pid))
    elsewhere = dead.replace(living.partition("-")[0], "elsewhere")
    for name in (living, dead, elsewhere):
        (store.path / ".partial" / name).mkdir()
        (store.path / ".partial" / name / "weights.safetensors").write_bytes(b"half")
    Store(store.path).open_for_writing()
    assert partial(store) == sorted([living, elsewhere])
    assert (store.path / ".partial" / living / "weights.safetensors").read_bytes() == b"half"


def test_a_marker_that_a_dead_writer_left_is_cleared(store: Store, dead_pid: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    (store.path / ".partial" / f"box-{dead_pid}-store.json").write_text("{")
    Store(store.path).open_for_writing()
    assert partial(store) == []


def test_a_store_whose_maker_died_at_once_can_be_used(tmp_path: Path, trained: Trained):
    (tmp_path / ".partial").mkdir()  # the first thing that opening for writing makes
    store = Store(tmp_path).open_for_writing()
    store.save([Result(TRAINING_CELL, trained, 0.0)])
    assert Store(tmp_path).has(TRAINING_CELL)


# Damage is noticed.


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, empty, Path.unlink])
@pytest.mark.parametrize("kind", ["training", "measurement"])
def test_damaged_data_is_refused(full: Store, kind: str, damage: Callable[[Path], None]):
    entry, load = loader(full, kind)
    load()
    damage(next(file for file in entry.iterdir() if file.name != "entry.json"))
    assert_refused(load, entry, "corrupted", "moves it aside")


@pytest.mark.parametrize(
    "text", ["", "{", "\udcff", "null", "[]", "3", "{}", '{"sha256": null}', '{"sha256": {}}', None]
)
@pytest.mark.parametrize("kind", ["training", "measurement"])
def test_a_damaged_description_is_refused(full: Store, kind: str, text: str | None):
    entry, load = loader(full, kind)
    if text is None:
        (entry / "entry.json").unlink()
    else:
        (entry / "entry.json").write_bytes(text.encode(errors="surrogateescape"))
    assert_refused(load, entry, "corrupted", "moves it aside")


def test_a_missing_time_is_refused(full: Store):
    entry = full.entry(TRAINING_CELL)
    (entry / "entry.json").write_text("{}")
    assert_refused(lambda: full.seconds(TRAINING_CELL), entry, "corrupted", "moves it aside")


def test_a_deleted_entry_can_be_computed_again(full: Store, trained: Trained):
    entry, load = loader(full, "training")
    for file in entry.iterdir():
        file.unlink()
    entry.rmdir()
    assert not full.has(TRAINING_CELL)
    full.save([Result(TRAINING_CELL, trained, 0.0)])
    load()


def loader(store: Store, kind: str) -> tuple[Path, Callable[[], object]]:
    """Return the entry of a kind, and a function that loads it."""
    if kind == "training":
        return store.entry(TRAINING_CELL), lambda: store.load_training(TRAINING_CELL)
    return store.entry(MEASUREMENT_CELL), lambda: store.load_rows(MEASUREMENT_CELL)


# What is no store is left alone.


def test_a_directory_of_other_things_is_no_store(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("")
    assert_refused(lambda: Store(tmp_path), f"store = {tmp_path}", "not a store", "new or empty directory")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_file_is_no_store(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")
    assert_refused(lambda: Store(file), f"store = {file}", "is a file", "must be a directory")


@pytest.mark.parametrize("marker", ['{"format": 99}', '{"format": "1"}', "{}", "[]", "{", ""])
def test_another_format_is_refused(tmp_path: Path, marker: str):
    (tmp_path / "store.json").write_text(marker)
    assert_refused(lambda: Store(tmp_path), f"store = {tmp_path}")


def test_another_format_names_both(tmp_path: Path):
    (tmp_path / "store.json").write_text('{"format": 99}')
    assert_refused(lambda: Store(tmp_path), "format 99", "reads format 1")


@pytest.mark.parametrize("place", ["below a file", "/proc/nowhere"])
def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "store" if place == "below a file" else Path(place)
    assert_refused(lambda: Store(path).open_for_writing(), f"store = {path}", "cannot be written")


def test_a_store_that_vanishes_is_refused(store: Store, trained: Trained):
    (store.path / ".partial").rmdir()
    save = lambda: store.save([Result(TRAINING_CELL, trained, 0.0)])  # noqa: E731
    assert_refused(save, f"store = {store.path}", "cannot be written")


def test_a_full_store_that_cannot_be_written_is_enough(full: Store):
    (full.path / ".partial").rmdir()
    (full.path / ".partial").write_text("")  # refuses writers, also if they may write anywhere
    request = {"experiment": "mine"}
    assert_refused(lambda: full.keep([request]), f"store = {full.path}", "cannot be written")
    assert not run([MEASUREMENT_CELL], full, quiet=True, records=[request])


RECORD = {"experiment": "mine", "id": "mine", "settings": {}, "until decided": False, "code": {}, "folders": []}


@pytest.mark.parametrize("wrong", [*({name: None} for name in RECORD), {"folders": "here"}], ids=str)
def test_a_record_that_lacks_something_is_left_out(store: Store, wrong: dict[str, Any]):
    bad = {name: value for name, value in (RECORD | wrong).items() if value is not None}
    store.keep([RECORD, bad])
    with pytest.warns(UserWarning, match=f"cannot be read .*{next(iter(wrong))}"):
        assert [record.items() >= RECORD.items() for record in store.records()] == [True]


@pytest.mark.parametrize(
    "values",
    [
        [True, None],
        [1, None, -3],
        [1.5, None, math.nan],
        ["a", None],
        [1, 2.5],
        [None, None],
        [[1.0], [2.0, 3.0]],
    ],
    ids=str,
)
def test_columns_have_the_types_that_arrow_finds(store: Store, values: list[Any]):
    import pyarrow as pa
    import pyarrow.parquet as pq

    cell = measurement()
    store.save([Result(cell, [{"seed": 0, "value": value} for value in values], 1.0)])
    written = pq.read_table(store.entry(cell) / "rows.parquet", use_threads=False)["value"]
    assert written.type == pa.array(values).type
    assert str(written.to_pylist()) == str(pa.array(values).to_pylist())
