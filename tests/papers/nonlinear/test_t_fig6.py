"""T-fig6: when a model counts as trained, and how straight a line is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.catalog import find
from iclab.papers.nonlinear.fig6 import NeedSettings, crossing, straightness

FIGURE = find("T-fig6")
SETTINGS = NeedSettings(seeds=3, fractions=(0.25, 0.5, 0.75, 1.0), lengths=(5, 10, 40), watched=80, steps=800)


def test_a_crossing_is_for_good_and_interpolated():
    assert crossing([0, 10, 20, 30], [0.5, 0.1, 0.001, 0.0]) == pytest.approx(15.0)  # halfway on a log scale
    assert crossing([0, 10, 20, 30], [0.5, 0.001, 0.1, 0.001]) == pytest.approx(25.0)  # it came back once
    assert crossing([0, 10], [0.001, 0.002]) == 0.0
    assert crossing([0, 10], [0.5, 0.02]) is None
    assert crossing([0, 10, 20], [0.5, None, 0.001]) is None
    assert crossing([0, 10], [0.5, 0.0]) == crossing([0, 10], [0.5, 0.001])  # no error seen is not no error


@given(start=st.floats(0.02, 0.9), rate=st.floats(0.01, 0.5))
def test_an_exponential_crosses_where_it_should(start, rate):
    steps = list(range(0, 2000, 7))
    errors = [start * np.exp(-rate * step) for step in steps]
    exact = np.log(start / 0.01) / rate
    found = crossing(steps, errors)
    if errors[-1] >= 0.01:
        assert found is None
    elif rate * 7 < np.log(10):  # or the next value is below a tenth of the margin
        assert found == pytest.approx(exact, rel=1e-6)


def test_straightness():
    assert straightness([1, 2, 3], [5, 7, 9]) == pytest.approx(1.0)
    assert straightness([1, 2, 3], [4, 4, 4]) == 0.0
    assert straightness([1, 2, 3], [0, 1, 0]) == pytest.approx(0.0, abs=1e-12)
    xs, ys = np.arange(5.0), np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    assert straightness(xs.tolist(), ys.tolist()) == pytest.approx(np.corrcoef(xs, ys)[0, 1] ** 2)


def verdicts(needed, length, long=lambda a: 4.0, drop=(), **fewer):
    """Rows of seeds that need so many iterations, and prompts so long, tested on the same length or on long ones."""
    rows = []
    for fraction in SETTINGS.fractions:
        for seed in range(3):
            where = {"fraction": fraction, "seed": seed, "prompts": 1_000, "hinge": 0.0, "diverged": False}
            wobble = 1 + 0.002 * seed
            for step in SETTINGS.kept_steps():
                asked = needed(fraction) if step < 800 else 800 * long(fraction) / 20
                error = 0.5 * 0.02 ** (step / asked / wobble)
                rows.append({**where, "length": 20, "test": "long", "step": step, "error": error})
            for n in SETTINGS.all_lengths():
                own, far = (0.5 * 0.02 ** (n / asked(fraction) / wobble) for asked in (length, long))
                rows.append({**where, "length": n, "test": "own", "step": 800, "error": own})
                if n != 20:
                    rows.append({**where, "length": n, "test": "long", "step": 800, "error": far})
    rows = [row for row in rows if row["seed"] not in drop]
    claims = FIGURE.claims(SETTINGS.replace(**fewer))
    return {claim.id.removeprefix("T-fig6."): claim.verdict(rows)["verdict"] for claim in claims}


def test_claims():
    def paper(a):
        return 200 * a ** (-2 / 3)

    good = verdicts(paper, lambda a: 4 / a, lambda a: 4 / a)
    assert good == dict.fromkeys(("iterations", "exponent", "straighter", "length", "training-length"), "holds")
    few = verdicts(paper, lambda a: 4 / a, lambda a: 4 / a, lengths=(10, 40))
    assert few == good | dict.fromkeys(("length", "training-length"), "not run")
    assert set(verdicts(paper, lambda a: 4 / a, fractions=(0.25, 0.5, 1.0)).values()) == {"not run", "fails"}
    squared = verdicts(lambda a: 45 * a**-2, lambda a: 8 / a)
    assert squared["exponent"] == "fails"
    assert squared["iterations"] == "fails"
    assert verdicts(lambda a: 150 / a, lambda a: 8 / a)["straighter"] == "fails"
    assert verdicts(paper, lambda a: 8)["length"] == "fails"
    assert verdicts(paper, lambda a: 8 / a)["training-length"] == "fails"  # long tests ask for far less
    assert verdicts(paper, lambda a: 8 / a, lambda a: 8 / a)["exponent"] == "undecided"  # some never train
    assert set(verdicts(paper, lambda a: 8 / a, drop=(1,)).values()) == {"not run"}


def test_short_prompts_train_apart_and_everything_is_tested_on_unseen_tasks():
    found = FIGURE.conditions(SETTINGS.replace(watched=4))
    for condition in found:
        training, columns = condition.cell.training.training, condition.columns
        assert training.prompts.context_length == columns["length"]
        assert training.prompts.relevant_fraction == columns["fraction"]
        assert condition.cell.prompts.context_length == (columns["length"] if columns["test"] == "own" else 40)
        assert not set(map(tuple, condition.cell.prompts.pairs)) & set(map(tuple, training.prompts.pairs))
    assert len({c.cell.training.hash for c in found}) == 4 * 4
