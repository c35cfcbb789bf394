"""All pages with quotes, and the file of numbers that they are compared with."""

from __future__ import annotations

import json
from typing import Any

from quotes import deep, findings, nonlinear, readme
from quotes.pages import ROOT, Page
from quotes.sources import Values

NUMBERS = ROOT / "docs" / "numbers.json"
PAGES = (
    Page("README.md", readme.QUOTES, readme.SETTINGS),
    Page("docs/findings.md", findings.QUOTES, findings.SETTINGS),
    Page("docs/deep.md", deep.QUOTES, deep.SETTINGS),
    Page("docs/nonlinear.md", nonlinear.QUOTES, nonlinear.SETTINGS),
)


def read() -> dict[str, Any]:
    """Return what numbers.json holds, by experiment."""
    return json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}


def values_of(known: dict[str, Any]) -> Values:
    """Return the values alone."""
    return {id_: record["values"] for id_, record in known.items()}
