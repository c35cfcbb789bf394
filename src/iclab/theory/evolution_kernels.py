"""The inner loops of density evolution, compiled by numba; `iclab.theory.evolution` derives them.

A function u of the state h is kept at the points h = bend · sinh(cell · i) for whole i, which lie closer together near
0, where answers are decided; ``zero`` is the index of h = 0. One token turns u into (T u)(h) = Σ_t p_t u(d_t h + b_t),
over token types t. Arrays ``types`` (n, 4) hold p, decay d, inflow b, and the distance within which the targets lay of
the types that were merged into this one.
"""

from __future__ import annotations

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")

MARGIN = 3
"""Grid points beyond the states that can be reached, for the cubic rule."""
BEND = 0.01
"""Where the grid turns from even to geometric, as a share of the largest state."""
BLEND, BRACKET = 0, 1
LANES = (2, 4)
MIXED, FARTHEST, CLOSEST, COUNTED = 0, 1, 2, 3
_SLACK = 1e-9  # in cells: what rounding errors may move a state that lies on a grid point


@compiled
def _state(i, cell, bend):  # type: ignore[no-untyped-def]
    """Return the state at a point."""
    return bend * np.sinh(cell * i)


@compiled
def _place(h, cell, bend):  # type: ignore[no-untyped-def]
    """Return the point of a state, a real number."""
    return np.arcsinh(h / bend) / cell


@compiled
def reach(probability, decay, inflow, length, low, high):  # type: ignore[no-untyped-def]
    """Fill ``low[i]``, ``high[i]``: between which numbers the state lies after i tokens, 0 included."""
    low[0] = high[0] = 0.0
    for i in range(length):
        down, up = 0.0, 0.0
        for t in range(len(probability)):
            if probability[t] > 0:
                down = min(down, decay[t] * low[i] + inflow[t])
                up = max(up, decay[t] * high[i] + inflow[t])
        low[i + 1], high[i + 1] = min(down, low[i]), max(up, high[i])


@compiled
def merge(probability, decay, inflow, wide, size):  # type: ignore[no-untyped-def]
    """Merge types whose targets differ by less than about ``wide`` at every |h| ≤ size; means are kept."""
    n = len(probability)
    merging = wide > 0
    wide = max(wide, 1e-300)
    key = np.empty(n)
    span = 4.0 * (2.0 + size / wide)
    for t in range(n):
        key[t] = np.floor(inflow[t] / wide) * span + np.floor(decay[t] * size / wide)
    order = np.argsort(key)
    out = np.zeros((n, 4))
    made, start = 0, 0
    while start < n:
        stop = start + 1
        while stop < n and merging and key[order[stop]] == key[order[start]]:
            stop += 1
        p, d, b = 0.0, 0.0, 0.0
        for i in range(start, stop):
            t = order[i]
            p += probability[t]
            d += probability[t] * decay[t]
            b += probability[t] * inflow[t]
        if p > 0:
            d, b, radius = d / p, b / p, 0.0
            for i in range(start, stop):
                t = order[i]
                if stop > start + 1 and probability[t] > 0:
                    radius = max(radius, abs(decay[t] - d) * size + abs(inflow[t] - b))
            out[made, 0], out[made, 1], out[made, 2], out[made, 3] = p, d, b, radius
            made += 1
        start = stop
    return out[:made]


@compiled
def _blend(types, weight, u, v, first, last, zero, cell, bend):  # type: ignore[no-untyped-def]
    """Add ``weight`` T u to v by the cubic through the four points around a target."""
    for t in range(len(types)):
        p = weight * types[t, 0]
        for j in range(first, last):
            x = zero + _place(types[t, 1] * _state(j - zero, cell, bend) + types[t, 2], cell, bend)
            k = int(x)
            f = x - k
            g = 1.0 - f
            side, near = -p * f * g / 6.0, p * (1.0 + f) * (1.0 + g) / 2.0
            w0, w1, w2, w3 = side * (1.0 + g), near * g, near * f, side * (1.0 + f)
            for lane in range(2):
                v[lane, j] += w0 * u[lane, k - 1] + w1 * u[lane, k] + w2 * u[lane, k + 1] + w3 * u[lane, k + 2]


@compiled
def _bracket(types, weight, u, v, first, last, zero, cell, bend):  # type: ignore[no-untyped-def]
    """Add ``weight`` T u to v with targets rounded down (lanes 0, 1) and up (lanes 2, 3) to grid points."""
    top = u.shape[1] - 1
    for t in range(len(types)):
        p = weight * types[t, 0]
        for j in range(first, last):
            h, radius = types[t, 1] * _state(j - zero, cell, bend) + types[t, 2], types[t, 3]
            below = max(int(np.floor(zero + _place(h - radius, cell, bend) + _SLACK)), 0)
            above = min(int(np.ceil(zero + _place(h + radius, cell, bend) - _SLACK)), top)
            for lane in range(2):
                v[lane, j] += p * u[lane, below]
                v[lane + 2, j] += p * u[lane + 2, above]


