"""Tables and ratios of the benchmark; timings are not tested."""

import json

import pytest

from iclab import bench as room
from iclab.bench import ensembles, mlp
from iclab.bench.loops import torch_loop

FAKE = {"fused": 0.01, "reference": 0.5}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(room, "seconds", lambda engine, threads=1, **sizes: FAKE[engine] / threads)
    monkeypatch.setattr(room, "torch_loop", lambda *arguments: 2.0)
    monkeypatch.setattr(room, "jax_loop", lambda *arguments: lambda: 4.0)
    monkeypatch.setattr(room, "stacking", lambda threads, tell: {"rows": [], "ratios": {"deep_stacked_vs_loop": 3.0}})
    monkeypatch.setattr(room, "transformer", lambda threads, tell: {"rows": [], "ratios": {"mlp": 2.0}, "limits": {}})
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
    assert result["ratios"]["mlp"] == 2.0
    assert result["growth"]["dimension"]["exponent"] == pytest.approx(0.0)
    assert result["growth"]["threads"]["exponent"] == pytest.approx(-1.0)


def test_without_jax_its_ratio_is_missing_not_zero(quick, monkeypatch):
    monkeypatch.setattr(room.importlib.util, "find_spec", lambda name: None)
    assert room.bench(threads=1)["ratios"]["fused_vs_jax"] is None


def test_the_loop_it_compares_with_runs():
    assert torch_loop("mamba", room.PROMPTS, batch=8, steps=3, rate=0.5) > 0
    assert torch_loop("linear", room.PROMPTS, batch=8, steps=3, rate=0.05, draw=False) > 0


def test_the_transformer_is_compared_with_the_compact_engine_and_with_the_limit(monkeypatch):
    monkeypatch.setattr(mlp, "STEPS", 1)
    monkeypatch.setattr(mlp, "SEEDS", (0,))
    monkeypatch.setattr(mlp, "PROMPTS", {"fused": 16, "compact": 16})
    monkeypatch.setattr(mlp, "least_seconds", lambda work: 1e-9)
    result = json.loads(json.dumps(mlp.transformer(2, times=1)))
    assert {(row["name"], row["threads"]) for row in result["rows"]} == {("compact", 1), ("fused", 1), ("fused", 2)}
    rate = {(row["model"], row["name"], row["threads"]): row["prompts_per_second"] for row in result["rows"]}
    for work, name in (("training", "train"), ("error", "measure")):
        model, ours = f"softmax-mlp, {work}", rate[f"softmax-mlp, {work}", "fused", 2]
        assert result["ratios"][f"softmax-mlp-{name}"] == pytest.approx(ours / rate[model, "compact", 1])
        limit = result["limits"][f"softmax-mlp-{name}"]
        assert limit["times_the_limit"] == pytest.approx(1e9 / rate[model, "fused", 1])
        assert limit["multiply_adds"] >= 31 * 200


def test_rates_of_stacked_seeds_are_compared_within_one_run(monkeypatch):
    monkeypatch.setattr(ensembles, "in_processes", lambda case, seeds, processes, times: 4.0 / processes)
    slow = {"loop": 1.0, "recurrence": 8.0}
    monkeypatch.setattr(ensembles, "one_by_one", lambda case, loop, threads, times: slow[loop])
    result = json.loads(json.dumps(ensembles.stacking(2)))
    ratios = result["ratios"]
    assert ratios["deep_stacked_vs_loop"] == ratios["mlp_stacked_vs_loop"] == pytest.approx(10 / 2.0)
    assert ratios["deep_stacked_vs_recurrence"] == pytest.approx(10 / 2.0 * 8)
    assert ratios["deep_processes"] == ratios["mlp_processes"] == pytest.approx(2.0)
    assert {row["model"] for row in result["rows"]} == {case.name for case in ensembles.CASES.values()}


@pytest.mark.parametrize("case", ensembles.CASES)
def test_the_models_it_compares_run(monkeypatch, case):
    monkeypatch.setattr(ensembles, "STEPS", 2)
    assert ensembles.stacked(case, (0, 1)) > 0
    for loop in ensembles.CASES[case].loops:
        assert ensembles.one_by_one(case, loop, 1, 1) > 0
