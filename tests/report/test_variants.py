"""Results of one's own in the report: own experiments, and variants of those that exist, counted apart."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import iclab
from iclab import catalog
from iclab.catalog import find
from iclab.config import InputError
from iclab.lab import Store
from iclab.lab import run as compute_cells
from iclab.report.content import collect
from iclab.report.page import render, render_variants
from iclab.study.edition import Edition
from iclab.study.records import compute, records_of
from iclab.study.sequences import confidence_after

pytestmark = pytest.mark.slow

OWN = '''
import torch
from iclab import Model, Prompts, Recipe
from iclab.engines import Training
from iclab.study import Claim, Experiment, Settings, error_points, every_below, in_groups, judged


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = torch.nn.Linear(width, 1)

    def forward(self, tokens):
        return self.map(tokens).mean((1, 2))


class MineSettings(Settings):
    model: str = "linear"
    test_prompts: int = 20


class Mine(Experiment[MineSettings]):
    """My question."""

    id = "M-hybrid"  # a paper's letter, and the id of a statement
    settings = MineSettings

    def conditions(self, settings):
        recipe = Recipe(steps=2, batch_size=4, step_size=0.01)
        training = Training(model=Model(name=settings.model), prompts=Prompts(), recipe=recipe)
        return in_groups(settings, {"model": training.model.label}, training)

    def claims(self, settings):
        points = lambda rows: error_points(rows, settings.seeds, [("all", {"model": "linear"})])
        return [Claim("M-hybrid.small", "small", "error < 2", judged(points, every_below, 2.0))]
'''


@pytest.fixture
def alone(monkeypatch):
    """Leave one built-in experiment in the catalog, so that a report is quick."""
    figure = find("M-fig2")
    monkeypatch.setattr(catalog, "experiments", lambda: {"M-fig2": figure})


@pytest.fixture
def own(user_module, alone, tmp_path):
    """An own experiment in a folder, and a store in another."""
    user_module("my_own", OWN)
    return find("my_own:Mine"), Store(tmp_path / "store")


def section_of(content, id_):
    return next(section for section in content.sections if section.id == id_)


def test_an_own_experiment_stands_apart(own):
    experiment, store = own
    compute([Edition(experiment, experiment.settings().quick())], store, workers=1, quiet=True)
    content = collect(store)
    section = section_of(content, "M-hybrid")
    assert (section.paper, section.anchor, section.command) == (
        "yours",
        "own-M-hybrid",
        "iclab run my_own:Mine --quick",
    )
    assert content.counted("yours") == {"holds": 1}
    assert content.edition == "No experiment of iclab has been run yet; 1 of your own."
    without = collect(Store(store.path.parent / "none"))
    assert (content.verdicts, content.counted("iclab")) == (without.verdicts, without.counted("iclab"))
    assert "M-hybrid" in {claim["id"] for claim in content.board}  # the paper's statement keeps its line
    text, page = render(content), render_variants(content)
    assert 'data-figure="M-hybrid"' in page
    assert 'data-figure="M-hybrid"' not in text
    assert "Yours: experiments from outside the package" in page
    assert 'href="variants.html#own-M-hybrid"' in text
    assert '<option value="yours">your own</option>' in text
    assert "Your own experiments make 1 claim:" in text
    assert "yours" not in render(without)


def test_one_that_is_gone_is_a_line(own, user_module):
    experiment, store = own
    compute([Edition(experiment, experiment.settings().quick())], store, workers=1, quiet=True)
    user_module("my_own", "x = 1")
    content = collect(store)
    assert [section.id for section in content.sections] == ["M-fig2"]
    (problem,) = content.problems
    assert "my_own:Mine: cannot be imported" in problem
    assert problem.replace("'", "&#39;") in render_variants(content)
    assert "1 that cannot be shown" in render(content)


def test_one_whose_verdicts_raise_is_a_line(own, user_module):
    experiment, store = own
    compute([Edition(experiment, experiment.settings().quick())], store, workers=1, quiet=True)
    user_module("my_own", OWN.replace("error_points(rows,", "error_points(rows, 1 / 0,"))
    (problem,) = collect(store).problems
    assert "M-hybrid: its verdicts cannot be made (ZeroDivisionError: division by zero; my_own.py, line" in problem


def test_a_judge_that_needs_rows_is_not_asked_without_them(own, user_module):
    experiment, store = own
    code = OWN.replace("error_points(rows,", "error_points(rows, 1 // len(rows) or")
    user_module("my_own", code)
    store.keep(records_of([Edition(find("my_own:Mine"), experiment.settings().quick())]))
    content = collect(store)
    assert content.problems == ()
    assert [claim["verdict"] for claim in section_of(content, "M-hybrid").claims] == ["not run"]


STEPS = """
    def steps(self, rows, settings):
        return {}
