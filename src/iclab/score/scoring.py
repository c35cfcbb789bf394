"""`iclab.score`: integrity, tuning, measurements, and the card of a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

from iclab import lab, testing
from iclab.api.asking import how_to_run, model_of, opened
from iclab.config import Code, InputError, OutsideTheoremWarning, what_was_raised
from iclab.lab import Store
from iclab.lab.events import Listener
from iclab.lab.executors import Executor
from iclab.models import Model
from iclab.score.card import Card, Check, Cost
from iclab.score.costing import cost_of
from iclab.score.measuring import measure
from iclab.score.suite import Suite, suite
from iclab.score.tuning import Cells


def score(
    model: Any,
    *,
    quick: bool = False,
    options: dict[str, Any] | None = None,
    store: Store | Path | str | None = None,
    workers: int | None = None,
    progress: bool = False,
    on_progress: Listener | None = None,
    executor: Executor | None = None,
    of: Suite | None = None,
) -> Card:
    """Score a model on the fixed suite: is it sound, what does it learn, what does it withstand, what does it cost?

    Args:
        model: your ``nn.Module`` class, a built-in name, ``package.module:Class`` or a `Model`.
        quick: the quick edition: fewer steps and prompts, and a smaller tuning grid.
        options: keyword arguments of the constructor.
        store: a folder that keeps finished cells; a score that was interrupted continues there.
        workers, progress, on_progress, executor: as for `iclab.train`.
        of: another suite, such as a part of the usual one. Its card can be compared with others of the same suite only.

    Returns:
        The card. A module that raises, answers in a wrong shape or with NaN has one too: it says so.

    Example:
        >>> from iclab.score.suite import suite
        >>> small = suite("quick").replace(parts=suite("quick").parts[1:2], steps=5, test_prompts=10)
        >>> score("linear", of=small)["regression"].unit
        'squares'
    """
    described = model_of(model)
    described = described.replace(options={**described.options, **options}) if options else described
    asked = of or suite("quick" if quick else "full")
    how = how_to_run(workers, progress, on_progress, executor)
    with opened(store) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoremWarning)

        def run(cells: Cells, title: str) -> None:
            lab.run(cells, place, title=f"{described.label}, {title}", **how)

        tuned, measures = measure(described, asked, place, partial(compute, run))
    code = described.name if isinstance(described.name, Code) else None
    return Card(
        model=described.label,
        name=described.name if code is None else code.path,
        options={key: value for key, value in described.options.items() if _plain(value)},
        source="" if code is None else code.source,
        suite_version=asked.version,
        suite=asked.digest(),
        edition=asked.edition,
        seeds=asked.seeds,
        validation_seeds=asked.validation_seeds,
        steps=asked.steps,
        batch_size=asked.batch_size,
        checks=integrity(described),
        tuned=tuned,
        measures=measures,
        cost=_cost(described, asked),
    )


def compute(run: Callable[[Cells, str], None], parts: Mapping[str, Cells], title: str) -> dict[str, str]:
    """Compute the cells of all parts in one run. If that fails, go part by part; return why some failed, by part."""
    try:
        run([cell for cells in parts.values() for cell in cells], title)
        return {}
    except InputError:  # the run ends with the first one
        failed = {}
    for name, cells in parts.items():
        try:
            run(cells, f"{title} {name}")
        except InputError as error:
            failed[name] = str(error)
    return failed


def integrity(model: Model) -> tuple[Check, ...]:
    """Run every check of `iclab.testing`; a failure is a row, and not the end."""
    found = []
    for name, check in testing.checks():
        about = {"name": name, "words": testing.what_passes(name)}
        try:
            check(model)
        except SkipTest as skipped:
            found.append(Check(**about, outcome="skipped", reason=str(skipped)))
        except Exception as error:  # `checks` raises AssertionError; describing the model may raise anything
            prefix = f"{model.label} fails the check {name}: "
            reason = str(error) if isinstance(error, (AssertionError, InputError)) else what_was_raised(error)
            found.append(Check(**about, outcome="failed", reason=reason.removeprefix(prefix)))
        else:
            found.append(Check(**about, outcome="passed"))
    return tuple(found)


def _cost(model: Model, asked: Suite) -> Cost | None:
    try:
        return cost_of(model, asked)
    except Exception:  # a user's module may raise anything, and the checks have said what
        return None


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))
