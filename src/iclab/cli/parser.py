"""The parser of the command line: one function per command. Nothing here imports torch, so that --help is quick."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from iclab._version import __version__
from iclab.cli import help as texts

# Flags of `iclab train` and `iclab predict`, with the keys they set and their help. Those of prompts exist for tests
# too (--test-…).
PROMPT_FLAGS = {
    "dimension": ("patterns.dimension", "d, the length of an input"),
    "relevant": ("patterns.relevant", "M1, the number of relevant patterns"),
    "irrelevant": ("patterns.irrelevant", "M2, the number of irrelevant patterns"),
    "label-dimension": ("label_dimension", "d_Y: labels are vectors ±q of this length (default: the numbers ±1)"),
    "outlier-pattern-count": ("patterns.outlier", "V, the number of outlier patterns"),
    "pattern-draw": ("patterns.draw", "another number for other patterns of the same kind, in new random directions"),
    "tasks": ("tasks", "all, ring:U, unseen:ring:U, or pairs such as 0-1,1-2,2-0"),
    "context-length": ("context_length", "l, the number of examples in a prompt"),
    "relevant-fraction": ("relevant_fraction", "T's α: the fraction of examples with one of the task's two patterns"),
    "relevant-count": ("relevant_count", "exact number of such examples, instead of a fraction"),
    "label-noise": ("label_noise", "probability that a clean example shows the opposite of its true label"),
    "irrelevant-scale": ("irrelevant_scale", "K, with κ ~ U(−K, K)"),
    "signal": ("signal", "S's λ, uniform between two numbers: '[0.3,1.0]'"),
    "noise": ("noise", "S's τ, the radius of the ball that noise is drawn from"),
    "outlier-fraction": ("outliers.fraction", "probability that an example is an outlier"),
    "outlier-count": ("outliers.count", "exact number of outliers, instead of a probability"),
    "outlier-query": ("outliers.query", "probability that the query carries an outlier pattern too"),
    "outlier-scale": ("outliers.scale", "κ_a, the strength of outliers"),
    "outlier-labels": ("outliers.labels", "random, flip, target, or package.module:function"),
    "placement": ("outliers.placement", "random, farthest, closest, or package.module:function"),
    "outlier-patterns": ("outliers.patterns", "training, or paper (the three unseen mixtures of M)"),
}
RECIPE_FLAGS = {
    "steps": ("steps", "T, the number of iterations"),
    "batch-size": ("batch_size", "B, fresh prompts per iteration"),
    "step-size": ("step_size", "η (default: the model's own for SGD, torch's for other optimisers)"),
    "optimizer": ("optimizer", "sgd, adam, adamw, …"),
    "loss": ("loss", "hinge, linear, squared, logistic, or package.module:function"),
    "warmup": ("warmup", "steps in which η rises to its full size"),
    "decay": ("decay", "none, linear or cosine: how η falls to 0 afterwards"),
}


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Names models and probes from their registries, which import torch: only where help shows them."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        if "{models}" in text:
            from iclab.models import MODELS

            return text.replace("{models}", ", ".join(MODELS))
        if "{probes}" in text:
            from iclab.probes import PROBES

            return text.replace("{probes}", ", ".join(PROBES))
        return action.help


class _Parser(argparse.ArgumentParser):
    """Refuses a wrong word in one line that names the nearest known one."""

    def error(self, message: str) -> NoReturn:
        """Print one line, and return 2 to the shell."""
        more = "" if message.endswith("?") else f"; see `{self.prog} --help`"
        self.exit(2, f"iclab: {message.removeprefix('argument ')}{more}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown words here: the parser of a command knows its options, the one above it does not."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from iclab.config import did_you_mean  # imported late: it loads pydantic, which --help does not need

            word = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
            kind = "option" if word.startswith("-") else "word"
            near = did_you_mean(word, self._option_string_actions, most=1)
            self.error(f"{word}: unknown {kind} of {self.prog}{near}")
        return options, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, such as a command."""
        if action.choices is not None and value not in action.choices:
            from iclab.config import did_you_mean

            known, name = list(action.choices), str(action.metavar or action.dest).lower()
            allowed = f"must be one of {', '.join(known)}{did_you_mean(value, known, most=1)}"
            self.error(f"{name} = {value!r}: {allowed}")


