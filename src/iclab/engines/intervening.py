"""Interventions: a forward pass with some of its values replaced, and what values pass through a named place.

A place is a submodule of the model, by its name in ``named_modules()``. The built-in architectures have submodules that
pass on what they get, so that their steps have names too: `iclab.models.base.Point`. Seeds run one after another here,
so that a function sees one seed's values; answers are those of the engine that trained, up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from iclab.config import InputError, reason_of, shown, unknown_key
from iclab.engines.ensemble import OneByOne, Weights, restore
from iclab.engines.failures import Located, in_words, naming
from iclab.engines.reference import CHUNK
from iclab.engines.rehearsal import fresh_modules, rehearse_answers
from iclab.engines.trained import Advance, Trained, stacked_dictionary
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts, Stream
from iclab.threads import one_thread

Change = float | Tensor | Callable[..., Any]
"""A number for every value; recorded values (seeds, prompts, …); or a function of the values, and of the `Visit`."""


@dataclass(frozen=True)
class Visit:
    """What a function can know of the prompts whose values pass."""

    name: str
    """The place."""
    seed: int
    tokens: Tensor
    """(batch, l + 1, width) the prompts."""
    row: int
    """The place of the seed among the seeds of the run."""
    first: int
    """The number of the first of these prompts."""

    def of(self, recorded: Tensor) -> Tensor:
        """Return the values of these prompts from ``recorded``, (seeds, prompts, …), as `activations` returns them."""
        found = recorded[self.row, self.first : self.first + len(self.tokens)]
        if len(found) < len(self.tokens):
            raise Located(
                f"{self.name}: values of {recorded.shape[1]} prompts were recorded, and more are asked for; "
                "use the same count"
            )
        return found


@dataclass(frozen=True)
class Interventions:
    """What to change in a forward pass, in order."""

    changes: tuple[tuple[str, Change], ...]
    seeds: tuple[int, ...]
    """The seeds that recorded values belong to, in order."""

    def __str__(self) -> str:
        return ", ".join(f"{name} = {_told(change)}" for name, change in self.changes)


def _told(change: Change) -> str:
    return getattr(change, "__name__", None) or shown(change)


def check(trained: Trained, changes: Mapping[str, Any]) -> None:
    """Refuse places that the model does not have, and changes of no known kind."""
    known = places(trained)
    for name, change in changes.items():
        if name not in known:
            raise InputError(unknown_key(name, known))
        number = isinstance(change, (int, float)) and not isinstance(change, bool)
        if not (number or isinstance(change, Tensor) or callable(change)):
            raise InputError(f"{name} = {shown(change)}: must be a number, a tensor of recorded values or a function")
        if isinstance(change, Tensor) and (change.dim() < 2 or len(change) != len(trained.seeds)):
            raise InputError(
                f"{name} = {shown(change)}: must be values (seeds, prompts, …) of {len(trained.seeds)} seeds, "
                "as activations returns them"
            )


def places(trained: Trained) -> list[str]:
    """Return the names of the places in a model's forward pass."""
    (module,) = _fresh(trained, trained.seeds[:1], trained.training.prompts)
    return [name for name, _ in module.named_modules() if name]


def modules(trained: Trained, weights: Weights, prompts: Prompts | None = None) -> list[nn.Module]:
    """Return the module of each seed with the given weights, (seeds, …) by name, ready to answer.

    ``prompts`` are those it will answer, by default those of the training.
    """
    found = _fresh(trained, trained.seeds, prompts or trained.training.prompts)
    for row, module in enumerate(found):
        restore(module, {name: w[row] for name, w in weights.items()})
        module.eval()
    return found


def _fresh(trained: Trained, seeds: tuple[int, ...], prompts: Prompts) -> list[nn.Module]:
    with one_thread():
        return fresh_modules(trained.training, seeds, rehearse_answers(trained.training, prompts).lazy)


def dense(trained: Trained, batch: PromptBatch, prompts: Prompts) -> Tensor:
    """Return the tokens of a batch as models see them, (seeds, batch, l + 1, width)."""
    return batch.dense(stacked_dictionary(trained.training, trained.seeds, prompts))


