"""The tables and figures of deep models: their cells, the logic of their claims, and what a short training shows."""

import pytest

from iclab.catalog import experiments, find
from iclab.lab import Store, run
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper
from iclab.papers.mamba.tab1 import TableSettings
from iclab.papers.mamba.tab2 import PRINTED
from iclab.papers.mamba.tab4 import LINEAR, SOFTMAX
from iclab.probes import Interval
from iclab.study.claims import Point, every_within
from iclab.study.edition import Edition
from iclab.study.rows import errors, proportion

TABLES = [id_ for id_ in experiments() if "tab" in id_ or id_ == "M-cq-training"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def trainings(id_, settings):
    return {condition.cell.training.hash for condition in find(id_).conditions(settings)}


def test_tables_and_figures_share_their_models():
    base = trainings("M-tab1", TableSettings(models=("deep-mamba",), columns=("as chosen",)))
    for id_ in ("M-fig3", "M-fig4", "M-fig5", "M-fig6", "M-cq-training"):
        assert base <= trainings(id_, find(id_).settings())
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


@pytest.mark.parametrize("changes", [{}, {"steps": 10}, {"steps": 3}, {"watched": (0.5, 0.1, 0.5)}])
def test_cells_keep_their_name_on_their_way_to_another_process(changes):
    for id_ in ("M-tab1", "M-fig4"):
        settings = find(id_).settings().quick().replace(**changes)
        for condition in find(id_).conditions(settings):
            assert (
                type(condition.cell).model_validate_json(condition.cell.model_dump_json()).hash == condition.cell.hash
            )


def test_cq_training_switches_in_the_middle_to_the_same_prompts_but_for_the_place():
    plain, closest = (DeepMambaPaper(cq_training=cq).training("deep-mamba") for cq in (False, True))
    assert plain.recipe.switches == ()
    (switch,) = closest.recipe.switches
    assert switch.step == closest.recipe.steps // 2
    assert switch.prompts.outliers.placement == "closest"
    assert switch.prompts.replace(outliers=plain.prompts.outliers) == plain.prompts
    assert switch.prompts.outliers.replace(placement="random") == plain.prompts.outliers


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
    run([condition.cell for condition in table.conditions(settings)], store, workers=2, quiet=True)
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


# The other experiments' predicates, on rows that were never measured.


def judged(id_, rows, **changes):
    experiment = find(id_)
    settings = experiment.settings().replace(seeds=4, **changes)
    return {claim.id.removeprefix(f"{id_}."): claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}


def cells(accuracies, model, stage="trained", lost=()):
    """Rows for ``accuracies[column] = (FQ, R, CQ)``, four seeds that hardly differ."""
    return [
        {
            "column": column,
            "model": model,
            "stage": stage,
            "placement": place,
            "seed": seed,
            "prompts": 100_000,
            "error": None if (column, seed) in lost else 1 - accuracy + 1e-4 * (seed - 1.5),
            "diverged": (column, seed) in lost,
        }
        for column, values in accuracies.items()
        for place, accuracy in zip(("FQ", "R", "CQ"), values, strict=True)
        for seed in range(4)
    ]


def test_what_softmax_attention_is_said_to_do():
    printed = {"deep-mamba": (0.9973, 0.9967, 0.8273), "deep-linear": (0.937, 0.941, 0.940)}
    others = [row for model, values in printed.items() for row in cells({"as chosen": values}, model)]

    def found(*values, **more):
        return judged("M-tab3", others + cells({"as chosen": values}, "deep-softmax", **more))

    good = found(0.994, 0.9926, 0.9928)
    assert set(good.values()) == {"holds"}
    assert found(0.994, 0.9926, 0.97) == good | {"softmax-high": "fails", "softmax-flat": "fails"}
    assert found(0.95, 0.95, 0.95) == {
        "softmax-high": "fails",
        "softmax-flat": "holds",
        "softmax-better": "fails",
        "softmax-near-mamba": "fails",
        "mamba-cq-drop": "holds",
    }
    assert found(0.994, 0.9926, 0.9928, lost={("as chosen", 2)})["softmax-high"] == "undecided"
    assert judged("M-tab3", others)["softmax-high"] == "not run"


def test_what_training_on_cq_is_said_to_do():
    def found(*after):
        return judged(
            "M-cq-training", cells({"random places": (0.997, 0.997, 0.827), "then closest": after}, "deep-mamba")
        )

    assert found(0.985, 0.985, 0.9545) == {"lift": "holds", "cost": "holds"}
    assert found(0.985, 0.97, 0.9545) == {"lift": "holds", "cost": "fails"}
    assert found(0.985, 0.985, 0.80) == {"lift": "fails", "cost": "holds"}


def test_what_heads_are_said_to_do():
    printed = {f"H = {h}": tuple(x / 100 for x in numbers) for h, numbers in PRINTED.items()}

    def found(**changes):
        rows = cells({"H = 1 with W_V, W_O": printed["H = 1"], **printed, **changes}, "deep-linear")
        return judged("M-tab2", rows)

    assert set(found().values()) == {"holds"}
    swapped = found(**{"H = 2": printed["H = 4"], "H = 4": printed["H = 2"]})
    assert (swapped["two-better"], swapped["4-worse"], swapped["3-worse"]) == ("fails", "fails", "holds")
    assert (swapped["numbers.2"], swapped["numbers.1"]) == ("fails", "holds")
    assert judged("M-tab2", [], heads=(1, 6)).keys() == {"numbers.1"}  # of six heads the paper says nothing


def test_what_more_outliers_are_said_to_do():
    softmax = {f"α = {f:g}": tuple((x or 95.0) / 100 for x in numbers) for f, numbers in SOFTMAX.items()}
    linear = {f"α = {f:g}": tuple(x / 100 for x in numbers) for f, numbers in LINEAR.items()}
    assert set(judged("M-tab4", cells(softmax, "deep-softmax")).values()) == {"holds"}
    dropped = judged("M-tab4", cells(softmax | {"α = 0.8": (0.7, 0.7, 0.7)}, "deep-softmax"))
    assert dropped == {"no-sharp-drop": "fails", "high": "holds", "numbers": "fails"}
    votes = cells(linear, "vote", stage="vote")
    assert set(judged("M-tab5", cells(linear, "deep-linear") + votes).values()) == {"holds"}
    assert judged("M-tab5", cells(softmax, "deep-linear") + votes)["sharp-drop"] == "fails"
    alone = judged("M-tab4", cells({"α = 0.9": (0.5, 0.5, 0.5)}, "deep-softmax"), outlier_fractions=(0.9,))
    assert set(alone.values()) == {"not run"}  # nothing to compare it with


def attention(same, other, layers=(1, 2, 3), steps=(0, 500), lost=()):
    """Rows with ``same[step]`` and ``other[step]`` in every layer."""
    rows = []
    for step in steps:
        for seed in range(4):
            gone = (step, seed) in lost
            for layer in (None,) if gone else layers:
                values = (
                    {"same": None, "other": None} if gone else {"same": same[step] + 0.01 * seed, "other": other[step]}
                )
                rows.append({"step": step, "seed": seed, "layer": layer, "diverged": gone, **values})
    return rows


def test_where_attention_is_said_to_go():
    good = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0})
    assert judged("M-fig3", good) == {"same-larger.layer1": "holds", "gap-grows.layer1": "holds"}
    assert set(judged("M-fig5", good).values()) == {"holds"}
    negative = attention({0: 5.0, 500: -1.0}, {0: 0.0, 500: -0.6})  # less than the others, though above twice them
    assert judged("M-fig3", negative) == {"same-larger.layer1": "fails", "gap-grows.layer1": "fails"}
    shrinking = attention({0: 9.0, 500: 5.0}, {0: 0.0, 500: 1.0})
    assert judged("M-fig3", shrinking) == {"same-larger.layer1": "holds", "gap-grows.layer1": "fails"}
    late = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, steps=(500,))
    assert judged("M-fig3", late) == {"same-larger.layer1": "holds", "gap-grows.layer1": "not run"}
    lost = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, lost={(500, 1)})
    assert judged("M-fig3", lost) == {"same-larger.layer1": "undecided", "gap-grows.layer1": "undecided"}
    shallow = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, layers=(1, 2))
    assert judged("M-fig5", shallow)["same-larger.layer3"] == "not run"


