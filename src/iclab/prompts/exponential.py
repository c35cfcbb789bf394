"""e^x in a form that compiles to vector instructions: no function call, no branch, no table."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload


@intrinsic
def _as_float32(typing_context, bits):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), code


@intrinsic
def _as_float64(typing_context, bits):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


def exponential(x):  # type: ignore[no-untyped-def]
    """Return e^x; compiled code uses the overload below."""
    return np.exp(x)


# e^x = 2^n · e^r with |r| ≤ ln 2 / 2; n goes into the exponent's bits. ln 2 is split in two so that r is exact.
# Arguments are clamped to where 2^n is a normal number: below that, 1 + e^x rounds to 1 anyway.
@overload(exponential, inline="always")
def _exponential(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        log2e, high, low = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
        limit = np.float32(87.0)
        c0, c1, c2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
        c3, c4, c5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
        one = np.float32(1.0)

        def single(x):  # type: ignore[no-untyped-def]
            x = min(max(x, -limit), limit)
            n = np.rint(x * log2e)
            r = (x - n * high) - n * low
            p = ((((c0 * r + c1) * r + c2) * r + c3) * r + c4) * r + c5
            return (p * r * r + r + one) * _as_float32((np.int32(n) + np.int32(127)) << np.int32(23))

        return single
    log2e, high, low = 1.4426950408889634, 6.93145751953125e-1, 1.42860682030941723212e-6
    factors = tuple(
        1.0 / f for f in (6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2)
    )
    f13, f12, f11, f10, f9, f8, f7, f6, f5, f4, f3, f2 = factors

    def double(x):  # type: ignore[no-untyped-def]
        x = min(max(x, -708.0), 708.0)
        n = np.rint(x * log2e)
        r = (x - n * high) - n * low
        p = f13 * r + f12
        p = ((((p * r + f11) * r + f10) * r + f9) * r + f8) * r + f7
        p = ((((p * r + f6) * r + f5) * r + f4) * r + f3) * r + f2
        return (p * r * r + r + 1.0) * _as_float64((np.int64(n) + np.int64(1023)) << np.int64(52))

    return double
