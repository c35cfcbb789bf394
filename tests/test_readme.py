"""The examples of README and docs/python.md run as they stand."""

import ast
import re
import shlex
from pathlib import Path

import pytest

import iclab
from iclab.cli.parser import parser

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"
SHOWN = re.findall(r"^    (Run\(.*)$", README.read_text(), re.MULTILINE)


def examples(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_it_is_short():
    assert len(README.read_text().split()) < 900


def test_its_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICLAB_CACHE", str(tmp_path / "cache"))
    (first,) = examples(README)
    same, *others = examples(DOCS / "python.md")
    assert len(first.strip().splitlines()) <= 20
    assert ast.dump(ast.parse(same)) == ast.dump(ast.parse(first))  # but for comments
    names = {"__name__": "readme"}
    exec(compile(first, "README.md", "exec"), names)
    mamba, linear, mine = capsys.readouterr().out.strip().splitlines()
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", mamba).group(1)) < 0.01
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", linear).group(1)) > 0.9
    for said, shown in zip((mamba, linear, mine), SHOWN, strict=True):
        assert said.split(")")[0] == shown.split(")")[0]
        numbers, printed = ([float(n) for n in re.findall(r"\d\.\d+", text)] for text in (said, shown))
        assert numbers[: len(printed)] == pytest.approx(printed, rel=0.1)
    for code in others:
        exec(compile(code, "python.md", "exec"), names)
    assert names["answer"].output.shape == (16, 5, 1)
    predicted = names["predicted"]
    assert [check.name for check in predicted.missed("M-thm2")] == ["(i)", "(7)", "(b) restored", "(c)"]
    assert round(predicted.value("strength"), 2) == 6.67
    assert round(predicted.value("epsilon"), 2) == 0.13
    assert (tmp_path / "mamba.safetensors").exists()
    assert (tmp_path / "comparison.svg").exists()
    means = {(line["model"], round(line["outliers.fraction"], 1)): line["mean"] for line in names["comparison"].summary}
    assert means["mamba", 0.7] < 0.01 < 0.9 < means["linear", 0.7]
    assert names["outcome"].complete
    patched = iclab.load("mamba.safetensors").intervene(gates=names["gates"])
    assert 0.7 < patched.error(names["poisoned"], count=500).mean < 0.85


def test_its_predictions_can_be_asked_for(cli):
    pages = (DOCS / "commands.md").read_text() + (DOCS / "python.md").read_text()
    commands = re.findall(r"^    iclab (predict .*?)(?: +#.*)?$", pages, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        assert cli(*command.split()).code == 0, command


@pytest.mark.parametrize("page", [README, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_every_file_it_points_to_exists(page):
    for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_command_in_the_docs_is_one():
    pages = (README, *DOCS.rglob("*.md"), *DOCS.glob("notebooks/*.py"))
    listed = [line.removeprefix("#") for page in pages for line in page.read_text().splitlines()]
    commands = [re.split(" [#>]", line)[0] for line in listed if line.startswith(("    iclab ", "     iclab "))]
    assert len(commands) > 80
    for command in commands:
        parser().parse_args(shlex.split(command)[1:])