@compiled
def _rows(kind, types, zero, total, length, cell, bend):  # type: ignore[no-untyped-def]
    """Return T as matrices, one for every two lanes, and where each row begins and ends; empty if that is slower."""
    sides = 1 if kind == BLEND else 2
    if total > 2048 or 5 * len(types) * length < 6 * len(types) + total * length // 4:
        return np.zeros((sides, 0, 0)), np.zeros((sides, 0, 2), np.int64)
    rows, ends = np.zeros((sides, total, total)), np.zeros((sides, total, 2), np.int64)
    ends[:, :, 0] = total
    for t in range(len(types)):
        p, radius = types[t, 0], types[t, 3]
        for j in range(MARGIN, total - MARGIN):
            h = types[t, 1] * _state(j - zero, cell, bend) + types[t, 2]
            if kind == BLEND:
                x = zero + _place(h, cell, bend)
                k = int(x)
                f = x - k
                g = 1.0 - f
                side, near = -p * f * g / 6.0, p * (1.0 + f) * (1.0 + g) / 2.0
                rows[0, j, k - 1] += side * (1.0 + g)
                rows[0, j, k] += near * g
                rows[0, j, k + 1] += near * f
                rows[0, j, k + 2] += side * (1.0 + f)
                ends[0, j, 0], ends[0, j, 1] = min(ends[0, j, 0], k - 1), max(ends[0, j, 1], k + 3)
            else:
                below = max(int(np.floor(zero + _place(h - radius, cell, bend) + _SLACK)), 0)
                above = min(int(np.ceil(zero + _place(h + radius, cell, bend) - _SLACK)), total - 1)
                rows[0, j, below] += p
                rows[1, j, above] += p
                ends[0, j, 0], ends[0, j, 1] = min(ends[0, j, 0], below), max(ends[0, j, 1], below + 1)
                ends[1, j, 0], ends[1, j, 1] = min(ends[1, j, 0], above), max(ends[1, j, 1], above + 1)
    return rows, ends


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _multiply(rows, ends, weight, u, v, first, last):  # type: ignore[no-untyped-def]
    """Add ``weight`` T u to v, two lanes per matrix."""
    for side in range(len(rows)):
        one, two = u[2 * side], u[2 * side + 1]
        for j in range(first, last):
            row = rows[side, j]
            a, b = 0.0, 0.0
            for k in range(ends[side, j, 0], ends[side, j, 1]):
                a += row[k] * one[k]
                b += row[k] * two[k]
            v[2 * side, j] += weight * a
            v[2 * side + 1, j] += weight * b


@compiled
def _step(kind, types, rows, ends, weight, u, v, first, last, zero, cell, bend):  # type: ignore[no-untyped-def]
    """Add ``weight`` T u to v at points ``first`` … ``last − 1``; continue v beyond them as a constant.

    States beyond are never reached: rounded ones are held back at ``first`` and ``last − 1``, still on their side.
    """
    if rows.shape[1]:
        _multiply(rows, ends, weight, u, v, first, last)
    elif kind == BLEND:
        _blend(types, weight, u, v, first, last, zero, cell, bend)
    else:
        _bracket(types, weight, u, v, first, last, zero, cell, bend)
    for lane in range(len(u)):
        v[lane, :first], v[lane, last:] = v[lane, first], v[lane, last - 1]


@compiled
def _ending(kind, u, zero, scale, cell, bend):  # type: ignore[no-untyped-def]
    """Fill u with the functions of the last state: 1[h ≤ 0] and max(0, 1 − scale·h).

    The cubic rule takes the middle, 1/2, at the jump; exact ties are added elsewhere.
    """
    for j in range(u.shape[1]):
        wrong = 1.0 if j <= zero else 0.0
        hinge = max(0.0, 1.0 - scale * _state(j - zero, cell, bend))
        u[0, j], u[1, j] = wrong, hinge
        if kind == BLEND:
            u[0, zero] = 0.5
        else:
            u[2, j], u[3, j] = wrong, hinge


@compiled
def _mixed(kind, types, length, u, zero, cell, bend, low, high):  # type: ignore[no-untyped-def]
    """Apply T to u ``length`` times, each time only at states that can be reached."""
    total = u.shape[1]
    rows, ends = _rows(kind, types, zero, total, length, cell, bend)
    v = np.empty_like(u)
    for i in range(length - 1, -1, -1):
        first, last = zero, zero + 1
        if i:
            first = max(zero + int(np.floor(_place(low[i], cell, bend))) - MARGIN, MARGIN)
            last = min(zero + int(np.ceil(_place(high[i], cell, bend))) + 1 + MARGIN, total - MARGIN)
        v[:] = 0.0
        _step(kind, types, rows, ends, 1.0, u, v, first, last, zero, cell, bend)
        u, v = v, u
    return u