def gates(stages, layer=1, fade=0.6):
    """Rows of gates that fade by a factor, those of outliers a share ``stages[stage]`` of clean ones."""
    return [
        {
            "stage": stage,
            "seed": seed,
            "layer": layer,
            "kind": kind,
            "place": place,
            "gate": (share if kind == "outlier" else 1.0) * (0.2 + 0.001 * seed) * fade ** (place - 1),
            "diverged": False,
        }
        for stage, share in stages.items()
        for seed in range(4)
        for kind in ("clean", "outlier", "clean_rank")
        for place in range(1, 21)
    ]


def test_what_gates_are_said_to_do():
    paper = {"untrained": 1.0, "trained": 0.02, "closest": 0.02, "one layer": 0.02, "one layer, norm": 0.02}
    assert set(judged("M-fig4", gates(paper)).values()) == {"holds"}
    found = judged("M-fig4", gates(paper | {"trained": 1.1, "one layer": 0.3}))
    assert {name for name, verdict in found.items() if verdict == "fails"} == {
        "outlier-small.layer1",
        "training-shuts.layer1",
        "outlier-small.one-layer",
    }
    assert judged("M-fig4", gates(paper, fade=0.4))["half-life.layer1"] == "fails"
    assert judged("M-fig4", gates(paper, fade=1.1))["decay.layer1"] == "fails"
    few = {stage: share for stage, share in paper.items() if not stage.startswith("one")}
    missing = judged("M-fig4", gates(few))
    assert {name for name, verdict in missing.items() if verdict == "not run"} == {
        "outlier-small.one-layer",
        "outlier-small.one-layer.norm",
    }
    nobody = [row | {"gate": None if row["kind"] == "outlier" else row["gate"]} for row in gates(paper)]
    assert judged("M-fig4", nobody)["outlier-small.layer1"] == "not run"  # there was no outlier


