"""The audit of a small run: it agrees, and planted errors are named."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iclab.audit import program

ID = "M-fig2.linear-large.flip"


@pytest.fixture(scope="module")
def exported(figure_run, cli, tmp_path_factory):
    """The claims of a small run of M-fig2, and its store. Tests must not write into either."""
    path = tmp_path_factory.mktemp("claims") / "claims.json"
    said = cli("export", "M-fig2", "--claims", path, "--store", figure_run.store)
    assert said.code == 0, said.err
    return path, figure_run.store


def audited(cli, document, store, folder):
    path = folder / "altered.json"
    path.write_text(json.dumps(document))
    said = cli("audit", "--claims", path, "--store", store, "--json", "--no-controls")
    assert said.code == (1 if said.json["problems"] else 0)
    return {problem["name"]: problem["problem"] for problem in said.json["problems"]}


def claim_of(document, id_):
    return next(claim for experiment in document["experiments"] for claim in experiment["claims"] if claim["id"] == id_)


def test_everything_agrees_and_is_derived_from_rows(cli, exported):
    said = cli("audit", "M-fig2", "--store", exported[1], "--json").json
    assert said["problems"] == []
    assert set(said["levels"].values()) == {"rows", "not run"}
    assert said["levels"][ID] == "rows"
    assert said["controls"]["survived_swap"] == []


def test_the_file_is_the_same_each_time_and_has_every_claim(cli, exported, tmp_path, figure_run):
    path, store = exported
    cli("export", "M-fig2", "--claims", tmp_path / "again.json", "--store", store)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    document = json.loads(path.read_text())
    assert document["schema"] == {"name": "iclab-claims", "version": 1}
    (experiment,) = document["experiments"]
    told = {claim["id"]: claim["verdict"] for claim in figure_run.said.json["claims"]}
    assert {claim["id"]: claim["verdict"] for claim in experiment["claims"]} == told
    assert all(claim["label"] == document["labels"][claim["verdict"]] for claim in experiment["claims"])
    assert experiment["settings"]["steps"] == 20
    for hash_, cell in experiment["cells"].items():
        data = (store / "measurement" / hash_ / "rows.parquet").read_bytes()
        assert hashlib.sha256(data).hexdigest() == cell["sha256"]


def test_the_program_runs_by_itself(exported):
    words = [sys.executable, "-I", program.__file__, *map(str, exported)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told
    assert "disagreements: 0" in told.stdout


def test_an_altered_verdict_is_named(cli, exported, tmp_path):
    document = json.loads(exported[0].read_text())
    claim = claim_of(document, ID)
    claim["verdict"], claim["label"] = ("fails", "falsified") if claim["verdict"] != "fails" else ("holds", "verified")
    found = audited(cli, document, exported[1], tmp_path)
    assert set(found) == {ID}
    assert found[ID].startswith("verdict is")


def test_an_altered_number_is_named(cli, exported, tmp_path):
    document = json.loads(exported[0].read_text())
    claim_of(document, ID)["size"]["points"][0]["high"] += 1e-6
    found = audited(cli, document, exported[1], tmp_path)
    assert set(found) == {ID}
    assert "derived again" in found[ID]


def test_an_altered_margin_is_named_though_the_verdict_stays(cli, exported, tmp_path):
    document = json.loads(exported[0].read_text())
    claim_of(document, ID)["size"]["margins"] = [0.100001]
    found = audited(cli, document, exported[1], tmp_path)
    assert found == {ID: "margins of its size is [0.100001], iclab says [0.1]"}


def test_an_altered_row_is_named_though_its_checksum_was_adjusted(cli, exported, tmp_path):
    store = shutil.copytree(exported[1], tmp_path / "store")
    document = json.loads(exported[0].read_text())
    where = {"model": "linear", "outlier_labels": "flip", "outlier_fraction": 0.6}
    (experiment,) = document["experiments"]
    cell = next(c["cell"] for c in experiment["conditions"] if where.items() <= c["columns"].items())
    folder = store / "measurement" / cell
    rows = pq.ParquetFile(folder / "rows.parquet").read().to_pylist()
    rows[0]["error"] += 0.02
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    about = json.loads((folder / "entry.json").read_text())
    about["sha256"]["rows.parquet"] = hashlib.sha256((folder / "rows.parquet").read_bytes()).hexdigest()
    (folder / "entry.json").write_text(json.dumps(about))
    problems, _ = program.audit(document, store)
    named = {name for name, _ in problems}
    assert named == {ID, f"cell {cell}"}


def test_bad_requests_are_one_line(cli, exported, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    store = ("--store", exported[1])
    assert "has schema None" in cli("audit", "--claims", tmp_path / "other.json", *store).complaint
    assert "cannot be read" in cli("audit", "--claims", tmp_path / "none.json", *store).complaint
    assert "has no results of T-fig3" in cli("audit", "T-fig3", *store).complaint
    assert "does not exist" in cli("audit", "--store", tmp_path / "nowhere").complaint
    assert "cannot be written" in cli("export", "--claims", exported[0] / "x.json", *store).complaint
