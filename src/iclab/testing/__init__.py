"""Checks that every model passes: the built-in ones, and yours.

    import iclab.testing

    print(iclab.testing.check_model(Mine))

raises an `AssertionError` that names the first check that fails, or returns what passed and what was skipped. In
pytest, every check can be a test of its own:

    @pytest.mark.parametrize("name, check", iclab.testing.checks())
    def test_mine(name, check):
        check(Mine)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

from torch import nn

from iclab.config import InputError, what_was_raised
from iclab.models import Model
from iclab.prompts import Prompts
from iclab.testing import passes, trainings
from iclab.testing.subject import PROMPTS, RECIPE, SEEDS, TOLERANCE, DType, Subject

__all__ = ["PROMPTS", "RECIPE", "SEEDS", "TOLERANCE", "Checked", "check_model", "checks", "what_passes"]


@dataclass(frozen=True)
class Checked:
    """Which checks a model has passed, and which were skipped and why."""

    model: str
    passed: tuple[str, ...]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{self.model}: {len(self.passed)} checks passed, {len(self.skipped)} skipped"]
        lines += [f"  passed   {name}: {what_passes(name)}" for name in self.passed]
        lines += [f"  skipped  {name}: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)

    __repr__ = __str__


def check_model(
    model: str | type[nn.Module] | Model,
    prompts: Prompts | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    dtype: DType = "float32",
    noise: float = 0.0,
) -> Checked:
    """Check a model in every way in which iclab will use it.

    Args:
        model: your class, a built-in name, or a `Model`.
        prompts: what it is to answer; by default small prompts of 8 examples.
        options: keyword arguments of its constructor.
        dtype: ``float32`` or ``float64``.
        noise: the size of random numbers that are added to the parameters for checks of answers and gradients. A start
            that is the identity or 0 may hide a mistake.

    Raises:
        AssertionError: names the first check that it fails, and says why.

    Example:
        >>> check_model("linear").skipped["recurrent"]
        'it has no method recurrent_step'
    """
    passed, skipped = [], {}
    for name, check in checks():
        try:
            check(model, prompts, options, dtype=dtype, noise=noise)
        except SkipTest as reason:
            skipped[name] = str(reason)
        else:
            passed.append(name)
    return Checked(_described(model, options).label, tuple(passed), skipped)


def checks() -> list[tuple[str, Callable[..., None]]]:
    """Return the checks with their names. Each takes what `check_model` takes, and raises if the model fails it.

    One that does not apply raises ``unittest.SkipTest``, which pytest counts as skipped.
    """
    return [(name, functools.partial(_run, name, function)) for name, function in _CHECKS.items()]


def what_passes(name: str) -> str:
    """Return what a check requires: its docstring."""
    return _CHECKS[name].__doc__ or name


def _run(
    name: str,
    function: Callable[[Subject], None],
    model: str | type[nn.Module] | Model,
    prompts: Prompts | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    dtype: DType = "float32",
    noise: float = 0.0,
) -> None:
    described = _described(model, options)
    try:
        function(_subject(described, prompts or PROMPTS, dtype, noise))
    except SkipTest:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = str(error) if isinstance(error, (AssertionError, InputError)) else what_was_raised(error)
        raise AssertionError(f"{described.label} fails the check {name}: {reason}") from error.__cause__ or error


def _described(model: str | type[nn.Module] | Model, options: Mapping[str, Any] | None) -> Model:
    if isinstance(model, Model):
        return model.replace(options={**model.options, **options}) if options else model
    return Model(name=model, options=dict(options or {}))


_latest: dict[Any, Subject] = {}


def _subject(model: Model, prompts: Prompts, dtype: DType, noise: float) -> Subject:
    """Return the subject of a check; the last one is kept, because the next check is of the same model."""
    kind = model.name if isinstance(model.name, str) else model.name.load()
    key = (kind, repr(sorted(model.options.items())), prompts, dtype, noise)
    if key not in _latest:
        subject = Subject(model, prompts, dtype, noise)
        _latest.clear()
        _latest[key] = subject
    return _latest[key]


_CHECKS: dict[str, Callable[[Subject], None]] = {
    "builds": passes.builds,
    "shape": passes.shape,
    "gradients": passes.gradients,
    "trains": trainings.trains,
    "start": passes.start,
    "deterministic": passes.deterministic,
    "modes": passes.modes,
    "untouched": passes.untouched,
    "batch": passes.batch,
    "prefix": passes.prefix,
    "recurrent": passes.recurrent,
    "lengths": passes.lengths,
    "stacked": trainings.stacked,
    "seeds": trainings.seeds,
    "measures": trainings.measures,
    "saves": trainings.saves,
    "double": trainings.double,
}
"""In this order, so that the first that fails says most."""
