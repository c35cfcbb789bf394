"""M-tab1: what a short training shows, and the verdicts on made-up rows."""

import pytest
from made_up_rows import drawn

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.papers.mamba.tab1 import TableSettings
from iclab.probes import Interval
from iclab.study.claims import Point, every_within
from iclab.study.edition import Edition
from iclab.study.rows import errors, proportion

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def test_a_short_training_shows_what_the_table_is_about(store):
    """Mamba minds where outliers stand, the linear model does not; under flipped labels Mamba is far ahead."""
    table = find("M-tab1")
    settings = (
        table.settings()
        .quick()
        .replace(
            steps=80,
            step_sizes={"deep-mamba": 0.1, "deep-linear": 0.1},
            models=("deep-mamba", "deep-linear"),
            test_prompts=300,
        )
    )
    run([condition.cell for condition in table.conditions(settings)], store, workers=1, quiet=True)
    rows = Edition(table, settings).rows(store)

    def accuracy(model, placement, column="as chosen", stage="trained"):
        return 1 - proportion(rows, model=model, placement=placement, column=column, stage=stage).mean

    assert accuracy("deep-mamba", "FQ") > 0.98
    assert accuracy("deep-mamba", "CQ") < accuracy("deep-mamba", "R") - 0.05
    for place in ("FQ", "CQ"):
        assert accuracy("deep-linear", place) == pytest.approx(accuracy("deep-linear", "R"), abs=0.06)
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
    """Make rows with the paper's numbers and small differences between seeds."""
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
    assert found.pop("mamba-better.flipped") == "in direction"  # the columns are alike, and 6 points are not 10
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize(
    ("claim", "cell", "value", "verdict"),
    [
        ("mamba-fq", ("as chosen", "deep-mamba", "FQ"), 0.98, "fails"),
        ("mamba-fq", ("as chosen", "deep-mamba", "FQ"), 0.99, "undecided"),
        ("mamba-r", ("as chosen", "deep-mamba", "R"), 0.97, "fails"),
        ("mamba-cq-drop", ("as chosen", "deep-mamba", "CQ"), 0.93, "in direction"),
        ("mamba-cq-drop", ("as chosen", "deep-mamba", "CQ"), 0.999, "fails"),
        ("linear-flat", ("as chosen", "deep-linear", "CQ"), 0.96, "fails"),
        ("linear-level.U3", ("as chosen", "deep-linear", "CQ"), 0.96, "fails"),
        ("linear-level.U1", ("as chosen", "deep-linear", "CQ"), 0.96, "holds"),
        ("linear-level.U1", ("U = 1", "deep-linear", "FQ"), 0.915, "fails"),
        ("linear-level.scale6", ("κ_a' = 6", "deep-linear", "R"), 0.88, "fails"),
        ("mamba-better", ("as chosen", "deep-linear", "R"), 0.99, "in direction"),
        ("mamba-better.both-with-norm", ("norm exchanged", "deep-linear", "R"), 1.0, "fails"),
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


def test_the_chart_has_one_panel_per_column_with_the_papers_numbers():
    figure = find("M-tab1").chart(made_up(diverged={("U = 1", "deep-linear", 5)}), TableSettings(seeds=8))
    assert [panel.title for panel in figure.panels] == list(TableSettings().columns)
    panels = {panel.title: panel for panel in figure.panels}
    means = [value["y"] for value in drawn(panels["as chosen"], "Mamba", type="point", opacity=1)]
    assert means == pytest.approx([99.7, 99.7, 82.7])
    assert len(drawn(panels["as chosen"], "Mamba", type="point", opacity=0.3)) == 3 * 8  # one faint dot per seed
    printed = [value["y"] for value in drawn(panels["as chosen"], "the paper", type="point")]
    assert sorted(printed) == sorted((99.73, 99.67, 82.73, 93.68, 94.12, 93.96))
    assert not drawn(panels["U = 1"], "the paper", type="point")
    notes = {title: "1/8 diverged" in str(panel.spec(100)) for title, panel in panels.items()}
    assert [title for title, found in notes.items() if found] == ["U = 1"]
