"""The commands: each reads its options, calls the package and prints."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab.cli.auditing import audit, export, verify
from iclab.cli.executing import executor
from iclab.cli.guiding import begin, completion
from iclab.cli.printing import documents, print_engines, print_json, print_outcomes, print_report
from iclab.cli.values import check_model_word, check_writable, read_pairs

if TYPE_CHECKING:
    from iclab.lab.upkeep import ReadingStore
    from iclab.report import Content
    from iclab.study.edition import Edition
    from iclab.study.experiment import Experiment
    from iclab.study.outcome import Outcome

# Imports are local: a command loads only what it uses.


def experiments(options: argparse.Namespace) -> None:
    """List experiments, or describe the ones that are named."""
    from iclab import catalog
    from iclab.cli.tables import print_experiment_list, print_experiments
    from iclab.config import InputError
    from iclab.lab import Store

    problems: list[str] = []
    if options.ids:
        found = _named(options.ids, options)
    else:
        mine, problems = catalog.own(options.experiments, Store(options.store).records())
        found = [*catalog.experiments().values(), *mine.values()]
    listed = []
    for experiment in found:
        try:
            listed.append(_description(experiment))
        except InputError as error:  # in the list, one that is broken does not hide the others
            if options.ids:
                raise
            problems.append(str(error))
    for line in problems:
        print(f"iclab: {line}", file=sys.stderr)
    if options.json:
        print_json({"experiments": listed})
    elif options.ids:
        print_experiments(listed)
    else:
        print_experiment_list(listed)


def _description(experiment: Experiment[Any]) -> dict[str, Any]:
    from iclab.study.edition import Edition

    settings = experiment.settings()
    return {
        "id": experiment.id,
        "own": experiment.own,
        "run as": experiment.address,
        "title": experiment.title,
        "paper": experiment.paper,
        "evidence": settings.evidence,
        "claims": [
            {"id": claim.id, "paper": claim.statement, "predicate": claim.tested}
            for claim in Edition(experiment, settings).claims
        ],
        "settings": [asdict(setting) for setting in settings.described()],
    }


def run(options: argparse.Namespace) -> None:
    """Run some experiments and write their figures."""
    from iclab.cli import deciding
    from iclab.study.charts.painting import Painter

    started = time.perf_counter()
    deciding.check_options(options)
    found = _named(options.ids, options)
    rounds: dict[str, Any] = {}
    with Painter() as painter:
        if options.until_decided:
            outcomes, rounds = deciding.compute(_editions(found, options), options)
        else:
            outcomes = _compute(found, options, lambda event: painter.ready())  # while cells are computed
        seconds = {"seconds": round(time.perf_counter() - started, 3)}
        figures = [outcome.write(Path(options.out), painter) for outcome in outcomes]
    if options.json:
        printed = documents(outcomes, figures)
        for document in printed if rounds else ():
            document["rounds"] = deciding.documents(rounds[document["id"]])
        print_json(seconds | (printed[0] if len(found) == len(printed) == 1 else {"experiments": printed}))
        return
    print_outcomes(outcomes)
    for line in (line for mine in rounds.values() for line in deciding.summary(mine)):
        print(line)
    for figure in figures:
        print(f"open {figure.resolve()}")


def reproduce(options: argparse.Namespace) -> None:
    """Run every experiment and write the report."""
    from iclab import catalog

    started = time.perf_counter()
    outcomes = _compute(_possible(catalog.experiments().values(), options), options)
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    page, content = _write_report(options, outcomes)
    if options.json:
        figures = [outcome.picture(Path(options.out)) for outcome in outcomes]
        chance = {"wrong_by_chance": content.wrong_by_chance.record()}
        print_json(seconds | {"report": str(page), **chance, "experiments": documents(outcomes, figures)})
        return
    print_outcomes(outcomes)
    print_report(page, content)


def report(options: argparse.Namespace) -> None:
    """Write the report of everything in a store."""
    page, content = _write_report(options)
    if not content.cells:
        print(f"iclab: store = {options.store}: has no results", file=sys.stderr)
    for line in content.problems:
        print(f"iclab: {line}", file=sys.stderr)
    if options.json:
        counts = {"claims": dict(content.verdicts), "questions": dict(content.counted("iclab"))}
        own = {"yours": dict(content.counted("yours")), "variants": content.variants}
        print_json({"report": str(page), **counts, **own, "wrong_by_chance": content.wrong_by_chance.record()})
    else:
        print_report(page, content)


def playground(options: argparse.Namespace) -> None:
    """Write the page that trains models in the browser."""
    from iclab.playground import write

    page = write(Path(options.out))
    if options.json:
        print_json({"playground": str(page)})
    else:
        print(f"open {page}")


def show(options: argparse.Namespace) -> None:
    """Draw an experiment from the store: what was asked for, or the quick edition if the store has more of it."""
    from iclab.lab.upkeep import ReadingStore
    from iclab.study.edition import fullest

    started = time.perf_counter()
    (experiment,), store = _named([options.id], options), ReadingStore(options.store)
    wanted = _edition(experiment, options)
    options.quick = True
    try:
        outcome = fullest((wanted, _edition(experiment, options)), store) or wanted.outcome(store)
    finally:
        _name_bad_entries(store)
    if outcome.settings != wanted.settings:
        print("iclab: the store has more of the quick edition; showing that one", file=sys.stderr)
    if not outcome.complete:
        print(f"iclab: {experiment.id} has not been run completely; showing what there is", file=sys.stderr)
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    figure = outcome.write(Path(options.out))
    if options.json:
        print_json(seconds | documents([outcome], [figure])[0])
        return
    print_outcomes([outcome])
    print(f"open {figure.resolve()}")


def train(options: argparse.Namespace) -> None:
    """Train a model of the user's choice and measure it."""
    from iclab.cli.tables import print_training
    from iclab.cli.training import read_request, train_and_measure
    from iclab.lab import Store

    check_model_word(options.what)
    request = read_request(options)
    if options.save:
        check_writable(Path(options.save).absolute().parent, "save", options.save)
    if options.verbose:
        print_engines([request.training()])
    save = Path(options.save) if options.save else None
    with executor(options) as where:
        result = train_and_measure(request, Store(options.store), where, save)
    if options.json:
        print_json(result)
    else:
        print_training(result)