def answers(
    trained: Trained,
    weights: Weights,
    prompts: Prompts,
    count: int,
    *,
    stream: Stream = Stream.TEST,
    step: int = 0,
    advance: Advance = lambda prompts: None,
    record: Callable[[str, int, Tensor], None] | None = None,
    at: str = "",
) -> Iterator[tuple[PromptBatch, Answer]]:
    """Answer ``count`` fresh prompts per seed with interventions; ``record`` gets the values at a place, by row."""
    training, seeds = trained.training, trained.seeds
    interventions = trained.interventions or Interventions((), seeds)
    ensemble = OneByOne(modules(trained, weights, prompts), seeds)
    dictionary = stacked_dictionary(training, seeds, prompts)

    def hooked(first: int, row: int, module: nn.Module, tokens: Tensor) -> AbstractContextManager[None]:
        place = interventions.seeds.index(seeds[row])
        visit = partial(Visit, seed=seeds[row], tokens=tokens, row=place, first=first)
        return _hooked(module, interventions, visit, at, partial(record, at, row) if record else None)

    for first in range(0, count, CHUNK):
        many = min(CHUNK, count - first)
        where = naming(training.model, lambda: f"in evaluation, {in_words(ensemble.running)}")
        with one_thread(), torch.no_grad(), where:
            batch = prompts.draw(seeds, stream, step=step, first=first, count=many, dtype=training.dtype)
            answer = ensemble.forward(batch.dense(dictionary), training=False, around=partial(hooked, first))
        yield batch, answer
        advance(many * len(seeds))


@contextmanager
def _hooked(
    module: nn.Module,
    interventions: Interventions,
    visit: Callable[..., Visit],
    at: str,
    record: Callable[[Tensor], None] | None,
) -> Iterator[None]:
    """Change and record values while a module runs; refuse places that its forward pass did not reach."""
    visited, recorded = set(), []
    handles = []

    def changing(name: str, change: Change, _: nn.Module, __: Any, value: Any) -> Any:
        visited.add(name)
        return _changed(visit(name), change, value)

    def recording(_: nn.Module, __: Any, value: Any) -> None:
        visited.add(at)
        recorded.append(value)
        if not isinstance(value, Tensor) or len(recorded) > 1:
            found = f"a {type(value).__name__} passes" if len(recorded) == 1 else "several values per prompt pass"
            raise Located(f"{at}: {found} there; look at a place that returns one tensor")
        assert record is not None
        record(value)

    try:
        for name, change in interventions.changes:
            hook = partial(changing, name, change)
            handles.append(module.get_submodule(name).register_forward_hook(hook))
        if record is not None:
            handles.append(module.get_submodule(at).register_forward_hook(recording))
        yield
    finally:
        for handle in handles:
            handle.remove()
    for name in (*dict(interventions.changes), *([at] if record else [])):
        if name not in visited:
            raise Located(f"{name}: the model's forward pass does not go through it")


def _changed(visit: Visit, change: Change, value: Any) -> Any:
    """Return what an intervention makes of the values at a place."""
    if not isinstance(value, Tensor) and not callable(change):
        raise Located(f"{visit.name}: the model returns a {type(value).__name__} there; give a function of it")
    if isinstance(change, Tensor):
        new = visit.of(change).to(value)
    elif callable(change):
        new = _called(visit, change, value.clone() if isinstance(value, Tensor) else value)
    else:
        return torch.full_like(value, change)
    if isinstance(value, Tensor) and (not isinstance(new, Tensor) or new.shape != value.shape):
        raise Located(f"{visit.name}: the change must have shape {tuple(value.shape)}, is {shown(new)}")
    if isinstance(value, tuple) and (not isinstance(new, tuple) or len(new) != len(value)):
        raise Located(f"{visit.name}: the model returns a tuple of {len(value)} there; the change gives {shown(new)}")
    return new.to(value) if isinstance(value, Tensor) else new


def _called(visit: Visit, change: Callable[..., Any], value: Any) -> Any:
    """Call a user's function with the values, and with the visit if it takes two; it may change the values in place."""
    try:
        new = change(value, visit) if _takes_two(change) else change(value)
    except InputError:
        raise
    except Exception as error:  # a user's function may raise anything
        reason = reason_of(error)
        raise Located(f"{visit.name}: the intervention fails for seed {visit.seed} ({reason})") from error
    return value if new is None else new


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        accepted = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions have no signature
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in accepted) >= 2
