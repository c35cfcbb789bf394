"""`iclab.train`: seeds, stores, workers, events."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from api_helpers import BRIEF, SMALL, Net

import iclab
from iclab.engines import Training
from iclab.lab import Store, TrainingCell
from iclab.lab.events import Ended, Finished, Started
from iclab.lab.executors import jobs


@pytest.fixture
def trained_seeds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The groups of seeds that are really trained."""
    groups: list[tuple[int, ...]] = []
    original = jobs.train

    def counted(training: Any, seeds: tuple[int, ...], *rest: Any) -> Any:
        groups.append(seeds)
        return original(training, seeds, *rest)

    monkeypatch.setattr(jobs, "train", counted)
    return groups


class Counting(Net):
    """Cannot be stacked."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("calls", torch.zeros(1))


@pytest.mark.parametrize(
    "model, seeds, expected",
    [
        ("mamba", 1, [(0,)]),
        ("mamba", [3, 9], [(3,), (9,)]),
        (Counting, [2, 1], [(1, 2)]),
        ("softmax", 1, [tuple(range(8))]),
        ("softmax", [9, 0], [tuple(range(8)), tuple(range(8, 16))]),
    ],
)
def test_only_seeds_that_have_to_be_trained_are(model: Any, seeds: Any, expected: Any, trained_seeds: list[Any]):
    run = iclab.train(model, SMALL, BRIEF, seeds=seeds, workers=1)
    assert trained_seeds == expected
    assert run.seeds == (tuple(seeds) if isinstance(seeds, list) else (0,))


def test_seeds_that_a_callback_sees_together_train_together(trained_seeds: list[Any]):
    iclab.train("mamba", SMALL, BRIEF.replace(callback=lambda done: None), seeds=1)
    assert trained_seeds == [tuple(range(8))]


@pytest.mark.parametrize("model", ["mamba", Counting, "softmax"])
def test_a_seed_is_the_same_however_it_was_asked_for(model: Any):
    many, one = (iclab.train(model, SMALL, BRIEF, seeds=seeds, workers=1) for seeds in (4, [2]))
    for name, value in one.weights().items():
        assert torch.equal(value[0], many.weights()[name][2])
    assert np.array_equal(one.losses[:, 0], many.losses[:, 2])
    assert many.losses.shape == (4, 4)


def test_seeds_that_stop_early_are_told_apart():
    recipe = BRIEF.replace(callback=lambda done: {1: (0,), 3: (1,)}.get(done.step))
    run = iclab.train("softmax", SMALL, recipe, seeds=3, workers=1)
    assert run.stopped_at == {0: 1, 1: 3}
    assert np.isnan(run.losses).sum(0).tolist() == [3, 1, 0]
    assert repr(run) == "Run(softmax, 3 seeds, 4 steps, 2 stopped early)"
    shown = run._repr_html_()
    assert "0 after step 1, 1 after step 3" in shown
    last = np.mean([run.losses[0, 0], run.losses[2, 1], run.losses[3, 2]])
    assert f"{run.losses[0].mean():.3g} at first, {last:.3g} at last" in shown
    assert iclab.train("softmax", SMALL, BRIEF, seeds=1, workers=1).stopped_at == {}


def test_a_store_is_used_and_shared_with_the_lab(tmp_path: Path, trained_seeds: list[Any]):
    first = iclab.train("mamba", SMALL, BRIEF, seeds=8, store=tmp_path / "store")
    store = Store(tmp_path / "store")
    assert store.has(TrainingCell(training=Training(model="mamba", prompts=SMALL, recipe=BRIEF)))
    again = iclab.train("mamba", SMALL, BRIEF, seeds=3, store=store)  # the whole group is there
    assert trained_seeds == [tuple(range(8))]
    assert torch.equal(again.weights()["key"], first.weights()["key"][:3])
    iclab.train("mamba", SMALL, BRIEF, seeds=[9], store=str(store.path))
    iclab.train("mamba", SMALL, BRIEF, seeds=[9], store=store)
    assert trained_seeds[1:] == [(9,)]


def test_without_a_store_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    iclab.train("softmax", SMALL, BRIEF, seeds=1)
    assert list(tmp_path.iterdir()) == []


def test_events_are_told_and_ctrl_c_keeps_finished_groups(tmp_path: Path, trained_seeds: list[Any]):
    events: list[Any] = []

    def stop_after_a_group(event: Any) -> None:
        events.append(event)
        if isinstance(event, Finished):
            raise KeyboardInterrupt

    def train(**more: Any) -> iclab.Run:
        return iclab.train("softmax", SMALL, BRIEF, seeds=16, store=tmp_path / "store", workers=1, **more)

    with pytest.raises(KeyboardInterrupt):
        train(on_progress=stop_after_a_group)
    assert (events[0], events[-1]) == (Started(), Ended("interrupted"))
    assert train().seeds == tuple(range(16))
    assert trained_seeds == [tuple(range(8)), tuple(range(8, 16))]


@pytest.mark.slow
def test_a_script_without_a_guard_trains_on_processes(tmp_path: Path):
    """Worker processes do not run the script again, and a module beside it can be imported."""
    mine = """
        import os, pathlib
        from iclab.models import Softmax

        class Mine(Softmax):
            def __init__(self, width: int) -> None:
                super().__init__(width)
                pathlib.Path(f"{os.getpid()}.built").touch()
    """
    script = """
        import iclab, mine, pathlib, time
        from iclab.lab import schedule
        from iclab.lab.executors import jobs

        def wait_for_another(*arguments, train=jobs.train):
            while len(list(pathlib.Path().glob("*.built"))) < 2:
                time.sleep(0.05)
            return train(*arguments)

        jobs.train = wait_for_another  # in this process alone
        schedule.GAIN = -100.0  # a worker process is worth it
        print("started", flush=True)
        run = iclab.train(mine.Mine, recipe=iclab.Recipe(steps=2, step_size=0.1), seeds=16, workers=2)
        print(run, run.error(count=10).diverged)
    """
    (tmp_path / "mine.py").write_text(textwrap.dedent(mine))
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    told = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(iclab.__file__).parent.parent)},
    )
    assert told.stdout.splitlines() == ["started", "Run(Mine, 16 seeds, 2 steps) 0"], told.stderr
    assert told.stderr == ""
