"""The commands: each reads its options, calls the package and prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.cli.values import read_pairs

if TYPE_CHECKING:
    from iclab.engines import Training
    from iclab.report import Content
    from iclab.study.edition import Edition
    from iclab.study.experiment import Experiment
    from iclab.study.outcome import Outcome

# Imports are local: a command loads only what it uses.


def experiments(options: argparse.Namespace) -> None:
    """List experiments, or describe the ones that are named."""
    from iclab import catalog
    from iclab.cli.tables import print_experiment_list, print_experiments

    listed = [_description(catalog.find(id_)) for id_ in options.ids or catalog.experiments()]
    if options.json:
        _print_json({"experiments": listed})
    elif options.ids:
        print_experiments(listed)
    else:
        print_experiment_list(listed)


def _description(experiment: Experiment[Any]) -> dict[str, Any]:
    settings = experiment.settings()
    return {
        "id": experiment.id,
        "title": experiment.title,
        "paper": experiment.paper,
        "evidence": settings.evidence,
        "claims": [
            {"id": claim.id, "paper": claim.statement, "predicate": claim.tested}
            for claim in experiment.claims(settings)
        ],
        "settings": [asdict(setting) for setting in settings.described()],
    }


def run(options: argparse.Namespace) -> None:
    """Run some experiments and write their figures."""
    from iclab import catalog
    from iclab.cli import deciding

    started = time.perf_counter()
    deciding.check_options(options)
    ids = dict.fromkeys(catalog.find(id_).id for id_ in options.ids)  # each once
    rounds: dict[str, Any] = {}
    if options.until_decided:
        outcomes, rounds = deciding.compute(_editions(ids, options), options)
    else:
        outcomes = _compute(ids, options)
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    figures = [outcome.write(Path(options.out)) for outcome in outcomes]
    if options.json:
        documents = _documents(outcomes, figures)
        for document in documents if rounds else ():
            document["rounds"] = deciding.documents(rounds[document["id"]])
        _print_json(seconds | (documents[0] if len(ids) == 1 else {"experiments": documents}))
        return
    _print_outcomes(outcomes)
    for line in (line for mine in rounds.values() for line in deciding.summary(mine)):
        print(line)
    for figure in figures:
        print(f"open {figure.resolve()}")


def reproduce(options: argparse.Namespace) -> None:
    """Run every experiment and write the report."""
    from iclab import catalog

    started = time.perf_counter()
    outcomes = _compute(catalog.experiments(), options)
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    page, content = _write_report(options, outcomes)
    if options.json:
        figures = [outcome.picture(Path(options.out)) for outcome in outcomes]
        chance = {"wrong_by_chance": content.wrong_by_chance.record()}
        _print_json(seconds | {"report": str(page), **chance, "experiments": _documents(outcomes, figures)})
        return
    _print_outcomes(outcomes)
    _print_report(page, content)


def report(options: argparse.Namespace) -> None:
    """Write the report of everything in a store."""
    page, content = _write_report(options)
    if not content.cells:
        print(f"iclab: store = {options.store}: has no results with the usual settings", file=sys.stderr)
    if options.json:
        chance = content.wrong_by_chance.record()
        _print_json({"report": str(page), "claims": dict(content.verdicts), "wrong_by_chance": chance})
    else:
        _print_report(page, content)


def show(options: argparse.Namespace) -> None:
    """Draw an experiment from the store: what was asked for, or the quick edition if the store has more of it."""
    from iclab import catalog
    from iclab.lab import Store
    from iclab.study.edition import fullest

    started = time.perf_counter()
    experiment, store = catalog.find(options.id), Store(options.store)
    wanted = _edition(experiment, options)
    options.quick = True
    outcome = fullest((wanted, _edition(experiment, options)), store) or wanted.outcome(store)
    if outcome.settings != wanted.settings:
        print("iclab: the store has more of the quick edition; showing that one", file=sys.stderr)
    if not outcome.complete:
        print(f"iclab: {experiment.id} has not been run completely; showing what there is", file=sys.stderr)
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    figure = outcome.write(Path(options.out))
    if options.json:
        _print_json(seconds | _documents([outcome], [figure])[0])
        return
    _print_outcomes([outcome])
    print(f"open {figure.resolve()}")


def train(options: argparse.Namespace) -> None:
    """Train a model of the user's choice and measure it."""
    from iclab.cli.tables import print_training
    from iclab.cli.training import read_request, train_and_measure
    from iclab.lab import Store

    request = read_request(options)
    if options.save:
        _check_writable(Path(options.save).absolute().parent, "save", options.save)
    if options.verbose:
        _print_engines([request.training()])
    save = Path(options.save) if options.save else None
    result = train_and_measure(request, Store(options.store), options.workers, save)
    if options.json:
        _print_json(result)
    else:
        print_training(result)


