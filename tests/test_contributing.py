"""CONTRIBUTING and the extending guide speak of code that exists and works."""

import base64
import gzip
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
import torch

import iclab
from iclab.catalog import find
from iclab.models import Softmax

ROOT = Path(__file__).parent.parent
WALK = re.findall(r"`([\w/]+\.py): ([\w.]+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text("utf-8"), re.DOTALL)


def block(text):
    """The guide's block of code that contains a text."""
    (found,) = [block for block in BLOCKS if text in block]
    return found


@pytest.mark.parametrize("file, name", WALK)
def test_every_call_of_the_walk_exists(file, name):
    module = importlib.import_module("iclab." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for part in name.split("."):
        module = getattr(module, part)


def test_the_walk_is_there():
    assert len(WALK) > 10


@pytest.mark.slow
def test_the_guides_model_of_ones_own_passes_the_checks_and_trains_from_the_command_line(
    user_module, tmp_path, monkeypatch, cli, capsys
):
    """In a folder outside the clone."""
    user_module("my_module", block("class Mine"))
    user_module("test_mine", block("def test_mine"))
    monkeypatch.syspath_prepend(tmp_path)
    tests = importlib.import_module("test_mine")
    tests.test_mine()
    assert capsys.readouterr().out.startswith("Mine: 16 checks passed, 1 skipped")
    (mark,) = tests.test_mine_by_check.pytestmark
    assert mark.args[1][0][0] == "builds"
    tests.test_mine_by_check(*mark.args[1][0])
    words = ("--set", "model.options.hidden=4", "--steps", 2, "--batch-size", 4, "--seeds", 1, "--test-prompts", 20)
    train = ("train", "--model", "my_module:Mine", "--optimizer", "adam", "--step-size", 0.01, "--workers", 1)
    said = cli(*train, *words, "--test-context-length", 25, "--store", "store", "--json")
    assert said.code == 0, said.err
    assert said.err.count("Mine: seeds are measured one after another, not stacked: ") == 1
    assert said.json["measurements"][0]["error"] is not None


def test_the_guides_model_works(user_module, tmp_path, monkeypatch):
    user_module("tempered", block("class Tempered"))
    monkeypatch.syspath_prepend(tmp_path)
    tempered = importlib.import_module("tempered").Tempered
    torch.manual_seed(0)
    tokens = torch.randn(3, 8, 5)
    torch.testing.assert_close(tempered(5)(tokens).output, Softmax(5)(tokens).output)
    with pytest.raises(iclab.InputError, match="temperature"):
        tempered(5, temperature=0.0)
    run = iclab.train(tempered, recipe=iclab.Recipe(steps=5, step_size=0.3), seeds=2)
    assert run.error(count=20).mean is not None


GUIDE = (ROOT / "docs" / "extending.md").read_text("utf-8")


@pytest.mark.slow
def test_the_guides_experiment_works_in_a_folder_of_its_own(cli, user_module, tmp_path, monkeypatch):
    """By the page's own words: save the file, run its commands, and find the experiment in the report."""
    code = block("class LengthSettings")
    assert len(code.splitlines()) <= 60
    name = re.search(r"Save this as `(\w+)\.py`", GUIDE).group(1)
    user_module(name, code)
    figure = find("M-fig2")
    monkeypatch.setattr("iclab.catalog.experiments", lambda: {"M-fig2": figure})  # so that the report is quick
    monkeypatch.setenv("ICLAB_STORE", str(tmp_path / "elsewhere"))
    first, *others = re.findall(rf"^    iclab (run {name}:.*)$", GUIDE, re.MULTILINE)
    assert first == f"run {name}:Lengths --quick"
    assert cli(*first.split()).code == 0
    for words in map(shlex.split, others):
        less = ("--most", 8) if "--until-decided" in words else ()
        assert cli(*words, "--set", "steps=5", *less).code == 0, words
    said = cli("report", "--json")
    assert (said.code, said.json["yours"], said.json["variants"]) == (0, {"holds": 1}, 2)
    text = Path(said.json["report"]).with_name("variants.html").read_text("utf-8")
    packed = text.split('id="figures">')[1].split("</script>")[0]
    figures = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert "lengths" in figures
    assert [series["name"] for series in figures["lengths"]["legend"]] == ["Mamba", "linear Transformer"]
    assert 'href="#own-lengths"' in text
