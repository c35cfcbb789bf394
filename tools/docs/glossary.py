"""The page of letters, made from `iclab.glossary`: ``python tools/docs/glossary.py > docs/glossary.md``."""

from __future__ import annotations

from iclab.glossary import PAPERS, TERMS, Term

TITLES = {"M": "Mamba with outliers", "T": "nonlinear Transformers", "S": "feature selectors"}
INTRODUCTION = """\
# Letters

The papers' letters, what they mean, and what the code calls them. Letters collide: α is a share of outliers in paper M
and a share of examples that matter in papers T and S, so letters stand by paper. `help(iclab)` has the most important
ones on one screen.
"""


def row(term: Term) -> str:
    """Return a line of the table."""
    cells = (term.sign, term.words, f"`{term.name}`" if term.name else "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(title: str, papers: str) -> str:
    """Return the letters that hold in just these papers."""
    rows = [row(term) for term in TERMS if term.papers == papers]
    return "\n".join([f"\n## {title}\n", "| letter | meaning | in the code |", "|---|---|---|", *rows]) + "\n"


def page() -> str:
    """Return the page: the letters of all papers, then those of some."""
    found = sorted(
        {term.papers for term in TERMS} - {PAPERS}, key=lambda papers: (len(papers), PAPERS.index(papers[0]))
    )
    named = {papers: f"Paper {papers}: {TITLES[papers]}" for papers in TITLES}
    named |= {papers: f"Papers {' and '.join(papers)}" for papers in found if len(papers) > 1}
    return INTRODUCTION + table("All papers", PAPERS) + "".join(table(named[papers], papers) for papers in found)


if __name__ == "__main__":
    print(page(), end="")
