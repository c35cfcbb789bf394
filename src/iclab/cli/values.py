"""Values of command-line arguments."""

from __future__ import annotations

import json
import tomllib
from typing import Any


def read_value(text: str) -> Any:
    """Read a value as TOML or JSON if possible, else as text."""
    for read in (lambda: tomllib.loads(f"value = {text}")["value"], lambda: json.loads(text)):
        try:
            return read()
        except ValueError:
            continue
    return text


def read_pairs(arguments: list[str]) -> dict[str, Any]:
    """Read the KEY=VALUE arguments of ``--set``."""
    from iclab.config import InputError  # imported late: it loads pydantic, which --help does not need

    pairs = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or not key:
            raise InputError(f"--set {argument}: must be KEY=VALUE")
        pairs[key.strip()] = read_value(text.strip())
    return pairs
