"""Crossings, hitting times and fits: known curves, missing seeds, too few points."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.study.fits import (
    PowerLaw,
    crossing,
    crossings,
    exponent,
    exponent_claim,
    exponent_point,
    fit_per_seed,
    hitting_time,
    hitting_times,
    spread,
    straightness,
)


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


# Hitting times.


@given(rate=st.floats(0.002, 0.2), level=st.floats(0.05, 0.9), growth=st.floats(1.05, 1.6))
def test_an_exponential_curve_has_its_hitting_time(rate, level, growth):
    steps = sorted({0, *(round(growth**k) for k in range(200) if growth**k < 3_000)})  # geometric, as snapshots are
    losses = [float(np.exp(-rate * step)) for step in steps]
    exact = -np.log(level) / rate
    found = hitting_time(steps, losses, level)
    if exact >= steps[-1]:
        assert found is None
        return
    first = next(i for i, loss in enumerate(losses) if loss < level)
    assert steps[first - 1] <= found <= steps[first]
    if losses[first] >= level / 10:  # smaller losses count as a tenth of the level
        assert found == pytest.approx(exact, rel=1e-9)


def test_the_first_time_counts():
    steps, losses = [0, 10, 20, 30], [1.0, 0.25, 1.0, 0.25]
    assert hitting_time(steps, losses, 0.5) == pytest.approx(5.0)
    assert crossing(steps, losses, 0.5) == pytest.approx(25.0)
    assert hitting_time(steps, [1.0, 0.9, 0.8, 0.7], 0.5) is None
    assert hitting_time(steps, [0.4, 0.9, 0.8, 0.7], 0.5) == 0.0
    assert hitting_time(steps, [1.0, None, None, None], 0.5) is None
    assert hitting_time(steps, [1.0, 0.25, None, None], 0.5) == pytest.approx(5.0)  # it was there before it diverged
    assert hitting_time(steps, [1.0, 0.5, 0.25, 0.1], 0.5) == pytest.approx(10.0)  # at the level, then below
    assert hitting_time([0, 10], [1.0, 0.0], 0.5) == hitting_time([0, 10], [1.0, 0.05], 0.5)
    assert hitting_time([], [], 0.5) is None


def test_hitting_times_of_seeds():
    found = [{0: 1.0, 1: 1.0, 2: 1.0}, {0: 0.25, 1: 0.9}]
    assert hitting_times([0, 10], found, 0.5) == {0: pytest.approx(5.0), 1: None}


# Power laws.

XS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def test_a_crossover_has_two_exponents():
    law = PowerLaw({x: {0: x if x <= 4 else x**2 / 4, 1: None if x == 8 else 1.0} for x in XS})
    assert law.lower == {0: pytest.approx(1.0), 1: pytest.approx(0.0, abs=1e-12)}  # the lower half lacks nothing
    assert law.upper == {0: pytest.approx(2.0), 1: None}
    assert 1.0 < law.exponent[0] < 2.0
    assert law.exponent[1] is law.straightness[1] is None
    assert law.straightness[0] == pytest.approx(
        np.corrcoef(np.log(XS), np.log([x if x <= 4 else x**2 / 4 for x in XS]))[0, 1] ** 2
    )


def test_halves_of_an_odd_number_of_points_share_the_middle():
    xs = XS[:5]
    law = PowerLaw({x: {0: x if x <= 4 else x**2 / 4} for x in reversed(xs)})  # in any order
    assert (law.lower[0], law.upper[0]) == (pytest.approx(1.0), pytest.approx(2.0))


def test_power_laws_need_enough_positive_numbers():
    few = PowerLaw({x: {0: x} for x in XS[:4]})
    assert few.exponent == few.straightness == few.lower == few.upper == {}
    assert PowerLaw({x: {0: x} for x in XS[:4]}, fewest=4).exponent == {0: pytest.approx(1.0)}
    assert PowerLaw({x: {0: x - 1.0} for x in XS}).exponent == {0: None}  # one of them is 0
    assert PowerLaw({}).text() == "–"
    assert PowerLaw({x: {0: 1 / x} for x in XS}).text() == "−1.00 (R² 1.000; halves −1.00, −1.00)"


def simulated(generator, power, seeds=8, noise=0.2):
    """Hitting times of one study: a power law, with a factor of its own for each seed and noise at each point."""
    level = generator.normal(0.0, 0.5, seeds)
    return {
        x: {seed: float(x**power * np.exp(level[seed] + generator.normal(0.0, noise))) for seed in range(seeds)}
        for x in XS
    }


def claimed(curves, power, **more):
    return exponent_claim("X.y", "T ∝ x^p", lambda rows: curves, power, seeds=8, **more)


@pytest.mark.parametrize("residue", [1e-12, -1e-12])
def test_what_rounding_leaves_of_an_exponent_is_no_direction(residue):
    flat = {x: dict.fromkeys(range(8), 5.0 * x**residue) for x in (1.0, 2.0, 4.0, 8.0, 16.0)}
    for power in (1.0, -1.0):
        assert exponent_claim("X.y", "T ∝ x^p", lambda rows: flat, power, seeds=8).verdict([])["verdict"] == "fails"


def test_intervals_of_exponents_cover_the_truth_as_often_as_they_say():
    generator, studies = np.random.default_rng(7), 2_000
    covered = 0
    for _ in range(studies):
        (point,) = exponent_point(8, partial(lambda curves, rows: curves, simulated(generator, -1.0)))([])
        covered += point.interval.low <= -1.0 <= point.interval.high
    assert covered / studies == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / studies))


@pytest.mark.parametrize(
    ("truth", "power", "verdict"),
    [
        (-1.0, -1.0, "holds"),
        (-0.5, -1.0, "in direction"),
        (0.5, -1.0, "fails"),
        (1.9, 2.0, "holds"),
        (3.0, 2.0, "in direction"),
        (0.0, 2.0, "fails"),
        (0.05, 0.0, "holds"),
        (0.5, 0.0, "fails"),  # no exponent has the sign of 0
    ],
)
def test_a_claimed_exponent(truth, power, verdict):
    record = claimed(simulated(np.random.default_rng(3), truth, noise=0.02), power).verdict([])
    assert record["verdict"] == verdict
    assert record["measured"] == pytest.approx(truth, abs=0.03)
    assert record["margins"] == [power - 0.15, power + 0.15]


def test_a_claimed_exponent_needs_every_seed():
    curves = simulated(np.random.default_rng(3), 1.0, noise=0.02)
    assert claimed({x: dict(list(ys.items())[:7]) for x, ys in curves.items()}, 1.0).verdict([])["verdict"] == "not run"
    curves[4.0][2] = None
    record = claimed(curves, 1.0, where="mamba", fate="never learn", models=("mamba",)).verdict([])
    assert (record["verdict"], record["where"], record["models"]) == (
        "undecided",
        "mamba; 1 never learn",
        ["mamba"],
    )
