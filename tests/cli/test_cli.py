"""The command line: what it prints and what it writes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import pytest

import iclab
from iclab.catalog import experiments, find
from iclab.models import MODELS
from iclab.probes import PROBES
from iclab.study.charts import draw
from iclab.study.settings import Chosen

Cli = Callable[..., Any]
FLIP = ("--set", 'label_rules=["flip"]')
COMMANDS = ("experiments", "run", "reproduce", "report", "show", "train", "bench")

# Help.


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)], ids=["iclab", *COMMANDS])
def test_help_shows_examples(cli: Cli, words: tuple[str, ...]):
    said = cli(*words, "--help")
    assert (said.code, said.err) == (0, "")
    assert "examples:" in said.out
    assert " ".join(["iclab", *words]) in said.out.split("examples:")[1]


def test_version(cli: Cli):
    said = cli("--version")
    assert (said.code, said.out, said.err) == (0, f"iclab {iclab.__version__}\n", "")


def test_help_does_not_wait_for_torch():
    code = "import sys; from iclab.cli import main\ntry: main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_every_built_in_model_and_probe(cli):
    words = re.sub(r"-\s+", "-", cli("train", "--help").out).replace(",", " ").split()  # long names may be cut
    assert {*MODELS, *PROBES} <= set(words)


@pytest.mark.parametrize("module", ["iclab", "iclab.cli"])
def test_python_m(module: str):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"iclab {iclab.__version__}\n")


# Experiments.


def test_listing_experiments_and_models_does_not_wait_for_what_it_does_not_need():
    needless = {"jinja2", "markdown_it", "numba", "pyarrow", "scipy", "sklearn", "transformers", "vl_convert"}
    code = (
        "import sys; from iclab.cli import main; main(['experiments'])\n"
        "from iclab.models import MODELS, Model; [Model(name=name) for name in MODELS]\n"
        f"assert not {needless} & sys.modules.keys(), {needless} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "M-fig2" in done.stdout


def test_experiments_as_json(cli: Cli):
    said = cli("experiments", "--json")
    assert (said.code, said.err) == (0, "")
    (listed,) = [e for e in said.json["experiments"] if e["id"] == "M-fig2"]
    assert {"id", "title", "paper", "claims", "settings"} <= listed.keys()
    assert {"M-fig2.mamba-small.flip", "M-fig2.linear-large.random"} <= {claim["id"] for claim in listed["claims"]}
    by_name = {setting["name"]: setting for setting in listed["settings"]}
    assert by_name.keys() == find("M-fig2").settings.model_fields.keys()
    assert (by_name["train_outlier_fraction"]["value"], by_name["train_outlier_fraction"]["disclosed"]) == (0.6, True)
    assert by_name["test_prompts"]["disclosed"] is False
    assert all(setting["why"] for setting in listed["settings"])


def test_experiments_for_people(cli: Cli):
    said = cli("experiments")
    assert (said.code, said.err) == (0, "")
    assert all(id_ in said.out for id_ in experiments())
    said = cli("experiments", "m-fig2")
    assert all(word in said.out for word in ("M-fig2", "M-fig2.gap.flip", "test_prompts", "stated by the paper"))
    assert "M-tab1" not in said.out


# Run.


def test_run_prints_one_json_document(figure_run: Any):
    found = figure_run.said.json
    assert {"id", "seconds", "rows", "claims", "settings", "complete"} <= found.keys()
    assert (found["id"], found["complete"]) == ("M-fig2", True)
    assert found["seconds"] > 0
    assert found["settings"]["steps"] == 20


def test_rows_are_those_that_were_asked_for(figure_run: Any):
    rows = figure_run.said.json["rows"]
    columns = ("model", "outlier_labels", "outlier_fraction", "seed")
    expected = [
        (model, rule, fraction, seed)
        for model in ("mamba", "linear")
        for rule in ("flip", "target", "random", "worst")
        for fraction in (0.0, 0.6)
        for seed in (0, 1)
    ]
    assert [tuple(row[name] for name in columns) for row in rows] == expected
    for row in rows:
        assert row["diverged"] is False
        assert row["prompts"] == 50
        assert row["error"] == pytest.approx(1 - row["right"] / 50)


def test_claims_are_judged(figure_run: Any):
    claims = {claim["id"]: claim for claim in figure_run.said.json["claims"]}
    assert len(claims) == 16
    for claim in claims.values():
        assert claim["verdict"] in ("holds", "fails", "undecided", "not run")
        assert claim["paper"]
        assert claim["predicate"]
        if claim["verdict"] != "not run":
            assert claim["low"] <= claim["measured"] <= claim["high"]
    # α = 0.8 is not in the grid, so nothing is said about it.
    assert claims["M-fig2.mamba-small.flip"]["verdict"] == "not run"
    assert claims["M-fig2.linear-large.flip"]["verdict"] in ("holds", "undecided", "fails")


def test_figure_rows_and_verdicts_are_written(figure_run: Any):
    said = figure_run.said.json
    (folder,) = figure_run.out.iterdir()
    assert re.fullmatch(r"M-fig2-[0-9a-f]{6}", folder.name)  # settings of one's own have a folder of their own
    assert (folder / "M-fig2.svg").read_text().lstrip().startswith("<svg")
    assert (folder / "M-fig2.png").read_bytes().startswith(b"\x89PNG")
    assert said["figure"] == str(folder / "M-fig2.png")
    assert json.loads((folder / "claims.json").read_text())["claims"] == said["claims"]
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    assert [row["error"] for row in rows] == [row["error"] for row in said["rows"]]


def test_progress_is_on_standard_error(figure_run: Any):
    assert figure_run.said.err.splitlines()[-1].startswith("M-fig2: 18 of 18 cells in ")


@pytest.mark.parametrize("command", ["run", "show"])
@pytest.mark.slow
def test_conditions_are_built_once_per_edition(
    command: str, cli: Cli, figure_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    figure, calls = type(find("M-fig2")), []
    build = figure.conditions
    monkeypatch.setattr(figure, "conditions", lambda self, settings: calls.append(settings) or build(self, settings))
    workers = ("--workers", 1) if command == "run" else ()
    said = cli(command, *figure_run.words, *workers, "--store", figure_run.store, "--out", tmp_path)
    assert said.code == 0
    assert len(calls) == 1


def test_run_again_computes_nothing(cli: Cli, figure_run: Any, tmp_path: Path, contents: Callable[[Path], Any]):
    before = contents(figure_run.store)
    said = cli("run", *figure_run.words, "--workers", 1, "--store", figure_run.store, "--out", tmp_path)
    assert (said.code, said.err) == (0, "")
    assert contents(figure_run.store) == before
    assert "M-fig2.linear-large.flip" in said.out
    assert f"open {tmp_path / Path(figure_run.said.json['figure']).parent.name / 'M-fig2.png'}" in said.out


def test_the_store_can_be_named_in_the_environment(
    cli: Cli, figure_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ICLAB_STORE", str(figure_run.store))
    said = cli("show", *figure_run.words, *FLIP, "--out", tmp_path, "--json")
    assert said.json["rows"] == [row for row in figure_run.said.json["rows"] if row["outlier_labels"] == "flip"]


def test_one_seed_is_valid_json_too(cli: Cli, figure_run: Any, tmp_path: Path):
    words = (*figure_run.words, *FLIP, "--seeds", 1)
    said = cli("show", *words, "--store", figure_run.store, "--out", tmp_path, "--json")
    assert {row["seed"] for row in said.json["rows"]} == {0}


def test_diverged_seeds_have_no_error(cli: Cli, figure_run: Any, tmp_path: Path):
    words = ("--set", "step_sizes={linear=1e6}", "--set", 'models=["linear"]', *FLIP)
    store = ("--store", tmp_path / "store", "--out", tmp_path)
    said = cli("run", *figure_run.words, *words, *store, "--workers", 1, "--json", show_warnings=True)
    assert [(row["seed"], row["error"], row["diverged"]) for row in said.json["rows"]] == 2 * [
        (0, None, True),
        (1, None, True),
    ]
    verdicts = {claim["id"]: claim["verdict"] for claim in said.json["claims"]}
    assert "holds" not in verdicts.values()
    assert verdicts["M-fig2.mamba-small.flip"] == "not run"


@pytest.mark.parametrize("error", [0.0, 0.3, None], ids=["no error", "errors everywhere", "all diverged"])
@pytest.mark.slow
def test_the_figure_can_be_laid_out_whatever_was_measured(error: float | None):
    figure = find("M-fig2")
    settings = figure.settings(seeds=2, outlier_fractions=[0.0, 0.6])
    rows = [
        {**condition.columns, "seed": seed, "prompts": 100, "error": error, "diverged": error is None}
        for condition in figure.conditions(settings)
        for seed in (0, 1)
    ]
    assert draw(figure.chart(rows, settings))["png"].startswith(b"\x89PNG")


@pytest.mark.slow
def test_one_entry_of_a_table_can_be_set(cli: Cli, tmp_path: Path):
    words = ("--quick", "--seeds", 1, "--store", tmp_path, "--out", tmp_path, "--workers", 1, "--json")
    small = (
        "--set",
        "steps=2",
        "--set",
        "test_prompts=5",
        "--set",
        "outlier_fractions=[0.5]",
        "--set",
        'models=["linear"]',
    )
    said = cli("run", "M-fig2", *words, *small, "--set", "step_sizes.linear=0.01")
    assert said.code == 0
    assert said.json["settings"]["step_sizes"] == {"mamba": 1.0, "linear": 0.01, "softmax": 0.3}
    said = cli("run", "M-fig2", *words, *small, "--set", 'step_sizes={"linear": 0.02}')  # JSON does too
    assert said.json["settings"]["step_sizes"] == {"linear": 0.02}
    said = cli("run", "M-fig2", *words, *small, "--set", 'models=["gpt2"]')
    assert said.code == 2
    assert "step_sizes: has none for gpt2; give one for SGD, such as --set recipes.gpt2.step_size=0.1" in said.err


@pytest.mark.slow
def test_several_experiments_run_together(cli: Cli, tmp_path: Path):
    small = ("--set", "steps=2", "--set", "test_prompts=5", "--set", "batch_size=2")
    words = ("--quick", "--seeds", 1, "--store", tmp_path, "--out", tmp_path, "--workers", 1, "--json")
    said = cli("run", "m-tab4", "M-tab5", "M-tab4", *small, *words)
    assert said.code == 0
    assert [found["id"] for found in said.json["experiments"]] == ["M-tab4", "M-tab5"]
    assert all(len(list(tmp_path.glob(f"{id_}-*/claims.json"))) == 1 for id_ in ("M-tab4", "M-tab5"))


# Show.


def test_show_draws_the_same_bytes_without_training(
    cli: Cli, figure_run: Any, tmp_path: Path, contents: Callable[[Path], Any]
):
    before = contents(figure_run.store)
    said = cli("show", *figure_run.words, "--store", figure_run.store, "--out", tmp_path, "--json")
    assert (said.code, said.err) == (0, "")
    first, again = (Path(told["figure"]).with_suffix(".svg") for told in (figure_run.said.json, said.json))
    assert (first.parent.parent, again.parent.parent) == (figure_run.out, tmp_path)
    assert again.read_bytes() == first.read_bytes()
    assert (said.json["rows"], said.json["claims"]) == (figure_run.said.json["rows"], figure_run.said.json["claims"])
    assert contents(figure_run.store) == before


@pytest.mark.parametrize("fractions", [[0.0, 0.1], [0.0, 0.6, 0.15]], ids=["half of it", "two thirds of it"])
def test_show_says_when_something_is_missing(cli: Cli, figure_run: Any, tmp_path: Path, fractions: list[float]):
    words = (*figure_run.words, "--set", f"outlier_fractions={fractions}", *FLIP)
    said = cli("show", *words, "--store", figure_run.store, "--out", tmp_path, "--json")
    assert said.code == 0
    assert len(said.err.splitlines()) == 1
    found = {row["outlier_fraction"] for row in said.json["rows"]}
    assert found == set(fractions) & {0.0, 0.6}


def test_show_does_not_stumble_over_the_quick_edition(cli: Cli, figure_run: Any, tmp_path: Path):
    """Of the fractions 0.1 and 0.2, only 0.1 is there, and only 0.2 is in the quick edition."""
    store = shutil.copytree(figure_run.store, tmp_path / "store")
    words = (*FLIP, "--store", store, "--out", tmp_path, "--json")
    cli("run", *figure_run.words, "--set", "outlier_fractions=[0.1]", *words, "--workers", 1, show_warnings=True)
    said = cli("show", *figure_run.words, "--set", "outlier_fractions=[0.1,0.2]", *words, show_warnings=True)
    assert said.code == 0, said.err
    assert {row["outlier_fraction"] for row in said.json["rows"]} == {0.1}


def test_show_of_an_empty_store_is_one_line(cli: Cli, tmp_path: Path):
    complaint = cli("show", "M-fig2", "--store", tmp_path / "store", "--out", tmp_path / "out").complaint
    assert "store" in complaint
    assert "run `iclab run M-fig2` first" in complaint
    assert list(tmp_path.iterdir()) == []


# Reproduce.


@pytest.mark.slow
def test_reproduce_runs_every_experiment(
    cli: Cli, figure_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: Callable[[Path], Any]
):
    figure = type(find("M-fig2"))

    class Tiny(figure.settings):  # its quick edition is the run that is there already
        steps: Annotated[int, Chosen("tiny")] = 20
        test_prompts: Annotated[int, Chosen("tiny")] = 50
        outlier_fractions: Annotated[tuple[float, ...], Chosen("tiny")] = (0.0, 0.6)
        baselines: Annotated[bool, Chosen("tiny")] = False

    catalog = {"M-fig2": find("M-fig2")}
    monkeypatch.setattr(figure, "settings", Tiny)
    monkeypatch.setattr("iclab.catalog.experiments", lambda: catalog)
    before = contents(figure_run.store)
    words = ("--seeds", 2, "--workers", 1, "--store", figure_run.store, "--out", tmp_path)
    said = cli("reproduce", "--quick", *words, "--json")
    assert (said.code, said.err) == (0, "")
    (found,) = said.json["experiments"]
    assert (found["id"], found["rows"]) == ("M-fig2", figure_run.said.json["rows"])
    assert Path(found["figure"]).with_suffix(".svg").exists()
    assert said.json["report"] == str(tmp_path / "index.html")
    assert 'data-figure="M-fig2"' in (tmp_path / "index.html").read_text()
    assert contents(figure_run.store) == before
