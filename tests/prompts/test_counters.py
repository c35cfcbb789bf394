"""The counter-based random numbers: the published generator, and pure functions of who asks."""

import itertools

import numba
import numpy as np
import pytest
from evenness import assert_distributed, assert_even, assert_independent, assert_shares, between
from scipy import stats

from iclab.config import InputError
from iclab.prompts import Stream
from iclab.prompts.counter_kernels import philox
from iclab.prompts.counters import bernoulli, integers, normals, symmetric, uniform, words

EDGE_WORDS = np.array([0, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 256, 2**32 - 1], dtype=np.uint32)


@numba.njit
def block(counter, key):
    return philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


def many_words(size=200_000, seed=7):
    return words([seed], Stream.TEST, count=size // 20, positions=20)[..., 0].ravel()


@pytest.mark.parametrize(
    "counter, key, answer",
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, answer):
    result = block(np.array(counter, dtype=np.uint32), np.array(key, dtype=np.uint32))
    assert " ".join(f"{int(word):08x}" for word in result) == answer


def test_words_are_philox_of_the_documented_key_and_counter():
    drawn = words([3, 2**32 - 1], Stream.BASIS, step=11, first=5, count=2, positions=3, slot=4)
    for s, b, position in np.ndindex(2, 2, 3):
        counter = np.array([position, 5 + b, 11, 4], dtype=np.uint32)
        key = np.array([[3, 2**32 - 1][s], Stream.BASIS], dtype=np.uint32)
        assert drawn[s, b, position].tolist() == list(block(counter, key))


def test_stream_numbers_are_the_ones_every_result_was_made_with():
    assert {stream.name: stream.value for stream in Stream} == {
        "TRAIN": 1,
        "TEST": 2,
        "BASIS": 3,
        "MIXTURE": 4,
        "WEIGHTS": 5,
        "TASKS": 6,
        "TRAIN_MORE": 7,
        "TEST_MORE": 8,
    }


@pytest.mark.parametrize("first, count", [(0, 1), (0, 12), (3, 5), (11, 1)])
@pytest.mark.parametrize("chosen", [[0], [2], [3, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("positions", [1, 6])
def test_words_do_not_depend_on_slicing_or_on_seeds_asked_together(first, count, chosen, positions):
    seeds = [0, 5, 123_456_789, 2**32 - 1]
    everything = words(seeds, Stream.TRAIN, step=3, count=12, positions=6)
    part = words(
        [seeds[s] for s in chosen], Stream.TRAIN, step=3, first=first, count=count, positions=positions, slot=0
    )
    np.testing.assert_array_equal(part, everything[chosen, first : first + count, :positions])


def test_no_two_callers_get_the_same_block():
    who = itertools.product([0, 1, 2**32 - 1], Stream, [0, 1, 2], [0, 1, 2])
    drawn = [
        words([seed], stream, step=step, count=3, positions=4, slot=slot).reshape(-1, 4)
        for seed, stream, step, slot in who
    ]
    blocks = np.concatenate(drawn)
    assert len(np.unique(blocks, axis=0)) == len(blocks) == 3 * len(Stream) * 3 * 3 * 3 * 4


def test_training_and_test_streams_share_no_block():
    train, test = (
        words([0], stream, count=5000, positions=21).reshape(-1, 4) for stream in (Stream.TRAIN, Stream.TEST)
    )
    together = np.concatenate([train, test])
    assert len(np.unique(together, axis=0)) == len(together)


@pytest.mark.parametrize("bits", [(0, 3), (14, 3), (29, 3)], ids=["low", "middle", "high"])
def test_words_of_neighbours_are_independent(bits):
    shift, width = bits
    drawn = words([0, 1], Stream.TRAIN, count=4000, positions=10)
    part = (drawn >> np.uint32(shift)) & np.uint32(2**width - 1)
    assert_even(part, 2**width)
    assert_independent(part[0], part[1])  # seeds
    assert_independent(part[:, :-1], part[:, 1:])  # prompts
    assert_independent(part[:, :, :-1], part[:, :, 1:])  # tokens
    for a, b in itertools.combinations(range(4), 2):  # the words of one token
        assert_independent(part[..., a], part[..., b])


@pytest.mark.parametrize("bad", [-1, 2**32, 2**40, 2**64])
def test_a_seed_out_of_range_is_refused(bad):
    with pytest.raises(InputError, match=rf"seed = {bad}: must be at least 0 and below 2\^32"):
        words([0, bad], Stream.TRAIN)


def test_the_largest_seed_is_accepted():
    assert words([2**32 - 1], Stream.TRAIN).shape == (1, 1, 1, 4)


@pytest.mark.parametrize("n", [2, 3, 7, 30, 1000])
@pytest.mark.parametrize("bits", [30, 32])
def test_integers_reach_exactly_0_to_n_minus_1_and_are_even(n, bits):
    assert integers(np.array([0, 2**bits - 1], dtype=np.uint32), n, bits=bits).tolist() == [0, n - 1]
    assert_even(integers(many_words(), n, bits=bits), n)


def test_integers_below_1_are_0():
    assert not integers(EDGE_WORDS, 1).any()


def test_integers_ignore_the_bits_they_were_not_given():
    word = many_words(2000)
    flipped = word ^ np.uint32(0b11 << 30)
    np.testing.assert_array_equal(integers(word, 7, bits=30), integers(flipped, 7, bits=30))
    assert (integers(word, 7) != integers(flipped, 7)).any()


def test_symmetric_is_open_symmetric_and_exact_in_float32():
    edges = symmetric(EDGE_WORDS)
    assert edges.min() == -(1 - 2.0**-24)
    assert edges.max() == 1 - 2.0**-24
    word = many_words()
    values = symmetric(word)
    np.testing.assert_array_equal(values.astype(np.float32).astype(np.float64), values)
    np.testing.assert_array_equal(values, -symmetric(~word))
    assert (values * 2.0**24 % 2 == 1).all()


def test_symmetric_is_uniform():
    assert_distributed(symmetric(many_words()), between(-1, 1))


def test_uniform_is_uniform_on_the_half_open_unit_interval():
    edges = uniform(EDGE_WORDS)
    assert edges.min() == 0.0
    assert edges.max() == 1 - 2.0**-32
    assert_distributed(uniform(many_words()), between(0, 1))


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.97])
def test_bernoulli_has_its_probability(probability):
    assert_shares(bernoulli(many_words(), probability), [1 - probability, probability])


def test_bernoulli_is_exact_at_0_and_1_and_at_its_threshold():
    assert not bernoulli(EDGE_WORDS, 0.0).any()
    assert bernoulli(EDGE_WORDS, 1.0).all()
    assert bernoulli(np.array([2**30 - 1, 2**30], dtype=np.uint32), 0.25).tolist() == [True, False]


def test_bernoulli_is_nested_as_the_probability_grows():
    word = many_words(20_000)
    flags = np.stack([bernoulli(word, p) for p in np.linspace(0, 1, 11)])
    assert (flags[:-1] <= flags[1:]).all()


def test_normals_are_standard_normal_and_uncorrelated():
    values = normals(5, Stream.WEIGHTS, (100_000, 2))
    assert_distributed(values, stats.norm.cdf)
    assert_distributed(values.sum(axis=1) / np.sqrt(2), stats.norm.cdf)  # the two halves of a Box-Muller pair
    assert_distributed((values[:-1, 1] + values[1:, 0]) / np.sqrt(2), stats.norm.cdf)
    assert abs((values**2).mean() - 1) < 4 * np.sqrt(2 / values.size)  # finer than the distribution as a whole
    assert_independent(values[:, 0] > 0, values[:, 1] > 0)
    assert_independent(abs(values[:, 0]) > 1, abs(values[:, 1]) > 1)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 2, 3)])
def test_the_ith_normal_does_not_depend_on_the_shape(shape):
    flat = normals(1, Stream.BASIS, (100,), slot=3)
    values = normals(1, Stream.BASIS, shape, slot=3)
    assert values.shape == shape
    np.testing.assert_array_equal(values.ravel(), flat[: values.size])


def test_normals_differ_between_seeds_streams_and_slots():
    drawn = [
        normals(seed, stream, (50,), slot=slot)
        for seed, stream, slot in itertools.product([0, 1], [Stream.BASIS, Stream.WEIGHTS], [0, 1])
    ]
    assert len(np.unique(np.concatenate(drawn))) == 50 * len(drawn)


def test_normals_are_the_ones_every_result_was_made_with():
    pinned = [0.7700486167176165, 0.717480613285306, -0.5845749946068433, -0.04213620465521309]
    np.testing.assert_allclose(normals(0, Stream.BASIS, (4,)), pinned, rtol=1e-12)
