"""The description of a model: a built-in architecture by name or anyone's class, and its options."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import torch
from pydantic import Field, ValidationInfo, field_serializer, field_validator
from torch import nn

from iclab.config import Code, Config, InputError, what_was_raised
from iclab.models.base import MODELS, Architecture, declared

GIVEN = ("width", "context_length", "label_width")
"""Arguments that `Model.build` passes to a constructor that names them; all others are options."""
PLAIN = (bool, int, float, str, type(None))
"""Types of defaults that are filled in."""


class Model(Config):
    """An architecture and its options: a built-in one by name, or anyone's ``nn.Module`` class.

    A user's class is called with ``options`` and with those keywords it names among ``width`` (the length of a token),
    ``label_width`` (how many of its last coordinates are the label) and ``context_length``. It maps dense prompts
    (batch, l + 1, width) to outputs (batch,).

    Example:
        >>> Model(name="mamba", options={"state_size": 64}).build(width=31, context_length=20).key.shape
        torch.Size([64, 31])
    """

    name: str | Code
    options: Annotated[dict[str, Any], Field(validate_default=True)] = {}
    """Keyword arguments of the class. Defaults are filled in, so that writing one out changes nothing."""

    @field_validator("name", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, nn.Module):
            raise ValueError("must be the class, not a module that is built already: every seed builds its own")
        if callable(value) or (isinstance(value, str) and ":" in value):
            return Code.of(value)
        if isinstance(value, (Code, dict)) or (isinstance(value, str) and value in MODELS):  # a dictionary was stored
            return value
        raise ValueError(f"must be one of {', '.join(MODELS)}, or your own as 'package.module:Class'")

    @field_validator("options", mode="after")
    @classmethod
    def _complete(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "name" not in info.data:  # the name was refused already
            return options
        factory = _load(info.data["name"])
        accepted = _parameters(factory)
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
        for option in options:
            if option in GIVEN or (option not in accepted and not open_ended):
                known = ", ".join(name for name in accepted if name not in GIVEN) or "none"
                raise ValueError(f"model.options.{option} = {options[option]!r}: unknown option; known: {known}")
        complete = _default_options(factory)
        for option, value in options.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"model.options.{option} = {value}: must be finite")
            same = isinstance(complete.get(option), float) and type(value) is int  # 1 means 1.0
            complete[option] = float(value) if same else value
        try:
            _check_once(declared(factory), complete)
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"model.options = {options}: {str(error).splitlines()[0]}") from None
        return complete

    @field_serializer("options")
    def _without_later(self, options: dict[str, Any]) -> dict[str, Any]:
        """Leave out options that came later and have their default, so that hashes stay as they were."""
        later = declared(_load(self.name)).later_options if isinstance(self.name, str) else ()
        return {k: v for k, v in options.items() if k not in later or v != self.default_options[k]}

    @property
    def label(self) -> str:
        """The name in rows and messages; for a user's class, its name without the path."""
        return self.name if isinstance(self.name, str) else self.name.path.rpartition(":")[2]

    @property
    def is_users(self) -> bool:
        """Whether it is a user's own class, and not a built-in one."""
        return not isinstance(self.name, str)

    @property
    def architecture(self) -> type[Architecture]:
        """What its class declares: `iclab.models.base` lists what that may be."""
        return declared(_load(self.name))

    @property
    def takes_levels(self) -> bool:
        """Whether it answers prompts of several levels, one number for each; any class may declare this."""
        return bool(getattr(_load(self.name), "takes_levels", False))

    @property
    def default_options(self) -> dict[str, Any]:
        """The options that hold if none are given."""
        return _default_options(_load(self.name))

    @property
    def source(self) -> str:
        """The code of the file that defines it."""
        return inspect.getsource(inspect.getmodule(_load(self.name)))  # type: ignore[arg-type]

    def length_obstacle(self, context_length: int) -> str:
        """Return the reason why it cannot take prompts of this length; empty if it can."""
        longest = self.architecture.longest_context(self.options)
        if longest is None or context_length <= longest:
            return ""
        return f"context_length = {context_length}: must be at most {longest} for {self.label} with its options"

    def build(self, width: int, context_length: int, label_width: int = 1) -> nn.Module:
        """Construct one instance."""
        factory = _load(self.name)
        given = {"width": width, "context_length": context_length, "label_width": label_width}
        accepted = _parameters(factory)
        if not (isinstance(factory, type) and issubclass(factory, nn.Module)):
            raise InputError(f"model = {self.label}: must be a class of torch.nn.Module")
        if label_width > 1 and "label_width" not in accepted:
            raise InputError(
                f"model = {self.label}: takes labels of one number, these have {label_width}; use softmax-mlp or a "
                "class that accepts label_width"
            )
        arguments = {name: value for name, value in given.items() if name in accepted} | self.options
        try:
            module = factory(**arguments)
        except InputError as error:
            raise InputError(f"model = {self.label}: {error}") from None
        except Exception as error:  # a user's class may raise anything
            raise InputError(
                f"model = {self.label}: cannot be built with {arguments}: {what_was_raised(error)}"
            ) from error
        return module


def architecture(name: str) -> type[Architecture]:
    """Return what a model declares, by its name or by ``package.module:Class``; the defaults for any other text."""
    if ":" in name:
        return declared(Code.of(name).load())
    return MODELS.get(name, Architecture)


_CHECKED: set[tuple[type[Architecture], str]] = set()
"""Options that were checked already: there are many descriptions of few models."""


def _check_once(kind: type[Architecture], options: dict[str, Any]) -> None:
    what = (kind, repr(options))
    if what not in _CHECKED:
        with torch.random.fork_rng(devices=[]):  # a description must not use up anyone's random numbers
            kind.check(options)
        _CHECKED.add(what)


def _parameters(factory: Any) -> Mapping[str, inspect.Parameter]:
    """Return what a class takes; for a built-in model it is looked up once, as there are many descriptions of each."""
    return _signature(factory) if factory in MODELS.values() else inspect.signature(factory).parameters


@cache
def _signature(factory: type[Architecture]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(factory).parameters


def _default_options(factory: Any) -> dict[str, Any]:
    """Return the plain defaults of a class; others, such as a function, are part of the hash of its source."""
    accepted = _parameters(factory)
    return {name: p.default for name, p in accepted.items() if name not in GIVEN and isinstance(p.default, PLAIN)}


def _load(name: str | Code) -> Any:
    return MODELS[name] if isinstance(name, str) else name.load()
