"""Random numbers without hidden state: every draw is a function of a key and a counter.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) turns a
64-bit key and a 128-bit counter into four 32-bit words. For a fixed key it is a bijection of the counter. Here

    key     = (seed, stream)
    counter = (position, index, step, slot)

so a token's words do not depend on the batch it is drawn in, the number of threads, or the machine. Each stream has
its own keys, which separates training prompts, test prompts, bases and initial weights: a test prompt never uses the
draw of a training prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numba
import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError

SEED_LIMIT = 2**32
"""Seeds are 32-bit: one word of the key."""


class Stream(IntEnum):
    """The purpose of a draw. Every result depends on these numbers: never change them."""

    TRAIN = 1
    TEST = 2
    BASIS = 3
    MIXTURE = 4
    WEIGHTS = 5
    TASKS = 6


_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_WEYL0 = np.uint32(0x9E3779B9)
_WEYL1 = np.uint32(0xBB67AE85)
_SHIFT = np.uint64(32)


@numba.njit(inline="always")
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Compute one block of Philox4x32-10: four uint32 words from a counter of four words and a key of two."""
    for _ in range(10):
        product0 = _M0 * np.uint64(c0)
        product1 = _M1 * np.uint64(c2)
        c0 = np.uint32(product1 >> _SHIFT) ^ c1 ^ k0
        c2 = np.uint32(product0 >> _SHIFT) ^ c3 ^ k1
        c1 = np.uint32(product1)
        c3 = np.uint32(product0)
        k0 = np.uint32(k0 + _WEYL0)
        k1 = np.uint32(k1 + _WEYL1)
    return c0, c1, c2, c3


@numba.njit(cache=True)
def _fill(out, seeds, stream, step, first, slot):  # type: ignore[no-untyped-def]
    for s in range(out.shape[1]):
        for b in range(out.shape[2]):
            index, seed = np.uint32(first + b), seeds[s]
            one, two, three, four = out[0, s, b], out[1, s, b], out[2, s, b], out[3, s, b]
            for position in range(out.shape[3]):  # four arrays, so that the compiler can vectorise
                w0, w1, w2, w3 = philox(np.uint32(position), index, step, slot, seed, stream)
                one[position] = w0
                two[position] = w1
                three[position] = w2
                four[position] = w3


def words(
    seeds: Sequence[int],
    stream: Stream,
    *,
    step: int = 0,
    first: int = 0,
    count: int = 1,
    positions: int = 1,
    slot: int = 0,
) -> NDArray[np.uint32]:
    """Return random words for ``count`` prompts from index ``first``, shape (seeds, count, positions, 4).

    ``slot`` numbers the blocks of one token, for draws that need more than one block.
    """
    for seed in seeds:
        if not 0 <= seed < SEED_LIMIT:
            raise InputError(f"seed = {seed}: must be at least 0 and below 2^32")
    if not (0 <= step < 2**32 and first >= 0 and first + count <= 2**32):
        raise InputError(f"step = {step}, first = {first}, count = {count}: step and prompt numbers must be below 2^32")
    out = np.empty((4, len(seeds), count, positions), dtype=np.uint32)
    keys = np.asarray(seeds, dtype=np.uint32)
    _fill(out, keys, np.uint32(stream), np.uint32(step), np.uint32(first), np.uint32(slot))
    return np.moveaxis(out, 0, -1)


@numba.njit(cache=True)
def _fill_ball(out, seeds, stream, step, first, slot):  # type: ignore[no-untyped-def]
    scale = 2.0**-32
    for s in range(out.shape[0]):
        for b in range(out.shape[1]):
            index = np.uint32(first + b)
            for position in range(out.shape[2]):
                vector = out[s, b, position]
                dimension = vector.shape[0]
                w0, _, _, _ = philox(np.uint32(position), index, step, slot, seeds[s], stream)
                length = ((w0 + 0.5) * scale) ** (1.0 / dimension)
                square = 0.0
                for i in range(0, dimension, 2):  # two words give two normal numbers (Box and Muller)
                    if i % 4 == 0:
                        block = np.uint32(slot + 1 + i // 4)
                        w0, w1, w2, w3 = philox(np.uint32(position), index, step, block, seeds[s], stream)
                    first_word, second_word = (w0, w1) if i % 4 == 0 else (w2, w3)
                    radius = np.sqrt(-2.0 * np.log((first_word + 0.5) * scale))
                    angle = 2.0 * np.pi * ((second_word + 0.5) * scale)
                    vector[i] = radius * np.cos(angle)
                    square += vector[i] * vector[i]
                    if i + 1 < dimension:
                        vector[i + 1] = radius * np.sin(angle)
                        square += vector[i + 1] * vector[i + 1]
                for i in range(dimension):
                    vector[i] *= length / np.sqrt(square)


def ball(
    seeds: Sequence[int],
    stream: Stream,
    dimension: int,
    *,
    step: int = 0,
    first: int = 0,
    count: int = 1,
    positions: int = 1,
    slot: int = 0,
) -> NDArray[np.float64]:
    """Draw vectors uniformly in the unit ball, shape (seeds, count, positions, dimension).

    They use the slots from ``slot`` upwards.
    """
    out = np.empty((len(seeds), count, positions, dimension))
    _fill_ball(
        out, np.asarray(seeds, dtype=np.uint32), np.uint32(stream), np.uint32(step), np.uint32(first), np.uint32(slot)
    )
    return out


def integers(word: NDArray[np.uint32], n: int, *, bits: int = 32) -> NDArray[np.int64]:
    """Map the low ``bits`` of each word onto 0 … n−1, evenly to within n·2^−bits."""
    low = word.astype(np.uint64) & np.uint64(2**bits - 1)
    return ((low * np.uint64(n)) >> np.uint64(bits)).astype(np.int64)


def symmetric(word: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Map each word onto the open interval (−1, 1): 2^24 equally spaced values, symmetric about 0.

    The values are odd multiples of 2^−24, so they are exact in float32 and both precisions see the same prompt.
    """
    return (2.0 * (word >> np.uint32(8)).astype(np.float64) + 1.0 - 2.0**24) * 2.0**-24


def uniform(word: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Map each word onto [0, 1)."""
    return word.astype(np.float64) * 2.0**-32


def bernoulli(word: NDArray[np.uint32], probability: float) -> NDArray[np.bool_]:
    """Map each word onto True with the given probability (to within 2^−33; exactly for 0 and 1)."""
    return word.astype(np.uint64) < np.uint64(round(probability * 2**32))


def normals(seed: int, stream: Stream, shape: tuple[int, ...], *, slot: int = 0) -> NDArray[np.float64]:
    """Return standard normal numbers (Box and Muller). Number i depends only on (seed, stream, slot, i)."""
    n = int(np.prod(shape))
    block = words([seed], stream, positions=(n + 1) // 2, slot=slot)[0, 0]  # (pairs, 4)
    # Two words give one 64-bit uniform number, so the tail extends beyond 9 standard deviations.
    high = block[:, 0::2].astype(np.float64)  # (pairs, 2)
    low = block[:, 1::2].astype(np.float64)
    u = (high + (low + 0.5) * 2.0**-32) * 2.0**-32  # in (0, 1)
    radius = np.sqrt(-2.0 * np.log(u[:, 0]))
    angle = 2.0 * np.pi * u[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:n].reshape(shape)
