"""The loops of GPT-2 between its matrix products, forward and backward, compiled by numba.

Arrays over tokens have one row per token, the tokens of a prompt one after another. A layer norm is without its weight
γ and bias β: these are folded into the map that follows it,

    W (γ x̂ + β) + c = (W γ) x̂ + (W β + c),

so that their gradients come from the gradient of the folded map, not from tokens. A dropped value is 0 in ``keep``, and
values that stay are multiplied by ``scale``; without dropout ``keep`` is empty.
"""

from __future__ import annotations

import numba
import numpy as np

from iclab.prompts.compiling import reordered
from iclab.prompts.counter_kernels import philox
from iclab.prompts.exponential import exponential


@reordered
def draw(keep, key, share):  # type: ignore[no-untyped-def]
    """Keep each of a multiple of 4 values with probability 1 − ``share``, by Philox with a ``key`` of two words."""
    limit, k0, k1, zero = np.uint32(min(np.rint(share * 2.0**32), 2.0**32 - 1)), key[0], key[1], np.uint32(0)
    quarter = keep.shape[0] // 4
    for i in range(quarter):  # four streams, so that the compiler can vectorise
        w0, w1, w2, w3 = philox(np.uint32(i), zero, zero, zero, k0, k1)
        keep[i] = w0 >= limit
        keep[quarter + i] = w1 >= limit
        keep[2 * quarter + i] = w2 >= limit
        keep[3 * quarter + i] = w3 >= limit


@reordered
def fold(weight, bias, gain, shift, folded, constant):  # type: ignore[no-untyped-def]
    """Fold γ = ``gain`` and β = ``shift`` of a layer norm into the map x W + c that follows it; W is (in, out)."""
    constant[:] = bias
    for i in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            folded[i, j] = gain[i] * weight[i, j]
            constant[j] += shift[i] * weight[i, j]


@reordered
def unfold(d_weight, d_bias, weight, gain, shift, d_gain, d_shift):  # type: ignore[no-untyped-def]
    """Turn the gradients of a folded map into those of W, in place, and of γ and β."""
    for i in range(weight.shape[0]):
        along, total = weight.dtype.type(0), weight.dtype.type(0)
        for j in range(weight.shape[1]):
            along += d_weight[i, j] * weight[i, j]
            total += d_bias[j] * weight[i, j]
            d_weight[i, j] = gain[i] * d_weight[i, j] + shift[i] * d_bias[j]
        d_gain[i] = along
        d_shift[i] = total


@reordered
def embed(tokens, places, keep, scale, stream, normal, spread, epsilon):  # type: ignore[no-untyped-def]
    """Start the residual ``stream`` from read-in tokens and places, (l + 1, hidden); and its first layer norm."""
    length = places.shape[0]
    for i in range(stream.shape[0]):
        place = places[i % length]
        for j in range(stream.shape[1]):
            stream[i, j] = tokens[i, j] + place[j]
        if keep.size:
            for j in range(stream.shape[1]):
                stream[i, j] *= keep[i, j] * scale
        spread[i] = _normalise(stream[i], normal[i], epsilon)


@reordered
def add(branch, bias, keep, scale, stream, normal, spread, epsilon):  # type: ignore[no-untyped-def]
    """Add a branch and its bias to the stream, with dropout; and the layer norm that follows."""
    for i in range(stream.shape[0]):
        if keep.size:
            for j in range(stream.shape[1]):
                stream[i, j] += (branch[i, j] + bias[j]) * (keep[i, j] * scale)
        else:
            for j in range(stream.shape[1]):
                stream[i, j] += branch[i, j] + bias[j]
        spread[i] = _normalise(stream[i], normal[i], epsilon)


@numba.njit(inline="always", fastmath={"contract", "reassoc"}, error_model="numpy")
def _normalise(row, normal, epsilon):  # type: ignore[no-untyped-def]
    """Write x̂ = (x − mean) / √(variance + ε), and return 1 / √(variance + ε)."""
    real, width = row.dtype.type, row.shape[0]
    mean, square = real(0), real(0)
    for j in range(width):
        mean += row[j]
    mean /= real(width)
    for j in range(width):
        square += (row[j] - mean) * (row[j] - mean)
    inverse = real(1) / np.sqrt(square / real(width) + epsilon)
    for j in range(width):
        normal[j] = (row[j] - mean) * inverse
    return inverse


@reordered
def normalise_back(d_normal, normal, spread, d_stream, keep, scale, d_branch, d_bias):  # type: ignore[no-untyped-def]
    """Add the gradient through a layer norm to ``d_stream``; and give it to the branch added just before."""
    real, width = normal.dtype.type, normal.shape[1]
    d_bias[:] = real(0)
    for i in range(normal.shape[0]):
        mean, along = real(0), real(0)
        for j in range(width):
            mean += d_normal[i, j]
            along += d_normal[i, j] * normal[i, j]
        mean, along = mean / real(width), along / real(width)
        for j in range(width):
            d_stream[i, j] += spread[i] * (d_normal[i, j] - mean - normal[i, j] * along)
        _into_branch(i, d_stream, keep, scale, d_branch, d_bias)


