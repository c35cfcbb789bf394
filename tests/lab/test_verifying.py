"""Cells computed again: the same bit for bit, and altered ones are found."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from iclab.lab import Store, machine, verifying


@pytest.fixture
def store(figure_run, tmp_path):
    """A copy of the store of a small run of M-fig2."""
    return shutil.copytree(figure_run.store, tmp_path / "store")


def entry_of(store, kind):
    return sorted((store / kind).iterdir())[0]


def restate(entry, **changes):
    """Let an entry say something else about itself, with the checksum its data have now."""
    about = json.loads((entry / "entry.json").read_text())
    for name in about["sha256"]:
        about["sha256"][name] = hashlib.sha256((entry / name).read_bytes()).hexdigest()
    (entry / "entry.json").write_text(json.dumps(about | changes))


def alter_weights(entry, by):
    path = entry / "weights.safetensors"
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = max(tensors, key=lambda name: tensors[name].numel())
    tensors[name] = tensors[name] * (1 + by)
    save_file(tensors, path, metadata)
    restate(entry)


def test_cells_are_the_same_bit_for_bit_and_nothing_is_written(cli, store, contents):
    before = contents(store)
    said = cli("verify", "--store", store, "--sample", 6, "--json").json
    assert [cell["found"] for cell in said["cells"]] == ["bit for bit"] * 6
    assert all(cell["same_machine"] for cell in said["cells"])
    assert contents(store) == before


def test_altered_weights_are_found(cli, store):
    entry = entry_of(store, "training")
    alter_weights(entry, 1e-6)
    found = verifying.verify(Store(store), {entry.name})
    assert [(cell.hash, cell.found) for cell in found.cells] == [(entry.name, "differs")]
    said = cli("verify", "--store", store, "--sample", 1000)
    assert said.code == 1
    assert f"training/{entry.name}: differs" in said.out


def test_of_another_machine_a_tolerance_is_enough(store):
    entry = entry_of(store, "training")
    alter_weights(entry, 1e-6)
    restate(entry, **{"made by": machine.made_by() | {"cpu": "another"}})
    (cell,) = verifying.verify(Store(store), {entry.name}).cells
    assert (cell.found, cell.same_machine) == ("within tolerance", False)
    alter_weights(entry, 0.01)
    (cell,) = verifying.verify(Store(store), {entry.name}).cells
    assert cell.found == "differs"


def test_long_cells_are_left_out_and_counted(store):
    entry = entry_of(store, "training")
    restate(entry, seconds=1000.0)
    found = verifying.verify(Store(store), {entry.name})
    assert (found.cells, found.too_long) == ([], 1)


def test_bad_requests_are_one_line(cli, store, tmp_path):
    assert "sample = 0" in cli("verify", "--sample", 0, "--store", store).complaint
    assert "seconds = 0.0" in cli("verify", "--seconds", 0, "--store", store).complaint
    assert "does not exist" in cli("verify", "--store", tmp_path / "nowhere").complaint
    assert "has no cells of T-fig3" in cli("verify", "T-fig3", "--store", store).complaint
