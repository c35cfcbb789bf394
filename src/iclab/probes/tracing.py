"""Numbers that remember how they were computed, so that another program can compute them again.

Inside ``with tracing():`` the functions marked as `traced` return a `Number`: a float that knows the operation and the
operands it comes from. So do sums, differences, products and quotients of numbers. The first operands are the numbers
of stored rows (`of_row`). Functions like `math.log` take a number for an ordinary float and forget where it came from:
judges use those of this module instead.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
_TRACING: ContextVar[bool] = ContextVar("tracing", default=False)
UFUNCS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"} | {
    name: name for name in ("negative", "absolute", "exp", "log", "sqrt")
}
"""The operations of NumPy that keep track of their operands."""


@contextmanager
def tracing() -> Iterator[None]:
    """Let `traced` functions remember their arguments inside a ``with`` block."""
    before = _TRACING.set(True)
    try:
        yield
    finally:
        _TRACING.reset(before)


class _Traced:
    """What both kinds of number share."""

    how: tuple[Any, ...]
    """The operation, and its operands."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        found = getattr(ufunc, method)(*map(plain, inputs), **more)
        name = UFUNCS.get(ufunc.__name__)
        return found if name is None or method != "__call__" or found.ndim else number(found, name, *inputs)


class Number(_Traced, float):
    """A real number that knows where it comes from."""


class Count(_Traced, int):
    """A whole number that knows where it comes from."""


def number(value: Any, *how: Any) -> Any:
    """Return a value that remembers how it was computed; None and truth values stay what they are."""
    if value is None or isinstance(value, bool):
        return value
    found: Any = Count(value) if isinstance(value, int) else Number(value)
    found.how = how
    return found


def of_row(value: Any, row: int, column: str) -> Any:
    """Return a number of a stored row."""
    return number(value, "row", row, column) if isinstance(value, (int, float)) else value


def plain(value: Any) -> Any:
    """Return a number, or a list of numbers, as it was before it was traced."""
    if isinstance(value, Count):
        return int(value)
    if isinstance(value, Number):
        return float(value)
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def traced(function: F) -> F:
    """Let a function of numbers and lists of numbers remember its arguments; each end of an interval is a number."""
    signature = inspect.signature(function)

    @wraps(function)
    def remembering(*arguments: Any, **more: Any) -> Any:
        if not _TRACING.get():
            return function(*arguments, **more)
        bound = signature.bind(*arguments, **more)
        given = [list(v) if isinstance(v, Iterable) else v for v in bound.arguments.values()]
        found = function(*map(plain, given))
        name = function.__name__
        if is_dataclass(found):
            ends = {end: number(getattr(found, end), f"{name}.{end}", *given) for end in ("low", "high")}
            return replace(found, **ends)  # type: ignore[type-var]
        return number(found, name, *given)

    return remembering  # type: ignore[return-value]


def _install() -> None:
    """Give both kinds of number the arithmetic that remembers."""
    signs = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}
    for name, sign in signs.items():
        compute = getattr(operator, name)

        def forward(self: Any, other: Any, compute: Any = compute, sign: str = sign) -> Any:
            known = isinstance(other, (int, float))
            return number(compute(plain(self), plain(other)), sign, self, other) if known else NotImplemented

        def backward(self: Any, other: Any, compute: Any = compute, sign: str = sign) -> Any:
            known = isinstance(other, (int, float))
            return number(compute(plain(other), plain(self)), sign, other, self) if known else NotImplemented

        for kind in (Number, Count):
            setattr(kind, f"__{name}__", forward)
            setattr(kind, f"__r{name}__", backward)
    for kind in (Number, Count):
        kind.__neg__ = lambda self: number(-plain(self), "negative", self)  # type: ignore[method-assign]
        kind.__abs__ = lambda self: number(abs(plain(self)), "absolute", self)  # type: ignore[method-assign]


_install()


@traced
def mean(values: Iterable[float]) -> float:
    """Return the mean of one number or more."""
    listed = list(values)
    return sum(listed) / len(listed)


@traced
def total(values: Iterable[float]) -> float:
    """Return the sum of numbers."""
    return sum(values)


@traced
def least(values: Iterable[float]) -> float:
    """Return the smallest of one number or more."""
    return min(values)


@traced
def most(values: Iterable[float]) -> float:
    """Return the largest of one number or more."""
    return max(values)


@traced
def variance(values: Iterable[float]) -> float:
    """Return the variance of one number or more, around their mean."""
    return float(np.var(list(values)))


@traced
def log(value: float) -> float:
    """Return the natural logarithm."""
    return math.log(value)


@traced
def exp(value: float) -> float:
    """Return e to the power of a number."""
    return math.exp(value)


@traced
def sqrt(value: float) -> float:
    """Return the square root."""
    return math.sqrt(value)