def predict(options: argparse.Namespace) -> None:
    """Say what the theorems require and predict, without training."""
    from iclab.cli.predicting import document, print_predictions, read_predictions

    found = read_predictions(options)
    if options.json:
        print_json(document(found))
    else:
        print_predictions(found)


def encode(options: argparse.Namespace) -> None:
    """Turn labelled sentences into vectors."""
    from iclab.cli import encoding

    found = encoding.encode(options)
    if options.json:
        print_json(found)
    else:
        encoding.print_encoded(found, options.file)


def bench(options: argparse.Namespace) -> None:
    """Time the engines."""
    from iclab.bench import bench, page
    from iclab.bench.executors import overheads
    from iclab.cli.tables import print_bench
    from iclab.config import InputError

    if options.threads is not None and options.threads < 1:
        raise InputError(f"threads = {options.threads}: must be at least 1")
    if options.executors and options.only:
        raise InputError(f"only = {options.only}: is for the engines; --executors has one sweep")

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if options.executors:
        rows = overheads(options.threads or os.cpu_count() or 1, tell, ray=options.ray)
        result, tables = {"executors": rows}, [page.executors(rows)]
    else:
        result = bench(options.threads, tell, options.only)
        tables = page.tables(result)
    if options.json:
        print_json(result)
    elif options.markdown:
        print(page.markdown(tables))
    else:
        print_bench(tables)


def store(options: argparse.Namespace) -> None:
    """Look after a store."""
    from iclab.cli.storing import ACTIONS, print_document

    found = ACTIONS[options.action](options)
    if options.json:
        print_json(found)
    else:
        print_document(options.action, found)


def score(options: argparse.Namespace) -> None:
    """Score a model and write its card, or compare two cards."""
    from iclab.cli.scoring import run_score

    run_score(options)


COMMANDS = {
    command.__name__: command
    for command in (
        *(experiments, run, reproduce, report, playground, show, train, score, predict, encode, bench, store),
        *(audit, export, verify, begin, completion),
    )
}


# Shared by the commands.


def _named(names: Iterable[str], options: argparse.Namespace) -> list[Experiment[Any]]:
    """Return the experiments that are named, each once."""
    from iclab import catalog
    from iclab.config import InputError
    from iclab.lab import Store

    records = Store(options.store).records()
    found: dict[str, Experiment[Any]] = {}
    for name in names:
        experiment = catalog.find(name, options.experiments, records)
        if found.setdefault(experiment.id.lower(), experiment).address != experiment.address:
            raise InputError(f"id = {experiment.id!r} of {name}: two experiments have it; choose another")
    return list(found.values())


