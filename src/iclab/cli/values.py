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


def check_model_word(word: str | None) -> None:
    """Refuse a path of Python code where a model or a TOML file is wanted."""
    from iclab.config import InputError, module_at

    path, colon, name = (word or "").partition(":")
    is_file = path.endswith(".py") and not colon
    has_folder = colon and os.sep in path and not (name.endswith(".toml") or Path(f"{word}").is_file())
    if not is_file and not has_folder:
        return
    module = module_at(path)
    hint = f"did you mean {module}:{name or 'Class'}?" if module else "run iclab in the folder of the module"
    raise InputError(f"model = {word!r}: must be a built-in name or your own as module:Class, not a path; {hint}")


def check_writable(folder: Path, field: str, value: str) -> None:
    """Refuse a place that results cannot be written to, before they are computed."""
    from iclab.config import InputError

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{field} = {value}: cannot be written; {folder} is not a writable directory")
