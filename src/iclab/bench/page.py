"""The tables of a run, and docs/speed.md with them.

iclab bench --json > bench.json
python -m iclab.bench.page bench.json docs/speed.md        # replaces the tables there; without a page, prints them
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from iclab.bench import ratio_names
from iclab.bench.families import families

BEGIN, END = "<!-- tables of iclab bench -->\n", "<!-- end of tables -->\n"
WORK = {"train": "", "error": ", error", "measure": ", all probes"}
"""What is added to the name of a model in the tables."""


class Table(NamedTuple):
    """A table for people."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()


def tables(result: dict[str, Any]) -> list[Table]:
    """Turn what `iclab bench` measured into tables."""
    made = [speeds(result), ratios(result), limits(result), growth(result)]
    if stages := result["nanoseconds_per_prompt"]:
        named = next(iter(stages.values()))
        lines = [(stage, *(f"{column[stage]:.0f}" for column in stages.values())) for stage in named]
        made.append(
            Table("One layer: nanoseconds per prompt on one thread", ("stage", *stages), lines, _memory(result))
        )
    return [table for table in made if table.rows]


def _memory(result: dict[str, Any]) -> tuple[str, ...]:
    memory = result["memory"]
    low, high = (f"{peak / 1e6:.2f} MB" for peak in memory["peak_bytes"])
    return (f"Peak memory of two seeds: {low} in {memory['steps'][0]:,} steps, {high} in {memory['steps'][1]:,}.",)


def speeds(result: dict[str, Any]) -> Table:
    """Return prompts per second: one line per family, one column per way."""
    many, rows = result["machine"]["threads"], result["rows"]
    ways = {
        "loop": "loop, one seed",
        "compiled": "torch.compile",
        "jax": "JAX, stacked",
        "reference": "reference, stacked",
        "fused, 1": "fused, 1 thread",
        **({f"fused, {many}": f"fused, {many} threads"} if many > 1 else {}),
        "browser, 1": "browser, 1 worker",
        **({f"browser, {many}": f"browser, {many} workers"} if many > 1 else {}),
    }
    lines, notes = [], []
    for model, work in dict.fromkeys((row["model"], row["work"]) for row in rows):
        here = [row for row in rows if (row["model"], row["work"]) == (model, work)]
        found: dict[str, float] = {}
        for row in here:
            way = f"{row['name']}, {row['threads']}" if row["name"] in ("fused", "browser") else row["name"]
            if row["prompts_per_second"]:
                found[way] = max(found.get(way, 0.0), row["prompts_per_second"])
            else:
                notes.append(f"{model}, {work}, {row['name']}: {row['reason']}.")
        name = model + WORK[work]
        lines.append((name, *(_figures(found.get(way)) for way in ways)))
    notes += _pictures(result)
    return Table("Prompts per second, drawing included", ("", *ways.values()), lines, tuple(notes))


def _pictures(result: dict[str, Any]) -> list[str]:
    """Say how soon the playground answers a change."""
    if not (times := result["first_pictures"]):
        return []
    return [
        f"Playground: the first picture is on the screen {times[len(times) // 2]:.0f} ms after a change (median of "
        f"{len(times)} changes while it trains; at most {times[-1]:.0f} ms)."
    ]


def ratios(result: dict[str, Any]) -> Table:
    """Return how many times as fast the fused engine is."""
    known = result["ratios"]
    others = {
        "loop": "loop",
        "compiled": "torch.compile",
        "jax": "JAX",
        "reference": "reference",
        "fused": "one thread",
    }
    lines = []
    for family in families():
        names = {key[:2]: name for key, name in ratio_names(family).items() if not key[2]}
        for work in dict.fromkeys(work for work, _ in names):
            found = [known.get(names.get((work, other), "")) for other in others]
            if any(ratio is not None for ratio in found):
                shown = ["–" if ratio is None else f"{ratio:.1f} ×" for ratio in found]
                lines.append((family.name + WORK[work], *shown))
    return Table("The fused engine on all cores against", ("", *others.values()), lines)


