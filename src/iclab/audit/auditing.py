"""The whole audit of a store: claims derived again, compared with another export, and controlled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iclab.audit.controls import Controls, controls
from iclab.audit.document import SCHEMA, Document
from iclab.audit.program import audit
from iclab.config import InputError

STATED = ("predicate", "paper", "models", "ours", "confidence")
"""What a claim says before anything is measured."""


@dataclass(frozen=True)
class Audit:
    """What an audit found."""

    problems: list[tuple[str, str]]
    """Disagreements: the name of a claim or a cell, and what is wrong."""
    levels: dict[str, str]
    """How much of each claim was derived again: see `iclab.audit.program.LEVELS`."""
    controls: Controls | None


def audit_of(now: Document, store: Path, given: Document | None = None, *, controlled: bool = True) -> Audit:
    """Audit what iclab says now about a store, or a document that was given and must say the same.

    Args:
        now: the document that iclab makes of the store.
        store: where the rows are.
        given: a document that was exported before.
        controlled: whether to run the negative controls.
    """
    document = json.loads(json.dumps(now)) if given is None else given
    try:
        problems, levels = audit(document, store)
        if given is not None:
            problems += _stated_otherwise(given, now)
        return Audit(problems, levels, controls(document, store) if controlled else None)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InputError(f"claims: is no export of this version ({type(error).__name__}: {error})") from None
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from None


def read(path: Path) -> Document:
    """Read an exported document."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"claims = {path}: cannot be read ({error})") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise InputError(f"claims = {path}: has schema {schema!r}; this version reads {SCHEMA!r}")
    return dict(document)


def _stated_otherwise(given: Document, now: Document) -> Iterator[tuple[str, str]]:
    """Yield where a document states a claim otherwise than this version of iclab does."""
    known = {claim["id"]: claim for experiment in now["experiments"] for claim in experiment["claims"]}
    mine = {experiment["id"]: experiment for experiment in now["experiments"]}
    for experiment in given["experiments"]:
        if experiment["settings"] != mine.get(experiment["id"], {}).get("settings"):
            yield experiment["id"], "has other settings than its results in this store"
            continue
        for claim in experiment["claims"]:
            own = known.pop(claim["id"], None)
            if own is None:
                yield claim["id"], "is unknown to this version of iclab"
                continue
            pairs = [(name, claim[name], own[name]) for name in STATED]
            for part in ("size", "direction"):
                for a, b in zip(_predicates(claim[part]), _predicates(own[part]), strict=False):
                    pairs += [(f"{name} of its {part}", a[name], b[name]) for name in ("rule", "margins")]
            yield from ((claim["id"], f"{what} is {a}, iclab says {b}") for what, a, b in pairs if a != b)
        for id_ in [id_ for id_ in known if id_.startswith(f"{experiment['id']}.")]:
            yield id_, "is missing"


def _predicates(part: Document | None) -> list[Document]:
    return [] if part is None else [part, *part["also"]]
