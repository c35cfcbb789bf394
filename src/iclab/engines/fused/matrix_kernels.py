"""Products of small matrices, compiled by numba to vector instructions.

BLAS is made for large matrices and brings threads of its own. These have a few dozen rows, lie in the cache, and each
element is summed in one order, from the first term to the last.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from iclab.engines.fused.lanes import LANES, load, spread, store
from iclab.prompts.compiling import compiled, compiled_once

WIDE = 16
"""Both sizes of every matrix are multiples of this; what is beyond the true size is 0 (not for `multiply_flat`)."""
_HIGH = 8  # rows of a tile; with 16 columns its sums fill eight registers of 512 bits in float32
_CONTRACT = ("contract",)


def padded(*sizes: int) -> tuple[int, ...]:
    """Round sizes up to multiples of `WIDE`."""
    return tuple(-(-size // WIDE) * WIDE for size in sizes)


def zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros that begin at a multiple of 64 bytes, or every second vector would lie across two cache lines."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def fill(values: Any, dtype: Any) -> NDArray[Any]:
    """Return values in the first corner of an array of zeros, whose sizes are rounded up."""
    given = np.asarray(values)
    whole = zeros(padded(*given.shape), dtype)
    whole[tuple(slice(size) for size in given.shape)] = given
    return whole


def _tile(out, out_at, left, left_at, row, step, right, right_at, width, depth, add):  # type: ignore[no-untyped-def]
    """Set, or add to, a tile of `_HIGH` rows and `WIDE` columns; compiled code uses the overload below."""
    out, left, right = out.ravel(), left.ravel(), right.ravel()
    for i in range(_HIGH):
        mine = out[out_at + i * width : out_at + i * width + WIDE]
        if not add:
            mine[:] = 0
        for k in range(depth):
            mine += left[left_at + i * row + k * step] * right[right_at + k * width : right_at + k * width + WIDE]


@intrinsic
def _tile_in_registers(  # type: ignore[no-untyped-def]
    typing_context, out, out_at, left, left_at, row, step, right, right_at, width, depth, add
):
    arguments = (out, out_at, left, left_at, row, step, right, right_at, width, depth, add)

    def code(context, builder, signature, given):  # type: ignore[no-untyped-def]
        pointers = [context.make_array(signature.args[i])(context, builder, given[i]).data for i in (0, 2, 6)]
        number = context.get_value_type(out.dtype)
        at = [context.cast(builder, given[i], signature.args[i], types.intp) for i in (1, 3, 4, 5, 7, 8, 9)]
        _write_tile(builder, number, out.dtype.bitwidth // 8, pointers, at, given[10])
        return context.get_dummy_value()

    return types.void(*arguments), code


def _write_tile(builder, number, size, pointers, at, add):  # type: ignore[no-untyped-def]
    """Write the loop over ``depth``: one vector of the right matrix times one number from each row of the left."""
    (out, left, right), (out_at, left_at, row, step, right_at, width, depth) = pointers, at
    vector, word = ir.VectorType(number, WIDE), at[0].type
    whole, none = ir.Constant(word, 1), ir.Constant(word, 0)

    def place(base, offset):  # type: ignore[no-untyped-def]
        return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())

    rows = [ir.Constant(word, i) for i in range(_HIGH)]
    targets = [place(out, builder.add(out_at, builder.mul(i, width))) for i in rows]
    sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in rows]
    with builder.if_then(add):
        for total, target in zip(sums, targets, strict=True):
            builder.store(builder.load(target, align=size), total)
    starts = [builder.add(left_at, builder.mul(i, row)) for i in rows]
    with cgutils.for_range_slice(builder, none, depth, whole, word) as (k, _):
        others = builder.load(place(right, builder.add(right_at, builder.mul(k, width))), align=size)
        for total, start in zip(sums, starts, strict=True):
            one = builder.load(builder.gep(left, [builder.add(start, builder.mul(k, step))]))
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.Constant(ir.IntType(32), 0))
            spread = builder.shuffle_vector(
                first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), WIDE), None)
            )
            product = builder.fmul(spread, others, flags=_CONTRACT)
            builder.store(builder.fadd(builder.load(total), product, flags=_CONTRACT), total)
    for total, target in zip(sums, targets, strict=True):
        builder.store(builder.load(total), target, align=size)


@overload(_tile, inline="always")
def _compiled_tile(out, out_at, left, left_at, row, step, right, right_at, width, depth, add):  # type: ignore[no-untyped-def]
    def tile(out, out_at, left, left_at, row, step, right, right_at, width, depth, add):  # type: ignore[no-untyped-def]
        _tile_in_registers(out, out_at, left, left_at, row, step, right, right_at, width, depth, add)  # type: ignore[call-arg]

    return tile


@compiled
def multiply(out, left, right, turned, add):  # type: ignore[no-untyped-def]
    """Set ``out``, or ``add`` to it, left · right; if ``turned``, leftᵀ · right."""
    rows, width = out.shape
    row, step = (1, left.shape[1]) if turned else (left.shape[1], 1)
    for j in range(0, width, WIDE):
        for i in range(0, rows, _HIGH):
            _tile(out, i * width + j, left, i * row, row, step, right, j, width, right.shape[0], add)


@compiled_once
def multiply_flat(out, o, left, a, right, b, rows, columns, terms, factor):  # type: ignore[no-untyped-def]
    """Multiply matrices of any size in flat arrays: out_ij = factor · Σ_k left_ik right_kj, at the places of the grids.

    Rows of ``out`` and ``right`` lie without gaps. They are taken in pieces of `LANES`; the last piece ends where the
    row ends, even if it overlaps the one before it. Four rows at a time stay in registers.
    """
    zero, scale = spread(out.dtype.type(0)), spread(factor)
    for start in range(0, columns if columns >= LANES else 0, LANES):
        j = min(start, columns - LANES)
        for i in range(0, rows, 4):
            i0, i1, i2, i3 = i, min(i + 1, rows - 1), min(i + 2, rows - 1), min(i + 3, rows - 1)
            p0, p1, p2, p3 = zero, zero, zero, zero
            for k in range(terms):
                r, x = load(right, b.first + k * b.down + j), a.first + k * a.across
                p0 += spread(left[x + i0 * a.down]) * r
                p1 += spread(left[x + i1 * a.down]) * r
                p2 += spread(left[x + i2 * a.down]) * r
                p3 += spread(left[x + i3 * a.down]) * r
            at = o.first + j
            store(out, at + i0 * o.down, scale * p0)
            store(out, at + i1 * o.down, scale * p1)
            store(out, at + i2 * o.down, scale * p2)
            store(out, at + i3 * o.down, scale * p3)
    for i in range(rows if columns < LANES else 0):
        for j in range(columns):
            total = out.dtype.type(0)
            for k in range(terms):
                total += left[a.first + i * a.down + k * a.across] * right[b.first + k * b.down + j]
            out[o.first + i * o.down + j] = factor * total


@compiled
def turn(out, values):  # type: ignore[no-untyped-def]
    """Transpose ``values`` into ``out``."""
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[j, i] = values[i, j]


def product(*factors: NDArray[Any]) -> NDArray[np.float64]:
    """Return the product of matrices in float64: the same bits whatever the number of threads of BLAS."""
    out = fill(factors[0], np.float64)
    for factor in factors[1:]:
        right = fill(factor, np.float64)
        left, out = out, zeros((len(out), right.shape[1]), np.float64)
        multiply(out, left, right, False, False)
    return out[: factors[0].shape[0], : factors[-1].shape[1]]
