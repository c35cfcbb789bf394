"""The inner loops of density evolution, compiled by numba; `iclab.theory.evolution` derives them.

The law of the state h is kept as masses at the points H_i = bend · sinh(cell · i) for whole i, which lie closer
together near 0, where answers are decided; ``zero`` is the index of h = 0. A token of type t moves the state from h to
d_t h + b_t. Arrays ``types`` (n, 4) hold p, decay d, inflow b, and the distance within which the targets lay of the
types that were merged into this one.

A mass whose target lies between two points is shared by the four points around it (`BLEND`), so that cubics are
integrated exactly, or all of it goes to the point below (`DOWN`) or above (`UP`).
"""

from __future__ import annotations

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")

MARGIN = 3
"""Grid points beyond the states that can be reached, for the cubic rule."""
BEND = 0.01
"""Where the grid turns from even to geometric, as a share of the largest state."""
BLEND, DOWN, UP = 0, 1, 2
MIXED, FARTHEST, CLOSEST, COUNTED = 0, 1, 2, 3
SCATTERED = 8
"""So many types are moved one by one; more are first put into a matrix."""
LARGEST_MATRIX = 2048
NEGLIGIBLE = 1e-19
"""Masses of this size are left where they are by the cubic rule."""


@compiled
def reach(types, length, low, high):  # type: ignore[no-untyped-def]
    """Fill ``low[i]``, ``high[i]``: between which numbers the state lies after i tokens, 0 included."""
    low[0] = high[0] = 0.0
    for i in range(length):
        down, up = 0.0, 0.0
        for t in range(types.shape[1]):
            if types[0, t] > 0:
                down = min(down, types[1, t] * low[i] + types[2, t])
                up = max(up, types[1, t] * high[i] + types[2, t])
        low[i + 1], high[i + 1] = min(down, low[i]), max(up, high[i])


@compiled
def merge(given, cell, bend, low, high):  # type: ignore[no-untyped-def]
    """Merge types whose targets differ by less than about ``cell`` times the grid's spacing there; means are kept.

    ``given`` (3, n) holds p, d, b. Targets that stay away from 0 lie where the grid is wide, so that many merge.
    """
    n, size = given.shape[1], max(-low, high)
    level, place, slope = np.empty(n), np.empty(n), np.empty(n)
    for t in range(n):
        decay, inflow = given[1, t], given[2, t]
        nearest = max(decay * low + inflow, -(decay * high + inflow), 0.0)
        level[t] = np.floor(np.log2(np.sqrt(1.0 + (nearest / bend) ** 2)))
        wide = max(cell * bend * 2.0 ** level[t], 1e-12 * size)
        place[t], slope[t] = np.floor(inflow / wide), np.floor(decay * size / wide)
    order = np.argsort((place * np.sqrt(2.0) + slope) * np.sqrt(3.0) + level)  # equal ones come together
    out = np.zeros((n, 4))
    made, start = 0, 0
    while start < n:
        stop = start + 1
        here = order[start]
        while stop < n and cell > 0:
            t = order[stop]
            if level[t] != level[here] or place[t] != place[here] or slope[t] != slope[here]:
                break
            stop += 1
        p, d, b = 0.0, 0.0, 0.0
        for i in range(start, stop):
            t = order[i]
            p += given[0, t]
            d += given[0, t] * given[1, t]
            b += given[0, t] * given[2, t]
        if p > 0:
            d, b, radius = d / p, b / p, 0.0
            for i in range(start, stop):
                t = order[i]
                if stop > start + 1 and given[0, t] > 0:
                    radius = max(radius, abs(given[1, t] - d) * size + abs(given[2, t] - b))
            out[made, 0], out[made, 1], out[made, 2], out[made, 3] = p, d, b, radius
            made += 1
        start = stop
    return out[:made]


@compiled
def _grid(low, high, points, scale):  # type: ignore[no-untyped-def]
    """Return the states, the index of 0, the place of the hinge's kink, the cell, the bend, and coefficients by point.

    The place of a state h above point i is i + z (c_0 + z (c_1 + …)), z = h − H_i: the first terms of
    arcsinh(h/bend)/cell = i + Σ_n P_n(−H_i/C) (z/C)^(n+1) / ((n+1) cell), C² = bend² + H_i², P_n of Legendre.
    """
    size = max(-low, high)
    bend = BEND * size
    cell = (np.arcsinh(high / bend) - np.arcsinh(low / bend)) / (points - 1)
    kink = 0
    if scale * high > 1.0:  # the kink shall be a grid point
        place = np.arcsinh(1.0 / (scale * bend))
        kink = int(np.ceil(place / cell))
        cell = place / kink
    zero = MARGIN + 1 + int(np.ceil(-np.arcsinh(low / bend) / cell))
    total = zero + int(np.ceil(np.arcsinh(high / bend) / cell)) + MARGIN + 2
    states, series = np.empty(total), np.empty((total, 5))
    for j in range(total):
        h = states[j] = bend * np.sinh(cell * (j - zero))
        c = np.sqrt(bend * bend + h * h)
        x = h / c
        series[j, 0] = 1.0 / (cell * c)
        series[j, 1] = -x / (2.0 * cell * c**2)
        series[j, 2] = (3.0 * x**2 - 1.0) / (6.0 * cell * c**3)
        series[j, 3] = -(5.0 * x**3 - 3.0 * x) / (8.0 * cell * c**4)
        series[j, 4] = (35.0 * x**4 - 30.0 * x**2 + 3.0) / (40.0 * cell * c**5)
    return states, zero, kink, cell, bend, series


