"""The cells of deep models: which trainings and prompts they share, and what each column changes."""

import pytest

from iclab.catalog import experiments, find
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper
from iclab.papers.mamba.tab1 import TableSettings

TABLES = [id_ for id_ in experiments() if "tab" in id_ or id_ == "M-cq-training"]
TABLES.remove("M-tab6")  # no prompts


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
            "κ_a' = 6": (trained, tested.replace(outliers=tested.outliers.replace(scale=6.0))),
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
