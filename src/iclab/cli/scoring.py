"""``iclab score``: the card of a model, and two cards side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iclab.cli.executing import executor
from iclab.cli.printing import print_json
from iclab.cli.tables import new_console, new_table
from iclab.cli.values import check_model_word, check_writable, read_pairs
from iclab.config import InputError
from iclab.lab import Store
from iclab.score.card import Card, in_short, unmeasured
from iclab.score.comparing import Difference, beside, compare, difference, shipped
from iclab.score.page import SECTIONS, write
from iclab.score.scoring import score
from iclab.score.suite import Edition


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
    check_model_word(options.model)
    return str(options.model)


def read_cards(options: argparse.Namespace) -> tuple[Card, Card]:
    """Return the two cards to compare."""
    if options.model is not None:
        raise InputError(f"model = {options.model}: --compare takes two cards and no model")
    read = [Card.read(word) if Path(word).exists() else None for word in options.compare]
    edition: Edition = next((card.edition for card in read if card), "quick")
    first, second = (card or shipped_card(word, edition) for word, card in zip(options.compare, read, strict=True))
    return first, second


def shipped_card(name: str, edition: Edition) -> Card:
    """Return the card of a built-in family that comes with iclab."""
    known = shipped()
    if (name, edition) not in known:
        ours = ", ".join(f"{model} ({of})" for model, of in known)
        raise InputError(
            f"compare = {name!r}: must be the file of a card, or a card of the {edition} edition that comes with "
            f"iclab, which has {ours}"
        )
    return known[name, edition]


def print_card(card: Card, written: list[Path]) -> None:
    """Print integrity, all rows with the family beside, the tuning, the cost and the files."""
    out, other = new_console(), beside(card)
    counts = {kind: sum(check.outcome == kind for check in card.checks) for kind in ("passed", "skipped", "failed")}
    title = f"{card.model}: suite v{card.suite_version}, {card.edition} edition, {len(card.seeds)} seeds"
    out.print(Text(title, style="bold"))
    out.print(f"integrity: {', '.join(f'{number} {kind}' for kind, number in counts.items() if number)}")
    _print_failures(out, card)
    rivals = {measure.key: measure for measure in other.measures} if other else {}
    beside_it = [other.model, "difference, paired"] if other else []
    table, section = new_table("lower is better", card.model, *beside_it, "vote", "remark"), ""
    for row in card.measures:
        if not row.measured:
            continue
        section = _begin(table, section, row.section)
        cells: list[Any] = [f"  {row.words}", Text(row.text, style="red" if row.diverged else "")]
        if other:
            paired = difference(row, rivals[row.key]) if row.key in rivals else None
            cells += [paired.second, _coloured(paired)] if paired else ["–"] * 2
        table.add_row(*cells, "–" if row.vote is None else f"{row.vote:.3f}", Text(row.note, style="dim"))
    if section:
        out.print(table)
    for reason, rows in unmeasured(card.measures).items():
        out.print(Text(f"not measured: {in_short(rows)}: {reason}", style="dim"))
    _print_budget(out, card)
    for path in written:
        out.print(str(path))


def _print_failures(out: Console, card: Card) -> None:
    """Print the checks of integrity that failed, those with the same reason together."""
    for (outcome, reason), names in card.outcomes.items():
        if outcome == "failed":
            out.print(Text(f"{card.model} fails {', '.join(names)}: {reason}", style="red"))


def _begin(table: Table, before: str, section: str) -> str:
    """Add the heading of a section, if one begins; return the section."""
    if section != before:
        table.add_row(Text(SECTIONS.get(section, section), style="bold"))
    return section


def _print_budget(out: Console, card: Card) -> None:
    """Print what was tuned, and what a step costs."""
    for tuned in card.tuned:
        budget = f"{len(tuned.candidates)} candidates, {tuned.prompts:,} training prompts"
        out.print(f"tuned {tuned.part}: {tuned.optimizer}, step size {tuned.step_size:g} ({budget})", style="dim")
    if card.cost:
        speed, memory = card.cost.prompts_per_cpu_second, card.cost.bytes_per_prompt / 1024
        step = f"{speed:,.0f} prompts per CPU second, {memory:,.1f} kB kept per prompt"
        out.print(f"cost of a training step: {step}; {card.cost.parameters:,} parameters", style="dim")


def print_comparison(first: Card, second: Card) -> None:
    """Print every row of two cards that both have, with the paired difference, and a summary."""
    out, rows = new_console(), compare(first, second)
    title = f"{first.model} and {second.model}: suite v{first.suite_version}, {first.edition} edition"
    out.print(Text(f"{title}, {len(first.seeds)} seeds", style="bold"))
    table, section = new_table("lower is better", first.model, second.model, "difference, paired", "lower"), ""
    names = {"first": first.model, "second": second.model, "": ""}
    for row in rows:
        if {row.first, row.second} != {"not measured"}:
            section = _begin(table, section, row.section)
            table.add_row(f"  {row.words}", row.first, row.second, _coloured(row), names[row.verdict])
    out.print(table)
    judged = [row.verdict for row in rows if row.mean is not None]
    wins = ", ".join(f"{name} is lower in {judged.count(verdict)}" for verdict, name in names.items() if name)
    out.print(f"of {len(judged)} paired differences: {wins}; the 95 % interval of {judged.count('')} contains 0")
    for card in (first, second):
        _print_failures(out, card)


def comparison(first: Card, second: Card) -> dict[str, Any]:
    """Return a comparison as plain data."""
    rows = [row.model_dump(mode="json") for row in compare(first, second)]
    return {"first": first.model, "second": second.model, "suite": first.suite, "rows": rows}


def _coloured(row: Difference) -> Text:
    return Text(row.text, style={"first": "green", "second": "red", "": ""}[row.verdict])
