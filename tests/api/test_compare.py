"""`iclab.compare` and `iclab.run`: rows, tables and charts in one call, from the store the second time."""

from __future__ import annotations

import html
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from api_helpers import BRIEF, CLEAN, SMALL, Net

import iclab
from iclab.api.grids import Setting, grid
from iclab.engines import Training
from iclab.lab import Store, TrainingCell
from iclab.lab.executors import jobs

FRACTIONS = [0.0, 0.3, 0.9]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> iclab.Comparison:
    """Three models, one with a recipe of its own."""
    adam = iclab.Recipe(steps=3, batch_size=4, step_size=0.01, optimizer="adam")
    return iclab.compare(
        {"mamba": "mamba", "linear": "linear", "mine": (Net, adam)},
        train=SMALL,
        test=SMALL.replace(outliers=iclab.Outliers(fraction=0.5, scale=4.0, labels="flip")),
        over={"outliers.fraction": FRACTIONS},
        recipes=iclab.Recipe(steps=4, batch_size=4),
        seeds=3,
        count=40,
        store=tmp_path_factory.mktemp("compared") / "store",
        workers=1,
    )


def test_rows_are_those_of_separate_runs(found: iclab.Comparison):
    assert len(found.rows) == 3 * 3 * 3
    assert {row["seed"] for row in found.rows} == {0, 1, 2}
    by_hand = iclab.train("linear", SMALL, iclab.Recipe(steps=4, batch_size=4, step_size=0.05), seeds=3)  # its own η
    poisoned = SMALL.replace(outliers=iclab.Outliers(fraction=0.9, scale=4.0, labels="flip"))
    mine = [r["error"] for r in found.rows if (r["model"], r["outliers.fraction"]) == ("linear", 0.9)]
    assert tuple(mine) == by_hand.error(poisoned, count=40).per_seed


def test_tables_and_summaries(found: iclab.Comparison):
    assert found.table().num_rows == 27
    assert found.table().column_names[:4] == ["model", "outliers.fraction", "seed", "prompts"]
    line = found.summary[2]
    own = [r["error"] for r in found.rows if (r["model"], r["outliers.fraction"]) == ("mamba", 0.9)]
    assert (line["model"], line["outliers.fraction"], line["mean"]) == ("mamba", 0.9, sum(own) / 3)
    assert line["low"] <= line["mean"] <= line["high"]
    assert len(str(found).splitlines()) == 2 + 9


def test_the_chart_shows_every_model_with_its_band(found: iclab.Comparison, tmp_path: Path):
    assert [series.name for series in found.chart.legend] == ["mamba", "linear", "mine"]
    assert len({series.colour for series in found.chart.legend}) == 3
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert found.save(tmp_path / f"chart.{kind}").read_bytes().startswith(start)
    with pytest.raises(iclab.InputError, match=r"chart.gif: must end in .svg, .png, .pdf"):
        found.save(tmp_path / "chart.gif")


def test_it_shows_in_a_notebook(found: iclab.Comparison):
    bundle = found._repr_mimebundle_()
    spec = bundle["application/vnd.vegalite.v5+json"]
    assert "outliers.fraction" in vl_convert.vegalite_to_svg(spec, vl_version="5.20")  # what notebooks draw with
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == str(found)
    assert "<svg" in found._repr_html_()
    assert "<td>mine</td>" in found._repr_html_()


