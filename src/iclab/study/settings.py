"""What settings are made of: each says where a paper states it, or why iclab chose it and what it might be instead."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field

from iclab.config import Config, InputError
from iclab.engines import Engine


def _different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must all be different")
    return values


Different = AfterValidator(_different)
"""For a list in which nothing may stand twice."""


@dataclass(frozen=True)
class Disclosed:
    """Where a paper states a setting."""

    where: str
    grid: bool = False
    """Whether it only says how much is run, such as the points of a curve: titles need not name it."""


@dataclass(frozen=True)
class Chosen:
    """Why a setting that no paper states has its value."""

    why: str
    grid: bool = False
    others: tuple[Any, ...] = ()
    """Other values it might as well have: `iclab run sensitivity` asks what the claims would be then."""


K = TypeVar("K", bound="Settings")


class Settings(Config):
    """What every experiment has: how many seeds and test prompts."""

    seeds: Annotated[int, Field(ge=1), Chosen("two groups of eight: enough for a t interval over seeds", grid=True)] = (
        16
    )
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("for each seed and condition: resolves error rates of 0.001 and below", grid=True)
    ] = 10_000

    engine: Annotated[
        Engine,
        Chosen(
            "all train the same weights up to rounding (docs/fused.md); auto takes the fastest that applies",
            grid=True,
        ),
    ] = "auto"

    evidence: ClassVar[str] = ""
    """What the numbers are that stand beside choices, and how to get them."""
    instead: ClassVar[dict[str, str]] = {}
    """Inherited settings that an experiment varies itself, and what to change in their place."""

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds."""
        return self.replace(seeds=min(self.seeds, 8))

    def replace(self, /, **changes: Any) -> Self:
        """Return a validated copy with some settings changed; what an experiment varies itself is refused."""
        for name in changes:
            if name in self.instead:
                raise InputError(f"{name}: is not used here; change {self.instead[name]}")
        return super().replace(**changes)

    def as_kind(self, kind: type[K], *, without: tuple[str, ...] = (), **changes: Any) -> K:
        """Return the settings of a base class with the same values, for what an experiment varies itself.

        Fields named in ``without`` keep the base class's own defaults.
        """
        kept = {name: getattr(self, name) for name in kind.model_fields if name not in without}
        return kind(**kept | changes)

    def unusual(self) -> str:
        """Name the settings that are not iclab's own choice, for titles; how much was run is told otherwise."""
        usual, mine = type(self)().model_dump(mode="json"), self.model_dump(mode="json")
        fields = type(self).model_fields
        grids = {name for name in fields if any(getattr(mark, "grid", False) for mark in fields[name].metadata)}
        changed = [name for name in mine if mine[name] != usual[name] and name not in grids]
        return ", ".join(f"{name} = {mine[name]}" for name in changed)

    @property
    def edition(self) -> Literal["full", "quick", "other"]:
        """Whether these are the settings of an edition, or someone's own."""
        usual = type(self)()
        return "full" if self == usual else "quick" if self == usual.quick() else "other"

    def words(self) -> list[str]:
        """Return what to say to `iclab run` to get these settings."""
        usual, mine = type(self)(), self.model_dump(mode="json")
        ways = []
        for base, words in ((usual, []), (usual.quick(), ["--quick"])):
            theirs = base.model_dump(mode="json")
            for name in (name for name in mine if mine[name] != theirs[name]):
                value = mine[name] if isinstance(mine[name], str) else json.dumps(mine[name], ensure_ascii=False)
                words += ["--seeds", value] if name == "seeds" else ["--set", f"{name}={value}"]
            ways.append(words)
        return min(ways, key=len)

    @classmethod
    def provenance(cls) -> dict[str, Disclosed | Chosen]:
        """Say of every field where its value comes from."""
        return {
            name: next(mark for mark in field.metadata if isinstance(mark, (Disclosed, Chosen)))
            for name, field in cls.model_fields.items()
        }
