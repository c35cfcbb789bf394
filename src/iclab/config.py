"""Descriptions: frozen, validated objects with a stable hash.

Everything a user can ask for (patterns, prompts, a recipe, a cell of work) is a `Config`. Unknown keys are refused,
so that a misspelt setting never runs with its default.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from iclab.fingerprints import FingerprintError, source_hash, users_files


class InputError(ValueError):
    """A request that cannot be met; the message is one line that says what is allowed."""

    exit_code = 2
    """What the command line returns."""


def reason_of(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message: ``KeyError: 'x'``."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def what_was_raised(error: BaseException) -> str:
    """Return ``raised KeyError: 'x' (mine.py, line 12)``, with the last line of a user's own file that was running."""
    text = reason_of(error).strip().rstrip(":.")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        library = any(file.is_relative_to(place) for place in (Path(__file__).parent, Path(os.__file__).parent))
        if not (library or file.name.startswith("<frozen") or {"site-packages", "dist-packages"} & {*file.parts}):
            return f"raised {text} ({file.name}, line {frame.lineno})"
    return f"raised {text}"


def check_whole(**sizes: Any) -> None:
    """Raise `InputError` unless every size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InputError(f"{name} = {size!r}: must be a whole number of at least 1")


class OutsideTheoremWarning(UserWarning):
    """A request that can be met but that no theorem of the papers covers."""


class Config(BaseModel):
    """A frozen pydantic model that refuses unknown keys and infinite or NaN values, in one line.

    Example:
        >>> Config(fraction=0.5)
        Traceback (most recent call last):
        iclab.config.InputError: fraction: unknown key
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    def __new__(cls, /, *values: Any, **fields: Any) -> Self:
        """Refuse values without their names; here, as what `__init__` takes is shown by ``help``."""
        if values:
            raise InputError(by_keyword(cls, values))
        return super().__new__(cls)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(explain(error, type(self))) from None

    # Pydantic need not call `__init__` for the parts of a description: the outermost one explains what is wrong.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).model_fields:
            raise InputError(f"{name}: a description does not change; replace({name}=…) returns a changed copy")
        super().__setattr__(name, value)

    def replace(self, /, **changes: Any) -> Self:
        """Return a validated copy with some fields changed: ``prompts.replace(tasks="all")``."""
        fields = type(self).model_fields
        for name in changes:
            if name not in fields:
                raise InputError(unknown_key(name, fields))
        values = {name: getattr(self, name) for name in fields}  # without cached properties
        copy = type(self)(**values | changes)
        copy.model_fields_set.intersection_update(self.model_fields_set | changes.keys())  # what was given, not all
        return copy

    def digest(self, **versions: int) -> str:
        """Return a hash of every field, defaults included and in sorted order, and of the given code versions."""
        key = tuple(sorted(versions.items()))
        if key not in self._digests:
            self._digests[key] = digest_of(type(self).__name__, self.model_dump(mode="json"), versions)
        return self._digests[key]

    def __getstate__(self) -> dict[Any, Any]:
        """Return what another process gets of the description: its fields and hashes, and nothing else kept with it."""
        state, known = super().__getstate__(), {*type(self).model_fields, "_digests"}
        return state | {"__dict__": {name: value for name, value in state["__dict__"].items() if name in known}}

    @cached_property
    def _memo(self) -> dict[Any, Any]:
        """What others have found out about the description, kept for the next time they ask; no part of it."""
        return {}

    @cached_property
    def _digests(self) -> dict[tuple[tuple[str, int], ...], str]:
        """Digests by code versions; pydantic ignores cached properties when it compares and dumps."""
        return {}