"""


@pytest.mark.parametrize("found, reason", [("1 / 0", "ZeroDivisionError"), ("{'x': float('nan')}", "ValueError")])
def test_one_whose_steps_cannot_be_shown_is_a_line(own, user_module, found, reason):
    user_module("my_own", OWN + STEPS.format(found))
    experiment, store = find("my_own:Mine"), own[1]
    compute([Edition(experiment, experiment.settings().quick())], store, workers=1, quiet=True)
    content = collect(store)
    (problem,) = content.problems
    assert f"M-hybrid: its steps cannot be made ({reason}: " in problem
    assert "M-fig2" in render(content)


def test_models_of_one_name_keep_their_own_code(own, user_module):
    store = own[1]
    for name in ("one", "two"):
        code = OWN.replace('"linear"', f'"{name}_own:Net"', 1).replace("M-hybrid", name) + f"# file {name}"
        user_module(f"{name}_own", code)
        experiment = find(f"{name}_own:Mine")
        store.keep(records_of([Edition(experiment, experiment.settings().quick())]))
    text = render_variants(collect(store))
    code = json.loads(re.search(r'id="code">(.*?)</script>', text).group(1))
    for name in ("one", "two"):
        article = text.split(f'<article id="own-{name}"')[1].split("</article>")[0]
        (key,) = re.findall(r'Code of Net.*data-code="([^"]+)"', article)
        assert code[key].rstrip().endswith(f"# file {name}")


def test_settings_of_ones_own_are_variants_beside_the_usual(report):
    page, content = report
    section = section_of(content, "M-fig2")
    (variant,) = section.variants
    assert variant.command == "iclab run M-fig2 --quick --seeds 3"
    assert variant.title.startswith("seeds = 3")
    assert [(change.name, change.here, change.usually) for change in variant.changes] == [("seeds", "3", "8")]
    assert {row["seed"] for row in variant.outcome.rows} == {0, 1, 2}
    assert content.variants == 1
    assert len([claim for claim in content.board if claim["section"] == "M-fig2"]) == len(section.claims)
    text = page.with_name("variants.html").read_text("utf-8")
    fold = text.split(f'id="variant-{variant.folder}"')[1].split("</details>")[0]
    assert f'data-figure="{variant.folder}"' in fold
    assert fold.count('class="verdict') == 2 * len(variant.outcome.claims)
    for words in ("own</a>: 1 variant. They are no part", 'href="variants.html#variants-M-fig2">1 variant</a>'):
        assert words in page.read_text("utf-8")
    assert (page.parent / variant.folder / "table.csv").exists()


NET = OWN[OWN.index("import torch") : OWN.index("from iclab")] + OWN[OWN.index("class Net") : OWN.index("class MineS")]


def test_the_readmes_model_with_adam_joins_the_papers_figure(cli, user_module, alone, tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    command = shlex.split(re.search(r"^    iclab (run M-fig2 .*mine:Mine.*)$", readme, re.MULTILINE).group(1))
    user_module("mine", NET.replace("Net", "Mine"))
    tiny = ("steps=3", "batch_size=4", "test_prompts=20", "outlier_fractions=[0.0,0.6]", 'label_rules=["flip"]')
    less = [word for setting in (*tiny, "baselines=false") for word in ("--set", setting)]
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    assert cli(*command, *less, "--seeds", 2, "--workers", 1, *places).code == 0
    said = cli("report", *places, "--json")
    assert (said.err, said.json["variants"], said.json["yours"]) == ("", 1, {})
    assert said.json["claims"].keys() == {"not run"}
    (variant,) = section_of(collect(Store(tmp_path / "store")), "M-fig2").variants
    assert {row["model"] for row in variant.outcome.rows} == {"mamba", "linear", "Mine"}
    recipes = {cell.training.training.model.label: cell.training.training.recipe for cell in variant.cells}
    assert (recipes["Mine"].optimizer, recipes["Mine"].step_size, recipes["mamba"].optimizer) == ("adam", 0.01, "sgd")
    assert "optimizer: adam" in next(change.here for change in variant.changes if change.name == "recipes")
    user_module("mine", NET.replace("Net", "Mine") + "# changed")
    (variant,) = section_of(collect(Store(tmp_path / "store")), "M-fig2").variants
    assert {row["model"] for row in variant.outcome.rows} == {"mamba", "linear"}
    assert variant.summary.startswith(
        "unfinished (the source of mine:Mine has changed since; run it again to have them)"
    )


FOUR = """
import torch
from torch import nn
from transformers import MambaConfig, MambaModel


