"""A digest is computed once per object, and keeping it disturbs nothing else."""

from __future__ import annotations

import pickle

import pytest
from lab_helpers import measurement

from iclab.config import Code, Config, InputError


def test_a_hash_is_computed_once(monkeypatch: pytest.MonkeyPatch):
    cell, dumped = measurement(), []
    dump = Config.model_dump
    monkeypatch.setattr(Config, "model_dump", lambda self, **how: dumped.append(self) or dump(self, **how))
    assert cell.hash == cell.hash
    assert len(dumped) == 1


def test_a_kept_hash_disturbs_nothing():
    fresh, cell = measurement(), measurement()
    before = cell.hash
    assert cell == fresh
    assert repr(cell) == repr(fresh)
    assert cell.model_dump() == fresh.model_dump()
    assert cell.model_dump_json() == fresh.model_dump_json()
    for again in (pickle.loads(pickle.dumps(cell)), cell.replace()):
        assert (again, again.hash) == (cell, before)
    assert cell.replace(count=21).hash == measurement({"count": 21}).hash != before


def test_what_travels_is_the_description_its_hash_and_no_code(monkeypatch: pytest.MonkeyPatch):
    cell = measurement({"prompts.outliers.labels": measurement})
    before = cell.hash
    sent = pickle.dumps(cell)
    monkeypatch.setattr(Config, "model_dump", lambda self, **how: pytest.fail("hashed again"))
    again = pickle.loads(sent)
    assert (again, again.hash) == (cell, before)
    assert "_memo" in vars(cell.training.training.prompts)
    assert "_memo" not in vars(again.training.training.prompts)
    rule = again.prompts.outliers.labels
    assert rule.load() is measurement
    with pytest.raises(InputError, match="its source has changed"):
        pickle.loads(pickle.dumps(Code(rule.path, "another"))).load()


def test_digests_know_their_versions():
    cell = measurement()
    assert cell.digest(engine=1) == measurement().digest(engine=1) != cell.digest(engine=2)
