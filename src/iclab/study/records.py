"""What a store remembers of a request: which experiment, with which settings, and whose code.

The usual editions of built-in experiments need no record: the report finds their cells by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iclab import lab
from iclab.config import Code
from iclab.lab.cells import users_code
from iclab.study.edition import Edition
from iclab.study.outcome import Outcome
from iclab.study.preparing import prepare

Record = dict[str, Any]


def compute(editions: Iterable[Edition], store: lab.Store, **how: Any) -> list[Outcome]:
    """Compute the missing cells of some editions together, remember what was asked for, and return the outcomes.

    ``how`` are further arguments of `iclab.lab.run`, such as ``workers``.
    """
    listed = list(editions)
    title = listed[0].experiment.id if len(listed) == 1 else "iclab"
    for edition in listed:
        edition.check()
    prepare(listed, store, quiet=bool(how.get("quiet")))
    cells = [cell for edition in listed for cell in edition.cells]
    lab.run(cells, store, title=title, records=records_of(listed), **how)
    return [edition.outcome(store) for edition in listed]


def records_of(editions: Iterable[Edition], *, until_decided: bool = False) -> list[Record]:
    """Return the records of those editions that a report can find again, but not by itself."""
    return [
        record_of(edition, until_decided=until_decided)
        for edition in editions
        if (edition.experiment.own or until_decided or edition.settings.edition_name == "other")
        and all(code.importable for code in (Code.of(type(edition.experiment)), *users_code(edition.settings)))
    ]


def add_folders(record: Record) -> None:
    """Let the user's modules be found where they were when the record was made, after all other places."""
    for folder in record["folders"]:
        if folder not in sys.path and Path(folder).is_dir():
            sys.path.append(folder)


def record_of(edition: Edition, *, until_decided: bool = False) -> Record:
    """Return what to remember of an edition: all settings, and hashes of the user's code in it."""
    experiment = edition.experiment
    code = {found.path: found.source for cell in edition.cells for found in users_code(cell)}
    if experiment.own:
        code[experiment.address] = Code.of(type(experiment)).source
    folders = [str(Path.cwd()), *([str(Path(experiment.folder).absolute())] if experiment.folder else [])]
    return {
        "experiment": experiment.address,
        "id": experiment.id,
        "settings": edition.settings.model_dump(mode="json"),
        "until decided": until_decided,
        "code": dict(sorted(code.items())),
        "folders": folders if code else [],
    }
