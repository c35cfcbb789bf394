"""``iclab store``, and what other commands do about a damaged store: nothing is deleted, nothing bad is believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iclab import catalog
from iclab.lab import Store, memory
from iclab.lab.upkeep import check as check_all

Cli = Callable[..., Any]


def flip_a_byte(entry: Path) -> None:
    file = data_of(entry)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def truncate(entry: Path) -> None:
    data_of(entry).write_bytes(data_of(entry).read_bytes()[:-1])


def data_of(entry: Path) -> Path:
    return next(file for file in entry.iterdir() if file.name != "entry.json")


def change_the_description(entry: Path) -> None:
    about = json.loads((entry / "entry.json").read_text())
    about["cell"]["group" if entry.parent.name == "training" else "draw"] = 7
    (entry / "entry.json").write_text(json.dumps(about))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped byte": flip_a_byte,
    "truncated file": truncate,
    "missing file": lambda entry: data_of(entry).unlink(),
    "missing description": lambda entry: (entry / "entry.json").unlink(),
    "other description": change_the_description,
    "empty description": lambda entry: (entry / "entry.json").write_text(""),
}


@pytest.fixture
def store(figure_run: Any, tmp_path: Path) -> Path:
    """A copy of the store of a small run of M-fig2."""
    return shutil.copytree(figure_run.store, tmp_path / "store")


def first(store: Path, kind: str) -> Path:
    return sorted((store / kind).iterdir())[0]


# Check and repair.


def test_a_sound_store_is_sound(cli: Cli, store: Path, contents: Callable[[Path], Any]):
    before = contents(store)
    said = cli("store", "check", "--store", store)
    many = len(check_all(Store(store)).bad) + len(list(store.glob("*/*/entry.json")))
    assert (said.code, said.out, said.err) == (0, f"{many} sound, 0 bad\n", "")
    assert cli("store", "repair", "--store", store, "--json").json == {"moved": [], "marker": None}
    assert contents(store) == before


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("kind", ["training", "measurement"])
def test_every_damage_is_found_and_moved_aside(
    damage: Callable[[Path], None], kind: str, cli: Cli, store: Path, contents: Callable[[Path], Any]
):
    entry = first(store, kind)
    damage(entry)
    before = contents(entry)
    said = cli("store", "check", "--store", store, "--json")
    assert (said.code, [item["path"] for item in said.json["bad"]]) == (1, [str(entry)])
    assert said.err == f"iclab: 1 bad entry; `iclab store repair --store {store}` moves them aside\n"
    (moved,) = cli("store", "repair", "--store", store, "--json").json["moved"]
    assert moved["path"] == str(entry)
    assert contents(Path(moved["now"])) == before
    assert not entry.exists()
    assert cli("store", "check", "--store", store).code == 0


def test_two_bad_entries_of_one_name_are_both_kept(cli: Cli, store: Path):
    entry = first(store, "measurement")
    for number in (1, 2):
        shutil.copytree(first(store, "training"), entry, dirs_exist_ok=True)
        truncate(entry)
        cli("store", "repair", "--store", store)
        assert len(list((store / "aside" / "measurement").iterdir())) == number


def test_an_entry_of_an_earlier_version_is_not_bad(cli: Cli, store: Path):
    entry = first(store, "training")
    about = json.loads((entry / "entry.json").read_text())
    del about["versions"]
    (entry / "entry.json").write_text(json.dumps(about))
    assert cli("store", "check", "--store", store, "--json").json["other_version"] == 0  # its name can still be found
    entry.rename(entry.with_name("0" * 20))
    found = cli("store", "check", "--store", store, "--json").json
    assert (found["other_version"], found["bad"]) == (1, [])


def test_a_damaged_record_is_moved_aside(cli: Cli, store: Path):
    (record,) = (store / "request").iterdir()
    record.write_text("{")
    assert cli("store", "check", "--store", store).code == 1
    assert cli("store", "repair", "--store", store).code == 0
    assert [path.name for path in (store / "aside" / "request").iterdir()] == [record.name]


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_store_without_its_marker_can_be_repaired(text: str | None, cli: Cli, store: Path):
    (store / "store.json").unlink() if text is None else (store / "store.json").write_text(text)
    assert "store" in cli("store", "check", "--store", store).complaint
    said = cli("store", "repair", "--store", store)
    assert (said.code, "store.json was written anew" in said.err) == (0, True)
    assert cli("store", "check", "--store", store).code == 0


@pytest.mark.parametrize("action", ["check", "repair", "list", "size", "prune"])
def test_a_store_that_is_not_there_is_refused(action: str, cli: Cli, tmp_path: Path):
    assert cli("store", action, "--store", tmp_path / "none").complaint == f"store = {tmp_path}/none: does not exist"
    assert not (tmp_path / "none").exists()


# Other commands go on.


def test_show_goes_on_without_a_bad_entry_and_names_it(
    cli: Cli, figure_run: Any, store: Path, tmp_path: Path, contents: Callable[[Path], Any]
):
    entry = first(store, "measurement")
    flip_a_byte(entry)
    before = contents(store)
    shown = cli("show", *figure_run.words, "--store", store, "--out", tmp_path / "out", "--json")
    assert (shown.code, shown.json["complete"]) == (0, False)
    assert len(shown.json["rows"]) == len(figure_run.said.json["rows"]) - 2
    assert f"iclab: {entry}: is corrupted (rows.parquet has changed)" in shown.err
    assert contents(store) == before


@pytest.mark.parametrize("kind", ["training", "measurement"])
def test_run_computes_a_bad_entry_again(kind: str, cli: Cli, figure_run: Any, store: Path, tmp_path: Path):
    entry = first(store, kind)
    good = data_of(entry).read_bytes()
    flip_a_byte(entry)
    if kind == "training":  # its weights are read only if something is to be measured
        shutil.rmtree(store / "measurement")
    said = cli("run", *figure_run.words, "--workers", 1, "--store", store, "--out", tmp_path / "out", "--json")
    assert said.code == 0
    assert f"{entry}: is corrupted" in said.err
    assert said.err.count("computed again") == 1
    assert said.json["rows"] == figure_run.said.json["rows"]
    assert check_all(Store(store)).bad == {}
    assert data_of(store / "aside" / kind / entry.name).read_bytes() != good


# List, size, prune, merge.


def test_list_and_size_agree(cli: Cli, store: Path):
    listed = cli("store", "list", "--store", store, "--json").json["entries"]
    size = cli("store", "size", "--store", store, "--json").json
    for kind in ("training", "measurement"):
        mine = [row for row in listed if row["kind"] == kind]
        assert size[kind] == {"entries": len(mine), "bytes": sum(row["bytes"] for row in mine)}
        assert size[kind]["bytes"] == sum(file.stat().st_size for file in (store / kind).rglob("*") if file.is_file())
    assert {row["model"] for row in listed} == {"mamba", "linear"}
    people = cli("store", "list", "--store", store).out.splitlines()
    assert len(people) == len(listed)
    assert memory.shown_bytes(size["training"]["bytes"]) in cli("store", "size", "--store", store).out


def test_prune_deletes_what_no_experiment_needs(
    cli: Cli, store: Path, contents: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
):
    figure = catalog.find("M-fig2")  # to build the cells of all experiments takes a while
    monkeypatch.setattr(catalog, "experiments", lambda: {"M-fig2": figure})
    before = contents(store)
    small = ("--steps", 2, "--seeds", 1, "--test-prompts", 5, "--workers", 1)
    assert cli("train", "--model", "mamba", *small, "--store", store).code == 0
    found = cli("store", "prune", "--store", store, "--json").json
    assert (len(found["entries"]), found["deleted"]) == (2, False)
    assert len(list(store.glob("training/*"))) == 3
    assert cli("store", "prune", "--store", store, "--delete", "--json").json["entries"] == found["entries"]
    after = {name: data for name, data in contents(store).items() if name != "costs.json"}
    assert after == {name: data for name, data in before.items() if name != "costs.json"}
    # A request that cannot be understood: nothing is known to be useless.
    (record,) = (store / "request").iterdir()
    record.write_text(record.read_text().replace('"experiment": "M-fig2"', '"experiment": "gone:Mine"'))
    said = cli("store", "prune", "--delete", "--store", store)
    assert said.code == 2
    assert "nothing is deleted" in said.err
    assert sorted(contents(store)) == sorted(before)


def test_merge_takes_what_is_missing_and_sound(cli: Cli, store: Path, tmp_path: Path, contents: Callable[[Path], Any]):
    here, bad = tmp_path / "here", first(store, "measurement")
    flip_a_byte(bad)
    other = contents(store)
    many = len(list(store.glob("*/*/entry.json")))
    said = cli("store", "merge", store, "--store", here, "--json")
    assert said.json["bad"] == [{"path": str(bad), "problem": "rows.parquet has changed"}]
    assert (said.json["taken"], said.json["known"], said.json["records"]) == (many - 1, 0, 1)
    again = cli("store", "merge", store, "--store", here, "--json").json
    assert (again["taken"], again["known"], again["records"]) == (0, many - 1, 0)
    assert contents(store) == other
    found = contents(here)
    for name, data in other.items():
        if name.startswith(("training/", "measurement/", "request/")) and bad.name not in name:
            assert found[name] == data, name
    assert cli("store", "check", "--store", here).code == 0
    assert list((here / ".partial").iterdir()) == []


def test_merge_refuses_what_is_no_store(cli: Cli, store: Path, tmp_path: Path):
    assert "is the store itself" in cli("store", "merge", store, "--store", store).complaint
    assert "is not a store" in cli("store", "merge", tmp_path / "none", "--store", store).complaint
