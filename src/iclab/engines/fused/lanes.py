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

from iclab.prompts.compiling import compiled_once, inlined, inner
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
    """Where a matrix lies in a flat array: entry (i, j) is number, or block, first + i · down + j · across."""

    first: int
    down: int
    across: int


@inlined
def _entry(array, at, plain):  # type: ignore[no-untyped-def]
    return spread(array[at]) if plain else load(array, at)


@inlined
def _three(out, at, o, left, x, a, right, y, b, terms, add, plain):  # type: ignore[no-untyped-def]
    """Three rows and four columns of a product, in registers."""
    zero = spread(out.dtype.type(0))
    p0, p1, p2, p3, q0, q1, q2, q3 = zero, zero, zero, zero, zero, zero, zero, zero
    r0, r1, r2, r3 = zero, zero, zero, zero
    if add:
        p0, p1, p2, p3 = _load4(out, at, o.across)
        q0, q1, q2, q3 = _load4(out, at + o.down, o.across)
        r0, r1, r2, r3 = _load4(out, at + 2 * o.down, o.across)
    for _ in range(terms):
        p, q, r = load(left, x), load(left, x + a.down), load(left, x + 2 * a.down)
        e = _entry(right, y, plain)
        p0 += p * e
        q0 += q * e
        r0 += r * e
        e = _entry(right, y + b.across, plain)
        p1 += p * e
        q1 += q * e
        r1 += r * e
        e = _entry(right, y + 2 * b.across, plain)
        p2 += p * e
        q2 += q * e
        r2 += r * e
        e = _entry(right, y + 3 * b.across, plain)
        p3 += p * e
        q3 += q * e
        r3 += r * e
        x += a.across
        y += b.down
    _store4(out, at, o.across, p0, p1, p2, p3)
    _store4(out, at + o.down, o.across, q0, q1, q2, q3)
    _store4(out, at + 2 * o.down, o.across, r0, r1, r2, r3)


@inlined
def _two(out, at, o, left, x, a, right, y, b, terms, add, plain):  # type: ignore[no-untyped-def]
    """Two rows and four columns of a product, in registers."""
    zero = spread(out.dtype.type(0))
    p0, p1, p2, p3, q0, q1, q2, q3 = zero, zero, zero, zero, zero, zero, zero, zero
    if add:
        p0, p1, p2, p3 = _load4(out, at, o.across)
        q0, q1, q2, q3 = _load4(out, at + o.down, o.across)
    for _ in range(terms):
        p, q = load(left, x), load(left, x + a.down)
        e = _entry(right, y, plain)
        p0 += p * e
        q0 += q * e
        e = _entry(right, y + b.across, plain)
        p1 += p * e
        q1 += q * e
        e = _entry(right, y + 2 * b.across, plain)
        p2 += p * e
        q2 += q * e
        e = _entry(right, y + 3 * b.across, plain)
        p3 += p * e
        q3 += q * e
        x += a.across
        y += b.down
    _store4(out, at, o.across, p0, p1, p2, p3)
    _store4(out, at + o.down, o.across, q0, q1, q2, q3)


@inlined
def _one(out, at, o, left, x, a, right, y, b, terms, add, plain):  # type: ignore[no-untyped-def]
    """One row and four columns of a product, in registers."""
    zero = spread(out.dtype.type(0))
    p0, p1, p2, p3 = zero, zero, zero, zero
    if add:
        p0, p1, p2, p3 = _load4(out, at, o.across)
    for _ in range(terms):
        p = load(left, x)
        p0 += p * _entry(right, y, plain)
        p1 += p * _entry(right, y + b.across, plain)
        p2 += p * _entry(right, y + 2 * b.across, plain)
        p3 += p * _entry(right, y + 3 * b.across, plain)
        x += a.across
        y += b.down
    _store4(out, at, o.across, p0, p1, p2, p3)


@inlined
def _in_tiles(out, o, left, a, right, b, rows, columns, terms, add, plain):  # type: ignore[no-untyped-def]
    """Multiply two matrices tile by tile; grids count numbers. With ``plain``, every lane has the same ``right``."""
    i = 0
    while i < rows:
        high = min(3, rows - i)
        for j in range(0, columns, 4):
            at, x, y = o.first + i * o.down + j * o.across, a.first + i * a.down, b.first + j * b.across
            if j + 4 <= columns and high == 3:
                _three(out, at, o, left, x, a, right, y, b, terms, add, plain)
            elif j + 4 <= columns and high == 2:
                _two(out, at, o, left, x, a, right, y, b, terms, add, plain)
            elif j + 4 <= columns:
                _one(out, at, o, left, x, a, right, y, b, terms, add, plain)
            else:
                for row in range(high):
                    for column in range(columns - j):
                        place, z = at + row * o.down + column * o.across, y + column * b.across
                        total = load(out, place) if add else spread(out.dtype.type(0))
                        for k in range(terms):
                            factor = load(left, x + row * a.down + k * a.across)
                            total += factor * _entry(right, z + k * b.down, plain)
                        store(out, place, total)
        i += high


@inlined
def _numbers(grid):  # type: ignore[no-untyped-def]
    """Return a grid that counts numbers for one that counts blocks."""
    return Grid(grid.first * LANES, grid.down * LANES, grid.across * LANES)


@compiled_once
def combine(out, o, left, a, right, b, rows, columns, terms, add):  # type: ignore[no-untyped-def]
    """Multiply two matrices of blocks, lane by lane: out_ij = Σ_k left_ik right_kj.

    With ``add``, the product is added to what ``out`` holds.
    """
    stay_apart()
    _in_tiles(out, _numbers(o), left, _numbers(a), right, _numbers(b), rows, columns, terms, add, False)


@compiled_once
def multiply(out, at, matrix, m, columns, vectors, v, rows, count, add):  # type: ignore[no-untyped-def]
    """Multiply a matrix with vectors per lane: out_ij = Σ_k matrix_{j,k} · vector_ik, for i below ``rows``.

    The flat matrix starts at ``m`` and has ``count`` rows and ``columns``. Vectors have ``columns`` entries and follow
    one another from ``v`` on, outputs have ``count`` and follow one another from ``at`` on; both count blocks.
    """
    stay_apart()
    o, a, b = _numbers(Grid(at, count, 1)), _numbers(Grid(v, columns, 1)), Grid(m, 1, columns)
    _in_tiles(out, o, vectors, a, matrix, b, rows, count, columns, add, True)
