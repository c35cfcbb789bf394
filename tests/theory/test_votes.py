"""Votes against flipped labels: by enumeration, by limits, and the laws for the length they need."""

import itertools
import math

import pytest
from scipy import stats

from iclab.config import InputError
from iclab.theory.votes import chernoff_rate, length_claimed, vote_error, vote_length


@pytest.mark.parametrize("other", [0.0, 0.4, 0.97, 1.0])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_errors_against_all_outcomes(other, length):
    kinds = [(0.35, 1.0), (0.35, other), (0.15, -1.0), (0.15, -other)]  # α = 0.3
    wrong = ties = 0.0
    for outcome in itertools.product(kinds, repeat=length):
        p, total = math.prod(kind[0] for kind in outcome), sum(kind[1] for kind in outcome)
        wrong += p * (total < -1e-9)
        ties += p * (abs(total) <= 1e-9)
    assert wrong - 1e-6 <= vote_error(0.3, length, other) <= wrong + ties + 1e-6


def test_equal_weights_are_a_binomial():
    assert vote_error(0.4, 101) == pytest.approx(stats.binom.sf(50, 101, 0.4), rel=1e-9)
    assert vote_error(0.45, 1001) == pytest.approx(stats.binom.sf(500, 1001, 0.45), rel=1e-6)


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.4, 0.45])
def test_lengths_are_enough_and_no_more(fraction):
    length = vote_length(fraction, 0.01, other=0.9)
    assert max(vote_error(fraction, length + more, 0.9) for more in range(12)) <= 0.01
    assert length == 1 or vote_error(fraction, length - 1, 0.9) > 0.01
    assert vote_length(fraction, 0.05, 0.9) <= length <= vote_length(fraction, 0.01, 0.2)


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.4, 0.49])
def test_rates_in_closed_form_and_near_one_half(fraction):
    assert chernoff_rate(fraction) == pytest.approx(0.5 * math.log(1 / (4 * fraction * (1 - fraction))), rel=1e-6)
    assert chernoff_rate(fraction, 0.0) == pytest.approx(
        -math.log(0.5 + math.sqrt(fraction * (1 - fraction))), rel=1e-6
    )
    if fraction > 0.45:
        near = (0.5 - fraction) ** 2 * (1 + 0.5) ** 2 / (1 + 0.5**2)
        assert chernoff_rate(fraction, 0.5) == pytest.approx(near, rel=0.01)


def test_the_rate_is_that_of_the_error():
    slope = math.log(vote_error(0.4, 401, 0.9) / vote_error(0.4, 801, 0.9)) / 400
    assert slope == pytest.approx(chernoff_rate(0.4, 0.9), rel=0.06)


def test_the_claimed_law_has_a_kink():
    assert length_claimed(0.01) == pytest.approx(1 / 0.99)
    assert length_claimed(0.45) == pytest.approx(180)


@pytest.mark.parametrize(
    "call",
    [
        lambda: vote_length(0.5, 0.01),
        lambda: vote_length(0.3, 0.0),
        lambda: vote_error(1.2, 3),
        lambda: chernoff_rate(0.3, other=2.0),
    ],
)
def test_bad_arguments_in_one_line(call):
    with pytest.raises(InputError, match=r"^\w+ = .*"):
        call()
