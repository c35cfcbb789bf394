"""The catalog of all experiments by id: those of the papers and those beyond them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from iclab.config import InputError
from iclab.study.experiment import Experiment

ROOMS = ("iclab.papers", "iclab.beyond")
"""Packages that are searched for experiments."""


@cache
def experiments() -> dict[str, Experiment[Any]]:
    """Return one instance of every experiment by id, in order."""
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{room}."):
            importlib.import_module(module.name)
    found = [kind() for kind in _subclasses(Experiment) if hasattr(kind, "id")]  # base classes have none
    return {experiment.id: experiment for experiment in sorted(found, key=lambda e: e.id)}


def find(id_: str) -> Experiment[Any]:
    """Return one experiment by id, whose case does not matter."""
    known = experiments()
    for name, experiment in known.items():
        if name.lower() == id_.lower():
            return experiment
    raise InputError(f"experiment = {id_!r}: must be one of {', '.join(known)}")


def _subclasses(kind: Any) -> list[type[Experiment[Any]]]:
    children: list[type[Experiment[Any]]] = kind.__subclasses__()
    return [found for child in children for found in (child, *_subclasses(child))]
