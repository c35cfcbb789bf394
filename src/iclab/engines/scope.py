"""Which fields of a description an engine has code for.

An engine lists the fields it knows. Every other field must have its default value, or the engine does not apply. So a
field that is added later is refused by the engines that would ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from iclab.config import Code, Config


class Scope(NamedTuple):
    """What an engine knows of a description."""

    engine: str
    fields: Mapping[str, Set[str]]
    """The fields it knows, by the name of their class. Classes that are not listed are known as a whole."""
    functions: bool = True
    """Whether it can call users' functions."""

    def obstacle(self, config: Config) -> str:
        """Return the first field that the engine cannot take, its value and the reason; empty if there is none."""
        key = ("obstacle", id(self))
        if key not in config._memo:
            config._memo[key] = self, self._obstacle(config)  # as long as it is kept, no other has its id
        return config._memo[key][1]

    def _obstacle(self, config: Config) -> str:
        listed = next((self.fields[c.__name__] for c in type(config).__mro__ if c.__name__ in self.fields), None)
        if listed is None:
            return ""
        for name, field in type(config).model_fields.items():
            value = getattr(config, name)
            if name not in listed:
                default = field.get_default(call_default_factory=True)
                if value != default:
                    return f"{name} = {value}: the {self.engine} engine knows only the default, {default}"
                continue
            if isinstance(value, Code) and not self.functions:
                return f"{name} = {value.path}: the {self.engine} engine cannot call users' functions"
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Config) and (reason := self.obstacle(part)):
                    return f"{name}.{reason}"
        return ""
