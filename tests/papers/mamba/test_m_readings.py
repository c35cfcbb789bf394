"""M-readings: what its judges say of rows in which one reading, or none, gives both claims."""

import pytest

from iclab.papers.mamba.readings import BELOW, BEYOND, CLOSE, RULES, STATE, Readings, ReadingsSettings, state_of, where

SETTINGS = ReadingsSettings(seeds=8, scales=(20 / 3,), countings=("bernoulli", "exact"))


def rows_of(mamba, linear):
    """Return rows with the given errors by set of training tasks, the same for every seed, rule and fraction."""
    rows = []
    for tasks in SETTINGS.task_sets:
        for counting in SETTINGS.countings:
            for rule in RULES:
                for seed in range(8):
                    for model, fractions, error in (
                        ("mamba", (0.0, BELOW, CLOSE), mamba[tasks]),
                        ("linear", (BEYOND,), linear[tasks]),
                    ):
                        for fraction in fractions:
                            columns = where(model, tasks, 20 / 3, counting, rule, fraction)
                            rows.append(columns | {"seed": seed, "error": error, "prompts": 10_000, "diverged": False})
    return rows


def verdicts(rows):
    return {claim.id.partition(".")[2]: claim.verdict(rows)["verdict"] for claim in Readings().claims(SETTINGS)}


def by_tasks(*errors):
    return dict(zip(SETTINGS.task_sets, errors, strict=True))


def test_no_set_of_tasks_gives_both():
    found = verdicts(rows_of(by_tasks(0.1, 0.08, 0.001, 0.001), by_tasks(0.15, 0.11, 0.03, 0.03)))
    assert found["both"] == "fails"
    assert (found["linear-large.ring:1"], found["linear-large.ring:3"]) == ("holds", "fails")
    assert found["mamba-below"] == found["mamba-close"] == found["mamba-close-exact"] == "holds"


def test_one_set_that_gives_both_is_enough():
    found = verdicts(rows_of(by_tasks(0.1, 0.005, 0.001, 0.001), by_tasks(0.15, 0.2, 0.03, 0.03)))
    assert found["both"] == "holds"


@pytest.mark.parametrize("error", [0.02, 0.5])
def test_a_mamba_that_errs_is_noticed(error):
    found = verdicts(rows_of(by_tasks(0.1, 0.1, error, 0.0), by_tasks(0.2, 0.2, 0.2, 0.2)))
    assert found["mamba-below"] == "fails"
    assert found["both"] == "holds"  # all tasks still give both


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}


def test_every_claim_is_about_measured_cells():
    columns = [condition.columns for condition in Readings().conditions(SETTINGS)]
    assert len({tuple(c.items()) for c in columns}) == 4 * 2 * (3 * 2 + 1 + 3) + 2 + 2 * 4


@pytest.mark.parametrize(("error", "verdict"), [(0.001, "holds"), (0.2, "fails")])
def test_a_small_state_is_judged_by_its_own_rows(error, verdict):
    rows = [
        where("mamba", STATE, 20 / 3, "bernoulli", "flip", fraction)
        | {"seed": seed, "error": error, "prompts": 10_000, "diverged": False}
        for fraction in (0.0, BELOW)
        for seed in range(8)
    ]
    assert verdicts(rows)["state"] == verdict


@pytest.mark.parametrize(("more", "verdict"), [(0.001, "holds"), (0.05, "fails")])
def test_what_a_small_state_costs_is_seen_on_paired_seeds(more, verdict):
    rows = []
    for length in SETTINGS.state_lengths:
        for fraction in (0.0, BELOW):
            for seed in range(8):
                for m, extra in (("l + 1", more), ("d", 0.0)):
                    columns = where("mamba", state_of(m, length), 20 / 3, "bernoulli", "flip", fraction)
                    error = 0.2 * fraction + 0.01 * seed + extra
                    rows.append(columns | {"seed": seed, "error": error, "prompts": 10_000, "diverged": False})
    assert verdicts(rows)["state-short"] == verdict
