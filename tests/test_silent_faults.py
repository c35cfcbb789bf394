"""Faults that would change or lose a result without a word. Each test was seen to fail with the fault it is about."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iclab.cli import commands
from iclab.engines import Recipe, Training, train
from iclab.engines.ensemble import OneByOne
from iclab.engines.fused.seeds import train_apart
from iclab.engines.registry import ENGINES
from iclab.lab import MeasurementCell, Plan, Store, TrainingCell
from iclab.lab.schedule import Place, Schedule
from iclab.lab.store import Result
from iclab.probes import Pruning, measure
from iclab.probes.pruning import pruned
from iclab.prompts import Patterns, Prompts, Stream, readable
from iclab.prompts.counters import words

PROMPTS = Prompts(patterns=Patterns(dimension=10, relevant=5, irrelevant=2, outlier=3), context_length=6)
RECIPE = Recipe(steps=4, batch_size=4, snapshots=(2,), step_size=0.1)


def training(model: str, **more: Any) -> Training:
    return Training(model=model, prompts=more.pop("prompts", PROMPTS), recipe=RECIPE, **more)


def cells(model: str, probe: str = "error") -> tuple[TrainingCell, MeasurementCell]:
    cell = TrainingCell(training=training(model))
    return cell, MeasurementCell(training=cell, probe=probe, prompts=PROMPTS, count=10)


# Prompts and measurements.


@pytest.mark.parametrize("draw", [Prompts.draw, readable.draw], ids=["compiled", "readable"])
def test_patterns_outside_the_task_have_labels_of_their_own(draw: Callable[..., Any]):
    prompts = PROMPTS.replace(relevant_fraction=0.4)
    batch = draw(prompts, (0, 1), Stream.TEST, step=0, first=0, count=50, dtype=np.float32)
    pattern, task = batch.index[..., :-1, 0], batch.task[..., None, :]
    stray = (pattern != task[..., 0]) & (pattern != task[..., 1])
    block = words((0, 1), Stream.TEST, count=50, positions=6, slot=3)  # as prompts/distribution.py assigns words
    expected = np.where(block[..., 2] >> np.uint32(31), -1.0, 1.0)[stray]
    assert stray.sum() > 100
    np.testing.assert_array_equal(batch.true_labels[..., 0][stray], expected)


def test_pruning_leaves_stored_weights_alone():
    whole = train(
        training("softmax-mlp", prompts=PROMPTS.replace(patterns=PROMPTS.patterns.replace(outlier=0))), (0, 1)
    )
    before = {name: weight.clone() for name, weight in whole.snapshots[4].items()}
    gone = pruned(whole, Pruning(rate=0.5), at=4)
    assert (gone.snapshots[4]["hidden"] == 0).all(-1).any()
    for name, weight in before.items():
        torch.testing.assert_close(whole.snapshots[4][name], weight, atol=0, rtol=0)


def test_a_seed_has_diverged_from_that_step_on():
    trained = replace(train(training("mamba"), (0, 1, 2)), diverged_at=np.array([2, -1, 3]))
    for at, lost in {0: [], 2: [0], 4: [0, 2]}.items():
        rows = measure(trained, "error", PROMPTS, 10, at=at)
        assert sorted(row["seed"] for row in rows if row["diverged"]) == lost, at


@pytest.mark.parametrize("probe", ["vote", "error", "attention", "logits"])  # of prompts, answers and insides
def test_another_draw_is_other_prompts(probe: str):
    trained = train(training("mamba"), (0, 1))
    noisy = PROMPTS.replace(label_noise=0.4)
    rows = [measure(trained, probe, noisy, 100, draw=draw) for draw in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


# Seeds that do not depend on each other.


class Dropping(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.read, self.drop = torch.nn.Linear(3, 1), torch.nn.Dropout(0.5)
        torch.nn.init.ones_(self.read.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.read(self.drop(tokens[:, -1]))[:, 0]


def test_dropout_of_a_seed_is_the_same_after_another_has_diverged():
    tokens = torch.ones(2, 64, 2, 3)

    def outputs(seeds: tuple[int, ...], then: tuple[int, ...]) -> torch.Tensor:
        modules = [Dropping() for _ in seeds]
        with torch.no_grad():
            for module in modules:
                module.read.bias.zero_()
        ensemble = OneByOne(modules, seeds)
        optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1)
        ensemble.forward(tokens[: len(seeds)], True)
        ensemble.keep([seeds.index(seed) for seed in then], optimizer)
        return ensemble.forward(tokens[: len(then)], True).output.detach()

    alone = outputs((5,), (5,))
    torch.testing.assert_close(outputs((3, 5), (5,)), alone, atol=0, rtol=0)
    assert not torch.equal(outputs((3, 5), (3,)), alone)


# The fused engine.


class Growing:
    """Stands for a seed of the fused engine: its weight, one array that it changes in place, doubles every step."""

    chunk, stopped = 10**6, False

    def __init__(self, training: Training, seed: int, basis: Any) -> None:
        self.weight = np.full(2, 1.0 if seed else 1e308)

    def run(self, prompts: Prompts, first: int, last: int, rates: Any, losses: Any) -> int:
        losses[first:last] = 0.0
        with np.errstate(over="ignore"):
            self.weight *= 2.0 ** (last - first)
        return -1

    def kept(self) -> dict[str, Any]:
        return {"weight": self.weight}


def test_infinite_weights_at_the_end_are_a_divergence_and_snapshots_stay_as_they_were():
    trained = train_apart(training("mamba"), (0, 1), Growing, lambda n: None, lambda text: None, 1)  # type: ignore[arg-type]
    assert trained.diverged_at.tolist() == [4, -1]
    alone = train_apart(training("mamba"), (1,), Growing, lambda n: None, lambda text: None, 1)  # type: ignore[arg-type]
    for found, row in ((trained, 1), (alone, 0)):  # to stack one array need not copy it
        assert [found.snapshots[step]["weight"][row, 0].item() for step in (0, 2, 4)] == [1.0, 4.0, 16.0]


@pytest.mark.parametrize("model", ["mamba", "linear", "deep-mamba"])
def test_ties_are_errors_on_the_fused_engine(model: str):
    trained = train(training(model), (0,))
    assert trained.training.engine == "fused"
    zero = {step: {n: torch.zeros_like(w) for n, w in weights.items()} for step, weights in trained.snapshots.items()}
    (row,) = measure(replace(trained, snapshots=zero), "error", PROMPTS, 50)
    assert (row["error"], row["ties"]) == (1.0, 50)


# Cells, the schedule and the store.


def test_the_version_of_the_reference_engine_is_in_the_hash_of_what_it_computes(monkeypatch: pytest.MonkeyPatch):
    listed = [*cells("softmax"), cells("mamba", "tokens")[1], *cells("mamba")]
    before = [cell.hash for cell in listed]
    newer = ENGINES["reference"]._replace(version=ENGINES["reference"].version + 1)
    monkeypatch.setitem(ENGINES, "reference", newer)
    changed = [cell.hash != hash_ for cell, hash_ in zip(listed, before, strict=True)]
    assert changed == [True, True, True, False, False]  # the last two run on the fused engine alone


def test_hashes_are_long_enough_to_be_different():
    for cell in cells("mamba"):
        assert len(cell.hash) == 20  # 80 bits
        assert set(cell.hash) <= set("0123456789abcdef")


@pytest.mark.parametrize("many", [1, 60, 61])
def test_every_cell_is_in_a_job_also_the_last_of_a_batch(many: int, tmp_path: Path):
    (first, _), length = cells("softmax"), 3.0
    wanted = [MeasurementCell(training=first, probe="error", prompts=PROMPTS, count=10, draw=n) for n in range(many)]
    plan = Plan.of(wanted, Store(tmp_path))
    schedule = Schedule(plan, lambda cell: length / 5, lambda cell: Place.PROCESS, 1)
    done = []
    while job := schedule.take(Place.HERE):
        done += [cell.hash for cell in job.cells]
        schedule.done(job)
    assert schedule.finished
    assert sorted(done) == sorted(cell.hash for cell in plan)


def test_files_and_directories_are_on_the_disk_before_and_after_an_entry_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, (_, cell) = Store(tmp_path).open_for_writing(), cells("mamba")
    synced: list[tuple[int, bool]] = []
    really = os.fsync

    def fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, store.has(cell)))
        really(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    store.save([Result(cell, [{"seed": 0, "error": 0.5}], 1.0)])
    entry = store.entry(cell)
    inode = lambda path: path.stat().st_ino  # noqa: E731
    assert {(inode(file), False) for file in entry.iterdir()} <= set(synced)
    assert len(list(entry.iterdir())) == 2
    assert {(inode(entry), False), (inode(entry.parent), True)} <= set(synced)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_sigterm_stops_as_ctrl_c_does(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    def wait(options: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setitem(commands.COMMANDS, "experiments", wait)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # without a handler the test fails, not pytest
    try:
        said = cli("experiments")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert said.code == 130
    assert said.err == "iclab: stopped; finished cells are kept, run the same command again to continue\n"