def _edition(experiment: Experiment[Any], options: argparse.Namespace) -> Edition:
    """Return the experiment with the settings that the options ask for."""
    from iclab.study.edition import Edition

    base = experiment.settings().quick() if options.quick else experiment.settings()
    changes = read_pairs(getattr(options, "set", []))
    if options.seeds is not None:
        changes["seeds"] = options.seeds
    if getattr(options, "engine", None):
        changes["engine"] = options.engine
    changes |= {name: value for name, value in _text_options(options).items() if name in type(base).model_fields}
    return Edition(experiment, base.changed(changes))  # changes override the quick edition


def _text_options(options: argparse.Namespace) -> dict[str, str]:
    """Return the options that say where sentences come from and what encodes them."""
    given = {name: getattr(options, name, None) for name in ("text_data", "encoder")}
    return {name: value for name, value in given.items() if value is not None}


def _possible(found: Iterable[Experiment[Any]], options: argparse.Namespace) -> list[Experiment[Any]]:
    """Leave out experiments that this machine lacks something for, with a line about each."""
    kept = []
    for experiment in found:
        if why := experiment.obstacle(_edition(experiment, options).settings):
            print(f"iclab: {experiment.id} is left out: {why}", file=sys.stderr)
        else:
            kept.append(experiment)
    return kept


def _editions(found: Iterable[Experiment[Any]], options: argparse.Namespace) -> list[Edition]:
    """Return the experiments with the settings that the options ask for, after a look at where results go."""
    from iclab.config import InputError

    check_writable(Path(options.out), "out", options.out)
    found = list(found)
    for name, value in _text_options(options).items():
        if not any(name in experiment.settings.model_fields for experiment in found):
            ids = ", ".join(experiment.id for experiment in found)
            raise InputError(f"{name} = {value}: is for experiments with sentences, and {ids} has none")
    editions = [_edition(experiment, options) for experiment in found]
    if getattr(options, "verbose", False):
        print_engines([cell.training.training for edition in editions for cell in edition.cells])
    return editions


def _compute(
    found: Iterable[Experiment[Any]], options: argparse.Namespace, *listeners: Callable[[Any], None]
) -> list[Outcome]:
    """Compute the missing cells of some experiments together, and return their outcomes.

    If some cells could not be computed, ``options.failed`` is the error to end with, after the rest is shown.
    """
    from iclab.lab import Store
    from iclab.lab.retries import CellsFailedError
    from iclab.study.records import compute

    editions, store = _editions(found, options), Store(options.store)
    try:
        with executor(options) as where:
            return compute(editions, store, executor=where, listeners=listeners)
    except CellsFailedError as error:
        options.failed = error
        return [edition.outcome(store) for edition in editions if any(map(store.has, edition.cells))]


def _write_report(options: argparse.Namespace, outcomes: Iterable[Outcome] = ()) -> tuple[Path, Content]:
    """Write the report of a store, with the given outcomes in place of the store's fullest ones."""
    from rich.console import Console

    from iclab.lab.progress import LINE_EVERY
    from iclab.lab.upkeep import ReadingStore
    from iclab.playground import write as write_playground
    from iclab.report import write

    out = Path(options.out)
    check_writable(out, "out", options.out)
    write_playground(out)  # before the report, which links to it
    given = {outcome.experiment.id: outcome for outcome in outcomes}
    folder = getattr(options, "experiments", None)
    console, last, store = Console(stderr=True), time.monotonic(), ReadingStore(options.store)
    with console.status("writing the report") as status:  # shown on terminals only

        def tell(text: str) -> None:
            nonlocal last
            status.update(f"writing the report: {text}")
            if not console.is_terminal and time.monotonic() > last + LINE_EVERY:
                last = time.monotonic()
                print(f"iclab: writing the report: {text}", file=sys.stderr, flush=True)

        written = write(store, out, tell, given, folder)
    _name_bad_entries(store)
    return written


def _name_bad_entries(store: ReadingStore) -> None:
    for line in store.bad.values():
        print(f"iclab: {line}; left out here", file=sys.stderr)
