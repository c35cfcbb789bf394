"""For those who begin: ``iclab`` without a command, and ``iclab completion`` for the Tab key."""

from __future__ import annotations

import argparse

from iclab.cli.help import BEGIN
from iclab.cli.parser import parser


def begin(options: argparse.Namespace) -> None:
    """Say where to begin, to those who name no command."""
    print(BEGIN)


def completion(options: argparse.Namespace) -> None:
    """Print what a shell needs to complete commands, flags, experiments and models."""
    print(script(options.shell))


def script(shell: str) -> str:
    """Return the completion script for a shell, made from the parser by shtab."""
    from iclab.config import InputError

    try:
        import shtab
    except ImportError:
        raise InputError("completion: needs the package shtab; `pip install shtab`") from None
    from iclab import catalog
    from iclab.models import MODELS

    whole, experiments = parser(), list(catalog.experiments())
    known = {"ids": experiments, "id": experiments, "what": list(MODELS)}
    for command in _commands(whole):
        for action in command._actions:
            action.choices = known.get(action.dest, action.choices)
            action.help = (
                (action.help or "").split(";")[0].replace("{models}", "a model").replace("{probes}", "a probe")
            )
    return shtab.complete(whole, shell)


def _commands(whole: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parser of every command, and of every action of a command."""
    found = []
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                found += [command, *_commands(command)]
    return found
