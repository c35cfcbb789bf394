"""The inner loops of `iclab.theory.evolution_cells`, compiled by numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "fastmath": {"contract"}, "error_model": "numpy"}
INNER: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls: the way in from Python takes long to compile."""
compiled, inner = numba.njit(**OPTIONS), numba.njit(**INNER)

POINTS = 0.5 - 0.5 * np.cos(np.pi * (2 * np.arange(4) + 1) / 8)
"""Where a cubic on (0, 1) meets its function (Chebyshev)."""
SOLVE = np.linalg.inv(np.vander(POINTS, increasing=True))
"""From values there to coefficients, lowest power first."""
HALVES = 0.5 * np.concatenate([POINTS, 1 + POINTS])
"""The same points of both halves of a cell."""
AT_HALVES = np.vander(HALVES, 4, increasing=True) @ SOLVE


@inner
def _find(x, edges, first, inverse):  # type: ignore[no-untyped-def]
    """Return the cell i with edges[i] < x ≤ edges[i + 1], or the nearest one."""
    last = len(edges) - 2
    k = min(max(int((x - edges[0]) * inverse), 0), len(first) - 2)
    low, high = first[k], first[k + 1]
    while high - low > 4:
        middle = (low + high) // 2
        if x > edges[middle + 1]:
            low = middle + 1
        else:
            high = middle
    while low < last and x > edges[low + 1]:
        low += 1
    while low > 0 and x <= edges[low]:
        low -= 1
    return low


@inner
def _add(types, function, points, out):  # type: ignore[no-untyped-def]
    """Add to ``out`` (2, n) the mean error and hinge loss over one more token, at the rising states ``points`` (n,)."""
    edges, cubics, first = function
    inverse, last = (len(first) - 1) / (edges[-1] - edges[0]), len(edges) - 2
    for t in range(len(types)):
        p, d, b = types[t]
        i = _find(d * points[0] + b, edges, first, inverse)
        left, right, c = edges[i], edges[i + 1], cubics[i]
        for j in range(len(points)):
            x = d * points[j] + b
            if x > right and i < last:
                i += 1
                if x > edges[i + 1]:
                    i = _find(x, edges, first, inverse)
                left, right, c = edges[i], edges[i + 1], cubics[i]
            s = min(max((x - left) * c[8], 0.0), 1.0)
            out[0, j] += p * (c[0] + s * (c[1] + s * (c[2] + s * c[3])))
            out[1, j] += p * (c[4] + s * (c[5] + s * (c[6] + s * c[7])))


@compiled
def mean(first_types, first, second_types, second, points):  # type: ignore[no-untyped-def]
    """Return the mean over one more token at some states, (2, n); it is of either types, with a function for each."""
    out = np.zeros((2, len(points)))
    _add(first_types, first, points, out)
    _add(second_types, second, points, out)
    return out


@compiled
def halve(first_types, first, second_types, second, ends, values, cells, allowed, narrow):  # type: ignore[no-untyped-def]
    """Halve cells until their cubics meet the mean over one more token; return their number, and what is missed.

    ``ends`` (most, 2) and ``values`` (most, 2, 4) hold the cells to start from, and get the others. ``allowed`` is what
    a cell of width 1 may miss, and others by 1/√width. Cells that were halved get the width 0.
    """
    kept, missed, rest, i = np.zeros(len(ends), np.bool_), np.zeros(len(ends)), 0.0, 0
    points, new = np.empty(8), np.empty((2, 8))
    while i < cells:
        left, wide = ends[i, 0], ends[i, 1] - ends[i, 0]
        if kept[i] or cells + 2 > len(ends):
            rest += 0.0 if kept[i] else missed[i] * np.sqrt(wide)
            i += 1
            continue
        for j in range(8):
            points[j] = left + wide * HALVES[j]
        new[:] = 0.0
        _add(first_types, first, points, new)
        _add(second_types, second, points, new)
        worst = 0.0
        for kind in range(2):
            for j in range(8):
                cubic = 0.0
                for k in range(4):
                    cubic += AT_HALVES[j, k] * values[i, kind, k]
                worst = max(worst, abs(cubic - new[kind, j]))
        done = worst * np.sqrt(wide) < allowed or wide < narrow
        for half in range(2):
            ends[cells, half] = ends[i, half]
            ends[cells, 1 - half] = left + 0.5 * wide
            values[cells] = new[:, 4 * half : 4 * half + 4]
            kept[cells], missed[cells] = done, worst
            cells += 1
        ends[i, 1] = left
        i += 1
    return cells, rest
