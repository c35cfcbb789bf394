"""The Bayes rule of T and S, against brute force over all contexts, labels and partners."""

from itertools import product

import numpy as np
import pytest

from iclab.theory.bayes import bayes_error, bayes_length, votes_of
from iclab.theory.contexts import guessed


def likelihood(context, b, z, relevant, fraction):
    chance = 1.0
    for pattern, label in context:
        if pattern == 0:
            chance *= fraction / 2 * (label == z)
        elif pattern == b:
            chance *= fraction / 2 * (label == -z)
        else:
            chance *= (1 - fraction) / (2 * (relevant - 2))
    return chance


def brute_force(relevant, fraction, length):
    """Return Σ over all contexts of the smaller joint probability of z = +1 and −1; pattern 0 is the query's."""
    tokens, partners = list(product(range(relevant), (1, -1))), range(1, relevant)
    error = 0.0
    for context in product(tokens, repeat=length):
        chances = [sum(likelihood(context, b, z, relevant, fraction) for b in partners) for z in (1, -1)]
        joint = [chance / (relevant - 1) / 2 for chance in chances]
        error += min(joint)
    return error


@pytest.mark.parametrize(("relevant", "length"), [(3, 1), (3, 4), (4, 3), (5, 3)])
@pytest.mark.parametrize("fraction", [0.3, 0.6, 0.8])
def test_error_is_that_of_brute_force(relevant, fraction, length):
    share = (1 - fraction / 2) ** length
    found = bayes_error(relevant, fraction, length)
    assert found == pytest.approx(brute_force(relevant, fraction, length), abs=4 * 0.5 / 20_000**0.5 * share)


@pytest.mark.parametrize(("fraction", "label"), [(0.45, -1), (0.55, 1)])
def test_two_examples_of_one_pattern_against_one_each_of_two(fraction, label):
    """M1 = 4: r² against 2r, where r = 2α/(1 − α) is 1.6 or 2.4. Likelihoods by hand decide the same."""
    context = [(1, -1), (1, -1), (2, 1), (3, 1)]  # pattern 1 says z = +1, patterns 2 and 3 say −1
    ratio = [sum(likelihood(context, b, z, 4, fraction) for b in (1, 2, 3)) for z in (1, -1)]
    assert np.sign(ratio[0] - ratio[1]) == label
    votes = votes_of(np.array([[2, 1, 1]]), np.array([[0, 1, 1]]), 4, fraction)
    assert np.sign(votes[0]) == label


@pytest.mark.parametrize("fraction", [0.4, 0.6, 0.8])
def test_partners_help(fraction):
    errors = [bayes_error(6, fraction, length) for length in (2, 5, 10, 20)]
    assert errors == sorted(errors, reverse=True)
    for length, error in zip((2, 5, 10, 20), errors, strict=True):
        assert error < guessed(fraction, length)


def test_length_is_where_the_error_is_reached():
    length = bayes_length(6, 0.6, 0.01)
    assert bayes_error(6, 0.6, int(length)) >= 0.01 >= bayes_error(6, 0.6, int(length) + 1)
    assert bayes_length(6, 1.0, 0.01) == 1.0


def test_a_third_pattern_is_needed():
    with pytest.raises(ValueError, match="third pattern"):
        bayes_error(2, 0.5, 3)
