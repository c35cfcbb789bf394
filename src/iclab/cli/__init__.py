"""The command line: `parser` reads the arguments, `commands` does the work, `tables` prints for people."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

from iclab.cli.parser import parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parser().parse_args(arguments)
    warnings.showwarning = _print_warning
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from pydantic import ValidationError  # imported late, so that --help is quick

    from iclab.cli.commands import COMMANDS
    from iclab.config import InputError, explain

    try:
        COMMANDS[options.command](options)
        if options.failed:
            raise options.failed
    except ValidationError as error:
        return _refuse(explain(error))
    except InputError as error:
        return _refuse(str(error), error.exit_code)
    except KeyboardInterrupt:
        kept = "" if options.command == "bench" else "; finished cells are kept, run the same command again to continue"
        print(f"iclab: stopped{kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of standard output, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _refuse(message: str, code: int = 2) -> int:
    print(f"iclab: {message}", file=sys.stderr)
    return code


def _print_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
    print(f"iclab: warning: {message}", file=sys.stderr)
