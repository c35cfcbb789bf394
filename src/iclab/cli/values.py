"""Values of command-line arguments."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
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


def check_writable(folder: Path, field: str, value: str) -> None:
    """Refuse a place that results cannot be written to, before they are computed."""
    from iclab.config import InputError

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{field} = {value}: cannot be written; {folder} is not a writable directory")
