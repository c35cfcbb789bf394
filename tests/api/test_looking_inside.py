"""Modules, other weights and interventions: exact, and without a trace on the run they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from api_helpers import BRIEF, CLEAN, SMALL, Net

import iclab

DEEP = {"layers": 2, "heads": 2}
T_PROMPTS = SMALL.replace(label_dimension=4, outliers=iclab.Outliers())
MODELS: dict[str, tuple[Any, iclab.Prompts]] = {
    "fused": ("mamba", SMALL),
    "fused without a gate": ("linear", SMALL),
    "compact": (iclab.Model(name="softmax-mlp", options={"neurons": 12}), T_PROMPTS),
    "reference": ("softmax", SMALL),
    "users": (Net, SMALL),
}


@pytest.fixture(scope="module")
def runs() -> dict[str, iclab.Run]:
    """Two seeds of each model, little trained."""
    named = {name: iclab.train(model, prompts, BRIEF, seeds=2, workers=1) for name, (model, prompts) in MODELS.items()}
    for kind in ("deep-mamba", "deep-linear", "deep-softmax"):
        model = iclab.Model(name=kind, options=DEEP)
        named[kind] = iclab.train(model, SMALL, BRIEF, seeds=2, workers=1)
    return named


ALL = [*MODELS, "deep-mamba", "deep-linear", "deep-softmax"]
NEAR = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("name", ALL)
def test_a_module_answers_as_the_run_does(name: str, runs: dict[str, iclab.Run]):
    run = runs[name]
    batch, answer = run.answer(count=7)
    for row, seed in enumerate(run.seeds):
        tokens, targets = run.tokens(count=7, seed=seed)
        module = run.module(seed)
        assert not module.training
        returned = module(tokens)
        output = returned.output if isinstance(returned, iclab.Answer) else returned[:, None]
        torch.testing.assert_close(output, answer.output[row], **NEAR)
        assert np.array_equal(targets.numpy(), batch.target[row, :, 0])
    start = run.module(0, at=0)
    assert any(not torch.equal(a, b) for a, b in zip(start.parameters(), run.module(0).parameters(), strict=True))


@pytest.mark.parametrize("name", ["fused", "compact", "users"])
def test_weights_that_are_edited_do_not_change_the_run(name: str, runs: dict[str, iclab.Run]):
    run = runs[name]
    before = run.answer(count=3)[1].output
    for value in run.weights().values():
        value.zero_()
    run.losses[:] = 0
    assert torch.equal(run.answer(count=3)[1].output, before)
    assert (run.losses != 0).any()


@pytest.mark.parametrize("name", ["fused", "compact", "users"])
def test_other_weights_are_used(name: str, runs: dict[str, iclab.Run]):
    run = runs[name]
    read = {"fused": "key", "compact": "hidden", "users": "read.weight"}[name]
    before = run.answer(count=3)[1].output
    same = run.with_weights({read: run.weights()[read]})
    torch.testing.assert_close(same.answer(count=3)[1].output, before, **NEAR)
    doubled = run.with_weights({read: lambda w: 2 * w} | ({"read.bias": lambda b: 2 * b} if name == "users" else {}))
    torch.testing.assert_close(doubled.answer(count=3)[1].output, 2 * before, **NEAR)
    one_for_all = run.with_weights({read: run.weights()[read][0]})
    torch.testing.assert_close(one_for_all.weights()[read][1], run.weights()[read][0])
    torch.testing.assert_close(same.weights(at=0)[read], run.weights(at=0)[read])
    assert torch.equal(run.answer(count=3)[1].output, before)


def test_other_weights_are_named_also_in_a_file(runs: dict[str, iclab.Run], tmp_path: Path):
    run = runs["fused"].with_weights({"gate": 0.0}).with_weights({"key": lambda key: key})
    run.save(tmp_path / "changed.safetensors")
    again = iclab.load(tmp_path / "changed.safetensors")
    assert repr(again) == repr(run) == "Run(mamba, 2 seeds, 4 steps; changed weights gate, key)"
    assert (again.weights()["gate"] == 0).all()
    runs["fused"].save(tmp_path / "whole.safetensors")
    assert repr(iclab.load(tmp_path / "whole.safetensors")) == "Run(mamba, 2 seeds, 4 steps)"


def test_every_probe_works_with_other_weights(runs: dict[str, iclab.Run]):
    run = runs["fused"].with_weights({"gate": 0.0})
    for probe in ("worst", "exact", "kernel"):
        assert len(run.measure(probe, count=10)) >= 2
    assert run.exact_error()[0]["error"] is not None


def test_a_gate_of_one_is_the_linear_model(runs: dict[str, iclab.Run]):
    """Mamba whose gate is 1 computes what the linear model does with the same keys and queries."""
    mamba = runs["fused"]
    forced, own = mamba.intervene(gates=1.0), mamba.weights()
    linear = runs["fused without a gate"].with_weights({name: own[name] for name in ("key", "query")})
    ours, theirs = forced.answer(SMALL, count=50)[1], linear.answer(SMALL, count=50)[1]
    torch.testing.assert_close(ours.output, theirs.output)
    assert (ours.gate == 1).all()
    assert forced.error(SMALL, count=50).per_seed == linear.error(SMALL, count=50).per_seed
    assert {row["gate"] for row in forced.gates(SMALL, count=20)} <= {1.0, None}
    assert (mamba.answer(SMALL, count=5)[1].gate != 1).all()


@pytest.mark.slow
def test_a_gate_of_one_makes_mamba_err_as_the_linear_model_does():
    """The README's setting: Mamba errs in hardly any prompt; without its gate nearly as often as linear attention."""
    prompts = iclab.Prompts(tasks="ring:3", outliers=iclab.Outliers(fraction=0.6, scale=2.0))
    poisoned = iclab.Prompts(
        outliers=iclab.Outliers(fraction=0.7, scale=6.0, labels="flip", patterns="paper"), tasks="ring:3"
    )
    run = iclab.train("mamba", prompts, iclab.Recipe(steps=400), seeds=4)
    assert run.error(poisoned, count=2000).mean <= 0.003
    assert 0.89 < run.intervene(gates=1.0).error(poisoned, count=2000).mean < 0.97


