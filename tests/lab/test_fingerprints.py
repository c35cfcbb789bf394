"""The hash of a user's callable: everything that decides its result counts, and the file is the code that runs."""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iclab.config import Code, InputError


def source(value: Any) -> str:
    return Code.of(value).source


class StopAt:
    __slots__ = ("level",)

    def __init__(self, level: Any) -> None:
        self.level = level

    def __call__(self, done: Any) -> bool:
        return done < self.level


class Holder:
    def __init__(self, value: Any) -> None:
        self.value, self.me = value, self

    def method(self, done: Any) -> bool:
        return done < self.value


def closure(value: Any) -> Any:
    return lambda done: done < value


def keyword(value: Any) -> Any:
    def inner(done: Any, *, level: Any = value) -> bool:
        return done < level

    return inner


def decorated(value: Any) -> Any:
    @functools.wraps(source)
    def inner(done: Any) -> bool:
        return done < value

    return inner


MAKERS = [
    lambda value: torch.nn.HuberLoss(reduction="none", delta=value),
    StopAt,
    Holder,
    lambda value: Holder(value).method,
    lambda value: {0.1: value}.get,
    closure,
    lambda value: closure({"level": [value]}),
    lambda value: closure(np.array([value])),
    lambda value: closure(torch.tensor([value])),
    lambda value: closure(torch.nn.Parameter(torch.tensor([value], dtype=torch.bfloat16))),
    lambda value: closure(StopAt(value)),
    keyword,
    decorated,
    lambda value: functools.partial(StopAt(value), done=1),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_a_callable_carries_is_part_of_its_meaning(make: Any):
    assert source(make(0.5)) == source(make(0.5)) != source(make(0.25))


def test_functions_of_packages_are_told_apart():
    pairs = [(np.exp, np.sin), (torch.abs, torch.neg), (np, torch), (np.float32, np.float64)]
    for one, other in pairs:
        assert source(closure(one)) == source(closure(one)) != source(closure(other))


def test_the_order_of_a_dictionary_does_not_count():
    assert source(closure({"a": 1, "b": 2})) == source(closure({"b": 2, "a": 1}))


def test_a_log_may_be_carried_along_and_a_generator_not(tmp_path: Path):
    with (tmp_path / "log").open("w") as log:
        source(closure(log))
    with pytest.raises(InputError, match=r"builtins.generator: an object of this class cannot be hashed"):
        source(closure(value for value in ()))


def test_functions_and_classes_of_a_module_are_hashed_by_their_file():
    text = Path(__file__).read_text("utf-8")
    for value in (StopAt, closure):
        assert source(value) == hashlib.sha256(f"{text}\0{value.__qualname__}".encode()).hexdigest()[:16]


# Without a file.

WITHOUT_FILE = """
import numpy as np
LEVEL = {level}
TABLE = np.array([{level}])
OTHER = {other}
def level(): return LEVEL
def by_function(x): return x < level()
def by_array(x): return (lambda: x < TABLE)()
class Base:
    def scale(self): return {level}
class Net(Base):
    def __call__(self, x): return x.OTHER * self.scale()
"""


@pytest.mark.parametrize("name", ["by_function", "by_array", "Net"])
def test_what_a_notebooks_code_uses_is_part_of_its_meaning(name: str):
    def hash_with(level: float, other: int = 0) -> str:
        cell: dict[str, Any] = {"__name__": "a_notebook"}
        exec(WITHOUT_FILE.format(level=level, other=other), cell)
        return source(cell[name])

    assert hash_with(0.5) == hash_with(0.5, other=1) != hash_with(0.25)


# The file and the code that runs.


def written(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package ``hashed`` in a folder that modules are imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "hashed"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "hashed").mkdir()
    written(tmp_path / "hashed", __init__="")
    return tmp_path / "hashed"


RULE = "LEVEL = {level}\ndef rule(x):\n    return {scale} * LEVEL\n"


@pytest.mark.parametrize(
    "changed, looked_at, bytecode",
    [
        ({"level": 2.5}, True, False),
        ({"level": 2.5}, False, True),
        ({"scale": 2.5}, False, False),
        ({"scale": 2.5}, True, True),
    ],
)
def test_a_file_edited_after_its_import_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, float], looked_at: bool, bytecode: bool
):
    monkeypatch.setattr(sys, "dont_write_bytecode", not bytecode)
    usual = {"level": 1, "scale": 1}
    written(folder, mine=RULE.format(**usual))
    mine = importlib.import_module("hashed.mine")
    before = source(mine.rule) if looked_at else ""
    written(folder, mine=RULE.format(**usual | changed))
    with pytest.raises(InputError) as caught:
        source(mine.rule)
    assert str(caught.value) == "mine.py has changed since it was imported; restart Python or reload it"
    (folder / "mine.py").write_text("def rule(")
    with pytest.raises(InputError, match=r"^mine.py has changed"):
        source(mine.rule)
    written(folder, mine=RULE.format(**usual | changed))
    importlib.invalidate_caches()
    importlib.reload(mine)
    assert source(mine.rule) not in ("", before)


DECORATED = """
import functools
import torch
def counted(f):
    calls = []
    @functools.wraps(f)
    def inner(x):
        calls.append(x)
        return f(x)
    return inner
@{decorator}
def rule(x):
    return {scale} * x
"""


@pytest.mark.parametrize("decorator", ["counted", "torch.no_grad()", "functools.lru_cache"])
def test_a_decorated_function_is_hashed_by_its_own_file(folder: Path, decorator: str):
    hashes = []
    for scale in (1, 2.5):
        written(folder, mine=DECORATED.format(decorator=decorator, scale=scale))
        sys.modules.pop("hashed.mine", None)
        rule = importlib.import_module("hashed.mine").rule
        hashes.append(source(rule))
        rule(1.0)
        assert source(rule) == hashes[-1]
    assert hashes[0] != hashes[1]


def test_a_file_that_was_only_touched_is_no_other(folder: Path):
    written(folder, mine=RULE.format(level=1, scale=1))
    mine = importlib.import_module("hashed.mine")
    (folder / "mine.py").touch()
    assert source(mine.rule) == source(mine.rule)


@pytest.mark.parametrize("line", ["from .helper import x", "from . import helper", "from hashed.helper import x"])
def test_a_changed_helper_in_the_same_package_changes_the_hash(folder: Path, line: str):
    hashes = []
    for value in ("1", "10"):
        written(folder, helper=f"x = {value}\n", mine=f"{line}\ndef rule(y):\n    return y\n")
        for name in ("hashed.helper", "hashed.mine"):
            sys.modules.pop(name, None)
        hashes.append(source(importlib.import_module("hashed.mine").rule))
    assert hashes[0] != hashes[1]
