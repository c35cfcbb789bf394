"""Tables and ratios of the benchmark; timings are not tested."""

import json
import multiprocessing
import time

import numpy as np
import pytest
import torch

from iclab import bench
from iclab.bench import browser, compiled, page, rows
from iclab.bench.families import families
from iclab.bench.growth import AXES, Axis, changed
from iclab.bench.jax_loops import answers, jax_loop, sample
from iclab.bench.limits import Rates, active_share, limit, rates, words
from iclab.bench.loops import sampler, torch_loop
from iclab.bench.processes import Workers, shares
from iclab.cli import main
from iclab.cli.tables import print_bench
from iclab.config import InputError
from iclab.engines import Training
from iclab.engines.ensemble import initial_modules

FAMILIES = {family.name: family for family in families()}
PROMISED = {
    *("fused_vs_loop", "fused_vs_jax", "fused_vs_reference", "fused_vs_jax_linear"),
    *("deep-mamba", "deep-linear", "deep-softmax", "softmax-mlp-train", "softmax-mlp-measure"),
    *("deep-mamba_vs_loop", "deep-linear_vs_loop", "deep-softmax_vs_loop", "softmax-mlp_vs_loop"),
}


def small(family):
    """Return a family with few, short prompts and two steps."""
    training = family.training
    training = training.replace(
        prompts=training.prompts.replace(context_length=4),
        recipe=training.recipe.replace(steps=2, batch_size=16),
    )
    return family._replace(training=training, steps=family.steps._replace(loop=2, jax=2, reference=2))


