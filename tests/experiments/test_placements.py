"""The tables and figures of deep models: their cells, the logic of their claims, and what a short training shows."""

import pytest

from iclab.experiments import experiments, find
from iclab.experiments.claims import Point, every_within
from iclab.experiments.m_tab1 import TableSettings
from iclab.experiments.outcome import Outcome
from iclab.experiments.placements import errors, proportion
from iclab.experiments.settings import PLACEMENTS, DeepMambaPaper
from iclab.lab import Store, run
from iclab.probes import Interval

TINY = {"steps": 20, "batch_size": 4, "test_prompts": 20, "seeds": 2}
TABLES = [id_ for id_ in experiments() if "tab" in id_ or id_ == "M-cq-training"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def tiny(id_):
    return find(id_).settings().quick().changed(**TINY)


@pytest.mark.parametrize("id_", experiments())
def test_every_experiment_runs_draws_and_judges(id_, store, tmp_path):
    experiment, settings = find(id_), tiny(id_)
    run([condition.cell for condition in experiment.conditions(settings)], store, workers=1, quiet=True)
    outcome = Outcome.of(experiment, settings, store)
    assert outcome.complete
    assert outcome.write(tmp_path).stat().st_size > 10_000
    lines = experiment.table(outcome.rows, settings)
    assert len({tuple(line) for line in lines}) == 1  # the same keys in each
    ids = [claim["id"] for claim in outcome.claims]
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(id_.startswith(f"{experiment.id}.") for id_ in ids)


def trainings(id_, settings):
    return {condition.cell.training.hash for condition in find(id_).conditions(settings)}


def test_tables_and_figures_share_their_models():
    base = trainings("M-tab1", TableSettings(models=("deep-mamba",), columns=("as chosen",)))
    for id_ in ("M-fig3", "M-fig4", "M-fig5", "M-fig6", "M-cq-training"):
        assert base < trainings(id_, find(id_).settings()) or base == trainings(id_, find(id_).settings())
    for id_ in ("M-tab4", "M-tab5"):
        assert trainings(id_, find(id_).settings()) < trainings("M-tab3", find("M-tab3").settings())
    quick = trainings("M-tab1", TableSettings().quick())
    for id_ in ("M-tab3", "M-tab4", "M-tab5"):
        assert trainings(id_, find(id_).settings().quick()) <= quick
    one_head = {
        c.cell.training.hash
        for c in find("M-tab2").conditions(find("M-tab2").settings())
        if c.columns["column"] == "H = 1"
    }
    assert one_head < trainings("M-tab3", find("M-tab3").settings())


@pytest.mark.parametrize("id_", TABLES)
def test_models_of_one_column_share_all_data(id_):
    table, settings = find(id_), find(id_).settings()
    found = {}
    for condition in table.conditions(settings):
        if condition.columns["placement"] in PLACEMENTS.values():
            key = (condition.columns["column"], condition.columns["placement"])
            found.setdefault(key, set()).add((condition.cell.prompts, condition.cell.training.training.prompts))
    assert all(len(data) == 1 for data in found.values())


def test_cq_training_switches_in_the_middle_to_the_same_prompts_but_for_the_place():
    plain, closest = (DeepMambaPaper(cq_training=cq).training("deep-mamba") for cq in (False, True))
    assert plain.recipe.switches == ()
    (switch,) = closest.recipe.switches
    assert switch.step == closest.recipe.steps // 2
    assert switch.prompts.outliers.placement == "closest"
    assert switch.prompts.model_copy(update={"outliers": plain.prompts.outliers}) == plain.prompts
    assert switch.prompts.outliers.model_copy(update={"placement": "random"}) == plain.prompts.outliers


def test_a_short_training_shows_what_the_table_is_about(store):
    """Mamba minds where outliers stand, the linear model does not; under flipped labels Mamba is far ahead."""
    table = find("M-tab1")
    settings = (
        table.settings()
        .quick()
        .changed(
            steps=80,
            step_sizes={"deep-mamba": 0.1, "deep-linear": 0.1},
            models=("deep-mamba", "deep-linear"),
            test_prompts=300,
        )
    )
    run([condition.cell for condition in table.conditions(settings)], store, workers=2, quiet=True)
    rows = table.rows(settings, store)

    def accuracy(model, placement, column="as chosen", stage="trained"):
        return 1 - proportion(rows, model=model, placement=placement, column=column, stage=stage).mean

    assert accuracy("deep-mamba", "FQ") > 0.98
    assert accuracy("deep-mamba", "CQ") < accuracy("deep-mamba", "R") - 0.05
    for place in ("FQ", "CQ"):
        assert accuracy("deep-linear", place) == pytest.approx(accuracy("deep-linear", "R"), abs=0.02)
    for place in ("FQ", "R"):
        ahead = accuracy("deep-mamba", place, "labels flipped") - accuracy("deep-linear", place, "labels flipped")
        assert ahead > 0.2
    assert accuracy("vote", "R", stage="vote") == pytest.approx(0.933, abs=0.015)
    assert accuracy("deep-mamba", "CQ", stage="untrained") < accuracy("deep-mamba", "CQ")
    assert accuracy("deep-mamba", "as trained") > 0.98


GOOD = {
    "deep-mamba": {"FQ": 0.997, "R": 0.997, "CQ": 0.827},
    "deep-linear": {"FQ": 0.937, "R": 0.941, "CQ": 0.940},
    "vote": {"FQ": 0.934, "R": 0.933, "CQ": 0.934},
}


def made_up(changes=None, diverged=()):
    """Rows of a table that was never measured: the paper's numbers, with a little spread between seeds."""
    rows = []
    for column in TableSettings().columns:
        for model, places in GOOD.items():
            for place, accuracy in places.items():
                value = (changes or {}).get((column, model, place), accuracy)
                for seed in range(8):
                    lost = (column, model, seed) in diverged
                    spread = 0.0005 * (seed - 3.5)
                    rows.append(
                        {
                            "column": column,
                            "model": model,
                            "stage": "vote" if model == "vote" else "trained",
                            "placement": place,
                            "seed": seed,
                            "prompts": 40_000,
                            "error": None if lost else min(1.0, max(0.0, 1 - value - spread)),
                            "diverged": lost,
                        }
                    )
    return rows


def verdicts(rows):
    settings = TableSettings(seeds=8)
    return {claim.id.removeprefix("M-tab1."): claim.verdict(rows) for claim in find("M-tab1").claims(settings)}


def test_a_table_like_the_papers_holds():
    found = {name: verdict["verdict"] for name, verdict in verdicts(made_up()).items()}
    assert found.pop("mamba-better.flipped") == "fails"  # the made-up columns are all alike, and 6 points are not 10
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize(
    ("claim", "cell", "value", "verdict"),
    [
        ("mamba-fq", ("as chosen", "deep-mamba", "FQ"), 0.98, "fails"),
        ("mamba-fq", ("as chosen", "deep-mamba", "FQ"), 0.99, "undecided"),
        ("mamba-r", ("as chosen", "deep-mamba", "R"), 0.97, "fails"),
        ("mamba-cq-drop", ("as chosen", "deep-mamba", "CQ"), 0.93, "fails"),
        ("linear-flat", ("as chosen", "deep-linear", "CQ"), 0.96, "fails"),
        ("linear-level.U3", ("as chosen", "deep-linear", "CQ"), 0.96, "fails"),
        ("linear-level.U1", ("as chosen", "deep-linear", "CQ"), 0.96, "holds"),
        ("linear-level.U1", ("U = 1", "deep-linear", "FQ"), 0.915, "fails"),
        ("mamba-better", ("as chosen", "deep-linear", "R"), 0.99, "fails"),
        ("mamba-better.both-with-norm", ("norm exchanged", "deep-linear", "R"), 1.0, "fails"),
        ("mamba-better.flipped", ("labels flipped", "deep-linear", "R"), 0.5, "fails"),
        ("mamba-beats-vote", ("as chosen", "vote", "FQ"), 0.99, "fails"),
    ],
)
def test_a_table_unlike_the_papers_does_not(claim, cell, value, verdict):
    assert verdicts(made_up({cell: value}))[claim]["verdict"] == verdict


def test_flipped_labels_need_both_places():
    low = {("labels flipped", "deep-linear", place): 0.5 for place in ("FQ", "R")}
    assert verdicts(made_up(low))["mamba-better.flipped"]["verdict"] == "holds"


def test_a_diverged_seed_forbids_holds_and_is_counted():
    found = verdicts(made_up(diverged={("as chosen", "deep-linear", 5)}))
    assert found["linear-flat"]["verdict"] == "undecided"
    assert "diverged" in found["linear-flat"]["where"]
    assert found["mamba-better"]["verdict"] == "undecided"
    assert found["mamba-fq"]["verdict"] == "holds"


def test_missing_seeds_are_not_run():
    rows = [row for row in made_up() if (row["model"], row["seed"]) != ("deep-linear", 3)]
    found = verdicts(rows)
    assert found["linear-flat"]["verdict"] == found["mamba-better"]["verdict"] == "not run"
    assert found["mamba-fq"]["verdict"] == "holds"


def test_within_fails_on_either_side():
    def judge(low, high):
        return every_within([Point((low + high) / 2, Interval(low, high), "there")], -0.01, 0.01).verdict

    assert [judge(-0.005, 0.005), judge(0.02, 0.03), judge(-0.03, -0.02)] == ["holds", "fails", "fails"]
    assert [judge(-0.02, 0.005), judge(0.0, 0.02), judge(-0.02, 0.02)] == ["undecided"] * 3
    assert every_within([], -1, 1).verdict == "not run"


def test_cells_are_found_by_their_columns():
    rows = made_up()
    where = {"column": "U = 1", "model": "deep-mamba", "placement": "CQ", "stage": "trained"}
    assert len(errors(rows, **where)) == 8
    assert 1 - proportion(rows, **where).mean == pytest.approx(0.827)
    assert proportion(rows, **where | {"column": "elsewhere"}) is None


def test_printed_numbers_agree_where_the_paper_prints_them_twice():
    """M-tab1's linear model is M-tab2's H = 1 and M-tab5's α = 0.5; softmax at CQ is printed twice, differently."""
    linear = find("M-tab1").numbers["as chosen", "deep-linear"]
    assert linear == find("M-tab2").numbers["H = 1", "deep-linear"] == find("M-tab5").numbers["α = 0.5", "deep-linear"]
    assert linear == find("M-tab3").numbers["as chosen", "deep-linear"]
    first, second = (
        find("M-tab3").numbers["as chosen", "deep-softmax"],
        find("M-tab4").numbers["α = 0.5", "deep-softmax"],
    )
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == (99.28, 99.38)
    assert find("M-tab4").numbers["α = 0.8", "deep-softmax"][2] is None  # a misprint, left out
