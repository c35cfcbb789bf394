"""The architectures: one file each, the equation first, then the code."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, Any

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from iclab.config import Code, Config, InputError
from iclab.models.answer import Answer, as_answer, combine
from iclab.models.classical import Classical
from iclab.models.deep_linear import DeepLinear
from iclab.models.deep_mamba import DeepMamba
from iclab.models.deep_softmax import DeepSoftmax
from iclab.models.gpt2 import GPT2
from iclab.models.linear import Linear
from iclab.models.mamba import Mamba
from iclab.models.softmax import Softmax
from iclab.models.softmax_mlp import SoftmaxMLP

VERSION = 1
"""Part of every cell's hash: bump it when the same weights give another output, or start elsewhere."""

GROUP = 8
"""How many seeds are trained together, unless a built-in class has another number: its ``group``."""

MODELS: dict[str, type[nn.Module]] = {
    "mamba": Mamba,
    "linear": Linear,
    "softmax": Softmax,
    "deep-mamba": DeepMamba,
    "deep-linear": DeepLinear,
    "deep-softmax": DeepSoftmax,
    "softmax-mlp": SoftmaxMLP,
    "gpt2": GPT2,
    "classical": Classical,
}
"""The built-in architectures by name."""


class Model(Config):
    """An architecture and its options: a built-in one by name, or anyone's ``nn.Module`` class.

    A user's class is called with ``options`` and with the keywords it accepts among ``width`` (a token's length),
    ``label_width`` (how many of its last coordinates are the label) and ``context_length``. It maps dense prompts
    (batch, l + 1, width) to outputs (batch,).

    Example:
        >>> Model(name="mamba", options={"state_size": 64}).build(width=31, context_length=20).key.shape
        torch.Size([64, 31])
    """

    name: str | Code
    options: Annotated[dict[str, Any], Field(validate_default=True)] = {}
    """The class's keyword arguments; defaults are filled in, so that spelling one out changes nothing."""

    @field_validator("name", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, type):
            return Code.of(value)
        if isinstance(value, str) and ":" in value:
            return Code.of(value)
        if isinstance(value, str) and value not in MODELS:
            raise ValueError(f"must be one of {', '.join(MODELS)}, or your own as 'package.module:Class'")
        return value

    @field_validator("options", mode="after")
    @classmethod
    def _complete(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "name" not in info.data:  # the name was refused already
            return options
        accepted = inspect.signature(_factory(info.data["name"])).parameters
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
        for option in options:
            if option in GIVEN or (option not in accepted and not open_ended):
                known = ", ".join(name for name in accepted if name not in GIVEN) or "none"
                raise ValueError(f"model.options.{option} = {options[option]!r}: unknown option; known: {known}")
        defaults = {
            name: p.default for name, p in accepted.items() if name not in GIVEN and isinstance(p.default, PLAIN)
        }  # others, such as a class, are part of the source's hash
        for option, value in options.items():  # 1 and 1.0 mean the same
            if isinstance(defaults.get(option), float) and type(value) is int:
                defaults[option] = float(value)
            else:
                defaults[option] = value
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"model.options.{option} = {value}: must be finite")
        if isinstance(info.data["name"], str):
            try:
                _try(info.data["name"], defaults)
            except (TypeError, RuntimeError) as error:
                raise ValueError(f"model.options = {options}: {str(error).splitlines()[0]}") from None
        return defaults

    @property
    def label(self) -> str:
        """A short name for tables and figures."""
        return self.name if isinstance(self.name, str) else self.name.path.rpartition(":")[2]

    @property
    def group(self) -> int:
        """How many seeds are trained together."""
        return getattr(MODELS[self.name], "group", GROUP) if isinstance(self.name, str) else GROUP

    @property
    def gating(self) -> str:
        """How a built-in model gates, as the fused engine needs to know; empty where there is no fused form."""
        return getattr(MODELS[self.name], "gating", "") if isinstance(self.name, str) else ""

    @property
    def compact(self) -> bool:
        """Whether a built-in model can answer prompts in dictionary coordinates."""
        return isinstance(self.name, str) and hasattr(MODELS[self.name], "compact")

    def too_long(self, context_length: int) -> str:
        """Say why a built-in model cannot take prompts of so many examples; an empty text if it can."""
        positions = self.options.get("positions") if self.name == "gpt2" else None
        if positions is None or context_length < positions:
            return ""
        return f"positions = {positions}: too few for {context_length} examples and a query"

    @property
    def source(self) -> str:
        """The code of the file it is written in."""
        return inspect.getsource(inspect.getmodule(_factory(self.name)))  # type: ignore[arg-type]

    def build(self, width: int, context_length: int, label_width: int = 1) -> nn.Module:
        """Construct one instance."""
        factory = _factory(self.name)
        given = {"width": width, "context_length": context_length, "label_width": label_width}
        accepted = inspect.signature(factory).parameters
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
        except (TypeError, ValueError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"model = {self.label}: cannot be built with {arguments} ({reason})") from error
        return module


PLAIN = (bool, int, float, str, type(None))
GIVEN = ("width", "context_length", "label_width")
"""What `Model.build` itself passes to a class that asks for it."""


_TRIED: set[str] = set()
"""What has been built once: there are many descriptions of few models."""


def _try(name: str, options: dict[str, Any]) -> None:
    """Build a built-in model, if it never was: options that do not fit raise."""
    what = f"{name} {options!r}"
    if what in _TRIED:
        return
    heads = options.get("heads")
    width = 1 + heads if isinstance(heads, int) and heads > 0 else 4  # a size that any options fit
    with torch.random.fork_rng(devices=[]):  # a description takes no random numbers from anyone
        MODELS[name](width=width, **options)
    _TRIED.add(what)


def _factory(name: str | Code) -> Any:
    return MODELS[name] if isinstance(name, str) else name.load()


__all__ = [
    "GPT2",
    "GROUP",
    "MODELS",
    "VERSION",
    "Answer",
    "Classical",
    "DeepLinear",
    "DeepMamba",
    "DeepSoftmax",
    "Linear",
    "Mamba",
    "Model",
    "Softmax",
    "SoftmaxMLP",
    "as_answer",
    "combine",
]
