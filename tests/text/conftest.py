"""A cache of its own for every test, and the made-up sentences."""

from __future__ import annotations

import made_up
import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ICLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def data(tmp_path):
    """A folder of made-up sentences in three splits."""
    return made_up.folder(tmp_path / "made-up")
