"""``iclab score``: the card of a model, and two cards side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

from iclab.cli.executing import executor
from iclab.cli.printing import print_json
from iclab.cli.tables import new_console, new_table
from iclab.cli.values import check_writable, read_pairs
from iclab.config import InputError
from iclab.lab import Store
from iclab.score.card import Card
from iclab.score.comparing import Difference, beside, compare, difference
from iclab.score.page import write
from iclab.score.scoring import score


def run_score(options: argparse.Namespace) -> None:
    """Score a model and write its card, or compare two cards."""
    if options.compare:
        first, second = read_cards(options)
        print_json(comparison(first, second)) if options.json else print_comparison(first, second)
        return
    name, place, changes = read_model(options), Path(options.out), read_pairs(options.set)
    check_writable(place, "out", options.out)
    with executor(options) as where:
        store = Store(options.store)
        card = score(name, quick=options.quick, options=changes, store=store, executor=where, progress=True)
    files = write(card, place)
    print_json(card.model_dump(mode="json")) if options.json else print_card(card, files)


def read_model(options: argparse.Namespace) -> str:
    """Return the model to score; refuse a request that names none, or a model and cards."""
    if options.model is None:
        raise InputError("model: say which one, such as mamba or my_module:Mine; or --compare a.json b.json")
    return str(options.model)


def read_cards(options: argparse.Namespace) -> tuple[Card, Card]:
    """Return the two cards to compare."""
    if options.model is not None:
        raise InputError(f"model = {options.model}: --compare takes two cards and no model")
    first, second = options.compare
    return Card.read(first), Card.read(second)


def print_card(card: Card, written: list[Path]) -> None:
    """Print integrity, all rows with the family beside, the tuning and the files."""
    out, other = new_console(), beside(card)
    counts = {kind: sum(check.outcome == kind for check in card.checks) for kind in ("passed", "skipped", "failed")}
    title = f"{card.model}: suite v{card.suite_version}, {card.edition} edition, {len(card.seeds)} seeds"
    out.print(Text(title, style="bold"))
    out.print(f"integrity: {', '.join(f'{number} {kind}' for kind, number in counts.items() if number)}")
    for check in card.failed:
        out.print(Text(f"  failed {check.name}: {check.reason}", style="red"))
    table = new_table("measured", card.model, *([other.model, "difference, paired"] if other else []), "vote", "remark")
    rivals = {measure.key: measure for measure in other.measures} if other else {}
    for row in card.measures:
        cells: list[Any] = [row.words, Text(row.text, style="red" if row.diverged else "")]
        if other:
            cells += (
                [rivals[row.key].text, _coloured(difference(row, rivals[row.key]))] if row.key in rivals else ["–"] * 2
            )
        cells += ["–" if row.vote is None else f"{row.vote:.3f}", Text(row.note, style="dim")]
        table.add_row(*cells)
    out.print(table)
    for tuned in card.tuned:
        budget = f"{len(tuned.candidates)} candidates, {tuned.prompts:,} training prompts"
        out.print(f"tuned {tuned.part}: {tuned.optimizer}, step size {tuned.step_size:g} ({budget})", style="dim")
    for path in written:
        out.print(str(path))


def print_comparison(first: Card, second: Card) -> None:
    """Print every row of two cards, with the paired difference."""
    out, table = new_console(), new_table("measured", first.model, second.model, "difference, paired")
    for row in compare(first, second):
        table.add_row(row.words, row.first, row.second, _coloured(row))
    out.print(table)


def comparison(first: Card, second: Card) -> dict[str, Any]:
    """Return a comparison as plain data."""
    rows = [row.model_dump(mode="json") for row in compare(first, second)]
    return {"first": first.model, "second": second.model, "suite": first.suite, "rows": rows}


def _coloured(row: Difference) -> Text:
    return Text(row.text, style={"first": "green", "second": "red", "": ""}[row.verdict])
