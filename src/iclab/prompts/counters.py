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

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError

SEED_LIMIT = 2**32
"""Seeds are 32-bit: one word of the key."""
LEVEL = 2**28
"""Level h of prompts of several levels, h = 0, 1, …, draws what the seed s + h · LEVEL draws by itself."""


class Stream(IntEnum):
    """The purpose of a draw. Every result depends on these numbers: never change them."""

    TRAIN = 1
    TEST = 2
    BASIS = 3
    MIXTURE = 4
    WEIGHTS = 5
    TASKS = 6
    TRAIN_MORE = 7
    TEST_MORE = 8

    @property
    def more(self) -> Stream:
        """The stream of further words, for prompts of this stream."""
        return Stream(self + MORE)


MORE = 6
"""From TRAIN to TRAIN_MORE, and from TEST to TEST_MORE."""


def check_counters(seeds: Sequence[int], step: int, first: int, count: int) -> None:
    """Raise `InputError` unless seeds, step and prompt numbers are words of 32 bits."""
    for seed in seeds:
        if not 0 <= seed < SEED_LIMIT:
            raise InputError(f"seed = {seed}: must be at least 0 and below 2^32")
    if not (0 <= step < 2**32 and first >= 0 and first + count <= 2**32):
        raise InputError(f"step = {step}, first = {first}, count = {count}: step and prompt numbers must be below 2^32")


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
    from iclab.prompts import counter_kernels  # imported late, because numba takes long to import

    check_counters(seeds, step, first, count)
    out = np.empty((4, len(seeds), count, positions), dtype=np.uint32)
    keys = np.asarray(seeds, dtype=np.uint32)
    counter_kernels.fill(out, keys, np.uint32(stream), np.uint32(step), np.uint32(first), np.uint32(slot))
    return np.moveaxis(out, 0, -1)


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
    from iclab.prompts import counter_kernels

    out = np.empty((len(seeds), count, positions, dimension))
    counter_kernels.fill_ball(
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
