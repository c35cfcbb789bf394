"""Tables for people, on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from iclab.bench.page import Table as Measured
    from iclab.study.outcome import Outcome

_VERDICT_STYLE = {"holds": "green", "in direction": "cyan", "fails": "red", "undecided": "yellow", "not run": "dim"}


def new_console() -> Console:
    """Return a console as wide as the terminal, or of 150 columns where there is none."""
    console = Console(highlight=False, markup=False)  # square brackets are intervals
    return console if console.is_terminal else Console(highlight=False, markup=False, width=150)


def new_table(*columns: str) -> Table:
    """Return a table without lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def print_experiment_list(listed: list[dict[str, Any]]) -> None:
    """Print one line per experiment."""
    console = new_console()
    table = new_table("id", "title", "claims")
    for place, experiment in enumerate(listed):
        if experiment["own"] and place and not listed[place - 1]["own"]:
            table.add_row()
        title = f"{experiment['title']} (yours, {experiment['run as']})" if experiment["own"] else experiment["title"]
        table.add_row(experiment["id"], title, str(len(experiment["claims"])))
    console.print(table)
    console.print()
    console.print("iclab experiments ID shows its claims and settings; iclab run ID runs it", style="dim")


def print_experiments(listed: list[dict[str, Any]]) -> None:
    """Print experiments with their claims and settings."""
    console = new_console()
    for experiment in listed:
        console.print(Text(f"{experiment['id']}  {experiment['title']}", style="bold"))
        if experiment["paper"]:
            console.print(Text(experiment["paper"]))
        claims = new_table("claim", "tested as")
        for claim in experiment["claims"]:
            claims.add_row(claim["id"], claim["predicate"])
        if experiment["claims"]:
            console.print(claims)
        chosen = "chosen" if experiment["own"] else "chosen by iclab"
        for disclosed, heading in ((True, "stated by the paper"), (False, chosen)):
            if not any(setting["disclosed"] == disclosed for setting in experiment["settings"]):
                continue
            settings = new_table(heading, "value", "where" if disclosed else "why")
            for setting in experiment["settings"]:
                if setting["disclosed"] == disclosed:
                    settings.add_row(setting["name"], Text(str(setting["value"])), Text(setting["why"]))
            console.print()
            if experiment["evidence"] and not disclosed:
                console.print(Text(experiment["evidence"], style="dim"))
            console.print(settings)
        console.print()


def print_outcome(outcome: Outcome) -> None:
    """Print the table of an experiment, and what its numbers are."""
    console = new_console()
    lines = outcome.table
    console.print(Text(f"{outcome.experiment.id}: {outcome.experiment.title}", style="italic"))
    table = new_table(*lines[0])
    firsts = [next(iter(line.values())) for line in lines]
    previous = None
    for first, line in zip(firsts, lines, strict=True):
        if previous is not None and first != previous and len(set(firsts)) < len(firsts):
            table.add_row()
        previous = first
        table.add_row(*map(str, line.values()))
    console.print(table)
    extent = outcome.settings.extent(len({row["seed"] for row in outcome.rows}))
    console.print(f"{outcome.experiment.caption}, {extent}", style="dim")
    if changed := outcome.settings.unusual():
        console.print(f"with {changed}", style="dim")
    console.print()


def print_verdicts(claims: list[dict[str, Any]]) -> None:
    """Print one line per claim."""
    from iclab.study.claims import in_figures

    if not claims:
        return
    console = new_console()
    levels = {claim["confidence"] for claim in claims}
    heading = f"{100 * levels.pop():.4g} % interval" if len(levels) == 1 else "interval"
    table = new_table("claim", "verdict", "measured", heading, "where", "tested as")
    for claim in claims:
        measured, interval = in_figures(claim)
        verdict = Text(claim["verdict"], style=_VERDICT_STYLE[claim["verdict"]])
        table.add_row(claim["id"], verdict, measured, interval, claim["where"], claim["predicate"])
    console.print(table)
    console.print()


