"""phase-diagram: which frontier its judges find on made-up maps."""

import pytest

from iclab.beyond.phase_settings import PhaseSettings
from iclab.catalog import find
from iclab.theory.outliers import all_outliers

PHASE = find("phase-diagram")
SETTINGS = PhaseSettings(seeds=4)


def made_up(strength, length=lambda fraction, length, adversary: 0.0, steep=1e9):
    """Make rows of four seeds: ``strength(κ_a, κ_a')`` for Mamba, with α^l on top in the maps over lengths."""
    rows = []
    for condition in PHASE.conditions(SETTINGS):
        row = dict(condition.columns)
        fraction, long = row["fraction"], int(row["length"])
        if row["map"] == "length":
            floor = all_outliers(fraction, long)
            error = floor + length(fraction, long, row["adversary"]) if row["model"] == "mamba" else 2 * fraction - 0.4
        else:
            eta = SETTINGS.slow_step_size if row["map"] == "slow" else 1.0
            error = 0.5 if eta * row["train_scale"] ** 2 > steep else strength(row["train_scale"], row["test_scale"])
        more = {"prompts": 10**7, "diverged": False, "error": min(1.0, max(0.0, error))}
        rows += [row | more | {"seed": seed} for seed in range(4)]
    return rows


def verdicts(rows):
    return {claim.id.removeprefix("phase-diagram."): claim.verdict(rows)["verdict"] for claim in PHASE.claims(SETTINGS)}


def ratio_frontier(trained, tested):
    """Errors that fall as κ_a'/κ_a grows: what iclab found."""
    return 0.4 if not trained else min(0.4, 0.05 * (max(tested, 1e-9) / (0.6 * trained)) ** -3)


def test_a_frontier_at_a_ratio_of_strengths():
    found = verdicts(made_up(ratio_frontier, steep=20.0))
    assert (found["restored"], found["moderate"], found["none"]) == ("holds", "holds", "holds")
    assert (found["inside"], found["step"], found["learnt"]) == ("fails", "holds", "fails")
    assert (found["bound"], found["bound-places"], found["half"]) == ("holds", "holds", "holds")


def test_a_frontier_at_one_strength_is_told_apart():
    found = verdicts(made_up(lambda trained, tested: min(0.4, 0.05 * max(tested, 1e-9) ** -3)))
    assert found["restored"] == "fails"


def test_a_gate_that_begins_at_c():
    found = verdicts(made_up(lambda trained, tested: 0.3 if trained < 0.9 else 0.0))
    assert (found["learnt"], found["none"]) == ("holds", "holds")
    assert (found["inside"], found["moderate"]) == ("fails", "fails")


@pytest.mark.parametrize(("adversary", "claim"), [("labels", "bound"), ("places", "bound-places")])
def test_errors_beyond_the_bound_are_noticed(adversary, claim):
    wrong = made_up(ratio_frontier, lambda fraction, length, mine: 0.2 if mine == adversary and length > 100 else 0.0)
    found = verdicts(wrong)
    assert found[claim] == "fails"
    assert {found["bound"], found["bound-places"]} == {"holds", "fails"}


def test_lines_are_drawn_where_theory_has_them():
    assert pytest.approx(3 / 81) == SETTINGS.printed
    assert pytest.approx((3 / 3.6) ** 0.5) == SETTINGS.learnt
    figure = PHASE.chart(made_up(ratio_frontier), SETTINGS)
    assert len(figure.panels) == 5
    names = [series.name for series in figure.panels[0].series]
    assert "κ_a' L = κ_a" in names
    patches = [layer for layer in figure.panels[0].spec(300)["layer"] if layer["mark"].get("type") == "rect"]
    assert len(patches[0]["data"]["values"]) == len(SETTINGS.train_scales) * len(SETTINGS.mamba_scales)


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}
