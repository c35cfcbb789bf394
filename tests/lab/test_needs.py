"""What no machine can serve is refused at once, with what it would take and what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import RECIPE, TRAIN_PROMPTS, measurement, training

import iclab
from iclab.config import InputError
from iclab.lab import Store, memory, needs, run
from iclab.lab.events import Notice
from iclab.lab.executors import jobs

GB = 10**9
TRAIN = ("train", "--steps", 2, "--seeds", 1, "--test-prompts", 5, "--store", "store")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with 16 GB."""
    monkeypatch.setattr(memory, "available", lambda: 16 * GB)
    monkeypatch.chdir(tmp_path)


REFUSED = {
    "dimension": (("--model", "softmax", "--dimension", 10**6), "weights", "dimension = 1000000", "TB of memory"),
    "patterns": (("--dimension", 10**8, "--model", "mamba"), "patterns", "dimension = 100000000", "GB of memory"),
    "dictionary": (("--dimension", 10**10, "--model", "mamba"), "dimension = 10000000000", "at most 1e+10"),
    "tasks": (("--relevant", 10**6, "--dimension", 10**7, "--model", "mamba"), "relevant = 1000000", "at most 5000"),
    "context": (("--model", "softmax", "--context-length", 10**6), "prompts", "context_length = 1000000"),
    "deep context": (("--model", "deep-softmax", "--engine", "reference", "--context-length", 10**5), "prompts"),
    "batch": (("--model", "softmax", "--batch-size", 10**8), "prompts", "batch_size = 100000000", "TB of memory"),
    "steps": (("--model", "mamba", "--steps", 10**12), "losses", "steps = 1000000000000"),
    "time": (("--model", "mamba", "--batch-size", 10**14, "--workers", 2), "years on 2 cores"),
}


@pytest.mark.parametrize("words, parts", [(case[0], case[1:]) for case in REFUSED.values()], ids=REFUSED)
def test_refused_at_once(words: tuple[object, ...], parts: tuple[str, ...], cli: Callable[..., Any], tmp_path: Path):
    complaint = cli(*TRAIN, *words).complaint
    for part in parts:
        assert part in complaint
    if "memory" in complaint:
        assert "16 GB are available" in complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [10**8, 10**30])
@pytest.mark.parametrize("ask", [iclab.train, lambda model, prompts: iclab.compare([model], prompts)])
def test_prompts_too_long_to_try_are_refused_from_python(length: int, ask: Callable[..., Any]):
    prompts = iclab.Prompts(context_length=length)
    with pytest.raises(InputError, match=r"^softmax on the reference .*context_length = 10+, .*; 16 GB are available$"):
        ask("softmax", prompts)


def test_so_many_seeds_that_their_plan_does_not_fit(cli: Callable[..., Any], tmp_path: Path):
    said = cli("run", "M-fig2", "--seeds", 10**9, "--store", "store").complaint
    assert said.startswith("seeds = 1000000000: the plan of ")
    assert said.endswith("of memory; 16 GB are available")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", [10**9, 10**30])
def test_so_many_seeds_of_one_training_are_refused_before_they_are_listed(seeds: int, cli: Callable[..., Any]):
    said = cli(*TRAIN, "--model", "softmax", "--seeds", seeds).complaint
    assert said.startswith(f"seeds = {seeds}: the plan of ")
    with pytest.raises(InputError, match=r"^seeds = 4000000000: the plan of "):
        iclab.train("softmax", seeds=4_000_000_000)


def test_a_disk_that_is_too_small(monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]):
    monkeypatch.setattr(needs.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    said = cli(*TRAIN, "--model", "softmax").complaint
    assert "store = store: the weights take at least" in said
    assert said.endswith("; 1 kB are free")


def test_a_need_is_a_lower_bound_that_grows_with_what_it_names():
    small, cell = needs.need_of(training(model="softmax")), measurement({f"{TRAIN_PROMPTS}.context_length": 50})
    assert small.weights == 4 * 8 * needs.parameters(training(model="softmax").training.model, cell.prompts) * 4
    assert needs.need_of(training(model="mamba")).weights == 0  # the fused engine keeps few numbers
    more = needs.need_of(measurement({"training.training.model": "softmax", f"{RECIPE}.batch_size": 400}).training)
    assert more.prompts == 100 * small.prompts
    assert needs.need_of(measurement({"training.training.model": "softmax", "count": 10})).prompts < more.prompts


def test_fewer_workers_if_memory_is_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    cells = [measurement({"training.training.model": "softmax", "training.group": group}) for group in range(4)]
    one = max(needs.need_of(cell).total for cell in (cells[0], cells[0].training))
    monkeypatch.setattr(memory, "available", lambda: int(2.5 * one))
    assert needs.affordable(cells, 4) == 2
    heard: list[Any] = []
    run(cells, Store(tmp_path / "store"), workers=4, quiet=True, listeners=[heard.append])
    (said,) = [event.text for event in heard if isinstance(event, Notice)]
    assert said.startswith("2 of 4 workers are used, because more of these cells do not fit into memory")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")]
)
def test_memory_that_runs_out_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]):
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(jobs, "train", fail)
    said = cli(*TRAIN, "--model", "softmax", "--workers", 1)
    assert (said.code, "training of softmax, seeds 0 to 7" in said.err) == (2, True)
    assert "needs more memory than there is; 16 GB are available" in said.err


def test_what_this_machine_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.undo()
    for name, text in {"MEMINFO": "MemTotal: 9 kB\nMemAvailable:  5000 kB\n", "VMSTAT": "oom_kill 3\n"}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(memory, name, tmp_path / name)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert (memory.available(), memory.kills()) == (5_120_000, 3)
    (tmp_path / "memory.max").write_text("4000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500000\n")
    assert memory.available() == 1_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() == 5_120_000
    monkeypatch.setattr(memory, "VMSTAT", tmp_path / "none")
    assert memory.kills() is None
