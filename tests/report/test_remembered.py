"""What a report remembers of editions is what it would find out again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from iclab.catalog import find
from iclab.lab import Store
from iclab.report import remembered
from iclab.report.covering import Covering, covering_of
from iclab.report.remembered import Remembered
from iclab.study.edition import Edition, best, usual

QUICK = usual(find("M-cq-training"), quick=True)


def never() -> Any:
    pytest.fail("was found out again")


def test_a_fact_is_found_out_once_and_kept(tmp_path: Path):
    first = Remembered(tmp_path)
    assert first.ask(QUICK, "cells", lambda: ["a"]) == ["a"]
    assert first.ask(QUICK, "cells", never) == ["a"]
    first.save()
    again = Remembered(tmp_path)
    assert again.ask(QUICK, "cells", never) == ["a"]
    assert again.ask(QUICK, "models", lambda: None) is None
    assert again.ask(usual(QUICK.experiment), "cells", lambda: ["b"]) == ["b"]


def test_other_code_forgets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = Remembered(tmp_path)
    first.ask(QUICK, "cells", lambda: ["a"])
    first.save()
    monkeypatch.setattr(remembered, "_code", lambda: "other")
    other = Remembered(tmp_path)
    assert other.ask(QUICK, "cells", lambda: ["b"]) == ["b"]
    other.save()
    assert [file.name for file in tmp_path.iterdir()] == ["editions-other.json"]


def test_the_hash_of_the_code_is_that_of_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "package").mkdir()
    for name in ("__init__.py", "package/a.py"):
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(remembered.iclab, "__file__", str(tmp_path / "__init__.py"))
    before = remembered._code.__wrapped__()
    assert remembered._code.__wrapped__() == before
    (tmp_path / "package" / "a.py").write_text("x = 2")
    assert remembered._code.__wrapped__() != before


def test_other_settings_are_not_kept(tmp_path: Path):
    other = Edition(QUICK.experiment, QUICK.settings.replace(seeds=3))
    facts = Remembered(tmp_path)
    assert [facts.ask(other, "cells", lambda n=n: n) for n in (1, 2)] == [1, 2]
    facts.save()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{"])
def test_a_file_that_cannot_be_read_is_ignored(text: str, tmp_path: Path):
    (tmp_path / f"editions-{remembered._code()}.json").write_text(text)
    assert Remembered(tmp_path).ask(QUICK, "cells", lambda: ["a"]) == ["a"]


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path):
    (tmp_path / "file").write_text("")
    facts = Remembered(tmp_path / "file")
    assert facts.ask(QUICK, "cells", lambda: ["a"]) == ["a"]
    facts.save()


def test_a_covering_is_the_same_as_plain_data():
    covering = covering_of(QUICK.conditions, "M")
    assert covering is not None
    assert Covering.read(asdict(covering)) == covering


def test_an_edition_without_cells_in_the_store_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(QUICK.experiment), "conditions", lambda *_: never())
    asked: list[str] = []

    def hashes(edition: Edition) -> list[str]:
        asked.append(edition.settings.edition_name)
        return ["not", "there"]

    assert best(QUICK.experiment, Store(tmp_path), hashes) is None
    assert asked == ["full", "quick"]