@pytest.mark.parametrize("name", ["deep-mamba", "deep-linear", "deep-softmax"])
def test_a_head_set_to_zero_is_one_without_output(name: str, runs: dict[str, iclab.Run]):
    run = runs[name]

    def zero_second(values: torch.Tensor) -> None:
        values[:, 1] = 0.0

    def silence_second(output: torch.Tensor) -> torch.Tensor:  # (seeds, layers, heads, d + 1, channels)
        output[:, 0, 1] = 0.0
        return output

    hooked, edited = run.intervene({"layer.0.heads": zero_second}), run.with_weights({"output": silence_second})
    ours, theirs = hooked.answer(count=6)[1].output, edited.answer(count=6)[1].output
    torch.testing.assert_close(ours, theirs, **NEAR)
    assert not torch.allclose(ours, run.answer(count=6)[1].output)


@pytest.mark.parametrize(
    "name, place",
    [
        *((name, "attention") for name in ("fused", "fused without a gate", "compact", "reference")),
        ("fused", "gates"),
        ("compact", "neurons"),
        ("users", "body.1"),
        *((kind, f"layer.1.{step}") for kind in ("deep-mamba", "deep-softmax") for step in ("stream", "heads")),
        ("deep-mamba", "layer.0.gates"),
        ("deep-linear", "layer.0.attention"),
    ],
)
def test_values_of_the_same_prompts_change_nothing(name: str, place: str, runs: dict[str, iclab.Run]):
    run = runs[name]
    assert place in run.places
    recorded = run.activations(None, place, count=300)
    assert recorded.shape[:2] == (2, 300)
    again = run.intervene({place: recorded})
    torch.testing.assert_close(again.answer(count=300)[1].output, run.answer(count=300)[1].output, **NEAR)
    by_hand = run.intervene({place: lambda values, visit: visit.of(recorded)})
    assert torch.equal(by_hand.answer(count=300)[1].output, again.answer(count=300)[1].output)
    assert torch.equal(again.activations(None, place, count=300), recorded)


def test_the_stream_of_clean_prompts_gives_their_answers(runs: dict[str, iclab.Run]):
    """Prompt i is the same in both distributions but for the outliers, so its values can be carried over."""
    run = runs["deep-softmax"]
    clean, poisoned = run.answer(CLEAN, count=20)[1].output, run.answer(SMALL, count=20)[1].output
    assert not torch.allclose(clean, poisoned)
    patched = run.intervene({"layer.1.stream": run.activations(CLEAN, "layer.1.stream", count=20)})
    torch.testing.assert_close(patched.answer(SMALL, count=20)[1].output, clean, **NEAR)

    def query_alone(stream: torch.Tensor, visit: Any) -> None:
        assert visit.tokens.shape == (20, 6, 11)
        stream[:, -1] = visit.of(recorded)[:, -1]

    recorded = run.activations(CLEAN, "layer.0.stream", count=20)
    half = run.intervene({"layer.0.stream": query_alone}).answer(SMALL, count=20)[1].output
    torch.testing.assert_close(half, poisoned, **NEAR)  # outliers never touch the query


def test_interventions_add_up_and_keep_to_their_seed(runs: dict[str, iclab.Run]):
    run, seen = runs["fused"], []

    def note(values: torch.Tensor, visit: Any) -> torch.Tensor:
        seen.append((visit.seed, visit.row, visit.first))
        return values + visit.seed

    first = run.intervene(gates=1.0)
    second = first.intervene(gates=note, attention=2.0)
    answer = second.answer(count=300)[1]
    assert [sorted({float(v) for v in answer.gate[row].unique()}) for row in (0, 1)] == [[1.0], [2.0]]
    assert (answer.attention == 2.0).all()
    assert set(seen) == {(0, 0, 0), (1, 1, 0), (0, 0, 256), (1, 1, 256)}
    assert repr(second) == "Run(mamba, 2 seeds, 4 steps; gates = 1.0, gates = note, attention = 2.0)"
    assert [float(v) for v in first.answer(count=2)[1].gate.unique()] == [1.0]


