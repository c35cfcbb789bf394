"""sensitivity: when a claim counts as turned, and no verdict without a complete run."""

import pytest

from iclab.catalog import find
from iclab.engines import train
from iclab.probes import measure

pytestmark = pytest.mark.slow

SENSITIVITY = find("sensitivity")
SETTINGS = SENSITIVITY.settings(of=("M-fig2",), seeds=2)
VARIANTS = SETTINGS.variants["M-fig2"]


def rows_of(variant, mamba, linear):
    """Make rows of one variant in which each model has the same error everywhere."""
    for condition in variant.conditions:
        error = {"mamba": mamba, "linear": linear}[condition.columns["model"]]
        measured = {"error": error, "prompts": 10_000, "right": round(10_000 * (1 - error))}
        for seed in (0, 1):
            yield {**condition.columns, "seed": seed, **measured, "diverged": False, **variant.columns}


def verdict(rows):
    (claim,) = SENSITIVITY.claims(SETTINGS)
    return claim.verdict(rows)


def all_rows(errors=lambda variant: (0.0, 1.0)):
    return [row for variant in VARIANTS for row in rows_of(variant, *errors(variant))]


def test_claims_that_all_stay_hold():
    found = verdict(all_rows())
    assert (found["verdict"], found["measured"]) == ("holds", 0)
    assert len(found["points"]) == len(VARIANTS) - 1


def test_one_setting_that_turns_a_claim_is_enough():
    found = verdict(all_rows(lambda variant: (0.5, 1.0) if variant.name == "batch_size = 32" else (0.0, 1.0)))
    assert (found["verdict"], found["where"]) == ("fails", "batch_size = 32")
    assert found["measured"] >= 1


@pytest.mark.parametrize(
    ("usual", "turned"), [("holds", "fails"), ("fails", "holds"), ("holds", "in direction"), ("in direction", "fails")]
)
def test_exactly_one_claim_that_turns_either_way_fails_too(monkeypatch, usual, turned):
    monkeypatch.setattr(
        type(VARIANTS[0]),
        "verdicts",
        lambda self, rows: {"a": turned if self.name == "steps = 125" else usual, "b": "holds"},
    )
    assert verdict(all_rows())["verdict"] == "fails"


@pytest.mark.parametrize("instead", ["undecided", "not run"])
def test_a_claim_that_one_variant_leaves_open_may_have_turned(monkeypatch, instead):
    monkeypatch.setattr(
        type(VARIANTS[0]),
        "verdicts",
        lambda self, rows: {"a": instead if self.name == "steps = 125" else "holds", "b": "holds"},
    )
    found = verdict(all_rows())
    assert (found["verdict"], found["where"]) == ("undecided", "steps = 125")
    assert (found["measured"], found["low"], found["high"]) == (0, 0, 1)


def test_variants_that_all_diverge_prove_nothing():
    rows = all_rows()
    for row in rows:
        if row["changed"] != "as chosen":
            row |= {"error": None, "right": None, "prompts": None, "diverged": True}
    found = verdict(rows)
    assert (found["verdict"], found["measured"]) == ("undecided", 0)
    assert found["high"] == len(find("M-fig2").claims(VARIANTS[0].edition.settings))


def test_a_claim_that_the_settings_leave_out_neither_counts_nor_is_drawn(monkeypatch):
    monkeypatch.setattr(type(VARIANTS[0]), "verdicts", lambda self, rows: {"a": "holds", "left out": "not run"})
    assert verdict(all_rows())["verdict"] == "holds"
    assert {line["not run"] for line in SENSITIVITY.table(all_rows(), SETTINGS)} == {0}


@pytest.mark.parametrize("missing", ["linear", "a seed", "a variant", "all variants"])
def test_nothing_is_claimed_of_what_was_not_run(missing):
    rows = all_rows()
    if missing == "linear":
        rows = [row for row in rows if row["model"] == "mamba"]
    elif missing == "a seed":
        rows = [row for row in rows if row["seed"] == 0 or row["outlier_labels"] == "flip"]
    else:
        gone = ("steps",) if missing == "a variant" else {row["changed"] for row in rows} - {"as chosen"}
        rows = [row for row in rows if row["changed"] not in gone]
    assert verdict(rows)["verdict"] == "not run"


def test_one_setting_is_changed_at_a_time_and_all_that_name_other_values():
    first, *others = VARIANTS
    for variant in others:
        usual, mine = first.edition.settings.model_dump(), variant.edition.settings.model_dump()
        assert [name for name in mine if mine[name] != usual[name]] == [variant.changed]
    assert {variant.changed for variant in others} >= {"test_outlier_scale", "train_tasks", "steps", "step_sizes"}
    assert len({(variant.changed, variant.to) for variant in others}) == len(others)


def test_settings_whose_variants_were_looked_at_can_be_changed():
    settings = SENSITIVITY.settings(of=("M-fig2", "T-fig2"))
    assert settings.variants.keys() == {"M-fig2", "T-fig2"}
    assert settings.quick().variants.keys() == {"M-fig2"}


def test_after_a_colon_only_that_model_is_run_and_only_what_changes_it_is_changed():
    settings = SENSITIVITY.settings(of=("T-fig3:softmax-mlp", "T-fig3:gpt2"))
    changed = {}
    for part, variants in settings.variants.items():
        models = {condition.columns["model"] for variant in variants for condition in variant.conditions}
        assert models == {part.partition(":")[2]}
        changed[part] = {variant.changed for variant in variants[1:]}
    assert "neurons" in changed["T-fig3:softmax-mlp"] - changed["T-fig3:gpt2"]
    assert "gpt2_step_size" in changed["T-fig3:gpt2"] - changed["T-fig3:softmax-mlp"]


def test_every_variant_of_the_full_edition_can_be_run():
    """Run every probe of every variant on one prompt, without training."""
    for part, variants in SENSITIVITY.settings().variants.items():
        assert len(variants) > 5
        for variant in variants:
            asked = {}
            for condition in variant.conditions:
                training = condition.cell.training.training
                asked.setdefault((training.model.label, condition.cell.probe), condition.cell)
            for cell in asked.values():
                training = cell.training.training.replace(
                    recipe=cell.training.training.recipe.replace(steps=0, snapshots=())
                )
                rows = measure(train(training, (0,)), cell.probe, cell.prompts, 1, pruning=cell.pruning)
                assert rows, f"{part} {variant.name}"


def test_what_is_changed_must_be_run():
    with pytest.raises(ValueError, match=r"less = T-fig9: must be one of M-fig2"):
        SENSITIVITY.settings(of=("M-fig2",), less={"T-fig9": {}})
    with pytest.raises(ValueError, match=r"experiment = 'M-fig9': must be one of"):
        SENSITIVITY.settings(of=("M-fig9",))


def test_the_heat_map_has_a_sign_where_a_claim_fails():
    rows = all_rows(lambda variant: (0.5, 1.0) if variant.name == "batch_size = 32" else (0.0, 1.0))
    (panel,) = SENSITIVITY.chart(rows, SETTINGS).panels
    assert panel.x.names == [variant.name for variant in VARIANTS]
    cells = [
        v for layer in panel.spec(100)["layer"] if layer["mark"]["type"] == "rect" for v in layer["data"]["values"]
    ]
    assert len(cells) == len(panel.x.names) * len(panel.y.names)
    assert {cell["x"] for cell in cells if cell["mark"] == "×"} == {"batch_size = 32"}
    assert {cell["series"] for cell in cells} >= {"holds", "fails"}
