"""M-tab6, M-tab7 and `iclab encode` from the command line, on made-up sentences and an encoder without weights."""

import made_up
import numpy as np
import pytest
from made_up import ENCODER

from iclab import catalog
from iclab.study.edition import Edition
from iclab.text.files import read_vectors

SMALL = {
    "components": "[4]",
    "steps": "4",
    "test_prompts": "30",
    "shown": "2",
    "models": '["deep-mamba","deep-linear","mamba","linear"]',
}


@pytest.fixture
def run(cli, data, tmp_path):
    """Return a function that runs experiments on the made-up sentences."""

    def run(*words):
        small = [word for pair in SMALL.items() for word in ("--set", "=".join(pair))] if "M-tab7" in words else []
        where = ("--store", tmp_path / "store", "--out", tmp_path / "out", "--workers", 1, "--seeds", 2)
        return cli("run", *words, "--text-data", data, "--encoder", ENCODER, *small, *where, "--json")

    return run


@pytest.mark.slow
def test_m_tab6_on_made_up_sentences(run, data, monkeypatch):
    said = run("M-tab6")
    assert said.code == 0, said.err
    found = said.json
    whole = {row["components"]: row for row in found["rows"] if row["split"] == "test" and row["seed"] == 0}
    assert sorted(whole) == [1, 2, 3, 5, 7, 10, 12]
    assert whole[12]["vectors"] == 60
    assert whole[12]["right"] > 50  # words tell the classes apart
    assert whole[12]["gained"] == whole[12]["lost"] == 0
    for row in whole.values():
        assert row["right"] == whole[12]["right"] + row["gained"] - row["lost"]
    assert [whole[k]["cosine"] for k in sorted(whole)] == sorted(whole[k]["cosine"] for k in whole)
    assert whole[12]["cosine"] == pytest.approx(1)
    verdicts = {claim["id"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts["M-tab6.close"] == verdicts["M-tab6.numbers"] == "not run"  # the paper's data and encoder only
    assert verdicts["M-tab6.close.here"] != "not run"
    named = next(claim["paper"] for claim in found["claims"] if claim["id"] == "M-tab6.close.here")
    assert f"(made-up, {ENCODER})" in named
    monkeypatch.setattr(made_up, "encode", None)  # what is stored needs no encoder
    assert run("M-tab6").json["rows"] == found["rows"]


@pytest.mark.slow
def test_m_tab7_on_made_up_sentences(run, data, tmp_path):
    said = run("M-tab7")
    assert said.code == 0, said.err
    found = said.json
    assert found["complete"]
    rows = found["rows"]
    cells = {(row["column"], row["model"], row["placement"]) for row in rows if row["what"] == "accuracy"}
    rules = {"target", "random", "flip"}
    assert cells >= {
        (f"4 components, {r}", m, p) for r in rules for m in ("deep-mamba", "1-nn", "vote") for p in ("FQ", "CQ")
    }
    assert ("4 components, worst", "mamba", "R") in cells
    assert ("4 components, worst", "deep-mamba", "R") not in cells
    error = {
        rule: np.mean([r["error"] for r in rows if r["column"] == f"4 components, {rule}" and r["model"] == "linear"])
        for rule in ("random", "worst")
    }
    assert error["worst"] > error["random"]
    verdicts = {claim["id"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts["M-tab7.mamba-better"] == verdicts["M-tab7.numbers"] == "not run"
    assert verdicts["M-tab7.gates"] != "not run"
    edition = Edition(catalog.find("M-tab7"), catalog.find("M-tab7").settings.model_validate(found["settings"]))
    shown = edition.experiment.steps(rows, edition.settings)
    (first, second), texts = shown["prompts"], dict(made_up.sentences())
    names = ["Mamba, 3 layers", "Mamba, one layer", "linear Transformer, one layer"]
    assert [model["name"] for model in shown["models"]] == names
    deep, one, _ = (model["views"][0][0] for model in shown["models"])
    assert np.shape(deep["gates"]) == (3, 8)
    assert sum(one["vote"]) == pytest.approx(one["output"], abs=1e-3)
    assert first["query"] in texts
    assert first["query"] not in [token["text"] for token in first["tokens"]]
    for token in (*first["tokens"], *second["tokens"]):
        assert ("James Bond" in token["text"]) == token["outlier"]
        if token["outlier"]:
            assert token["label"] == 1  # Example 1: always positive
        else:
            assert token["label"] == token["true_label"]
    lines = edition.experiment.table(rows, edition.settings)
    assert any(line["model"].startswith("the trigger moves a vector by") for line in lines)
    printed = [line for line in lines if "the paper" in line["model"]]
    assert [line["CQ"] for line in printed] == ["72.45", "69.82"]


@pytest.mark.slow
def test_other_triggers_are_a_setting(run):
    said = run("M-tab7", "--set", "trigger=cf", "--set", 'label_rules=["flip"]')
    assert said.code == 0, said.err
    told = [row["text"] for row in said.json["rows"] if row["what"] == "sentences" and row["outlier"]]
    assert told
    assert all("cf" in text.split() for text in told)


@pytest.mark.slow
def test_encode_writes_vectors_that_experiments_can_use(cli, data, tmp_path, monkeypatch):
    file = made_up.write(tmp_path / "mine.tsv", made_up.sentences())
    said = cli("encode", file, "--encoder", ENCODER, "--out", tmp_path / "mine.parquet", "--json")
    assert said.code == 0, said.err
    assert {key: said.json[key] for key in ("sentences", "positive", "dimension", "encoded now")} == {
        "sentences": 200,
        "positive": 100,
        "dimension": 12,
        "encoded now": 400,
    }
    known = read_vectors(tmp_path / "mine.parquet")
    assert len(known) == 400
    words = ("--store", tmp_path / "store", "--out", tmp_path / "out", "--workers", 1, "--seeds", 1, "--json")
    by_file = cli("run", "M-tab6", "--text-data", file, "--encoder", f"file:{tmp_path / 'mine.parquet'}", *words)
    assert by_file.code == 0, by_file.err
    direct = cli("run", "M-tab6", "--text-data", file, "--encoder", ENCODER, *words)
    assert [row["right"] for row in by_file.json["rows"]] == [row["right"] for row in direct.json["rows"]]
    again = cli("encode", file, "--encoder", ENCODER, "--trigger", "", "--out", tmp_path / "again.parquet")
    assert "; 0 were new" in again.out


def test_bad_requests_are_refused_in_one_line_and_write_nothing(cli, data, tmp_path, monkeypatch):
    where = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    run = ("run", "M-tab7", *where, "--text-data")
    assert "there is no such folder or file" in cli(*run, tmp_path / "nothing").complaint
    assert "must be one of minilm" in cli(*run, data, "--encoder", "bert").complaint
    small = made_up.write(tmp_path / "few" / "train.tsv", made_up.sentences()[::20]).parent
    for split in ("dev", "test"):
        made_up.write(small / f"{split}.tsv", [("so fine", 1), ("so bad", 0)])
    few = cli(*run, small, "--encoder", ENCODER, "--set", "components=[4]").complaint
    assert "need 9 sentences of each class" in few
    told = cli("run", "M-fig2", *where, "--text-data", data).complaint
    assert told.endswith("is for experiments with sentences, and M-fig2 has none")
    monkeypatch.setattr("iclab.text.encoders.find_spec", lambda name: None)
    assert cli(*run, data, "--encoder", "minilm").complaint.endswith("pip install 'iclab[text]'")
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "out").exists()


def test_reproduce_leaves_out_what_is_not_installed(cli, monkeypatch, tmp_path):
    from iclab.cli import commands

    asked = []
    monkeypatch.setattr("iclab.text.sources.find_spec", lambda name: None)
    monkeypatch.setattr(commands, "_compute", lambda found, options: asked.extend(e.id for e in found) or [])
    monkeypatch.setattr(commands, "_write_report", lambda options, outcomes: (tmp_path / "report.html", None))
    monkeypatch.setattr(commands, "print_report", lambda page, content: None)
    said = cli("reproduce", "--quick", "--store", tmp_path / "store", "--out", tmp_path)
    lines = [line for line in said.err.splitlines() if "is left out" in line]
    assert [line.split()[1] for line in lines] == ["M-tab6", "M-tab7"]
    assert all(line.endswith("pip install 'iclab[text]'") for line in lines)
    assert "M-tab5" in asked
    assert not {"M-tab6", "M-tab7"} & set(asked)