def test_a_function_changes_a_copy(runs: dict[str, iclab.Run]):
    def clear(stream: torch.Tensor, visit: Any) -> None:  # the stream of the first layer is the prompts
        stream.zero_()
        assert visit.tokens.any()

    assert (runs["deep-linear"].intervene({"layer.0.stream": clear}).answer(count=2)[1].output == 0).all()


def test_a_function_may_see_what_is_no_tensor(runs: dict[str, iclab.Run]):
    run = runs["users"]
    silenced = run.intervene({"pair": lambda pair: (0 * pair[0], pair[1])})
    torch.testing.assert_close(
        silenced.answer(count=3)[1].output, run.weights()["read.bias"][:, None].expand(2, 3, 1), **NEAR
    )


PLACES = "attention, gates"
REFUSED: dict[str, tuple[Any, str]] = {
    "no place": (lambda run: run.intervene(), f"intervene: say where.*{PLACES}"),
    "unknown place": (lambda run: run.intervene(gate=1.0), "gate: unknown key; did you mean gates?"),
    "unknown place to record": (lambda run: run.activations(None, "gate"), "gate: unknown key; did you mean gates?"),
    "a text": (lambda run: run.intervene(gates="shut"), "gates = 'shut': must be a number, a tensor"),
    "values of other seeds": (lambda run: run.intervene(gates=torch.ones(3, 5, 5)), r"\(3, 5, 5\).* of 2 seeds"),
    "values of too few prompts": (
        lambda run: run.intervene(gates=torch.ones(2, 5, 5)).error(count=6),
        "gates: values of 5 prompts were recorded",
    ),
    "wrong shape": (
        lambda run: run.intervene(gates=lambda g: g[:, :2]).error(count=6),
        r"must have shape \(6, 5\), is Tensor of shape \(6, 2\)",
    ),
    "function that raises": (
        lambda run: run.intervene(gates=lambda g: 1 / 0).error(count=6),
        r"gates: the intervention fails for seed 0 \(ZeroDivisionError",
    ),
    "probe of weights": (lambda run: run.intervene(gates=1.0).measure("kernel"), "kernel: reads weights, which"),
    "exact error": (lambda run: run.intervene(gates=1.0).exact_error(), "exact: reads weights, which"),
    "worst labels": (lambda run: run.intervene(gates=1.0).error(labels="worst"), "worst: reads weights, which"),
    "saving": (lambda run: run.intervene(gates=1.0).save("nowhere"), "save: interventions"),
    "module": (lambda run: run.intervene(gates=1.0).module(0), "module: has no interventions"),
    "seed that is not there": (lambda run: run.module(5), "seed = 5: must be one of 0, 1"),
    "unknown weight": (lambda run: run.with_weights({"gates": 0.0}), "gates: unknown key; did you mean gate?"),
    "weight of the wrong shape": (lambda run: run.with_weights({"gate": torch.ones(4)}), r"\(2, 11\), or \(11,\)"),
    "weight that is not finite": (lambda run: run.with_weights({"gate": float("nan")}), "weights.gate: must be finite"),
    "weight that is a text": (lambda run: run.with_weights({"gate": "shut"}), "weights.gate = 'shut': must be"),
    "weights that are none": (lambda run: run.with_weights([]), r"weights = \[\]: must be weights by name"),
}


@pytest.mark.parametrize("ask, words", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_changed_is_refused_in_one_line(ask: Any, words: str, runs: dict[str, iclab.Run]):
    with pytest.raises(iclab.InputError, match=words) as caught:
        ask(runs["fused"])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda run: run.intervene({"idle": 0.0}).error(count=3), "idle: the model's forward pass does not go through"),
        (lambda run: run.intervene({"pair": 0.0}).error(count=3), "pair: the model returns a tuple there"),
        (lambda run: run.intervene({"pair": lambda pair: pair[0]}).error(count=3), "pair: .* a tuple of 2 there; "),
        (lambda run: run.activations(None, "pair"), "pair: a tuple passes there"),
        (lambda run: run.activations(None, "idle"), "idle: the model's forward pass does not go through"),
    ],
)
def test_places_without_one_tensor_are_refused(ask: Any, words: str, runs: dict[str, iclab.Run]):
    with pytest.raises(iclab.InputError, match=words):
        ask(runs["users"])


def test_rows_as_tables_and_for_notebooks(runs: dict[str, iclab.Run], monkeypatch: pytest.MonkeyPatch):
    run = runs["fused"]
    table = run.table("error", count=10)
    assert table.column("seed").to_pylist() == [0, 1]
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(iclab.InputError, match="frame: needs pandas, which is not installed"):
        run.frame("error", count=10)
    assert "Run(mamba, 2 seeds, 4 steps)" in run._repr_html_()
