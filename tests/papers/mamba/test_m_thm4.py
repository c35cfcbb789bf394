"""M-thm4: whether its judges tell one law of lengths from another."""

import pytest

from iclab.catalog import find
from iclab.papers.mamba.thm4_settings import Thm4Settings
from iclab.theory.votes import chernoff_rate, length_claimed

THM4 = find("M-thm4")
SETTINGS = Thm4Settings(seeds=4)


def chernoff(fraction):
    return 2.7 / chernoff_rate(fraction)


def made_up(needed, mamba=4.0, power=0.5, beyond=None, stuck=0.1):
    """Make rows of four seeds whose l* at ε = 0.01 is ``needed(α)``, and half of it at 0.05."""
    wins = {"flip": 0.99, "target": 0.2, "random": 0.1} | (beyond or {})
    rows = []
    for condition in THM4.conditions(SETTINGS):
        row = dict(condition.columns)
        if row["what"] == "length":
            long = needed(row["fraction"]) if row["model"] == "linear" else mamba
            error = 0.05 * 5 ** (-2 * (row["length"] / long - 0.5))  # 0.05 at half of l*, 0.01 at l*
        elif row["what"] == "strength":
            error = min(1.0, 0.1 * (row["strength"] / (3 * row["batch"] ** power)) ** 2)
        else:
            error = stuck if row["what"] == "batch" else wins[row["labels"]]
        entries = {"entry": 1.0, "pattern": 0, "query_pattern": 0} if row["what"] == "kernel" else {}
        more = {"prompts": 10**6, "diverged": False, **entries}
        rows += [row | more | {"seed": seed, "error": min(1.0, error) * (1 + 1e-4 * seed)} for seed in range(4)]
    return rows


def verdicts(rows):
    return {claim.id.removeprefix("M-thm4."): claim.verdict(rows)["verdict"] for claim in THM4.claims(SETTINGS)}


def test_a_majority_vote():
    found = verdicts(made_up(chernoff))
    assert found["length"] == "holds"
    assert found["chernoff"] == "holds"
    assert (found["strength"], found["batch"], found["context"]) == ("holds", "holds", "holds")
    assert {found[f"beyond.{rule}"] for rule in ("flip", "target", "random")} == {"holds"}


def test_the_printed_law_and_the_same_without_its_factor_are_told_apart():
    printed, plain = (verdicts(made_up(law)) for law in (lambda f: 2 * chernoff(0.4) / 40 * length_claimed(f), _plain))
    assert (printed["factor"], plain["factor"]) == ("holds", "fails")
    assert printed["chernoff"] == "fails"
    assert plain["length"] == "holds"


def _plain(fraction):
    return 1.3 / (0.5 - fraction) ** 2


@pytest.mark.parametrize("power", [1.5, 2.5])
def test_another_power_is_noticed(power):
    found = verdicts(made_up(lambda f: chernoff(0.4) * (0.1 / (0.5 - f)) ** power if f >= 0.3 else chernoff(f)))
    assert found["length"] == "in direction"


def test_a_mamba_that_needs_as_much_context_is_noticed():
    assert verdicts(made_up(chernoff, mamba=12.0))["context"] == "in direction"


def test_strengths_that_do_not_grow_with_the_batch_are_noticed():
    assert verdicts(made_up(chernoff, power=0.0))["strength"] == "fails"
    assert verdicts(made_up(chernoff, power=0.25))["strength"] == "in direction"


def test_each_label_rule_has_its_claim():
    assert verdicts(made_up(chernoff, beyond={"flip": 0.6}))["beyond.flip"] == "fails"
    found = verdicts(made_up(chernoff, beyond={"random": 0.6}))
    assert (found["beyond.random"], found["beyond.target"]) == ("fails", "holds")
    assert verdicts(made_up(chernoff, stuck=0.01))["batch"] == "fails"


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}
