"""``iclab predict``: what the theorems say about a training described by flags or a TOML file. Nothing is trained."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iclab.cli.tables import new_console, new_table
from iclab.cli.training import read_request
from iclab.cli.values import check_model_word, read_value
from iclab.config import InputError
from iclab.study.predicting import EPSILON, Predicted, figure, setting_of
from iclab.theory.check import Check
from iclab.theory.statements import BY_ID


def read_predictions(options: argparse.Namespace) -> dict[str, Predicted]:
    """Return what the options ask for, by the name of the test."""
    check_model_word(options.what)
    request = read_request(options)
    epsilon = EPSILON if options.epsilon is None else read_value(options.epsilon)
    if not isinstance(epsilon, (int, float)) or isinstance(epsilon, bool):
        raise InputError(f"epsilon = {options.epsilon}: must be a number above 0 and below 1")
    training = request.training()
    tests = request.test or {"as trained": request.prompts}
    return {name: Predicted(setting_of(training, test, float(epsilon))) for name, test in tests.items()}


def document(found: dict[str, Predicted]) -> dict[str, Any]:
    """Return the predictions as plain data: of the only test, or a list by test."""
    listed = [{"test": name} | predicted.as_data() for name, predicted in found.items()]
    return listed[0] if len(listed) == 1 else {"tests": listed}


def print_predictions(found: dict[str, Predicted]) -> None:
    """Print the conditions by theorem, then the predictions, for each test."""
    out = new_console()
    for name, predicted in found.items():
        if len(found) > 1:
            out.print(Text(f"test: {name}", style="bold"))
        _print_conditions(out, predicted)
        _print_graph(out, predicted)
        table = new_table("predicted", "what", "formula", "remark")
        for p in predicted.predictions:
            table.add_row(Text(figure(p.value), style="bold"), p.words, p.formula, Text(p.remark, style="dim"))
        out.print(table)
        out.print()


def _print_conditions(out: Console, predicted: Predicted) -> None:
    table = new_table("met", "condition", "formula (constant taken)", "left and right", "slack", "remark")
    group = ""
    for check in predicted.conditions:
        if check.theorem != group:
            if group:
                table.add_row()
            group = check.theorem
            table.add_row("", Text(BY_ID[group].where, style="bold"), _verdict(predicted, group))
        _add(table, check)
    out.print(table)
    out.print()
    short = sum(not check.holds for check in predicted.conditions)
    out.print(
        f"{len(predicted.conditions) - short} of {len(predicted.conditions)} conditions are met at "
        f"ε = {predicted.setting.epsilon:g}. They are sufficient: where one is not met, the theorem is silent. "
        "Where a paper leaves a constant open, the one taken stands behind the formula.",
        style="dim",
    )
    out.print()


def _verdict(predicted: Predicted, statement: str) -> Text:
    """Say whether a theorem, corollary or lemma applies: it may rest on conditions stated elsewhere."""
    if not BY_ID[statement].to_test:
        return Text("")
    missed = predicted.missed(statement)
    if not missed:
        return Text("applies, with the constants taken", style="green")
    return Text("silent: " + ", ".join(check.id for check in missed), style="yellow")


def _add(table: Table, check: Check) -> None:
    met = Text("yes", style="green") if check.holds else Text("no", style="red")
    constant = "" if check.constant is None else f" ({check.constant:g})"
    table.add_row(
        met,
        f"  {check.name}",
        check.formula + constant,
        f"{figure(check.left)} {check.relation} {figure(check.right)}",
        figure(check.slack),
        Text(check.remark, style="dim"),
    )


def _print_graph(out: Console, predicted: Predicted) -> None:
    graph, tasks = predicted.setting.graph, len(predicted.setting.tasks)
    pairs = graph.relevant * (graph.relevant - 1) // 2
    edges = int((graph.weights > 0).sum()) // 2
    kind = "complete" if graph.complete else "not complete" if graph.connected else "not even connected"
    out.print(
        f"The graph of the {tasks} training tasks is {kind}: {edges} of {pairs} pairs of patterns share a task.",
    )
    out.print()
