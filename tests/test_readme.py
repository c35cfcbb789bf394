"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

import iclab

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"


def test_its_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICLAB_CACHE", str(tmp_path / "cache"))
    first, *others = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(first.strip().splitlines()) <= 20
    names = {"__name__": "readme"}
    exec(compile(first, "README.md", "exec"), names)
    mamba, linear, mine = capsys.readouterr().out.strip().splitlines()
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", mamba).group(1)) < 0.01
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", linear).group(1)) > 0.9
    assert mine.startswith("Run(Mine, 16 seeds")
    for code in others:
        exec(compile(code, "README.md", "exec"), names)
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
    commands = re.findall(r"^    iclab (predict .*?)(?: +#.*)?$", README.read_text(), re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        assert cli(*command.split()).code == 0, command


def test_every_file_it_points_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
