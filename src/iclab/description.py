"""Descriptions: frozen, validated statements of what to do, from which a stable hash is made.

Everything a user can ask for (patterns, prompts, a recipe, a cell of work) is a `Description`. Unknown keys are
refused, so that a misspelt setting never runs silently with its default.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema


class InputError(ValueError):
    """Something a person asked for cannot be done; the message is one line that says what is allowed."""


class OutsideTheoremWarning(UserWarning):
    """What was asked for can be done, but no theorem of the papers speaks of it."""


class Description(BaseModel):
    """A frozen pydantic model that refuses unknown keys and values that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    def digest(self, **versions: int) -> str:
        """Hash the meaning: every field, defaults spelled out, in sorted order, and the given code versions."""
        meaning = {"fields": self.model_dump(mode="json"), "versions": versions, "kind": type(self).__name__}
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


class Code:
    """A user's function or class, known by import path and by a hash of its source.

    >>> Code.of("math:sqrt").load()(9.0)
    3.0
    """

    __slots__ = ("_object", "path", "source")

    def __init__(self, path: str, source: str, obj: Any = None) -> None:
        self.path = path
        self.source = source
        self._object = obj

    @classmethod
    def of(cls, value: str | Callable[..., Any]) -> Code:
        """Make a reference from ``"package.module:name"`` or from the object itself."""
        if not isinstance(value, str):
            kind = value if hasattr(value, "__qualname__") else type(value)  # a partial, or an object one can call
            name = kind.__qualname__ if kind is value else f"<{kind.__qualname__}>"
            return cls(f"{kind.__module__}:{name}", _source_hash(value), value)
        obj = _import(value)
        if not callable(obj):
            raise InputError(f"{value}: must be a function or a class, is a {type(obj).__name__}")
        return cls(value, _source_hash(obj), obj)

    @property
    def importable(self) -> bool:
        """Whether another process can find this object by its path."""
        return "<" not in self.path and not self.path.startswith("__main__:")

    def load(self) -> Any:
        """Return the object, importing it if this reference came from a file."""
        if self._object is None:
            self._object = _import(self.path)
        return self._object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and (self.path, self.source) == (other.path, other.source)

    def __hash__(self) -> int:
        return hash((self.path, self.source))

    def __repr__(self) -> str:
        return f"Code({self.path!r})"

    @classmethod
    def _validate(cls, value: Any) -> Code:
        if isinstance(value, Code):
            return value
        if isinstance(value, dict) and set(value) == {"path", "source"}:
            return cls(**value)
        if callable(value) or (isinstance(value, str) and ":" in value):
            return cls.of(value)
        raise ValueError("must be a callable or 'package.module:name'")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda code: {"path": code.path, "source": code.source}
            ),
        )


def _import(path: str) -> Any:
    module_name, _, name = path.partition(":")
    if "" not in sys.path:  # as `python -m` does: a user's module in the working directory is found
        sys.path.insert(0, "")
    try:
        target = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except Exception as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path}: cannot be imported ({reason}); write it as package.module:name") from None
    return target


def _source_hash(obj: Any) -> str:
    """Hash the whole module that defines the object, so that a changed helper beside it counts as a change.

    The object itself is hashed too: two lambdas or closures of one module are two objects.
    """
    try:
        text = Path(inspect.getsourcefile(obj) or "").read_text()
    except (OSError, TypeError):
        text = ""
    return hashlib.sha256(f"{text}\0{_fingerprint(obj)}".encode()).hexdigest()[:16]


def _fingerprint(obj: Any) -> str:
    if isinstance(obj, type):
        return ";".join(
            f"{name}={_fingerprint(value)}" for name, value in vars(obj).items() if not name.startswith("__dict")
        )
    if hasattr(obj, "func"):  # a partial
        return repr((_fingerprint(obj.func), obj.args, obj.keywords))
    code = getattr(obj, "__code__", None)
    if code is None:
        return repr(obj) if isinstance(obj, (bool, int, float, str, tuple, type(None))) else type(obj).__qualname__
    closure = [repr(cell.cell_contents) for cell in obj.__closure__ or ()]
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    return repr((code.co_firstlineno, code.co_code.hex(), constants, code.co_names, closure, repr(obj.__defaults__)))


def explain(error: ValidationError) -> str:
    """Turn pydantic's report into one line: field, value, what is allowed."""
    lines = []
    for item in error.errors():
        # Names of union members and validators are pydantic's, not the user's: keep real field names and indices.
        parts = [str(p) for p in item["loc"]]
        named = [p for p in parts if p.isdigit() or (p.isidentifier() and not p[:1].isupper())]
        field = ".".join(named)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            lines.append(f"{'.'.join([*(p for p in parts[:-1] if p in named), parts[-1]])}: unknown key")
        elif item["type"] == "value_error" and "=" in message.split(":")[0]:
            lines.append(message)  # the validator already named the field and its value
        else:
            value = item["input"]
            shown = "" if isinstance(value, (dict, BaseModel)) else f" = {value!r}"
            lines.append(f"{field}{shown}: {message[:1].lower() + message[1:]}")
    return "; ".join(dict.fromkeys(lines))
