"""All pages with quotes, and the file of numbers that they are compared with."""

from __future__ import annotations

import json
from typing import Any

from quotes import deep, findings, nonlinear, readme, theory_m, theory_ts
from quotes.pages import ROOT, Page
from quotes.sources import Query, Values

NUMBERS = ROOT / "docs" / "numbers.json"
PAGES = (
    Page("README.md", readme.QUOTES, readme.SETTINGS),
    Page("docs/findings.md", findings.QUOTES, findings.SETTINGS),
    Page("docs/deep.md", deep.QUOTES, deep.SETTINGS),
    Page("docs/nonlinear.md", nonlinear.QUOTES, nonlinear.SETTINGS),
    Page("docs/theory.md", theory_m.QUOTES | theory_ts.QUOTES, theory_m.SETTINGS + theory_ts.SETTINGS),
)
NOT_COVERED = {
    "docs/audit.md": "how to",
    "docs/text.md": "runs of their own, with the extra text",
    "docs/speed.md": "times on one machine",
    "docs/fused.md": "times and tolerances of the engines",
    "docs/cluster.md": "times on one machine",
    "docs/score.md": "cards of a suite of its own",
    "docs/commands.md": "how to",
    "docs/extending.md": "how to",
    "docs/install.md": "versions",
    "docs/models.md": "equations",
    "docs/playground.md": "how to",
    "docs/python.md": "examples, which tests run",
    "docs/store.md": "how to",
}
"""Pages whose numbers are not compared, and why."""


def read() -> dict[str, Any]:
    """Return what numbers.json holds, by experiment."""
    return json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}


def values_of(known: dict[str, Any]) -> Values:
    """Return the values alone."""
    return {id_: record["values"] for id_, record in known.items()}


def asked() -> dict[str, list[Query]]:
    """Return the queries of all pages, by experiment."""
    found: dict[str, list[Query]] = {}
    for page in PAGES:
        for spot in page.spots():
            for query in spot.number.queries():
                found.setdefault(query.experiment, []).append(query)
    return found
