"""CONTRIBUTING and the extending guide speak of code that exists and works."""

import importlib
import re
from pathlib import Path

import pytest
import torch

import iclab
from iclab.catalog import experiments
from iclab.lab import Store, run
from iclab.models import Softmax
from iclab.study.edition import Edition

ROOT = Path(__file__).parent.parent
WALK = re.findall(r"`([\w/]+\.py): ([\w.]+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("file, name", WALK)
def test_every_call_of_the_walk_exists(file, name):
    module = importlib.import_module("iclab." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for part in name.split("."):
        module = getattr(module, part)


def test_the_walk_is_there():
    assert len(WALK) > 10


def test_the_guides_model_works(user_module, tmp_path, monkeypatch):
    user_module("tempered", BLOCKS[0])
    monkeypatch.syspath_prepend(tmp_path)
    tempered = importlib.import_module("tempered").Tempered
    torch.manual_seed(0)
    tokens = torch.randn(3, 8, 5)
    torch.testing.assert_close(tempered(5)(tokens).output, Softmax(5)(tokens).output)
    with pytest.raises(iclab.InputError, match="temperature"):
        tempered(5, temperature=0.0)
    run = iclab.train(tempered, recipe=iclab.Recipe(steps=5, step_size=0.3), seeds=2)
    assert run.error(count=20).mean is not None


def test_the_guides_experiment_works(tmp_path):
    names = {"__name__": "extending"}
    experiments()  # the catalog is made before the guide's experiment is known
    exec(compile(BLOCKS[1], "extending.md", "exec"), names)
    settings = names["WidthSettings"](widths=(4, 8), steps=2, batch_size=4, seeds=2, test_prompts=20)
    edition, store = Edition(names["Widths"](), settings), Store(tmp_path / "store")
    run(edition.cells, store, workers=1, quiet=True)
    outcome = edition.outcome(store)
    assert [line["m"] for line in outcome.table] == [4, 8]
    assert outcome.claims[0]["verdict"] != "not run"
    assert outcome.write(tmp_path / "out").exists()
