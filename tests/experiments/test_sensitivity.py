"""sensitivity: what counts as a claim that turned, and that nothing is claimed of what was not run."""

import pytest

from iclab.experiments import find
from iclab.experiments.sensitivity import variants

SENSITIVITY = find("sensitivity")
SETTINGS = SENSITIVITY.settings(of=("M-fig2",), seeds=2)


def rows_of(variant, mamba, linear):
    """Rows of one variant in which each model has one error everywhere."""
    for model, error in (("mamba", mamba), ("linear", linear)):
        for rule in ("flip", "target", "random"):
            for fraction in variant.settings.outlier_fractions:
                for seed in (0, 1):
                    where = {"model": model, "outlier_labels": rule, "outlier_fraction": fraction, "seed": seed}
                    measured = {"error": error, "prompts": 10_000, "right": round(10_000 * (1 - error))}
                    yield {**where, **measured, "diverged": False, **variant.columns}


def verdict(rows):
    (claim,) = SENSITIVITY.claims(SETTINGS)
    return claim.verdict(rows)


def all_rows(errors=lambda variant: (0.0, 1.0)):
    return [row for variant in variants("M-fig2", SETTINGS) for row in rows_of(variant, *errors(variant))]


def test_claims_that_all_stay_hold():
    found = verdict(all_rows())
    assert (found["verdict"], found["measured"]) == ("holds", 0)
    assert len(found["points"]) == len(variants("M-fig2", SETTINGS)) - 1


def test_one_setting_that_turns_a_claim_is_enough():
    found = verdict(all_rows(lambda variant: (0.5, 1.0) if variant.name == "batch_size = 32" else (0.0, 1.0)))
    assert (found["verdict"], found["where"]) == ("fails", "batch_size = 32")
    assert found["measured"] >= 1


def test_exactly_one_claim_that_turns_fails_too(monkeypatch):
    kind = type(variants("M-fig2", SETTINGS)[0])
    monkeypatch.setattr(
        kind, "verdicts", lambda self, rows: {"a": "fails" if self.name == "steps = 125" else "holds", "b": "holds"}
    )
    assert verdict([])["verdict"] == "fails"


@pytest.mark.parametrize("missing", ["linear", "a variant", "all variants"])
def test_nothing_is_claimed_of_what_was_not_run(missing):
    rows = all_rows()
    if missing == "linear":
        rows = [row for row in rows if row["model"] == "mamba"]
    else:
        gone = ("steps",) if missing == "a variant" else {row["changed"] for row in rows} - {"as chosen"}
        rows = [row for row in rows if row["changed"] not in gone]
    assert verdict(rows)["verdict"] == "not run"


def test_one_setting_is_changed_at_a_time_and_all_that_name_other_values():
    first, *others = variants("M-fig2", SETTINGS)
    for variant in others:
        usual, mine = first.settings.model_dump(), variant.settings.model_dump()
        assert [name for name in mine if mine[name] != usual[name]] == [variant.changed]
    assert {variant.changed for variant in others} >= {"test_outlier_scale", "train_tasks", "steps", "step_sizes"}
    assert len({(variant.changed, variant.to) for variant in others}) == len(others)
