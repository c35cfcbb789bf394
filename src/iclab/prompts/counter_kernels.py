"""The blocks of Philox and the draws made of them, compiled by numba; `iclab.prompts.counters` says what they mean."""

from __future__ import annotations

import numba
import numpy as np

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
def fill(out, seeds, stream, step, first, slot):  # type: ignore[no-untyped-def]
    """Fill an array (4, seeds, prompts, positions) with words."""
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


@numba.njit(cache=True, fastmath=False)  # to the last bit the same in every loop that calls it
def ball_vector(vector, position, index, step, slot, seed, stream):  # type: ignore[no-untyped-def]
    """Fill a vector of float64, uniform in the unit ball; it uses the slots from ``slot`` upwards."""
    scale, dimension = 2.0**-32, vector.shape[0]
    w0, _, _, _ = philox(position, index, step, slot, seed, stream)
    length = ((w0 + 0.5) * scale) ** (1.0 / dimension)
    square = 0.0
    for i in range(0, dimension, 2):  # two words give two normal numbers (Box and Muller)
        if i % 4 == 0:
            w0, w1, w2, w3 = philox(position, index, step, np.uint32(slot + 1 + i // 4), seed, stream)
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


@numba.njit(cache=True)
def fill_ball(out, seeds, stream, step, first, slot):  # type: ignore[no-untyped-def]
    """Fill an array (seeds, prompts, positions, dimension) with vectors, uniform in the unit ball."""
    for s in range(out.shape[0]):
        for b in range(out.shape[1]):
            for position in range(out.shape[2]):
                index = np.uint32(first + b)
                ball_vector(out[s, b, position], np.uint32(position), index, step, slot, seeds[s], stream)
