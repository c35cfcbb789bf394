"""What `iclab bench` times in the browser is the training that the fused engine does."""

import pytest

from iclab.bench import browser
from iclab.bench.families import families
from iclab.engines import train

SHALLOW = [family for family in families() if family.name in ("mamba", "linear")]


@pytest.mark.slow
@pytest.mark.skipif(bool(browser.obstacle()), reason=browser.obstacle() or "there is a browser")
def test_workers_train_what_the_fused_engine_trains():
    training = SHALLOW[0].on("fused", steps=30, batch_size=32)
    found = browser.page_times(training, workers=2, times=1)
    losses = train(training, (0, 1)).losses
    assert [worker["steps"] for worker in found[0]] == [30, 30]
    assert [worker["loss"] for worker in found[0]] == pytest.approx(losses[-1].tolist(), abs=1e-4)
    assert all(worker["seconds"] > 0 for worker in found[0])


@pytest.mark.slow
@pytest.mark.skipif(bool(browser.obstacle()), reason=browser.obstacle() or "there is a browser")
def test_changes_of_the_page_are_timed():
    found = browser.first_pictures(2)
    assert len(found) == 2
    assert all(0 < milliseconds < 60_000 for milliseconds in found)


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(browser.importlib.util, "find_spec", lambda name: None)
    assert browser.obstacle() == "playwright is not installed"
    monkeypatch.undo()
    monkeypatch.delenv("ICLAB_CHROMIUM", raising=False)
    monkeypatch.setattr(browser.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    assert browser.obstacle() == "no browser: install chromium, or name one in ICLAB_CHROMIUM"
