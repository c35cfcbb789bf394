"""The report goes on without bad entries, and says which they are."""

import json
import shutil

import pytest

from iclab.lab.upkeep import ReadingStore
from iclab.report.content import collect


def test_bad_entries_are_left_out_and_named_and_shared_ones_are_counted_once(quick_store, tmp_path):
    whole = collect(quick_store)
    abouts = [json.loads(file.read_text()) for file in quick_store.path.glob("*/*/entry.json")]
    assert whole.cells == len(abouts)  # M-fig2 and its variant share all of theirs
    assert whole.seconds == pytest.approx(sum(about["seconds"] for about in abouts))
    path = shutil.copytree(quick_store.path, tmp_path / "store")
    rows = sorted(path.glob("measurement/*/rows.parquet"))[0]
    rows.write_bytes(rows.read_bytes()[:-1])
    about = sorted(path.glob("training/*/entry.json"))[0]
    about.write_text("{")
    store = ReadingStore(path)
    content = collect(store)
    assert set(store.bad) == {rows.parent, about.parent}
    assert all("is corrupted" in line for line in store.bad.values())
    assert content.cells == whole.cells - 2
    assert [section.id for section in content.sections] == [section.id for section in whole.sections]
