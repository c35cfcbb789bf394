"""The gates that the one-layer kernels know: decay and inflow as functions of a logit, and their derivatives.

F = h_l · decay(query), h_i = decay_i · h_{i−1} + inflow_i · y_i score_i. A gate of another form is one more function
here, its name in `KINDS`, and ``gate_form`` in its model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.models.gates import GateForm
from iclab.prompts.compiling import compiled

# Without a gate, and with Mamba's, kernels have loops of their own.
UNGATED, PRODUCT, POWER, SCALED, RETENTION, CONSTANT, SIGMOID, HARD, SOFTSIGN, EXP = range(10)
KINDS = {
    "none": UNGATED,
    "product": PRODUCT,
    "power": POWER,
    "scaled": SCALED,
    "retention": RETENTION,
    "constant": CONSTANT,
    "sigmoid": SIGMOID,
    "hard": HARD,
    "softsign": SOFTSIGN,
    "exp": EXP,
}
"""The codes of the functions by the name that a model's `GateForm` has."""


class Gate(NamedTuple):
    """A function and its numbers."""

    kind: int
    first: Any
    second: Any
    trained: NDArray[Any]
    """(1,) a, the number that training moves."""


def make_gate(form: GateForm, dtype: Any, number: float) -> Gate:
    """Return a model's gate with its trained number."""
    real = np.dtype(dtype).type
    return Gate(KINDS[form.kind], real(form.first), real(form.second), np.full(1, number, dtype=dtype))


@compiled
def open_gate(gate, x):  # type: ignore[no-untyped-def]
    """Return decay, inflow, ∂decay/∂x, ∂inflow/∂x and ∂decay/∂a at a logit x."""
    zero = x - x
    one = zero + 1
    if gate.kind == POWER or gate.kind == SCALED:
        return _power(gate, x, zero, one)
    if gate.kind == RETENTION:  # σ(x)^first
        decay, slope = _to_the(gate.first, -x, zero, one)
        return decay, one, -slope, zero, zero
    if gate.kind == CONSTANT:  # σ(a)
        decay = one / (one + np.exp(-gate.trained[0]))
        return decay + zero, one, zero, zero, decay * (one - decay)
    if gate.kind == HARD:  # clip(½ + x/4, 0, 1)
        inflow = min(max(one / 2 + x / 4, zero), one)
        slope = one / 4 if zero < inflow < one else zero
        return one - inflow, inflow, -slope, slope, zero
    if gate.kind == SOFTSIGN:  # ½ (1 + x/(2 + |x|))
        small = one / (2 + abs(x))
        inflow, decay = (small, one - small) if x < 0 else (one - small, small)
        return decay, inflow, -small * small, small * small, zero
    if gate.kind == EXP:  # 1 − exp(−e^x)
        step = np.exp(min(x, one * 50))
        decay = np.exp(-step)
        return decay, -np.expm1(-step), -step * decay, step * decay, zero
    share, inflow = one - gate.second, _sigmoid(gate.first * x, one)  # second + (1 − second) σ(first · x)
    stay = _sigmoid(-gate.first * x, one)
    slope = share * gate.first * inflow * stay
    return share * stay, gate.second + share * inflow, -slope, slope, zero


@compiled
def _sigmoid(x, one):  # type: ignore[no-untyped-def]
    power = np.exp(-abs(x))
    return (one if x > 0 else power) / (one + power)


@compiled
def _softplus(x, zero):  # type: ignore[no-untyped-def]
    return max(x, zero) + np.log1p(np.exp(-abs(x)))


@compiled
def _to_the(exponent, x, zero, one):  # type: ignore[no-untyped-def]
    """Return (1 − σ(x))^exponent and its slope."""
    decay = np.exp(-exponent * _softplus(x, zero))
    return decay, -exponent * _sigmoid(x, one) * decay


@compiled
def _power(gate, x, zero, one):  # type: ignore[no-untyped-def]
    """Return (1 − σ(x))^(e^a) with the inflow 1, or softplus(x)."""
    exponent, step = np.exp(gate.trained[0]), _softplus(x, zero)
    decay, slope = _to_the(exponent, x, zero, one)
    turn = -exponent * step * decay
    if gate.kind == SCALED:
        return decay, step, slope, _sigmoid(x, one), turn
    return decay, one, slope, zero, turn
