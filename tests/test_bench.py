"""The benchmark's bookkeeping; its timings are not a test's business."""

import json

import pytest

from iclab import bench as room
from iclab.bench import layers
from iclab.bench.loops import torch_loop

FAKE = {"fused": 0.01, "reference": 0.5}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(room, "seconds", lambda engine, threads=1, **sizes: FAKE[engine] / threads)
    monkeypatch.setattr(room, "torch_loop", lambda *arguments: 2.0)
    monkeypatch.setattr(room, "jax_loop", lambda *arguments: lambda: 4.0)
    monkeypatch.setattr(room, "deep", lambda threads, tell: {"rows": [], "ratios": {"deep_stacked_vs_loop": 3.0}})
    monkeypatch.setattr(room, "stages", lambda training: {"forward": 1.0})


def test_rows_ratios_and_growth(quick):
    result = json.loads(json.dumps(room.bench(threads=2)))
    for row in result["rows"]:
        assert row.keys() >= {"name", "seeds", "threads", "prompts_per_second"}
    assert {row["name"] for row in result["rows"]} == {"loop", "reference", "fused", "jax"}
    fused = 1000 * 128 * 8 / (0.01 / 2)
    loop, jax = 200 * 128 / 2.0, 100 * 128 * 8 / 4.0
    assert result["ratios"]["fused_vs_loop"] == pytest.approx(fused / loop)
    assert result["ratios"]["fused_vs_jax"] == pytest.approx(fused / jax)
    assert result["ratios"]["threads"] == pytest.approx(2.0)
    assert result["ratios"]["deep_stacked_vs_loop"] == 3.0
    assert result["growth"]["dimension"]["exponent"] == pytest.approx(0.0)
    assert result["growth"]["threads"]["exponent"] == pytest.approx(-1.0)


def test_without_jax_its_ratio_is_missing_not_zero(quick, monkeypatch):
    monkeypatch.setattr(room.importlib.util, "find_spec", lambda name: None)
    assert room.bench(threads=1)["ratios"]["fused_vs_jax"] is None


def test_the_loop_it_compares_with_runs():
    assert torch_loop("mamba", room.PROMPTS, batch=8, steps=3, rate=0.5) > 0
    assert torch_loop("linear", room.PROMPTS, batch=8, steps=3, rate=0.05, draw=False) > 0


def test_rates_of_deep_models_are_compared_within_one_run(monkeypatch):
    monkeypatch.setattr(layers, "in_processes", lambda seeds, processes, times: 4.0 / processes)
    monkeypatch.setattr(layers, "one_by_one", lambda form, threads, times: {"parallel": 1.0, "recurrence": 8.0}[form])
    result = json.loads(json.dumps(layers.deep(2)))
    assert result["ratios"]["deep_stacked_vs_loop"] == pytest.approx(10 / 2.0)
    assert result["ratios"]["deep_stacked_vs_recurrence"] == pytest.approx(10 / 2.0 * 8)
    assert result["ratios"]["deep_processes"] == pytest.approx(2.0)


def test_the_deep_models_it_compares_run(monkeypatch):
    monkeypatch.setattr(layers, "STEPS", 2)
    assert layers.stacked((0, 1), steps=2) > 0
    assert layers.one_by_one("parallel", 1, 1) > 0
    assert layers.one_by_one("recurrence", 1, 1) > 0