@compiled
def _ordered(kind, before, after, weights, u, zero, cell, bend):  # type: ignore[no-untyped-def]
    """Return Σ_k weights[k] B^k A^(l−k) u, where B is the step of ``before``, A that of ``after``, by Horner's rule."""
    length, total = len(weights) - 1, u.shape[1]
    first, last = MARGIN, total - MARGIN
    rows, ends = _rows(kind, after, zero, total, length, cell, bend)
    later = np.zeros((length + 1, *u.shape))  # A^m u
    later[0] = u
    for m in range(length):
        _step(kind, after, rows, ends, 1.0, later[m], later[m + 1], first, last, zero, cell, bend)
    rows, ends = _rows(kind, before, zero, total, length, cell, bend)
    sofar = weights[length] * later[0]
    for k in range(length - 1, -1, -1):
        v = np.zeros_like(u)
        _step(kind, before, rows, ends, 1.0, sofar, v, first, last, zero, cell, bend)
        sofar = v + weights[k] * later[length - k]
    return sofar


@compiled
def _counted(kind, clean, outlier, length, count, u, zero, cell, bend):  # type: ignore[no-untyped-def]
    """Return the mean over all places of exactly ``count`` outliers.

    V_{m,c}, the mean over places of c outliers among the last m tokens, is
    (m−c)/m · T_clean V_{m−1,c} + c/m · T_outlier V_{m−1,c−1}.
    """
    total = u.shape[1]
    first, last = MARGIN, total - MARGIN
    rows, ends = _rows(kind, clean, zero, total, length, cell, bend)
    others, stops = _rows(kind, outlier, zero, total, length, cell, bend)
    old, new = np.zeros((count + 1, *u.shape)), np.zeros((count + 1, *u.shape))
    old[0] = u
    for m in range(1, length + 1):
        new[:] = 0.0
        for c in range(max(0, count - (length - m)), min(count, m) + 1):
            if c < m:
                _step(kind, clean, rows, ends, (m - c) / m, old[c], new[c], first, last, zero, cell, bend)
            if c > 0:
                _step(kind, outlier, others, stops, c / m, old[c - 1], new[c], first, last, zero, cell, bend)
        old, new = new, old
    return old[count]


@compiled
def answer(kind, schedule, clean, outlier, weights, count, points, tolerance, scale, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (lanes,) with the means for one query; ``clean``, ``outlier`` (3, n) hold p, decay, inflow.

    For `MIXED`, ``clean`` holds the types of every token.
    """
    length = len(weights) - 1
    low, high = np.empty(length + 1), np.empty(length + 1)
    both = clean if schedule == MIXED else np.concatenate((clean, outlier), axis=1)
    reach(both[0], both[1], both[2], length, low, high)
    size = max(-low[length], high[length])
    if not size > 0:  # the state never leaves 0
        out[:] = 1.0
        return
    bend = size * BEND
    cell = (np.arcsinh(high[length] / bend) - np.arcsinh(low[length] / bend)) / (points - 1)
    kink = 0  # the hinge's kink shall be a grid point
    if scale * high[length] > 1.0:
        place = np.arcsinh(1.0 / (scale * bend))
        kink = int(np.ceil(place / cell))
        cell = place / kink
    zero = MARGIN + 1 + int(np.ceil(-_place(low[length], cell, bend)))
    total = zero + int(np.ceil(_place(high[length], cell, bend))) + MARGIN + 2
    u = np.zeros((2 if kind == BLEND else 4, total))
    _ending(kind, u, zero, scale, cell, bend)
    if kind == BLEND and kink:  # so that the cubics through a kink have the right integral
        u[1, zero + kink] += scale * bend * np.cosh(cell * kink) * cell / 12.0
    wide = tolerance * bend * cell
    first = merge(clean[0], clean[1], clean[2], wide, size)
    if schedule == MIXED:
        u = _mixed(kind, first, length, u, zero, cell, bend, low, high)
    else:
        second = merge(outlier[0], outlier[1], outlier[2], wide, size)
        if schedule == FARTHEST:
            u = _ordered(kind, second, first, weights, u, zero, cell, bend)
        elif schedule == CLOSEST:
            u = _ordered(kind, first, second, weights[::-1].copy(), u, zero, cell, bend)
        else:
            u = _counted(kind, first, second, length, count, u, zero, cell, bend)
    out[:] = u[:, zero]


@compiled
def answer_all(kind, schedule, clean, outlier, weights, count, points, tolerance, scale, out):  # type: ignore[no-untyped-def]
    """Do `answer` for every query: ``clean`` and ``outlier`` (queries, 3, n), ``scale`` (queries,)."""
    for q in range(len(clean)):
        answer(kind, schedule, clean[q], outlier[q], weights, count, points, tolerance, scale[q], out[q])
