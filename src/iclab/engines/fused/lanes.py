"""A block of prompts as one number: a numba type whose values are `LANES` numbers side by side, kept in registers.

The compiler turns simple loops over lanes into vector instructions by itself. It does not keep sums in registers while
it walks through a matrix, because it cannot know that arrays do not overlap. With this type the code says so: sums are
values, and memory is touched where `load` and `store` stand.

    total = spread(zero)
    for k in range(n):
        total += load(a, k * LANES) * load(b, k * LANES)      # LANES sums at once
    store(out, 0, total)

A product that is added becomes one instruction (``contract``); sums are never reordered.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, models, register_model

from iclab.prompts.compiling import compiled_once, inner
from iclab.prompts.prompt_kernels import LANES

FLAGS = ("contract",)
_intrinsic: Any = intrinsic  # compiled code calls what it makes with other arguments than are written


class Lanes(types.Type):
    """The type of `LANES` numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        number = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
        super().__init__(manager, kind, ir.VectorType(number, LANES))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_data_type(kind.dtype), LANES)
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


@_intrinsic
def load(typing_context, array, at):  # type: ignore[no-untyped-def]
    """Return the numbers of a flat array from place ``at`` on."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), code


@_intrinsic
def store(typing_context, array, at, value):  # type: ignore[no-untyped-def]
    """Write numbers into a flat array from place ``at`` on."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), code


@_intrinsic
def spread(typing_context, number):  # type: ignore[no-untyped-def]
    """Return one number in every lane."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = ir.VectorType(context.get_data_type(signature.args[0]), LANES)
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[0], ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), everywhere)

    return Lanes(number)(number), code


def _teach(written: Any, instruction: str) -> None:
    """Teach the compiler what an operator does between lanes."""

    @infer_global(written)
    class _Typed(AbstractTemplate):
        def generic(self, arguments, keywords):  # type: ignore[no-untyped-def]
            first, *rest = arguments
            return signature(first, first, first) if isinstance(first, Lanes) and rest == [first] else None

    @lower_builtin(written, Lanes, Lanes)
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return getattr(builder, instruction)(*arguments, flags=FLAGS)


for _operators, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operator in _operators:
        _teach(_operator, _instruction)


@_intrinsic
def stay_apart(typing_context):  # type: ignore[no-untyped-def]
    """Keep the function that calls this from being copied into its callers: that would take long to compile."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