def print_training(result: dict[str, Any]) -> None:
    """Print what `iclab train` measured."""
    console = new_console()
    console.print(f"{result['model']}, {result['seeds']} seeds, {result['seconds']:.1f} s")
    if loss := result["loss"]:
        console.print(f"loss: {loss['first']:.4g} in the first step, {loss['last']:.4g} in the last")
    for entry in result["measurements"]:
        if "error" in entry:  # one per seed, and here its mean
            mean = "none" if entry["error"] is None else f"{entry['error']:.4f}"
            seed, prompt = entry["seed_interval"], entry["prompt_interval"]
            console.print(
                f"{entry['probe']}, {entry['test']}: {mean}  over seeds [{seed[0]:.4f}, {seed[1]:.4f}]  "
                f"over prompts [{prompt[0]:.4f}, {prompt[1]:.4f}]"
                + (f"  {entry['diverged']} diverged" if entry["diverged"] else "")
            )
            if entry["error"] is None:
                console.print("every seed diverged: try a smaller --step-size")
            continue
        console.print()
        console.print(f"{entry['probe']}, {entry['test']}: mean over seeds (lowest to highest)")
        console.print({"attention": _attention, "gates": _gates}.get(entry["probe"], _any_rows)(entry["rows"]))
    if result["weights"]:
        console.print(f"weights in {result['weights']}")


def _over_seeds(rows: list[dict[str, Any]], column: str) -> str:
    values = [row[column] for row in rows if row.get(column) is not None]
    if not values:
        return "–"
    return f"{sum(values) / len(values):.4g} ({min(values):.3g} to {max(values):.3g})"


def _attention(rows: list[dict[str, Any]]) -> Table:
    table = new_table("layer", "on examples with the query's pattern", "on the others")
    for layer, here in _by_layer(rows):
        table.add_row(str(layer), _over_seeds(here, "same"), _over_seeds(here, "other"))
    return table


def _gates(rows: list[dict[str, Any]]) -> Table:
    kinds = {"clean": "clean, this far away", "outlier": "outlier, this far away", "clean_rank": "n-th nearest clean"}
    table = new_table("layer", "n", *kinds.values())
    for layer, inside in _by_layer(rows):
        for place in sorted({row["place"] for row in inside}):
            here = [row for row in inside if row["place"] == place]
            cells = (_over_seeds([r for r in here if r["kind"] == kind], "gate") for kind in kinds)
            table.add_row(str(layer), str(place), *cells)
    return table


def _any_rows(rows: list[dict[str, Any]]) -> Table:
    """Tabulate the rows of any probe: one line per combination of columns that are not measured numbers."""
    known = [row for row in rows if not row["diverged"]]
    names = [name for name in (known[0] if known else {}) if name not in ("seed", "neuron", "diverged")]
    keys = [name for name in names if name in ("sign", "level") or isinstance(known[0][name], str)]
    table = new_table(*(name.replace("_", " ") for name in names))
    for group in dict.fromkeys(tuple(row[key] for key in keys) for row in known):
        here = [row for row in known if tuple(row[key] for key in keys) == group]
        table.add_row(*(str(here[0][name]) if name in keys else _over_seeds(here, name) for name in names))
    return table


def _by_layer(rows: list[dict[str, Any]]) -> list[tuple[int, list[dict[str, Any]]]]:
    layers = sorted({row["layer"] for row in rows if row["layer"] is not None})  # a diverged seed has none
    return [(layer, [row for row in rows if row["layer"] == layer]) for layer in layers]


def print_bench(tables: list[Measured]) -> None:
    """Print what `iclab bench` measured."""
    console = new_console()
    for made in tables:
        console.print(Text(made.title, style="bold"))
        table = new_table(*made.head)
        for row in made.rows:
            table.add_row(*row)
        console.print(table)
        for note in made.notes:
            console.print(Text(note, style="dim"))
        console.print()
