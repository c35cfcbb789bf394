"""What commands print when they are done: JSON, outcomes, the end of a report, engines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iclab.engines import Training
    from iclab.report import Content
    from iclab.study.outcome import Outcome


def documents(outcomes: list[Outcome], figures: list[Path]) -> list[dict[str, Any]]:
    """Return what ``--json`` prints of each experiment."""
    return [
        {
            "id": outcome.experiment.id,
            "complete": outcome.complete,
            "settings": outcome.settings.model_dump(mode="json"),
            "rows": outcome.rows,
            "claims": outcome.claims,
            "figure": str(figure),
        }
        for outcome, figure in zip(outcomes, figures, strict=True)
    ]


def print_json(document: dict[str, Any]) -> None:
    """Print one document."""
    print(json.dumps(document, ensure_ascii=False))


def print_outcomes(outcomes: list[Outcome]) -> None:
    """Print the table of each experiment, and all verdicts."""
    from iclab.cli.tables import print_outcome, print_verdicts

    for outcome in outcomes:
        print_outcome(outcome)
    print_verdicts([claim for outcome in outcomes for claim in outcome.claims])


def print_report(page: Path, content: Content) -> None:
    """Print how many claims have each verdict, how many are wrong by chance, and where the page is."""
    sources = {"paper": "claims of the papers", "iclab": "questions of iclab's own", "yours": "claims of your own"}
    for source, whose in sources.items():
        counts = content.counted(source)
        plural = {"holds": "hold", "fails": "fail"}
        verdicts = ", ".join(f"{n} {v if n == 1 else plural.get(v, v)}" for v, n in sorted(counts.items()))
        if counts or source != "yours":
            print(f"{counts.total()} {whose if counts.total() != 1 else whose.replace('s of', ' of', 1)}: {verdicts}")
    if content.variants:
        many = "1 variant" if content.variants == 1 else f"{content.variants} variants"
        print(f"{many} with settings of your own, counted in none of these")
    print(content.wrong_by_chance.sentences())
    print(f"open {page.resolve()}")


def print_engines(trainings: list[Training]) -> None:
    """Print on standard error which engine each training runs on, and why."""
    from iclab.engines import faster_obstacle

    for label, engine, obstacle in dict.fromkeys((t.model.label, t.engine, faster_obstacle(t)) for t in trainings):
        reason = f" ({obstacle})" if obstacle else " (as asked)" if engine == "reference" else ""
        print(f"iclab: {label} runs on the {engine} engine{reason}", file=sys.stderr)
