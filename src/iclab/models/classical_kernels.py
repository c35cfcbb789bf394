"""The classical learners, fitted to one prompt after another by compiled loops.

Each function takes inputs (prompts, l + 1, d), the query last, and labels (prompts, l) of ±1, and fills ``out``
(prompts,) with the decisions for the queries. A prompt whose labels are all the same gets that label.
"""

from __future__ import annotations

import numba
import numpy as np

from iclab.prompts.compiling import reordered

_WITHIN = 1e-6
"""How far a support vector machine may be from the conditions of its optimum: a thousandth of libsvm's default."""
_MOST = 10_000_000
"""The most steps that it takes, as in libsvm."""


@reordered
def neighbours(inputs, labels, count, out):  # type: ignore[no-untyped-def]
    """Mean label of the ``count`` nearest examples; of equally near ones, those that scikit-learn's heap keeps."""
    prompts, length = labels.shape
    count = min(count, length)
    near, at = np.empty(count), np.empty(count, np.int64)
    for b in range(prompts):
        x, query = inputs[b], inputs[b, length]
        near[:], at[:] = np.inf, 0
        square = _product(query, query)
        for i in range(length):
            distance = max(square - 2.0 * _product(x[i], query) + _product(x[i], x[i]), 0.0)
            if distance < near[0]:
                _push(near, at, distance, i)
        total = 0.0
        for i in range(count):
            total += labels[b, at[i]]
        out[b] = total / count


@numba.njit(inline="always", fastmath={"contract", "reassoc"})
def _product(one, two):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(one.shape[0]):
        total += one[c] * two[c]
    return total


@reordered
def _push(near, at, distance, place):  # type: ignore[no-untyped-def]
    """Put an example in the place of the farthest, which is first: every number is at least those below it."""
    size, here = near.shape[0], 0
    while True:
        left, right = 2 * here + 1, 2 * here + 2
        if left >= size:
            break
        larger = left if right >= size or near[left] >= near[right] else right
        if near[larger] <= distance:
            break
        near[here], at[here] = near[larger], at[larger]
        here = larger
    near[here], at[here] = distance, place


@reordered
def _one_sided(labels, out):  # type: ignore[no-untyped-def]
    """Whether all labels are the same; then that is the decision."""
    for i in range(labels.shape[0]):
        if labels[i] != labels[0]:
            return False
    out[0] = labels[0]
    return True


@reordered
def _compare(x, products):  # type: ignore[no-untyped-def]
    """Fill ``products`` (l + 1, l + 1) with xᵢᵀ xⱼ."""
    for i in range(x.shape[0]):
        for j in range(i + 1):
            products[i, j] = products[j, i] = _product(x[i], x[j])


@reordered
def _gaussian(x, products):  # type: ignore[no-untyped-def]
    """Turn products into exp(−γ |xᵢ − xⱼ|²) with scikit-learn's γ, 1 / (d · variance of the examples' numbers)."""
    examples = x[:-1]
    mean = examples.mean()
    variance = ((examples - mean) ** 2).mean()
    gamma = 1.0 / (x.shape[1] * variance) if variance != 0 else 1.0
    squares = np.diag(products).copy()
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            products[i, j] = np.exp(-gamma * max(squares[i] + squares[j] - 2.0 * products[i, j], 0.0))


# Support vector machines: min ½ Σ aᵢ aⱼ yᵢ yⱼ Kᵢⱼ − Σ aᵢ with 0 ≤ aᵢ ≤ C and Σ yᵢ aᵢ = 0.


@reordered
def support_vectors(inputs, labels, penalty, gaussian, out):  # type: ignore[no-untyped-def]
    """Decision of a support vector machine, Σ yᵢ aᵢ K(xᵢ, query) + b, with a linear or a Gaussian K."""
    prompts, length = labels.shape
    products = np.empty((length + 1, length + 1))
    weights, slopes = np.empty(length), np.empty(length)
    for b in range(prompts):
        if _one_sided(labels[b], out[b : b + 1]):
            continue
        _compare(inputs[b], products)
        if gaussian:
            _gaussian(inputs[b], products)
        _minimise(products, labels[b], penalty, weights, slopes)
        total = _intercept(labels[b], penalty, weights, slopes)
        for i in range(length):
            total += labels[b, i] * weights[i] * products[i, length]
        out[b] = total


@reordered
def _minimise(products, y, penalty, weights, slopes):  # type: ignore[no-untyped-def]
    """Two weights at a time, chosen by second order (Fan, Chen and Lin, 2005), as libsvm does without shrinking."""
    length = y.shape[0]
    weights[:], slopes[:] = 0.0, -1.0
    largest = 0.0
    for i in range(length):
        largest = max(largest, products[i, i])
    within = max(_WITHIN, 1e-14 * penalty * largest * length)  # no nearer than rounding lets it
    for _ in range(_MOST):
        first, top = -1, -np.inf
        for i in range(length):
            room = weights[i] < penalty if y[i] > 0 else weights[i] > 0
            if room and -y[i] * slopes[i] > top:
                first, top = i, -y[i] * slopes[i]
        second, best, bottom = -1, 0.0, np.inf
        for j in range(length):
            room = weights[j] > 0 if y[j] > 0 else weights[j] < penalty
            if room:
                bottom = min(bottom, -y[j] * slopes[j])
                gap = top + y[j] * slopes[j]
                if gap > 0:
                    bend = max(products[first, first] + products[j, j] - 2.0 * products[first, j], 1e-12)
                    if second < 0 or gap * gap / bend > best:
                        second, best = j, gap * gap / bend
        if second < 0 or top - bottom < within:
            return
        i, j = first, second
        bend = max(products[i, i] + products[j, j] - 2.0 * products[i, j], 1e-12)
        move = (top + y[j] * slopes[j]) / bend
        room_i = penalty - weights[i] if y[i] > 0 else weights[i]
        room_j = weights[j] if y[j] > 0 else penalty - weights[j]
        move = min(move, room_i, room_j)
        weights[i] = (penalty if y[i] > 0 else 0.0) if move == room_i else weights[i] + y[i] * move
        weights[j] = (0.0 if y[j] > 0 else penalty) if move == room_j else weights[j] - y[j] * move
        for k in range(length):
            slopes[k] += y[k] * move * (products[k, i] - products[k, j])