@pytest.mark.parametrize(
    ("id_", "changes", "message"),
    [
        ("M-tab1", {"columns": ("as chosen", "as chosen")}, "must all be different"),
        ("M-tab4", {"outlier_fractions": (0.5, 0.5)}, "must all be different"),
        ("M-tab2", {"heads": (0,)}, "greater than or equal to 1"),
        ("M-fig4", {"context_length": 5}, "near = 8: must be at most context_length = 5"),
        ("M-fig3", {"watched": (2.0,)}, "less than or equal to 1"),
    ],
)
def test_bad_settings_are_refused(id_, changes, message):
    with pytest.raises(ValueError, match=message):
        find(id_).settings().replace(**changes)


def test_each_column_changes_what_it_says_and_nothing_else():
    settings = TableSettings()
    cells = {}
    for condition in find("M-tab1").conditions(settings):
        if condition.columns["placement"] == "CQ" and condition.columns["stage"] == "trained":
            cells[condition.columns["column"], condition.columns["model"]] = condition.cell
    for model in settings.models:
        base = cells["as chosen", model]
        trained, tested = base.training.training, base.prompts
        short = trained.prompts.patterns.replace(outlier_norm=1.0)
        norm = {"rms": "none", "none": "rms"}[trained.model.options["norm"]]
        normed = trained.model.replace(options={**trained.model.options, "norm": norm})
        expected = {
            "labels flipped": (trained, tested.replace(outliers=tested.outliers.replace(labels="flip"))),
            "κ_a' = 2": (trained, tested.replace(outliers=tested.outliers.replace(scale=2.0))),
            "seen outliers": (trained, tested.replace(outliers=tested.outliers.replace(patterns="training"))),
            "U = 1": (trained.replace(prompts=trained.prompts.replace(tasks="ring:1")), tested),
            "outlier norm 1": (
                trained.replace(prompts=trained.prompts.replace(patterns=short)),
                tested.replace(patterns=short),
            ),
            "norm exchanged": (trained.replace(model=normed), tested),
        }
        for column, (training, prompts) in expected.items():
            assert (training, prompts) != (trained, tested)
            assert cells[column, model].training.training == training
            assert cells[column, model].prompts == prompts
        assert (("step size × 5", model) in cells) == (model == "deep-mamba")
    mamba = cells["as chosen", "deep-mamba"].training.training.recipe
    assert cells["step size × 5", "deep-mamba"].training.training.recipe == mamba.replace(step_size=5 * mamba.step_size)


def test_untrained_models_and_votes_are_measured_where_they_should_be():
    found = {
        (c.columns["stage"], c.columns["model"], c.cell.probe, c.cell.at)
        for c in find("M-tab1").conditions(TableSettings(columns=("as chosen",)))
    }
    models = TableSettings().models
    expected = {("trained", m, "error", 500) for m in models} | {("untrained", m, "error", 0) for m in models}
    assert found == expected | {("vote", "vote", "vote", 0)}
