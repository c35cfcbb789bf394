"""M-fig2: the paper's results at a size that takes seconds, and the logic of its claims."""

import pytest
from made_up_rows import drawn

from iclab.catalog import experiments, find
from iclab.engines import Training
from iclab.lab import Store, run
from iclab.papers.mamba.fig2 import UNKNOWN, FigureSettings, floor
from iclab.study.edition import Edition
from iclab.study.settings import YOURS, Chosen, Disclosed
from iclab.theory.outliers import all_outliers, linear_outlier_bound, mamba_outlier_bound

pytestmark = pytest.mark.slow

FIGURE = find("M-fig2")
SMALL = FigureSettings(seeds=8, test_prompts=2_000, outlier_fractions=(0.0, 0.6, 0.8))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def rows_of(settings, store):
    run([condition.cell for condition in FIGURE.conditions(settings)], store, workers=1, quiet=True)
    return Edition(FIGURE, settings).rows(store)


def mean(rows, model, rule, fraction):
    found = [
        row["error"]
        for row in rows
        if (row["model"], row["outlier_labels"], row["outlier_fraction"]) == (model, rule, fraction)
    ]
    assert len(found) == 8
    return sum(found) / 8


def test_mamba_survives_what_the_linear_transformer_does_not(store):
    rows = rows_of(SMALL, store)
    assert mean(rows, "mamba", "flip", 0.0) == mean(rows, "linear", "flip", 0.0) == 0
    assert mean(rows, "mamba", "flip", 0.6) < 0.001
    assert mean(rows, "linear", "flip", 0.6) > 0.7
    assert mean(rows, "linear", "random", 0.8) == pytest.approx(0.21, abs=0.03)
    assert mean(rows, "mamba", "flip", 0.8) == pytest.approx(floor(SMALL, "flip", 0.8), abs=0.005)
    assert mean(rows, "mamba", "random", 0.8) == pytest.approx(floor(SMALL, "random", 0.8), abs=0.004)
    assert mean(rows, "mamba", "worst", 0.8) == pytest.approx(floor(SMALL, "worst", 0.8), abs=0.005)
    assert mean(rows, "linear", "worst", 0.6) == pytest.approx(0.806, abs=0.015)
    for row in rows:  # on the same prompts, worst labels are at least as bad as any rule
        if row["outlier_labels"] != "worst":
            same = {name: row[name] for name in ("model", "outlier_fraction", "seed")}
            (worst,) = (other for other in rows if other.items() >= (same | {"outlier_labels": "worst"}).items())
            assert worst["error"] >= row["error"]


def test_only_models_of_one_layer_have_worst_labels():
    settings = SMALL.replace(models=("mamba", "softmax"), baselines=False)
    rules = {
        model: {c.columns["outlier_labels"] for c in FIGURE.conditions(settings) if c.columns["model"] == model}
        for model in settings.models
    }
    assert rules == {"mamba": {"flip", "target", "random", "worst"}, "softmax": {"flip", "target", "random"}}
    with pytest.raises(ValueError, match="probe = worst: model softmax"):
        FIGURE.conditions(settings.replace(label_rules=("worst",)))


def test_the_panel_of_worst_labels_says_why_a_model_has_no_curve():
    rows = [row | {"outlier_labels": rule} for row in made_up(GOOD) for rule in ("flip", "worst")]

    def notes(*models):
        figure = FIGURE.chart(rows, SMALL.replace(label_rules=("flip", "worst"), models=models))
        return [[note["text"] for note in panel._notes] for panel in figure.panels]

    assert notes("mamba", "linear") == [[], [], [], []]
    assert notes("mamba", "softmax") == [[], list(UNKNOWN), [], []]


def test_claims_about_worst_labels_are_iclabs_own():
    ours = {claim.id for claim in FIGURE.claims(SMALL) if claim.ours}
    assert {f"M-fig2.{name}.worst" for name in ("mamba-small", "mamba-excess", "linear-large", "gap")} < ours
    assert {id_.rpartition(".")[2] for id_ in ours if "excess" not in id_} == {"worst"}


def test_exact_counts_leave_always_something_to_go_by(store):
    rows = rows_of(SMALL.replace(counting="exact"), store)
    assert mean(rows, "mamba", "flip", 0.8) < 0.001


def test_unstated_settings_matter_as_documented(store):
    weak = rows_of(SMALL.replace(test_outlier_scale=2.0), store)
    assert mean(weak, "mamba", "flip", 0.8) == pytest.approx(0.31, abs=0.06)
    few_tasks = rows_of(SMALL.replace(train_tasks="ring:1"), store)
    assert mean(few_tasks, "mamba", "flip", 0.0) == pytest.approx(0.07, abs=0.02)


def test_both_engines_draw_the_same_curve(tmp_path):
    tiny = SMALL.replace(steps=60, test_prompts=500, seeds=2, outlier_fractions=(0.6,), label_rules=("flip",))
    curves = []
    for engine in ("fused", "reference"):
        rows = rows_of(tiny.replace(engine=engine), Store(tmp_path / engine))
        curves.append([row["error"] for row in rows])
    assert curves[0] == pytest.approx(curves[1], abs=0.02)