def digest_of(kind: str, fields: dict[str, Any], versions: dict[str, int]) -> str:
    """Return the hash of a description that was made plain data of."""
    meaning = {"fields": fields, "versions": versions, "kind": kind}
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Code:
    """A user's function or class, identified by its import path and a hash of its source.

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
        """Return a reference to an object, given as ``"package.module:name"`` or itself."""
        if not isinstance(value, str):
            kind = value if hasattr(value, "__qualname__") else type(value)  # a partial, or a callable object
            name = kind.__qualname__ if kind is value else f"<{kind.__qualname__}>"
            return cls(f"{kind.__module__}:{name}", _source_hash(value), value)
        obj = _import(value)
        if not callable(obj):
            raise InputError(f"{value}: must be a function or a class, is a {type(obj).__name__}")
        return cls(value, _source_hash(obj), obj)

    @property
    def importable(self) -> bool:
        """Whether another process can import the object by its path."""
        if "<" in self.path or self.path.startswith("__main__:"):
            return False
        try:
            return self._object is None or _import(self.path) is self._object
        except InputError:  # made by a notebook, or by exec
            return False

    def load(self) -> Any:
        """Return the object, and import it if this reference was read from a file."""
        if self._object is None:
            found = _import(self.path)
            if _source_hash(found) != self.source:
                raise InputError(f"{self.path}: its source has changed since this file was written")
            self._object = found
        return self._object

    def files(self) -> dict[str, Path]:
        """Return the user's own files that the object needs, by the names of their modules."""
        return users_files(self.load())

    def __reduce__(self) -> tuple[type[Code], tuple[str, str]]:
        """Leave the object out: another process imports it, and compares its source."""
        return Code, (self.path, self.source)

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
    theirs = module_name.partition(".")[0] not in (*sys.modules, "iclab")
    if theirs and "" not in sys.path:  # modules in the working directory are found, but they hide no others
        sys.path.append("")
    target: Any = None
    try:
        target = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise InputError(
            f"{path}: cannot be imported ({reason_of(error)}){_import_advice(path, target, error)}"
        ) from error
    return target


def module_at(path: str) -> str:
    """Return the module that a path means, as Python names it; empty if it cannot name it from here.

    >>> module_at("./mine/net.py"), module_at("../net.py")
    ('mine.net', '')
    """
    parts = Path(path.removesuffix(".py")).parts
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


def _import_advice(path: str, reached: Any, error: BaseException) -> str:
    """Return what may help after an import that failed, given the object that was reached on the way."""
    module_name, _, name = path.partition(":")
    top = module_name.partition(".")[0]
    mine = next((path for path in (Path(f"{top}.py"), Path(top, "__init__.py")) if top and path.is_file()), None)
    if mine and top in sys.modules and _file_of(sys.modules[top]) != mine.absolute():
        return f"; your {mine} is hidden by another module called {top}; rename it"
    if reached is not None:
        return did_you_mean(name.rpartition(".")[2], vars(reached), most=1)
    missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
    if missing or not all(part.isidentifier() for part in module_name.split(".")):
        meant = module_at(module_name)
        hint = f"; did you mean {meant}:{name}?" if meant not in ("", module_name) else ""
        return f"; write it as package.module:name, of a module that Python finds from here{hint}"
    above = "; import it from the folder above, as package.module:Class" if "no known parent" in str(error) else ""
    _, where, line = what_was_raised(error).rpartition(" (")
    return (f" in {line.removesuffix(')')}" if where and line.endswith(")") and ", line " in line else "") + above


def _file_of(module: ModuleType) -> Path:
    return Path(getattr(module, "__file__", None) or "").absolute()


def _source_hash(obj: Any) -> str:
    try:
        return source_hash(obj)
    except FingerprintError as error:
        raise InputError(str(error)) from None


def unknown_key(name: str, known: Iterable[str], above: str = "") -> str:
    """Return the refusal of a name that is not known, with the nearest ones or all; ``above`` leads to it.

    >>> unknown_key("taks", ["tasks", "patterns"])
    'taks: unknown key; did you mean tasks?'
    """
    listed = list(known)
    all_of_them = f"; known are {', '.join(listed)}" if listed else ""
    return f"{above}{name}: unknown key" + (did_you_mean(name, listed, above) or all_of_them)