class Read(nn.Module):
    def __init__(self, width, size=4):
        super().__init__()
        self.readin, self.readout = nn.Linear(width, size), nn.Linear(size, 1)

    def forward(self, tokens):
        return self.readout(self.inner(self.readin(tokens))[:, -1])


class Memory(Read):  # an LSTM
    def __init__(self, width):
        super().__init__(width)
        self.body = nn.LSTM(4, 4, batch_first=True)

    def inner(self, x):
        return self.body(x)[0]


class HuggingFace(Read):
    def __init__(self, width):
        super().__init__(width)
        self.body = MambaModel(MambaConfig(vocab_size=1, hidden_size=4, state_size=2, num_hidden_layers=1))

    def inner(self, x):
        return self.body(inputs_embeds=x).last_hidden_state


class Normed(Read):
    def __init__(self, width):
        super().__init__(width)
        self.body = nn.BatchNorm1d(4)

    def inner(self, x):
        return self.body(x.mT).mT.cumsum(1)


class Attends(Read):  # trained with Adam
    def inner(self, x):
        return torch.softmax(x @ x.mT, -1) @ x
"""


def test_modules_of_every_kind_stand_beside_mamba_from_the_shell_and_from_python(cli, user_module, alone, tmp_path):
    user_module("four", FOUR)
    kinds = ("Memory", "HuggingFace", "Normed", "Attends")
    models = ["mamba", "linear", *(f"four:{kind}" for kind in kinds)]
    words = ["models=" + json.dumps(models), "baselines=false", 'label_rules=["flip"]', "outlier_fractions=[0.0,0.6]"]
    words += ["steps=2", "batch_size=4", "test_prompts=20", *(f"recipes.{kind}.step_size=0.01" for kind in kinds)]
    words.append("recipes.Attends.optimizer=adam")
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    settings = [word for setting in words for word in ("--set", setting)]
    assert cli("run", "M-fig2", *settings, "--seeds", 2, "--workers", 1, *places).code == 0
    content = collect(Store(tmp_path / "store"))
    assert (content.variants, content.counted("yours"), content.counted("paper").keys()) == (1, {}, {"not run"})
    (variant,) = section_of(content, "M-fig2").variants
    errors = {row["model"]: row["error"] for row in variant.outcome.rows}
    assert errors.keys() == {"mamba", "linear", *kinds}
    assert None not in errors.values()

    prompts = find("M-fig2").settings().train_prompts(0.6)
    recipe = iclab.Recipe(steps=2, batch_size=4, step_size=0.01)
    own = {kind: (f"four:{kind}", recipe) for kind in kinds}
    own["Attends"] = ("four:Attends", recipe.replace(optimizer="adam"))
    found = iclab.compare(
        {"mamba": "mamba", "linear": "linear"} | own, prompts, seeds=2, count=20, recipes=recipe, workers=1
    )
    assert [line["diverged"] for line in found.summary] == [0] * 6


def test_a_variant_that_has_only_cells_of_the_usual_editions_is_a_line(quick_store, alone, user_module, tmp_path):
    user_module("mine", NET.replace("Net", "Mine"))
    store = Store(shutil.copytree(quick_store.path, tmp_path / "store"))
    quick = find("M-fig2").settings().quick()
    mine = quick.replace(models=("mamba", "mine:Mine"), step_sizes=quick.step_sizes | {"mine:Mine": 0.1})
    store.keep(records_of([Edition(find("M-fig2"), settings) for settings in (mine, quick.replace(seeds=16))]))
    variants = section_of(collect(store), "M-fig2").variants
    assert {variant.problem for variant in variants if variant.outcome is None} == {
        "the store has no results of Mine; run it again to have them",
        "the store has no results but those of the usual editions; run it again to have them",
    }


def test_the_edition_that_is_shown_is_no_variant(quick_store, alone):
    experiment = find("M-fig2")
    few = Edition(experiment, experiment.settings().quick().replace(seeds=3)).outcome(quick_store)
    assert collect(quick_store, given={"M-fig2": few}).variants == 0


def test_a_run_until_decided_is_a_variant_with_wider_intervals(quick_store, alone, tmp_path):
    store = Store(shutil.copytree(quick_store.path, tmp_path / "store"))
    experiment = find("M-fig2")
    store.keep(records_of([Edition(experiment, experiment.settings().quick())], until_decided=True))
    variant = section_of(collect(store), "M-fig2").variants[-1]
    assert variant.command == "iclab run M-fig2 --quick --until-decided"
    assert variant.outcome.claims[0]["confidence"] == confidence_after(8)
    assert variant.changes == ()
    fold = render_variants(collect(store)).split(f'id="variant-{variant.folder}"')[1].split("</details>")[0]
    assert "Settings that differ" not in fold


def test_a_users_model_in_a_variant_may_change_or_go(own, user_module):
    experiment, store = own
    edition = Edition(experiment, experiment.settings().replace(model="my_own:Net", seeds=2))
    compute([edition], store, workers=1, quiet=True)
    (variant,) = section_of(collect(store), "M-hybrid").variants
    assert "class Net" in variant.models["Net"]
    assert "Code of Net" in render_variants(collect(store))
    (rows,) = store.path.glob("measurement/*/rows.parquet")
    good = rows.read_bytes()
    rows.write_bytes(b"")
    (variant,) = section_of(collect(store), "M-hybrid").variants
    assert "is corrupted" in variant.problem
    rows.write_bytes(good)
    user_module("my_own", OWN + "\n# changed")
    (variant,) = section_of(collect(store), "M-hybrid").variants
    assert variant.outcome is None
    assert (
        "none of its results; the source of my_own:Mine, my_own:Net has changed since; run it again" in variant.problem
    )
    user_module("my_own", OWN.replace("class Net", "class Other"))
    content = collect(store)
    (variant,) = section_of(content, "M-hybrid").variants
    assert "'my_own:Net': cannot be imported" in variant.problem
    assert "Variant <code>iclab run my_own:Mine --seeds 2" in render_variants(content)


def test_a_variant_without_results_or_with_unknown_settings_is_a_line(alone, tmp_path):
    experiment, store = find("M-fig2"), Store(tmp_path / "store")
    (record,) = records_of([Edition(experiment, experiment.settings().replace(seeds=3))])
    store.keep([record, record | {"settings": record["settings"] | {"gone": 1}}])
    problems = {variant.problem for variant in section_of(collect(store), "M-fig2").variants}
    lost = "the store has none of its results; run it again to have them"
    assert problems == {lost, "its settings are no longer known (gone: unknown key)"}


def test_a_record_that_cannot_be_read_is_warned_of(tmp_path):
    store = Store(tmp_path / "store")
    store.keep([{"experiment": "M-fig2"}])
    (path,) = (store.path / "request").iterdir()
    assert json.loads(path.read_text("utf-8"))["experiment"] == "M-fig2"
    for text in (path.read_text("utf-8"), "{"):  # without its settings, and no JSON
        path.write_text(text)
        with pytest.warns(UserWarning, match="cannot be read"):
            assert store.records() == []


def test_a_request_that_is_refused_leaves_no_record(alone, user_module, tmp_path):
    store = Store(tmp_path / "store")
    experiment = find("M-fig2")
    usual = experiment.settings()
    for settings in (usual, usual.quick()):
        assert records_of([Edition(experiment, settings)]) == []  # the report finds those by itself
    user_module("broken", "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width): raise ValueError")
    refused = Edition(experiment, usual.replace(models=("broken:Net",), step_sizes={"broken:Net": 1.0}))
    with pytest.raises(InputError, match="model = Net, seed 0: cannot be built"):
        compute([refused], store, workers=1, quiet=True)
    assert not store.path.exists()
    (record,) = records_of([Edition(experiment, usual.replace(seeds=3))])
    compute_cells([], store, quiet=True, records=[record])
    assert len(store.records()) == 1