def limits(result: dict[str, Any]) -> Table:
    """Return what a prompt needs, and how near one thread is to the machine's limit."""
    rates = result["rates"]
    head = (
        "",
        "forward",
        "backward",
        "inside the hinge",
        "tables",
        "exp",
        "words",
        "limit, ns",
        "measured, ns",
        "near",
    )
    lines = []
    for name, one in result["limits"].items():
        share = "–" if one["active"] is None else f"{100 * one['active']:.0f} %"
        needs = [_whole(one[key]) for key in ("forward", "backward")]
        more = [_whole(one[key]) for key in ("batch", "exponentials", "words", "nanoseconds")]
        took = "–" if one["measured"] is None else f"{1e9 / one['measured']:,.0f}"
        near = "–" if one["near"] is None else f"{one['near']:.1f} ×"
        lines.append((name, *needs, share, *more, took, near))
    note = (
        f"One core, in billions per second: {rates['multiply_adds'] / 1e9:.1f} multiply-adds (torch.mm), "
        f"{rates['exponentials'] / 1e9:.2f} exponentials, {rates['words'] / 1e9:.2f} random words (Philox)."
    )
    return Table("Multiply-adds of a prompt, and the limit of one core", head, lines, (note,))


def growth(result: dict[str, Any]) -> Table:
    """Return how the time of a prompt grows."""
    head = ("fused engine", "size", "from", "to", "time per prompt ×", "exponent (1 linear, 0 flat)")
    lines = []
    for family, axes in result["growth"].items():
        for name, axis in axes.items():
            ends = (f"{axis['values'][0]:,}", f"{axis['values'][-1]:,}")
            lines.append((family, name, *ends, f"{axis['ratio']:.2f}", f"{axis['exponent']:.2f}"))
    return Table("Growth", head, lines)


OVERHEAD = (
    "Overhead: clock time × workers ÷ cells, less the processor time of the work itself. Processor: here, of all "
    "processes less the work; on Ray, of the driver alone."
)


def executors(rows: list[dict[str, Any]]) -> Table:
    """Return what each executor takes per cell."""
    head = (
        "executor",
        "workers",
        "cells",
        "seconds",
        "overhead, ms per cell",
        "processor, ms per cell",
    )
    lines, notes = [], [OVERHEAD]
    for row in rows:
        if row["seconds"] is None:
            notes.append(f"{row['executor']}: {row['reason']}.")
            continue
        early, late = row["memory"]
        numbers = (
            f"{row['seconds']:.1f}",
            f"{row['milliseconds_per_cell']:.2f}",
            f"{row['processor_milliseconds']:.2f}",
        )
        lines.append(
            (row["executor"], str(row["workers"]), f"{row['cells']:,}", *numbers, f"{early:.0f}", f"{late:.0f}")
        )
    return Table("Small cells", (*head, "MB after a tenth", "MB at the end"), lines, tuple(notes))


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _figures(rate: float | None) -> str:
    """Round to three figures."""
    return "–" if rate is None else f"{float(f'{rate:.3g}'):,.0f}"


def markdown(made: list[Table]) -> str:
    """Return tables in Markdown."""
    parts = []
    for table in made:
        lines = [table.head, ("---",) * len(table.head), *table.rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = "".join(f"\n{note}\n" for note in table.notes)
        parts.append(f"**{table.title}**\n\n{body}\n{notes}")
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    """Print the tables of a JSON file, or write them into a page between its two marks."""
    if len(arguments) not in (1, 2):
        raise SystemExit("usage: python -m iclab.bench.page bench.json [docs/speed.md]")
    result = json.loads(_text(arguments[0]))
    if len(arguments) < 2:
        print(markdown(tables(result)))
        return
    page = _text(arguments[1])
    if not 0 <= page.find(BEGIN) < page.find(END):
        raise SystemExit(f"{arguments[1]}: has no lines {BEGIN.strip()} and {END.strip()} to write the tables between")
    before, rest = page.split(BEGIN)
    made = markdown(tables(result))
    Path(arguments[1]).write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _text(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"{name}: cannot be read ({error.strerror})") from None


if __name__ == "__main__":
    main(sys.argv[1:])