@reordered
def _intercept(y, penalty, weights, slopes):  # type: ignore[no-untyped-def]
    """Return b: the mean of what free examples ask for, or the middle of what the others allow."""
    total, free, upper, lower = 0.0, 0, np.inf, -np.inf
    for i in range(y.shape[0]):
        asked = -y[i] * slopes[i]
        if 0 < weights[i] < penalty:
            total += asked
            free += 1
        elif (weights[i] > 0) == (y[i] > 0):  # b may not be larger
            upper = min(upper, asked)
        else:
            lower = max(lower, asked)
    return total / free if free else (upper + lower) / 2.0


# Logistic regression: min C Σ log(1 + exp(−yᵢ fᵢ)) + |w|² / 2 with f = w·x + b and w = Σ aᵢ xᵢ.


@reordered
def logistic(inputs, labels, penalty, out):  # type: ignore[no-untyped-def]
    """Decision of a logistic regression, by Newton's method on a and b with steps that are halved if they overshoot."""
    prompts, length = labels.shape
    products, factor = np.empty((length + 1, length + 1)), np.empty((length, length))
    work = np.empty((8, length))
    for b in range(prompts):
        if _one_sided(labels[b], out[b : b + 1]):
            continue
        _compare(inputs[b], products)
        coefficients = work[0]
        intercept = _newton(products, labels[b], penalty, factor, work)
        out[b] = intercept
        for i in range(length):
            out[b] += coefficients[i] * products[i, length]


@reordered
def _newton(products, y, penalty, factor, work):  # type: ignore[no-untyped-def]
    """Fill the coefficients, ``work[0]``, and return the intercept."""
    length = y.shape[0]
    a, f, root, reading, ones, step, f_step, trial = work
    a[:], f[:] = 0.0, 0.0
    b, value = 0.0, penalty * length * np.log(2.0)
    for _ in range(200):
        for i in range(length):
            chance = 1.0 / (1.0 + np.exp(-f[i]))
            bend = max(chance * (1.0 - chance), 1e-16)
            root[i] = np.sqrt(penalty * bend)
            wanted = (1.0 - chance) if y[i] > 0 else -chance
            reading[i] = root[i] * (f[i] + wanted / bend)
            ones[i] = root[i]
        _factorise(products, root, factor)
        _solve(factor, reading)
        _solve(factor, ones)
        above, below = 0.0, 0.0
        for i in range(length):
            reading[i] *= root[i]
            ones[i] *= root[i]
            above += reading[i]
            below += ones[i]
        new_b = above / below
        for i in range(length):
            step[i] = reading[i] - new_b * ones[i] - a[i]
        for i in range(length):
            f_step[i] = new_b - b + _product(products[i, :length], step)
        share = 1.0
        while True:
            trial_value = 0.0
            for i in range(length):
                trial[i] = f[i] + share * f_step[i]
                margin = y[i] * trial[i]
                loss = np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0)
                here = a[i] + share * step[i]
                trial_value += penalty * loss + 0.5 * here * (trial[i] - b - share * (new_b - b))
            if trial_value <= value * (1.0 + 1e-14) or share < 1e-10:
                break
            share *= 0.5
        moved, size = 0.0, 1.0
        for i in range(length):
            moved, size = max(moved, abs(share * f_step[i])), max(size, abs(trial[i]))
            a[i] += share * step[i]
            f[i] = trial[i]
        b, value = b + share * (new_b - b), trial_value
        if moved < 1e-9 * size:
            break
    return b


@reordered
def _factorise(products, root, factor):  # type: ignore[no-untyped-def]
    """Fill the lower triangle of ``factor`` with L, L Lᵀ = I + S K S and S = diag(root)."""
    for i in range(root.shape[0]):
        for j in range(i + 1):
            left = root[i] * products[i, j] * root[j] - _product(factor[i, :j], factor[j, :j])
            if i == j:
                factor[i, i] = np.sqrt(left + 1.0)
            else:
                factor[i, j] = left / factor[j, j]


@reordered
def _solve(factor, values):  # type: ignore[no-untyped-def]
    """Solve L Lᵀ x = ``values``, in place."""
    length = values.shape[0]
    for i in range(length):
        values[i] = (values[i] - _product(factor[i, :i], values[:i])) / factor[i, i]
    for i in range(length - 1, -1, -1):
        values[i] /= factor[i, i]
        for j in range(i):
            values[j] -= factor[i, j] * values[i]
