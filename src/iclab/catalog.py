"""The catalog of all experiments by id: those of the papers, those beyond them, and users' own.

A user's own experiment is named as ``package.module:Class``, or found in one of three places: in a folder of
experiments, among the entry points of installed packages (group ``iclab.experiments``), or in what a store remembers of
earlier runs.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from iclab.config import Code, InputError, reason_of
from iclab.study.experiment import Experiment
from iclab.study.settings import Settings

PACKAGES = ("iclab.papers", "iclab.beyond")
"""Packages that are searched for experiments."""
GROUP = "iclab.experiments"
"""The group of entry points."""
FOLDER = "ICLAB_EXPERIMENTS"
"""The environment variable that names the folder of experiments."""


@cache
def experiments() -> dict[str, Experiment[Any]]:
    """Return one instance of every built-in experiment by id, in order."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{name}."):
            importlib.import_module(module.name)
    mine = [kind for kind in _subclasses(Experiment) if kind.__module__.startswith("iclab.")]
    found = [kind() for kind in mine if hasattr(kind, "id")]  # base classes have none
    return {experiment.id: experiment for experiment in sorted(found, key=lambda e: e.id)}


def find(name: str, folder: str | None = None, records: Iterable[Mapping[str, Any]] = ()) -> Experiment[Any]:
    """Return one experiment by id, whose case does not matter, or by ``package.module:Class``.

    Args:
        name: the id or the import path.
        folder: where to look for users' own experiments; by default ``$ICLAB_EXPERIMENTS``.
        records: what a store remembers of earlier runs.
    """
    for id_, experiment in experiments().items():
        if id_.lower() == name.lower():
            return experiment
    mine, problems = own(folder, records)
    if ":" in name:
        found = load(name)
        known = mine.get(found.id.lower())
        if known is not None and known.address != found.address:
            raise InputError(f"id = {found.id!r} of {name}: is the id of {known.address} too; choose another")
        return found
    if name.lower() in mine:
        return mine[name.lower()]
    ids = [*experiments(), *(experiment.id for experiment in mine.values())]
    near = difflib.get_close_matches(name, ids, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    more = f" ({'; '.join(problems)})" if problems else ""
    refused = f"experiment = {name!r}: must be one of {', '.join(ids)}, or your own as package.module:Class"
    raise InputError(f"{refused}{hint}{more}")


def own(
    folder: str | None = None, records: Iterable[Mapping[str, Any]] = ()
) -> tuple[dict[str, Experiment[Any]], list[str]]:
    """Return users' own experiments by id in lower case, and a line about each that cannot be used."""
    found: dict[str, Experiment[Any]] = {}
    problems: dict[str, None] = {}
    for source in (_in_folder(folder or os.environ.get(FOLDER, "")), _installed(), _remembered(records)):
        for made in source:
            if isinstance(made, str):
                problems[made] = None
                continue
            known = found.setdefault(made.id.lower(), made)
            if known.address != made.address:
                problems[f"id = {made.id!r} of {made.address}: is the id of {known.address} too; choose another"] = None
    return dict(sorted(found.items())), list(problems)


def load(path: str, folders: Iterable[str] = ()) -> Experiment[Any]:
    """Return a user's own experiment, given as ``package.module:Class``.

    Args:
        path: where to import it from.
        folders: where to look for its module, after the usual places.
    """
    for folder in folders:
        if folder not in sys.path and Path(folder).is_dir():
            sys.path.append(folder)
    kind = Code.of(path).load()
    if not (isinstance(kind, type) and issubclass(kind, Experiment)):
        raise InputError(f"{path}: must be a class of iclab.study.Experiment")
    return checked(kind)


def checked(kind: type[Experiment[Any]]) -> Experiment[Any]:
    """Return an instance of a user's class, if it has what an experiment needs."""
    path = f"{kind.__module__}:{kind.__qualname__}"
    if inspect.isabstract(kind):
        raise InputError(f"{path}: needs a method {', '.join(sorted(kind.__abstractmethods__))}")
    id_ = getattr(kind, "id", None)
    if id_ is None:
        raise InputError(f"{path}: has no id; give it one, such as id = {kind.__name__.lower()!r}")
    if not isinstance(id_, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", id_):
        raise InputError(f"id = {id_!r} of {path}: must be letters, digits, - and _, a letter first")
    try:
        experiment = kind()
    except (Exception, SystemExit) as error:  # a user's class may raise anything
        reason = reason_of(error)
        raise InputError(f"{path}: cannot be made without arguments ({reason})") from error
    if id_.lower() == "store":
        raise InputError(f"id = {id_!r} of {path}: is the name of the store; choose another")
    if experiment.own and any(id_.lower() == known.lower() for known in experiments()):
        raise InputError(f"id = {id_!r} of {path}: is the id of a built-in experiment; choose another")
    settings = experiment.settings
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise InputError(f"settings = {settings!r} of {path}: must be a class of iclab.study.Settings")
    try:
        with experiment.guarded("settings"):
            settings().quick()
    except InputError as error:
        raise InputError(f"settings = {settings.__name__} of {path}: every field needs a default ({error})") from None
    return experiment


def _in_folder(folder: str) -> Iterator[Experiment[Any] | str]:
    """Yield the experiments in the modules of a folder, or a line about each module that cannot be used."""
    if not folder:
        return
    place = Path(folder).absolute()
    if not place.is_dir():
        raise InputError(f"experiments = {folder}: is not a folder")
    if str(place) not in sys.path:
        sys.path.append(str(place))
    for file in sorted(place.glob("[!_]*.py")):
        try:
            module = importlib.import_module(file.stem)
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            reason = reason_of(error)
            yield f"{file}: cannot be imported ({reason})"
            continue
        if Path(module.__file__ or "").absolute() != file:
            yield f"{file}: is hidden by another module called {file.stem}; rename it"
            continue
        for kind in vars(module).values():
            mine = isinstance(kind, type) and issubclass(kind, Experiment) and kind.__module__ == file.stem
            if not mine or (not hasattr(kind, "id") and kind.__subclasses__()):  # a base class
                continue
            made = _or_line(lambda kind=kind: checked(kind))
            if isinstance(made, Experiment):
                made.folder = folder
            yield made


def _installed() -> Iterator[Experiment[Any] | str]:
    for entry in entry_points(group=GROUP):
        yield _or_line(lambda entry=entry: load(f"{entry.module}:{entry.attr}"))


def _remembered(records: Iterable[Mapping[str, Any]]) -> Iterator[Experiment[Any] | str]:
    folders: dict[str, dict[str, None]] = {}
    for record in records:
        if ":" in record["experiment"]:
            folders.setdefault(record["experiment"], {}).update(dict.fromkeys(record["folders"]))
    for path, places in folders.items():
        made = _or_line(lambda path=path, places=places: load(path, places))
        yield f"{made}; it was run in {' and '.join(places)}" if isinstance(made, str) else made


def _or_line(make: Any) -> Experiment[Any] | str:
    """Return what is made, or the one line that says why it cannot be."""
    try:
        return make()
    except InputError as error:
        return str(error)


def _subclasses(kind: Any) -> list[type[Experiment[Any]]]:
    children: list[type[Experiment[Any]]] = kind.__subclasses__()
    return [found for child in children for found in (child, *_subclasses(child))]
