"""The mean field of one-layer training on all tasks: a few numbers in place of the weights, and no free constant.

If every pair of patterns is a training task, gradient descent on the expected loss keeps the weights in a small family:
on the relevant patterns W_B = W_C = b (I − J/M1) + c J/M1 (J all ones), w has the same entry ω_e along every µ_j/β and
ω_v along every v*_s/‖v*‖. So an example with the query's pattern has the score s, one with the other pattern o,

    s = β² (b² (1 − 1/M1) + c²/M1),   o = β² (c² − b²)/M1,
    σ_clean = σ(β ω_e),   σ_outlier = σ(β ω_e + κ_a ‖v*‖ ω_v),   σ_query = σ_clean,

a prompt has six types of example, and `iclab.theory.evolution` gives the expected loss L(b, c, ω_e, ω_v). Descent on
the full matrices is descent on these numbers, each at a pace of its own:

    db/dt = −η/(2(M1−1)) ∂L/∂b,   dc/dt = −(η/2) ∂L/∂c,   dω_e/dt = −(η/M1) ∂L/∂ω_e,   dω_v/dt = −(η/V) ∂L/∂ω_v.     (F)

Two more numbers could move, the label's coordinate of w and the label's column of W_B. They start at 0 and stay there:
exchanging the two labels exchanges their signs and leaves the loss as it is. Left out: the irrelevant patterns (they
enter at second order in κ), the noise of finite batches, the random start of w, and what W_B learns of outlier
patterns (its force is c/b times smaller than that on b).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.theory.setting import MambaSetting

Array = NDArray[np.float64]

POINTS = 240
"""Grid points of the state: the loss is then right to about 1e-4 and its derivatives to half a percent. The linear
model, whose state has a wider range, takes `WIDER` times as many."""
WIDER = 2


class Numbers(NamedTuple):
    """The numbers that stand for the weights."""

    contrast: float
    """b: W_B and W_C on differences of relevant patterns."""
    common: float
    """c: W_B and W_C on their sum."""
    clean_gate: float = 0.0
    """ω_e = wᵀµ_j/β."""
    outlier_gate: float = 0.0
    """ω_v = wᵀv*_s/‖v*‖."""


def start(setting: MambaSetting) -> Numbers:
    """Return the numbers before training, with w = 0."""
    return Numbers(setting.init_scale, setting.init_scale)


class Types(NamedTuple):
    """The six types of example, and 1 − σ_query, with derivatives by the four numbers."""

    types: Array
    """(6, 3) probability, decay, inflow."""
    moves: Array
    """(6, 2, 4) derivatives of decay and inflow."""
    scale: float
    scale_moves: Array
    """(4,)."""


def token_types(setting: MambaSetting, numbers: Numbers) -> Types:
    """Return what an example does to z·h, by its pattern, whether it is an outlier, and its label times z."""
    beta, m, pa = setting.relevant_norm, setting.relevant, setting.train_outlier_fraction
    b, c, clean_gate, outlier_gate = numbers
    score = {True: beta**2 * (b * b * (1 - 1 / m) + c * c / m), False: beta**2 * (c * c - b * b) / m}
    turn = {
        True: beta**2 * np.array([2 * b * (1 - 1 / m), 2 * c / m, 0, 0]),
        False: beta**2 * np.array([-2 * b / m, 2 * c / m, 0, 0]),
    }
    strength = setting.train_outlier_scale * setting.outlier_norm
    logit = {False: beta * clean_gate, True: beta * clean_gate + strength * outlier_gate}
    tilt = {False: np.array([0, 0, beta, 0]), True: np.array([0, 0, beta, strength])}
    types, moves = [], []
    kinds = [(True, False, 1.0, (1 - pa) / 2), (False, False, -1.0, (1 - pa) / 2)]
    kinds += [(same, True, label, pa / 4) for same in (True, False) for label in (1.0, -1.0)]
    for same, outlier, label, p in kinds:
        vote, moved = label * score[same], label * turn[same]
        if setting.model == "linear":
            types.append([p, 1.0, vote])
            moves.append([np.zeros(4), moved])
            continue
        sigma = 1 / (1 + math.exp(-logit[outlier]))
        slope = sigma * (1 - sigma) * tilt[outlier]
        types.append([p, 1 - sigma, sigma * vote])
        moves.append([-slope, sigma * moved + slope * vote])
    if setting.model == "linear":
        return Types(np.array(types), np.array(moves), 1.0, np.zeros(4))
    sigma = 1 / (1 + math.exp(-logit[False]))
    return Types(np.array(types), np.array(moves), 1 - sigma, -sigma * (1 - sigma) * tilt[False])


def expected_loss(
    setting: MambaSetting, numbers: Numbers, loss: Literal["hinge", "linear"] = "hinge", points: int | None = None
) -> tuple[float, Array]:
    """Return E max(0, 1 − zF), or E(1 − zF), and its derivatives by the four numbers, (4,)."""
    from iclab.theory import meanfield_kernels as kernels  # imported late, because numba takes long to import

    types, moves, scale, scale_moves = token_types(setting, numbers)
    low = high = 0.0
    for _ in range(setting.train_length):
        low = min(low, float((types[:, 1] * low + types[:, 2]).min()))
        high = max(high, float((types[:, 1] * high + types[:, 2]).max()))
    if setting.model == "linear":  # Hoeffding: a sum leaves this window with a probability below 1e-12
        spread = float(np.ptp(types[:, 2])) * math.sqrt(setting.train_length * math.log(1e12) / 2)
        low = max(low, setting.train_length * float(types[:, 0] @ types[:, 2]) - spread)
    if loss == "hinge":
        high = min(high, max(2.0 / scale, float(types[:, 2].max())) + float(np.abs(types[:, 2]).max()))
        high = max(high, -low)  # beyond, the loss is 0 or nearly
    many = points or POINTS * (1 if setting.model == "mamba" else WIDER)
    cell = (high - low) / (many - 7)
    before = math.ceil(-low / cell) + 3
    h = cell * (np.arange(many) - before)
    u = np.zeros((5, many))
    u[0] = 1 - scale * h
    active = u[0] > 0 if loss == "hinge" else np.ones(many, dtype=bool)
    u[0] *= active
    u[1:] = -scale_moves[:, None] * h * active
    u = kernels.evolve(types, moves, setting.train_length, u, np.empty_like(u), h[0], cell)
    return float(u[0, before]), u[1:, before].copy()


@dataclass(frozen=True)
class Curve:
    """A predicted training."""

    steps: Array
    """(n,)."""
    loss: Array
    """(n,) the expected loss on fresh prompts."""
    numbers: Array
    """(n, 4) b, c, ω_e, ω_v."""

    def hitting_time(self, level: float) -> float:
        """Return the first step at which the loss is below ``level``, log-linear between steps; NaN if none is."""
        below = np.flatnonzero(self.loss < level)
        if not len(below):
            return math.nan
        i = int(below[0])
        if i == 0:
            return float(self.steps[0])
        (t0, t1), (y0, y1) = self.steps[i - 1 : i + 1], np.log(self.loss[i - 1 : i + 1])
        return float(t0 + (t1 - t0) * (math.log(level) - y0) / (y1 - y0))


def paces(setting: MambaSetting, free_gate: bool = True) -> Array:
    """Return the pace of each number in (F), (4,)."""
    m = setting.relevant
    gate = 1.0 if free_gate and setting.model == "mamba" else 0.0
    return setting.step_size * np.array([0.5 / (m - 1), 0.5, gate / m, gate / setting.outlier])


def predicted_curve(
    setting: MambaSetting,
    steps: int,
    *,
    free_gate: bool = True,
    loss: Literal["hinge", "linear"] = "hinge",
    points: int = 200,
    begin: Numbers | None = None,
) -> Curve:
    """Integrate (F) from the start of training.

    Args:
        setting: the training.
        steps: how many steps of gradient descent.
        free_gate: whether w is trained; if not, it stays at 0.
        loss: what is trained on; the curve is always the hinge loss.
        points: at how many steps to return the loss; half of them evenly spaced, half geometrically.
        begin: where to start, by default at δI and w = 0.
    """
    from scipy.integrate import solve_ivp  # slow to import

    if steps < 1:
        raise InputError(f"steps = {steps}: must be at least 1")
    if not setting.graph.complete or np.ptp(setting.graph.weights[setting.graph.weights > 0]) > 1e-12:
        raise InputError(
            f"tasks = {len(setting.tasks)} pairs: the mean field needs every pair of patterns, equally often"
        )
    if not setting.outlier:
        raise InputError("outlier = 0: the mean field needs at least 1 outlier pattern")
    pace = paces(setting, free_gate)

    def force(_: float, values: Array) -> Array:
        return -pace * expected_loss(setting, Numbers(*values), loss)[1]

    half = max(2, points // 2)
    times = np.unique(np.concatenate([np.linspace(0, steps, half), np.geomspace(min(1, steps), steps, half)]))
    first = np.array(begin or start(setting), dtype=np.float64)
    found = solve_ivp(force, (0.0, float(steps)), first, t_eval=times, method="LSODA", rtol=1e-3, atol=1e-6)
    if not found.success:
        raise InputError(f"steps = {steps}: the mean field cannot be integrated so far ({found.message})")
    curve = [expected_loss(setting, Numbers(*values))[0] for values in found.y.T]
    return Curve(found.t, np.array(curve), found.y.T)
