"""Crossings and fits: known curves, missing seeds, too few points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.study.fits import crossing, crossings, exponent, fit_per_seed, spread, straightness


def test_a_crossing_is_for_good_and_interpolated():
    assert crossing([0, 10, 20, 30], [0.5, 0.1, 0.001, 0.0], 0.01) == pytest.approx(15.0)  # halfway on a log scale
    assert crossing([0, 10, 20, 30], [0.5, 0.001, 0.1, 0.001], 0.01) == pytest.approx(25.0)  # it came back once
    assert crossing([0, 10], [0.001, 0.002], 0.01) == 0.0
    assert crossing([0, 10], [0.5, 0.02], 0.01) is None
    assert crossing([0, 10], [0.5, 0.02], 0.1) is not None  # of a larger margin
    assert crossing([0, 10, 20], [0.5, None, 0.001], 0.01) is None
    assert crossing([0, 10], [0.5, 0.0], 0.01) == crossing([0, 10], [0.5, 0.001], 0.01)  # no error seen is not no error


@given(start=st.floats(0.02, 0.9), rate=st.floats(0.01, 0.5))
def test_an_exponential_crosses_where_it_should(start, rate):
    steps = list(range(0, 2000, 7))
    errors = [start * np.exp(-rate * step) for step in steps]
    exact = np.log(start / 0.01) / rate
    found = crossing(steps, errors, 0.01)
    if errors[-1] >= 0.01:
        assert found is None
    elif rate * 7 < np.log(10):  # or the next value is below a tenth of the margin
        assert found == pytest.approx(exact, rel=1e-6)


def test_only_seeds_with_every_place_have_a_crossing():
    assert crossings([0, 10], [{0: 0.1, 1: 0.1}, {0: 0.001}], 0.01) == {0: pytest.approx(5.0)}
    assert crossings([], [], 0.01) == {}


def test_straightness():
    assert straightness([1, 2, 3], [5, 7, 9]) == pytest.approx(1.0)
    assert straightness([1, 2, 3], [4, 4, 4]) == 0.0
    assert straightness([1, 2, 3], [0, 1, 0]) == pytest.approx(0.0, abs=1e-12)
    xs, ys = np.arange(5.0), np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    assert straightness(xs.tolist(), ys.tolist()) == pytest.approx(np.corrcoef(xs, ys)[0, 1] ** 2)


@given(power=st.floats(-3, 3), scale=st.floats(0.1, 10))
def test_a_power_law_has_its_exponent(power, scale):
    xs = [0.5, 1.0, 2.0, 5.0]
    assert exponent(xs, [scale * x**power for x in xs]) == pytest.approx(power, abs=1e-9)


def test_a_seed_is_fitted_on_all_of_its_points_or_not_at_all():
    points = {x: {0: x**2, 1: x, 2: None if x == 3.0 else x} for x in (1.0, 2.0, 3.0, 4.0)}
    assert fit_per_seed(points, exponent) == {0: pytest.approx(2.0), 1: pytest.approx(1.0), 2: None}
    assert fit_per_seed({x: points[x] for x in (1.0, 2.0, 4.0)}, exponent) == {}  # too few
    assert fit_per_seed({}, exponent, fewest=0) == {}


def test_spread():
    assert spread({}) == ""
    assert spread({0: None}) == "never"
    assert spread({0: 1.0, 1: 3.0}) == "2 (1 to 3)"
    assert spread({0: 1.0, 1: None}, "lost") == "1 (1 to 1, 1 lost)"