@reordered
def branch_back(d_stream, keep, scale, d_branch, d_bias):  # type: ignore[no-untyped-def]
    """Give the gradient of the stream to the branch that was added last, and to its bias."""
    d_bias[:] = d_stream.dtype.type(0)
    for i in range(d_stream.shape[0]):
        _into_branch(i, d_stream, keep, scale, d_branch, d_bias)


@numba.njit(inline="always", fastmath={"contract", "reassoc"}, error_model="numpy")
def _into_branch(i, d_stream, keep, scale, d_branch, d_bias):  # type: ignore[no-untyped-def]
    if keep.size:
        for j in range(d_stream.shape[1]):
            d_branch[i, j] = d_stream[i, j] * (keep[i, j] * scale)
            d_bias[j] += d_branch[i, j]
    else:
        for j in range(d_stream.shape[1]):
            d_branch[i, j] = d_stream[i, j]
            d_bias[j] += d_stream[i, j]


@reordered
def gelu(values, bias, after):  # type: ignore[no-untyped-def]
    """GPT-2's GELU of ``values`` + ``bias``, x (1 + tanh z) / 2 with z = √(2/π) (x + 0.044715 x³).

    Its slope takes the place of ``values``.
    """
    real = values.dtype.type
    one, root, cubic = real(1), real(0.7978845608028654), real(0.044715)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            x = values[i, j] + bias[j]
            z = root * x * (one + cubic * x * x)
            lower = one / (one + exponential(z + z))  # (1 − tanh z) / 2
            upper = one - lower
            after[i, j] = x * upper
            values[i, j] = upper + (x + x) * upper * lower * root * (one + real(3) * cubic * x * x)


@reordered
def gelu_back(d_after, slope, d_bias):  # type: ignore[no-untyped-def]
    """Turn the gradient of what GELU returns into that of what it got, in place."""
    d_bias[:] = d_after.dtype.type(0)
    for i in range(d_after.shape[0]):
        for j in range(d_after.shape[1]):
            d_after[i, j] *= slope[i, j]
            d_bias[j] += d_after[i, j]


@reordered
def share(scores, root, keep, scale, mixing):  # type: ignore[no-untyped-def]
    """Turn scores (heads, batch, queries, l + 1), times ``root``, into their causal softmax, in place.

    The queries are those of the last positions. ``mixing`` is filled with the shares after dropout.
    """
    heads, batch, queries, length = scores.shape
    real, flat, dropped, mixed = scores.dtype.type, scores.reshape(-1), keep.reshape(-1), mixing.reshape(-1)
    for row in range(batch * heads * queries):
        first, seen = row * length, length - queries + row % queries + 1
        largest, whole = flat[first], real(0)
        for i in range(first, first + seen):
            largest = max(largest, flat[i])
            whole += flat[i]
        if not whole < np.inf:  # NaN, or so large that the softmax is NaN
            flat[first : first + seen] = np.nan
        for i in range(first, first + seen):
            flat[i] = (flat[i] - largest) * root
    for i in range(flat.size):
        mixed[i] = exponential(flat[i])
    for row in range(batch * heads * queries):
        first, seen = row * length, length - queries + row % queries + 1
        total = flat[first] * real(0)  # NaN stays NaN
        for i in range(first, first + seen):
            total += mixed[i]
        inverse = real(1) / total
        for i in range(first, first + seen):
            flat[i] = mixed[i] * inverse
        for i in range(first + seen, first + length):
            flat[i] = real(0)
    _drop(flat, dropped, scale, mixed)


@reordered
def share_back(d_mixing, shares, root, keep, scale, mixing):  # type: ignore[no-untyped-def]
    """Turn the gradient of ``mixing`` into that of the scores, in place; fill ``mixing`` again."""
    heads, batch, queries, length = shares.shape
    real, flat, dropped, back = shares.dtype.type, shares.reshape(-1), keep.reshape(-1), d_mixing.reshape(-1)
    _drop(back, dropped, scale, back)
    for row in range(batch * heads * queries):
        first, mean = row * length, real(0)
        for i in range(first, first + length):
            mean += flat[i] * back[i]
        for i in range(first, first + length):
            back[i] = flat[i] * (back[i] - mean) * root
    _drop(flat, dropped, scale, mixing.reshape(-1))


@numba.njit(inline="always")
def _drop(values, keep, scale, out):  # type: ignore[no-untyped-def]
    if keep.size:
        for i in range(values.size):
            out[i] = values[i] * (keep[i] * scale)
    else:
        for i in range(values.size):
            out[i] = values[i]


@reordered
def add_bias(rows, bias):  # type: ignore[no-untyped-def]
    """Add a bias to each row."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] += bias[j]


@reordered
def sum_rows(rows, total):  # type: ignore[no-untyped-def]
    """Add up all rows."""
    total[:] = rows.dtype.type(0)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += rows[i, j]
