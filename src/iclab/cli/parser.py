"""The words of the command line: what can be said, the help that teaches it, and values out of words."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from typing import Any

from iclab._version import __version__

DESCRIPTION = """\
A laboratory for in-context learning: train many seeds of small models on synthetic prompts, corrupt the
examples, look inside, and compare what is measured with what the papers and their theorems say."""

EXAMPLES = """\
examples:
  iclab reproduce --quick             everything there is, in some ten minutes, with verdicts and a report
  iclab experiments                   what can be run
  iclab experiments M-tab1            what the paper claims of it, and the settings iclab had to choose
  iclab run M-fig2                    one figure, 16 seeds
  iclab run M-fig2 --set test_outlier_scale=2 --set train_tasks=ring:1
                                      the same with other settings than the ones iclab chose
  iclab show M-fig2                   draw it again from the store, without training
  iclab report                        one page of everything that has been run
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
  iclab train --model softmax-mlp --tasks ring:1 --label-dimension 30 --steps 600 --set pruning.rate=0.3
  iclab train --model classical --set model.options.learner=3-nn --steps 0 --relevant-fraction 0.8

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
    "signal": ("signal", "S's λ, uniform between two numbers: '[0.3,1.0]'"),
    "noise": ("noise", "S's τ, the radius of the ball that noise is drawn from"),
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


def parser() -> argparse.ArgumentParser:
    """Build the parser; the name of the chosen command is left in ``command``."""
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    whole = argparse.ArgumentParser("iclab", description=DESCRIPTION, epilog=EXAMPLES, **form)
    whole.add_argument("--version", action="version", version=f"iclab {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, brief: str, epilog: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=brief, description=brief[0].upper() + brief[1:] + ".", epilog=epilog, **form
        )
        sub.set_defaults(command=name)
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
        sub.add_argument("--engine", help="fused, compact or reference (default: the fastest that applies)")
        sub.add_argument("--verbose", action="store_true", help="say which engine runs, and why not a faster one")

    def has_settings(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--quick", action="store_true", help="the quick edition: one group of 8 seeds, fewer points")
        sub.add_argument("--seeds", metavar="N", type=int, help="how many training seeds")
        sub.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")

    def draws(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--out", metavar="DIR", default="results", help="where figures go (default: results)")

    listing = command(
        "experiments",
        "list the experiments; with ids, their claims and settings",
        "examples:\n  iclab experiments                 what there is\n"
        "  iclab experiments M-tab1          what it claims, and its settings: the paper's, and those iclab chose\n"
        "  iclab experiments --json | python -m json.tool",
    )
    listing.add_argument("ids", metavar="ID", nargs="*", help="such as M-tab1")

    run = command("run", "run experiments: compute what is missing, draw, judge", RUN_EXAMPLES)
    run.add_argument("ids", metavar="ID", nargs="+", help="such as M-fig2; several share their work")
    computes(run)
    has_settings(run)
    chooses_engine(run)
    draws(run)

    reproduce = command(
        "reproduce",
        "run every experiment there is, and make the report",
        "examples:\n  iclab reproduce --quick           one group of 8 seeds, fewer points: some ten minutes\n"
        "  iclab reproduce                   the full edition, 16 seeds: five hours on two cores, three\n"
        "                                    of them sensitivity; after Ctrl-C the same command goes on",
    )
    computes(reproduce)
    reproduce.add_argument("--quick", action="store_true", help="the quick edition of each")
    reproduce.add_argument("--seeds", metavar="N", type=int, help="how many training seeds")
    draws(reproduce)

    report = command(
        "report",
        "make the report: one page of all experiments that a store holds",
        "examples:\n  iclab report                      results/index.html, and every figure, table and number\n"
        "  iclab report --store elsewhere --out pages",
    )
    uses_store(report)
    report.add_argument("--out", metavar="DIR", default="results", help="where it goes (default: results)")

    show = command(
        "show",
        "draw an experiment again from the store, without any training",
        "examples:\n  iclab show M-fig2\n  iclab show M-fig2 --quick --out elsewhere\n"
        "  iclab show M-fig2 --set counting=exact    what was run with that setting",
    )
    show.add_argument("id", metavar="ID", help="such as M-fig2")
    uses_store(show)
    has_settings(show)
    chooses_engine(show)
    draws(show)

    train = command("train", "train any model on any prompts, and measure it", TRAIN_EXAMPLES)
    train.add_argument("file", metavar="FILE", nargs="?", help="a TOML file; flags override it")
    built_in = "mamba, linear, softmax, deep-mamba, deep-linear, deep-softmax, softmax-mlp, gpt2, classical (0 steps)"
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
        "--probe",
        action="append",
        help="error, attention, gates, tokens (with few --test-prompts); vote, attended (yardsticks); "
        "alignment, norms, neurons, parts (of weights)",
    )
    train.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of the TOML file")
    train.add_argument("--save", metavar="FILE", help="write the weights (safetensors)")
    computes(train)

    bench = command(
        "bench",
        "time the engines beside the loops people write, in one run",
        "examples:\n  iclab bench                       some minutes; close other programs\n"
        "  iclab bench --threads 1 --json",
    )
    bench.add_argument("--threads", metavar="N", type=int, help="threads for every engine (default: all)")
    return whole


def pairs(words: list[str]) -> dict[str, Any]:
    """Read KEY=VALUE words; a value is TOML or JSON if it can be, else text."""
    from iclab.config import InputError  # which loads pydantic: help need not wait for it

    found = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InputError(f"--set {word}: must be KEY=VALUE")
        found[key.strip()] = value_of(text.strip())
    return found


def value_of(text: str) -> Any:
    """Read one value."""
    for read in (lambda: tomllib.loads(f"value = {text}")["value"], lambda: json.loads(text)):
        try:
            return read()
        except ValueError:
            continue
    return text
