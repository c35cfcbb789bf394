"""Measurements of softmax attention with an MLP, compiled by numba; `iclab.probes` says what the sums mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.engines.fused.matrix_kernels import multiply, zeros
from iclab.engines.fused.mlp.pass_kernels import attend, draw_block, fire, used
from iclab.engines.fused.sum_kernels import add_attention, tally
from iclab.prompts.compiling import compiled
from iclab.prompts.prompt_kernels import LANES

# What `measure` adds up.
ERROR, ATTENTION, ATTENDED, PARTS, ALIGNMENT = 0, 1, 2, 3, 4


class Tables(NamedTuple):
    """What a probe looks up, over the same rows as in training; sizes are padded."""

    products: NDArray[Any]  # (R, R) (W_Q row_q)ᵀ W_K row_j
    neurons: NDArray[Any]  # (m, R) W_O W_V row_j
    signs: NDArray[Any]  # (m,) a
    parts: NDArray[Any]  # (4, m, R) the feature and label part of `neurons`, by source and then by place
    squares: NDArray[np.float64]  # (2, R, R) (W row_i)ᵀ W row_j for W_Q and W_K
    along: NDArray[np.float64]  # (2, R, R) the part of W row_i along the direction of row_j


class Space(NamedTuple):
    """Working memory of the probe ``parts``."""

    feature: NDArray[Any]  # (m, LANES)
    label: NDArray[Any]  # (m, LANES)
    sums: NDArray[Any]  # (3, LANES)


def make_space(neurons: int, dtype: Any) -> Space:
    """Allocate working memory; the number of neurons is padded."""
    return Space(*(zeros(shape, dtype) for shape in ((neurons, LANES), (neurons, LANES), (3, LANES))))


@compiled
def measure(drawing, probe, t, p, a, space, label, seed, stream, step, first, count, sums):  # type: ignore[no-untyped-def]
    """Answer test prompts ``first`` … ``first + count − 1`` and add them to ``sums``, with the rows of `FORMS`."""
    length = drawing.length
    for start in range(first, first + count, LANES):
        many = min(LANES, first + count - start)
        draw_block(drawing, p, a, seed, stream, step, start)
        if probe == ALIGNMENT:
            _align(p, a.noise.vectors, length, label, t, many, sums)
            continue
        attend(p, a, length, label, t.products)
        if probe == ERROR:
            fire(a, label, t.neurons, t.signs)
            for lane in range(many):
                tally(sums, np.float64(p.target[lane]) * np.float64(a.output[lane]))
        elif probe == ATTENTION:
            for lane in range(many):
                add_attention(p, a.attention, lane, length, lane, sums)
        elif probe == ATTENDED:
            for lane in range(many):
                vote = 0.0
                for i in range(length):
                    e = i * LANES + lane
                    vote += np.float64(a.attention[e]) * np.float64(p.label[e])
                tally(sums, np.float64(p.target[lane]) * vote)
        else:
            _split(p, a, label, t, space, many, sums)


@compiled
def _split(p, a, label, t, space, many, sums):  # type: ignore[no-untyped-def]
    """Add the feature and the label part of neurons with the sign of the true label, and how often the label leads."""
    real = a.read.dtype.type
    for lane in range(many):
        for n in range(t.signs.size):
            sums[0, 0] += t.signs[n] * p.target[lane] > real(0)
    for way in range(2):
        multiply(space.feature, t.parts[2 * way], used(a, label), False, False)
        multiply(space.label, t.parts[2 * way + 1], used(a, label), False, False)
        totals = space.sums
        totals[:] = real(0)
        for n in range(t.signs.size):
            sign = t.signs[n]
            for lane in range(LANES):
                counts = real(1) if sign * p.target[lane] > real(0) else real(0)
                one, two = space.feature[n, lane], space.label[n, lane]
                totals[0, lane] += counts * one
                totals[1, lane] += counts * two
                totals[2, lane] += counts if two > one else real(0)
        for k in range(3):
            for lane in range(many):
                sums[1 + 3 * way + k, 0] += totals[k, lane]


@compiled
def _align(p, noise, length, label, t, many, sums):  # type: ignore[no-untyped-def]
    """Add ‖W p‖ and its part along the relevant pattern of p: W_Q p_query, and the mean over W_K p_i."""
    for which in range(2):
        squares, along = t.squares[which], t.along[which]
        first, last = (length, length + 1) if which == 0 else (0, length)
        for lane in range(many):
            lengths, parts = 0.0, 0.0
            for i in range(first, last):
                e = i * LANES + lane
                r, k, o = p.relevant[e], p.irrelevant[e], p.outlier[e]
                c, d, f, g = p.signal[e], p.kappa[e], p.strength[e], p.label[e]
                mine = c * along[r, r] + d * along[k, r] + f * along[o, r] + g * along[label, r]
                square = c * c * squares[r, r] + d * d * squares[k, k] + f * f * squares[o, o]
                square += g * g * squares[label, label] + 2.0 * c * (d * squares[r, k] + f * squares[r, o])
                square += 2.0 * d * f * squares[k, o]
                square += 2.0 * g * (c * squares[r, label] + d * squares[k, label] + f * squares[o, label])
                if noise.size:
                    more, further = _align_noise(noise, e, (r, k, o, label), (c, d, f, g), squares, along)
                    square += more
                    mine += further
                lengths += np.sqrt(max(square, 0.0))  # rounding may leave less than 0
                parts += mine
            sums[0, which] += 1.0
            sums[1, which] += lengths / (last - first)
            sums[2, which] += parts / (last - first)


@compiled
def _align_noise(noise, e, rows, factors, squares, along):  # type: ignore[no-untyped-def]
    """Return what a token's noise adds to ‖W p‖² and to the part of W p along the pattern of p."""
    (r, k, o, label), (c, d, f, g) = rows, factors
    axes = squares.shape[0] - noise.shape[0]
    square, mine = 0.0, 0.0
    for i in range(noise.shape[0]):
        own, row = np.float64(noise[i, e]), squares[axes + i]
        with_others = c * row[r] + d * row[k] + f * row[o] + g * row[label]
        with_noise = 0.0
        for j in range(noise.shape[0]):
            with_noise += noise[j, e] * row[axes + j]
        square += own * (2.0 * with_others + with_noise)
        mine += own * along[axes + i, r]
    return square, mine