def test_every_setting_says_where_it_comes_from():
    for experiment in experiments().values():
        provenance = experiment.settings.provenance()
        assert provenance.keys() == experiment.settings.model_fields.keys()
        for mark in provenance.values():
            assert isinstance(mark, (Disclosed, Chosen))
            assert mark is not YOURS  # as those of users' own settings without a mark are
            assert len(mark.where if isinstance(mark, Disclosed) else mark.why) > 3


def test_conditions_are_a_pure_function_of_settings():
    first, second = (FIGURE.conditions(FigureSettings()) for _ in range(2))
    assert [c.cell.hash for c in first] == [c.cell.hash for c in second]
    trainings = {c.cell.training.hash for c in first}
    assert len(trainings) == 4  # two models, two groups of seeds; every panel and point shares them
    assert isinstance(first[0].cell.training.training, Training)
    assert {c.cell.training.hash for c in FIGURE.conditions(FigureSettings().quick())} < trainings


def made_up(errors, seeds=8, prompts=10_000, diverged=()):
    """Make rows with ``errors[model]`` at each fraction and small differences between seeds."""
    return [
        {
            "model": model,
            "outlier_labels": "flip",
            "outlier_fraction": fraction,
            "seed": seed,
            "prompts": prompts,
            "error": None if (model, seed) in diverged else value * (1 + 0.01 * (seed - 3.5)),
            "diverged": (model, seed) in diverged,
        }
        for model, values in errors.items()
        for fraction, value in values.items()
        for seed in range(seeds)
    ]


def verdicts(rows):
    settings = SMALL.replace(label_rules=("flip",), outlier_fractions=(0.0, 0.6, 0.8))
    return {claim.id.split(".")[1]: claim.verdict(rows) for claim in FIGURE.claims(settings)}


GOOD = {"mamba": {0.0: 0.0, 0.6: 0.001, 0.8: 0.008}, "linear": {0.0: 0.0, 0.6: 0.8, 0.8: 0.9}}


def test_a_figure_like_the_papers_holds():
    assert {v["verdict"] for v in verdicts(made_up(GOOD)).values()} == {"holds"}


@pytest.mark.parametrize(
    ("claim", "model", "fraction", "value", "verdict"),
    [
        ("mamba-small", "mamba", 0.6, 0.02, "fails"),
        ("mamba-small", "mamba", 0.8, 0.01, "undecided"),
        ("mamba-excess", "mamba", 0.8, 0.018, "holds"),
        ("mamba-excess", "mamba", 0.8, 0.03, "fails"),
        ("linear-large", "linear", 0.6, 0.05, "fails"),
        ("gap", "linear", 0.6, 0.005, "fails"),
    ],
)
def test_a_figure_unlike_the_papers_does_not(claim, model, fraction, value, verdict):
    spoiled = GOOD | {model: GOOD[model] | {fraction: value}}
    assert verdicts(made_up(spoiled))[claim]["verdict"] == verdict


def test_a_diverged_seed_forbids_holds():
    found = verdicts(made_up(GOOD, diverged={("mamba", 3)}))
    assert found["mamba-small"]["verdict"] == "undecided"
    assert "diverged" in found["mamba-small"]["where"]
    assert found["linear-large"]["verdict"] == "holds"


def test_missing_rows_are_not_run():
    rows = [row for row in made_up(GOOD) if row["outlier_fraction"] != 0.6 or row["seed"] != 5]
    assert {v["verdict"] for v in verdicts(rows).values()} == {"not run"}


def test_theory_of_outliers():
    assert mamba_outlier_bound(0.6, 20, 20) == 0.6
    assert mamba_outlier_bound(0.6, 40, 20) == 1.0
    assert linear_outlier_bound() == 0.5
    assert all_outliers(0.8, 20) == pytest.approx(0.8**20)
    assert all_outliers(0.95, 20, exact=True) == 0.0
    assert all_outliers(1.0, 20, exact=True) == 1.0


def test_the_chart_shows_means_and_marks_points_without_errors():
    settings = SMALL.replace(label_rules=("flip",))
    figure = FIGURE.chart(made_up(GOOD), settings)
    linear, logarithmic = figure.panels
    assert (linear.y.scale, logarithmic.y.scale) == ("linear", "log")
    curve = [(value["x"], value["y"]) for value in drawn(linear, "linear Transformer", type="line")]
    assert curve == [(x, pytest.approx(y)) for x, y in GOOD["linear"].items()]
    assert [value["x"] for value in drawn(logarithmic, "Mamba", type="point", fill="#ffffff")] == [0.0]
    assert {"Mamba", "linear Transformer", "no error seen"} <= {entry["name"] for entry in figure.page()["legend"]}


def test_a_claim_that_a_grid_cannot_judge_says_why():
    figure = find("M-fig2")
    few = figure.settings(outlier_fractions=(0.0, 0.6), label_rules=("flip",))
    judged = {claim.id: claim.verdict([]) for claim in figure.claims(few)}
    assert judged["M-fig2.gap.flip"]["where"] == "not judged without α = 0.8 and one above 0.5, at most 0.6"
    assert judged["M-fig2.mamba-small.flip"]["verdict"] == "not run"
    whole = {claim.id: claim.verdict([]) for claim in figure.claims(figure.settings())}
    assert whole["M-fig2.gap.flip"]["where"] == ""
