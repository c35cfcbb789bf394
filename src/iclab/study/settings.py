"""Settings of experiments. Each says where a paper states its value, or why iclab chose it and what else it may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from pydantic import AfterValidator, Field

from iclab.config import Config, InputError
from iclab.engines import EngineName, Recipe


def _different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must all be different")
    return values


Different = AfterValidator(_different)
"""For lists without repeated values."""


@dataclass(frozen=True)
class Disclosed:
    """Where a paper states a setting."""

    where: str
    grid: bool = False
    """Whether it only says how much is run, such as the points of a curve. Titles leave those out."""


@dataclass(frozen=True)
class Chosen:
    """Why iclab chose the value of a setting that no paper states."""

    why: str
    grid: bool = False
    others: tuple[Any, ...] = ()
    """Other plausible values: `iclab run sensitivity` tests whether the claims depend on the choice."""


YOURS = Chosen("chosen by you")
"""The mark of a setting without one, in an experiment of a user's own."""


@dataclass(frozen=True)
class Described:
    """The value of a setting, as JSON, and the reason for it."""

    name: str
    value: Any
    disclosed: bool
    why: str

    @property
    def text(self) -> str:
        """The value for people to read."""
        return short(self.value)


def short(value: Any) -> str:
    """Return a value of a setting as text.

    Example:
        >>> short({"linear": 0.05, "mamba": [1.0, 2.0]})
        'linear: 0.05; mamba: 1, 2'
        >>> short({"Mine": {"optimizer": "adam", "steps": 9}})
        'Mine (optimizer: adam; steps: 9)'
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(map(short, value)) or "none"
    if isinstance(value, dict):
        nested = {key: isinstance(inner, dict) for key, inner in value.items()}
        texts = [f"{k} ({short(v)})" if nested[k] else f"{k}: {short(v)}" for k, v in value.items()]
        return "; ".join(texts) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


K = TypeVar("K", bound="Settings")


class Settings(Config):
    """The settings that every experiment has."""

    seeds: Annotated[int, Field(ge=1), Chosen("two groups of eight: enough for a t interval over seeds", grid=True)] = (
        16
    )
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("for each seed and condition: resolves error rates of 0.001 and below", grid=True)
    ] = 10_000

    engine: Annotated[
        EngineName,
        Chosen(
            "all train the same weights up to rounding (docs/fused.md); auto picks the fastest that applies",
            grid=True,
        ),
    ] = "auto"

    evidence: ClassVar[str] = ""
    """What the numbers quoted for chosen settings are, and how to reproduce them."""
    instead: ClassVar[dict[str, str]] = {}
    """Inherited settings that the experiment varies itself, and which setting to change instead."""

    def extent(self, seeds: int) -> str:
        """Return in words how much was run, if so many seeds were."""
        return f"{seeds} seeds, {self.test_prompts:,} test prompts each"

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds."""
        return self.replace(seeds=min(self.seeds, 8))

    def replace(self, /, **changes: Any) -> Self:
        """Return a validated copy with some settings changed. Those that the experiment varies itself are refused."""
        for name in changes:
            if name in self.instead:
                raise InputError(f"{name}: is not used here; change {self.instead[name]}")
        return super().replace(**changes)

    def changed(self, pairs: Mapping[str, Any]) -> Self:
        """Return a validated copy with settings changed by key, where a dot leads into a table.

        Example:
            >>> Settings().changed({"seeds": 8}).seeds
            8
        """
        changes: dict[str, Any] = {}
        for key, value in pairs.items():
            name, dot, entry = key.partition(".")  # such as step_sizes.deep-mamba, or recipes.my_module:Mine.optimizer
            field, table = type(self).model_fields.get(name), changes.get(name, getattr(self, name, None))
            if not dot or field is None or not isinstance(table, dict):
                changes[key] = value
                continue
            outer, inner_dot, inner = entry.rpartition(".")
            whole = ":" in inner or (isinstance(value, dict) and inner not in Recipe.model_fields)
            if inner_dot and not whole and get_origin(get_args(field.annotation)[1]) is dict:
                changes[name] = {**table, outer: {**table.get(outer, {}), inner: value}}
            else:
                changes[name] = {**table, entry: value}
        return self.replace(**changes)

    def as_kind(self, kind: type[K], *, without: tuple[str, ...] = (), **changes: Any) -> K:
        """Return the same values as settings of a base class, whose fields the experiment may then vary.

        Fields named in ``without`` keep the defaults of the base class.
        """
        kept = {name: getattr(self, name) for name in kind.model_fields if name not in without}
        return kind(**kept | changes)

    def unusual(self) -> str:
        """Return the settings that differ from the defaults, for titles, without those that say how much is run."""
        usual, mine = type(self)().model_dump(mode="json"), self.model_dump(mode="json")
        fields = type(self).model_fields
        grids = {name for name in fields if any(getattr(mark, "grid", False) for mark in fields[name].metadata)}
        changed = [name for name in mine if mine[name] != usual[name] and name not in grids]
        return ", ".join(f"{name} = {short(mine[name])}" for name in changed)

    @property
    def edition_name(self) -> Literal["full", "quick", "other"]:
        """The edition these settings belong to; ``other`` if a user changed some."""
        usual = type(self)()
        return "full" if self == usual else "quick" if self == usual.quick() else "other"

    def arguments(self) -> list[str]:
        """Return the arguments of `iclab run` that give these settings."""
        usual, mine = type(self)(), self.model_dump(mode="json")
        ways = []
        for base, arguments in ((usual, []), (usual.quick(), ["--quick"])):
            theirs = base.model_dump(mode="json")
            for name in (name for name in mine if mine[name] != theirs[name]):
                value = mine[name] if isinstance(mine[name], str) else json.dumps(mine[name], ensure_ascii=False)
                arguments += ["--seeds", value] if name == "seeds" else ["--set", f"{name}={value}"]
            ways.append(arguments)
        return min(ways, key=len)

    def described(self) -> list[Described]:
        """Return every setting with the place in the paper that states it, or the reason for the choice."""
        values = self.model_dump(mode="json")
        return [
            Described(name, values[name], True, mark.where)
            if isinstance(mark, Disclosed)
            else Described(name, values[name], False, mark.why)
            for name, mark in self.provenance().items()
        ]

    @classmethod
    def provenance(cls) -> dict[str, Disclosed | Chosen]:
        """Return where the value of every field comes from. Fields of a user's own settings need no mark."""
        unmarked = {
            n: Chosen(field.description) if field.description else YOURS for n, field in cls.model_fields.items()
        }
        return {
            name: next((mark for mark in field.metadata if isinstance(mark, (Disclosed, Chosen))), unmarked[name])
            for name, field in cls.model_fields.items()
        }