def did_you_mean(name: str, known: Iterable[str], above: str = "", most: int = 3) -> str:
    """Return the end of a refusal that names what is nearest, if anything is near; ``above`` leads to it."""
    near = difflib.get_close_matches(name, list(known), n=most, cutoff=0.5)
    return f"; did you mean {' or '.join(above + found for found in near)}?" if near else ""


def by_keyword(kind: type[BaseModel], values: Iterable[Any]) -> str:
    """Return the refusal of values without their names, which shows how to write them."""
    named = ", ".join(f"{name}={shown(value)}" for name, value in zip(kind.model_fields, values, strict=False))
    return f"{kind.__name__}: takes keywords only" + (f"; write {kind.__name__}({named})" if named else "")


def shown(value: Any) -> str:
    """Return a value as text of one line; of an array or another long value only its kind and shape.

    >>> shown("ring:3"), shown([0.5] * 100)
    ("'ring:3'", 'list')
    """
    text = " ".join(repr(value).split())
    if len(text) <= LONG and not hasattr(value, "shape"):
        return text
    return type(value).__name__ + (f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else "")


LONG = 100
"""The most characters of a value that a message quotes."""


def _keys(kind: type[BaseModel], place: Iterable[Any]) -> list[str]:
    """Return the keys that a part of a description knows; ``place`` leads to it through fields, indices and unions."""
    kinds: list[type[BaseModel]] = [kind]
    for part in place:
        fields = [k.model_fields[part].annotation for k in kinds if part in k.model_fields]
        kinds = [k for field in fields for k in _configs(field)] or kinds
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def _configs(annotation: Any) -> list[type[BaseModel]]:
    """Return the descriptions that a type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in typing.get_args(annotation) for found in _configs(part)]


def explain(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """Turn a pydantic error into one line with the field, its value and what is allowed.

    ``kind`` is the description that was asked for; with it, an unknown key is answered by the nearest known ones.
    """
    lines = []
    for item in error.errors():
        # Keep field names and indices; names of union members and validators are internal to pydantic.
        parts = [str(p) for p in item["loc"]]
        named = [p for p in parts if p.isdigit() or (p.isidentifier() and not p[:1].isupper())]
        field = ".".join(named)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            above = "".join(f"{p}." for p in parts[:-1] if p in named)
            lines.append(unknown_key(parts[-1], _keys(kind, item["loc"][:-1]) if kind else [], above))
        elif item["type"] == "value_error" and "=" in message.split(":")[0]:
            lines.append(message)  # the message already names the field and its value
        else:
            value = item["input"]
            whole = isinstance(value, BaseModel)  # of the wrong kind, or with parts that do not fit each other
            wrong = f" = {type(value).__name__}" if item["type"] == "model_type" else ""
            quoted = wrong if whole or isinstance(value, dict) else f" = {shown(value)}"
            if isinstance(value, str):
                message = message.removeprefix(f"{value}: ")  # it is quoted already
            reason = " ".join((message[:1].lower() + message[1:]).split())
            if item["type"] in ("tuple_type", "list_type") and parts == named:
                reason += _as_list(field, value)
            lines.append(f"{field}{quoted}: {reason}" if field or quoted else reason)
    return "; ".join(dict.fromkeys(lines))


def _as_list(field: str, value: Any) -> str:
    """Return how to write a list that was written as ``a,b`` or as one value; empty for any other value.

    >>> print(_as_list("models", "mamba,linear"))
    ; write 'models=["mamba","linear"]'
    """
    if not field or type(value) not in (str, int, float) or len(str(value)) > LONG:
        return ""
    return f"; write '{field}=[{','.join(map(_as_item, str(value).split(',')))}]'"


def _as_item(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return json.dumps(text.strip(), ensure_ascii=False)
    return text.strip()
