"""The noise of prompts, compiled by numba: `iclab.prompts.counters.ball` for a block of prompts side by side.

A logarithm, a sine and a cosine of the C library take most of the time of one token after the other. Here they are
polynomials without a branch or call, exact to the last digit or two, and the compiler turns loops over tokens into
vector instructions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from iclab.prompts.compiling import compiled
from iclab.prompts.prompt_kernels import draw_words

SLOT = 5
"""The first block of words that noise uses, see `iclab.prompts.distribution`."""


class Noise(NamedTuple):
    """The noise of a block of prompts; tokens are in the order of `Block`."""

    vectors: NDArray[Any]  # (d_X or more, tokens · LANES)
    normal: NDArray[np.float64]  # (d_X, tokens · LANES) normal numbers
    factor: NDArray[np.float64]  # (tokens · LANES,) what these are multiplied by


def make_noise(dimension: int, tokens: int, rows: int, dtype: Any) -> Noise:
    """Allocate memory for so many tokens, lanes included; ``vectors`` has ``rows`` rows, at least ``dimension``."""
    return Noise(np.zeros((rows, tokens), dtype), np.zeros((dimension, tokens)), np.zeros(tokens))


@intrinsic
def _as_bits(typing_context, number):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def _as_number(typing_context, bits):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


@compiled
def log_share(word):  # type: ignore[no-untyped-def]
    """Return log((word + 1/2) / 2^32), from 2^n · m with m between 1/√2 and √2: log m = 2 artanh((m − 1)/(m + 1))."""
    bits = _as_bits(np.float64(word) + 0.5)  # type: ignore[call-arg, var-annotated]
    power = (bits >> np.int64(52)) - np.int64(1023 + 32)
    mantissa = _as_number((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(1023 << 52))
    large = mantissa > 1.4142135623730951
    mantissa = 0.5 * mantissa if large else mantissa
    n = np.float64(power + np.int64(large))
    s = (mantissa - 1.0) / (mantissa + 1.0)
    q = s * s
    p = 2.0 / 23.0
    p = (((p * q + 2.0 / 21.0) * q + 2.0 / 19.0) * q + 2.0 / 17.0) * q + 2.0 / 15.0
    p = (((p * q + 2.0 / 13.0) * q + 2.0 / 11.0) * q + 2.0 / 9.0) * q + 2.0 / 7.0
    p = ((p * q + 2.0 / 5.0) * q + 2.0 / 3.0) * q + 2.0
    return n * 0.6931471805599453 + s * p


@compiled
def circle(word):  # type: ignore[no-untyped-def]
    """Return the cosine and sine of 2π (word + 1/2) / 2^32: a quarter turn, and an angle of at most π/4 on top."""
    turns = (np.float64(word) + 0.5) * 2.0**-30
    quarter = np.rint(turns)
    x = (turns - quarter) * 1.5707963267948966
    q, which = x * x, np.int64(quarter) & np.int64(3)
    s = 1.0 / 355687428096000.0
    s = ((s * q - 1.0 / 1307674368000.0) * q + 1.0 / 6227020800.0) * q - 1.0 / 39916800.0
    s = ((s * q + 1.0 / 362880.0) * q - 1.0 / 5040.0) * q + 1.0 / 120.0
    s = x + x * q * (s * q - 1.0 / 6.0)
    c = 1.0 / 20922789888000.0
    c = ((c * q - 1.0 / 87178291200.0) * q + 1.0 / 479001600.0) * q - 1.0 / 3628800.0
    c = ((c * q + 1.0 / 40320.0) * q - 1.0 / 720.0) * q + 1.0 / 24.0
    c = (c * q - 0.5) * q + 1.0
    across, up = (s, c) if which & np.int64(1) else (c, s)
    across = -across if which == 1 or which == 2 else across
    return across, -up if which >= 2 else up


@compiled
def draw_side_by_side(drawing, p, noise, seed, stream, step, first):  # type: ignore[no-untyped-def]
    """Draw the noise of a block that is drawn already; the words in ``p.more`` are used up."""
    key, counter = (np.uint32(seed), np.uint32(stream)), (np.uint32(step), np.uint32(first))
    dimension, words = noise.normal.shape[0], p.more
    for i in range(0, dimension, 4):
        draw_words(p.position, p.lane, words, 0, np.uint32(SLOT + 1 + i // 4), key, counter)
        for k in range(i, min(i + 4, dimension), 2):
            other = min(k + 1, dimension - 1)  # the same row again if only one number is left: it is written last
            _two_normals(words[k - i], words[k - i + 1], noise.normal[other], noise.normal[k])
    draw_words(p.position, p.lane, words, 0, np.uint32(SLOT), key, counter)
    _fit(drawing.noise, words[0], noise.normal, noise.factor, noise.vectors)


@compiled
def _two_normals(first, second, up, across):  # type: ignore[no-untyped-def]
    """Turn two words into two normal numbers (Box and Muller)."""
    for e in range(first.size):
        radius = np.sqrt(-2.0 * log_share(first[e]))
        cosine, sine = circle(second[e])
        up[e] = radius * sine
        across[e] = radius * cosine


@compiled
def _fit(radius, word, normal, factor, vectors):  # type: ignore[no-untyped-def]
    """Give every vector its length, radius · u^(1/d)."""
    dimension = normal.shape[0]
    factor[:] = 0.0
    for k in range(dimension):
        for e in range(factor.size):
            factor[e] += normal[k, e] * normal[k, e]
    for e in range(factor.size):
        factor[e] = np.exp(log_share(word[e]) / dimension) / np.sqrt(factor[e])
    for k in range(dimension):
        for e in range(factor.size):
            vectors[k, e] = radius * (normal[k, e] * factor[e])