def test_the_second_time_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def compare(**more: Any) -> iclab.Comparison:
        over = {"outliers.fraction": [0.0, 0.5]}
        return iclab.compare(["linear"], SMALL, over=over, recipes=BRIEF, count=10, store=tmp_path / "s", **more)

    first = compare()
    assert Store(tmp_path / "s").has(TrainingCell(training=Training(model="linear", prompts=SMALL, recipe=BRIEF)))
    monkeypatch.setattr(jobs, "train", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(jobs, "measure", lambda *_: pytest.fail("measured again"))
    assert compare().rows == first.rows
    assert len(compare(seeds=[2, 5]).rows) == 4


def test_a_grid_of_prompts_recipes_and_steps():
    over = {"step": [0, 4], "train.outliers.count": [0, 2], "recipe.batch_size": [2], "tasks": ["all", [(0, 1)]]}
    grid = iclab.compare(["mamba"], SMALL, CLEAN, over=over, recipes=BRIEF, seeds=1, count=5, workers=1)
    assert len(grid.rows) == 8
    assert len(grid.chart.panels) == 4
    first = grid.rows[0]
    assert (first["step"], first["train.outliers.count"], first["tasks"]) == (0, 0, "all")
    assert grid.rows[1]["tasks"] == "[(0, 1)]"


@pytest.mark.parametrize("key", ["patterns.dimension", "patterns"])
def test_patterns_change_in_training_and_test_together(key: str):
    values = [8, 12] if key != "patterns" else [SMALL.patterns.replace(dimension=d) for d in (8, 12)]
    start = Setting(SMALL, CLEAN, BRIEF)
    for point in grid({f"train.{key}": values}):
        found = start.at_point(point)
        assert found.train.patterns == found.test.patterns
        assert found.train.patterns.dimension in (8, 12)


def test_a_key_replaces_those_that_it_excludes():
    prompts = SMALL.replace(relevant_fraction=0.5)
    found = Setting(prompts, prompts, BRIEF).at_point({"relevant_count": 2, "outliers.count": 1})
    assert (found.test.relevant_count, found.test.relevant_fraction) == (2, 1.0)
    assert (found.test.outliers.count, found.test.outliers.fraction) == (1, 0.0)


def test_a_recipe_that_names_no_step_size_takes_the_models_own(tmp_path: Path):
    def trained_with(recipe: iclab.Recipe, over: dict[str, list[Any]], name: str) -> set[float]:
        store = tmp_path / name
        iclab.compare(["linear"], SMALL, over=over, recipes=recipe, seeds=1, count=5, workers=1, store=store)
        cells = [json.loads(file.read_text())["cell"] for file in store.glob("training/*/entry.json")]
        return {cell["training"]["recipe"]["step_size"] for cell in cells}

    plain = iclab.Recipe(steps=2, batch_size=4)
    assert trained_with(plain, {}, "plain") == {0.05}
    assert trained_with(plain.replace(batch_size=5), {}, "changed") == {0.05}
    assert trained_with(plain.replace(step_size=0.2), {}, "named") == {0.2}
    assert trained_with(plain, {"recipe.optimizer": ["sgd", "adam"]}, "two") == {0.05, 0.001}


def test_without_a_grid_models_stand_side_by_side():
    found = iclab.compare(["linear", "mamba"], SMALL, recipes=BRIEF, seeds=2, count=5)
    assert [line["model"] for line in found.summary] == ["linear", "mamba"]
    assert found.chart.svg().startswith("<svg")


def test_other_probes_and_columns():
    run = iclab.compare(["linear"], SMALL, recipes=BRIEF, seeds=2, count=5, column="hinge")
    assert run.summary[0]["mean"] == sum(row["hinge"] for row in run.rows) / 2
    attention = iclab.compare(["linear"], SMALL, recipes=BRIEF, seeds=2, count=5, probe="attention")
    assert attention.column == "same"
    gates = iclab.compare(["mamba"], SMALL, recipes=BRIEF, seeds=1, count=5, probe="gates", column="gate")
    with pytest.raises(iclab.InputError, match="several rows per seed"):
        _ = gates.chart
    with pytest.raises(iclab.InputError, match="column: say which one"):
        _ = iclab.compare(["linear"], SMALL, recipes=BRIEF, seeds=1, count=5, probe="norms").chart


def test_a_diverged_seed_is_counted_beside_the_mean():
    wild = iclab.Recipe(steps=200, step_size=1e6, batch_size=4)
    found = iclab.compare(["linear"], SMALL, recipes=wild, seeds=2, count=5)
    assert (found.summary[0]["mean"], found.summary[0]["diverged"]) == (None, 2)
    assert found.chart.svg().startswith("<svg")


# Experiments.

TINY: dict[str, Any] = {"steps": 5, "test_prompts": 20, "outlier_fractions": [0.0, 0.6], "label_rules": ["flip"]}


def test_an_experiment_is_the_command_lines(figure_run: Any, cli: Any):
    settings = {"steps": 20, "test_prompts": 50, "outlier_fractions": [0.0, 0.6], "baselines": False, "seeds": 2}
    outcome = iclab.run("m-FIG2", store=figure_run.store, **settings)
    told = figure_run.said.json
    assert (outcome.rows, outcome.claims) == (told["rows"], told["claims"])
    assert outcome.complete
    assert outcome.table
    assert "<svg" in outcome._repr_html_()
    assert html.escape(outcome.claims[0]["paper"]) in outcome._repr_html_()
    assert repr(outcome).startswith("Outcome(M-fig2, ")
    assert outcome.chart is outcome.figure


def test_an_experiment_leaves_nothing_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    outcome = iclab.run("M-fig2", quick=True, seeds=1, baselines=False, **{**TINY, "step_sizes.linear": 0.01})
    assert outcome.settings.step_sizes["linear"] == 0.01
    assert outcome.settings.seeds == 1
    assert list(tmp_path.iterdir()) == []


def test_experiments_are_listed_by_id():
    titles = iclab.experiments()
    assert titles["M-fig2"] == "Error against the fraction of outliers"
    assert len(titles) > 30


def test_an_experiment_of_ones_own_is_run_as_a_class_and_remembered(
    tmp_path: Path, user_module: Callable[[str, str], None]
):
    user_module("mine_to_run", OWN)
    path = "mine_to_run:Own"
    by_path = iclab.run(path, store=tmp_path / "store", workers=1)
    assert iclab.run("own", store=tmp_path / "store", workers=1).rows == by_path.rows  # the store knows its id
    by_class = iclab.run(importlib.import_module("mine_to_run").Own, store=tmp_path / "store", workers=1)
    assert by_path.rows == by_class.rows
    assert by_path.claims[0]["id"] == "own.small"
    assert [record["experiment"] for record in Store(tmp_path / "store").records()] == [path]
    assert iclab.experiments(str(tmp_path))["own"] == "Mine"


OWN = """
    from iclab.engines import Recipe, Training
    from iclab.prompts import Prompts
    from iclab.study.charts import Axis, Figure, Panel
    from iclab.study.claims import Claim, every_below, judged
    from iclab.study.experiment import Experiment, in_groups
    from iclab.study.settings import Settings


    class OwnSettings(Settings):
        pass


    class Own(Experiment[OwnSettings]):
        id, title, paper, reading = "own", "Mine", "", ""
        settings = OwnSettings

        def conditions(self, settings):
            training = Training(model="linear", recipe=Recipe(steps=1, step_size=0.05))
            return in_groups(settings, {}, training, probe="error", prompts=Prompts(), count=5)

        def claims(self, settings):
            return [Claim("own.small", "it is small", "error < 1", judged(lambda rows: None, every_below, 1.0))]

        def table(self, rows, settings):
            return [{"rows": len(rows)}]

        def chart(self, rows, settings):
            return Figure([Panel(x=Axis("x"), y=Axis("y"))])
"""
