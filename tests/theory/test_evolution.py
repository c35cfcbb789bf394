"""Density evolution against hand-worked values, enumeration of all token sequences, and binomial tails."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iclab.config import InputError
from iclab.theory import evolution
from iclab.theory.evolution import GRID, Context, TokenTypes, evolve
from iclab.theory.evolution_kernels import merge

pytestmark = pytest.mark.slow  # the first time, compiling takes long


def by_enumeration(context, clean, outlier, scale=1.0):
    """Go through every sequence of tokens: error, hinge, and how many end so near 0 that a grid may not tell."""
    weights, length = context.weights(), context.length
    kinds = {False: list(zip(*clean, strict=True)), True: list(zip(*outlier, strict=True))}
    error = hinge = near = 0.0
    for flags in itertools.product((False, True), repeat=length):
        number = sum(flags)
        if context.placement == "random":
            share = weights[number] / math.comb(length, number)
        else:
            sorted_flags = sorted(flags, reverse=context.placement == "farthest")
            share = weights[number] * (list(flags) == sorted_flags)
        if not share:
            continue
        for tokens in itertools.product(*(kinds[flag] for flag in flags)):
            p, h = share, 0.0
            for q, decay, inflow in tokens:
                p, h = p * q, decay * h + inflow
            error += p * (h <= 0)
            hinge += p * max(0.0, 1.0 - scale * h)
            near += p * (abs(h) < 0.005)
    return error, hinge, near


CLEAN = ([0.5, 0.3, 0.2], [0.7, 0.6, 0.8], [0.61, 0.33, -0.17])
OUTLIER = ([0.4, 0.6], [0.93, 0.85], [-0.29, 0.131])


def test_one_token_by_hand():
    found = evolve(TokenTypes([0.7, 0.3], [0.5, 0.5], [0.8, -0.4]), 1, scale=0.5)
    assert found.error == pytest.approx(0.3, abs=1e-12)
    assert found.hinge == pytest.approx(0.7 * (1 - 0.4) + 0.3 * (1 + 0.2), abs=1e-5)


def test_two_tokens_by_hand():
    # h_2 = 0.5·0.8 + 0.8 = 1.2, 0.5·0.8 − 0.6 = −0.2, −0.3 + 0.8 = 0.5, −0.3 − 0.6 = −0.9
    found = evolve(TokenTypes([0.7, 0.3], [0.5, 0.5], [0.8, -0.6]), 2)
    assert found.error == pytest.approx(0.7 * 0.3 + 0.3 * 0.3, abs=1e-9)
    assert found.hinge == pytest.approx(0.21 * 1.2 + 0.21 * 0.5 + 0.09 * 1.9, abs=1e-3)


def test_a_token_without_vote_leaves_a_tie_which_is_an_error():
    found = evolve(TokenTypes([0.5, 0.5], [0.5, 0.5], [0.0, 0.5]), 3)
    assert found.error == pytest.approx(0.125, abs=1e-9)
    assert found.error_low <= found.error <= found.error_high
    alone = evolve(TokenTypes([0.5, 0.5], [0.5, 0.5], [0.0, 0.5]), 3, bracket=False)
    assert alone.error == pytest.approx(0.125, abs=1e-6)
    silent = evolve(TokenTypes([1.0], [0.5], [0.0]), 3)
    assert (float(silent.error), float(silent.hinge)) == (1.0, 1.0)


@pytest.mark.parametrize("placement", ["random", "farthest", "closest"])
@pytest.mark.parametrize("amount", [{"fraction": 0.35}, {"count": 1}, {"count": 3}, {"fraction": 1.0}, {"count": 0}])
def test_outliers_anywhere_first_or_last_against_enumeration(placement, amount):
    context = Context(4, **amount, placement=placement)
    error, hinge, near = by_enumeration(context, CLEAN, OUTLIER, scale=0.8)
    found = evolve(TokenTypes(*CLEAN), context, TokenTypes(*OUTLIER), scale=0.8, grid=2048)
    assert found.error == pytest.approx(error, abs=near + 1e-6)
    assert near < 0.1
    assert found.hinge == pytest.approx(hinge, abs=1e-5)
    coarse = evolve(TokenTypes(*CLEAN), context, TokenTypes(*OUTLIER), scale=0.8, grid=256)
    for rates in (found, coarse):
        assert rates.error_low - 1e-12 <= error <= rates.error_high + 1e-12
        assert rates.hinge_low - 1e-12 <= hinge <= rates.hinge_high + 1e-12


numbers = st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 3))


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    data=st.lists(st.tuples(st.floats(0.05, 1), numbers.map(abs), numbers), min_size=1, max_size=4),
    length=st.integers(1, 4),
    grid=st.sampled_from([16, 33, 128, 700]),
    tolerance=st.sampled_from([0.0, 0.5, 8.0]),
)
def test_bracket_holds_the_truth_whatever_the_tokens(data, length, grid, tolerance):
    p, decay, inflow = (np.array(column) for column in zip(*data, strict=True))
    types = p / p.sum(), decay, inflow
    error, hinge, _ = by_enumeration(Context(length), types, ([], [], []))
    found = evolve(TokenTypes(*types), length, grid=grid, tolerance=tolerance)
    assert found.error_low - 1e-9 <= error <= found.error_high + 1e-9
    assert found.hinge_low - 1e-6 <= hinge <= found.hinge_high + 1e-6
    assert found.error_low <= found.error <= found.error_high


def test_bracket_narrows_on_finer_grids():
    types = TokenTypes(*CLEAN)
    widths = []
    for grid in (64, 256, 1024, 4096):
        found = evolve(types, 12, grid=grid)
        widths.append(float(found.hinge_high - found.hinge_low))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.05 * widths[0]


def smooth_tokens(outliers=0.5):
    """Tokens with κ spread over many values, as trained models have them."""
    rng = np.random.default_rng(0)
    kappa, steps = rng.uniform(-1, 1, 200), rng.normal(size=(200, 2)) * [0.5, 0.3]
    gate = 1 / (1 + np.exp(1 + kappa * steps[:, 0]))
    clean = [(1 - outliers) / 400 * np.ones(400), np.tile(1 - gate, 2), np.concatenate([gate * (6 + kappa), gate * 2])]
    weak = gate * 0.02
    flip = [outliers / 400 * np.ones(400), np.tile(1 - weak, 2), np.concatenate([-weak * 6, -weak * 2])]
    return TokenTypes(*(np.concatenate(pair) for pair in zip(clean, flip, strict=True)))


@pytest.mark.parametrize("outliers", [0.3, 0.6, 0.85])
def test_twice_the_grid_changes_less_than_a_millionth(outliers):
    here, finer = (
        evolve(smooth_tokens(outliers), 20, scale=0.8, grid=grid, bracket=False) for grid in (GRID, 2 * GRID)
    )
    assert abs(here.error - finer.error) < 1e-6
    assert abs(here.hinge - finer.hinge) < 1e-6


def test_rates_of_one_in_a_hundred_million_can_be_read():
    # wrong if, and only if, none of the tokens is the good one and so on: enumerate 3^9 sequences
    types = ([0.9, 0.0995, 0.0005], [0.8, 0.9, 0.75], [1.03, -0.017, -0.61])
    states, masses = np.zeros(1), np.ones(1)
    for _ in range(9):
        states = np.concatenate([d * states + b for _, d, b in zip(*types, strict=True)])
        masses = np.concatenate([p * masses for p in types[0]])
    error = masses[states <= 0].sum()
    assert 1e-9 < error < 1e-7
    found = evolve(TokenTypes(*types), 9, grid=512)
    assert found.error == pytest.approx(error, rel=0.02)
    assert found.error_low <= error <= found.error_high


@pytest.mark.parametrize("length", [1, 2, 7, 20, 301])
@pytest.mark.parametrize("right", [0.5, 0.6, 0.9])
def test_equal_votes_without_gate_give_the_binomial_tail(length, right):
    found = evolve(TokenTypes([right, 1 - right], [1.0, 1.0], [0.36, -0.36]), length)
    k = np.arange(length + 1)
    law = np.array([math.comb(length, int(i)) * right**i * (1 - right) ** (length - i) for i in k])
    assert found.error == pytest.approx(law[2 * k <= length].sum(), rel=1e-9, abs=1e-14)
    votes = 0.36 * (2 * k - length)
    assert found.hinge == pytest.approx((law * np.maximum(0, 1 - votes)).sum(), rel=1e-8, abs=1e-12)


def test_sums_and_states_agree():
    p, inflow = [0.45, 0.25, 0.2, 0.1], np.array([0.713, 0.207, -0.391, -0.0523])
    sums = evolve(TokenTypes(p, 1.0, inflow), Context(12, fraction=0.3), TokenTypes([1.0], [1.0], [-0.613]))
    nearly = TokenTypes(p, [1.0, 1.0, 1.0, 1.0 - 1e-13], inflow)
    states = evolve(nearly, Context(12, fraction=0.3), TokenTypes([1.0], [1.0], [-0.613]), grid=1500)
    assert sums.error == pytest.approx(states.error, abs=2e-3)
    assert sums.hinge == pytest.approx(states.hinge, abs=1e-4)
    for found in (sums, states):
        assert found.error_low <= found.error <= found.error_high
        assert found.hinge_low <= found.hinge <= found.hinge_high


@pytest.mark.parametrize("length", [1, 2, 5, 40, 200])
def test_sums_far_from_their_mean_are_not_lost(length):
    """Votes of 1 and 0.97 or 0.99 share no unit; errors then lie at the far end of the window."""
    found = []
    for other in (0.97, 0.99):
        clean, flipped = (TokenTypes([0.5, 0.5], [1.0, 1.0], [sign, sign * other]) for sign in (1.0, -1.0))
        found.append(float(evolve(clean, Context(length, 0.1), flipped, bracket=False).error))
    k = np.arange(length + 1)
    law = Context(length, 0.1).weights()
    low, high = law[k > length / 2].sum(), law[k >= length / 2].sum()  # as many flipped as clean ones: a coin, about
    assert low - 1e-6 <= found[0] <= high + 1e-6
    assert found[0] == pytest.approx(found[1], abs=1e-3)


def test_sums_with_an_exact_count_do_not_depend_on_the_place():
    clean, outlier = TokenTypes([0.6, 0.4], 1.0, [0.71, 0.2]), TokenTypes([1.0], [1.0], [-0.5])
    found = [evolve(clean, Context(6, count=3, placement=p), outlier).error for p in ("random", "farthest", "closest")]
    error, _, _ = by_enumeration(Context(6, count=3), ([0.6, 0.4], [1.0, 1.0], [0.71, 0.2]), ([1.0], [1.0], [-0.5]))
    np.testing.assert_allclose(found, error, atol=1e-12)


def test_no_outliers_and_only_outliers_are_the_limits():
    clean, outlier = TokenTypes(*CLEAN), TokenTypes(*OUTLIER)
    for fraction, alone in ((0.0, clean), (1.0, outlier)):
        mixed = evolve(clean, Context(8, fraction=fraction), outlier)
        assert mixed.error == pytest.approx(float(evolve(alone, 8).error), abs=1e-6)
    errors = [float(evolve(clean, Context(8, fraction=f), outlier).error) for f in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    assert errors == sorted(errors)


def test_queries_are_worked_on_together_by_any_number_of_threads():
    inflow = np.array([[0.5, -0.2], [0.4, -0.3], [0.3, -0.6]])
    types = TokenTypes([0.6, 0.4], [0.7, 0.8], inflow)
    one, two = (evolve(types, 6, scale=[1.0, 0.5, 0.7], threads=n) for n in (1, 2))
    assert one.error.shape == (3,)
    np.testing.assert_array_equal(one, two)
    for q, scale in enumerate((1.0, 0.5, 0.7)):
        alone = evolve(TokenTypes([0.6, 0.4], [0.7, 0.8], inflow[q]), 6, scale=scale)
        np.testing.assert_allclose([part[q] for part in one], alone)
    mean = one.mean([0.5, 0.25, 0.25])
    assert float(mean.error) == pytest.approx(one.error @ [0.5, 0.25, 0.25])


def test_merging_keeps_probabilities_and_means():
    rng = np.random.default_rng(1)
    p, decay, inflow = rng.dirichlet(np.ones(50)), rng.uniform(0.7, 0.8, 50), rng.normal(size=50) * 0.2
    merged = merge(np.stack([p, decay, inflow]), 0.1, 1.0, -1.0, 1.0)
    assert 1 < len(merged) < 40
    assert merged[:, 0].sum() == pytest.approx(1)
    assert merged[:, 0] @ merged[:, 1] == pytest.approx(p @ decay)
    assert merged[:, 0] @ merged[:, 2] == pytest.approx(p @ inflow)
    assert len(merge(np.stack([p, decay, inflow]), 0.0, 1.0, -1.0, 1.0)) == 50


@pytest.fixture
def on_cells(monkeypatch):
    """Return `evolve`, whose queries are all computed on cells."""
    monkeypatch.setattr(evolution, "TRIGGER", -1.0)
    return partial(evolve, accuracy=1e-6, bracket=False)


def few(generator, n, decay=(0.3, 0.95)):
    """Return a few types at random, one of which has no vote."""
    p, d, b = generator.dirichlet(np.ones(n)), generator.uniform(*decay, n), generator.normal(size=n)
    b[0] = 0.0
    return p, d, b


CONTEXTS = [
    {"fraction": 0.0},
    {"fraction": 0.35},
    *({"count": 2, "placement": placement} for placement in ("random", "farthest", "closest")),
    *({"fraction": 0.6, "placement": placement} for placement in ("farthest", "closest")),
]


@pytest.mark.parametrize("amount", CONTEXTS, ids=str)
@pytest.mark.parametrize("length", [2, 3, 4])
def test_cells_against_enumeration(on_cells, length, amount):
    generator = np.random.default_rng(100 + length)
    clean, outlier, context = few(generator, 3), few(generator, 2), Context(length, **amount)
    error, hinge, _ = by_enumeration(context, clean, outlier, scale=0.8)
    found = on_cells(TokenTypes(*clean), context, TokenTypes(*outlier), scale=0.8)
    assert found.error == pytest.approx(error, abs=1e-10)
    assert found.hinge == pytest.approx(hinge, abs=1e-6)


def states(types, length):
    """Return the law of the last state: all of its atoms."""
    h, mass = np.zeros(1), np.ones(1)
    for _ in range(length):
        h = np.concatenate([d * h + b for _, d, b in zip(*types, strict=True)])
        mass = np.concatenate([p * mass for p in types[0]])
    return h, mass


def test_few_types_and_nine_tokens():
    missed, missed_by_grid = [], []
    for seed in range(31, 37):
        types = few(np.random.default_rng(seed), 4)
        h, mass = states(types, 9)
        truth = mass[h <= 0].sum(), mass @ np.maximum(0, 1 - h)
        found = evolve(TokenTypes(*types), 9, accuracy=1e-6, bracket=False)
        grid = evolve(TokenTypes(*types), 9, bracket=False)
        missed += [abs(found.error - truth[0]), abs(found.hinge - truth[1])]
        missed_by_grid.append(abs(grid.error - truth[0]))
    assert max(missed) < 1e-6
    assert max(missed_by_grid) > 1e-5  # why there are cells


def test_ties_of_tokens_without_a_vote(on_cells):
    """Of tokens that halve the state, the last one with a vote decides; with none there is a tie."""
    types, tie = TokenTypes([0.6, 0.3, 0.1], [0.5, 0.5, 0.5], [0.0, 0.5, -0.5]), 0.6**10
    assert on_cells(types, 10).error == pytest.approx(0.25 * (1 - tie) + tie, abs=1e-12)
    assert on_cells(TokenTypes([1.0], [0.5], [0.0]), 10).error == 1.0


def test_a_gate_that_is_wide_open_forgets_all_but_the_last(on_cells):
    types = TokenTypes([0.7, 0.3], [0.0, 0.0], [0.8, -0.4])
    for length in (1, 2, 5):
        found = on_cells(types, length, scale=0.5)
        assert (found.error, found.hinge) == pytest.approx((0.3, 0.7 * 0.6 + 0.3 * 1.2), abs=1e-12)


def test_smooth_laws_are_the_same_on_cells_and_on_a_grid(on_cells):
    grid = evolve(smooth_tokens(0.6), 20, scale=0.8, grid=2 * GRID, bracket=False)
    cells = on_cells(smooth_tokens(0.6), 20, scale=0.8)
    assert cells.error != grid.error
    assert cells.error == pytest.approx(grid.error, abs=1e-6)
    assert cells.hinge == pytest.approx(grid.hinge, abs=1e-6)


def test_bounds_say_if_there_are_too_many_cells(on_cells):
    assert on_cells(smooth_tokens(), 4).missed == 0
    assert on_cells(smooth_tokens(), 4, accuracy=1e-14).missed > 0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Context(0), "length = 0: must be at least 1"),
        (lambda: Context(4, fraction=1.5), "fraction = 1.5: must lie between 0 and 1"),
        (lambda: Context(4, count=5), "count = 5: must lie between 0 and length = 4"),
        (lambda: Context(4, placement="middle"), "placement = 'middle': must be one of"),
        (lambda: TokenTypes([0.5, 0.4], [0.5, 0.5], [1, 1]), "probability: must be at least 0 and sum to 1"),
        (lambda: TokenTypes([1.0], [1.5], [1.0]), "decay = 1.5 … 1.5: must lie between 0 and 1"),
        (lambda: TokenTypes([1.0], [0.5], [math.nan]), "must be finite arrays"),
        (lambda: evolve(TokenTypes(*CLEAN), Context(4, fraction=0.5)), "outlier: needs the types of outliers"),
        (lambda: evolve(TokenTypes(*CLEAN), 4, grid=3), "grid = 3: must be at least 16"),
        (lambda: evolve(TokenTypes(*CLEAN), 4, accuracy=-1.0), "accuracy = -1: must be above 0"),
    ],
)
def test_bad_arguments_in_one_line(make, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as caught:
        make()
    assert "\n" not in str(caught.value)