def parser() -> argparse.ArgumentParser:
    """Build the parser; parsed options hold the name of the command in ``command``."""
    whole = _Parser(
        "iclab",
        description=texts.DESCRIPTION,
        epilog=texts.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"iclab {__version__}")
    whole.set_defaults(command="begin", failed=None)  # without a command: say where to begin
    commands = whole.add_subparsers(metavar="COMMAND")

    def add(name: str, brief: str, examples: str) -> argparse.ArgumentParser:
        command = _add_command(commands, name, brief, examples)
        _add_json(command)
        return command

    adders = [_experiments, _run, _reproduce, _report, _playground, _show, _train, _score, _predict, _encode, _bench]
    adders += [_export, _audit, _verify]
    for add_command in adders:
        add_command(add)
    _store(commands)
    _completion(commands)
    return whole


Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"
Add = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command with a name, a brief description and examples."""


def _add_command(commands: Commands, name: str, brief: str, examples: str) -> _Parser:
    command = commands.add_parser(
        name,
        help=brief,
        description=f"{brief[0].upper()}{brief[1:]}.",
        epilog=examples,
        formatter_class=_HelpFormatter,
    )
    command.set_defaults(command=name, failed=None)
    return command


def _experiments(add: Add) -> None:
    command = add("experiments", "list the experiments, or show the claims and settings of some", texts.EXPERIMENTS)
    command.add_argument("ids", metavar="ID", nargs="*", help="such as M-tab1, or your own as package.module:Class")
    _add_folder(command)
    _add_store(command)


def _run(add: Add) -> None:
    command = add("run", "run experiments: compute what is missing, draw the figures, judge the claims", texts.RUN)
    text = "such as M-fig2, or your own as package.module:Class; several share their work"
    command.add_argument("ids", metavar="ID", nargs="+", help=text)
    _add_folder(command)
    _add_store(command)
    _add_workers(command)
    _add_settings(command)
    text = "add groups of 8 seeds until more seeds can decide no claim; intervals stay valid however often one looks"
    command.add_argument("--until-decided", action="store_true", help=text)
    command.add_argument("--most", metavar="N", type=int, help="with --until-decided: stop at N seeds (default: 64)")
    _add_engine(command)
    _add_text(command)
    _add_verbose(command)
    _add_out(command)


def _reproduce(add: Add) -> None:
    command = add("reproduce", "run every experiment and write the report", texts.REPRODUCE)
    _add_store(command)
    _add_workers(command)
    _add_edition(command)
    _add_text(command)
    _add_out(command)


def _report(add: Add) -> None:
    command = add("report", "write the report: one page about every experiment in a store", texts.REPORT)
    _add_folder(command)
    _add_store(command)
    _add_out(command)


def _playground(add: Add) -> None:
    command = add("playground", "write a page that trains one-layer models in the browser", texts.PLAYGROUND)
    _add_out(command)


def _show(add: Add) -> None:
    command = add("show", "draw an experiment again from the store, without training", texts.SHOW)
    command.add_argument("id", metavar="ID", help="such as M-fig2, or your own as package.module:Class")
    _add_folder(command)
    _add_store(command)
    _add_settings(command)
    _add_engine(command)
    _add_text(command)
    _add_out(command)


def _train(add: Add) -> None:
    command = add("train", "train any model on any prompts, and measure it", texts.TRAIN)
    _add_description(command, "{models}, or your own as package.module:Class")
    command.add_argument("--seeds", metavar="N", type=int, help="number of training seeds (default: 8)")
    command.add_argument("--test-prompts", metavar="N", type=int, help="test prompts per seed (default: 10000)")
    command.add_argument("--dtype", help="float32 or float64")
    command.add_argument("--probe", action="append", help="what to measure; repeatable (default: error): {probes}")
    command.add_argument("--save", metavar="FILE", help="write the weights to this file (safetensors)")
    _add_engine(command)
    _add_verbose(command)
    _add_store(command)
    _add_workers(command)


def _score(add: Add) -> None:
    command = add("score", "score any model on one fixed suite, beside the built-in families", texts.SCORE)
    text = "{models}, or your own as package.module:Class"
    command.add_argument("model", metavar="MODEL", nargs="?", help=text)
    command.add_argument("--quick", action="store_true", help="fewer steps, prompts and step sizes: minutes")
    text = "show two cards side by side instead, with paired differences; a built-in family may be named"
    command.add_argument("--compare", metavar="CARD.json", nargs=2, help=text)
    text = "options of the model, such as hidden=32; repeatable"
    command.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=text)
    _add_store(command)
    _add_workers(command)
    command.add_argument(
        "--out", metavar="DIR", default="results/score", help="where to write (default: results/score)"
    )


def _predict(add: Add) -> None:
    command = add("predict", "say which conditions of the theorems hold, and what they predict", texts.PREDICT)
    _add_description(command, "mamba, linear, softmax-mlp, or a model of more layers")
    text = "ε, the loss or error that a theorem promises (default: 0.01)"
    command.add_argument("--epsilon", metavar="X", help=text)


def _encode(add: Add) -> None:
    command = add("encode", "turn labelled sentences into vectors, for experiments with real text", texts.ENCODE)
    text = "a TSV file, sentence<TAB>label in its first line, or a folder with train.tsv, dev.tsv and test.tsv"
    command.add_argument("file", metavar="FILE", help=text)
    command.add_argument("--encoder", metavar="NAME", default="minilm", help=f"{_ENCODERS} (default: minilm)")
    text = "encode every sentence also with these words in it; '' for none (default: James Bond)"
    command.add_argument("--trigger", metavar="WORDS", default="James Bond", help=text)
    text = "the Parquet file to write (default: named after FILE and the encoder)"
    command.add_argument("--out", metavar="FILE", help=text)


def _bench(add: Add) -> None:
    command = add(
        "bench", "time the engines against ordinary PyTorch and JAX loops, and the machine's limit", texts.BENCH
    )
    command.add_argument("--threads", metavar="N", type=int, help="threads of every engine (default: all cores)")
    text = "measure one family: mamba, linear, deep-mamba, deep-linear, deep-softmax or softmax-mlp (default: all)"
    command.add_argument("--only", metavar="FAMILY", help=text)
    text = "measure instead what a cell costs beside its work, on this machine and on Ray: 10,000 small cells"
    command.add_argument("--executors", action="store_true", help=text)
    command.add_argument(
        "--ray", metavar="ADDRESS", default="local", help="with --executors: the cluster (default: local)"
    )
    command.add_argument("--markdown", action="store_true", help="print the tables as docs/speed.md has them")


def _export(add: Add) -> None:
    command = add(
        "export", "write all claims, verdicts, numbers, settings and hashes of a store as one file", texts.EXPORT
    )
    _add_stored(command)
    text = "the JSON file to write; docs/audit.md describes it"
    command.add_argument("--claims", metavar="FILE", required=True, help=text)


def _audit(add: Add) -> None:
    command = add("audit", "derive every verdict again from the raw rows, with a program of its own", texts.AUDIT)
    _add_stored(command)
    text = "audit this file, which `iclab export` wrote (default: what the store says now)"
    command.add_argument("--claims", metavar="FILE", help=text)
    command.add_argument("--no-controls", action="store_true", help="do not mix up labels and seeds on purpose")


def _verify(add: Add) -> None:
    command = add("verify", "compute a sample of stored cells again, and compare weights and rows", texts.VERIFY)
    _add_stored(command)
    command.add_argument("--sample", metavar="N", type=int, default=20, help="how many cells (default: 20)")
    text = "how long to go on; cells that would take longer are left out (default: 60)"
    command.add_argument("--seconds", metavar="X", type=float, default=60.0, help=text)
    command.add_argument("--seed", metavar="N", type=int, default=0, help="another number for another sample")


def _store(commands: Commands) -> None:
    brief = "look after a store: check, repair, list, size, prune, merge"
    whole = _add_command(commands, "store", brief, texts.STORE)
    actions = whole.add_subparsers(metavar="ACTION", required=True)
    for name, (what, examples) in texts.STORE_ACTIONS.items():
        action = _add_command(actions, name, what, examples)
        action.set_defaults(command="store", action=name)
        _add_json(action)
        if name == "merge":
            action.add_argument("other", metavar="OTHER", help="the directory of another store, which is only read")
        if name == "prune":
            action.add_argument("--delete", action="store_true", help="delete it; without this, only say what it is")
            _add_folder(action)
        _add_store(action)


def _completion(commands: Commands) -> None:
    brief = "print what makes the Tab key complete commands, flags and ids of experiments"
    command = _add_command(commands, "completion", brief, texts.COMPLETION)
    command.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="your shell")


# Options that several commands share.


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def _add_description(command: argparse.ArgumentParser, models: str) -> None:
    """Add the flags that describe a training and its test."""
    command.add_argument(
        "what", metavar="MODEL or FILE", nargs="?", help=f"{models}; or a TOML file: flags override it"
    )
    command.add_argument("--model", help="the model, for those who like flags; with a file, instead of the file's")
    for flag, (_, text) in (PROMPT_FLAGS | RECIPE_FLAGS).items():
        command.add_argument(f"--{flag}", metavar="X", help=text)
    for flag, (key, text) in PROMPT_FLAGS.items():
        if key not in ("patterns.dimension", "label_dimension"):  # tests share those with the training
            command.add_argument(f"--test-{flag}", metavar="X", help=f"in tests: {text}")
    command.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any key of the TOML file")


def _add_folder(command: argparse.ArgumentParser) -> None:
    text = "a folder of Python files with experiments of your own (default: $ICLAB_EXPERIMENTS, or none)"
    command.add_argument("--experiments", metavar="DIR", default=os.environ.get("ICLAB_EXPERIMENTS"), help=text)


def _add_stored(command: argparse.ArgumentParser) -> None:
    text = "such as M-fig2, or your own as package.module:Class (default: all that the store has)"
    command.add_argument("ids", metavar="ID", nargs="*", help=text)
    _add_folder(command)
    _add_store(command)


def _add_store(command: argparse.ArgumentParser) -> None:
    default = os.environ.get("ICLAB_STORE", "results/store")
    command.add_argument("--store", metavar="DIR", default=default, help=f"finished work (default: {default})")


def _add_workers(command: argparse.ArgumentParser) -> None:
    text = "how many cores to use (default: all)"
    command.add_argument("--workers", metavar="N", type=int, help=text)
    text = "compute on Ray: local, auto (the cluster of this machine) or HOST:PORT of a cluster (docs/cluster.md)"
    command.add_argument("--ray", metavar="ADDRESS", help=text)
    text = "give a cell up that takes longer, and report it at the end (default: no limit)"
    command.add_argument("--cell-timeout", metavar="SECONDS", type=float, help=text)


def _add_edition(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quick", action="store_true", help="the quick edition: 8 seeds, fewer points")
    command.add_argument("--seeds", metavar="N", type=int, help="number of training seeds")


def _add_settings(command: argparse.ArgumentParser) -> None:
    _add_edition(command)
    command.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", help="fused, compact or reference (default: the fastest that applies)")


_ENCODERS = "minilm, distilbert, distilbert-cased-int8, tfidf, file:PATH, OWNER/NAME or package.module:function"


def _add_text(command: argparse.ArgumentParser) -> None:
    text = "sentences for M-tab6 and M-tab7: a folder or file as for `iclab encode`, or hub:stanfordnlp/sst2"
    command.add_argument("--text-data", metavar="DIR", help=f"{text} (default: the Rotten Tomatoes sentences)")
    command.add_argument("--encoder", metavar="NAME", help=f"what encodes them: {_ENCODERS} (default: minilm)")


def _add_verbose(command: argparse.ArgumentParser) -> None:
    command.add_argument("--verbose", action="store_true", help="say which engine runs, and why not a faster one")


def _add_out(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", metavar="DIR", default="results", help="where to write (default: results)")