@compiled
def _share(kind, p, h, k, states, series, shares):  # type: ignore[no-untyped-def]
    """Share the mass p at a state h above point k: fill ``shares`` (4,), and return the point that gets the first."""
    if kind != BLEND:
        shares[0] = p
        return k + (h > states[k]) if kind == UP else k
    i = min(max(k, 1), len(states) - 3)
    z = h - states[i]
    f = z * (series[i, 0] + z * (series[i, 1] + z * (series[i, 2] + z * (series[i, 3] + z * series[i, 4]))))
    f = min(max(f, 0.0), 1.0)
    g = 1.0 - f
    side, near = -p * f * g / 6.0, p * (1.0 + f) * (1.0 + g) / 2.0
    shares[0], shares[1], shares[2], shares[3] = side * (1.0 + g), near * g, near * f, side * (1.0 + f)
    return i - 1


@compiled
def _fill(types, states, series, rows, ends):  # type: ignore[no-untyped-def]
    """Fill the matrix of `_token` by the cubic rule: `_share` written out, four times as fast."""
    total = len(states)
    for t in range(len(types)):
        p, d, b = types[t, 0], types[t, 1], types[t, 2]
        i = 1
        for j in range(total):
            h = d * states[j] + b
            while i < total - 3 and states[i + 1] <= h:
                i += 1
            z = h - states[i]
            f = z * (series[i, 0] + z * (series[i, 1] + z * (series[i, 2] + z * (series[i, 3] + z * series[i, 4]))))
            f = min(max(f, 0.0), 1.0)
            g = 1.0 - f
            side, near = -p * f * g / 6.0, p * (1.0 + f) * (1.0 + g) / 2.0
            rows[j, i - 1] += side * (1.0 + g)
            rows[j, i] += near * g
            rows[j, i + 1] += near * f
            rows[j, i + 2] += side * (1.0 + f)
            if i - 1 < ends[j, 0]:
                ends[j, 0] = i - 1
            if i + 3 > ends[j, 1]:
                ends[j, 1] = i + 3


@compiled
def _token(kind, types, states, series):  # type: ignore[no-untyped-def]
    """Return what one more token does to the mass at each point.

    Many types become a matrix, (from, to), with the first and last column of each row. Of few types, each has the first
    point that gets mass, (n, total), and the shares of it and the next, (n, total, 4). Unused arrays are empty.
    """
    n, total, width = len(types), len(states), 4 if kind == BLEND else 1
    dense = n > SCATTERED and total <= LARGEST_MATRIX
    rows, ends = np.zeros((total, total) if dense else (0, 0)), np.zeros((total, 2), np.int64)
    at, kept = np.zeros((0 if dense else n, total), np.int64), np.zeros((0 if dense else n, total, 4))
    ends[:, 0] = total
    if dense and kind == BLEND:
        _fill(types, states, series, rows, ends)
        return at, kept, rows, ends
    shares = np.zeros(4)
    for t in range(n):
        p, d, b = types[t, 0], types[t, 1], types[t, 2]
        b += types[t, 3] if kind == UP else -types[t, 3] if kind == DOWN else 0.0
        k = 0
        for j in range(total):
            h = d * states[j] + b
            while k < total - 2 and states[k + 1] <= h:
                k += 1
            first = _share(kind, p, h, k, states, series, shares)
            if dense:
                for i in range(width):
                    rows[j, first + i] += shares[i]
                ends[j, 0], ends[j, 1] = min(ends[j, 0], first), max(ends[j, 1], first + width)
            else:
                at[t, j], kept[t, j] = first, shares
    return at, kept, rows, ends


