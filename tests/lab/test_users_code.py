"""Users' models and rules in a cell: known by import path and by a hash of their source."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import TRAIN_PROMPTS, TRAINING, measurement

from iclab.config import Code, InputError
from iclab.lab import MeasurementCell

USER_CODE = """
    import torch

    def strength():
        return {strength}

    class Net(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.read = torch.nn.Linear(width, 1)

        def forward(self, prompts):
            return self.read(prompts[:, -1]) * strength()

    def rule(examples):
        return examples.labels * strength()
"""


@pytest.mark.parametrize(
    "path, name",
    [
        (f"{TRAINING}.model", "user_code:Net"),
        (f"{TRAIN_PROMPTS}.outliers.labels", "user_code:rule"),
        (f"{TRAIN_PROMPTS}.outliers.placement", "user_code:rule"),
    ],
)
def test_source_of_users_code_is_in_the_hash(path: str, name: str, user_module: Callable[[str, str], None]):
    def hash_with(strength: float) -> str:
        user_module("user_code", USER_CODE.format(strength=strength))
        return measurement({path: name}).training.hash

    first, edited, restored = hash_with(1.0), hash_with(-1.0), hash_with(1.0)
    assert first == restored != edited


def test_users_code_by_path_or_as_object_is_the_same(user_module: Callable[[str, str], None]):
    user_module("user_code", USER_CODE.format(strength=1.0))
    by_path = measurement({f"{TRAINING}.model": "user_code:Net", "prompts.outliers.labels": "user_code:rule"})
    import user_code

    as_object = measurement({f"{TRAINING}.model": user_code.Net, "prompts.outliers.labels": user_code.rule})
    assert (as_object, as_object.hash) == (by_path, by_path.hash)


def test_two_functions_without_a_name_are_two_meanings():
    rules = [lambda examples: examples.labels, lambda examples: -examples.labels]
    kept, flipped = (measurement({"prompts.outliers.labels": rule}) for rule in rules)
    assert kept.hash != flipped.hash


def test_a_functions_closure_is_part_of_its_meaning():
    def scaled(factor: float) -> Callable[[Any], Any]:
        return lambda examples: factor * examples.labels

    assert (
        measurement({"prompts.outliers.labels": scaled(1.0)}).hash
        != measurement({"prompts.outliers.labels": scaled(-1.0)}).hash
    )


def test_json_keeps_users_code(user_module: Callable[[str, str], None]):
    user_module("user_code", USER_CODE.format(strength=1.0))
    cell = measurement({f"{TRAINING}.model": "user_code:Net", "prompts.outliers.labels": "user_code:rule"})
    again = MeasurementCell.model_validate_json(cell.model_dump_json())
    assert (again, again.hash) == (cell, cell.hash)
    assert again.prompts.outliers.labels.load().__name__ == "rule"


def test_a_changed_helper_module_changes_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    hashes = []
    for scale in (1, -1):
        (tmp_path / "hashed_helper.py").write_text(f"SCALE = {scale}\n")
        (tmp_path / "hashed_rule.py").write_text(
            "from hashed_helper import SCALE\n\ndef rule(examples):\n    return SCALE * examples.labels\n"
        )
        for name in ("hashed_helper", "hashed_rule"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        hashes.append(Code.of("hashed_rule:rule").source)
    assert hashes[0] != hashes[1]


STRAY = 'import os; os.write(2, b"a stray module was imported\\n")\n'


@pytest.mark.slow
def test_stray_files_in_the_working_directory_are_not_imported(tmp_path: Path):
    for name in ("json", "numpy", "torch", "pyarrow", "numba", "argparse", "pydantic", "difflib"):
        (tmp_path / f"{name}.py").write_text(STRAY)
    (tmp_path / "mine.py").write_text("def rule(examples):\n    return -examples.labels\n")
    words = ["train", "--model", "softmax", "--outlier-labels", "mine:rule", "--outlier-fraction", "0.5"]
    words += ["--steps", "1", "--test-prompts", "5", "--seeds", "1", "--store", "store"]
    said = subprocess.run([sys.executable, "-m", "iclab", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (said.returncode, "stray" in said.stderr) == (0, False), said.stderr


def test_the_working_directory_is_the_last_place_and_for_users_code_only(user_module: Callable[[str, str], None]):
    user_module("user_code", USER_CODE.format(strength=1.0))
    sys.path[:] = [place for place in sys.path if place not in ("", str(Path.cwd()))]
    Code.of("iclab.config:shown")
    assert "" not in sys.path
    Code.of("user_code:rule")
    assert sys.path.index("") == len(sys.path) - 1


def test_a_module_that_is_hidden_by_another_is_named(user_module: Callable[[str, str], None]):
    user_module("string", "def rule(examples): ...")
    import string  # the one of the standard library

    assert not hasattr(string, "rule")
    with pytest.raises(InputError, match=r"your string\.py is hidden by another module called string; rename it"):
        Code.of("string:rule")
