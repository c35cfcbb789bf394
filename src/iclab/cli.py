"""The command line. Thin: it reads words, calls the rooms, and prints."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import tomllib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclab._version import __version__

if TYPE_CHECKING:
    from iclab.engines import Training
    from iclab.experiments.outcome import Outcome
    from iclab.experiments.settings import Settings

DESCRIPTION = """\
A laboratory for in-context learning: train many seeds of small models on synthetic prompts, corrupt the
examples, look inside, and compare what is measured with what the papers and their theorems say."""

EXAMPLES = """\
examples:
  iclab reproduce --quick             everything there is, in some five minutes, with verdicts
  iclab experiments                   what can be run
  iclab experiments M-tab1            what the paper claims of it, and the settings iclab had to choose
  iclab run M-fig2                    one figure, 16 seeds
  iclab run M-fig2 --set test_outlier_scale=2 --set train_tasks=ring:1
                                      the same with other settings than the ones iclab chose
  iclab show M-fig2                   draw it again from the store, without training
  iclab train --model mamba --tasks ring:3 --outlier-fraction 0.6 \\
              --test-outlier-fraction 0.7 --test-outlier-labels flip

Finished work is kept in a store (results/store, or --store, or $ICLAB_STORE) and never computed twice.
After Ctrl-C, the same command goes on where it stopped."""

RUN_EXAMPLES = """\
examples:
  iclab run M-fig2 --quick                    8 seeds, fewer points
  iclab run M-fig2 --seeds 24 --workers 4     more seeds; those already there are not trained again
  iclab run M-fig2 --set counting=exact       exactly α·l outliers in each prompt
  iclab run M-fig2 --set 'models=["mamba","linear","softmax"]'
  iclab run M-tab1 M-tab3 M-cq-training       several at once: what they share is trained once
  iclab run M-tab1 --set step_sizes.deep-mamba=0.1
  iclab run M-fig2 --set 'models=["mamba","my_package.my_module:Mine"]' --set step_sizes.my_package.my_module:Mine=0.3
  iclab run M-fig2 --json > fig2.json         rows and verdicts for a program

`iclab experiments ID` lists the settings that --set takes."""

TRAIN_EXAMPLES = """\
examples:
  iclab train --model linear --step-size 0.05 --steps 500 --seeds 8
  iclab train --model my_package.my_module:MyAttention --optimizer adam --step-size 0.01
  iclab train my_training.toml --seeds 16 --json
  iclab train --model mamba --outlier-fraction 0.6 --probe gates --set recipe.clip=1.0