def predict(options: argparse.Namespace) -> None:
    """Say what the theorems require and predict, without training."""
    from iclab.cli.predicting import document, print_predictions, read_predictions

    found = read_predictions(options)
    if options.json:
        _print_json(document(found))
    else:
        print_predictions(found)


def bench(options: argparse.Namespace) -> None:
    """Time the engines."""
    from iclab.bench import bench
    from iclab.cli.tables import print_bench
    from iclab.config import InputError

    if options.threads is not None and options.threads < 1:
        raise InputError(f"threads = {options.threads}: must be at least 1")
    result = bench(options.threads, lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        _print_json(result)
    else:
        print_bench(result)


COMMANDS = {command.__name__: command for command in (experiments, run, reproduce, report, show, train, predict, bench)}


# Shared by the commands.


def _edition(experiment: Experiment[Any], options: argparse.Namespace) -> Edition:
    """Return the experiment with the settings that the options ask for."""
    from iclab.study.edition import Edition

    base = experiment.settings().quick() if options.quick else experiment.settings()
    changes: dict[str, Any] = {}
    for key, value in read_pairs(getattr(options, "set", [])).items():
        name, dot, entry = key.partition(".")
        if dot and isinstance(getattr(base, name, None), dict):  # one entry of a table, such as step_sizes.deep-mamba
            changes[name] = {**changes.get(name, getattr(base, name)), entry: value}
        else:
            changes[key] = value
    if options.seeds is not None:
        changes["seeds"] = options.seeds
    if getattr(options, "engine", None):
        changes["engine"] = options.engine
    return Edition(experiment, base.replace(**changes))  # changes override the quick edition


def _editions(ids: Iterable[str], options: argparse.Namespace) -> list[Edition]:
    """Return the experiments with the settings that the options ask for, after a look at where results go."""
    from iclab import catalog

    _check_writable(Path(options.out), "out", options.out)
    editions = [_edition(catalog.find(id_), options) for id_ in ids]
    if getattr(options, "verbose", False):
        _print_engines([cell.training.training for edition in editions for cell in edition.cells])
    return editions


def _compute(ids: Iterable[str], options: argparse.Namespace) -> list[Outcome]:
    """Compute the missing cells of some experiments together, and return their outcomes."""
    from iclab import lab

    editions, store = _editions(ids, options), lab.Store(options.store)
    cells = [cell for edition in editions for cell in edition.cells]
    title = editions[0].experiment.id if len(editions) == 1 else "iclab"
    lab.run(cells, store, workers=options.workers, title=title)
    return [edition.outcome(store) for edition in editions]


def _write_report(options: argparse.Namespace, outcomes: Iterable[Outcome] = ()) -> tuple[Path, Content]:
    """Write the report of a store, with the given outcomes in place of the store's fullest ones."""
    from rich.console import Console

    from iclab.lab import Store
    from iclab.report import write

    out = Path(options.out)
    _check_writable(out, "out", options.out)
    given = {outcome.experiment.id: outcome for outcome in outcomes}
    with Console(stderr=True).status("writing the report") as status:  # shown on terminals only
        return write(Store(options.store), out, lambda text: status.update(f"writing the report: {text}"), given)


def _check_writable(folder: Path, field: str, value: str) -> None:
    """Refuse a place that results cannot be written to, before they are computed."""
    from iclab.config import InputError

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{field} = {value}: cannot be written; {folder} is not a writable directory")


def _documents(outcomes: list[Outcome], figures: list[Path]) -> list[dict[str, Any]]:
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


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False))


def _print_outcomes(outcomes: list[Outcome]) -> None:
    from iclab.cli.tables import print_outcome, print_verdicts

    for outcome in outcomes:
        print_outcome(outcome)
    print_verdicts([claim for outcome in outcomes for claim in outcome.claims])


def _print_report(page: Path, content: Content) -> None:
    """Print how many claims have each verdict, how many are wrong by chance, and where the page is."""
    for ours, whose in ((False, "claims of the papers"), (True, "questions of iclab's own")):
        counts = content.counted(ours=ours)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        print(f"{counts.total()} {whose}: {verdicts}")
    print(content.wrong_by_chance.sentences())
    print(f"open {page.resolve()}")


def _print_engines(trainings: list[Training]) -> None:
    """Print on standard error which engine each training runs on, and why."""
    from iclab.engines import faster_obstacle

    for label, engine, obstacle in dict.fromkeys((t.model.label, t.engine, faster_obstacle(t)) for t in trainings):
        reason = f" ({obstacle})" if obstacle else " (as asked)" if engine == "reference" else ""
        print(f"iclab: {label} runs on the {engine} engine{reason}", file=sys.stderr)
