"""The inner loop of the mean field, compiled by numba: a mean loss and its derivatives, by density evolution."""

from __future__ import annotations

import numba

compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")


@compiled
def evolve(types, moves, length, u, v, low, cell):  # type: ignore[no-untyped-def]
    """Apply u ← Σ_t p_t u(d_t h + b_t) ``length`` times, to a function and to its derivatives by parameters.

    ``types`` (n, 3) holds p, d, b; ``moves`` (n, 2, P) the derivatives of d and b; u and v are (P + 1, points), the
    function first, at h = low + cell · j. The derivatives are those of the interpolated function, so exact.
    """
    lanes, points = u.shape
    for _ in range(length):
        v[:] = 0.0
        for t in range(len(types)):
            p, decay, inflow = types[t]
            for j in range(points):
                h = low + cell * j
                x = min(max((decay * h + inflow - low) / cell, 1.0), points - 2.000001)
                k = int(x)
                f = x - k
                g = 1.0 - f
                w0, w1 = -p * f * g * (1.0 + g) / 6.0, p * g * (1.0 + f) * (1.0 + g) / 2.0
                w2, w3 = p * f * (1.0 + f) * (1.0 + g) / 2.0, -p * f * g * (1.0 + f) / 6.0
                # derivatives of the four weights by f, divided by the cell
                d0, d1 = -p * (3 * f * f - 6 * f + 2) / 6.0 / cell, p * (3 * f * f - 4 * f - 1) / 2.0 / cell
                d2, d3 = -p * (3 * f * f - 2 * f - 2) / 2.0 / cell, p * (3 * f * f - 1) / 6.0 / cell
                slope = d0 * u[0, k - 1] + d1 * u[0, k] + d2 * u[0, k + 1] + d3 * u[0, k + 2]
                for lane in range(lanes):
                    v[lane, j] += w0 * u[lane, k - 1] + w1 * u[lane, k] + w2 * u[lane, k + 1] + w3 * u[lane, k + 2]
                for lane in range(1, lanes):
                    v[lane, j] += slope * (moves[t, 0, lane - 1] * h + moves[t, 1, lane - 1])
        u, v = v, u
    return u