@compiled
def _push(token, weight, mass, out, least):  # type: ignore[no-untyped-def]
    """Add to ``out`` the law after one more token, times ``weight``."""
    at, shares, rows, ends = token
    for j in range(len(mass)):
        m = weight * mass[j]
        if abs(m) <= least:
            continue
        if len(rows):
            row = rows[j]
            for k in range(ends[j, 0], ends[j, 1]):
                out[k] += m * row[k]
        else:
            for t in range(len(at)):
                for i in range(4):
                    if shares[t, j, i] != 0.0:
                        out[at[t, j] + i] += m * shares[t, j, i]


@compiled
def _answers(kind, states, zero, kink, cell, bend, scale):  # type: ignore[no-untyped-def]
    """Return 1[h ≤ 0] and max(0, 1 − scale·h) at the points, (2, total).

    The cubic rule takes the middle, 1/2, at the jump (`iclab.theory.evolution` adds exact ties), and a little more at
    the kink, so that cubics through it have the right integral.
    """
    out = np.zeros((2, len(states)))
    for j in range(len(states)):
        out[0, j] = 1.0 if j <= zero else 0.0
        out[1, j] = max(0.0, 1.0 - scale * states[j])
    if kind == BLEND:
        out[0, zero] = 0.5
        if kink:
            out[1, zero + kink] += scale * np.sqrt(bend**2 + states[zero + kink] ** 2) * cell / 12.0
    return out


@compiled
def _mixed(token, length, mass, least):  # type: ignore[no-untyped-def]
    """Return the law after ``length`` tokens."""
    for _ in range(length):
        new = np.zeros_like(mass)
        _push(token, 1.0, mass, new, least)
        mass = new
    return mass


@compiled
def _ordered(before, after, weights, mass, least):  # type: ignore[no-untyped-def]
    """Let k tokens of ``before`` come first and l − k of ``after`` last, with probability weights[k].

    With P_k the law after k tokens of ``before``: S_0 = w_0 P_0, S_k = S_{k−1} after one of ``after``, plus w_k P_k.
    """
    sofar = weights[0] * mass
    for k in range(1, len(weights)):
        late, early = np.zeros_like(mass), np.zeros_like(mass)
        _push(before, 1.0, mass, early, least)
        _push(after, 1.0, sofar, late, least)
        mass, sofar = early, late + weights[k] * early
    return sofar


@compiled
def _counted(clean, outlier, length, count, mass, least):  # type: ignore[no-untyped-def]
    """Let exactly ``count`` of the tokens be outliers, at any places: of m tokens left c are, the next with c/m."""
    old = np.zeros((count + 1, len(mass)))  # by how many outliers are left
    old[count] = mass
    for m in range(length, 0, -1):
        new = np.zeros_like(old)
        for c in range(min(count, m) + 1):
            if c < m:
                _push(clean, (m - c) / m, old[c], new[c], least)
            if c > 0:
                _push(outlier, c / m, old[c], new[c - 1], least)
        old = new
    return old[0]


@compiled
def _law(kind, schedule, clean, outlier, weights, count, states, series, zero):  # type: ignore[no-untyped-def]
    """Return the law of the last state by one rule."""
    length, least = len(weights) - 1, NEGLIGIBLE if kind == BLEND else 0.0
    mass = np.zeros(len(states))
    mass[zero] = 1.0
    first = _token(kind, clean, states, series)
    if schedule == MIXED:
        return _mixed(first, length, mass, least)
    second = _token(kind, outlier, states, series)
    if schedule == FARTHEST:
        return _ordered(second, first, weights, mass, least)
    if schedule == CLOSEST:
        return _ordered(first, second, weights[::-1].copy(), mass, least)
    return _counted(first, second, length, count, mass, least)


@compiled
def answer_all(schedule, clean, outlier, weights, count, points, tolerance, scale, bracket, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (queries, 3, 2): error and hinge loss by `BLEND`, `DOWN` and `UP`, the last two if ``bracket``.

    ``clean`` and ``outlier`` (queries, 3, n) hold p, decay, inflow; for `MIXED`, ``clean`` has the types of all tokens.
    """
    length = len(weights) - 1
    low, high = np.empty(length + 1), np.empty(length + 1)
    for q in range(len(clean)):
        both = clean[q] if schedule == MIXED else np.concatenate((clean[q], outlier[q]), axis=1)
        reach(both, length, low, high)
        ends = low[length], high[length]
        if ends[0] == ends[1]:  # the state never leaves 0
            out[q] = 1.0
            continue
        states, zero, kink, cell, bend, series = _grid(*ends, points, scale[q])
        first = merge(clean[q], tolerance * cell, bend, *ends)
        second = first if schedule == MIXED else merge(outlier[q], tolerance * cell, bend, *ends)
        for kind in range(3 if bracket else 1):
            law = _law(kind, schedule, first, second, weights, count, states, series, zero)
            out[q, kind] = _answers(kind, states, zero, kink, cell, bend, scale[q]) @ law
