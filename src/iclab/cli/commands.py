"""What each command does: read the options, call the rooms, print."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.cli.parser import PROMPT_FLAGS, RECIPE_FLAGS, pairs, value_of

if TYPE_CHECKING:
    from iclab.engines import Training
    from iclab.report import Content
    from iclab.study.outcome import Outcome
    from iclab.study.settings import Settings


# Settings from words.


def _settings(options: argparse.Namespace, kind: type[Settings]) -> Settings:
    base = kind().quick() if options.quick else kind()
    changes: dict[str, Any] = {}
    for key, value in pairs(getattr(options, "set", [])).items():
        name, dot, inside = key.partition(".")
        if dot and isinstance(getattr(base, name, None), dict):  # one entry of a table, such as step_sizes.deep-mamba
            changes[name] = {**changes.get(name, getattr(base, name)), inside: value}
        else:
            changes[key] = value
    if options.seeds is not None:
        changes["seeds"] = options.seeds
    if getattr(options, "engine", None):
        changes["engine"] = options.engine
    return base.replace(**changes)  # what a person asks for wins over the edition


# The commands.


def _experiments(options: argparse.Namespace) -> None:
    from iclab.catalog import experiments, find
    from iclab.study.settings import Disclosed

    listed = []
    for experiment in map(find, options.ids or experiments()):
        settings = experiment.settings()
        values = settings.model_dump(mode="json")
        listed.append(
            {
                "id": experiment.id,
                "title": experiment.title,
                "paper": experiment.paper,
                "evidence": settings.evidence,
                "claims": [
                    {"id": c.id, "paper": c.words, "predicate": c.predicate} for c in experiment.claims(settings)
                ],
                "settings": [
                    {
                        "name": name,
                        "value": values[name],
                        "disclosed": isinstance(mark, Disclosed),
                        "why": mark.where if isinstance(mark, Disclosed) else mark.why,
                    }
                    for name, mark in experiment.settings.provenance().items()
                ],
            }
        )
    if options.json:
        print(json.dumps({"experiments": listed}, ensure_ascii=False))
        return
    from iclab.cli.tables import print_experiments

    print_experiments(listed, brief=not options.ids)


def _compute(ids: Iterable[str], options: argparse.Namespace, title: str) -> tuple[list[Outcome], float]:
    """Run what is missing of some experiments, all together, and collect their outcomes."""
    from iclab.catalog import find
    from iclab.lab import Store, run
    from iclab.study.outcome import Outcome

    started = time.perf_counter()
    _must_be_writable(Path(options.out), "out", options.out)
    wanted = [(experiment, _settings(options, experiment.settings)) for experiment in map(find, ids)]
    store = Store(options.store)
    cells = [condition.cell for experiment, settings in wanted for condition in experiment.conditions(settings)]
    if getattr(options, "verbose", False):
        _tell_engines([cell.training.training for cell in cells])
    run(cells, store, workers=options.workers, title=title)
    return [Outcome.of(*each, store) for each in wanted], time.perf_counter() - started


def _must_be_writable(folder: Path, field: str, value: str) -> None:
    """Refuse a place that results could not be written to, before they are computed."""
    from iclab.config import InputError

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{field} = {value}: cannot be written; {folder} is not a writable directory")


def _tell_engines(trainings: list[Training]) -> None:
    """Say on standard error which engine each training runs on, and why."""
    from iclab.engines import faster_obstacle

    for training in dict.fromkeys((t.model.label, t.engine, faster_obstacle(t)) for t in trainings):
        label, engine, obstacle = training
        reason = f" ({obstacle})" if obstacle else " (as asked)" if engine == "reference" else ""
        print(f"iclab: {label} runs on the {engine} engine{reason}", file=sys.stderr)


def _finish(
    outcomes: list[Outcome], seconds: float, options: argparse.Namespace, together: bool, report: bool = False
) -> None:
    """Write figures or the whole report, then print tables for a person or one document for a program."""
    from iclab.cli.tables import print_outcome, print_verdicts

    out = Path(options.out)
    page = _write_report(options.store, out, outcomes) if report else None  # which writes the figures too
    figures = [out / o.folder / f"{o.experiment.id}.png" if report else o.write(out) for o in outcomes]
    if options.json:
        documents = [
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
        took = {"seconds": round(seconds, 3)} | ({"report": str(page[0])} if page else {})
        print(json.dumps(took | ({"experiments": documents} if together else documents[0]), ensure_ascii=False))
        return
    for outcome in outcomes:
        print_outcome(outcome)
    print_verdicts([claim for outcome in outcomes for claim in outcome.claims])
    if page:
        _tell_report(*page)
        return
    for figure in figures:
        print(f"open {figure.resolve()}")


def _run(options: argparse.Namespace) -> None:
    from iclab.catalog import find

    ids = list(dict.fromkeys(find(id_).id for id_ in options.ids))
    _finish(*_compute(ids, options, ids[0] if len(ids) == 1 else "iclab"), options, together=len(ids) > 1)


def _reproduce(options: argparse.Namespace) -> None:
    from iclab.catalog import experiments

    _finish(*_compute(experiments(), options, "iclab"), options, together=True, report=True)


def _report(options: argparse.Namespace) -> None:
    page, content = _write_report(options.store, Path(options.out))
    if not content.cells:
        print(f"iclab: store = {options.store}: holds nothing of any experiment's usual editions", file=sys.stderr)
    if options.json:
        print(json.dumps({"report": str(page), "claims": dict(content.verdicts)}, ensure_ascii=False))
        return
    _tell_report(page, content)


def _write_report(store: str, out: Path, outcomes: Iterable[Outcome] = ()) -> tuple[Path, Content]:
    """Make the report of all that a store holds, and of these outcomes rather than others, telling how far it is."""
    from rich.console import Console

    from iclab.lab import Store
    from iclab.report import write

    _must_be_writable(out, "out", str(out))
    given = {outcome.experiment.id: outcome for outcome in outcomes}
    with Console(stderr=True).status("writing the report") as status:  # a line on a terminal, nothing elsewhere
        return write(Store(store), out, lambda text: status.update(f"writing the report: {text}"), given)


def _tell_report(page: Path, content: Content) -> None:
    """Say how the claims fare, and where the page is."""
    for ours, whose in ((False, "claims of the papers"), (True, "questions of iclab's own")):
        counts = content.counted(ours=ours)
        told = ", ".join(f"{many} {verdict}" for verdict, many in sorted(counts.items()))
        print(f"{counts.total()} {whose}: {told}")
    print(f"open {page.resolve()}")


def _show(options: argparse.Namespace) -> None:
    from iclab.catalog import find
    from iclab.lab import Store
    from iclab.study.outcome import Outcome

    started = time.perf_counter()
    experiment, store = find(options.id), Store(options.store)
    wanted = _settings(options, experiment.settings)
    options.quick = True
    quick = _settings(options, experiment.settings)
    outcome = Outcome.fullest(experiment, (wanted, quick), store) or Outcome.of(experiment, wanted, store)
    if outcome.settings != wanted:
        print("iclab: the store holds more of the quick edition: this is that one", file=sys.stderr)
    if not outcome.complete:
        print(f"iclab: not all of {experiment.id} has been run; showing what there is", file=sys.stderr)
    _finish([outcome], time.perf_counter() - started, options, together=False)


def _train(options: argparse.Namespace) -> None:
    from iclab.cli.training import Request, carry_out
    from iclab.config import InputError
    from iclab.lab import Store

    data: dict[str, Any] = {}
    if options.file:
        data = _toml(Path(options.file))
    given = vars(options)
    simple = ("model", "seeds", "engine", "dtype", "probe", "test_prompts")
    changes = {name: given[name] for name in simple if given[name] is not None}
    if "probe" in changes:
        changes["probes"] = changes.pop("probe")
    for flag, (key, _) in PROMPT_FLAGS.items():
        name = flag.replace("-", "_")
        if given[name] is not None:
            changes[f"prompts.{key}"] = value_of(given[name])
        if given.get(f"test_{name}") is not None:
            changes[f"test.test.{key}"] = value_of(given[f"test_{name}"])
    for flag, (key, _) in RECIPE_FLAGS.items():
        if given[flag.replace("-", "_")] is not None:
            changes[f"recipe.{key}"] = value_of(given[flag.replace("-", "_")])
    if "model" not in data | changes | pairs(options.set):
        raise InputError("model: say which one with --model, such as --model mamba")
    request = Request.read(data, changes | pairs(options.set))
    if options.save:
        _must_be_writable(Path(options.save).absolute().parent, "save", options.save)
    if options.verbose:
        _tell_engines([request.training()])
    result = carry_out(request, Store(options.store), options.workers, Path(options.save) if options.save else None)
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    from iclab.cli.tables import print_training

    print_training(result)


def _bench(options: argparse.Namespace) -> None:
    from iclab.bench import bench
    from iclab.config import InputError

    if options.threads is not None and options.threads < 1:
        raise InputError(f"threads = {options.threads}: must be at least 1")
    result = bench(options.threads, lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    from iclab.cli.tables import print_bench

    print_bench(result)


def _toml(path: Path) -> dict[str, Any]:
    from iclab.config import InputError

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


COMMANDS = {
    "experiments": _experiments,
    "run": _run,
    "reproduce": _reproduce,
    "report": _report,
    "show": _show,
    "train": _train,
    "bench": _bench,
}