class Here:
    """Workers that work in this process."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, function, *arguments, limit=None):
        assert len(arguments) == self.count
        return [function(*each) for each in arguments]


@pytest.fixture
def quick(monkeypatch):
    """Nothing is compiled by torch or JAX, and no process is started, nor a browser."""
    monkeypatch.setattr(compiled, "obstacle", lambda: "no C++ compiler (test)")
    monkeypatch.setattr(rows, "jax_loop", lambda training, steps, seeds: lambda: 0.5)
    monkeypatch.setattr(browser, "obstacle", lambda: "")
    monkeypatch.setattr(browser, "page_times", lambda training, workers, times: [[{"seconds": 0.5}] * workers] * times)
    monkeypatch.setattr(browser, "first_pictures", lambda changes: [80.0, 40.0, 60.0])
    monkeypatch.setattr(bench, "Workers", Here)
    monkeypatch.setattr(bench, "stages", lambda training: {"forward": 1.0})
    monkeypatch.setattr(bench, "memory", lambda family: {"steps": [1, 2], "peak_bytes": [3, 4]})
    monkeypatch.setattr(bench, "rates", lambda prompts: Rates(1e10, 1e9, 1e9))
    axes = {"mamba": (Axis("seeds", (1, 2), 1),), "deep-mamba": (Axis("dimension", (30, 60), 1),)}
    return bench.Sizes(seeds=2, times=1, test_prompts=16, axes=axes)


@pytest.mark.slow
def test_the_whole_table(quick, capsys, tmp_path):
    result = json.loads(json.dumps(bench.bench(2, measured=tuple(map(small, FAMILIES.values())), sizes=quick)))
    assert result["ratios"].keys() >= PROMISED
    assert all(result["ratios"][name] > 0 for name in PROMISED)
    assert {row["model"] for row in result["rows"]} == set(FAMILIES)
    for row in result["rows"]:
        assert (row["prompts_per_second"] is None) == bool(row["reason"]) == (row["name"] == "compiled")
    assert result["ratios"]["fused_vs_compiled"] is None
    shown = {(row["model"], row["threads"]): row for row in result["rows"] if row["name"] == "browser"}
    assert shown.keys() == {(model, workers) for model in ("mamba", "linear") for workers in (1, 2)}
    assert shown["mamba", 2]["prompts_per_second"] == 2 * 2 * 16 / 0.5  # a seed per worker
    assert {(row["processes"], row["engine"]) for row in result["rows"] if row["name"] == "reference"} == {
        (2, "reference"),
        (2, "compact"),
    }
    one = result["limits"]["deep-mamba"]
    assert one["near"] == pytest.approx(one["prompts_per_second"] / one["measured"])
    assert result["limits"]["softmax-mlp-error"]["multiply_adds"] == 31 * 200
    assert result["growth"]["deep-mamba"]["dimension"]["values"] == [30, 60]
    print_bench(page.tables(result))
    shown = capsys.readouterr().out
    assert "no C++ compiler (test)" in shown
    assert "softmax-mlp, all probes" in shown
    assert "60 ms after a change (median of 3 changes while it trains; at most 80 ms)" in " ".join(shown.split())
    path, target = tmp_path / "bench.json", tmp_path / "speed.md"
    path.write_text(json.dumps(result))
    target.write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    for _ in range(2):  # the second time replaces the first
        page.main([str(path), str(target)])
    text = target.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("| deep-softmax |") == page.markdown(page.tables(result)).count("| deep-softmax |") > 0
    assert "old" not in text


def test_a_page_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    found, target = tmp_path / "bench.json", tmp_path / "speed.md"
    with pytest.raises(SystemExit, match="usage: "):
        page.main([])
    with pytest.raises(SystemExit, match=r"bench\.json: cannot be read"):
        page.main([str(found), str(target)])
    target.write_text("no marks")
    found.write_text("{}")
    with pytest.raises(SystemExit, match=r"speed\.md: has no lines"):
        page.main([str(found), str(target)])
    assert target.read_text() == "no marks"


def row(name, rate, work="train", threads=1):
    return rows.Row(name, "any", work, None, 8, 1, threads, 10, rate, "" if rate else "why")


def test_ratios_are_between_the_best_rows():
    known = [row("loop", 10.0), row("loop", 20.0, threads=2), row("reference", 50.0), row("compiled", None)]
    known += [row("fused", 300.0), row("fused", 600.0, threads=2)]
    one = bench.family_ratios(FAMILIES["linear"], known, 2)
    assert one["fused_vs_loop_linear"] == 30.0
    assert one["fused_one_thread_vs_reference_linear"] == 6.0
    assert one["threads_linear"] == 2.0
    assert one["fused_vs_compiled_linear"] is one["fused_vs_jax_linear"] is None
    known += [row("reference", 4.0, "measure"), row("fused", 100.0, "measure", 2)]
    two = bench.family_ratios(FAMILIES["softmax-mlp"], known, 2)
    assert (two["softmax-mlp-train"], two["softmax-mlp-measure"], two["softmax-mlp_vs_loop"]) == (12.0, 25.0, 30.0)


def test_a_family_without_a_fused_form_has_a_reason_and_no_ratio(quick, monkeypatch):
    family = small(FAMILIES["deep-linear"])
    monkeypatch.setattr(type(family), "obstacle", lambda family: "has no fused form")
    result = bench.bench(1, measured=(family,), sizes=quick)
    assert result["ratios"]["deep-linear"] is None
    assert [r["reason"] for r in result["rows"] if r["name"] == "fused"] == ["has no fused form"]
    assert result["limits"]["deep-linear"]["near"] is None
    assert page.markdown(page.tables(result))


def test_without_a_browser_one_line_says_so(quick, monkeypatch, capsys):
    monkeypatch.setattr(browser, "obstacle", lambda: "playwright is not installed")
    result = bench.bench(1, measured=(small(FAMILIES["linear"]),), sizes=quick)
    print_bench(page.tables(result))
    assert capsys.readouterr().out.count("linear, train, browser: playwright is not installed.") == 1
    assert result["first_pictures"] is None


def test_one_family_can_be_chosen(capsys):
    assert [family.name for family in bench.chosen("deep-softmax")] == ["deep-softmax"]
    with pytest.raises(InputError, match="only = mamba2: must be one of mamba, linear"):
        bench.chosen("mamba2")
    assert main(["bench", "--only", "nothing"]) == 2
    assert "only = nothing" in capsys.readouterr().err


@pytest.mark.parametrize("name", FAMILIES)
def test_the_loop_it_compares_with_runs(name):
    assert torch_loop(small(FAMILIES[name]).training, steps=2) > 0


def test_without_a_compiler_the_compiled_loop_is_left_out(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiled.compiled_loop(FAMILIES["mamba"].training, 1, 1, 1, 1.0) == (
        None,
        "no C++ compiler (no-such-compiler)",
    )


def test_a_compiled_loop_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(compiled, "obstacle", lambda: "")
    started = time.perf_counter()
    seconds, reason = compiled.compiled_loop(FAMILIES["mamba"].training, 1, 1, 1, wait=0.2)
    assert seconds is None
    assert reason == "not ready after 0 s"
    assert time.perf_counter() - started < 10


def test_the_compiled_loop_answers_in_json(monkeypatch, capsys):
    task = {
        "training": small(FAMILIES["linear"]).training.model_dump(mode="json"),
        "steps": 1,
        "threads": 1,
        "times": 1,
    }
    asked = {}
    monkeypatch.setattr(compiled, "torch_loop", lambda training, **more: asked.update(more, training=training) or 0.25)
    monkeypatch.setattr(compiled.json, "load", lambda file: task)
    compiled.main()
    assert json.loads(capsys.readouterr().out) == {"seconds": 0.25, "reason": ""}
    assert asked["compiled"]
    assert isinstance(asked["training"], Training)


@pytest.mark.slow
def test_workers_work_side_by_side_and_leave():
    assert shares(5, 2) == [(0, 2, 4), (1, 3)]
    with Workers(2) as workers:
        assert workers.run(pow, (2, 3), (3, 2)) == [8, 9]
        started = time.perf_counter()
        with pytest.raises(multiprocessing.TimeoutError):
            workers.run(time.sleep, (30.0,), (30.0,), limit=0.1)
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize("name", FAMILIES)
def test_jax_answers_as_the_model_does(name):
    jax = pytest.importorskip("jax")
    family = small(FAMILIES[name])
    (module,) = initial_modules(family.training, (0,), (family.training.prompts.patterns.basis(0),))
    torch.manual_seed(0)
    tokens, _ = sampler(family.training.prompts, 16)()
    with torch.no_grad():
        for weight in module.parameters():  # away from the start, where keys and queries are the same
            weight += 0.05 * torch.randn_like(weight)
        expected = module(tokens).output.squeeze(-1).numpy()
    weights = {n: jax.numpy.asarray(w.detach().numpy()) for n, w in module.state_dict().items()}
    if name != "softmax-mlp":  # (layers, …), one head and one gate
        layers = family.training.model.options.get("layers", 1)
        weights = {n: w.reshape(layers, *(w.shape[-2:] if n != "gate" else w.shape[-1:])) for n, w in weights.items()}
    found = answers(name)(family.training, weights, jax.numpy.asarray(tokens.numpy()))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["mamba", "softmax-mlp"])
def test_jax_draws_the_same_prompts_as_the_loop(name):
    jax = pytest.importorskip("jax")
    prompts = FAMILIES[name].training.prompts
    vectors = prompts.patterns.basis(0).vectors.astype(np.float32)
    ours, labels = (x.numpy() for x in sampler(prompts, 3000)())
    theirs, z = (np.asarray(x) for x in sample(prompts, 3000, jax.random.PRNGKey(0), jax.numpy.asarray(vectors)))
    assert ours.shape == theirs.shape
    assert abs(labels.mean() - z.mean()) < 0.1
    for row_of in vectors:  # how much of each pattern examples carry, and how much queries do
        for part in (slice(0, -1), slice(-1, None)):
            a, b = (np.abs(x[:, part, : len(row_of)] @ row_of).mean() for x in (ours, theirs))
            assert abs(a - b) < 0.06 * (row_of @ row_of)


@pytest.mark.slow
def test_jax_trains():
    pytest.importorskip("jax")
    assert jax_loop(small(FAMILIES["linear"]).training, 2, 2)() > 0


def test_every_axis_changes_its_size():
    for name, axes in AXES.items():
        for axis in axes:
            training = changed(FAMILIES[name].on("fused"), axis.name, axis.values[-1])
            assert (training == FAMILIES[name].on("fused")) == (axis.name == "seeds")


def test_the_limit_is_the_sum_of_its_parts():
    family = FAMILIES["softmax-mlp"]
    counts, machine = family.counts(family.training), Rates(1e9, 1e8, 1e7)
    assert words(family.training) == 2 * words(FAMILIES["mamba"].training) == 2 * 84
    one = limit(family.training, counts, machine, 0.5)
    needed = 6200 + 0.5 * 12400 + counts.batch / 128
    assert one["multiply_adds"] == pytest.approx(needed)
    assert one["nanoseconds"] == pytest.approx(needed + 20 * 10 + 168 * 100)
    assert limit(family.training, counts, machine, None)["nanoseconds"] == pytest.approx(6200 + 200 + 16800)


def test_rates_are_those_of_a_machine():
    found = rates(FAMILIES["mamba"].training.prompts, times=1)
    assert min(found) > 1e6


def test_the_share_inside_the_hinge_falls_in_training():
    training = FAMILIES["mamba"].on("fused", steps=200)
    assert 0.0 < active_share(training) < 0.6
    still = training.replace(recipe=training.recipe.replace(step_size=1e-9))
    assert active_share(still) > 0.9


def test_ctrl_c_is_clean(monkeypatch, capsys):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "bench", stop)
    assert main(["bench"]) == 130
    assert capsys.readouterr().err == "iclab: stopped\n"