a TOML file says the same, and more (any key of it can also be given with --set):
  model = "mamba"
  seeds = 16
  [prompts]
  tasks = "ring:3"                  # all, ring:U, unseen:ring:U, or pairs such as 0-1,1-2,2-0
  outliers = {fraction = 0.6, scale = 2.0}
  [recipe]
  step_size = 1.0
  [test.flipped]                    # as the training prompts, but for what is said here
  tasks = "all"
  outliers = {fraction = 0.7, scale = 6.0, labels = "flip", patterns = "paper"}"""

# Flags of `iclab train` and the keys they stand for; those of prompts exist for tests too (--test-…).
PROMPT_FLAGS = {
    "dimension": ("patterns.dimension", "d, the length of an input"),
    "relevant": ("patterns.relevant", "M1, the number of relevant patterns"),
    "irrelevant": ("patterns.irrelevant", "M2, the number of irrelevant patterns"),
    "label-dimension": ("label_dimension", "d_Y: labels are ±q in so many dimensions (default: the number ±1)"),
    "outlier-pattern-count": ("patterns.outlier", "V, the number of outlier patterns"),
    "tasks": ("tasks", "all, ring:U, unseen:ring:U, or pairs such as 0-1,1-2,2-0"),
    "context-length": ("context_length", "l, examples in a prompt"),
    "relevant-fraction": ("relevant_fraction", "T's α: how many examples carry one of the task's two patterns"),
    "irrelevant-scale": ("irrelevant_scale", "K, with κ ~ U(−K, K)"),
    "outlier-fraction": ("outliers.fraction", "probability that an example is an outlier"),
    "outlier-count": ("outliers.count", "exact number of outliers instead"),
    "outlier-scale": ("outliers.scale", "κ_a, how strong outliers are"),
    "outlier-labels": ("outliers.labels", "random, flip, target, or package.module:function"),
    "placement": ("outliers.placement", "random, farthest, closest, or package.module:function"),
    "outlier-patterns": ("outliers.patterns", "training, or paper (the three unseen mixtures of M)"),
}
RECIPE_FLAGS = {
    "steps": ("steps", "T, iterations"),
    "batch-size": ("batch_size", "B, fresh prompts an iteration"),
    "step-size": ("step_size", "η"),
    "optimizer": ("optimizer", "sgd, adam, adamw, …"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from pydantic import ValidationError

    from iclab.description import InputError, explain

    try:
        options.act(options)
    except ValidationError as error:
        return _refuse(explain(error))
    except InputError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("iclab: stopped; finished cells are kept, the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _refuse(message: str) -> int:
    print(f"iclab: {message}", file=sys.stderr)
    return 2


def _show_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
    print(f"iclab: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser("iclab", description=DESCRIPTION, epilog=EXAMPLES, **form)
    parser.add_argument("--version", action="version", version=f"iclab {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, act: Any, brief: str, epilog: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=brief, description=brief[0].upper() + brief[1:] + ".", epilog=epilog, **form
        )
        sub.set_defaults(act=act)
        sub.add_argument("--json", action="store_true", help="print one JSON document on standard output")
        return sub

    def uses_store(sub: argparse.ArgumentParser) -> None:
        default = os.environ.get("ICLAB_STORE", "results/store")
        sub.add_argument("--store", metavar="DIR", default=default, help=f"finished work (default: {default})")

    def computes(sub: argparse.ArgumentParser) -> None:
        uses_store(sub)
        text = "processes, or threads of the fused engine (default: all cores)"
        sub.add_argument("--workers", metavar="N", type=int, default=os.cpu_count() or 1, help=text)

    def chooses_engine(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--engine", help="fused or reference (default: fused where it applies)")
        sub.add_argument("--verbose", action="store_true", help="say which engine runs, and why not the fused one")

    def has_settings(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--quick", action="store_true", help="the quick edition: one group of 8 seeds, fewer points")
        sub.add_argument("--seeds", metavar="N", type=int, help="how many training seeds")
        sub.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")

    def draws(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--out", metavar="DIR", default="results", help="where figures go (default: results)")

    listing = command(
        "experiments",
        _experiments,
        "list the experiments; with ids, their claims and settings",
        "examples:\n  iclab experiments                 what there is\n"
        "  iclab experiments M-tab1          what it claims, and its settings: the paper's, and those iclab chose\n"
        "  iclab experiments --json | python -m json.tool",
    )
    listing.add_argument("ids", metavar="ID", nargs="*", help="such as M-tab1")

    run = command("run", _run, "run experiments: compute what is missing, draw, judge", RUN_EXAMPLES)
    run.add_argument("ids", metavar="ID", nargs="+", help="such as M-fig2; several share their work")
    computes(run)
    has_settings(run)
    chooses_engine(run)
    draws(run)

    reproduce = command(
        "reproduce",
        _reproduce,
        "run every experiment there is",
        "examples:\n  iclab reproduce --quick           one group of 8 seeds, fewer points\n"
        "  iclab reproduce                   the full edition; Ctrl-C and the same command go on where it stopped",
    )
    computes(reproduce)
    reproduce.add_argument("--quick", action="store_true", help="the quick edition of each")
    reproduce.add_argument("--seeds", metavar="N", type=int, help="how many training seeds")
    draws(reproduce)

    show = command(
        "show",
        _show,
        "draw an experiment again from the store, without any training",
        "examples:\n  iclab show M-fig2\n  iclab show M-fig2 --quick --out elsewhere\n"
        "  iclab show M-fig2 --set counting=exact    what was run with that setting",
    )
    show.add_argument("id", metavar="ID", help="such as M-fig2")
    uses_store(show)
    has_settings(show)
    chooses_engine(show)
    draws(show)

    train = command("train", _train, "train any model on any prompts, and measure it", TRAIN_EXAMPLES)
    train.add_argument("file", metavar="FILE", nargs="?", help="a TOML file; flags override it")
    built_in = "mamba, linear, softmax, deep-mamba, deep-linear, deep-softmax, softmax-mlp"
    train.add_argument("--model", help=f"{built_in}, or your own as package.module:Class")
    train.add_argument("--seeds", metavar="N", type=int, help="how many training seeds (default: 8)")
    for flag, (_, text) in (PROMPT_FLAGS | RECIPE_FLAGS).items():
        train.add_argument(f"--{flag}", metavar="X", help=text)
    for flag, (key, text) in PROMPT_FLAGS.items():
        if not key.startswith(("patterns.", "label_")):  # those are fixed by the training
            train.add_argument(f"--test-{flag}", metavar="X", help=f"in tests: {text}")
    train.add_argument("--test-prompts", metavar="N", type=int, help="test prompts for each seed (default: 10000)")
    train.add_argument("--dtype", help="float32 or float64")
    chooses_engine(train)
    train.add_argument(
        "--probe", action="append", help="error, attention, gates, or vote (a yardstick); repeatable (default: error)"
    )
    train.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of the TOML file")
    train.add_argument("--save", metavar="FILE", help="write the weights (safetensors)")
    computes(train)

    bench = command(
        "bench",
        _bench,
        "time the engines beside the loops people write, in one run",
        "examples:\n  iclab bench                       some minutes; close other programs\n"
        "  iclab bench --threads 1 --json",
    )
    bench.add_argument("--threads", metavar="N", type=int, help="threads for every engine (default: all)")
    return parser


# Settings from words.


def _pairs(words: list[str]) -> dict[str, Any]:
    """Read KEY=VALUE words; a value is TOML or JSON if it can be, else text."""
    from iclab.description import InputError

    found = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InputError(f"--set {word}: must be KEY=VALUE")
        found[key.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    for read in (lambda: tomllib.loads(f"value = {text}")["value"], lambda: json.loads(text)):
        try:
            return read()
        except ValueError:
            continue
    return text


def _settings(options: argparse.Namespace, kind: type[Settings]) -> Settings:
    base = kind().quick() if options.quick else kind()
    changes: dict[str, Any] = {}
    for key, value in _pairs(getattr(options, "set", [])).items():
        name, dot, inside = key.partition(".")
        if dot and isinstance(getattr(base, name, None), dict):  # one entry of a table, such as step_sizes.deep-mamba
            changes[name] = {**changes.get(name, getattr(base, name)), inside: value}
        else:
            changes[key] = value
    if options.seeds is not None:
        changes["seeds"] = options.seeds
    if getattr(options, "engine", None):
        changes["engine"] = options.engine
    return base.changed(**changes)  # what a person asks for wins over the edition


# The commands.


def _experiments(options: argparse.Namespace) -> None:
    from iclab.experiments import experiments, find
    from iclab.experiments.settings import Disclosed

    listed = []
    for experiment in map(find, options.ids or experiments()):
        settings = experiment.settings()
        values = settings.model_dump(mode="json")
        listed.append(
            {
                "id": experiment.id,
                "title": experiment.title,
                "paper": experiment.paper,
                "claims": [
                    {"id": c.id, "paper": c.paper, "predicate": c.predicate} for c in experiment.claims(settings)
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
    from iclab.printing import print_experiments

    print_experiments(listed, brief=not options.ids)


def _compute(ids: Iterable[str], options: argparse.Namespace, title: str) -> tuple[list[Outcome], float]:
    """Run what is missing of some experiments, all together, and collect their outcomes."""
    from iclab.experiments import find
    from iclab.experiments.outcome import Outcome
    from iclab.lab import Store, run

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
    from iclab.description import InputError

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{field} = {value}: cannot be written; {folder} is not a writable directory")


def _tell_engines(trainings: list[Training]) -> None:
    """Say on standard error which engine each training runs on, and why."""
    from iclab.engines import fused_obstacle

    for training in dict.fromkeys((t.model.label, t.engine, fused_obstacle(t)) for t in trainings):
        label, engine, obstacle = training
        reason = f" ({obstacle})" if obstacle else "" if engine == "fused" else " (as asked)"
        print(f"iclab: {label} runs on the {engine} engine{reason}", file=sys.stderr)


def _finish(outcomes: list[Outcome], seconds: float, options: argparse.Namespace, together: bool) -> None:
    """Write figures, then print tables for a person or one document for a program."""
    from iclab.printing import print_outcome, print_verdicts

    documents = []
    figures = []
    for outcome in outcomes:
        figures.append(outcome.write(Path(options.out)))
        documents.append(
            {
                "id": outcome.experiment.id,
                "complete": outcome.complete,
                "settings": outcome.settings.model_dump(mode="json"),
                "rows": outcome.rows,
                "claims": outcome.claims,
                "figure": str(figures[-1]),
            }
        )
    if options.json:
        took = {"seconds": round(seconds, 3)}
        print(json.dumps(took | ({"experiments": documents} if together else documents[0]), ensure_ascii=False))
        return
    for outcome in outcomes:
        print_outcome(outcome)
    print_verdicts([claim for outcome in outcomes for claim in outcome.claims])
    for figure in figures:
        print(f"open {figure.resolve()}")


def _run(options: argparse.Namespace) -> None:
    from iclab.experiments import find

    ids = list(dict.fromkeys(find(id_).id for id_ in options.ids))
    _finish(*_compute(ids, options, ids[0] if len(ids) == 1 else "iclab"), options, together=len(ids) > 1)


def _reproduce(options: argparse.Namespace) -> None:
    from iclab.experiments import experiments

    _finish(*_compute(experiments(), options, "iclab"), options, together=True)


def _show(options: argparse.Namespace) -> None:
    from iclab.experiments import find
    from iclab.experiments.outcome import Outcome
    from iclab.lab import Store

    started = time.perf_counter()
    experiment, store = find(options.id), Store(options.store)
    settings = _settings(options, experiment.settings)
    outcome = Outcome.of(experiment, settings, store)
    if not outcome.complete and not options.quick:
        options.quick = True
        quick = _settings(options, experiment.settings)
        if all(store.has(condition.cell) for condition in experiment.conditions(quick)):
            print("iclab: the store holds the quick edition only", file=sys.stderr)
            outcome = Outcome.of(experiment, quick, store)
    if not outcome.complete:
        print(f"iclab: not all of {experiment.id} has been run; showing what there is", file=sys.stderr)
    _finish([outcome], time.perf_counter() - started, options, together=False)


def _train(options: argparse.Namespace) -> None:
    from iclab.ad_hoc import Request, carry_out
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
            changes[f"prompts.{key}"] = _value(given[name])
        if given.get(f"test_{name}") is not None:
            changes[f"test.test.{key}"] = _value(given[f"test_{name}"])
    for flag, (key, _) in RECIPE_FLAGS.items():
        if given[flag.replace("-", "_")] is not None:
            changes[f"recipe.{key}"] = _value(given[flag.replace("-", "_")])
    request = Request.read(data, changes | _pairs(options.set))
    if options.save:
        _must_be_writable(Path(options.save).absolute().parent, "save", options.save)
    if options.verbose:
        _tell_engines([request.training()])
    result = carry_out(request, Store(options.store), options.workers, Path(options.save) if options.save else None)
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    from iclab.printing import print_training

    print_training(result)


def _bench(options: argparse.Namespace) -> None:
    from iclab.bench import bench
    from iclab.description import InputError

    if options.threads is not None and options.threads < 1:
        raise InputError(f"threads = {options.threads}: must be at least 1")
    result = bench(options.threads, lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    from iclab.printing import print_bench

    print_bench(result)


def _toml(path: Path) -> dict[str, Any]:
    from iclab.description import InputError

    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


if __name__ == "__main__":
    sys.exit(main())
