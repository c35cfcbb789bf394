"""What the usual editions of built-in experiments contain, kept from one report to the next until the code changes.

To build all measurements of all experiments takes seconds, and most reports are about a few of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import iclab
from iclab.study.edition import Edition

FOLDER = Path(__file__).parent / "__pycache__"


class Remembered:
    """A table of facts about editions. Without a ``folder``, or if it cannot be written, it keeps them for itself."""

    def __init__(self, folder: Path | None = FOLDER) -> None:
        self._file = None if folder is None else folder / f"editions-{_code()}.json"
        self._facts: dict[str, Any] = {}
        self._new = False
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._facts = json.loads(self._file.read_text("utf-8"))

    def ask(self, edition: Edition, what: str, make: Callable[[], Any]) -> Any:
        """Return a fact about an edition, as plain data; ``make`` finds it out if nobody knows it.

        Facts about users' own experiments are not kept: their code may change at any time.
        """
        if edition.experiment.own or edition.settings.edition_name == "other":
            return make()
        key = f"{edition.experiment.address} {edition.settings.digest()} {what}"
        if key not in self._facts:
            self._facts[key], self._new = make(), True
        return self._facts[key]

    def save(self) -> None:
        """Write what is new, and remove what older code left."""
        if self._file is None or not self._new:
            return
        with suppress(OSError):
            self._file.parent.mkdir(exist_ok=True)
            new = self._file.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(self._facts, ensure_ascii=False), "utf-8")
            new.replace(self._file)
            for old in self._file.parent.glob("editions-*.json"):
                if old != self._file:
                    old.unlink(missing_ok=True)


@cache
def _code() -> str:
    """Return a hash of all code that decides what an edition contains."""
    package = Path(iclab.__file__).parent
    files = sorted(package.rglob("*.py"))
    texts = [f"{file.relative_to(package)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    versions = [platform.python_version(), *map(version, ("numpy", "scipy", "pydantic", "torch"))]
    return hashlib.sha256("\n".join([*versions, *texts]).encode()).hexdigest()[:20]