@_intrinsic
def larger(typing_context, a, b):  # type: ignore[no-untyped-def]
    """Return the larger number in every lane."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return a(a, a), code


@inner
def _load4(array, at, step):  # type: ignore[no-untyped-def]
    return load(array, at), load(array, at + step), load(array, at + 2 * step), load(array, at + 3 * step)


@inner
def _store4(array, at, step, a, b, c, d):  # type: ignore[no-untyped-def]
    store(array, at, a)
    store(array, at + step, b)
    store(array, at + 2 * step, c)
    store(array, at + 3 * step, d)


@inner
def clear(array, at, size):  # type: ignore[no-untyped-def]
    """Set ``size`` numbers of a flat array, a multiple of `LANES`, to 0."""
    zero = spread(array.dtype.type(0))
    for e in range(at, at + size, LANES):
        store(array, e, zero)


@inner
def copy(out, o, array, at, size):  # type: ignore[no-untyped-def]
    """Copy ``size`` numbers, a multiple of `LANES`, from one place to another."""
    for e in range(0, size, LANES):
        store(out, o + e, load(array, at + e))


class Grid(NamedTuple):
    """Where a matrix of blocks lies in a flat array: entry (i, j) is at (first + i · down + j · across) · LANES."""

    first: int
    down: int
    across: int


@compiled_once
def combine(out, o, left, a, right, b, rows, columns, terms, add):  # type: ignore[no-untyped-def]
    """Multiply two matrices per lane: out_ij = Σ_k left_ik right_kj, at the places that the grids say.

    With ``add``, the product is added to what ``out`` holds. Two rows and four columns at a time stay in registers.
    """
    stay_apart()
    zero = spread(out.dtype.type(0))
    down, across = o.down * LANES, o.across * LANES
    left_down, left_next, right_next, right_across = a.down * LANES, a.across * LANES, b.down * LANES, b.across * LANES
    for i in range(0, rows, 2):
        two = i + 1 < rows
        for j in range(0, columns, 4):
            at = o.first * LANES + i * down + j * across
            x, y = a.first * LANES + i * left_down, b.first * LANES + j * right_across
            if two and j + 4 <= columns:
                p0, p1, p2, p3, q0, q1, q2, q3 = zero, zero, zero, zero, zero, zero, zero, zero
                if add:
                    p0, p1, p2, p3 = _load4(out, at, across)
                    q0, q1, q2, q3 = _load4(out, at + down, across)
                for _ in range(terms):
                    p, q = load(left, x), load(left, x + left_down)
                    r0, r1, r2, r3 = _load4(right, y, right_across)
                    p0 += p * r0
                    q0 += q * r0
                    p1 += p * r1
                    q1 += q * r1
                    p2 += p * r2
                    q2 += q * r2
                    p3 += p * r3
                    q3 += q * r3
                    x += left_next
                    y += right_next
                _store4(out, at, across, p0, p1, p2, p3)
                _store4(out, at + down, across, q0, q1, q2, q3)
                continue
            if j + 4 <= columns:
                p0, p1, p2, p3 = zero, zero, zero, zero
                if add:
                    p0, p1, p2, p3 = _load4(out, at, across)
                for _ in range(terms):
                    p = load(left, x)
                    r0, r1, r2, r3 = _load4(right, y, right_across)
                    p0 += p * r0
                    p1 += p * r1
                    p2 += p * r2
                    p3 += p * r3
                    x += left_next
                    y += right_next
                _store4(out, at, across, p0, p1, p2, p3)
                continue
            for row in range(2 if two else 1):
                for column in range(min(4, columns - j)):
                    place = at + row * down + column * across
                    p0 = load(out, place) if add else zero
                    for k in range(terms):
                        factor = load(left, x + row * left_down + k * left_next)
                        p0 += factor * load(right, y + column * right_across + k * right_next)
                    store(out, place, p0)


@compiled_once
def multiply(out, at, matrix, m, columns, vectors, v, rows, count, add):  # type: ignore[no-untyped-def]
    """Multiply a matrix with vectors per lane: out_ij = Σ_k matrix_{j,k} · vector_ik, for i below ``rows``.

    The flat matrix starts at ``m`` and has ``count`` rows and ``columns``. Vectors have ``columns`` entries and follow
    one another from ``v`` on, outputs have ``count`` and follow one another from ``at`` on; both count blocks.
    """
    stay_apart()
    zero = spread(out.dtype.type(0))
    for i in range(0, rows, 2):
        two = i + 1 < rows
        for j in range(0, count, 4):
            o, x, y = (at + i * count + j) * LANES, (v + i * columns) * LANES, m + j * columns
            if two and j + 4 <= count:
                p0, p1, p2, p3, q0, q1, q2, q3 = zero, zero, zero, zero, zero, zero, zero, zero
                if add:
                    p0, p1, p2, p3 = _load4(out, o, LANES)
                    q0, q1, q2, q3 = _load4(out, o + count * LANES, LANES)
                for k in range(columns):
                    p, q = load(vectors, x + k * LANES), load(vectors, x + (columns + k) * LANES)
                    r = spread(matrix[y + k])
                    p0 += p * r
                    q0 += q * r
                    r = spread(matrix[y + columns + k])
                    p1 += p * r
                    q1 += q * r
                    r = spread(matrix[y + 2 * columns + k])
                    p2 += p * r
                    q2 += q * r
                    r = spread(matrix[y + 3 * columns + k])
                    p3 += p * r
                    q3 += q * r
                _store4(out, o, LANES, p0, p1, p2, p3)
                _store4(out, o + count * LANES, LANES, q0, q1, q2, q3)
                continue
            if j + 4 <= count:
                p0, p1, p2, p3 = zero, zero, zero, zero
                if add:
                    p0, p1, p2, p3 = _load4(out, o, LANES)
                for k in range(columns):
                    p = load(vectors, x + k * LANES)
                    p0 += p * spread(matrix[y + k])
                    p1 += p * spread(matrix[y + columns + k])
                    p2 += p * spread(matrix[y + 2 * columns + k])
                    p3 += p * spread(matrix[y + 3 * columns + k])
                _store4(out, o, LANES, p0, p1, p2, p3)
                continue
            for row in range(2 if two else 1):
                for column in range(min(4, count - j)):
                    place = o + (row * count + column) * LANES
                    p0 = load(out, place) if add else zero
                    for k in range(columns):
                        factor = spread(matrix[y + column * columns + k])
                        p0 += factor * load(vectors, x + (row * columns + k) * LANES)
                    store(out, place, p0)
